"""What the overview says of every site before any table: where it is, whether it is late, what is known."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from parley.dashboard.standing import known_sentence, named, says_nothing, site_standings, summary
from parley.text.translation import reading

NOW = datetime(2026, 3, 11, tzinfo=UTC)
OPENED = "2026-03-01T00:00:00.000Z"  # ten days before


def study(*, stage="running", rates=True, missing=(), reported=(), frozen=(), agents=2, **settings):
    usual = {
        "audience": "trial",
        "asks_only": (),
        "draws_only": (),
        "tolerance": 0.05,
        "largest_gap": 1.0,
    } | settings
    return SimpleNamespace(
        stage=stage, rates=rates, missing=list(missing), reported=list(reported), frozen=list(frozen), phase=3,
        agents=agents, asked=agents, settings=usual, together=not usual["tolerance"],
    )  # fmt: skip


def awaited(agent, *, recruited=None, observed=None, held=None):
    return SimpleNamespace(
        agent=agent, since=OPENED, recruited=recruited, observed=observed, held=held, objection=None, unmasked=None
    )


def board(statuses=(("open", "open"), ("open", "open")), *, ends=("open", "open"), blinded=False, **more):
    made = {
        "agents": ["Paris", "Lille"], "arms": ["A", "B", "C"][: len(statuses)], "top": 1, "ends": list(ends),
        "blinded": blinded, "statuses": None if blinded else [list(row) for row in statuses], "candidates": [2, 2],
        "planned": [40, 40], "spent": [90, 80], "rates": None, "delay": [0.0, 0.0], "standing": None,
        "decided_agents": 0,
    }  # fmt: skip
    return SimpleNamespace(**made | more)


def estimates(*means, score=None):
    rows = [list(row) for row in means]
    return SimpleNamespace(mixed_means=rows, score=score or [[0.0] * len(row) for row in rows], line=4.0)


CASE = estimates((0.2, 0.3), (0.4, 0.1), (0.3, 0.2))
TWO = estimates((0.2, 0.3), (0.4, 0.1))
SHOWN = estimates((0.2, 0.3), (0.4, 0.1), (0.3, 0.2), score=[[4.0 - 1e-12, 0.0], [0.0, 0.0], [1.0, 0.0]])
THREE = (("open", "open"), ("open", "open"), ("ruled out", "ruled out"))


@pytest.mark.parametrize(
    ("told", "case", "sentence"),
    [
        (board(), None, "Too early to say: no phase is decided yet."),
        (
            board(),
            TWO,
            "Too early to say: B leads, but any other treatment may still be better by 5 points or more.",
        ),
        (board(THREE), CASE, "B leads. May still be better by 5 points or more: A. Ruled out: C."),
        (board(THREE), SHOWN, "B leads. Shown not to be better by 5 points or more: A. Ruled out: C."),
        (
            board((("open", ""), ("open", ""), ("open", ""))),
            SHOWN,
            "B leads. Shown not to be better by 5 points or more: A. May still be better by 5 points "
            "or more: C.",
        ),
        (board((("chosen", ""), ("ruled out", "")), ends=("decided", "open")), CASE, "A is its best treatment."),
        (
            board((("set aside", ""), ("chosen", "")), ends=("accepted", "open")),
            CASE,
            "B is its answer: no treatment is better by 5 points or more.",
        ),
        (board(ends=("exhausted", "open")), TWO, "No answer: the budget or horizon was reached first. B leads."),
        (board(ends=("cancelled", "open")), None, "No answer: the study was stopped."),
        (
            board(ends=("settled", "open")),
            TWO,
            "B leads. Settled: there is enough evidence. The answer becomes final when every site is settled, because "
            "all answers are given together.",
        ),
        (board(ends=("unasked", "open")), CASE, "It asks no question of its own."),
        (board(ends=("left", "open")), CASE, "It left the study, so it has no answer of its own."),
        (board(blinded=True), None, "2 of 2 treatments may still be the best."),
        (board(blinded=True, candidates=[1, 2]), None, "It has its answer."),
        (
            board(ends=("blocked", "open"), blinded=True),
            None,
            "No answer: the missing data can no longer be supplied.",
        ),
    ],
)  # fmt: skip
def test_what_is_known_of_a_site_is_a_sentence(told, case, sentence):
    with reading("trial"):
        assert known_sentence(study(), told, case, 0) == sentence


@pytest.mark.parametrize(
    ("told", "case", "sentence"),
    [
        (board(), TWO, "Too early to say: B leads, but no treatment is ruled out yet."),
        (board(THREE), CASE, "B leads; still possible: A. Ruled out: C."),
        (board((("open", ""),) * 3), SHOWN, "B leads; still possible: C. There is enough evidence against A."),
    ],
)
def test_without_a_tolerance_an_answer_is_the_best(told, case, sentence):
    with reading("trial"):
        assert known_sentence(study(tolerance=0.0), told, case, 0) == sentence


def test_a_blinded_reader_is_told_of_no_arm():
    for end in ("open", "settled", "exhausted", "decided"):
        said = known_sentence(study(), board(blinded=True, ends=(end, "open")), None, 0)
        assert not {"A", "B"} & set(said.replace(".", "").split())


def test_a_site_is_late_once_its_rate_has_brought_all_that_was_asked_for():
    told = board(rates=[8.0, 4.0], delay=[3.0, 0.0])  # 5 + 3 days and 10 + 0 days, of ten
    status = study(missing=[awaited("Paris", recruited=20, observed=11), awaited("Lille")])
    with reading("trial"):
        paris, lille = site_standings(status, told, None, NOW)
        said = summary(status, told, [paris, lille])
    assert (paris.state, paris.late_days) == ("late", 2)
    assert paris.progress == "20 of 40 participants recruited, 11 observed; expected by now: 40"
    assert (lille.state, lille.late_days) == ("awaited", 0)
    assert lille.progress == "40 participants asked for in this phase"
    assert said == [
        "0 of 2 reports of phase 3 are in.",
        "Still awaited: Paris, Lille.",
        "Late: Paris by 2 days.",
        "No site has its answer yet.",
    ]


def test_without_rates_nobody_is_late_and_what_is_reported_is_full():
    status = study(missing=[awaited("Lille")], reported=[SimpleNamespace(agent="Paris", at=OPENED)])
    paris, lille = site_standings(status, board(), None, NOW)
    assert [paris.state, lille.state] == ["reported", "awaited"]
    assert str(paris.picture).count('width="158"') == 3  # asked for, begun and observed
    assert str(lille.picture).count('width="158"') == 1
    assert "limit" not in str(lille.picture)


def test_when_a_study_is_over_nothing_is_asked_of_anybody():
    for site in site_standings(study(stage="finished"), board(ends=("decided", "decided")), TWO, NOW):
        assert (site.state, site.progress, site.picture) == ("", "", None)
    assert summary(study(stage="finished"), board(decided_agents=2), []) == ["Every agent has its answer."]
    assert summary(study(stage="cancelled"), board(), []) == ["No agent has an answer."]


def test_settled_sites_are_told_of_as_soon_as_there_is_one():
    told = board(ends=("settled", "open"))
    with reading("trial"):
        assert summary(study(stage="closing"), told, [])[1:] == [
            "No site has its answer yet.",
            "1 of 2 sites is settled: its answer becomes final when all are settled.",
        ]
        assert len(summary(study(stage="closing", agents=40), told, [])) == 2, "other pages have more of them"


def test_an_interval_that_says_nothing():
    """After the first phase of a trial the board said "30 % (0 to 91)"."""
    assert says_nothing(0.0, 0.91, rates=True, largest_gap=1.0)
    assert says_nothing(0.0, 0.3, rates=True, largest_gap=0.02)
    assert not says_nothing(0.25, 0.37, rates=True, largest_gap=1.0)
    assert not says_nothing(99.0, 104.0, rates=False, largest_gap=20.0)
    assert says_nothing(0.0, 1.0, rates=False, largest_gap=1.0), "all that a reward can be"


def test_many_names_are_cut():
    assert named([f"site {place}" for place in range(9)]) == "site 0, site 1, site 2, site 3 and 5 more"
