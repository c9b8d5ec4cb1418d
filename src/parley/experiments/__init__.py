"""Experiments at any scale: forecasts of a study, the paper's tables, sweeps over many cells, the demo."""
