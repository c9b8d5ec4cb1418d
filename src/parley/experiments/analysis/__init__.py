"""The analysis of a finished table of fixed size, and what a sequential study would have needed."""
