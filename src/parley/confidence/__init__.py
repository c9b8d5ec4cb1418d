"""What it takes to believe a difference: evidence as wealth, over plain arrays."""
