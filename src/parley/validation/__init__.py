"""Validation of values that a user may have typed: the rules that every room shares."""
