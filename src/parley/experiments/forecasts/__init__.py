"""Forecasts: what a study will cost before it is launched, and how much of a running study probably remains."""
