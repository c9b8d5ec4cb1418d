"""Benchmarks: speed ratios within one run. `python -m benchmarks [NAME ...]` rewrites docs/appendix/benchmarks.md."""
