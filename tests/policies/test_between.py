"""People who come between phases: a stratum of the next phase, whose contrasts are within it."""

from dataclasses import replace

import numpy as np
import pytest

from parley.covariates import CovariateTruth
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.policies.between import asked_with, people_ahead, without_share
from parley.problem import Drift, Instance, Problem
from parley.rewards import make_model
from parley.simulation import phases, simulate
from parley.simulation.rare import ruled_out_probability
from parley.study import parse_study
from parley.totals import Totals

WEIGHTS = [[0.7, 0.4], [0.3, 0.6]]
TIE = {"arms": 2, "weights": [[1.0]], "delta": 0.05, "between": "assign", "max_rounds": 6}


def problem(**more):
    return Problem(arms=3, weights=WEIGHTS, between="assign", **more)


def test_a_phase_with_a_stratum_is_two_phases_and_one_round():
    """The evidence is that of the stratum as a phase of its own, and then of the phase; the number is the phase's."""
    policy = make_policy("evidence", problem())
    rng = np.random.default_rng(0)

    def drawn(counts):
        values = rng.normal(size=counts.shape) * np.sqrt(counts) + 0.1 * counts * np.array([[1], [0], [0]])
        return Totals(counts=counts, sums=np.where(counts > 0, values, 0.0), squares=2.0 * counts)

    state = policy.update(policy.start(), drawn(policy.plan(policy.start())))
    early, own = drawn(np.full((3, 2), 12)), drawn(policy.plan(state))
    one = policy.update(state, replace(own, between=early))
    first = policy.update(state, early)
    two = policy.update(replace(first, phase=state.phase), own)
    assert np.array_equal(one.log_wealth, two.log_wealth)
    assert np.array_equal(one.counts, state.counts + early.counts + own.counts)
    assert one.phase == 2
    assert not np.array_equal(one.log_wealth, policy.update(state, own + early).log_wealth), "not simply more draws"


def test_a_stratum_is_never_the_last_look_nor_the_end():
    policy = make_policy("evidence", problem(max_rounds=2))
    state = policy.update(policy.start(), _certain(policy.plan(policy.start()), 0.3))
    counts = policy.plan(state)
    mid = policy._for_strata.update(state, _certain(counts, 0.3))
    assert not policy._last(replace(mid, phase=state.phase - 1), counts), "a round is left"
    assert not policy._for_strata._last(state, counts), "but this is no last look, whatever the rounds"
    after = policy.update(state, replace(_certain(counts, 0.3), between=_certain(counts, 0.3)))
    assert after.finished
    assert after.phase == 2


def _certain(counts, gap):
    means = np.array([[gap], [0.0], [0.0]])
    return Totals(counts=counts, sums=counts * means, squares=counts * (1 + means**2))


def test_what_decided_in_the_stratum_is_dropped_in_the_phase_and_its_draws_count():
    policy = make_policy("evidence", problem())
    state = policy.update(policy.start(), _certain(policy.plan(policy.start()), 0.5))
    many, own = np.full((3, 2), 4000), policy.plan(state)
    after = policy.update(state, replace(_certain(own, 0.5), between=_certain(many, 0.5)))
    assert after.finished
    assert set(after.dropped_in.ravel().tolist()) == {0, 2}
    assert np.array_equal(after.counts, state.counts + many + own), "the phase was drawn, and is counted"


def test_plan_and_people_between_together_have_what_the_plan_wants():
    """Contrasts have at least the information of the whole plan: by concavity, whatever the proportions."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        wanted, came = rng.integers(1, 100, (3, 2)), rng.integers(0, 60, (3, 2))
        rest = without_share(wanted, came, 1)
        assert (rest <= wanted).all()
        assert (rest > 0).all()
        shares = rng.uniform(0.1, 1, 2) ** 2
        information = [
            1 / sum(shares[m] * (1 / max(c[k, m], 1e-9) + 1 / max(c[j, m], 1e-9)) for m in range(2))
            for c in (wanted, rest, came)
            for k, j in ((0, 1), (0, 2), (1, 2))
        ]
        whole, left, early = np.array(information).reshape(3, 3)
        assert (left + early >= whole * (1 - 1e-6)).all()


def test_a_site_that_nobody_came_to_leaves_the_plan_as_it_is():
    wanted = np.array([[40, 20], [10, 8]])
    assert np.array_equal(without_share(wanted, np.array([[12, 0], [4, 0]]), 1), wanted)
    assert (without_share(wanted, 100 * wanted, 2) >= 2).all(), "some people are the phase's own"


def test_rates_delays_and_the_share_say_how_many_come():
    found = problem(rate=[4.0, 1.0], delay=[10.0, 2.5])
    quotas = np.array([[30, 10], [20, 10], [10, 0]])
    assert people_ahead(found, quotas, np.array([100, 100])).sum(axis=0).tolist() == [40, 2]
    assert people_ahead(found, quotas, np.array([6, 100])).tolist() == [[3, 1], [2, 1], [1, 0]]
    assert people_ahead(problem(), quotas, np.array([6, 4])).sum(axis=0).tolist() == [6, 4], "no rate: as many as may"
    assert asked_with(np.array([[3, 0], [1, 0], [0, 0]]), np.ones((3, 2))).tolist() == [[1, 0]] * 3


def test_nobody_is_assigned_for_a_round_that_will_not_come_and_budgets_hold():
    policy = make_policy("evidence", problem(max_rounds=1, most_between=0.4))
    quotas = policy.plan(policy.start())
    assert policy.most_ahead(policy.start(), quotas).tolist() == [0, 0]
    policy = make_policy("evidence", problem(most_between=0.4))
    assert policy.most_ahead(policy.start(), quotas).tolist() == np.floor(0.4 * quotas.sum(axis=0)).tolist()
    budget = int(quotas.sum()) + 20
    policy = make_policy("evidence", problem(max_samples=budget))
    assert policy.most_ahead(policy.start(), quotas).sum() <= 10
    instance = Instance(problem=policy.problem, means=[[0.1, 0.1], [0.05, 0.0], [0.0, 0.0]])
    assert (simulate(policy, instance, replications=50, seed=1).costs <= budget).all()


def test_people_ahead_leave_enough_of_a_budget_for_a_cell_of_the_next_plan():
    first = make_policy("evidence", problem()).plan(make_policy("evidence", problem()).start())
    for more in range(5, 11):
        policy = make_policy("evidence", problem(max_samples=int(first.sum()) + more, minimum_cell=5))
        state = policy.update(policy.start(), _certain(first, 0.05))
        most = policy.most_ahead(policy.start(), first)
        assert most.sum() <= more - 5
        assert not state.finished
        assert policy.plan(state, people_ahead(policy.problem, first, most)).any()


def test_a_budget_holds_for_those_who_count_and_only_people_of_unasked_sites_come_on_top():
    given = Problem(arms=2, weights=np.eye(2), between="assign", most_between=1.0, max_samples=600)
    policy = make_policy("evidence", given)
    instance = Instance(problem=given, means=[[0.6, 0.1], [0.0, 0.0]])
    people, between, lost = 0, None, 0
    for phase in phases(policy, instance, seed=1):
        kept = None if between is None else asked_with(phase.quotas, between)
        lost += 0 if between is None else (between - kept).sum()
        between = people_ahead(given, phase.quotas, policy.most_ahead(phase.before, phase.quotas, kept))
        people += phase.quotas.sum() + between.sum()
    assert phase.after.counts.sum() <= 600
    assert lost > 0
    assert people <= 600 + lost
    assert simulate(policy, instance, replications=2, seed=1).costs[0] == people


def test_one_run_is_the_first_replication_and_wasted_people_cost():
    given = problem(rate=2.0, delay=20.0)
    instance, policy = (
        Instance(problem=given, means=[[0.6, 0.5], [0.1, 0.2], [0.0, 0.1]]),
        make_policy("evidence", given),
    )
    course = list(phases(policy, instance, seed=3))
    found = simulate(policy, instance, replications=3, seed=3)
    assert found.rounds[0] == len(course)
    last = course[-1]
    wasted = people_ahead(given, last.quotas, policy.most_ahead(last.before, last.quotas))
    assert wasted.any()
    assert found.costs[0] == last.after.counts.sum() + wasted.sum()
    assert last.after.counts.sum() > sum(phase.quotas.sum() for phase in course), "people between are counted"


def test_people_of_a_site_that_is_not_asked_again_cost_too():
    """The first site is done early: whom it assigned for the next phase is in no report, and was assigned."""
    given = Problem(arms=2, weights=np.eye(2), between="assign", most_between=1.0)
    policy = make_policy("evidence", given)
    instance = Instance(problem=given, means=[[0.9, 0.2], [0.0, 0.0]])
    course, people, between, lost = list(phases(policy, instance, seed=1)), 0, None, 0
    for phase in course:
        kept = None if between is None else asked_with(phase.quotas, between)
        lost += 0 if between is None else (between - kept).sum()
        between = people_ahead(given, phase.quotas, policy.most_ahead(phase.before, phase.quotas, kept))
        people += phase.quotas.sum() + between.sum()
    assert lost > 0
    assert simulate(policy, instance, replications=3, seed=1).costs[0] == people


def test_with_a_covariate_one_run_is_the_first_replication_of_any_batch():
    """Whom sites assign between phases is adjusted as the phase before was."""
    given = problem(rate=2.0, delay=20.0, covariate="age", noise=make_model(scale="unknown"))
    truth = CovariateTruth(correlation=np.array([0.8, -0.5]), drift=0.5)
    instance = Instance(problem=given, means=[[0.3, 0.3], [0.1, 0.2], [0.0, 0.1]], scale=1.0, covariate=truth)
    policy, seen = make_policy("evidence", given), []
    course = list(phases(policy, instance, seed=3))
    simulate(policy, instance, replications=300, seed=3, chunk=1, watch=lambda *found: seen.append(found))
    mine = [fresh[0] for members, _, fresh, _ in seen if members[0] == 0]
    assert len(mine) == len(course) > 2
    assert mine[-1].between is not None
    last = sum((one.everybody for one in mine[1:]), mine[0])
    assert np.array_equal(last.counts, course[-1].after.counts)
    assert np.allclose(last.sums, course[-1].after.sums)


def test_days_are_saved_where_outcomes_come_late():
    days = {}
    for between in ("outside", "assign"):
        given = Problem(arms=3, weights=WEIGHTS, rate=[3.0, 2.0], delay=20.0, between=between)
        instance = Instance(problem=given, means=[[0.3, 0.3], [0.1, 0.1], [0.0, 0.0]])
        days[between] = simulate(make_policy("evidence", given), instance, replications=60, seed=2).days.mean()
    assert days["assign"] < 0.95 * days["outside"]


@pytest.mark.parametrize("pooled", [False, True], ids=["a stratum", "simply more draws"])
def test_pooled_with_the_phase_people_between_would_break_the_guarantee_under_a_trend(pooled):
    """Early people have two of the first arm for one of the second, late ones the reverse, and all do better later."""
    policy = make_policy("evidence", Problem(arms=2, weights=[[1.0]], delta=0.05, between="assign"))
    rng, runs = np.random.default_rng(7), 2000

    def drawn(counts, mean):
        counts = np.broadcast_to(np.array(counts)[:, None], (runs, 2, 1))
        noise = rng.normal(size=counts.shape) * np.sqrt(counts)
        return Totals(counts=counts, sums=noise + mean * counts, squares=counts * (1 + mean**2))

    first = policy.plan(policy.start())[:, 0].tolist()
    state = policy.update(policy.start((runs,)), drawn(first, 0.0))
    early, late = drawn((800, 400), 0.0), drawn((400, 800), 0.5)
    after = policy.update(state, early + late if pooled else replace(late, between=early))
    wrong = float((~after.active[:, 0, 0]).mean())
    assert (wrong > 0.2) if pooled else (wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs))


@pytest.mark.simulations
@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_errors_at_a_tie_stay_below_delta_whatever_the_trend(drift):
    given = Problem(**TIE)
    instance = Instance(problem=given, means=[[1e-9], [0.0]], drift=Drift(step=drift))
    found = simulate(make_policy("evidence", given), instance, replications=4000, seed=5)
    assert found.error_rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)


def test_with_private_reports_it_is_refused_in_a_sentence():
    keys = {"arms": 2, "agents": 2, "sites": {"between": "assign"}}
    more = {"privacy": {"rho": 0.05}, "noise": {"scale": 1.0, "clip": [-5, 5]}}
    with pytest.raises(InvalidInput, match=r'sites.between: found "assign"; allowed: "outside" or .*privacy.rho'):
        parse_study(keys | more)


def test_kits_hide_the_leading_arm_too():
    """Whoever is outside the study would have a kit of it: to unmask one of them tells which one leads."""
    keys = {"arms": 2, "agents": 2, "sites": {"kits": True, "between": "leading"}}
    with pytest.raises(InvalidInput, match=r'sites.between: found "leading"; .*"assign" with sites.kits'):
        parse_study(keys)
    assert parse_study(keys | {"sites": {"kits": True, "between": "assign"}}).problem.kits


def test_other_policies_and_odd_shares_are_refused():
    with pytest.raises(InvalidInput, match="the policy wcpe does not support sites"):
        make_policy("wcpe", problem())
    with pytest.raises(InvalidInput, match=r"sites.most_between: .*without sites.between"):
        Problem(arms=2, weights=[[1.0]], most_between=0.3)
    with pytest.raises(InvalidInput, match=r"sites.most_between: .*unless sites.between"):
        Problem(arms=2, weights=[[1.0]], between="leading", most_between=0.3)
    given = problem()
    instance = Instance(problem=given, means=[[0.1, 0.1], [0.1, 0.0], [0.0, 0.0]])
    with pytest.raises(InvalidInput, match=r"sites.between: .*counted, never tilted"):
        ruled_out_probability(make_policy("evidence", given), instance, arm=0, agent=0, replications=10, seed=1)
