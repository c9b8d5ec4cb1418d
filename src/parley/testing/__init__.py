"""Helpers for tests: of this repository, of an installed server, and of packages that extend Parley."""
