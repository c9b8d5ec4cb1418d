"""Validation of values that a user may have typed: the rules that all packages of Parley share."""
