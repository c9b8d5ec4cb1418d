"""Shared by tests of an installation: this repository's, `parley qualify`, and suites for other packages."""
