"""Estimates: intervals that hold for all agents, arms, differences and phases at once, and are no wider than that."""

import numpy as np
import pytest
from tests.protocol.support import rewards, study_message

from parley.confidence.student import normal_score
from parley.errors import InvalidInput
from parley.estimates import estimates, joint_line
from parley.policies import make_policy
from parley.problem import Problem
from parley.protocol import Report, Stage, apply, create, issue_certificate
from parley.protocol.certificates import same_certificate
from parley.protocol.events import ReportAccepted
from parley.rewards import intervals, make_model
from parley.rewards.intervals import stacked
from parley.totals import Totals

WEIGHTS = [[0.7, 0.2], [0.3, 0.8]]
RUNS, PHASES, DELTA = 100, 3, 0.3
MODELS = {
    "known": {"kind": "gaussian", "scale": [0.5, 1.5]},
    "subgaussian": {"kind": "subgaussian", "scale": 1.0},
    "unknown": {"kind": "gaussian", "scale": "unknown", "guess": 30.0},
    "per agent": {"kind": "gaussian", "scale": "unknown per agent"},
    "per cell": {"kind": "gaussian", "scale": "unknown per cell"},
    "binary": {"kind": "binary"},
    "bounded": {"kind": "bounded", "low": 0, "high": 1, "method": "variance"},
    "hoeffding": {"kind": "bounded", "low": 0, "high": 1, "method": "hoeffding"},
}
TRUTHS = {"tie": [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], "far": [[0.98, 0.9], [0.5, 0.6], [0.01, 0.1]]}


def studied(name, means, *, first=3, grow=True):
    """Phases whose counts follow the rewards before them: the best so far is drawn more, or the worst."""
    problem = Problem(arms=3, weights=WEIGHTS, delta=DELTA, noise=make_model(**MODELS[name]), control="arm 2")
    generator = np.random.default_rng([len(name), first, int(grow)])
    draw = next(iter(problem.noise.samplers(np.array(means)).values()))()
    past, phases = Totals.zero((RUNS, 3, 2)), []
    for phase in range(PHASES):
        seen = problem.mixed(past.means)
        lead = seen == (seen.max(axis=-2, keepdims=True) if grow else seen.min(axis=-2, keepdims=True))
        counts = np.where(lead, 3, 1) * first * 3**phase if phase else np.full((RUNS, 3, 2), first)
        phases.append(draw(generator, counts.astype(np.int64)))
        past = past + phases[-1]
    return problem, phases


def missed(problem, phases, means):
    """`(run,)`: whether any interval of any agent, arm or difference failed to hold the truth in any phase."""
    truth = problem.mixed(np.array(means))
    wrong = np.zeros(RUNS, dtype=bool)
    for last in range(1, PHASES + 1):
        found = estimates(problem, phases[:last])
        leader = np.take_along_axis(np.broadcast_to(truth, (RUNS, 3, 2)), found.leader[:, None, :], axis=1)
        for kind, true in ((found.mean, truth), (found.lead, truth - leader), (found.control, truth - truth[1])):
            wrong |= ((true < kind.low - 1e-9) | (true > kind.high + 1e-9)).any(axis=(1, 2))
    return wrong


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("truth", "first", "grow"), [("tie", 3, True), ("far", 2, False)])
def test_they_hold_together_at_ties_far_gaps_and_tiny_counts(name, truth, first, grow):
    problem, phases = studied(name, TRUTHS[truth], first=first, grow=grow)
    assert missed(problem, phases, TRUTHS[truth]).mean() <= DELTA


def log_wealth(seen, theta):
    """Of the mixture of stakes against "the contrast is theta", by quadrature rather than in closed form."""
    told = seen.told & ((seen.degrees > 0) | (seen.estimated == 0))
    each = np.where(told, 1 / seen.variance, 0.0)
    root = np.sqrt(np.where(seen.estimated > 0, seen.estimated, seen.variance))
    t = (seen.contrast - theta) / root
    score = normal_score(t, seen.degrees) - normal_score(-t, seen.degrees) if seen.estimated.any() else t
    signal, information = (np.sqrt(each) * score).sum(axis=0), each.sum(axis=0)
    rho = intervals.FIRST * each[0]
    grid = np.linspace(-12, 12, 2001)
    stake = grid / np.sqrt(rho)[..., None]
    logs = stake * signal[..., None] - np.square(stake) * information[..., None] / 2 - np.square(grid) / 2
    return np.logaddexp.reduce(logs, axis=-1) + np.log(grid[1] - grid[0]) - np.log(2 * np.pi) / 2


@pytest.mark.parametrize("name", ["known", "unknown", "per cell"])
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3])
def test_an_end_is_where_the_bet_reaches_its_line_and_a_mutant_is_caught(name, factor):
    """Narrower by 30 % and the truth is ruled out before its time; wider, and the bet would have ruled it out."""
    problem, phases = studied(name, TRUTHS["tie"])
    phases = [phase[:5] for phase in phases]
    past, seen = Totals.zero((5, 3, 2)), []
    for fresh in phases:
        seen.append(problem.noise.seen(past, fresh, problem.weights))
        past = past + fresh
    every, line = stacked(seen), joint_line(problem)
    low, high = problem.noise.interval(every, line)
    middle, half = (low + high) / 2, factor * (high - low) / 2
    told = np.isfinite(low)
    assert told.any()
    for end in (middle - half, middle + half):
        reached = log_wealth(every, np.where(told, end, 0.0))[told]
        assert np.allclose(reached, line, atol=1e-4) == (factor == 1.0)


@pytest.mark.parametrize("name", ["binary", "bounded"])
def test_a_bet_within_a_range_is_fair_and_its_bound_is_on_the_safe_side(name):
    """The exact product of a phase's bets has expectation at most 1; the toll never understates its logarithm."""
    y = np.linspace(1e-6, 0.99, 200)
    exact = -np.log1p(-y) - y
    assert (intervals._psi_rate(y) * y**2 >= exact * (1 - 1e-6)).all()
    assert (intervals._psi_rate(y) * y**2 <= exact * 1.01 + 1e-9).all()
    problem, phases = studied(name, TRUTHS["far"], first=40)
    past, seen = Totals.zero((RUNS, 3, 2)), []
    for fresh in phases:
        seen.append(problem.noise.seen(past, fresh, problem.weights))
        past = past + fresh
    every, truth = stacked(seen), problem.mixed(np.array(TRUTHS["far"]))
    for size in (0.5, 2.0):
        stakes = size / np.sqrt(every.variance)
        stakes = stakes / (1 + stakes * every.reach)
        toll = np.square(stakes) * intervals._psi_rate(stakes * every.reach) * every.toll
        for sign in (-1, 1):
            wealth = np.exp((sign * stakes * (every.contrast - truth) - toll).sum(axis=0)).mean(axis=0)
            assert (wealth <= 1.35).all()
            mutant = np.exp((sign * stakes * (every.contrast - truth) - toll / 2).sum(axis=0)).mean(axis=0)
            assert size < 1 or (mutant > 1.35).any()


def test_a_range_is_never_left_and_the_scatter_there_is_makes_it_narrow():
    problem, phases = studied("bounded", TRUTHS["far"], first=200)
    found = estimates(problem, phases)
    plain = estimates(problem.with_(noise=make_model(**MODELS["hoeffding"])), phases)
    assert found.mean.low.min() >= 0
    assert found.mean.high.max() <= 1
    assert (found.mean.high - found.mean.low)[:, 2].mean() < 0.6 * (plain.mean.high - plain.mean.low)[:, 2].mean()


def test_the_scale_of_the_rewards_is_the_scale_of_the_intervals():
    """A guess that is far off changes nothing, and a thousandfold reward has a thousandfold interval."""
    problem, phases = studied("unknown", TRUTHS["far"])
    larger = [Totals(counts=p.counts, sums=1000 * p.sums, squares=1e6 * p.squares) for p in phases]
    guessed = problem.with_(noise=make_model(kind="gaussian", scale="unknown", guess=0.001))
    one, other = estimates(problem, phases), estimates(guessed, larger)
    assert np.allclose(1000 * one.lead.low, other.lead.low, rtol=1e-6)
    assert np.allclose(1000 * one.mean.high, other.mean.high, rtol=1e-6)


def test_without_a_draw_nothing_is_claimed():
    problem = Problem(arms=2, weights=WEIGHTS)
    some = Totals(counts=np.array([[9, 9], [9, 0]]), sums=np.zeros((2, 2)), squares=np.zeros((2, 2)))
    found = estimates(problem, [some])
    assert found.leader.tolist() == [0, 0]
    assert np.isinf(found.mean.high[1]).all()
    assert np.isinf(found.lead.low[1]).all()
    assert np.isfinite(found.mean.low[0]).all()


def test_every_policy_takes_a_control_and_an_unknown_one_is_refused():
    problem = Problem(arms=2, weights=WEIGHTS, control="arm 1")
    for name in ("evidence", "wcpe", "uniform"):
        assert make_policy(name, problem, {}).problem.control == "arm 1"
    with pytest.raises(InvalidInput, match="control"):
        Problem(arms=2, weights=WEIGHTS, control="placebo")


def test_a_certificate_has_them_and_a_log_that_claims_narrower_ones_is_refused():
    """Checked by whoever verifies: the same reports give the same ends, and an older certificate has none."""
    trial = create("s", study_message(policy="evidence", control="arm 2", noise={"kind": "gaussian", "scale": 1.0}))
    phases = []
    while trial.stage is Stage.RUNNING:
        for place, agent in enumerate(trial.awaited):
            draws = trial.plan.draws(trial.study.agents.index(agent))
            totals = rewards(draws, place, trial.phase)
            report = Report.of(totals, study="s", phase=trial.phase, agent=agent, plan=trial.plan.digest)
            trial = apply(trial, ReportAccepted(report=report))
        phases.append(trial.totals)
        trial = trial.close(trial.step())
    known = {"data": [], "sequence": 1, "head": "a" * 64, "version": "1"}
    old, new = issue_certificate(trial, **known), issue_certificate(trial, **known, phases=phases)
    assert "estimates" not in old.evidence
    agent = new.evidence["estimates"]["agents"][0]
    assert agent["leader"] == "arm 1"
    assert set(agent["arms"][0]) == {"arm", "mean", "to_leader", "to_control"}
    assert agent["arms"][0]["to_control"]["low"] < 0.7 / 3 < agent["arms"][0]["to_control"]["high"]
    agent["arms"][0]["mean"]["low"] += 0.01
    assert same_certificate(new, issue_certificate(trial, **known, phases=phases)) == ["evidence"]
