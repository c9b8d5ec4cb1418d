"""The analysis of a finished table: estimates of a live study with one phase, and intervals that hold together."""

from dataclasses import replace

import numpy as np
import pytest
from tools.correctness.tables import LEVEL, held

from parley.errors import InvalidInput
from parley.estimates import estimates, joint_count
from parley.experiments.analysis.fixed_size import analysed, usual_model
from parley.experiments.analysis.sequential import sequential
from parley.problem import Problem
from parley.rewards import Binary, make_model
from parley.totals import Totals
from parley.validation.tables import Draws
from parley.weights import personalized

WEIGHTS = np.array([[0.7, 0.2, 0.0], [0.2, 0.8, 0.5], [0.1, 0.0, 0.5]])
COLUMNS = {"arm": "arm", "agent": "site", "outcome": "y", "covariate": "x"}


def draws(outcome, arm, agent, covariate=None, arms=3, agents=3):
    return Draws(
        source="table.csv",
        arms=tuple(f"arm {k + 1}" for k in range(arms)),
        agents=tuple(f"agent {m + 1}" for m in range(agents)),
        arm=np.asarray(arm),
        agent=np.asarray(agent),
        outcome=np.asarray(outcome, dtype=np.float64),
        covariate=covariate,
        line=np.arange(len(arm)) + 2,
        columns=COLUMNS,
    )


def random_draws(seed=0, rows=400, kind="numbers", covariate=False):
    generator = np.random.default_rng(seed)
    arm, agent = generator.integers(3, size=rows), generator.integers(3, size=rows)
    outcome = 0.6 * arm + 0.3 * agent + generator.standard_normal(rows)
    if kind == "shares":
        outcome = (generator.random(rows) < 0.2 + 0.2 * arm).astype(np.float64)
    x = generator.lognormal(0, 0.5, rows) if covariate else None
    return draws(outcome if x is None else outcome + 2 * x, arm, agent, x)


def problem(noise=None, **changes):
    noise = noise or make_model(scale="unknown")
    return Problem(arms=3, weights=WEIGHTS, noise=noise, **{"delta": 0.05, "control": "arm 1"} | changes)


@pytest.mark.parametrize("kind", ["numbers", "shares"])
def test_estimates_are_those_of_a_live_study_with_one_phase(kind):
    """Every site reports its own totals, as `Totals.of` adds them up; the coordinator estimates from them."""
    table = random_draws(kind=kind)
    asked = problem(Binary() if kind == "shares" else None)
    found = analysed(asked, table)
    reports = [
        Totals.of([table.outcome[(table.agent == m) & (table.arm == k)].tolist() for k in range(3)]) for m in range(3)
    ]
    live = estimates(asked, [Totals.columns(reports, 3)])
    assert np.array_equal(found.mean.value, live.mean.value), "to the last bit"
    assert np.array_equal(found.leader, live.leader)
    assert found.lead.value == pytest.approx(live.lead.value, abs=1e-12)
    assert found.control.value == pytest.approx(live.control.value, abs=1e-12)
    told, document = found.document(), live.document()
    for own, theirs in zip(told["agents"], document["agents"], strict=True):
        assert own["leader"] == theirs["leader"]
        assert own["chosen"] == [theirs["leader"]]
        for arm, other in zip(own["arms"], theirs["arms"], strict=True):
            assert arm["mean"].keys() == other["mean"].keys()
            assert arm["mean"]["estimate"] == other["mean"]["estimate"]
    # A size that was fixed in advance gives narrower intervals than all phases at once.
    assert (found.mean.high - found.mean.low < live.mean.high - live.mean.low).all()


def test_two_arms_at_one_site_are_welchs_test():
    from scipy import stats

    generator = np.random.default_rng(3)
    one, two = generator.normal(0, 1, 12), generator.normal(1, 3, 30)
    table = draws([*one, *two], [0] * 12 + [1] * 30, [0] * 42, arms=2, agents=1)
    asked = Problem(arms=2, weights=[[1.0]], delta=0.05, noise=make_model(scale="unknown"))
    found = analysed(asked, table).differences(np.array([0]))
    level = 1 - asked.delta / joint_count(asked)
    welch = stats.ttest_ind(two, one, equal_var=False).confidence_interval(level)
    symmetric = welch.low, welch.high
    assert found.low[1, 0] <= symmetric[0] + 1e-9, "an end is moved outwards only"
    assert found.high[1, 0] >= symmetric[1] - 1e-9
    assert {round(float(found.low[1, 0]), 6), round(float(found.high[1, 0]), 6)} & {round(end, 6) for end in symmetric}


def test_a_covariate_is_an_analysis_of_covariance():
    """One site, equal scales and one slope: the estimate of least squares, and about its standard error."""
    generator = np.random.default_rng(1)
    rows = 300
    arm, x = generator.integers(3, size=rows), generator.normal(50, 10, rows)
    y = 0.5 * arm + 0.2 * x + generator.standard_normal(rows)
    asked = Problem(arms=3, weights=[[1.0]], delta=0.05, control="arm 1", noise=make_model(scale="unknown"))
    found = analysed(asked, draws(y, arm, np.zeros(rows, dtype=int), x, agents=1))
    design = np.column_stack([(arm == k).astype(float) for k in range(3)] + [x - x.mean()])
    beta, residual, *_ = np.linalg.lstsq(design, y, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * residual[0] / (rows - 4)
    assert found.adjustment.slope[0] == pytest.approx(beta[3])
    assert found.mean.value[:, 0] == pytest.approx(beta[:3])
    assert found.control.value[1:, 0] == pytest.approx(beta[1:3] - beta[0])
    for k in (1, 2):
        error = np.sqrt(covariance[k, k] + covariance[0, 0] - 2 * covariance[0, k])
        assert found.control.error[k, 0] == pytest.approx(error, rel=0.1)
    plain = analysed(asked, draws(y, arm, np.zeros(rows, dtype=int), agents=1))
    assert found.control.error[1, 0] < 0.5 * plain.control.error[1, 0]


def test_the_error_of_the_slope_counts_where_arms_differ_in_the_covariate():
    """Least squares knows it: with few rows and arms far apart in x, most of the error is that of the slope."""
    generator = np.random.default_rng(1)
    arm, x = np.repeat([0, 1], 12), generator.standard_normal(24) + np.repeat([0.0, 6.0], 12)
    y = 0.5 * arm + x + generator.standard_normal(24)
    asked = Problem(arms=2, weights=[[1.0]], delta=0.05, control="arm 1", noise=make_model(scale="unknown"))
    found = analysed(asked, draws(y, arm, np.zeros(24, dtype=int), x, arms=2, agents=1))
    design = np.column_stack([arm == 0, arm == 1, x]).astype(float)
    residual = np.linalg.lstsq(design, y, rcond=None)[1][0]
    covariance = np.linalg.inv(design.T @ design) * residual / 21
    error = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert found.control.error[1, 0] == pytest.approx(error, rel=0.25)


@pytest.mark.parametrize("covariate", [False, True])
def test_rows_in_another_order_and_other_units_change_nothing(covariate):
    table = random_draws(5, covariate=covariate)
    found = analysed(problem(), table)
    order = np.random.default_rng(0).permutation(len(table.outcome))
    parts = {name: getattr(table, name)[order] for name in ("arm", "agent", "outcome", "line")}
    mixed = analysed(problem(), replace(table, **parts, covariate=table.covariate[order] if covariate else None))
    scaled = analysed(problem(), replace(table, outcome=10 * table.outcome + 3))
    for kind in ("mean", "lead", "control"):
        one, two, three = (getattr(each, kind) for each in (found, mixed, scaled))
        shift = 3 if kind == "mean" else 0
        for end in ("value", "low", "high"):
            assert getattr(two, end) == pytest.approx(getattr(one, end), abs=1e-9)
            assert getattr(three, end) == pytest.approx(10 * getattr(one, end) + shift, abs=1e-7)


def test_an_arm_without_a_success_has_an_interval():
    table = draws([0.0] * 40 + [1.0] * 5 + [0.0] * 35, [0] * 40 + [1] * 40, [0] * 80, arms=2, agents=1)
    found = analysed(Problem(arms=2, weights=[[1.0]], delta=0.05, noise=Binary()), table)
    assert found.mean.low[0, 0] == 0
    assert 0.05 < found.mean.high[0, 0] < 0.3
    assert found.lead.low[0, 0] < -0.125 < found.lead.high[0, 0]


def test_rows_that_are_all_equal_prove_nothing():
    """Two visitors who bought nothing do not show that nobody ever buys."""
    table = draws([0.0, 0.0, 1.0, 5.0, 9.0, 2.0], [0, 0, 1, 1, 2, 2], [0] * 6, arms=3, agents=1)
    asked = Problem(arms=3, weights=[[1.0]], delta=0.05, noise=make_model(scale="unknown"))
    found = analysed(asked, table)
    assert found.mean.error[0, 0] == found.mean.error[2, 0] > found.mean.error[1, 0] > 0, "the widest of the others"
    assert not found.verdicts[0].proven
    with pytest.raises(InvalidInput, match=r"table.csv: found no two different outcomes in any arm of agent 1"):
        analysed(asked, replace(table, outcome=np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]) + 1e6))


def test_what_may_be_said_of_the_best_arm():
    asked = problem()
    table = random_draws(2, 3000)
    clear = analysed(asked, table)
    assert all(verdict.proven and not verdict.contenders and verdict.behind == 0 for verdict in clear.verdicts)
    assert clear.verdicts[0].words("arm", "arms", "0") == "arm 3 is proven to be the best arm."
    close = analysed(asked, random_draws(2, 60))
    verdict = next(one for one in close.verdicts if not one.proven)
    place = asked.agents.index(verdict.agent)
    highs = {arm: close.lead.high[k, place] for k, arm in enumerate(asked.arms) if arm not in verdict.chosen}
    assert set(verdict.contenders) == {arm for arm, high in highs.items() if high >= 0}
    assert verdict.behind == max(0.0, *highs.values())
    lenient = analysed(asked.with_(tolerance=verdict.behind), random_draws(2, 60))
    assert lenient.verdicts[place].good_enough
    assert not analysed(asked.with_(tolerance=verdict.behind * 0.99), random_draws(2, 60)).verdicts[place].good_enough
    two = analysed(asked.with_(top=2), table)
    assert [verdict.chosen for verdict in two.verdicts] == [("arm 3", "arm 2")] * 3
    assert all(verdict.proven for verdict in two.verdicts)


def single(table):
    """One row alone of arm 2 at agent 3."""
    cell = (table.agent == 2) & (table.arm == 1)
    return replace(table, arm=np.where(cell & (np.cumsum(cell) > 1), 0, table.arm))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: replace(t, covariate=np.where(t.agent == 1, 4.0, t.covariate)), "x: found x is constant.* agent 2"),
        (lambda t: replace(t, covariate=4.0 + t.arm), "column x: found x is constant within the arms of agent 1"),
        (lambda t: replace(t, arm=np.where(t.agent == 2, 0, t.arm)), "found 0 rows of arm 2 at agent 3; allowed"),
        (single, "found 1 row of arm 2 at agent 3; allowed: at least 2 rows"),
        (lambda t: replace(t, arm=None), "found no column of arms"),
    ],
)
def test_a_table_that_cannot_be_analysed_is_named(change, words):
    with pytest.raises(InvalidInput, match=f"table.csv.*{words}"):
        analysed(problem(), change(random_draws(covariate=True)))


def test_outcomes_are_shares_or_numbers():
    assert usual_model(np.array([0.0, 1.0])).kind == "binary"
    assert usual_model(np.array([0.0, 2.0])).document()["scale"] == "unknown"


def test_a_sequential_study_draws_the_rows_again():
    table = random_draws(1, 3000)
    asked = problem(largest_gap=3.0)
    found = sequential(asked, table, policy="evidence", options={}, replications=40, seed=0)
    assert found.decided == 1
    assert found.document()["samples"]["median"] < found.rows
    assert found.fewer == 1
    assert found.differs <= 0.05
    tied = replace(table, outcome=np.where(np.arange(3000) % 2, 1.0, -1.0), arm=np.arange(3000) // 2 % 3)
    stopped = sequential(asked, tied, policy="evidence", options={}, replications=10, seed=0)
    assert stopped.decided < 1
    assert stopped.outcome.costs.max() <= stopped.most == 15_000


@pytest.mark.simulations
@pytest.mark.parametrize("law", ["Gaussian", "money: 30 % buy, lognormal (0.7)", "0 or 1, 10 %"])
def test_intervals_hold_together_as_often_as_they_say(law):
    """2,000 tables, skewed ones too; docs/analysis.md has more laws and sizes."""
    tables, size = 2000, 100 if "money" in law else 20
    right = held(law, size, tables, seed=11)
    assert right >= tables * (1 - LEVEL) - 3 * np.sqrt(tables * LEVEL * (1 - LEVEL))
    assert right < tables, "they are no wider than they need be"


def test_an_interval_pays_for_every_comparison():
    """Of one agent's three arms three means and three pairs share delta; of three questions, three times as many."""
    from scipy.special import stdtrit

    table = random_draws(4, 20_000)
    found = analysed(problem(), table)
    assert found.comparisons == 18
    half = (found.mean.high - found.mean.low) / 2 / found.mean.error
    assert half == pytest.approx(np.full((3, 3), -stdtrit(5000, 0.025 / 18)), rel=0.02)
    alone = Problem(arms=3, weights=personalized(3, 0.0), delta=0.05, noise=make_model(scale="unknown"))
    assert analysed(alone, table).comparisons == 6, "agents who ask the same pay once"
