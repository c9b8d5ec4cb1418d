"""What the pages must not do: tell a viewer what is blinded, run what a name contains, let people do too much."""

import re

import pytest
from playwright.sync_api import expect
from tests.browser.live import MEANS, Agents
from tests.dashboard.site import OF_NO_STUDY, TABS

INJECTION = "<img src=x onerror=window.hacked=1>"
HOSTILE = f"""\
name = "study {INJECTION}"
arms = ["arm {INJECTION}", "b' onmouseover='window.hacked=1", "{{{{7*7}}}}"]
agents = ["agent {INJECTION}", "x\\" autofocus onfocus=window.hacked=1 y=\\"", "javascript:window.hacked=1"]

[weights]
kind = "personalized"
alpha = 0.5
"""


def test_names_and_reasons_are_only_text(visit, server):
    study = server.create(HOSTILE, "hostile")
    agents = Agents(server, study, MEANS[:3])
    agents.phase()
    agents.phase(but=(1,))
    reason = f'because {INJECTION}"><script>window.hacked=1</script>'
    window = visit(server, server.token)
    page = window.page
    page.goto(f"/studies/{study}/administration")
    page.get_by_label("Reason, kept in the log").fill(reason)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".note.warn")).to_contain_text(reason)
    page.get_by_role("region", name="If a site is lost").get_by_role("combobox", name="Agent").fill(agents.names[0])
    page.get_by_role("button", name="Show the consequences").click()
    expect(page.get_by_role("heading", name=f"If {agents.names[0]} is frozen")).to_be_visible()
    page.locator("#freeze-reason").fill(reason)
    page.get_by_role("button", name=re.compile("^Freeze agent.*keep the question", re.DOTALL)).click()
    expect(page.locator("main")).to_contain_text("frozen in phase 2")
    server.issue("viewer", INJECTION)
    for path in _pages(study):
        page.goto(path)
        page.locator("main").hover()
        found = page.evaluate(
            """() => ({
                hacked: 'hacked' in window,
                images: document.querySelectorAll('img, iframe, object, embed').length,
                scripts: [...document.scripts].filter(
                    s => !s.src.endsWith('/static/live.js') && !s.src.endsWith('/static/form.js')).length,
                handlers: [...document.querySelectorAll('*')].filter(e =>
                    [...e.attributes].some(a => a.name.startsWith('on') || /^javascript:/i.test(a.value) &&
                        ['href', 'src', 'action'].includes(a.name))).length,
            })"""
        )
        assert found == {"hacked": False, "images": 0, "scripts": 0, "handlers": 0}, path
    page.goto(f"/studies/{study}")
    expect(page.locator("h1")).to_have_text(f"study {INJECTION}")
    expect(page.locator("#board thead th").first).to_have_text(f"arm {INJECTION}")
    expect(page.locator("#board thead th").last).to_have_text("{{7*7}}")


def _pages(study):
    asked = ("freeze=javascript:window.hacked%3D1", "reweigh=1")
    own = (*TABS, *(f"/administration?{query}" for query in asked))
    search = "/?search=" + INJECTION.replace("<", "%3C").replace(" ", "%20")
    return (*OF_NO_STUDY, search, *(f"/studies/{study}{page}" for page in own))


def test_a_viewer_sees_progress_and_nothing_that_is_blinded(visit, server):
    page = visit(server, server.issue("viewer", "Vi")).page
    page.goto("/studies/waiting")
    expect(page.locator("#waiting")).to_contain_text("Lille")
    expect(page.locator("#figures")).to_contain_text("2 of 3")
    expect(page.locator("#board")).to_contain_text("Blinded.")
    expect(page.locator("table.board")).to_have_count(0)
    for name in ("Evidence", "Samples", "Answer"):
        page.get_by_role("navigation", name="Study").get_by_role("link", name=name).click()
        expect(page.locator("main")).to_contain_text("Blinded.")
        expect(page.locator("main")).not_to_contain_text("high dose")
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    page.goto("/studies/finished/answer")
    expect(page.locator("main")).to_contain_text("Blinded.")
    expect(page.get_by_role("link", name="JSON")).to_have_count(0)


DENIED = ["certificate", "forecast", "log", "quarantine", "phases/1/reports", "phases/1/plan", "phases/1/decision"]


@pytest.mark.parametrize("path", DENIED)
def test_what_is_blinded_is_denied_by_the_server_itself(visit, server, path):
    token = server.issue("viewer", f"Vi {path}"[:60])
    window = visit(server)
    headers = {"Authorization": f"Bearer {token}"}
    assert window.context.request.get(f"/v1/studies/finished/{path}", headers=headers).status == 403
    board = window.context.request.get("/v1/studies/finished/board", headers=headers).json()
    assert board["statuses"] is board["dropped_in"] is board["counts"] is board["by_arm"] is None
    history = window.context.request.get("/v1/studies/finished/history", headers=headers).json()
    assert all(phase["explanation"] is phase["dropped_arms"] is phase["counts"] is None for phase in history["phases"])


def test_downloads_and_forms_are_denied_to_who_may_not(visit, server):
    window = visit(server, server.issue("viewer", "Vincent"))
    for path in ("answer.json", "answer.csv", "audit", "administration"):
        assert window.context.request.get(f"/studies/finished/{path}").status == 403
    for headers in ({}, {"Sec-Fetch-Site": "same-origin"}):
        answer = window.context.request.post("/studies/waiting/cancel", form={"reason": "no"}, headers=headers)
        assert answer.status == 403


def test_tokens_are_issued_rotated_and_revoked(visit, server):
    page = visit(server, server.token).page
    page.goto("/tokens")
    page.get_by_label("Role").select_option("analyst")
    page.get_by_label("Name", exact=True).fill("statistics")
    page.get_by_role("button", name="Issue").click()
    first = page.locator("#secret").inner_text()
    assert re.fullmatch(r"parley_[0-9a-f]{16}_[\w-]{43}", first)
    page.get_by_label("Search").fill("STATIS")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("button", name="Rotate the token of analyst:statistics").click()
    second = page.locator("#secret").inner_text()
    assert second != first
    kid = first.split("_")[1]
    row = page.locator("tr", has_text=kid)
    row.locator("summary").click()
    row.get_by_role("button", name=re.compile("Revoke")).click()
    expect(page.locator("tr", has_text=kid)).to_contain_text("revoked")
    window = visit(server)
    get = window.context.request.get
    assert get("/v1/whoami", headers={"Authorization": f"Bearer {first}"}).status == 401
    assert get("/v1/whoami", headers={"Authorization": f"Bearer {second}"}).status == 200
