import shutil

import pytest
from tests.dashboard.site import few_studies, site

from parley.coordinator.observability import configure


@pytest.fixture(scope="module", autouse=True)
def short_forecasts():
    with few_studies():
        yield


@pytest.fixture(scope="module")
def here(tmp_path_factory, prepared_sqlite):
    """One coordinator for the tests of a file."""
    configure("error")
    folder = tmp_path_factory.mktemp("site")
    with site(folder, db=str(shutil.copy(prepared_sqlite, folder / "parley.db"))) as made:
        yield made


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def either(request, tmp_path_factory):
    """The same over either database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("here")
        return
    configure("error")
    server = request.getfixturevalue("postgres")
    server.psql("CREATE DATABASE pages")
    with site(tmp_path_factory.mktemp("site"), db=server.get_uri().replace("/postgres?", "/pages?")) as made:
        yield made
    server.psql("DROP DATABASE pages WITH (FORCE)")
