"""Pages by what stands on them, without a browser: many agents and arms, downloads, files, administration."""

import asyncio
import csv
import io
import json
import re
from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path

import httpx2
import numpy as np
import pytest
from tests.dashboard.site import MEANS, TABS, TWO, exactly
from tests.support import first_quick

from parley.dashboard.pages import PAGES
from parley.dashboard.pages.new_study import uploaded_study
from parley.dashboard.render import environment
from parley.errors import InvalidInput
from parley.protocol import codec

MANY = """
name = "Many"
arms = 8
agents = 60

[weights]
kind = "personalized"
alpha = 0.5
"""


@pytest.fixture(scope="module")
def done(here):
    here.create(study_id="done")
    here.run("done")
    return "done"


@pytest.fixture(scope="module")
def many(here):
    here.create(MANY, "many")
    here.phase("many", np.linspace(0, 1, 8)[:, None] * np.ones((1, 60)))
    return "many"


def test_every_tab_has_a_row_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "dashboard.md").read_text(encoding="utf-8")
    missing = [tab for module in PAGES for route in module.routes if (tab := route.tab) and f"\n| {tab} |" not in page]
    assert not missing, f"docs/dashboard.md, “What is where”: no row of {', '.join(missing)}"


def test_a_large_board_is_paged_and_summed_up(here, many):
    with here.browser() as browser:
        page = browser.get(f"/studies/{many}").text
        assert page.count('class="open"') + page.count('class="ruled-out"') <= 25 * 8
        assert "Arm by arm, across all 60 agents" in page
        assert "Agents 1–25 of 60" in page
        last = browser.get(f"/studies/{many}?first=50").text
        assert "Agents 51–60 of 60" in last
        with here.api() as client:
            name = client.status(many)["agent_names"][40]
        found = browser.get(f"/studies/{many}", params={"agent": name}).text
        assert "Agents 26–50 of 60" in found


@pytest.mark.parametrize("tab", first_quick(*TABS, quick=2))
def test_documents_are_read_and_written_off_the_event_loop(here, many, done, tab, monkeypatch):
    """Nobody else is answered meanwhile: half a second for the log of a study of 200 arms and 100 agents."""
    seen = Counter()

    def noted(work):
        def called(*given):
            with suppress(RuntimeError):
                seen[work.__name__] += asyncio.get_running_loop() is not None
            return work(*given)

        return called

    for name in ("_lists", "unwritable"):
        monkeypatch.setattr(codec, name, noted(getattr(codec, name)))
    with here.browser() as browser:
        for study in (many, done):
            assert browser.get(f"/studies/{study}{tab}").status_code == 200
    assert seen.total() < 100, seen


def test_odd_addresses_are_answered(here, many):
    with here.browser() as browser:
        odd = ["?first=-1", "?first=x", "?agent=nobody", "?after=x"]
        for page, query in [*product(TABS[:1], odd), *product(TABS, ["?first=999999"])]:
            assert browser.get(f"/studies/{many}{page}{query}").status_code == 200, (page, query)


def test_many_awaited_agents_are_named_without_filling_the_page(here):
    study = here.create(MANY.replace("Many", "Awaited"), "awaited")
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}").text
        assert "Waiting for 60 agents" in page
        assert "Awaited, on other pages: 35" in page
        for name in here.call("GET", f"studies/{study}")["agent_names"]:
            assert name in page


def test_a_minimum_cell_is_told_where_one_was_asked_for(here, done):
    private = here.create(TWO + "\n[privacy]\nminimum_cell = 70\n", "private")
    with here.browser() as browser:
        assert "Every cell of a phase has either no draws or at least 70." in browser.get(f"/studies/{private}").text
        assert "Every cell of a phase" not in browser.get(f"/studies/{done}").text


def test_an_unknown_study_is_a_page_that_says_so(here):
    with here.browser() as browser:
        answer = browser.get("/studies/nothing-here")
        assert answer.status_code == 404
        assert "There is nothing at this address" in answer.text


def test_a_page_beyond_ones_rights_says_so(here, done):
    with here.browser(here.issue("analyst", "Ann")) as browser:
        for path in ("/tokens", f"/studies/{done}/audit", "/log"):
            assert browser.get(path).status_code == 403, path


def test_numbers_have_separators_and_units(here, done):
    with here.api() as client, here.browser() as browser:
        samples = client.status(done)["samples"]
        assert f"{samples:,}" in browser.get("/").text
        assert f"{samples:,} samples" in browser.get(f"/studies/{done}/answer").text


def test_the_downloads_say_what_the_certificate_says(here, done):
    with here.api() as client, here.browser() as browser:
        certificate = client.request("GET", "studies", done, "certificate")
        assert json.loads(browser.get(f"/studies/{done}/answer.json").text) == certificate
        answer = browser.get(f"/studies/{done}/answer.csv")
        assert answer.headers["content-disposition"] == 'attachment; filename="done-answer.csv"'
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert len(rows) == 6
        chosen = {row["agent"]: row["arm"] for row in rows if row["status"] == "chosen"}
        assert {agent: [arm] for agent, arm in chosen.items()} == certificate["answers"]
        report = browser.get(f"/studies/{done}/report").text
        assert "Verified." in report
        assert certificate["head"] in report


def test_the_margin_of_an_answer_is_the_smallest_bound(here, done):
    with here.api() as client, here.browser() as browser:
        certificate = client.request("GET", "studies", done, "certificate")
        gaps, out = np.array(certificate["state"]["gap_at_least"]), np.array(certificate["state"]["dropped_in"])
        margins = [gaps[out[:, place] > 0, place].min() for place in range(2)]
        page = browser.get(f"/studies/{done}/answer").text
        told = re.findall(r"ahead of every other arm by at least ([\d.]+)", page)
        assert told == [f"{margin:.3f}" for margin in margins if margin >= 0.0005]


def test_a_study_file_that_names_another_file_is_refused(here):
    with pytest.raises(InvalidInput, match=r"weights\.file"):
        uploaded_study('arms = 2\nagents = 2\n[weights]\nkind = "matrix"\nfile = "/etc/passwd"')
    # A truth is left at home, and so is its table.
    assert uploaded_study('arms = 2\nagents = 2\n[truth]\ndata = "/etc/passwd"\neffects = [0, 1]').arms
    with here.browser() as browser:
        data = {"do": "estimate"}
        text = 'arms = 2\nagents = 2\n[weights]\nkind = "matrix"\nfile = "/etc/passwd"'
        answer = browser.post("/new", data={**data, "study": text})
        assert answer.status_code == 422
        assert "weights.file" in answer.text
        for wrong in ("not toml [", "arms = 1", "arms = 2\nagents = 2\ndelta = 2", ""):
            answer = browser.post("/new", data={**data, "study": wrong})
            assert answer.status_code == 422
            assert 'role="alert"' in answer.text


def test_a_taken_id_is_an_error_on_the_form(here, done):
    with here.browser() as browser:
        data = {"study": TWO, "id": done, "do": "launch"}
        answer = browser.post("/new", data=data)
        assert answer.status_code == 409
        assert "Two sites" in answer.text


def test_only_administrators_may_estimate_or_launch(here):
    with here.browser(here.issue("auditor", "Au")) as browser:
        data = {"study": TWO}
        for do in ("estimate", "launch"):
            assert browser.post("/new", data={**data, "do": do}).status_code == 403


def test_a_report_that_is_held_is_told_and_refused_or_taken(either):
    study = either.create(study_id="held")
    with either.api(either.agent_token(study, "North")) as agent:
        plan = agent.plan(study, "North")

        def send(shift):
            with pytest.raises(Exception, match="is waiting for an administrator"):
                agent.send(plan.report(exactly(plan.draws, MEANS[:, 0] * shift)))

        with either.browser() as browser:
            for do, shift, words in (("refuse", 1e9, "Refused: a slip"), ("take", 2e9, "by an amendment")):
                send(shift)
                assert "The report of North is held" in browser.get(f"/studies/{study}").text
                page = browser.get(f"/studies/{study}/administration")
                sequence = re.findall(r'name="sequence" value="(\d+)"', page.text)[0]
                data = {"sequence": sequence, "reason": "a slip"}
                assert words in browser.post(f"/studies/{study}/{do}", data=data).text
                assert browser.post(f"/studies/{study}/{do}", data=data).status_code == 404
            assert "is held" not in browser.get(f"/studies/{study}").text


def test_a_quarantined_report_can_be_let_stand(either):
    study = either.create(study_id="amended")
    with either.api(either.agent_token(study, "North")) as agent:
        plan = agent.plan(study, "North")
        agent.send(plan.report(exactly(plan.draws, MEANS[:, 0])))
        with pytest.raises(Exception, match="quarantine"):
            agent.send(plan.report(exactly(plan.draws, MEANS[:, 0], shift=0.1)))
    with either.browser() as browser:
        page = browser.get(f"/studies/{study}/administration")
        sequence = re.search(r'name="sequence" value="(\d+)"', page.text)[1]
        data = {"sequence": sequence, "reason": "typing error"}
        done = browser.post(f"/studies/{study}/amend", data=data)
        assert done.status_code == 200
        assert "by an amendment" in done.text
        assert "typing error" in browser.get(f"/studies/{study}/audit").text
        assert browser.post(f"/studies/{study}/amend", data={**data, "sequence": "999"}).status_code == 404


def test_a_freeze_shows_its_consequences_and_needs_their_digest(either):
    study = either.create(study_id="frozen")
    either.phase(study)
    either.phase(study, but=("South",))
    with either.browser() as browser:
        page = browser.get(f"/studies/{study}/administration?freeze=South")
        assert "If South is frozen" in page.text
        digest = re.search(r'name="preview" value="([0-9a-f]{64})"', page.text)[1]
        data = {"agent": "South", "reason": "site closed", "preview": "0" * 64}
        assert browser.post(f"/studies/{study}/freeze", data=data).status_code == 409
        done = browser.post(f"/studies/{study}/freeze", data={**data, "preview": digest})
        assert done.status_code == 200
        assert "South</strong>, frozen in phase 2" in done.text


def test_a_phase_is_closed_with_what_is_in_after_its_consequences_were_shown(either):
    study = either.create(study_id="cut")
    either.phase(study, but=("South",))
    with either.browser() as browser, either.api() as client:
        page = browser.get(f"/studies/{study}/administration?close-early=1")
        assert "If phase 1 is closed now" in page.text
        assert "Change nothing" in page.text
        digest = re.search(r'name="preview" value="([0-9a-f]{64})"', page.text)[1]
        data = {"phase": "1", "reason": "closed in August", "preview": "0" * 64}
        assert browser.post(f"/studies/{study}/close-early", data=data).status_code == 409
        assert browser.post(f"/studies/{study}/close-early", data={**data, "preview": digest}).status_code == 200
        assert client.status(study)["phase"] == 2
        assert "phase 1 closed without South: closed in August" in browser.get(f"/studies/{study}/audit").text
        early = browser.get(f"/studies/{study}/administration?close-early=1")
        assert "no report of this phase is in" in early.text


def test_pause_resume_cancel(either):
    study = either.create(study_id="stopped")
    with either.browser() as browser, either.api() as client:
        for do, stage in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
            data = {"reason": f"we {do}"}
            assert browser.post(f"/studies/{study}/{do}", data=data).status_code == 200
            assert client.status(study)["stage"] == stage
        assert "Candidates that remained" in browser.get(f"/studies/{study}/answer").text
        assert browser.post(f"/studies/{study}/pause", data={**data, "reason": "no"}).status_code == 409


def test_the_list_says_how_many_reports_are_in(either):
    study = either.create(TWO.replace("Two sites", "Searchable words"), "searched")
    either.phase(study, but=("North",))
    with either.browser() as browser:
        page = browser.get("/", params={"search": "searchable WORDS"}).text
        assert page.count("<tr>") == 2
        assert "1 of 2" in page
        assert "1 missing" in page
        assert "No study matches" in browser.get("/?search=zzz").text
        assert "searched" in browser.get("/?stage=running").text
        assert "searched" not in browser.get("/?stage=finished").text


def test_streams_tell_of_changes_and_end_for_strangers(either):
    study = either.create(study_id="streamed")
    with either.browser() as browser:
        with browser.stream("GET", f"/studies/{study}/events") as stream:
            lines = stream.iter_lines()
            first = next(line for line in lines if line.startswith("data:"))
            either.phase(study)
            second = next(line for line in lines if line.startswith("data:"))
            assert json.loads(second[5:])["version"] != json.loads(first[5:])["version"]
        with browser.stream("GET", "/events") as stream:
            assert "studies" in next(line for line in stream.iter_lines() if line.startswith("event:"))
        assert browser.get("/studies/none/events").status_code == 204
    assert httpx2.get(f"{either.address}/events").status_code == 303


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(900, 1200, "900 – 1,200"), (5846, 2_273_038, "more than 5,846"), (0, 40, "0 – 40"), (7, 7, "7")],
)
def test_an_upper_end_that_tells_nothing_is_left_out(low, high, words):
    macros = environment().get_template("macros.html").make_module({"status": None})
    assert macros.ahead({"p10": low, "p90": high}) == words
    assert macros.ahead({"p10": 900, "p90": 1200}, True) == "900 – 1,200 or more"
