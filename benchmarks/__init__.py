"""Speed, as ratios in one run. `python -m benchmarks [NAME ...]` rewrites docs/appendix/benchmarks.md."""
