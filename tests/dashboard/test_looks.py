"""Pages that agree with each other, and charts that stay readable."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from tests.dashboard.site import TWO, site

from parley.coordinator.settings import ServerSettings
from parley.dashboard.charts import Arm, evidence_chart, timeline_chart
from parley.dashboard.pages.evidence import _panels, arms_of
from parley.errors import InvalidInput
from parley.text.status import ArmStatus


def arm(name="a", *, means, radius=0.4, scores=None, first=1, **more):
    lows, highs = ([mean + sign * radius for mean in means] for sign in (-1, 1))
    return Arm(name=name, means=means, lows=lows, highs=highs, scores=scores or [0.0] * len(means), first=first, **more)


def height_of_zero(figure):
    return float(re.findall(r'y="([\d.]+)" class="soft" text-anchor="end">0(?:\.0+)?<', str(figure))[0])


def test_no_axis_goes_beyond_what_a_reward_can_be():
    arms = [arm(means=[0.1, 0.12]), arm("b", means=[0.9, 0.88])]
    floor = height_of_zero(timeline_chart(arms, "x", within=(0.0, 1.0)))
    assert floor == 258 + 4  # zero is where the axis ends
    assert height_of_zero(timeline_chart(arms, "x")) < floor - 20
    assert height_of_zero(timeline_chart(arms, "x", within=(-9.0, 9.0))) == height_of_zero(timeline_chart(arms, "x"))


def test_of_a_long_study_the_latest_phases_are_drawn_with_their_numbers():
    late = [arm(means=[0.5] * 20, first=31), arm("b", means=[0.2] * 20, first=31)]
    figure = str(timeline_chart(late, "x"))
    assert ">50<" in figure
    assert ">1<" not in figure
    none, out = [None] * 20, ArmStatus.RULED_OUT
    gone = Arm(name="c", means=none, lows=none, highs=none, scores=[3.4] * 20, status=out, dropped_in=4, first=31)
    assert "ruled out in phase 4" in str(evidence_chart([*late, gone], 3.4, "x"))


@pytest.mark.parametrize(
    ("means", "rates", "shown"), [([8.1e9, 9.9e9], False, "9,000,000,000"), ([0.03, 0.045], True, "4.0 %")]
)
def test_the_numbers_of_an_axis_fit_whatever_they_are(means, rates, shown):
    arms = [arm(f"variety {place} of the plain", means=[mean], radius=mean / 20) for place, mean in enumerate(means)]
    figure = str(timeline_chart(arms, "x", rates=rates))
    assert f">{shown}<" in figure
    places = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="soft" text-anchor="end">([^<]*)<', figure)
    assert all(float(right) >= 8 * len(words) for right, words in places)  # a digit is 0.62 of 13 units wide


def test_after_many_phases_intervals_are_bands_and_notches_few():
    late = [arm(means=[0.5] * 20, scores=[0.1 * k for k in range(20)], first=8), arm("b", means=[0.2] * 20, first=8)]
    assert str(timeline_chart(late, "x")).count("band") == 2
    assert "interval" not in str(timeline_chart(late, "x"))
    assert str(evidence_chart(late, 3.4, "x")).count("notch") <= 10
    assert "band" not in str(timeline_chart([arm(means=[0.5] * 5), arm("b", means=[0.2] * 5)], "x"))


def test_an_agent_with_one_arm_left_has_its_answer_before_the_study_ends():
    history, board = told([(0.1, 0.2), (0.3, 0.2)], 0.5)
    assert not any(one.chosen for one in arms_of(history, board, 0))
    board.statuses = [["ruled out", "open"], ["chosen", "open"]]
    assert [one.chosen for one in arms_of(history, board, 0)] == [False, True]
    assert not any(one.chosen for one in arms_of(history, board, 1))


def told(columns, scores):
    """A history of one phase and a board, with one column an agent."""
    count, cells = len(columns), list(zip(*columns, strict=True))
    explanation = SimpleNamespace(mixed_means=cells, low=cells, high=cells, score=[[scores] * count] * 2)
    board = SimpleNamespace(
        agents=[f"agent {place}" for place in range(count)],
        arms=["a", "b"],
        candidates=[2] * count,
        top=1,
        ends=["open"] * count,
        statuses=[["open"] * count] * 2,
        dropped_in=[[0] * count] * 2,
    )
    return SimpleNamespace(phases=[SimpleNamespace(phase=1, explanation=explanation)]), board


def test_agents_of_whom_everything_is_the_same_are_told_once():
    panels = _panels(*told([(0.1, 0.2), (0.1, 0.2), (0.3, 0.2)], 1.0), 3.4, None)
    assert [panel["agent"] for panel in panels] == ["agent 0, agent 1", "agent 2"]


def test_before_any_bet_there_is_no_chart_of_zeros():
    assert _panels(*told([(0.1, 0.2)], 0.0), 3.4, None)[0]["evidence"] is None
    assert _panels(*told([(0.1, 0.2)], 0.5), 3.4, None)[0]["evidence"] is not None


def test_the_pages_link_to_the_documentation_where_there_is_one(here, tmp_path):
    with here.browser(False) as browser:
        assert "/help" not in browser.get("/").text
        assert browser.get("/help/index.html").status_code == 404
    made = tmp_path / "docs"
    with pytest.raises(InvalidInput, match="make docs"):
        ServerSettings(docs=str(made))
    made.mkdir()
    (made / "index.html").write_text("<h1>What W is</h1>")
    with site(tmp_path, docs=str(made)) as with_docs, with_docs.browser(False) as browser:
        assert 'href="/help/index.html"' in browser.get("/").text
        answer = browser.get("/help/index.html")
        assert "What W is" in answer.text
        assert "unsafe-inline" in answer.headers["Content-Security-Policy"]
        assert "unsafe-inline" not in browser.get("/").headers["Content-Security-Policy"]
        assert browser.get("/help/../root.token").status_code == 404


@pytest.fixture(scope="module")
def viewer(here):
    here.create(TWO, "looks")
    here.phase("looks")
    names = here.call("GET", "studies/looks")["agent_names"]
    here.phase("looks", but=names[1:])  # the second phase: one report is in
    with here.browser(here.issue("viewer")) as browser:
        yield SimpleNamespace(browser=browser, agents=names)


def test_a_viewer_reads_the_same_samples_on_both_pages(viewer):
    overview, samples = (viewer.browser.get(path).text for path in ("/studies/looks", "/studies/looks/samples"))
    listed = dict(
        re.findall(r"<li class.*?<strong>([^<]+)</strong>.*?([\d,]+) samples? so far", overview, flags=re.DOTALL)
    )
    rows = re.findall(r'<tr><th scope="row">([^<]+)</th>(.*?)</tr>', samples, flags=re.DOTALL)
    cells = {name: re.findall(r'<td class="num">([^<]*)</td>', row) for name, row in rows if name in viewer.agents}
    assert len(listed) == len(viewer.agents)
    assert listed == {name: found[0] for name, found in cells.items() if found}


def test_agents_who_ask_the_same_are_told_once_over_all_pages(here):
    six = TWO.replace('agents = ["North", "South"]', "agents = 6").partition("[weights]")[0]
    kinds = {
        "whole": ("shares = [1, 1, 2, 2, 3, 3]", "population", 1),
        "halves": ("labels = [0, 1, 0, 1, 0, 1]", "clusters", 2),
        "single": ("alpha = 0.5", "personalized", 4),
    }
    with here.browser() as browser:
        for study, (more, kind, panels) in kinds.items():
            here.create(f'{six}\n[weights]\nkind = "{kind}"\n{more}\n', study)
            here.phase(study, np.linspace(0.1, 0.9, 18).reshape(3, 6))
            page = browser.get(f"/studies/{study}/evidence").text
            assert page.count('<section class="panel"') == panels, study
            assert ("Go to agent" in page) == (study == "single")
            if study == "halves":
                assert "agent 1, agent 3, agent 5" in page
                assert "agent 2, agent 4, agent 6" in page


def test_a_viewer_gets_no_seconds_of_times_that_are_to_the_minute(here):
    """A late study said "117 seconds ago" of a time whose seconds it had cut off."""
    here.create(TWO, "seconds")
    here.phase("seconds")
    with here.browser(here.issue("viewer", "Ada")) as browser:
        page = browser.get("/studies/seconds").text
    assert not re.search(r"\d seconds? ago", page)
    assert "ago</time>" in page
