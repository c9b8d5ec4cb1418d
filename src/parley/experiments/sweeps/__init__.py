"""Sweeps, which simulate many studies over a grid: cells, engines, a results folder that survives interruptions,
results and their report.
"""
