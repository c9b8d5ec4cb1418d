"""Sweeps, which simulate many studies over a grid of settings.

The modules define cells, engines, a results folder that survives interruptions, and reports of the results.
"""
