"""Readable by all: axe-core finds nothing serious on any page, light and dark; by keyboard; at the width of a phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from tests.browser.live import MEANS, THREE, Agents
from tests.dashboard.site import OF_NO_STUDY, TABS

PAGES = {
    **{path: path for path in OF_NO_STUDY},
    "error": "/studies/nowhere",
    **{f"waiting{page}": f"/studies/waiting{page}" for page in TABS},
    "freeze": "/studies/waiting/administration?freeze=Lille",
    **{
        f"lost {act}": f"/studies/lost/administration?{act}"
        for act in ("reweigh=1", "thaw=Lille", "withdraw-arm=placebo")
    },
    **{f"finished{page}": f"/studies/finished{page}" for page in (*TABS, "/report")},
}


@pytest.mark.parametrize(
    ("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)], ids=["light", "dark", "phone"]
)
def test_axe_finds_nothing_serious_and_nothing_sticks_out(visit, server, theme, width):
    window = visit(server, color_scheme=theme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page, axe = window.page, Axe()
    window.page.goto("/sign-in")
    found = {"/sign-in": _serious(axe, page)}
    window.sign_in(server.token)
    for name, path in PAGES.items():
        if name == "/sign-in":
            continue
        page.goto(path)
        if name == "/new":
            page.get_by_label("or write the study file here (TOML)").fill(THREE)
            page.get_by_role("button", name="Show the estimate").click()
            expect(page.get_by_role("button", name="Launch the study")).to_be_visible()
        found[name] = _serious(axe, page)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, name
    # A page that does not exist is answered with 404, which Chromium writes to the console: as it should be.
    window.wrong = [wrong for wrong in window.wrong if "404" not in wrong]
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    ("audience", "heading"), [("trial", "Sites and treatments"), ("experiment", "Markets and variants")]
)
def test_a_page_in_the_words_of_its_readers(visit, server, audience, heading):
    study = server.create(THREE.replace("delta", f'audience = "{audience}"\ndelta'), f"words-{audience}")
    Agents(server, study, MEANS).phase()
    page = visit(server, server.token, viewport={"width": 390, "height": 900}, bypass_csp=True).page
    page.goto(f"/studies/{study}")
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert not _serious(Axe(), page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_on_a_phone_numbers_and_actions_are_in_sight(visit, server):
    page = visit(server, server.token, viewport={"width": 390, "height": 900}).page
    for path, wanted in {
        "/tokens": "button:text('Rotate')",
        "/studies/lost/administration?reweigh=1": "td[data-label=Afterwards]",
        "/studies/finished/answer": ".forest text[text-anchor=end]",
        "/studies/finished/report": ".ranged",
    }.items():
        page.goto(path)
        found = page.locator(wanted).all()
        assert found, path
        for one in found[:20]:
            box = one.bounding_box()
            assert box["x"] >= 0, (path, box)
            assert box["x"] + box["width"] <= 390, (path, box)


def test_what_a_study_asks_for_is_folded_and_its_report_is_not_cut(visit, server):
    text = THREE.replace("delta = 0.1", 'delta = 0.1\ntolerance = 0.1\ncontrol = "placebo"\nmax_samples = 9000')
    agents = Agents(server, server.create(text, "asks-much"), MEANS)
    agents.phase()
    page = visit(server, server.token, viewport={"width": 1280, "height": 900}).page
    page.goto("/studies/asks-much")
    settings = page.locator("details.settings")
    expect(settings.locator("li").first).not_to_be_visible()
    settings.locator("summary").click()
    expect(settings).to_contain_text("at most 9,000 samples")
    page.goto("/studies/asks-much/report")
    for frame in page.locator(".scroll").all():
        assert frame.evaluate("frame => frame.scrollWidth <= frame.clientWidth"), frame.get_attribute("aria-label")


def _serious(axe, page):
    found = axe.run(page).response["violations"]
    return [
        (problem["id"], [node["target"] for node in problem["nodes"]][:3])
        for problem in found
        if problem["impact"] in ("serious", "critical")
    ]


def test_everything_is_within_reach_of_the_keyboard(visit, server):
    page = visit(server).page
    page.goto("/sign-in")
    expect(page.get_by_label("Token")).to_be_focused()  # on a busy machine a moment after the page is there
    page.keyboard.type(server.token)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith("/"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.goto("/studies/waiting")
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"
            )
        )
    for name in ("Overview", "Evidence", "Samples", "Answer", "Table of agents and arms", "Sign out"):
        assert name in reached


def test_a_large_board_scrolls_in_its_own_frame(visit, server):
    server.create('name = "Large"\narms = 50\nagents = 30\n[weights]\nkind = "personalized"\nalpha = 0.5', "large")
    window = visit(server, server.token, viewport={"width": 390, "height": 800}, bypass_csp=True)
    window.page.goto("/studies/large")
    expect(window.page.locator("table.board td.open")).to_have_count(25 * 50)
    assert window.page.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert _serious(Axe(), window.page) == []
