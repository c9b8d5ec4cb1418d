"""The final report: what was planned, what became of it, who decided what; on a page and in Markdown, the same."""

import re

import numpy as np
import pytest
from tests.dashboard.site import TWO, exactly

from parley.agent.plans import AgentPlan, Delivery
from parley.experiments.report_kit.forest import forest_chart
from parley.protocol import Report

TRIAL = TWO.replace(
    "[weights]", 'audience = "trial"\ntolerance = 0.3\n\n[sampling]\nprice = [40, 2]\nprice_unit = "EUR"\n\n[weights]'
)
REASON = "a *holiday* | <b>really</b>\n\n![x](https://elsewhere.example/x.png)"


def short(here, study, name):
    """A report without one draw of the first arm, of whom no outcome came."""
    token = here.agent_token(study, name)
    plan = AgentPlan.from_json(here.call("GET", f"studies/{study}/agents/{name}/plan", token=token))
    counts = np.array(plan.draws) - [1, 0, 0]
    totals = exactly(counts, np.array([0.9, 0.1, 0.4]))
    given = Delivery(totals=totals, missing=(1, 0, 0), outside=3, reason="missing-outcomes", final=True)
    where = f"studies/{study}/phases/{plan.phase}/reports/{name}"
    here.call("PUT", where, token=token, json=plan.report(given).to_json())


def correct(here, study, name):
    """The sum of the second arm was wrong."""
    where = f"studies/{study}/phases/1/reports/{name}"
    report = Report.from_json(here.call("GET", where)["report"])
    counts = np.array(report.counts)
    totals = exactly(counts, np.array(report.sums) / counts + [0, 0.01, 0])
    made = {**report.to_json(), "sums": totals.sums.tolist(), "squares": totals.squares.tolist()}
    made["sums"][::2], made["squares"][::2] = report.sums[::2], report.squares[::2]
    seen = here.call("POST", f"{where}/correct/preview", json={"report": made})
    here.call("POST", f"{where}/correct", json={"report": made, "preview": seen["digest"], "reason": "a wrong column"})
    return int(counts[1])


@pytest.fixture(scope="module")
def told(here):
    """A study with somebody missing, a pause and a correction: what the API says of it, the page and the file."""
    study = here.create(TRIAL, "told")
    short(here, study, "North")
    here.phase(study)
    here.call("POST", f"studies/{study}/pause", json={"reason": REASON})
    here.call("POST", f"studies/{study}/resume", json={"reason": "back"})
    here.phase(study, but=("South",))
    running = here.call("GET", f"studies/{study}/conduct")
    here.run(study)
    corrected = correct(here, study, "North")
    signed = {"name": "The statistician", "meaning": "reviewed the results", "token": here.token}
    here.call("POST", f"studies/{study}/signatures", json=signed)
    with here.browser(here.issue("analyst")) as browser:
        page, file = browser.get(f"/studies/{study}/report"), browser.get(f"/studies/{study}/report.md")
    assert (page.status_code, file.status_code) == (200, 200), page.text
    assert file.headers["content-disposition"] == 'attachment; filename="told-report.md"'
    return study, corrected, running, page.text, file.text


def test_the_flow_is_what_the_reports_add_up_to(here, told):
    study, corrected, running, *_ = told
    found, status = here.call("GET", f"studies/{study}/conduct"), here.call("GET", f"studies/{study}")
    flow, board = found["flow"], here.call("GET", f"studies/{study}/board")
    assert flow["counted"] == board["counts"]
    assert sum(found["by_arm"]["counted"]) == status["samples"]
    assert (found["outside"], found["outside_in_all"]) == ([3, 0], 3)
    assert flow["missing"] == [[1, 0], [0, 0], [0, 0]]
    assert sum(found["by_arm"]["planned"]) == status["samples"] + 1
    assert flow["corrected"] == [[0, 0], [corrected, 0], [0, 0]]
    assert sum(map(sum, flow["undecided"])) == 0
    assert sum(map(sum, running["flow"]["undecided"])) > 0, "North reported in a phase that waits for South"
    assert all(south == 0 for _, south in running["flow"]["undecided"])
    assert (running["ended_at"], found["ended_at"] > status["created_at"]) == (None, True)
    some = here.call("GET", f"studies/{study}/conduct?first=1&columns=1")
    assert (some["agents"], some["by_arm"]) == (["South"], found["by_arm"])
    assert some["flow"]["planned"] == [row[1:] for row in flow["planned"]]


def test_it_says_who_decided_what_and_why(here, told):
    study, *_, page, file = told
    acts = here.call("GET", f"studies/{study}/conduct")["acts"]
    assert [act["kind"] for act in acts] == ["study-created", "paused", "resumed", "report-corrected", "signed"]
    assert {act["by"] for act in acts} == {"administrator:office"}
    assert "| The statistician | reviewed the results |" in file
    assert "<td>The statistician</td><td>reviewed the results</td>" in page
    assert "<td>a *holiday* | &lt;b&gt;really&lt;/b&gt;" in page
    [line] = [line for line in file.splitlines() if "| paused |" in line]
    assert r"a \*holiday\* \| \<b\>really\</b\> !\[x\](https" in line, "nothing of it is Markdown, HTML or a picture"


def test_page_and_file_have_the_same_sections_and_tables(here, told):
    study, _, _, page, file = told
    sections = re.findall(r'<h2 id="section-\d+">(.+)</h2>', page)
    assert sections == re.findall(r"^## (.+)$", file, re.MULTILINE)
    for name in (
        "Design",
        "Dates",
        "Flow of participants",
        "Costs",
        "Estimates",
        "Who decided what and when",
        "Certificate",
    ):
        assert any(section.endswith(name) for section in sections), name
    status, certificate = (here.call("GET", f"studies/{study}{end}") for end in ("", "/certificate"))
    digest = here.call("POST", f"studies/{study}/verify")["certificate"]
    for words in (
        digest,
        certificate["head"],
        status["digest"],
        "parley verify told.ndjson",
        "created and launched",
        " EUR.",
    ):
        assert words in page, words
        assert words in file, words
    assert "| North | 0.75 | 0.25 |" in file
    assert f"| Phase {certificate['phases']} |".lower() in file.lower()
    assert ">assigned: " in page, "the picture of the flow"
    assert ">outside the study: 3<" in page


def test_a_tolerance_is_drawn_where_arms_are_compared(here, told):
    study, _, _, page, _ = told
    [agent, _] = here.call("GET", f"studies/{study}/findings")["agents"]
    rows = 2 * len(agent["arms"])
    assert page.count('class="equivalent"') == rows, "to the leader, of two agents; means have none"
    made = forest_chart(agent["arms"], "to_leader", "", to=agent["leader"], tolerance=0.3)
    left, width = map(float, re.search(r'<rect y="30" x="([\d.]+)" width="([\d.]+)"', made).groups())
    zero = float(re.search(r'<line x1="([\d.]+)"[^>]*class="limit"', made)[1])
    assert left + width / 2 == pytest.approx(zero, abs=0.02)
    assert "shaded: within 0.300" in made


def test_blinded_readers_get_none_of_it(here, told):
    with here.browser(here.issue("viewer")) as browser:
        for end in ("report", "report.md"):
            assert browser.get(f"/studies/{told[0]}/{end}").status_code == 403
