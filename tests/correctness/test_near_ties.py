"""The short version of `make correctness`, and the test of the test."""

import math

import pytest
from tests.correctness.mutants import (
    FloorLeftOut,
    OpponentsAfterTheData,
    PooledOverUnequalCells,
    RatesAfterTheData,
    StakesBeyondTheLimit,
    ThresholdWithoutAgents,
    VarianceUnderstated,
)
from tests.correctness.near_ties import NOISES, Cell, allowance, every_cell

from parley.confidence.evidence import log_boost
from parley.policies import make_policy
from parley.rewards import bets as wagered

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
    (Cell(arms=2, agents=1, noise="unknown"), 3000),
    (Cell(arms=5, agents=3, noise="unknown per agent", mixed=True), 400),
    (Cell(arms=2, agents=3, noise="unknown per cell", mixed=True), 1000),
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


@pytest.mark.parametrize(
    ("mutant", "cell"),
    [
        (OpponentsAfterTheData, Cell(arms=5, agents=1)),
        (ThresholdWithoutAgents, Cell(arms=5, agents=3)),
        (VarianceUnderstated, Cell(arms=5, agents=1)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_policy_is_found_out(mutant, cell):
    outcome = cell.run(2000, seed=SEED, make=lambda problem: mutant(problem=problem))
    assert outcome.error_rate > allowance(cell.delta, 2000, deviations=4)


def test_twice_the_multiplier_is_found_out(monkeypatch):
    monkeypatch.setattr(wagered, "log_boost", lambda *bet: log_boost(*bet) + math.log(2))
    cell = Cell(arms=2, agents=1)
    assert cell.run(2000, seed=SEED).error_rate > allowance(cell.delta, 2000, deviations=4)


def test_the_full_run_covers_what_was_promised():
    cells = every_cell()
    assert len(cells) == len(set(cells)) == 18 * len(NOISES)
    assert {cell.arms for cell in cells} == {2, 5}
    assert {cell.agents for cell in cells} == {1, 3}
    assert {cell.top for cell in cells} == {1, 2}


@pytest.mark.parametrize(
    ("broken", "cell"),
    [
        (RatesAfterTheData(rate=0.1), Cell(arms=5, agents=1, noise="binary 0.1")),
        (PooledOverUnequalCells(scale="unknown per cell"), Cell(arms=2, agents=3, noise="unknown per cell")),
        (FloorLeftOut(), Cell(arms=2, agents=1, noise="unknown")),
        (StakesBeyondTheLimit(low=0, high=1, guess=0.1), Cell(arms=5, agents=1, noise="variance 0.05")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_reward_model_is_found_out(broken, cell):
    def make(problem):
        return make_policy("evidence", problem.with_(noise=broken), {"rounds": 8})

    outcome = cell.run(1500, seed=SEED, make=make, cap=1000)
    assert outcome.error_rate > allowance(cell.delta, 1500, deviations=4)
