"""The site's page in a real Chromium: a phase as a study nurse runs it, on a tablet and a phone, light and dark."""

import os
import re
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn
from msgspec.structs import replace
from playwright.sync_api import expect
from tests.agent.test_site_page import RULES, Desk
from tests.browser.live import Server
from tests.browser.test_accessible import Axe, _serious
from tests.browser.ward import Ward
from tools.chaos.harness import free_port

from parley.agent.outcomes import OutcomeRules

STUDY = """\
name = "Two doses"
audience = "trial"
arms = ["placebo", "low dose", "high dose"]
agents = ["Lyon"]
largest_gap = 4.0

[noise]
kind = "bounded"
low = 0.0
high = 1.0

[sites]
counts = "exact"
"""
LARGER = STUDY.replace("4.0", "1.0").replace("exact", "flexible")
YES_OR_NO = (
    LARGER.replace('kind = "bounded"\nlow = 0.0\nhigh = 1.0', 'kind = "binary"') + 'contact = "the trial office"\n'
)
YES_OR_NO += "grace_hours = 24\n\n[sampling]\nrate = 9\ndelay = 21\n"
TABLET, PHONE = {"width": 820, "height": 1180}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("coordinator"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def ward(coordinator, tmp_path_factory):
    """The site that all but the nurse look at: some people, some outcomes."""
    made = Ward(
        coordinator, tmp_path_factory.mktemp("ward"), study=coordinator.create(LARGER, "looked-at"), agent="Lyon"
    )
    made.wait(lambda found: found["to_assign"] > 0)
    for number in range(12):
        made.assign(f"p-{number:03}")
        if number < 7:
            made.outcome(f"p-{number:03}", number % 2)
    yield made
    made.stop()


def assign(page, key):
    page.locator("#assign-key").fill(key)
    page.get_by_role("button", name="Assign").click()
    return page.locator(".given .arm").inner_text()


@pytest.fixture
def nurses(coordinator, tmp_path):
    made = Ward(coordinator, tmp_path, study=coordinator.create(STUDY, "nurse"), agent="Lyon")
    made.wait(lambda found: found["to_assign"] > 0)
    yield made
    made.stop()


def test_a_nurse_runs_a_phase(visit, nurses):
    ward, window = nurses, visit(nurses, viewport=TABLET, has_touch=True)
    page = window.page
    page.goto("/")
    assert ward.status()["asked"] == 3
    arm = assign(page, "p-0")
    assert arm in ("placebo", "low dose", "high dose")
    assert assign(page, "p-0") == arm
    expect(page.locator(".given")).to_contain_text("assigned earlier")
    assert "p-0" not in page.url
    page.get_by_label("Outcome of p-0").fill("0,5")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("p-0: 0.5.")
    page.get_by_label("Find by key").fill("P-0")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("change", exact=False).first.click()
    page.get_by_label("Outcome of p-0").fill("7")
    page.get_by_role("button", name="Save p-0").click()
    expect(page.get_by_role("alert")).to_contain_text("a number from 0 to 1")
    page.locator("details.answer summary", has_text="0.5").click()
    expect(page.get_by_label("Outcome of p-0")).to_have_value("7")
    page.get_by_role("button", name="No outcome will come p-0").click()
    expect(page.get_by_role("status").first).to_contain_text("no outcome will come")

    # p-0's place is drawn anew from the whole plan, so how many more come until every arm has its number is chance.
    came, first = 0, {}
    while ward.status()["to_assign"]:
        came += 1
        first.setdefault(ward.assign(f"p-{came}")["arm"], came)
    page.get_by_text("Upload a table").click()
    rows = [f"p-{number};{number % 2}" for number in range(1, came + 1)]
    page.get_by_label("or paste the table here").fill(
        "\n".join(["Participant;Reward", *rows[:-1], "p-99999;1", "p-1;0"])
    )
    page.get_by_role("button", name="Check the table").click()
    wrong = page.get_by_role("region", name="Wrong rows")
    expect(wrong).to_contain_text(f"{came + 1}")
    expect(wrong).to_contain_text("the key of a person assigned here")
    expect(wrong).to_contain_text("once; it is already in line 2")
    file = ward.folder / "outcomes.csv"
    file.write_bytes("\ufeffPARTICIPANT;Reward\r\n".encode() + "\r\n".join(rows).encode())
    page.get_by_label(re.compile("Choose a file")).set_input_files(file)
    page.get_by_label("or paste the table here").fill("")
    page.get_by_role("button", name="Check the table").click()
    expect(page.get_by_role("heading", name="Changes that the table would make")).to_be_visible()
    assert ward.status()["observed"] == 0, "nothing is written before somebody says so"
    page.get_by_role("button", name="Save the whole table").click()
    expect(page.get_by_role("status").first).to_contain_text(
        f"The table was saved. {came} outcomes entered. 0 outcomes marked"
    )
    ward.wait(lambda found: found["phase"] == 2 or found["stage"] != "running")
    page.goto("/")
    expect(page.get_by_role("region", name="Reported phases")).to_contain_text("high dose")
    report = ward.server.call("GET", f"studies/{ward.study}/phases/1/reports/Lyon")["report"]
    assert report["counts"] == [1, 1, 1]
    assert report["sums"] == [first[arm] % 2 for arm in ("placebo", "low dose", "high dose")]
    # A form that is refused is answered with 422, which Chromium writes to the console: as it should be.
    window.wrong = [wrong for wrong in window.wrong if "422" not in wrong]


SEVERAL = (
    LARGER.replace('kind = "bounded"\nlow = 0.0\nhigh = 1.0', 'kind = "binary"').replace(
        "[noise]", 'control = "placebo"\n\n[noise]'
    )
    + """
[sampling]
rate = 9
delay = 21

[[outcomes]]
name = "bleeding"
question = "Did the participant bleed?"
kind = "binary"
role = "guardrail"
better = "lower"
margin = 0.3
delta = 0.05
delay = 7

[[outcomes]]
name = "pain"
question = "Pain today, from 0 to 10"
kind = "bounded"
low = 0
high = 10
role = "secondary"
better = "lower"
"""
)


@pytest.mark.parametrize(("language", "size"), [("en-GB", TABLET), ("fr-CH", PHONE)], ids=["tablet", "phone"])
def test_a_nurse_enters_several_outcomes_of_a_person(visit, coordinator, tmp_path, language, size):
    study = coordinator.create(SEVERAL, f"several-{language[:2]}")
    made = Ward(coordinator, tmp_path, study=study, agent="Lyon")
    try:
        made.wait(lambda found: found["to_assign"] > 0)
        for number in range(1, 4):
            made.assign(f"p-{number}")
        window = visit(made, viewport=size, has_touch=True, locale=language, bypass_csp=True)
        page = window.page
        page.goto("/")
        yes, none, gone, save = {
            "en-GB": ("Yes", "No outcome will come", "No further outcomes will come", "Save"),
            "fr-CH": ("Oui", "Ne viendra pas", "Plus rien ne viendra", "Enregistrer"),
        }[language]
        page.get_by_role("button", name=f"{yes} p-1, Did the participant bleed?").click()
        expect(page.get_by_role("status").first).to_contain_text("p-1, Did the participant bleed?")
        page.get_by_label("p-1, Pain today, from 0 to 10").first.fill("2,5")
        page.get_by_role("button", name=f"{save} p-1, Pain today").click()
        page.get_by_role("button", name=f"{none} p-2, Pain today").click()
        page.get_by_role("button", name=f"{gone} p-3").click()
        assert made.status()["outcomes"] == {"bleeding": 1, "pain": 0}
        assert _serious(Axe(), page) == []
        assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"]
        if folder := os.environ.get("PARLEY_SCREENSHOTS"):
            made.assign("p-4")
            page.goto("/")
            name = f"site-outcomes-{'phone' if size is PHONE else 'tablet'}.png"
            page.screenshot(path=Path(folder) / name, full_page=True)
    finally:
        made.stop()


@pytest.mark.parametrize(("theme", "size"), [("light", TABLET), ("dark", PHONE)], ids=["tablet", "phone"])
def test_axe_finds_nothing_serious_and_nothing_sticks_out(
    visit, ward, theme, size
):  # each theme on one of the sizes; the page is one page
    window = visit(ward, color_scheme=theme, viewport=size, bypass_csp=True)
    page = window.page
    page.goto("/")
    assign(page, "p-012")
    assert _serious(Axe(), page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"]
    if folder := os.environ.get("PARLEY_SCREENSHOTS"):
        for look in ("light", "dark"):
            page.emulate_media(color_scheme=look)
            name = f"site-{look}-{'phone' if size is PHONE else 'tablet'}.png"
            page.screenshot(path=Path(folder) / name, full_page=True)
        page.emulate_media(color_scheme="dark")
    page.get_by_text("Upload a table").click()
    page.get_by_label("or paste the table here").fill("participant,reward\nnobody,1\n")
    page.get_by_role("button", name="Check the table").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing in the table was saved: 1 row is wrong")
    assert _serious(Axe(), page) == []


SPOKEN = {
    "fr": ("fr-CH", "Prochain participant", "Attribuer", "Oui p-1", "p-1 : oui", "Est-ce la même personne ?"),
    "de": ("de-AT", "Nächste teilnehmende Person", "Zuteilen", "Ja p-1", "p-1: ja", "Ist es dieselbe Person?"),
}


@pytest.mark.parametrize("language", SPOKEN)
def test_a_nurse_reads_her_own_language_and_the_words_of_a_trial_on_a_phone(visit, coordinator, tmp_path, language):
    locale, following, assigns, yes, noted, same = SPOKEN[language]
    made = Ward(coordinator, tmp_path, study=coordinator.create(YES_OR_NO, f"in-{language}"), agent="Lyon")
    try:
        made.wait(lambda found: found["to_assign"] > 0)
        window = visit(made, viewport=PHONE, has_touch=True, locale=locale, bypass_csp=True)
        page = window.page
        page.goto("/")
        assert page.locator("html").get_attribute("lang") == language
        expect(page.get_by_role("heading", name=following)).to_be_visible()
        for key in ("p-1", "p-2"):
            page.locator("#assign-key").fill(key)
            page.get_by_role("button", name=assigns, exact=True).click()
            expect(page.locator(".given .eyebrow")).to_contain_text(key)
        page.get_by_role("button", name=yes).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").first).to_contain_text(noted)
        page.locator("#assign-key").fill("P-2")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=same)).to_be_visible()
        assert _serious(Axe(), page) == []
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
        told = page.locator("main").inner_text().lower()
        assert not re.search(r"\b(arms?|agents?|draws?|rewards?|outcomes?|bras|tirages?|récompenses?)\b", told), told
        if folder := os.environ.get("PARLEY_SCREENSHOTS"):
            page.goto("/")
            page.screenshot(path=Path(folder) / f"site-{language}-phone.png", full_page=True)
        page.get_by_role("link", name="Español").click()
        expect(page.get_by_role("heading", name="Próximo participante")).to_be_visible()
        page.goto("/")
        assert page.locator("html").get_attribute("lang") == "es", "it is remembered"
        window.wrong = [wrong for wrong in window.wrong if "409" not in wrong]
    finally:
        made.stop()


def test_a_site_closes_its_part_early_with_a_reason_from_the_list(visit, coordinator, tmp_path):
    made = Ward(coordinator, tmp_path, study=coordinator.create(LARGER, "early"), agent="Lyon")
    try:
        made.wait(lambda found: found["to_assign"] > 0)
        made.assign("p-1")
        made.outcome("p-1", 1)
        page = visit(made, viewport=TABLET).page
        page.goto("/")
        page.get_by_text("Close this phase early here").click()
        words = page.get_by_label("Why no more people will be assigned").inner_text()
        assert "Fewer people came" in words
        assert "Some outcomes never came" in words
        page.get_by_label("Why no more people will be assigned").select_option("too-few-people")
        page.get_by_role("button", name="Stop assigning people in phase 1").click()
        made.wait(lambda found: found["phase"] == 2)
        report = coordinator.call("GET", "studies/early/phases/1/reports/Lyon")["report"]
        assert (sum(report["counts"]), report["reason"], report["final"]) == (1, "too-few-people", True)
    finally:
        made.stop()


def test_pages_of_other_sites_and_other_names_are_refused(ward):
    post = {"json": {"participant": "p-1"}}
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}):
        assert ward.line.post("/v1/assignments", headers=headers, **post).status_code == 403
    assert ward.line.post("/v1/assignments", headers={"Host": "rebound.example"}, **post).status_code == 421
    assert ward.line.post("/v1/assignments", content=b'{"participant": "p-1"}').status_code == 415
    assert ward.line.post("/", data={"do": "assign", "participant": "p-1"}).status_code == 403
    form = {"do": "find", "participant": "p-1"}
    assert ward.line.post("/", data=form).status_code == 403
    assert "participant" not in ward.line.get("/v1/status").text


def test_what_is_wrong_is_a_problem_document(ward):
    assert ward.post("/v1/assignments", participant="p-x").status_code == 201
    assert ward.post("/v1/assignments", participant="p-x").status_code == 200
    for path, body, status in (
        ("/v1/assignments", {"participant": ""}, 422),
        ("/v1/assignments", {"person": "x"}, 422),
        ("/v1/outcomes", {"participant": "p-2", "reward": 1}, 422),
        ("/v1/outcomes", {"participant": "p-x", "reward": "1"}, 422),
    ):
        answer = ward.line.post(
            path, content=str(body).replace("'", '"').encode(), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


def test_with_a_code_nobody_comes_in_without_it(coordinator, visit, tmp_path):
    (tmp_path / "code").write_text("open-sesame-42")
    study = coordinator.create(STUDY, "with-a-code")
    made = Ward(coordinator, tmp_path, study=study, agent="Lyon", options=("--code-file", str(tmp_path / "code")))
    try:
        assert made.line.get("/v1/status").status_code == 401
        assert made.line.get("/v1/status", headers={"Authorization": "Bearer open-sesame-42"}).status_code == 200
        window = visit(made)
        window.page.goto("/")
        window.page.get_by_label("Code").fill("wrong-code")
        window.page.get_by_role("button", name="Enter").click()
        expect(window.page.get_by_role("alert")).to_contain_text("This code is wrong")
        window.page.get_by_label("Code").fill("open-sesame-42")
        window.page.get_by_role("button", name="Enter").click()
        expect(window.page.get_by_role("heading", name="Next participant")).to_be_visible()
        window.wrong = [wrong for wrong in window.wrong if "403" not in wrong]
    finally:
        made.stop()


@pytest.mark.parametrize("language", ["de", "fr"])
def test_a_page_of_three_hundred_people_is_below_three_screens_of_a_phone(visit, tmp_path, language):
    pain = OutcomeRules(name="Pain", question="Pain today, from 0 to 10?", low=0.0, high=10.0)
    asks = {"question": "Wound closed after 14 days?", "eligibility": ("Aged 18 or older?",), "covariate": "age"}
    desk = Desk(tmp_path, rules=replace(RULES, outcomes=(pain,), **asks), draws=(200, 200))
    for number in range(300):
        desk.site.assign(f"P-{number:03}", covariate=50.0, eligible=True)
        desk.now += timedelta(hours=3)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(desk.browser.app, port=port, log_level="error"))
    serving = threading.Thread(target=server.run)
    serving.start()
    try:
        while not server.started:
            time.sleep(0.01)
        site = SimpleNamespace(url=f"http://127.0.0.1:{port}")
        page = visit(site, viewport=PHONE, has_touch=True, locale=language, bypass_csp=True).page
        page.goto("/")
        assert page.locator(".person").count() == 20
        assert page.evaluate("document.scrollingElement.scrollHeight") <= 3 * PHONE["height"]
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
        page.locator(".person summary").first.click()
        expect(page.get_by_text("Wound closed after 14 days?").first).to_be_visible()
        assert _serious(Axe(), page) == []
    finally:
        server.should_exit = True
        serving.join()
        desk.close()
