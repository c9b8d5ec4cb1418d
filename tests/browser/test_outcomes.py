"""Guardrails and further outcomes in a real Chromium: on a desk and on a phone, light and dark."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect
from tests.browser.live import Server
from tests.browser.test_accessible import Axe, _serious
from tests.dashboard.walks import Walk, message

from parley.agent import Client

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a study in which one arm is stopped, and the stop of another is proposed."""
    server = Server(tmp_path_factory.mktemp("guarded"))

    def create(study, study_id):
        body = {"id": study_id, "study": study.to_json()}
        server.call("POST", "studies", json=body)
        return [Client(server.url, server.issue("agent", study=study_id, agent=name)) for name in study.agents]

    walk = Walk(
        SimpleNamespace(create=create, admin=Client(server.url, server.token)), message("guarded", "trial"), 1, "trial"
    )
    for _ in range(3):
        walk.step("report_all")
    yield server
    for client in (*walk.clients.values(), walk.house.admin):
        client.close()
    server.stop()


@pytest.mark.parametrize(("theme", "size"), [("light", DESK), ("dark", PHONE)], ids=["desk", "phone"])
def test_guardrails_are_read_beside_the_board_and_with_the_answer(visit, guarded, theme, size):
    page = visit(guarded, guarded.token, color_scheme=theme, viewport=size, bypass_csp=True).page
    page.goto("/studies/trial")
    boards = page.locator("#guardrails")
    expect(boards.get_by_role("heading", name="Guardrails")).to_be_visible()
    expect(boards.locator("td.stopped").first).to_contain_text("stopped")
    expect(boards.get_by_role("region", name="Guardrail alive").locator("td.proposed").first).to_contain_text(
        "proposed"
    )
    folder = os.environ.get("PARLEY_SCREENSHOTS")
    kind = "phone" if size is PHONE else "desk"
    for address, name in (("", "overview"), ("/answer", "answer"), ("/report", "report")):
        page.goto(f"/studies/trial{address}")
        assert _serious(Axe(), page) == [], address
        assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"], address
        if folder:
            page.screenshot(path=Path(folder) / f"outcomes-{name}-{kind}.png", full_page=True)
    page.goto("/studies/trial/answer")
    expect(page.get_by_text("high was stopped by this guardrail.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download these outcomes").click()
    assert download.value.suggested_filename == "trial-outcomes.csv"
