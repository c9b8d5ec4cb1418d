"""Experiments at any scale: the paper's tables, sweeps over many cells, results, figures and reports."""
