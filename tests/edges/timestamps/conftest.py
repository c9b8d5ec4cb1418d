"""Databases as the tests of the coordinator have them."""

from tests.coordinator.conftest import database, storage

__all__ = ["database", "storage"]
