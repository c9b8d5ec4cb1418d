"""A site's application without a socket, on a journal of its own."""

from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from parley.agent.site import Site
from parley.site.access import Access
from parley.site.app import create_app

CODE = "open-sesame-42"
BEARER = {"Authorization": f"Bearer {CODE}"}


@pytest.fixture
def site(tmp_path):
    """A phase that asks for two people of each arm."""
    with Site(tmp_path, study="trial", agent="Lyon", key=b"secret") as made:
        made.begin(phase=1, plan="b" * 64, arms=("A", "B"), draws=(2, 2))
        yield made


def line_of(*sites, **headers):
    """To the application of a site, or of its strata."""
    runtimes = [
        SimpleNamespace(
            site=site,
            words="connected",
            noted=lambda: None,
            receipts=dict,
            silence=1.0,
            held=None,
            unsent={},
            correctable=lambda _: True,
        )
        for site in sites
    ]
    app = create_app(runtimes, Access(host="127.0.0.1", code=CODE))
    return TestClient(app, base_url="http://127.0.0.1", headers=BEARER | headers)


@pytest.fixture
def line(site):
    with line_of(site) as client:
        yield client
