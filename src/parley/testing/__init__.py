"""Shared by tests: this repository's, those of an installation, and suites for other packages."""
