"""The policy and its slow twin agree on every study, state for state.

`python -m tests.twin.test_twin 5` compares five studies of every kind; the tests compare a few.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.support import first_quick
from tests.twin.twin import OWN, Cells, Pairs, Sets, Twin

from parley import Instance, Problem, Totals, make_policy
from parley.policies.evidence.plan import is_tight
from parley.rewards import Binary, BinaryNormal, Bounded, BoundedVariance, Count, Gaussian, SubGaussian, UnknownScale

CLOSE = 1e-5  # in logarithms: a multiplier is accepted a little below its largest value
BELOW = 1e-4  # of a pair that may tie: the quantile at its horizon comes from above, by three steps of Newton's method
NOTHING = -600.0  # a lost last bet is kept as a finite logarithm
MOST_PHASES = 10


def models(scales):
    """A reward model of every kind, for cells that scatter by these `scales (arm, agent)`."""
    rows = tuple(tuple(row) for row in scales.tolist())
    return {
        "gaussian": Gaussian(scale=0.5),
        "gaussian, a scale per agent": Gaussian(scale=rows[0]),
        "gaussian, a scale per cell": Gaussian(scale=rows),
        "subgaussian": SubGaussian(scale=0.4),
        "bounded, hoeffding": Bounded(low=-0.5, high=1.5),
        "bounded, variance": BoundedVariance(low=-0.5, high=1.5),
        "unknown": UnknownScale(guess=0.4),
        "unknown per agent": UnknownScale(scale="unknown per agent", guess=0.4),
        "unknown, shared": UnknownScale(scale="unknown, shared", guess=0.4),
        "binary": Binary(),
        "binary, a stated rate": Binary(rate=0.4),
        "binary, normal": BinaryNormal(),
        "count": Count(),
        "count, a stated mean": Count(mean=0.4),
    }


MODELS = tuple(models(np.ones((2, 1))))
GAUSSIAN = [name for name in MODELS if name.startswith(("gaussian", "unknown"))]


def drawn_study(rng, model, tolerance, *, agents=0, budgets=True):
    """N from 1 to 3, some weights 0, some columns alike, some budgets, and half of them with arms that nearly tie."""
    M, N = agents or int(rng.integers(1, 4)), int(rng.integers(1, 4))
    K = int(rng.integers(N + 1, 7))
    weights = rng.random((M, M)) * (rng.random((M, M)) < 0.7) + np.diag(rng.random(M) + 0.1)
    weights /= weights.sum(axis=0)
    if M > 1 and rng.random() < 0.2:
        weights[:, 1] = weights[:, 0]
    settings = {}
    if budgets and rng.random() < 0.25:
        settings["max_samples"] = int(rng.integers(500, 5000))
    if budgets and rng.random() < 0.2:
        settings["max_rounds"] = int(rng.integers(2, 5))
    problem = Problem(
        arms=K,
        weights=weights,
        top=N,
        delta=float(10 ** -rng.uniform(0.5, 4)),
        noise=models(rng.uniform(0.3, 0.7, (K, M)))[model],
        tolerance=tolerance,
        answers="each" if rng.random() < 0.25 else "together",
        **settings,
    )
    return Instance(problem=problem, means=0.5 + (0.1 if rng.random() < 0.5 else 0.5) * (rng.random((K, M)) - 0.5))


def rewards(rng, instance, counts):
    """What so many draws bring: zeros and ones, counts of events, three values in a range, or Gaussian numbers."""
    noise, drawn = instance.problem.noise, []
    for (k, n), count in np.ndenumerate(counts):
        mean = instance.means[k, n]
        if isinstance(noise, Binary):
            values = rng.binomial(1, mean, count)
        elif isinstance(noise, Count):
            values = rng.poisson(mean, count)
        elif isinstance(noise, Bounded | BoundedVariance):
            values = mean + rng.choice([-0.4, 0.0, 0.4], count)
        else:
            values = rng.normal(mean, 0.4, count)
        drawn.append((values.sum(), np.square(values).sum()))
    sums, squares = np.array(drawn, dtype=np.float64).T.reshape(2, *counts.shape)
    return Totals(counts=counts, sums=sums, squares=squares)


def other_counts(rng, plan):
    """What sites report that neither keep to the plan nor look at their rewards; somebody may be absent."""
    counts = np.where(rng.random(plan.shape) < 0.05, 0, (plan * rng.uniform(0.6, 1.4, plan.shape)).astype(np.int64))
    if rng.random() < 0.2:
        counts[:, rng.integers(plan.shape[1])] = 0
    return counts


def near(ours, theirs, below):
    return bool(-below <= ours - theirs <= CLOSE or (ours < NOTHING and theirs < NOTHING))


def differences(policy, state, twin):
    """What the twin says that the state does not, in words."""
    found = []

    def compare(what, ours, theirs):
        if ours != theirs:
            found.append(f"{what}: {ours}, twin {theirs}")

    compare("finished", bool(state.finished), twin.finished)
    compare("statuses", policy.statuses(state).tolist(), [twin.status(m) for m in range(twin.agents)])
    compare("blocked", policy.blocked(state).tolist(), [twin.blocked(m) for m in range(twin.agents)])
    for m, question in enumerate(twin.questions):
        compare(f"candidates of {m}", np.flatnonzero(state.active[:, m]).tolist(), question.active)
        compare(f"phases of {m}", state.dropped_in[:, m].tolist(), question.dropped_in)
        paired = isinstance(question, Pairs)
        wealth = pairs_of(state, m, question) if paired else slots_of(state, m, question)
        for bet, ours in wealth.items():
            had = question.wealth[bet]
            most = float("inf") if twin.together else twin.line  # above it nothing matters, where it is everybody's
            if not near(min(ours, most), min(had, most), BELOW if paired else CLOSE):
                found.append(f"wealth of {bet} of {m}: {ours}, twin {had}, line {twin.line}")
        if isinstance(question, Sets) and state.ranks is not None:
            candidates = [arm for arm in question.order if arm in question.active]
            compare(f"order of {m}", sorted(candidates, key=lambda arm: state.ranks[arm, m]), candidates)
        for k, bound in enumerate(question.bounds):
            if not (question.decided and k in question.active):
                ours = [float(part[k, m]) for part in (state.signal, state.information, state.gap_at_least)]
                theirs = [bound.signal, bound.information, bound.at_least]
                if not np.allclose(ours, theirs, rtol=CLOSE, atol=CLOSE):
                    found.append(f"gap of arm {k} of {m}: {ours}, twin {theirs}")
    return found


def pairs_of(state, m, question):
    return {(row, arm): float(state.log_pairs[row, arm, m]) for row, arm in question.wealth}


def slots_of(state, m, question):
    """By arm and opponent, whatever their places; nan where the policy has no such slot."""
    found = {}
    for bet in question.wealth:
        k, j = question.own_bet if bet == OWN else bet
        places = np.flatnonzero(state.opponents[:, k, m] == j)
        found[bet] = float(state.log_wealth[places[0], k, m]) if len(places) == 1 else float("nan")
    return found


def step(policy, state, twin, totals):
    """Both take a phase; the new state, and where they differ."""
    state = policy.update(state, totals)
    twin.take(Cells(totals.counts, totals.sums, totals.squares))
    return state, differences(policy, state, twin)


def as_planned(seed, model, tolerance):
    rng = np.random.default_rng(seed)
    return race(rng, drawn_study(rng, model, tolerance), lambda plan: plan)


def not_as_planned(seed, model, tolerance):
    rng = np.random.default_rng(seed)
    return race(rng, drawn_study(rng, model, tolerance, budgets=False), lambda plan: other_counts(rng, plan))


def twin_of(policy):
    tight = is_tight(policy.problem, policy.line) if policy.problem.tolerance else False
    return Twin(policy.problem, largest=policy.largest_size, tight=tight)


def race(rng, instance, reported):
    """A study from start to end, or to the first phase after which the two differ."""
    policy = make_policy("evidence", instance.problem)
    twin, state = twin_of(policy), policy.start()
    while not state.finished and state.phase < MOST_PHASES:
        counts = reported(policy.plan(state))
        state, found = step(policy, state, twin, rewards(rng, instance, counts))
        if found:
            return found
    return []


def a_site_is_lost(seed, model, tolerance):
    """Frozen after some phase; the question is kept until it stalls, then re-weighed and taken up from the start."""
    rng = np.random.default_rng(seed)
    instance = drawn_study(rng, model, tolerance, agents=3, budgets=False)
    policy = make_policy("evidence", instance.problem)
    twin, state, taken = twin_of(policy), policy.start(), []
    lost, when = int(rng.integers(3)), int(rng.integers(1, 4))
    while not state.finished and state.phase < MOST_PHASES:
        if state.phase == when:
            policy, twin.idle = replace(policy, idle=(lost,)), (lost,)
        plan = policy.plan(state)
        if not plan.any():
            break
        taken.append(rewards(rng, instance, plan))
        state, found = step(policy, state, twin, taken[-1])
        if found:
            return found
    weights = np.array(instance.problem.weights)
    stay = np.arange(3) != lost
    shares = weights[:, stay] * stay[:, None]
    if state.finished or state.phase < when or (shares.sum(axis=0) == 0).any():
        return []
    weights[:, stay] = shares / shares.sum(axis=0)
    instance = replace(instance, problem=instance.problem.with_(weights=weights))
    policy = replace(make_policy("evidence", instance.problem), idle=(lost,), unasked=(lost,))
    twin, state = twin_of(policy), policy.start()
    twin.idle = twin.left = (lost,)
    while not state.finished and state.phase < MOST_PHASES:
        place = int(state.phase)
        totals = taken[place] if place < len(taken) else rewards(rng, instance, policy.plan(state))
        state, found = step(policy, state, twin, totals)
        if found:
            return found
    return []


def arms_come_and_go(seed, model, tolerance):
    """One opens after some phase, then one is withdrawn; both times the question is taken up from the start."""
    rng = np.random.default_rng(seed)
    instance = drawn_study(rng, model, tolerance, budgets=False)
    whole, (late, gone) = instance.problem, rng.permutation(instance.problem.arm_count)[:2]
    taken, opens = [], int(rng.integers(1, 4))
    stages = [(opens, [late]), (opens + int(rng.integers(1, 4)), []), (MOST_PHASES, [gone])]
    for until, closed in stages:
        if whole.arm_count - len(closed) <= whole.top:
            continue
        policy = make_policy("evidence", whole.with_(dormant=[whole.arms[arm] for arm in closed]))
        twin, state = twin_of(policy), policy.start()
        while not state.finished and state.phase < until:
            place = int(state.phase)
            if place == len(taken):
                taken.append(rewards(rng, instance, policy.plan(state)))
            state, found = step(policy, state, twin, taken[place])
            if found:
                return [f"without {closed}, phase {place + 1}", *found]
    return []


COURSES = {
    "as planned": as_planned,
    "not as planned": not_as_planned,
    "a site is lost": a_site_is_lost,
    "arms come and go": arms_come_and_go,
}


@pytest.mark.parametrize("seed", first_quick(1, 2))
@pytest.mark.parametrize("tolerance", first_quick(0.1, 0.0))
@pytest.mark.parametrize("model", MODELS)
def test_a_study_as_planned(model, tolerance, seed):
    assert as_planned(seed, model, tolerance) == []


@pytest.mark.parametrize("seed", first_quick(34, 54))
@pytest.mark.parametrize("model", GAUSSIAN)
@pytest.mark.parametrize("course", first_quick("as planned", "not as planned", "arms come and go"))
def test_a_closed_study(course, model, seed):
    problem = drawn_study(np.random.default_rng(seed), model, 0.1).problem
    assert (problem.top, problem.question_count, problem.arm_count <= 4) == (1, 1, True)
    assert COURSES[course](seed, model, 0.1) == []


@pytest.mark.parametrize("model", GAUSSIAN)
@pytest.mark.parametrize("means", first_quick([0.3, 0.3, 0.3, 0.3, 0.3], [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], quick=1))
def test_a_closed_study_of_more_than_four_arms(means, model):
    noise = models(np.full((len(means), 2), 0.5))[model]
    problem = Problem(arms=len(means), weights=[[0.7, 0.2], [0.3, 0.8]], tolerance=0.1, delta=0.1, noise=noise)
    scale = 0.5 if model.startswith("unknown") else None
    instance = Instance(problem=problem, means=np.array([means] * 2).T, scale=scale)
    rng = np.random.default_rng(7)
    assert race(rng, instance, lambda plan: plan) == []


@pytest.mark.simulations
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
@pytest.mark.parametrize("model", MODELS)
def test_a_study_whose_sites_do_not_keep_to_the_plan(model, tolerance):
    assert not_as_planned(1, model, tolerance) == []


@pytest.mark.simulations
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
@pytest.mark.parametrize("model", MODELS)
def test_a_study_that_loses_a_site(model, tolerance):
    assert a_site_is_lost(1, model, tolerance) == []


@pytest.mark.simulations
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
@pytest.mark.parametrize("model", MODELS)
def test_a_study_whose_arms_come_and_go(model, tolerance):
    assert arms_come_and_go(1, model, tolerance) == []


if __name__ == "__main__":
    count, differ = int(sys.argv[1]), 0
    for name, course in COURSES.items():
        for model in MODELS:
            for tolerance in (0.0, 0.1):
                for seed in range(1000, 1000 + count):
                    if found := course(seed, model, tolerance):
                        differ += 1
                        print(f"{name}, {model}, tolerance {tolerance}, seed {seed}:", *found, sep="\n  ")
    print(f"{count * 2 * len(MODELS) * len(COURSES)} studies, {differ} differ")
