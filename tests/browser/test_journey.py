"""In a real Chromium: from signing in to a verified answer on the disk, with the page keeping itself current."""

import csv
import json
import signal
import threading

from playwright.sync_api import expect
from tests.browser.live import THREE, Agents, Server, beside


def test_a_study_from_its_file_to_its_downloaded_answer(visit, tmp_path):
    server = Server(tmp_path)
    try:
        window = visit(server, server.token)
        page = window.page
        _launch(server, page, tmp_path)
        page.wait_for_url("**/studies/three-centres")
        expect(page.get_by_role("heading", name="Waiting for 3 agents")).to_be_visible()
        expect(page.locator("#live")).to_have_text("Live")

        # Three agents at work; the page is never loaded again, and yet it follows to the end.
        page.evaluate("window.sameDocument = true")
        agents = Agents(server, "three-centres")
        with beside(lambda: [agents.report(0), agents.report(1)]):
            expect(page.get_by_role("heading", name="Waiting for 1 agent")).to_be_visible()
            expect(page.locator("#waiting")).to_contain_text("Lyon")
        threads = [threading.Thread(target=_work, args=(agents, place)) for place in range(3)]
        for thread in threads:
            thread.start()
        expect(page.locator("#heading .stage")).to_have_text("✓ Finished", timeout=30_000)
        for thread in threads:
            thread.join(timeout=20)
        expect(page.locator("td.chosen")).to_have_count(3)
        assert page.evaluate("window.sameDocument") is True

        page.get_by_role("link", name="Answer", exact=True).click()
        certificate = server.call("GET", "studies/three-centres/certificate")
        for agent, arms in certificate["answers"].items():
            shown = page.locator(".answers li", has_text=agent)
            expect(shown).to_contain_text(arms[0])
        page.get_by_role("button", name="Verify the answer").click()
        expect(page.locator("#verification")).to_contain_text("Verified.")

        with page.expect_download() as got:
            page.get_by_role("link", name="JSON").click()
        assert json.loads(got.value.path().read_text()) == certificate
        with page.expect_download() as got:
            page.get_by_role("link", name="CSV").click()
        rows = list(csv.DictReader(got.value.path().read_text().splitlines()))
        assert len(rows) == 12
        page.get_by_role("link", name="Printable report").click()
        expect(page.get_by_role("heading", name="Three centres")).to_be_visible()
        expect(page.locator("main")).to_contain_text(certificate["head"])
        page.go_back()
        expect(page.locator("#verification")).to_contain_text("Verified.")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        page.goto("/studies/three-centres")
        page.wait_for_url("**/sign-in?next=**")
        page.close()
    finally:
        server.stop(signal.SIGTERM)


def _launch(server, page, folder):
    """Create the study from a file, having seen the estimate."""
    page.get_by_role("link", name="New study").first.click()
    file = folder / "three.toml"
    file.write_text(THREE)
    page.get_by_label("Choose a file").set_input_files(file)
    expect(page.get_by_label("or write the study file here (TOML)")).to_have_value(THREE)
    page.get_by_role("button", name="Show the estimate").click()
    expect(page.get_by_role("table")).to_contain_text("Samples, median")
    assert page.get_by_role("table").locator("tbody tr").count() == 3
    assert server.call("GET", "studies")["studies"] == []  # an estimate launches nothing
    page.get_by_role("button", name="Launch the study").click()


def _work(agents: Agents, place: int) -> None:
    while agents.stage in ("running", "closing"):
        agents.report(place)


def test_a_restart_in_mid_study_leaves_the_page_right(visit, tmp_path):
    server = Server(tmp_path)
    try:
        agents = Agents(server, server.create(study_id="restarted"))
        window = visit(server, server.token)
        page = window.page
        page.goto("/studies/restarted")
        expect(page.locator("#live")).to_have_text("Live")
        page.evaluate("window.sameDocument = true")
        agents.phase(but=(2,))
        expect(page.get_by_role("heading", name="Waiting for 1 agent")).to_be_visible()

        server.stop()  # as a crash would
        expect(page.locator("#live")).to_have_text("Reconnecting…")
        server.start()
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.locator("#waiting")).to_contain_text("Lyon")
        agents.phase()
        expect(page.locator("#rounds tbody tr")).to_have_count(2)
        server.stop()
        server.start()
        agents.run()  # perhaps before the page is back: it must catch up
        expect(page.locator("#heading .stage")).to_have_text("✓ Finished", timeout=30_000)
        expect(page.locator("td.chosen")).to_have_count(3)
        assert page.evaluate("window.sameDocument") is True  # still signed in, still the same page
        board = server.call("GET", "studies/restarted/board")
        for arm, row in enumerate(board["statuses"]):
            for agent, status in enumerate(row):
                cell = page.locator("#board tbody tr").nth(agent).locator("td").nth(arm)
                assert ("chosen" in cell.get_attribute("class")) == (status == "chosen")
        page.close()
        # While the server was away the browser itself says that it could not connect; nothing else may be wrong.
        gone = (
            "ERR_CONNECTION_REFUSED",
            "ERR_INCOMPLETE_CHUNKED_ENCODING",
            "ERR_EMPTY_RESPONSE",
            "ERR_CONNECTION_RESET",
        )
        window.wrong = [wrong for wrong in window.wrong if not any(name in wrong for name in gone)]
    finally:
        server.stop()


def test_the_list_keeps_itself_current(visit, server):
    page = visit(server, server.token).page
    expect(page.locator("#live")).to_have_text("Live")
    server.create(THREE.replace("Three centres", "Appears by itself"), "by-itself")
    expect(page.get_by_role("link", name="Appears by itself")).to_be_visible()
    page.get_by_label("Search").fill("appears")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)
