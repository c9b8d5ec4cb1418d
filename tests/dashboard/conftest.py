import pytest
from tests.dashboard.site import site

from parley.coordinator.logs import configure


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """One coordinator for the tests of a file."""
    configure("error")
    with site(tmp_path_factory.mktemp("site")) as made:
        yield made
