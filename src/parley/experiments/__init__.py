"""Experiments at any scale: forecasts of a study, analyses, sweeps over many cells, the demo, and their reports."""
