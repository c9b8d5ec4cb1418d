"""Guardrails and secondary outcomes as pages draw them: the margin on its side, every status with its sign."""

import csv
import io
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.dashboard.outcomes import SIGNS, asked_outcomes, guardrail_boards, harm_of, outcome_panels, outcomes_csv
from parley.experiments.report_kit.forest import FOREST, Harm, margin_bar
from parley.text.translation import reading


def measured(estimate, low, high):
    return {"estimate": estimate, "low": low, "high": high, "fixed_low": low, "fixed_high": high}


NOTHING = measured(None, None, None)


def findings(*outcomes, control="placebo"):
    """Of agents who ask something, and one site that only draws."""
    agents = [{"agent": "Lyon", "end": "open"}, {"agent": "Paris", "end": "open"}, {"agent": "Rest", "end": "unasked"}]
    return {"agents": agents, "control": control, "outcomes": list(outcomes)}


def outcome(**changes):
    """A guardrail at two agents: A is cleared, B open, C stopped by the mix of Lyon."""
    cells = {"placebo": (0.05, 0.0), "A": (0.04, -0.01), "B": (0.06, 0.01), "C": (0.2, 0.15)}
    in_mix = {"placebo": "not cleared yet", "A": "cleared", "B": "not cleared yet", "C": "alarm"}
    found = {
        "name": "bleeding", "role": "guardrail", "better": "lower", "level": 0.95, "rates": True, "margin": 0.02,
        "limit": None, "delta": 0.05, "words": "",
        "agents": [
            {
                "agent": name,
                "arms": [
                    {
                        "arm": arm, "count": 100, "mean": measured(mean, mean - 0.01, mean + 0.01),
                        "to_control": measured(gap, gap - 0.02, gap + 0.02), "status": in_mix[arm],
                    }
                    for arm, (mean, gap) in cells.items()
                ],
            }
            for name in ("Lyon", "Paris", "Rest")
        ],
        "arms": [
            {"arm": "A", "status": "cleared", "agents": ["Lyon", "Paris"]},
            {"arm": "B", "status": "not cleared yet", "agents": []},
            {"arm": "C", "status": "stopped", "agents": ["Lyon"]},
        ],
    }  # fmt: skip
    return found | changes


@pytest.mark.parametrize(
    ("changes", "bound", "above", "words"),
    [
        ({}, 0.02, True, "worse by more than 2 points"),
        ({"better": "higher"}, -0.02, False, "worse by more than 2 points"),
        ({"margin": None, "limit": 0.1}, 0.1, True, "worse than the limit, 10 %"),
        ({"margin": None, "limit": 3.5, "better": "higher", "rates": False}, 3.5, False, "worse than the limit, 3.5"),
    ],
    ids=["lower is better", "higher is better", "limit", "limit of a mean"],
)
def test_harm_is_on_the_side_that_is_worse(changes, bound, above, words):
    assert harm_of(outcome(**changes)) == Harm(bound=bound, above=above, words=words)
    assert harm_of(outcome(role="secondary", margin=None, delta=None)) is None


def test_a_board_says_what_each_arm_is_in_every_mix():
    (board,) = guardrail_boards(findings(outcome(), outcome(name="pain", role="secondary", margin=None, arms=[])))
    assert board["arms"] == ["placebo", "A", "B", "C"]
    assert board["summary"].startswith("stopped: C (in the mix of "), "told without scrolling, on a phone too"
    name, (control, a, b, c) = board["rows"][1]
    assert (name, control) == ("Paris", None)
    assert [(cell.status, cell.sign) for cell in (a, b, c)] == [
        ("cleared", "✓"), ("not cleared yet", "●"), ("stopped", "■"),
    ]  # fmt: skip
    assert b.interval == "1.0 points (−1.0 to 3.0)"
    root = ElementTree.fromstring(str(b.bar))
    assert [found.get("class") for found in root] == ["harm", "margin", "s0 whole", "s0"]


def test_a_panel_sums_up_and_draws_the_margin():
    panel, secondary = outcome_panels(
        findings(outcome(), outcome(name="pain", role="secondary", margin=None, delta=None, arms=[]))
    )
    assert [agent["agent"] for agent in panel["agents"]] == ["Lyon", "Paris"], "nobody asks for the other site"
    assert panel["summary"] == "stopped: C (in the mix of Lyon); cleared: A; not cleared yet: B"
    assert [row["arm"] for row in panel["stopped"]] == ["C"]
    (picture,) = panel["agents"][0]["pictures"]
    root = ElementTree.fromstring(str(picture))
    shaded = [found for found in root.iter() if found.get("class") == "harm"]
    assert len(shaded) == 4
    for found in shaded:
        assert float(found.get("x")) + float(found.get("width")) == pytest.approx(FOREST, abs=0.02), "to the right"
    said = "".join(root.itertext())
    assert "C · stopped" in said
    assert "B · not cleared yet" in said
    assert "shaded: harm" in said
    assert [arm["status"] for arm in panel["agents"][0]["arms"]] == ["", "cleared", "not cleared yet", "stopped"]
    assert not secondary["guardrail"]
    assert "harm" not in str(secondary["agents"][0]["pictures"][0])
    assert secondary["agents"][0]["arms"][3]["status"] == ""


def test_words_are_those_of_the_audience():
    with reading("trial"):
        (panel,) = outcome_panels(findings(outcome()))
        assert panel["summary"].startswith("stopped: C (in the mix of Lyon)")


def test_an_alarm_in_one_mix_is_told_there_and_a_proposal_everywhere():
    changes = {"arms": [{"arm": "C", "status": "proposed", "agents": ["Lyon"]}]}
    (board,) = guardrail_boards(findings(outcome(**changes)))
    assert [cells[3].words for _, cells in board["rows"]] == ["stop proposed", "stop proposed"]
    (panel,) = outcome_panels(findings(outcome(**changes)))
    assert panel["summary"] == "stop proposed: C (in the mix of Lyon)"
    assert panel["stopped"] == []
    assert panel["agents"][0]["arms"][3]["status"] == "harm proven"


def test_the_file_has_every_number_in_full():
    rows = list(csv.DictReader(io.StringIO(outcomes_csv(asked_outcomes(findings(outcome()))))))
    assert len(rows) == 8
    assert rows[3] | {"mean": "", "mean_low": "", "mean_high": ""} == {
        "outcome": "bleeding", "role": "guardrail", "better": "lower", "margin": "0.02", "limit": "", "delta": "0.05",
        "level": "0.95", "agent": "Lyon", "arm": "C", "status": "stopped", "in_mix": "alarm", "count": "100",
        "mean": "", "mean_low": "", "mean_high": "", "to_control": "0.15", "to_control_low": "0.13",
        "to_control_high": str(0.15 + 0.02),
    }  # fmt: skip
    assert (rows[0]["status"], rows[0]["in_mix"]) == ("", ""), "the control is compared with nothing"


numbers = st.none() | st.floats(-1e6, 1e6)


@settings(max_examples=30, deadline=None)
@given(
    cells=st.lists(st.builds(measured, numbers, numbers, numbers), min_size=2, max_size=5),
    bound=st.floats(-10, 10),
    better=st.sampled_from(["lower", "higher"]),
    statuses=st.lists(st.sampled_from(list(SIGNS)), min_size=5, max_size=5),
)
def test_whatever_the_numbers_every_part_is_drawn(cells, bound, better, statuses):
    arms = [
        {"arm": f"<{k}>", "count": 0, "mean": cell, "to_control": None, "status": "alarm"}
        for k, cell in enumerate(cells)
    ]
    found = outcome(
        margin=None, limit=bound, better=better, rates=False, agents=[{"agent": "x", "arms": arms}],
        arms=[{"arm": arm["arm"], "status": one, "agents": ["x"]} for arm, one in zip(arms, statuses, strict=False)],
    )  # fmt: skip
    (panel,), (board,) = (make(findings(found, control=None)) for make in (outcome_panels, guardrail_boards))
    for picture in (*panel["agents"][0]["pictures"], *(cell.bar for cell in board["rows"][0][1])):
        for part in ElementTree.fromstring(str(picture)).iter():
            if "width" in part.attrib:
                assert float(part.get("width")) >= 0
    assert str(margin_bar(NOTHING, harm_of(found), []))
