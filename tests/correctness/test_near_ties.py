"""The short version of `make correctness`, and the test of the test."""

from dataclasses import replace

import pytest
from tools.correctness.fingerprint import fingerprint
from tools.correctness.mutants import MUTANTS
from tools.correctness.near_ties import NOISES, Cell, allowance
from tools.correctness.tie_rows import FURTHER, UNEVEN, Result, Row, confirmed, every_row
from tools.correctness.ties import Measured, Tie

from parley.rewards import bets as wagered
from parley.rewards import study_model

pytestmark = pytest.mark.simulations

SEED = 77
SHORT = [
    (Cell(arms=5, agents=1), 2000),
    (Cell(arms=2, agents=3), 1500),
    (Cell(arms=5, agents=3, mixed=True), 1000),
    (Cell(arms=5, agents=1, top=2), 1000),
    (Cell(arms=2, agents=1, delta=0.01), 3000),
    (Cell(arms=2, agents=1, noise="subgaussian"), 3000),
    (Cell(arms=5, agents=3, noise="subgaussian", mixed=True), 1000),
    (Cell(arms=5, agents=1, noise="bounded"), 2000),
    (Cell(arms=5, agents=3, noise="bounded", top=2), 600),
    (Cell(arms=2, agents=1, noise="binary 0.5"), 3000),
    (Cell(arms=2, agents=1, noise="unknown, shared"), 3000),
    (Cell(arms=5, agents=3, noise="unknown per agent", mixed=True), 400),
    (Cell(arms=2, agents=3, noise="unknown", mixed=True), 1000),
    (Cell(arms=2, agents=1, noise="variance 0.05"), 2000),
    (Cell(arms=5, agents=3, noise="binary 0.1", mixed=True), 500),
    (Cell(arms=2, agents=3, noise="binary 0.01", mixed=True), 1000),
]


def test_boosted_evidence_with_two_arms_is_sharp_and_not_just_safe():
    outcome = Cell(arms=2, agents=1).run(6000, seed=SEED)
    assert 0.05 <= outcome.error_rate <= 0.1
    assert not outcome.finished.all(), "the cap came first: nearly a tie"


@pytest.mark.parametrize(("cell", "count"), SHORT, ids=lambda value: str(value).replace(" ", ""))
def test_no_error_rate_above_delta(cell, count):
    outcome = cell.run(count, seed=SEED)
    assert outcome.error_rate <= allowance(cell.delta, count)
    assert outcome.rounds.mean() >= 4, "it had its chances to go wrong"


def test_sites_that_scatter_differently_are_no_danger_where_nothing_is_said_of_scales():
    """With one scale for all they would be: 0.17 to 0.37 wrong."""
    stated = NOISES["unknown"].model
    assert stated == study_model({})
    assert stated.document()["scale"] == "unknown"
    outcome = Cell(arms=2, agents=3, noise="unknown").run(1000, seed=SEED)
    assert outcome.error_rate <= allowance(0.1, 1000)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.words.replace(" ", "-"))
def test_a_broken_race_or_model_is_found_out(mutant):
    found = mutant.tie.counted(1500, SEED, mutant.make)
    assert found.agents_wrong > allowance(mutant.tie.delta, 1500, deviations=4)


@pytest.mark.parametrize("mutant", MUTANTS[2:4], ids=lambda mutant: mutant.words.replace(" ", "-"))
def test_it_is_found_out_where_nobody_can_count(mutant):
    found = replace(mutant.tie, delta=1e-5).tilted(600, SEED, mutant.make)
    assert found.agents_wrong > 1e-5 + 4 * found.error


@pytest.mark.parametrize(
    "tie",
    [
        Tie(noise="unknown", arms=2, agents=3, top=1),
        Tie(noise="gaussian", arms=2, agents=3, top=1, together=True),
        Tie(noise="binary 0.01", arms=5, agents=1, top=1, all_tied=True),
        Tie(noise="variance", arms=2, agents=1, top=1),
    ],
    ids=lambda tie: tie.noise.replace(" ", "-") + "-together" * tie.together,
)
def test_counted_and_tilted_agree(tie):
    row = Row(tie=tie, tilted=True)
    counted, tilted = (
        Result(measured=found, sources="", probe=0) for found in (tie.counted(3000, 1), tie.tilted(800, 1))
    )
    assert counted.apart(tilted) < 3.5
    assert not counted.above(tie.delta)
    assert not tilted.above(tie.delta)
    assert row in every_row()


def test_a_disagreement_and_an_error_above_delta_are_told():
    def found(wrong, error, **more):
        return Result(
            measured=Measured(replications=100_000, agents_wrong=wrong, error=error, **more), sources="", probe=0
        )

    counted = found(0.07, 0.0008, studies_wrong=0.07)
    assert counted.apart(found(0.072, 0.001)) < 3 < counted.apart(found(0.08, 0.001))
    assert found(0.11, 0.001, studies_wrong=0.11).above(0.1)
    assert not found(0.0, 0.0, studies_wrong=0.0).above(0.01)


def test_the_full_run_covers_what_was_promised():
    rows = every_row()
    assert len(rows) == len(set(rows))
    for tilted, deltas in ((False, {0.1, 0.01}), (True, {0.1, 0.01, 1e-5, 1e-10})):
        ties = [row.tie for row in rows if row.tilted == tilted]
        assert {tie.delta for tie in ties} == deltas
        assert {(tie.arms, tie.agents) for tie in ties} >= {(2, 1), (2, 3), (5, 1), (5, 3)}
        for noise in set(NOISES) - FURTHER - {UNEVEN}:
            assert {tie.top for tie in ties if tie.noise == noise} == {1, 2, 3}
            assert {tie.all_tied for tie in ties if tie.noise == noise} == {True, False}


def test_a_row_stands_as_long_as_the_race_does_the_same(monkeypatch):
    row = Row(tie=Tie(noise="gaussian", arms=2, agents=1, top=1), tilted=False)
    stored = replace(row.run(300), sources="another version")
    assert confirmed(row, stored, 300) == replace(stored, sources=fingerprint())
    assert confirmed(row, stored, 301) is None, "it had fewer runs"
    monkeypatch.setattr(wagered, "BOLDNESS", 1.3)
    assert confirmed(row, stored, 300) is None
