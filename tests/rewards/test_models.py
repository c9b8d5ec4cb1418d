"""Every model with an unknown or uneven scale, and rewards in a range: what they ask, refuse, keep and pay."""

import numpy as np
import pytest
from tests.support import first_quick, paper_study

from parley.bounds import bai
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.protocol import StudyMessage
from parley.rewards import Bounded, BoundedVariance, Gaussian, UnknownScale, make_model, study_model
from parley.simulation import simulate
from parley.study import parse_study
from parley.totals import Totals

SCOPES = ["unknown, shared", "unknown per agent", "unknown"]
UNEVEN = [0.5, 1.0, 1.5]


def samples(noise: dict, scale=None, replications=150) -> float:
    study = paper_study()
    problem = study.problem.with_(noise=make_model(**noise))
    instance = Instance(problem=problem, means=study.instance.means, scale=scale)
    outcome = simulate(make_policy("evidence", problem), instance, replications=replications, seed=5)
    assert outcome.error_rate <= 0.1
    return float(outcome.costs.mean())


@pytest.mark.simulations
def test_not_knowing_the_scale_costs_next_to_nothing():
    known = samples({"scale": 1.0})
    for scope, more in zip(SCOPES, (1.06, 1.08, 1.12), strict=True):
        assert samples({"scale": scope}) < more * known


@pytest.mark.simulations
def test_uneven_scales_are_found_out_by_themselves():
    known = samples({"scale": UNEVEN})
    assert samples({"scale": "unknown per agent"}, UNEVEN) < 1.1 * known
    assert samples({"scale": "unknown"}, UNEVEN) < 1.15 * known


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_whoever_measures_in_other_units_gets_the_same_study(factor):
    """Everything times a factor, the guess too: the same draws, to the last one."""

    def course(unit):
        problem = Problem(
            arms=3, weights=[[0.7, 0.4], [0.3, 0.6]], noise=UnknownScale(guess=unit), largest_gap=unit, delta=0.05
        )
        instance = Instance(problem=problem, means=np.array([[0.9, 0.5], [0.4, 0.1], [0.0, 0.3]]) * unit, scale=unit)
        return simulate(make_policy("evidence", problem), instance, replications=20, seed=3).costs

    assert course(factor).tolist() == course(1.0).tolist()


def test_a_scale_may_be_a_row_or_a_matrix_and_must_fit():
    assert Gaussian(scale=[[1, 2], [1, 2]]) == Gaussian(scale=[1.0, 2.0])
    assert make_model(**Gaussian(scale=[[1, 2], [3, 4]]).document()) == Gaussian(scale=[[1, 2], [3, 4]])
    for wrong in ([1.0, -1.0], [[1.0], [1.0, 2.0]], [], ["a"], [float("nan")]):
        with pytest.raises(InvalidInput, match=r"noise\.scale"):
            Gaussian(scale=wrong)
    with pytest.raises(InvalidInput, match="2 in a row"):
        Problem(arms=3, weights=np.eye(2), noise=Gaussian(scale=[1.0, 2.0, 3.0]))
    with pytest.raises(InvalidInput, match=r"truth\.scale"):
        Instance(problem=Problem(arms=2, weights=np.eye(2)), means=np.eye(2), scale=[1.0, 2.0, 3.0])


def test_one_scale_for_all_is_the_same_written_as_a_matrix():
    assert samples({"scale": [[1.0] * 3] * 6}, replications=20) == samples({"scale": 1.0}, replications=20)


def test_bounds_follow_the_cells_own_variances():
    study = paper_study()
    even = bai(study.instance).value
    problem = study.problem.with_(noise=UnknownScale())
    double = Instance(problem=problem, means=study.instance.means, scale=2.0)
    assert bai(double).value == pytest.approx(4 * even)
    row = Instance(problem=problem, means=study.instance.means, scale=[2.0, 2.0, 2.0 + 1e-9])
    assert bai(row).value == pytest.approx(4 * even, rel=1e-6)


@pytest.mark.parametrize("policy", ["wcpe", "pf-ucb-bai", "uniform"])
def test_policies_with_intervals_refuse_an_unknown_scale_and_say_why(policy):
    problem = paper_study().problem.with_(noise=UnknownScale())
    with pytest.raises(InvalidInput, match=f"the policy {policy}") as refusal:
        make_policy(policy, problem)
    assert "evidence" in str(refusal.value)


def test_a_study_file_that_says_nothing_of_noise_needs_no_scale_but_old_documents_mean_one():
    study = parse_study({"arms": 2, "agents": ["a"]})
    assert study.problem.noise == UnknownScale()
    assert StudyMessage.of(study).noise == {"kind": "gaussian", "scale": "unknown", "guess": 1.0}
    old = {"kind": "bounded", "low": 0.0, "high": 1.0}
    with pytest.raises(InvalidInput, match=r"noise\.high: found nothing; allowed: a number: the largest reward"):
        make_model(kind="bounded", low=0.0)
    assert make_model(**old) == Bounded(low=0, high=1)
    assert make_model(**old).document() == old
    assert study_model(old) == BoundedVariance(low=0, high=1)
    assert study_model(old | {"method": "hoeffding"}) == Bounded(low=0, high=1)
    assert make_model(**study_model(old).document()) == study_model(old)
    with pytest.raises(InvalidInput, match=r"noise\.method"):
        study_model(old | {"method": "chernoff"})


def test_a_truths_scale_is_refused_where_means_say_it_all():
    problem = Problem(arms=2, weights=np.eye(1), noise=make_model(kind="binary"))
    instance = Instance(problem=problem, means=[[0.2], [0.1]], scale=2.0)
    with pytest.raises(InvalidInput, match=r"truth\.scale"):
        simulate(make_policy("evidence", problem), instance, replications=1, seed=0)


@pytest.mark.parametrize("scope", SCOPES)
def test_the_degrees_of_freedom_are_those_of_the_group(scope):
    fresh = Totals(counts=np.array([[3, 5], [2, 9]]), sums=np.zeros((2, 2)), squares=np.array([[2.0, 8.0], [3.0, 8.0]]))
    variances, degrees = UnknownScale(scale=scope).fresh_variances(fresh)
    wanted = {"unknown, shared": [15] * 4, "unknown per agent": [3, 12, 3, 12], "unknown": [2, 4, 1, 8]}[scope]
    assert degrees.ravel().tolist() == wanted
    scatter = {"unknown, shared": [21] * 4, "unknown per agent": [5, 16, 5, 16], "unknown": [2, 8, 3, 8]}[scope]
    assert (variances * degrees).ravel().tolist() == pytest.approx(scatter)


def test_rewards_without_any_scatter_are_no_evidence_and_no_crash():
    problem = Problem(arms=2, weights=[[1.0]], noise=UnknownScale())
    policy = make_policy("evidence", problem)
    state = policy.start()
    for _ in range(3):
        quotas = policy.plan(state)
        means = np.array([[1.0], [0.0]])
        state = policy.update(state, Totals(counts=quotas, sums=quotas * means, squares=quotas * means**2))
    assert state.active.all()


def test_scatter_far_below_the_range_is_worth_more_than_ten_times():
    means = np.array([[0.55, 0.53], [0.52, 0.50], [0.50, 0.52]])

    def cost(model):
        problem = Problem(arms=3, weights=[[0.8, 0.3], [0.2, 0.7]], noise=model, largest_gap=0.2)
        policy, generator = make_policy("evidence", problem), np.random.default_rng(1)
        state = policy.start((20,))
        while not state.finished.all():
            quotas = policy.plan(state)
            scatter = (0.1**2 / 12) * quotas
            sums = quotas * means + np.sqrt(scatter) * generator.standard_normal(quotas.shape)
            squares = np.square(sums) / np.maximum(quotas, 1) + scatter
            state = policy.update(state, Totals(counts=quotas, sums=sums, squares=squares))
        return state.counts.sum(axis=(-2, -1)).mean()

    assert cost(BoundedVariance(low=0, high=1)) < cost(Bounded(low=0, high=1)) / 10


@pytest.mark.parametrize(
    "noise",
    first_quick(
        {"kind": "bounded", "low": -1.0, "high": 1.0, "method": "variance"}, *({"scale": scope} for scope in SCOPES)
    ),
    ids=str,
)
def test_bounds_on_gaps_hold_for_nearly_all_studies(noise):
    study = paper_study()
    problem = study.problem.with_(noise=make_model(**noise))
    instance = Instance(problem=problem, means=study.instance.means)
    policy, generator = make_policy("evidence", problem), np.random.default_rng(4)
    draw = next(iter(problem.noise.samplers(instance.means).values()))()
    state = policy.start((200,))
    for _ in range(8):
        state = policy.update(state, draw(generator, policy.plan(state)))
    losers = ~instance.best
    assert (state.gap_at_least > instance.gaps)[:, losers].any(axis=-1).mean() <= 0.1
    assert (state.gap_at_least[:, losers] > 0).mean() > 0.1
