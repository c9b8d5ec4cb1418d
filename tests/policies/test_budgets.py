"""Budgets: a study with a cap on samples or rounds ends there, says so, and claims no more than it knows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.support import rewards, study_message
from tests.support import paper_study

from parley import POLICIES, Instance, Problem, make_policy, simulate
from parley.protocol import Report, Stage, apply, create, issue_certificate
from parley.protocol.events import ReportAccepted
from parley.quotas import cut_to
from parley.status import OutcomeStatus, overall

MEANS = [[0.5], [0.5], [0.1]]


@pytest.mark.parametrize("name", sorted(set(POLICIES) & {"evidence", "wcpe", "uniform", "pf-ucb-bai"}))
@pytest.mark.parametrize(("cap", "cell"), [(5000, 1), (5003, 40), (7, 1), (30, 40)])
def test_a_tie_ends_with_its_budget_and_never_draws_more(name, cap, cell):
    problem = Problem(arms=3, weights=[[1.0]], max_samples=cap, minimum_cell=cell)
    outcome = simulate(make_policy(name, problem), Instance(problem=problem, means=MEANS), replications=20, seed=1)
    assert outcome.costs.max() <= cap
    assert outcome.costs.min() > cap - cell
    assert outcome.status_shares["exhausted"] >= 0.8
    assert (outcome.chosen[outcome.statuses == "exhausted"] == -1).all()


@pytest.mark.parametrize("name", ["evidence", "wcpe"])
def test_rounds_are_a_budget_too(name):
    study = paper_study()
    problem = study.problem.with_(max_rounds=2)
    outcome = simulate(make_policy(name, problem), Instance(problem=problem, means=study.instance.means),
                       replications=50, seed=1)  # fmt: skip
    assert outcome.rounds.max() == 2
    assert outcome.status_shares["exhausted"] > 0.9
    assert not outcome.finished[outcome.statuses == "exhausted"].any()


def test_a_budget_that_is_never_reached_changes_no_bit():
    study = paper_study()
    costs = [
        simulate(make_policy("evidence", study.problem.with_(**terms)), study.instance, replications=40, seed=3).costs
        for terms in ({}, {"max_samples": 10**9, "max_rounds": 1000})
    ]
    assert np.array_equal(*costs)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 500), min_size=6, max_size=6), st.integers(0, 800), st.integers(1, 30))
def test_a_cut_plan_keeps_to_what_is_left_and_to_the_minimum(cells, left, minimum):
    quotas = np.array(cells).reshape(3, 2)
    quotas = np.where((quotas > 0) & (quotas < minimum), minimum, quotas)
    cut = cut_to(quotas, np.array(left), minimum)
    assert cut.sum() <= max(left, quotas.sum() if quotas.sum() <= left else 0)
    assert ((cut == 0) | (cut >= minimum)).all()
    assert (cut <= quotas).all()
    if quotas.sum() <= left:
        assert np.array_equal(cut, quotas)
    elif left >= minimum:
        assert cut.any()
    if minimum == 1 and quotas.sum() > left:
        assert cut.sum() == left


def test_the_certificate_of_an_exhausted_study_claims_candidates_only():
    trial = create("s", study_message(policy="evidence", max_rounds=1))
    while trial.stage is not Stage.FINISHED:
        for name in trial.awaited:
            place = trial.study.agents.index(name)
            totals = rewards(trial.plan.draws(place), place, trial.phase, spread=0.0)
            report = Report.of(totals, study="s", phase=trial.phase, agent=name, plan=trial.plan.digest)
            trial = apply(trial, ReportAccepted(report=report))
        trial = trial.close(trial.step())
    certificate = issue_certificate(trial, data=["x"], sequence=1, head="0" * 64, version="t")
    assert not certificate.complete
    assert set(certificate.ends.values()) == {"exhausted"}
    assert "the budget came first" in certificate.guarantee
    assert type(certificate).read(certificate.text) == certificate


def test_the_worst_end_is_the_studys():
    assert overall(["decided", "exhausted", "accepted"]) is OutcomeStatus.EXHAUSTED
    assert [end.value for end in OutcomeStatus if end.answered] == ["decided", "accepted"]
