"""Forecasts of the cost of a planned study, and of the phases that probably remain of a running study."""
