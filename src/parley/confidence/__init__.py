"""What it takes to believe a difference: thresholds of confidence intervals."""
