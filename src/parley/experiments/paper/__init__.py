"""The tables of the paper again: as printed, as written, and what explains the difference."""
