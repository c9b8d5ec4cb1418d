"""Many studies over a grid: cells, engines, a folder that survives interruptions, results and their report."""
