"""Coordinators and browsers as the tests of both have them."""

from tests.coordinator.conftest import database, house, sqlite_house, storage
from tests.dashboard.conftest import here

__all__ = ["database", "here", "house", "sqlite_house", "storage"]
