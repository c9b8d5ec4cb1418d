"""The analysis of a finished table of data, and the draws that a sequential study would have needed instead."""
