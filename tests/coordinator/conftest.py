import shutil

import pytest
from tests.coordinator.support import House

from parley.coordinator.record import open_storage


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def database(request, tmp_path):
    """The address of a new, prepared database of either kind."""
    if request.param == "sqlite":
        yield str(shutil.copy(request.getfixturevalue("prepared_sqlite"), tmp_path / "parley.db"))
        return
    server = request.getfixturevalue("postgres")
    name = f"t{abs(hash(request.node.nodeid)) % 10**12}"
    server.psql(f"CREATE DATABASE {name} TEMPLATE parley_template")
    yield server.get_uri().replace("/postgres?", f"/{name}?")
    server.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def storage(database):
    opened = open_storage(database)
    yield opened
    opened.close()


@pytest.fixture
def house(storage):
    """A running coordinator over either database."""
    made = House(storage)
    yield made
    made.close()


@pytest.fixture
def sqlite_house(prepared_sqlite, tmp_path):
    """A running coordinator over SQLite, for what does not depend on the database."""
    storage = open_storage(str(shutil.copy(prepared_sqlite, tmp_path / "parley.db")))
    made = House(storage)
    yield made
    made.close()
    storage.close()
