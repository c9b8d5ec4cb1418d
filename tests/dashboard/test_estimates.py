"""What a study has found so far: in API, page, report and file, at every phase and to the digit."""

import csv
import io
from xml.etree import ElementTree

import httpx2
import numpy as np
import pytest
from markupsafe import escape
from tests.dashboard.site import TWO

from parley.experiments.report_kit.forest import MOST, forest_chart
from parley.experiments.report_kit.svg import breadth
from parley.text.formatting import KINDS, estimate_text

CONTROLLED = TWO.replace("[weights]", 'control = "c"\n\n[weights]')


@pytest.fixture(scope="module")
def half(here):
    """A study with a control after two of its phases."""
    here.create(CONTROLLED, "half")
    here.phase("half")
    here.phase("half")
    return "half"


def test_before_the_first_decision_there_is_nothing(here):
    here.create(TWO, "fresh")
    found = here.call("GET", "studies/fresh/findings")
    assert (found["phase"], [agent["arms"] for agent in found["agents"]]) == (0, [[], []])
    with here.browser() as browser:
        assert "Estimates so far" not in browser.get("/studies/fresh/answer").text


def test_at_the_end_they_are_what_the_certificate_says(here):
    here.create(CONTROLLED, "whole")
    here.run("whole")
    stored = here.call("GET", "studies/whole/certificate")["evidence"]["estimates"]
    found = here.call("GET", "studies/whole/findings")
    assert [found[key] for key in ("level", "words", "change")] == [stored[key] for key in ("level", "words", "change")]
    for one, other in zip(found["agents"], stored["agents"], strict=True):
        assert (one["agent"], one["leader"], one["end"]) == (other["agent"], other["leader"], "decided")
        assert [{kind: arm[kind] for kind in KINDS} for arm in one["arms"]] == [
            {kind: arm[kind] for kind in KINDS} for arm in other["arms"]
        ]
        assert [arm["arm"] for arm in one["arms"] if arm["status"] == "chosen"] == [one["leader"]]


def test_they_are_there_at_every_phase_and_of_some_agents(here, half):
    now, first = here.call("GET", f"studies/{half}/findings"), here.call("GET", f"studies/{half}/findings?phase=1")
    assert (now["phase"], first["phase"], first["phases"], first["control"]) == (2, 1, 2, "c")
    assert first["change"] is None, "there is one phase"
    widths = [
        sum(arm["mean"]["high"] - arm["mean"]["low"] for agent in found["agents"] for arm in agent["arms"])
        for found in (first, now)
    ]
    assert widths[0] > widths[1]
    part = here.call("GET", f"studies/{half}/findings?first=1&columns=1")
    assert part["agents"] == now["agents"][1:]
    with pytest.raises(AssertionError, match="phase 3 is not decided yet: the last decided phase is 2"):
        here.call("GET", f"studies/{half}/findings?phase=3")


def test_page_report_and_file_say_what_the_api_says(here, half):
    found = here.call("GET", f"studies/{half}/findings")
    with here.browser() as browser:
        page, report = (browser.get(f"/studies/{half}/{name}").text for name in ("answer", "report"))
        file = browser.get(f"/studies/{half}/estimates.csv")
    for shown in (page, report):
        assert escape(found["change"]["words"]) in shown, "whether differences change, and that it is no guarantee"
    assert "not part of the guarantee" in found["change"]["words"]
    assert file.headers["content-disposition"] == 'attachment; filename="half-estimates.csv"'
    rows = iter(csv.DictReader(io.StringIO(file.text)))
    for agent in found["agents"]:
        for arm in agent["arms"]:
            row = next(rows)
            assert (row["agent"], row["arm"], row["draws"]) == (agent["agent"], arm["arm"], str(arm["draws"]))
            for kind in KINDS:
                assert float(row[f"{kind}_low"]) == arm[kind]["low"]
                assert float(row[f"{kind}_fixed_high"]) == arm[kind]["fixed_high"]
                assert page.count(estimate_text(arm[kind])) >= 1
                assert report.count(estimate_text(arm[kind])) >= 1
    assert page.count('class="figure forest"') == 4, "to the leader and to the control, of two agents"
    assert "Difference from c" in page
    assert "for comparison only" in page


def test_how_it_ended_has_the_same_words_everywhere(here):
    here.create(CONTROLLED.replace("[weights]", "max_rounds = 1\n\n[weights]"), "spent")
    here.run("spent")
    found = here.call("GET", "studies/spent/findings")
    assert {agent["end"] for agent in found["agents"]} == {"exhausted"} == {here.call("GET", "studies/spent")["end"]}
    with here.browser() as browser:
        for page in ("", "/answer", "/report"):
            text = browser.get(f"/studies/spent{page}").text
            assert "xhausted: the budget or horizon was reached first" in text, page
            assert "Stopped early" not in text


def test_what_is_said_of_the_candidates_is_what_is_proven_of_them(here):
    """With a tolerance the true best need not be among them: one of them is within the tolerance of it."""
    for tolerance, words in (
        ("", "each agent's true best is among them"),
        ("tolerance = 0.05", "within 0.05 of its best"),
    ):
        study = f"left-{len(tolerance)}"
        here.create(TWO.replace("[weights]", f"max_rounds = 1\n{tolerance}\n\n[weights]"), study)
        here.run(study, np.array([[0.5, 0.5], [0.49, 0.51], [0.48, 0.5]]))
        with here.browser() as browser:
            text = browser.get(f"/studies/{study}/answer").text.replace("&#39;", "'")
        assert words in text
        assert ("true best" in text) == (not tolerance)


def test_a_viewer_gets_none_of_it(here, half):
    viewer = here.issue("viewer", "Vi")
    headers = {"Authorization": f"Bearer {viewer}"}
    assert httpx2.get(f"{here.address}/v1/studies/{half}/findings", headers=headers).status_code == 403
    with here.browser(viewer) as browser:
        assert browser.get(f"/studies/{half}/estimates.csv").status_code == 403
        assert "forest" not in browser.get(f"/studies/{half}/answer").text


def arm_of(name, middle, half, **changes):
    cell = {"estimate": middle, "low": middle - half, "high": middle + half}
    cell |= {"fixed_low": middle - half / 2, "fixed_high": middle + half / 2}
    known = {"arm": name, "status": "open", "dropped_in": 0, "draws": 9, "mean": cell}
    return known | {"to_leader": cell, "to_control": None} | changes


@pytest.mark.parametrize("middle", [-1e9, -0.3, 0.0, 1e-9, 12345.0])
@pytest.mark.parametrize("half", [1e-12, 0.01, 1e6])
@pytest.mark.parametrize("to", [None, "arm 0"])
def test_whatever_the_numbers_the_picture_stays_in_its_frame(middle, half, to):
    arms = [arm_of(f"arm {k}", middle + k * half, half * (k + 1)) for k in range(MOST + 2)]
    arms[3]["mean"] = arms[3]["to_leader"] = dict.fromkeys(arms[3]["mean"])
    root = ElementTree.fromstring(str(forest_chart(arms, "to_leader" if to else "mean", "<label>", to=to)))
    width, height = (float(value) for value in root.get("viewBox").split()[2:])
    for found in root.iter():
        assert "style" not in found.attrib
        for name, most in (("x1", width), ("x2", width), ("cx", width), ("y1", height), ("y2", height)):
            assert -1 <= float(found.get(name, 0)) <= most + 1
    text = "".join(root.itertext())
    assert "and 2 more" in text
    assert root.get("aria-label") == "<label>"


@pytest.mark.parametrize("tolerance", [0.0, 0.2, 5.0])
def test_no_bar_of_a_picture_lies_under_a_label(tolerance):
    arms = [arm_of("placebo", 0.0, 0.0), *(arm_of(f"dose {k}", 0.2 * k - 0.5, 0.6) for k in range(6))]
    made = forest_chart(arms, "to_leader", "x", to="placebo", rates=True, tolerance=tolerance)
    root = ElementTree.fromstring(str(made))
    bars = [(float(one.get("y")), float(one.get("height"))) for one in root.iter("rect")]
    bars += [(float(one.get("y1")) - 4, 8.0) for one in root.iter("line") if one.get("y1") == one.get("y2")]
    assert len(bars) >= 12
    for found in root.iter("text"):
        low = float(found.get("y"))
        assert not any(top < low + 3 and top + height > low - 11 for top, height in bars), found.text


def test_an_arm_with_an_interval_and_no_estimate_yet_has_no_data():
    arms = [arm_of("placebo", 0.0, 0.1), arm_of("dose", 0.2, 0.1)]
    arms[1]["mean"] = {**arms[1]["mean"], "estimate": None, "fixed_low": None, "fixed_high": None}
    assert "no data" in str(forest_chart(arms, "mean", "x"))


def test_a_picture_says_its_numbers_and_marks_the_reference():
    arms = [arm_of("placebo", 0.0, 0.0), arm_of("<b>dose</b>", 0.21, 0.11)]
    root = ElementTree.fromstring(str(forest_chart(arms, "to_leader", "x", to="placebo")))
    text = "".join(root.itertext())
    assert "0.21 (0.10 to 0.32)" in text
    assert "0, by definition" in text
    assert "<b>dose</b>" in text
    width = float(root.get("viewBox").split()[2])
    for found in root.iter("text"):
        reach = breadth(found.text) * {"start": 1, "middle": 0.5, "end": -1}[found.get("text-anchor")]
        assert -1 <= float(found.get("x")) + reach <= width + 1, f"{found.text} is cut off"
