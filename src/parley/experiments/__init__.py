"""Simulations and analyses: forecasts of a study, analyses of tables, sweeps over many cells, the demo, and reports."""
