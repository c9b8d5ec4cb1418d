"""Pairs of outcome and covariate in, ordinary totals out."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from parley.bounds import Guarantee, RegretUntil, lower_bounds
from parley.bounds.prices import priced_bounds
from parley.covariates import Covariate, Pairs, Slopes, adjusted_rewards, checked_x, fixed_for, left_after
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Problem
from parley.protocol import StudyMessage
from parley.study import parse_study
from parley.totals import Totals
from parley.validation.tables import number_in, read_table

KEYS = {"arms": 3, "agents": 2, "covariate": {"name": "age"}}
UNKNOWN = {"scale": "unknown"}
RANGE = {"kind": "bounded", "low": 0, "high": 1}


def study(covariate=None, noise=None, **more):
    return parse_study(KEYS | {"covariate": {"name": "age"} | (covariate or {}), "noise": noise or UNKNOWN} | more)


numbers = some.floats(-1e3, 1e3)
people = some.lists(some.tuples(numbers, some.none() | numbers), max_size=8)


@given(some.lists(people, min_size=1, max_size=3), some.floats(-5, 5), numbers)
def test_totals_adjusted_by_sums_are_those_adjusted_person_by_person(cells, theta, x0):
    known = [[(y, x) for y, x in cell if x is not None] for cell in cells]
    rewards, xs = [[y for y, _ in cell] for cell in known], [[x for _, x in cell] for cell in known]
    one_by_one = Totals.of(adjusted_rewards(rewards, xs, theta, x0))
    summed = Pairs.of(rewards, xs).column.adjusted(np.array([theta]), np.array([x0]))[:, 0]
    scale = 1 + np.abs(one_by_one.squares).max() + theta**2 * 1e7
    np.testing.assert_allclose(summed.sums, one_by_one.sums, atol=1e-9 * scale)
    np.testing.assert_allclose(summed.squares, one_by_one.squares, atol=1e-9 * scale)
    np.testing.assert_array_equal(summed.counts, one_by_one.counts)


def test_the_slope_is_that_of_least_squares_within_cells_and_arms_do_not_bias_it():
    rng = np.random.default_rng(1)
    xs = [rng.normal(50, 10, 400).tolist(), rng.normal(80, 10, 400).tolist()]
    rewards = [[3.0 + 0.2 * x + e for x, e in zip(own, rng.normal(size=400), strict=True)] for own in xs]
    rewards[1] = [y - 100.0 for y in rewards[1]]  # an arm that is far off, whose people are others
    slopes = Slopes.none((1,)).added(Pairs.of(rewards, xs).column)
    design = np.zeros((800, 3))
    design[:, 0], design[:400, 1], design[400:, 2] = np.concatenate(xs), 1.0, 1.0
    fitted = np.linalg.lstsq(design, np.concatenate(rewards), rcond=None)[0][0]
    assert slopes.theta[0] == pytest.approx(fitted, rel=0.01)  # drawn towards 0 by a hundredth at most
    assert slopes.theta[0] <= fitted
    assert slopes.x0[0] == pytest.approx(np.mean(xs))


def test_a_site_tells_what_its_next_slope_leaves_of_the_scatter():
    rng = np.random.default_rng(3)
    xs = [rng.normal(size=200).tolist() for _ in range(2)]
    rewards = [[0.9 * x + 0.4 * e for x, e in zip(own, rng.normal(size=200), strict=True)] for own in xs]
    pairs, rule = Pairs.of(rewards, xs), Covariate(name="x")
    after, x0 = fixed_for(rule, [pairs])
    residual = Totals.of(adjusted_rewards(rewards, xs, after, x0)).scatter.sum() / pairs.totals.scatter.sum()
    assert left_after(rule, [], pairs, 0.0) == pytest.approx(residual)
    assert residual < 0.25
    # Of the same sums, and in a batch, to the last bit.
    totals, _ = rule.reported(Slopes.none((1,)), pairs.column)
    assert totals.left.ravel().tolist() == [left_after(rule, [], pairs, 0.0)] * 2
    # Half of the people have no x: their scatter stays.
    half = Pairs.of([[*own, *own] for own in rewards], [[*own, *[None] * 200] for own in xs])
    assert left_after(rule, [], half, 0.0) == pytest.approx((1 + residual) / 2, abs=1e-6)
    assert left_after(rule, [pairs], pairs, after) == pytest.approx(1.0, abs=1e-3)
    assert left_after(Covariate(name="x", theta=np.array([0.5])), [], pairs, 0.5) is None


def test_people_between_phases_are_adjusted_as_the_phase_before_and_teach_the_next_one():
    rng, rule = np.random.default_rng(4), Covariate(name="x", center=0.0)

    def people(count):
        xs = [rng.normal(size=count).tolist() for _ in range(2)]
        return Pairs.of(
            [[0.9 * x + 0.4 * e for x, e in zip(own, rng.normal(size=count), strict=True)] for own in xs], xs
        )

    one, two, own, early = (people(count).column for count in (20, 30, 40, 10))
    then = Slopes.none((1,)).added(one)
    now = then.added(two)
    totals, after = rule.reported(now, replace(own, between=early), then)
    assert totals.between == early.adjusted(*rule.fixed(then)) != early.adjusted(*rule.fixed(now))
    assert replace(totals, between=None, left=None) == own.adjusted(*rule.fixed(now))
    assert after.theta == now.added(early).added(own).theta


def test_a_useless_or_constant_covariate_gives_no_slope():
    rng = np.random.default_rng(2)
    useless = [
        Slopes.none((1,)).added(Pairs.of([rng.normal(size=50).tolist()], [rng.normal(size=50).tolist()]).column)
        for _ in range(400)
    ]
    thetas = np.array([one.theta[0] for one in useless])
    assert (thetas == 0).mean() > 0.6
    assert np.abs(thetas).max() < 0.6
    same = Slopes.none((1,)).added(Pairs.of([[1.0, 2.0, 5.0, 3.0]], [[1e8] * 4]).column)
    assert same.theta[0] == 0
    assert same.constant[0]
    assert not useless[0].constant[0]


def test_who_has_no_covariate_keeps_the_outcome_and_says_nothing_of_the_slope():
    pairs = Pairs.of([[1.0, 7.0, 2.0]], [[1.0, None, 2.0]])
    assert pairs.known.tolist() == [2]
    assert pairs.xy.tolist() == [0.5]
    assert adjusted_rewards([[1.0, 7.0]], [[3.0, None]], 2.0, 1.0) == [[-3.0, 7.0]]


def test_before_anything_is_known_nothing_is_adjusted_and_x0_is_the_mean_of_the_first_phase_for_good():
    rule = study().problem.adjustment
    first = Pairs.of([[1.0, 2.0, 3.5, 4.0]], [[1.0, 2.0, 3.0, 6.0]])
    later = Pairs.of([[1.0, 2.0, 3.5, 4.0]], [[11.0, 12.0, 13.0, 16.0]])
    assert fixed_for(rule, []) == (0.0, None)
    theta, x0 = fixed_for(rule, [first])
    assert theta > 0
    assert x0 == 3.0
    assert fixed_for(rule, [first, later])[1] == 3.0


@given(some.floats(0, 1), some.floats(-1e3, 1e3), some.floats(20, 80), some.floats(-2, 2))
def test_adjusted_rewards_stay_in_the_range_that_the_model_knows(y, x, x0, slope):
    for center in (None, 50.0):
        keys = {"range": [20, 80]} | ({} if center is None else {"center": center})
        problem = study(keys, RANGE).problem
        rule = problem.adjustment
        theta = float(np.clip(slope, -rule.largest, rule.largest))
        low, high = problem.noise.ends
        ((adjusted,),) = adjusted_rewards([[y]], [[rule.clipped(x)]], theta, x0 if center is None else center)
        assert low - 1e-9 <= adjusted <= high + 1e-9
        assert problem.noise.flaw(1, adjusted, adjusted**2) is None


def test_to_clip_adjusted_outcomes_would_reverse_two_arms_and_to_clip_x_does_not():
    """The trap of mathematics 20: A is always 0.5, B is 1 with probability 0.55, x - x0 = -1, theta = 0.5."""
    a, b = adjusted_rewards([[0.5], [1.0, 0.0]], [[-1.0], [-1.0, -1.0]], 0.5, 0.0)
    mean_a, mean_b = a[0], 0.55 * b[0] + 0.45 * b[1]
    assert mean_b - mean_a == pytest.approx(0.55 - 0.5)
    clipped = [min(max(y, 0.0), 1.0) for y in (a[0], *b)]
    assert 0.55 * clipped[1] + 0.45 * clipped[2] < clipped[0]


def test_the_model_of_reports_is_wider_and_what_is_stored_is_the_model_of_outcomes():
    found = study({"range": [20, 80], "center": 50}, RANGE)
    assert found.problem.noise.ends == (-0.5, 1.5)
    assert found.problem.largest_gap == 1.0
    message = StudyMessage.of(found)
    assert message.noise == {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"}
    again = StudyMessage.read(message.text)
    assert again == message
    assert again.problem.noise.ends == (-0.5, 1.5)
    assert again.problem.with_(delta=0.01).noise.ends == (-0.5, 1.5)
    assert again.problem.with_(covariate=None, covariate_range=None, covariate_center=None).noise.ends == (0.0, 1.0)


@pytest.mark.parametrize(
    ("noise", "kind"),
    [
        (UNKNOWN, "AdjustedScale"),
        (RANGE, "AdjustedVariance"),
        (RANGE | {"method": "hoeffding"}, "AdjustedRange"),
        ({"kind": "binary"}, "AdjustedVariance"),
        ({"kind": "binary", "inference": "normal"}, "AdjustedNormal"),
    ],
)
def test_what_outcomes_become(noise, kind):
    problem = study({"range": [20, 80]}, noise).problem
    assert type(problem.noise).__name__ == kind
    assert problem.noise.document() == problem.noise.outcome.document()
    assert problem.noise.document() == problem.with_(covariate=None, covariate_range=None).noise.document()
    assert not problem.noise.shared_axes
    assert ("approximately" in make_policy("evidence", problem).guarantee) == (kind == "AdjustedNormal")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"noise": {"scale": 1.0}}, "found rewards with kind = 'gaussian', scale = 1.0; allowed: rewards in a range"),
        ({"noise": {"scale": "unknown per agent"}}, "and those of two arms by different scales"),
        ({"noise": {"scale": "unknown, shared"}}, "and those of two arms by different scales"),
        ({"noise": {"kind": "subgaussian"}}, "may scatter by more than a scale that is stated"),
        ({"noise": {"kind": "count"}}, "allowed: rewards in a range"),
        ({"noise": RANGE}, r"covariate.range: found nothing; allowed: \[low, high\], since rewards are in a range"),
        (
            {"noise": RANGE | {"method": "hoeffding"}, "privacy": {"rho": 0.1}, "covariate": {"range": [0, 1]}},
            "covariate.theta: found nothing; allowed: a number from history, with privacy.rho",
        ),
        ({"covariate": {"theta": 1}}, "covariate.center: found nothing; allowed: a number beside covariate.theta"),
        ({"covariate": {"center": 3, "range": [0, 1]}}, "covariate.center: found 3.0; allowed: a number from 0 to 1"),
        ({"covariate": {"range": [1, 0]}}, "two numbers with low < high"),
        ({"covariate": {"range": [0, math.nan]}}, "allowed: a finite number"),
        ({"covariate": {"theta": [1, 2, 3]}}, "one per agent"),
        ({"covariate": {"theta": math.inf, "center": 0}}, "allowed: a finite number"),
        ({"covariate": {"name": "Reward"}}, "none of arm, reward"),
        ({"covariate": {"name": " "}}, "a name without outer spaces"),
        ({"covariate": {"correlation": 1.5}}, "covariate.correlation: found 1.5"),
        ({"truth": {"generate": "paper", "covariate": {"law": "cauchy"}}}, "gaussian, lognormal"),
        ({"truth": {"generate": "paper", "covariate": {"correlation": [2, 0]}}}, "numbers between -1 and 1"),
        ({"truth": {"generate": "paper", "covariate": {"slope": 1}}}, "correlation, drift, law"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(keys, words):
    covariate = {"name": "age"} | keys.get("covariate", {})
    with pytest.raises(InvalidInput, match=words):
        parse_study(KEYS | {"noise": UNKNOWN} | keys | {"covariate": covariate})


def test_the_other_keys_need_a_covariate_and_so_does_its_truth():
    with pytest.raises(InvalidInput, match=r"covariate\.center: found 3\.0; allowed: None without covariate\.name"):
        parse_study({"arms": 2, "agents": 1, "covariate": {"center": 3}})
    with pytest.raises(InvalidInput, match=r"truth.covariate: .*the study has no \[covariate\]"):
        parse_study({"arms": 2, "agents": 1, "truth": {"means": [[1], [0]], "covariate": {"correlation": 0.5}}})


@pytest.mark.parametrize("policy", ["wcpe", "pf-ucb-bai", "uniform"])
def test_a_policy_whose_guarantee_does_not_allow_drift_is_refused(policy):
    with pytest.raises(InvalidInput, match=f"the policy {policy} does not support covariate.name"):
        make_policy(policy, study().problem)


def test_private_reports_with_a_stated_slope_have_a_range_that_hides_it():
    found = study({"range": [0, 10], "theta": [0.05, -0.02]}, {"kind": "binary"}, privacy={"rho": 0.5})
    noise = found.problem.noise
    assert noise.rho == 0.5
    assert noise.ends == (-0.25, 1.25)  # 0.05 times the distance of 5 from the middle
    assert noise.sensitivity * noise.grid >= 1.5


@pytest.mark.parametrize("value", ["old", None, math.nan, math.inf, True, 1e300])
def test_a_covariate_is_a_finite_number(value):
    with pytest.raises(InvalidInput, match="allowed: a finite number"):
        checked_x("age", value)


def test_lower_bounds_are_those_of_what_the_covariate_leaves():
    truth = {"means": [[1.0, 1.0], [0.0, 0.5], [0.2, 0.1]], "scale": 2.0}
    found = study({"correlation": 0.6}, truth=truth).require_truth()
    np.testing.assert_allclose(found.variances, 4 * 0.64)
    assert Problem(arms=2, weights=[[1.0]]).adjustment is None
    assert Covariate(name="x").moves == math.inf


def test_every_lower_bound_uses_the_true_correlation_and_not_the_expected_one():
    truth = {"means": [[1.0, 1.0], [0.0, 0.5], [0.2, 0.1]], "scale": 2.0}
    price = {"sampling": {"price": 3.0}}
    expected = study({"correlation": 0.6}, truth=truth, **price).require_truth()
    surprised = study({"correlation": 0.0}, truth=truth | {"covariate": {"correlation": 0.6}}, **price).require_truth()
    made = [(lower_bounds(one), RegretUntil.of(one, 10**6), priced_bounds(one)) for one in (expected, surprised)]
    (known, until, priced), (found, until_found, priced_found) = made
    for name in ("bai", "bai_relaxed", "regret", "regret_relaxed"):
        assert getattr(found, name).value == pytest.approx(getattr(known, name).value), name
    assert (until_found.log_bound, until_found.value) == pytest.approx((until.log_bound, until.value))
    assert {name: one.value for name, one in priced_found.items()} == pytest.approx(
        {name: one.value for name, one in priced.items()}
    )
    assert set(priced) == {"cost", "regret_and_money"}


def test_the_guarantee_of_wcpe_is_none_of_adjusted_outcomes():
    truth = {"means": [[0.9, 0.8], [0.1, 0.5], [0.2, 0.3]]}
    found = study({"range": [0, 1]}, {"kind": "binary"}, truth=truth).require_truth()
    with pytest.raises(InvalidInput, match=r"covariate\.name: .*the guarantee of W-CPE does not support"):
        Guarantee.of(found)


def test_the_score_of_the_docs_becomes_a_column_that_a_source_reads(tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs" / "covariates.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[1].split("```")[0], {})
    table = read_table((tmp_path / "rewards.csv").read_bytes(), "rewards.csv", needed=("arm", "reward", "score"))
    scores = [number_in(table, row, "score") for row in table.rows]
    assert len(set(scores)) == 8
