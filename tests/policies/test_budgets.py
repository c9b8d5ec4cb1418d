"""Budgets: a study with a cap on samples or rounds ends there, says so, and claims no more than it knows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from tests.protocol.support import rewards, study_message
from tests.support import first_quick, paper_study

from parley import POLICIES, Instance, Problem, make_policy, simulate
from parley.policies.base import cut_to
from parley.protocol import Report, Stage, apply, create, issue_certificate
from parley.protocol.events import ReportAccepted
from parley.rewards import make_model
from parley.simulation import phases
from parley.text.status import OutcomeStatus, overall
from parley.totals import Totals

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
    assert "the budget was reached first" in certificate.guarantee
    assert type(certificate).read(certificate.text) == certificate


def test_the_worst_end_is_the_studys():
    assert overall(["decided", "exhausted", "accepted"]) is OutcomeStatus.EXHAUSTED
    assert [end.value for end in OutcomeStatus if end.answered] == ["decided", "accepted"]


def last_look(**settings):
    """Two arms, nearly a tie: whoever errs, errs here."""
    problem = Problem(arms=2, weights=[[1.0]], delta=0.1, **settings)
    instance = Instance(problem=problem, means=[[0.0], [-1e-9 - problem.tolerance]])
    return make_policy("evidence", problem), instance


@pytest.mark.parametrize(
    "settings",
    first_quick({"max_samples": 400}, {"max_samples": 3000}, {"max_rounds": 3}, {"max_samples": 300, "tolerance": 0.1}),
)
@pytest.mark.parametrize("scale", first_quick(1.0, "unknown"))
def test_the_last_look_is_all_in_and_errs_no_more_than_it_may(settings, scale):
    """The budget is a horizon: what is left is one test of fixed size, so errors come near delta and stay below."""
    policy, instance = last_look(noise=make_model(kind="gaussian", scale=scale), **settings)
    outcome = simulate(policy, instance, replications=4000, seed=2)
    assert 0.03 <= outcome.error_rate <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 4000)
    assert outcome.status_shares["exhausted"] > 0.2


def test_a_plan_that_wants_most_of_what_is_left_takes_it_all():
    policy, instance = last_look(max_samples=500)
    taken = 0
    for seed in range(10):
        for phase in phases(policy, instance, seed=seed):
            left = 500 - int(phase.before.counts.sum())
            drawn = int(phase.quotas.sum())
            assert drawn == left or drawn < 0.8 * left or phase.number == 1
            taken += drawn == left
    assert taken >= 8


def test_power_is_near_that_of_a_fixed_size_and_fewer_people_are_asked():
    """Two arms, gap 0.5, 100 draws at most: a test of fixed size finds it with probability 0.89 and takes them all."""
    problem = Problem(arms=2, weights=[[1.0]], delta=0.1, max_samples=100)
    instance = Instance(problem=problem, means=[[0.5], [0.0]])
    outcome = simulate(make_policy("evidence", problem), instance, replications=3000, seed=4)
    fixed = norm.cdf(0.5 / np.sqrt(4 / 100) - norm.isf(0.1))
    assert outcome.correct.mean() >= fixed - 0.13
    assert outcome.costs.mean() <= 78


@pytest.mark.parametrize(
    "study", first_quick({"means": [0.5, 0.5], "tolerance": 0.2}, {"means": [0.5] * 4, "tolerance": 0.1})
)
def test_with_a_tolerance_the_largest_size_is_named_before_the_study_and_kept(study):
    problem = Problem(arms=len(study["means"]), weights=[[1.0]], tolerance=study["tolerance"])
    policy = make_policy("evidence", problem)
    instance = Instance(problem=problem, means=[[mean] for mean in study["means"]])
    outcome = simulate(policy, instance, replications=2000, seed=7)
    assert outcome.costs.max() <= policy.largest_size
    assert outcome.finished.mean() >= 0.995
    assert make_policy("evidence", problem.with_(max_samples=100)).largest_size == 100
    unknown = problem.with_(noise=make_model(kind="gaussian", scale="unknown"))
    assert make_policy("evidence", unknown).largest_size is None, "nobody knows how much rewards scatter"
    assert make_policy("evidence", problem.with_(tolerance=0.0)).largest_size is None


@pytest.mark.parametrize(
    ("terms", "options", "said"),
    [
        ({}, {}, "6 looks are planned, including the first phase; further looks follow if the planned ones do not "
                 "suffice"),
        ({}, {"rounds": 4}, "5 looks are planned, including the first phase; further looks follow if the planned ones "
                            "do not suffice"),
        ({"max_rounds": 1}, {}, "at most 1 look"),
        ({"max_rounds": 4, "max_samples": 2000}, {}, "at most 4 looks; never more than 2,000 samples, whatever the "
                                                     "truth"),
    ],
)  # fmt: skip
def test_looks_and_size_are_told_before_a_study(terms, options, said):
    policy = make_policy("evidence", Problem(arms=3, weights=[[1.0]], **terms), options)
    assert policy.extent == said
    tolerant = make_policy("evidence", Problem(arms=3, weights=[[1.0]], tolerance=0.1, **terms), options)
    assert f"never more than {tolerant.largest_size:,} samples" in tolerant.extent
    changes = "whatever the truth, unless the question changes (other arms or weights)"
    assert (changes in tolerant.extent) == ("max_samples" not in terms), "a stated budget holds whatever is asked"
    if not terms:
        assert make_policy("uniform", policy.problem).extent == ""


@pytest.mark.parametrize("more", range(4, 24))
def test_a_budget_that_leaves_less_than_a_cell_of_each_arm_is_spent_or_over(more):
    """An empty plan of a study that is not over would stall it."""
    weights = [[0.7, 0.4], [0.3, 0.6]]
    free = make_policy("evidence", Problem(arms=3, weights=weights))
    counts = free.plan(free.start())
    policy = make_policy("evidence", free.problem.with_(max_samples=int(counts.sum()) + more, minimum_cell=5))
    state = policy.start()
    for _ in range(9):
        means = np.array([[0.05], [0.0], [0.0]])
        state = policy.update(state, Totals(counts=counts, sums=counts * means, squares=counts * (1 + means**2)))
        if state.finished:
            break
        counts = policy.plan(state)
        assert counts.any()
    assert state.finished


@pytest.mark.parametrize("terms", first_quick({"max_rounds": 4}, {"max_samples": 700}, {}, {"top": 2}, quick=2))
@pytest.mark.parametrize(
    ("noise", "middle"),
    [({"kind": "gaussian", "scale": 1.0}, 0.0), ({"kind": "binary", "inference": "normal"}, 0.5),
     ({"kind": "binary"}, 0.5)],
)  # fmt: skip
def test_the_size_that_is_told_is_kept_whatever_the_rewards_say(noise, middle, terms):
    """The sites see what they like: every phase another arm is the best, or all are as good."""
    problem = Problem(arms=4, weights=[[0.7, 0.2], [0.3, 0.8]], tolerance=0.1, noise=make_model(**noise), **terms)
    policy, rng = make_policy("evidence", problem), np.random.default_rng(20261118)
    state, spread = policy.start((40,)), rng.choice([0.0, 0.02, 0.1, 0.4], size=(40, 1, 1))
    for _ in range(80):
        counts = policy.plan(state)
        if not counts.any():
            break
        means = np.clip(middle + spread * rng.normal(size=counts.shape), *((0, 1) if middle else (-9, 9)))
        sums = np.round(counts * means) if middle else counts * means
        squares = sums if middle else counts + sums * means
        state = policy.update(state, Totals(counts=counts, sums=sums, squares=squares))
    assert state.finished.all()
    assert (state.counts.sum(axis=(-2, -1)) <= policy.largest_size).all()
