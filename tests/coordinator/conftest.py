import pytest
from tests.coordinator.support import House

from parley.coordinator.record import initialise, open_storage


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """The address of a new, prepared database of either kind."""
    if request.param == "sqlite":
        address = str(tmp_path / "parley.db")
        initialise(address)
        yield address
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
def sqlite_house(tmp_path):
    """A running coordinator over SQLite, for what does not depend on the database."""
    address = str(tmp_path / "parley.db")
    initialise(address)
    storage = open_storage(address)
    made = House(storage)
    yield made
    made.close()
    storage.close()
