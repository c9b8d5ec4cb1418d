import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect
from tests.browser.live import MEANS, THREE, Agents, Server

HERE = Path(__file__).parent
expect.set_options(timeout=60_000)  # a page that comes late is not a page that is wrong


def pytest_collection_modifyitems(items):
    """All tests of this folder are of the browser's layer."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A coordinator process with a finished study, one in mid-phase and one that has lost a site."""
    made = Server(tmp_path_factory.mktemp("server"))
    finished = Agents(made, made.create(study_id="finished"), MEANS)
    finished.run()
    waiting = Agents(
        made, made.create(THREE.replace("Three centres", "Dose finding, spring"), "waiting"), MEANS, seed=5
    )
    waiting.phase()
    waiting.phase()
    waiting.phase(but=(1,))
    lost = Agents(made, made.create(THREE.replace("Three centres", "A centre closed"), "lost"), MEANS, seed=5)
    lost.phase()
    shown = made.call("GET", "studies/lost/agents/Lille/freeze")
    body = {"reason": "the centre closed", "preview": shown["digest"]}
    made.call("POST", "studies/lost/agents/Lille/freeze", json=body)
    yield made
    made.stop()


class Visit:
    """A browser window that remembers what it must not do: errors on the console, requests to other hosts, dialogs."""

    def __init__(self, context, server):
        self.context, self.server = context, server
        self.page = context.new_page()
        self.wrong = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        context.on("request", self._request)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _request(self, request):
        if urlsplit(request.url).netloc != urlsplit(self.server.url).netloc:
            self.wrong.append(f"request to {request.url}")

    def sign_in(self, token):
        self.page.goto("/sign-in")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(re.compile("/$"))
        return self.page


@pytest.fixture
def visit(chromium):
    """Open a window on a server; at the end nothing may have gone wrong in it."""
    opened = []

    def open_window(server, token=None, **options):
        context = chromium.new_context(base_url=server.url, accept_downloads=True, **options)
        context.set_default_timeout(60_000)
        made = Visit(context, server)
        opened.append(made)
        if token:
            made.sign_in(token)
        return made

    yield open_window
    for made in opened:
        made.context.close()
    assert [wrong for made in opened for wrong in made.wrong] == []
