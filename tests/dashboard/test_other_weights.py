"""For which weights an answer stays: API, page, report and command say the same."""

import json

import pytest
from tests.dashboard.site import TWO

from parley.cli.main import main
from parley.dashboard.charts import standing_chart


@pytest.fixture(scope="module")
def whole(here):
    here.create(TWO, "whole")
    here.run("whole")
    return "whole"


def test_before_the_first_decision_and_of_one_agent_there_is_nothing(here):
    here.create(TWO, "fresh")
    assert here.call("GET", "studies/fresh/sensitivity")["agents"] == []
    alone = TWO.replace('"North", "South"', '"North"').replace(
        'kind = "personalized"\nalpha = 0.5', 'kind = "identity"'
    )
    here.create(alone.replace("Two sites", "One"), "alone")
    here.phase("alone")
    assert here.call("GET", "studies/alone/sensitivity")["agents"] == []
    with here.browser() as browser:
        for study in ("fresh", "alone"):
            assert "Other weights" not in browser.get(f"/studies/{study}/answer").text


def test_answers_are_proven_at_the_studys_own_weights_and_the_page_says_so(here, whole):
    found = here.call("GET", f"studies/{whole}/sensitivity")
    answers = here.call("GET", f"studies/{whole}/certificate")["answers"]
    assert (found["axis"], found["proofs"], found["level"]) == ("alpha", True, 0.9)
    for agent in found["agents"]:
        assert agent["arms"] == answers[agent["agent"]]
        own = next(step for step in agent["steps"] if step["value"] == agent["stated"] == 0.5)
        assert own["standing"] in ("proven", "holds")
        held = [step["value"] for step in agent["steps"] if step["standing"] == "holds"]
        assert (agent["low"], agent["high"]) == ((held[0], held[-1]) if held else (None, None))
    with here.browser() as browser:
        page, report = (browser.get(f"/studies/{whole}/{name}").text for name in ("answer", "report"))
    for shown in (page, report):
        assert "Other weights" in shown
        assert "The weights for which each answer holds" in shown
        for agent in found["agents"]:
            cells = [", ".join(s["leaders"]) if s["standing"] == "other" else s["standing"] for s in agent["steps"]]
            assert "".join(f"<td>{cell}</td>" for cell in cells) in shown
    assert 'type="range"' in page
    assert 'type="range"' not in report, "paper has all steps"


def test_some_agents_only(here, whole):
    part = here.call("GET", f"studies/{whole}/sensitivity?first=1&columns=1")
    assert part["agents"] == here.call("GET", f"studies/{whole}/sensitivity")["agents"][1:]


def test_the_command_prints_a_table_or_all_of_it(here, whole, monkeypatch, capsys):
    monkeypatch.setenv("PARLEY_TOKEN", here.token)
    monkeypatch.setenv("COLUMNS", "200")
    for extra in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main(["admin", "weights", whole, "--server", here.address, *extra])
        assert ended.value.code == 0
    told = capsys.readouterr().out
    table, _, document = told.partition("\n{")
    assert json.loads("{" + document) == here.call("GET", f"studies/{whole}/sensitivity")
    assert "other weights (alpha)" in table
    assert "The level is 0.9." in table


def test_the_picture_is_the_taller_the_more_is_left():
    steps = [
        {"value": v, "standing": s, "leaders": ["a"]} for v, s in ((0.0, "holds"), (0.5, "proven"), (1.0, "other"))
    ]
    found = {"agents": [{"agent": "<North>", "arms": ["a"], "stated": 0.5, "steps": steps}]}
    drawn = standing_chart(found, "label")
    assert "&lt;North&gt;: a" in drawn
    assert [drawn.index(f'height="{height}"') for height in (16, 10, 1)] == sorted(
        drawn.index(f'height="{height}"') for height in (16, 10, 1)
    )
