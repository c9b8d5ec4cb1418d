"""Guardrails: alarms and clearings under every reward model, in both directions, against a control or a limit."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support import first_quick

from parley.outcomes import Outcome
from parley.policies.guardrails import Guardrail, guardrails
from parley.problem import Problem
from parley.rewards import make_model
from parley.totals import Totals

MODELS = {
    "gaussian": {"kind": "gaussian", "scale": 0.5},
    "unknown": {"kind": "gaussian", "scale": "unknown"},
    "per agent": {"kind": "gaussian", "scale": "unknown per agent"},
    "shared": {"kind": "gaussian", "scale": "unknown, shared"},
    "clipped": {"kind": "gaussian", "scale": 0.5, "clip": [-2.0, 3.0]},
    "subgaussian": {"kind": "subgaussian", "scale": 0.5},
    "bounded": {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"},
    "hoeffding": {"kind": "bounded", "low": 0.0, "high": 1.0},
    "binary": {"kind": "binary"},
    "normal": {"kind": "binary", "inference": "normal"},
    "count": {"kind": "count"},
}
ARMS, AGENTS, MARGIN, DELTA = 3, 3, 0.1, 0.1
WEIGHTS = 0.5 * np.eye(AGENTS) + 0.5 * np.array([[0.5, 0.3, 0.2], [0.25, 0.4, 0.2], [0.25, 0.3, 0.6]])
WAYS = [("lower", "margin"), ("higher", "margin"), ("lower", "limit"), ("higher", "limit")]


def made(model="binary", better="lower", how="margin", *, base=0.4, weights=WEIGHTS, **more):
    """A guardrail, and the means of a control at `base` and of arms whose harm is so many margins beyond it."""
    noise, sign = make_model(**MODELS[model]), 1 if better == "lower" else -1
    bound = {"margin": MARGIN} if how == "margin" else {"limit": base + sign * MARGIN}
    outcome = Outcome(name="harm", noise=noise, better=better, role="guardrail", delta=DELTA, **bound)
    arms, agents = ["c", "a", "b"], len(weights)
    problem = Problem(arms=arms, weights=weights, control="c", outcomes=(outcome,), **more)

    def means(*margins):
        return np.array([[base + sign * MARGIN * some] * agents for some in (0.0, *margins)])

    return guardrails(problem)[0], means


def run(guard, means, phases=(40, 60, 100, 150), studies=1000, seed=1, scale=0.5, moved=()):
    noise = guard.problem.noise
    state = guard.start((studies,))
    for place, count in enumerate(phases):
        shift = moved[place] if moved else 0.0
        draw = next(iter(noise.samplers(means + shift, scale if noise.free_scale else None).values()))()
        generator = np.random.default_rng([seed, place])
        state = guard.update(state, draw(generator, np.full((studies, *guard.problem.shape), count)))
    return state


@pytest.mark.parametrize(
    ("model", "better", "how"),
    first_quick(
        *[("binary", *WAYS[0]), ("count", *WAYS[3]), ("subgaussian", *WAYS[2])],
        *[(model, *way) for way in WAYS for model in MODELS],
        quick=3,
    ),
)
def test_false_alarms_are_rare_at_the_margin_and_harm_is_found(model, better, how):
    guard, means = made(model, better, how)
    at = run(guard, means(1.0, 1.0), studies=600)
    assert (at.alarmed_in > 0).any(axis=(-2, -1)).mean() <= DELTA + 0.03
    beyond = run(guard, means(1.001, 0.0), studies=200)
    assert (beyond.cleared_in[:, 1] > 0).any(axis=-1).mean() <= DELTA + 0.05
    harmful = run(guard, means(4.0, 0.0), studies=100)
    assert harmful.alarmed[:, 1].mean() > 0.95
    assert not harmful.alarmed[:, 2].any()
    assert harmful.cleared[:, 1].mean() == 0
    # Of arms that are better than the control everybody is soon sure.
    assert run(guard, means(0.0, -2.0), studies=100).cleared[:, 2].mean() > 0.7


@pytest.mark.parametrize(
    ("model", "moved"),
    first_quick(
        *[(model, (0.0, -0.2, 0.2, -0.2)) for model in ("binary", "unknown", "gaussian", "count")],
        *[(model, (0.0, 0.1, 0.2, 0.3)) for model in ("binary", "unknown", "gaussian", "count")],
        quick=1,
    ),
)
def test_drift_of_all_arms_raises_no_alarm(model, moved):
    guard, means = made(model)
    found = run(guard, means(1.0, 1.0), moved=moved)
    assert (found.alarmed_in > 0).any(axis=(-2, -1)).mean() <= DELTA + 0.02


def test_the_sign_of_better_is_the_direction_of_harm():
    """With the same data, what harms where lower is better is a benefit where higher is."""
    lower, means = made("binary", "lower")
    higher = replace(lower, outcome=replace(lower.outcome, better="higher"))
    up = means(4.0, 0.0)
    assert run(lower, up, studies=50).alarmed[:, 1].all()
    assert not run(higher, up, studies=50).alarmed.any()
    assert run(higher, means(-3.5, 0.0), studies=50).alarmed[:, 1].mean() > 0.9


def test_the_margin_is_taken_off_once():
    """At one and a half margins an alarm is right and common; at a margin that is applied twice it would be rare."""
    guard, means = made("gaussian")
    phases = (400, 600, 1500, 3000)
    assert run(guard, means(1.5, 0.0), phases, studies=200).alarmed[:, 1].mean() > 0.9
    assert run(guard, means(0.5, 0.0), phases, studies=200).cleared[:, 1].mean() > 0.9


def test_the_control_is_never_tested_against_itself():
    guard, means = made("binary")
    found = run(guard, means(4.0, 4.0), studies=20)
    assert not found.alarmed[:, 0].any()
    assert (found.log_alarm[:, 0] == 0).all()


def test_a_pair_with_cells_that_were_not_drawn_keeps_its_wealth():
    guard, means = made("binary", weights=np.eye(2))
    counts = np.array([[50, 50], [50, 0], [50, 50]])
    fresh = Totals(counts=counts, sums=np.where(counts > 0, [[2.0], [40.0], [3.0]], 0.0))
    found = guard.update(guard.start(), fresh)
    assert found.log_alarm[1, 1] == 0
    assert found.alarmed_in[1].tolist() == [1, 0]
    assert found.alarmed.tolist() == [False, True, False], "in anybody's mix"
    # What comes later of the other site is tested as first draws are.
    late = Totals(counts=counts[:, ::-1], sums=fresh.sums[:, ::-1])
    assert guard.update(found, late).alarmed_in[1].tolist() == [1, 2]
    assert np.isclose(means(0.0, 0.0)[0, 0], 0.4)


def test_a_late_arm_is_tested_from_its_first_draws_on():
    guard, _ = made("gaussian")
    counts = np.array([[30] * AGENTS, [30] * AGENTS, [0] * AGENTS])
    nothing = Totals(counts=counts, sums=counts * 0.4)
    state = guard.update(guard.update(guard.start(), nothing), nothing)
    assert (state.log_alarm[2] == 0).all()
    all_arms = np.full((ARMS, AGENTS), 30)
    late = Totals(counts=all_arms, sums=all_arms * np.array([[0.4], [0.4], [1.2]]))
    found = guard.update(state, late)
    assert found.alarmed.tolist() == [False, False, True]


def test_a_batch_decides_as_single_studies_do():
    for model in MODELS:
        guard, means = made(model)
        noise = guard.problem.noise
        draw = next(iter(noise.samplers(means(2.0, 0.0), 0.5 if noise.free_scale else None).values()))()
        phases = [draw(np.random.default_rng(place), np.full((4, ARMS, AGENTS), 60)) for place in range(3)]
        together = guard.start((4,))
        for fresh in phases:
            together = guard.update(together, fresh)
        for one in range(4):
            alone = guard.fold(fresh[one] for fresh in phases)
            np.testing.assert_allclose(alone.log_alarm, together.log_alarm[one], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(alone.log_clear, together.log_clear[one], rtol=1e-9, atol=1e-9)


def test_the_delta_is_divided_over_pairs_of_arm_and_agent():
    guard, _ = made("binary")
    assert np.isclose(guard.line, np.log(2 * AGENTS / DELTA))
    limited, _ = made("binary", how="limit")
    assert np.isclose(limited.line, np.log(ARMS * AGENTS / DELTA))
    alike, _ = made("binary", weights=np.full((3, 3), 1 / 3))
    assert np.isclose(alike.line, np.log(2 / DELTA))
    shared = Guardrail.of(guard.problem, guard.outcome, share=0.25)
    assert np.isclose(shared.line, guard.line + np.log(4))


def test_a_mix_alone_and_the_mean_of_all_share_an_alarm():
    """What no site proves alone, all together may; what one site proves alone is enough. Both spend one delta."""
    guard, _ = made("gaussian", weights=np.eye(4))
    counts = np.full((ARMS, 4), 60)

    def after(*harm):
        return guard.update(guard.start(), Totals(counts=counts, sums=counts * np.array([[0.4] * 4, harm, [0.4] * 4])))

    shares = np.exp(guard._log_shares)
    assert np.isclose(shares.sum(), 1)
    assert shares[-1] == 0.75
    everywhere, somewhere = after(0.72, 0.72, 0.72, 0.72), after(0.95, 0.4, 0.4, 0.4)
    for found in (everywhere, somewhere):
        assert found.alarmed.tolist() == [False, True, False]
    assert not everywhere.alarmed_in.any(), "in nobody's mix alone"
    assert somewhere.alarmed_in[1].tolist() == [1, 0, 0, 0]
    assert not after(0.6, 0.6, 0.6, 0.6).alarmed.any()


def test_a_mix_with_a_report_to_come_adds_nothing():
    """Which reports are in may depend on what is in them: what counts in mid-phase can only grow until its end."""
    guard, _ = made("gaussian", weights=np.eye(4))
    counts = np.full((ARMS, 4), 60)

    def phase(harm, seen=1):
        return Totals(counts=counts * seen, sums=counts * np.array([[0.4], [harm], [0.4]]) * seen)

    state, waiting = guard.update(guard.start(), phase(0.6)), np.array([False, False, True, True])
    early = phase(0.85, np.array([1, 1, 0, 0]))
    assert not state.alarmed.any()
    found = guard.update(state, early, waiting=waiting)
    settled = np.logaddexp.reduce(np.log(0.25 / 4) + found.log_alarm[1, :2])
    assert np.isclose(guard.evidence(found, waiting)[1], settled)
    assert guard.evidence(found)[1] > guard.alarm_line > settled
    assert not found.alarmed.any()
    assert guard.update(state, early).alarmed[1], "once it is known that nobody else will report"
    assert guard.update(state, phase(0.85), waiting=np.zeros(4, dtype=bool)).alarmed[1]


def test_who_asks_what_another_asks_adds_no_evidence():
    weights = np.array([[0.7, 0.7, 0.2], [0.2, 0.2, 0.7], [0.1, 0.1, 0.1]])
    guard, _ = made("gaussian", weights=weights)
    counts = np.full((ARMS, 3), 60)
    found = guard.update(guard.start(), Totals(counts=counts, sums=counts * np.array([[0.4], [0.7], [0.4]])))
    assert np.isclose(found.log_alarm[1, 0], found.log_alarm[1, 1])
    once = np.logaddexp.reduce(np.log([0.125, 0.125, 0.75]) + found.log_alarm[1, [0, 2, 3]])
    assert np.isclose(guard.evidence(found)[1], once)


@pytest.mark.parametrize(
    ("better", "bound", "rate"),
    [
        ("lower", {"margin": 0.02}, 0.06),
        ("higher", {"margin": 0.02}, 0.94),
        ("lower", {"limit": 0.05}, 0.05),
        ("lower", {"margin": 0.4}, 0.5),
        ("lower", {"margin": 0.0}, None),
    ],
)
def test_a_rate_that_nobody_stated_is_guessed_from_what_is_allowed(better, bound, rate):
    outcome = Outcome(name="harm", noise=make_model(kind="binary"), better=better, role="guardrail", delta=0.1, **bound)
    assert outcome.expected_noise.rate == (None if rate is None else pytest.approx(rate))
    stated = replace(outcome, noise=make_model(kind="binary", rate=0.2))
    assert stated.expected_noise.rate == 0.2


def test_private_reports():
    """Noise in every sum is paid for: alarms at the margin stay rare, and harm is found."""
    guard, means = made("binary", rho=0.5, noise=make_model(kind="binary"))
    noise = guard.problem.noise
    assert noise.rho == 0.25
    for margins, low, high in (((1.0, 1.0), 0.0, DELTA + 0.02), ((4.5, 4.5), 0.9, 1.0)):
        state = guard.start((400,))
        draw = next(iter(noise.samplers(means(*margins)).values()))()
        for place in range(3):
            fresh = draw(np.random.default_rng(place), np.full((400, ARMS, AGENTS), 120))
            added = np.rint(np.random.default_rng([place, 1]).normal(0, noise.noise_variance**0.5, fresh.sums.shape))
            state = guard.update(state, Totals(counts=fresh.counts, sums=fresh.sums + added))
        assert low <= state.alarmed.any(axis=-1).mean() <= high


def test_a_covariate_adjusts_the_primary_outcome_alone():
    primary = make_model(kind="gaussian", scale="unknown")
    guard, _ = made("binary", covariate="age", covariate_center=60.0, covariate_theta=0.1, noise=primary)
    assert guard.problem.covariate is None
    assert guard.problem.noise.kind == "binary"


@pytest.mark.parametrize("pooled", [False, True], ids=["a stratum", "simply more draws"])
def test_who_came_between_phases_is_compared_within_the_stratum(pooled):
    """Early people have two of the control for one of the arm, late ones the reverse, and all are harmed more later."""
    guard, _ = made("gaussian", weights=[[1.0]])
    rng, runs = np.random.default_rng(7), 2000

    def drawn(counts, mean):
        counts = np.broadcast_to(np.array(counts)[:, None], (runs, 3, 1))
        means = mean + MARGIN * np.array([[0.0], [1.0], [1.0]])
        sums = counts * means + 0.5 * np.sqrt(counts) * rng.normal(size=counts.shape)
        return Totals(counts=counts, sums=sums, squares=counts * (0.25 + np.square(means)))

    state = guard.update(guard.start((runs,)), drawn((100, 100, 100), 0.4))
    early, late = drawn((800, 400, 400), 0.4), drawn((400, 800, 800), 0.65)
    after = guard.update(state, early + late if pooled else replace(late, between=early))
    wrong = float(after.alarmed.any(axis=-1).mean())
    assert (wrong > 0.2) if pooled else (wrong <= DELTA + 3 * np.sqrt(DELTA * (1 - DELTA) / runs))
    assert after.phase == 2


@pytest.mark.parametrize("how", ["margin", "limit"])
@pytest.mark.parametrize("model", ["binary", "bounded", "normal", "count", "unknown"])
def test_what_first_draws_settle_in_mid_phase_stays(model, how):
    """Stakes on the first report of a site do not depend on which other sites have reported."""
    guard, means = made(model, how=how, weights=np.eye(3))
    draw = next(iter(guard.problem.noise.samplers(means(2.0, 3.0), 0.5 if model == "unknown" else None).values()))()
    whole = draw(np.random.default_rng(3), np.array([[40, 60, 50]] * 3))
    some, waiting = Totals.columns([whole[:, 0], None, whole[:, 2]], 3), np.array([False, True, False])
    early, late = guard.update(guard.start(), some, waiting=waiting), guard.update(guard.start(), whole)
    assert np.array_equal(early.log_alarm[:, [0, 2]], late.log_alarm[:, [0, 2]])
    assert np.array_equal(early.log_clear[:, [0, 2]], late.log_clear[:, [0, 2]])
    assert late.log_alarm[:, [0, 2]].any()


@pytest.mark.parametrize("model", ["binary", "count", "unknown"])
def test_what_is_settled_in_mid_phase_stays_with_people_between_phases(model):
    """Stakes on a report do not depend on who was between phases at a site that has not reported yet."""
    guard, means = made(model, weights=np.eye(3))
    draw = next(iter(guard.problem.noise.samplers(means(2.0, 3.0), 0.5 if model == "unknown" else None).values()))()
    rng = np.random.default_rng(3)
    whole = replace(draw(rng, np.full((3, 3), 40)), between=draw(rng, np.full((3, 3), 20)))
    some = Totals.columns([whole[:, 0], None, whole[:, 2]], 3)
    waiting = np.array([False, True, False])
    start = guard.update(guard.start(), draw(rng, np.full((3, 3), 30)))
    early, late = guard.update(start, some, waiting=waiting), guard.update(start, whole)
    assert np.array_equal(early.log_alarm[:, [0, 2]], late.log_alarm[:, [0, 2]])
    assert (guard.evidence(early, waiting) <= guard.evidence(late)).all()
    assert late.log_alarm.any()
