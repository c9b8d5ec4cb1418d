"""Durable and locked files, cached properties, classes of installed packages, and kill points for tests."""
