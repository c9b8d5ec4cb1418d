"""Forecasts of a running study, by simulating its remaining phases many times from its present state.

Each continuation draws a truth that is plausible given the data (`plausible_means`), and the same policy continues from
the present state. The spread of the totals is the forecast's uncertainty. Each reward model has a sampler for
forecasts; by default, rewards are normal, which is cautious for bounded rewards.

This module also makes documents for the API, limited to what can be simulated during a request. No function does I/O:
each takes a study or a state, and returns its result.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from parley.bounds import bai
from parley.costs import StudyCosts, money_of, phase_days
from parley.covariates import CovariateTruth
from parley.errors import InvalidInput, ParleyError
from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.power import budget_warning, smallest_budget
from parley.experiments.forecasts.scenarios import gap_scenario, tie_scenario, usual_gaps
from parley.policies import Policy, State
from parley.policies.between import asked_with, people_ahead
from parley.problem import FloatArray, Instance, IntArray, Problem
from parley.rewards.privacy import with_noise
from parley.text.formatting import plural
from parley.text.tabular import Columns, Picture, Tabular
from parley.text.translation import Translatable

MOST_ROUNDS = 40  # of one continuation, because near-ties might never end
# A continuation is stopped at this multiple of the draws so far; its total is then a lower bound.
LARGEST_FACTOR = 1_000_000
BOUND_ACCURACY = 1e-3
WIDTHS, LEAST_WIDTH = 60, 0.3  # number of candidate widths of effects; the smallest, in standard errors

S = TypeVar("S", bound=State)


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast(Tabular):
    """The totals at the end of every continuation, including the draws before the forecast."""

    study_costs: StudyCosts  # samples and money of the whole study; days and regret from now on
    rounds: IntArray  # (continuation,): of the whole study
    per_agent: FloatArray  # (agent,): mean draws
    unfinished: int  # continuations stopped by a cap: their totals are lower bounds

    @property
    def samples(self) -> IntArray:
        """`(continuation,)`: samples of the whole study."""
        return self.study_costs.samples

    @property
    def headline(self) -> str:
        low, middle, high = self.quantiles(0.1, 0.5, 0.9)
        return f"{plural(self.row_count, 'continuation')}, {middle:,} samples in all (10% to 90%: {low:,} to {high:,})"

    @property
    def row_count(self) -> int:
        return len(self.rounds)

    @property
    def picture(self) -> Picture:
        return Picture(shape="histogram", values="samples", rows="continuations")

    def columns(self) -> Columns:
        """One row per continuation, with its costs and rounds."""
        return {**self.study_costs.parts, "rounds": self.rounds}

    def quantiles(self, *levels: float) -> list[int]:
        """Quantiles of the totals, rounded to whole samples."""
        return [round(float(value)) for value in _quantiles(self.samples, levels)]


def _quantiles(values: IntArray, levels: Collection[float]) -> FloatArray:
    """Quantiles such that a further value is below them with the probabilities `levels`, even for few values."""
    return np.asarray(np.quantile(values, list(levels), method="weibull"))


def simulate_rest(
    policy: Policy,
    state: State,
    *,
    frozen: Collection[str] = (),
    between: IntArray | None = None,
    continuations: int,
    seed: int,
    seconds: float = math.inf,
) -> Forecast:
    """Simulate the remaining phases of a study many times, from a state that has data.

    `frozen` agents make no more draws. `between (arm, agent)` is the number of people already assigned to the next
    phase. The simulation stops after `seconds`; continuations that have not ended by then count as unfinished.

    >>> from parley.policies import make_policy
    >>> from parley.problem import Problem
    >>> policy = make_policy("evidence", Problem(arms=2, weights=[[1.0]]))
    >>> from parley.totals import Totals
    >>> start = policy.start()
    >>> drawn = policy.plan(start)
    >>> state = policy.update(start, Totals(counts=drawn, sums=drawn * np.array([[0.9], [0.1]])))
    >>> forecast = simulate_rest(policy, state, continuations=5, seed=0)
    >>> bool((forecast.samples >= drawn.sum()).all()), forecast.unfinished
    (True, 0)
    """
    generator, begun = np.random.default_rng(seed), monotonic()
    problem = policy.problem
    scale = np.sqrt(problem.noise.cell_variances(state.totals))
    errors = scale / np.sqrt(np.maximum(state.counts, 1))
    if problem.rho is not None:
        errors = np.hypot(errors, np.sqrt(problem.noise_variance * state.phase) / np.maximum(state.counts, 1))
    sites = problem.draws
    errors = np.broadcast_to(errors, problem.shape)[:, sites]
    truths = plausible_means(state.means[:, sites], errors, generator, continuations)[..., problem.from_sites]
    truths = _reflected(truths, *problem.noise.ends)
    draw = problem.noise.forecast_sampler(truths, scale)
    idle = [problem.agents.index(name) for name in frozen]
    ends = isinstance(problem.horizon, int)  # a study with a horizon always ends, so it needs no cap
    cap = math.inf if ends else LARGEST_FACTOR * max(int(state.counts.sum()), 1)
    running = _copies(state, continuations)
    days = np.zeros(continuations)
    early_counts = None if between is None else np.broadcast_to(between, (continuations, *problem.shape))
    in_vain = np.zeros_like(running.counts)
    while not running.finished.all() and monotonic() - begun < seconds:
        quotas = policy.plan(running, early_counts).copy()
        quotas[:, :, idle] = 0
        over = (running.counts.sum(axis=(-2, -1)) > cap) | (running.phase - state.phase >= MOST_ROUNDS)
        quotas[over] = 0
        if not quotas.any():
            break
        if problem.rate is not None:
            days += np.where(quotas.any(axis=(-2, -1)), phase_days(problem, quotas), 0.0)
        fresh = with_noise(draw(generator, quotas), generator, problem.noise)
        early = None
        if early_counts is not None:
            asked = asked_with(quotas, early_counts)
            in_vain, early_counts, early = in_vain + early_counts - asked, asked, draw(generator, asked)
        assigns = problem.between == "assign"
        ahead = people_ahead(problem, quotas, policy.most_ahead(running, quotas, early_counts)) if assigns else None
        running, early_counts = policy.update(running, replace(fresh, between=early)), ahead
    # People assigned ahead cost as much as others, even those who count in no phase.
    people = running.counts + in_vain + (0 if early_counts is None else early_counts)
    return Forecast(
        study_costs=StudyCosts(
            samples=people.sum(axis=(-2, -1)),
            money=money_of(problem, people) if "price" in problem.non_default() else None,
            days=None if problem.rate is None else days,
            regret=None if problem.horizon is None else _regret(problem, truths, people - state.counts),
        ),
        rounds=running.phase,
        per_agent=np.asarray(people.sum(axis=-2).mean(axis=0)),
        unfinished=int((~running.finished).sum()),
    )


def plausible_means(means: FloatArray, errors: FloatArray, generator: np.random.Generator, count: int) -> FloatArray:
    """`(count, arm, agent)`: local means that are plausible given the estimates `(arm, agent)` and their errors.

    Estimates are farther apart than the true means, since noise adds to the gaps. Means drawn around the estimates
    would be even farther apart, so that the study would look too easy and the forecast would end too early. So each
    mean is the sum of an agent's level, an arm's effect and an interaction. Effects and interactions are drawn from
    normal distributions of unknown width, and every draw has its own widths, drawn in proportion to their likelihood.

    >>> found = plausible_means(np.array([[0.2], [0.0]]), np.array([[0.1], [0.1]]), np.random.default_rng(0), 2000)
    >>> bool(found.std(axis=0).max() < 0.12), bool(0.1 < (found[:, 0] - found[:, 1]).mean() < 0.2)
    (True, True)
    """
    weights = 1 / np.square(errors)
    level = np.average(means, axis=0, weights=weights)
    share = weights / weights.sum(axis=1, keepdims=True)
    effect = ((means - level) * share).sum(axis=1, keepdims=True)
    width = 1 / np.sqrt(weights.sum(axis=1, keepdims=True))
    arms = _shrunk(effect, width, means.shape[0] - 1, generator, count)
    if means.shape[1] == 1:
        return np.asarray(level + arms)
    freedom = (means.shape[0] - 1) * (means.shape[1] - 1)
    own = _shrunk(means - level - effect, errors, freedom, generator, count)
    return np.asarray(level + arms + own - (own * share).sum(axis=-1, keepdims=True))


def _reflected(truths: FloatArray, low: float, high: float) -> FloatArray:
    """Means reflected into the range of rewards; if they were clipped, all means beyond the same end would tie."""
    within = np.where(truths > high, 2 * high - truths, np.where(truths < low, 2 * low - truths, truths))
    return np.clip(within, low, high)


def _shrunk(
    found: FloatArray, errors: FloatArray, freedom: int, generator: np.random.Generator, count: int
) -> FloatArray:
    """`(count, arm, agent)`: effects drawn given their estimates, with a normal prior around 0.

    Each draw has its own width of the prior, drawn in proportion to the width's likelihood.
    """
    typical = float(np.median(errors))
    most = max(10 * typical, 3 * float(np.abs(found).max()))
    widths = np.geomspace(LEAST_WIDTH * typical, most, WIDTHS)
    variances = np.square(widths)[:, None, None] + np.square(errors)
    likely = -0.5 * (np.log(variances) + np.square(found) / variances).sum(axis=(-2, -1)) * freedom / found.size
    chance = np.exp(likely - likely.max())
    square = np.square(generator.choice(widths, size=(count, 1, 1), p=chance / chance.sum()))
    kept = square / (square + np.square(errors))
    return np.asarray(kept * found + np.sqrt(kept) * errors * generator.standard_normal((count, *found.shape)))


def _regret(problem: Problem, truths: FloatArray, draws: IntArray) -> FloatArray:
    """`(continuation,)`: the regret of the given draws, if `truths` are the true local means."""
    mixed = problem.mixed(truths)
    return np.asarray((draws * (mixed.max(axis=-2, keepdims=True) - mixed)).sum(axis=(-2, -1)))


def _copies(state: S, count: int) -> S:
    """A batch of `count` copies of a state."""
    kept = {field.name: getattr(state, field.name) for field in fields(state)}
    copies = {
        name: np.repeat(np.asarray(value)[None], count, axis=0) for name, value in kept.items() if value is not None
    }
    return replace(state, **copies)


def bound_at_estimates(policy: Policy, state: State) -> FloatArray | None:
    """`(arm, agent)`: draws that every delta-correct policy needs, if the estimated means are the true means.

    It is the allocation of the paper's Theorem 1 times log(1 / (2.4 delta)). None if two estimates tie, or if the study
    may end without exact answers.
    """
    problem = policy.problem
    factor = math.log(1 / (2.4 * problem.delta))
    if factor <= 0 or not problem.asks_exactly or not state.counts.any():
        return None
    try:
        scale, found = problem.noise.estimated_scale(state.totals), None
        if problem.covariate is not None and problem.noise.free_scale:
            found = CovariateTruth(correlation=np.zeros(()))  # the scale is estimated from outcomes already adjusted
        estimated = Instance(problem=problem, means=state.means, scale=scale, covariate=found)
        bound = bai(estimated, accuracy=BOUND_ACCURACY)
    except ParleyError:
        return None
    return np.asarray(bound.allocation * factor)


LARGEST_ESTIMATE = 12_000  # largest arms x agents that can be simulated during a request
LARGEST_WARNING = 1_500  # largest arms x agents for which a request can search over budgets
ESTIMATE_WORK, FORECAST_WORK = 8_000, 40_000  # approximate number of arms x agents x simulated studies per request
FORECAST_SECONDS, SEARCH_SECONDS = 120.0, 20.0  # time limits
FEWEST_STUDIES, MOST_STUDIES = 50, 400  # simulated studies for each budget of a search


def estimates(policy: str, options: Mapping[str, Any], problem: Problem) -> list[dict[str, Any]]:
    """Estimate the costs of a study at the usual gaps, together and alone; empty if that would take too long."""
    pairs = problem.arm_count * problem.agent_count
    if pairs > LARGEST_ESTIMATE:
        return []
    planner = Planner(policy=policy, options=options, replications=max(2, min(40, ESTIMATE_WORK // pairs)), seed=0)
    found = []
    for gap in usual_gaps(problem):
        pair = planner.together_and_alone(gap_scenario(problem, gap), problem)
        whole, apart = (one.summary() | one.figures() for one in pair)
        found.append({"gap": gap, **whole, "alone": apart})
    return found


def launch_warning(policy: str, options: Mapping[str, Any], problem: Problem) -> str:
    """A warning if the budget of a study is unlikely to suffice at the usual gaps; empty otherwise.

    For large problems the warning only says that the budget was not simulated.
    """
    if problem.horizon is not None or (problem.max_samples is None and problem.max_rounds is None):
        return ""
    pairs = problem.arm_count * problem.agent_count
    if pairs > LARGEST_WARNING:
        return Translatable(
            (
                "For {0:,} pairs of arm and agent, it was not simulated whether this budget suffices; parley plan "
                "does this."
            ),
            pairs,
        )
    planner = Planner(policy=policy, options=options, replications=max(10, min(60, ESTIMATE_WORK // pairs)), seed=0)
    truths = [gap_scenario(problem, gap) for gap in usual_gaps(problem)]
    found = [(truth, planner.estimate(truth, problem)) for truth in truths]
    return budget_warning(planner, problem, found, accuracy=0.05)


def budget_for_power(
    policy: str,
    options: Mapping[str, Any],
    problem: Problem,
    power: float,
    gap: float | None = None,
    *,
    seconds: float = SEARCH_SECONDS,
) -> dict[str, Any]:
    """Find the smallest `max_samples` with a wanted power, or a `reason` why there is none; fast enough for a request.

    The default gap is the smallest of the usual gaps, which needs the largest budget; a gap of 0 means that all arms
    tie. To take only seconds, the search simulates fewer studies than `parley plan --power`, and it returns the Monte
    Carlo error of the power.
    """
    gap = min(usual_gaps(problem)) if gap is None else gap
    wanted: dict[str, Any] = {"wanted": power, "gap": gap}
    pairs = problem.arm_count * problem.agent_count
    if problem.horizon is not None:
        return wanted | {"reason": "a study with a horizon ends there, not with answers"}
    if pairs > LARGEST_WARNING:
        return wanted | {"reason": f"{pairs:,} pairs of arm and agent are too many to search while you wait"}
    begun = monotonic()

    def in_time(_: int) -> None:
        if monotonic() > begun + seconds:
            raise TimeoutError

    planner = Planner(policy=policy, options=options, replications=FEWEST_STUDIES, seed=0, progress=in_time)
    answer = None
    try:
        truth = gap_scenario(problem, gap) if gap else tie_scenario(problem)
        answer = smallest_budget(planner, problem, truth, power, accuracy=0.02)
        factor = min(int(seconds / (monotonic() - begun)) - 1, MOST_STUDIES // FEWEST_STUDIES)
        if factor > 1:  # search again, with as many studies as the time allows
            planner = replace(planner, replications=factor * FEWEST_STUDIES)
            answer = smallest_budget(planner, problem, truth, power, accuracy=0.02)
    except TimeoutError:
        if answer is None:
            return wanted | {"reason": f"the search took more than {seconds:g} seconds"}
    except InvalidInput as error:
        return wanted | {"reason": str(error)}
    most, study = answer
    found = {"max_samples": most, "power": study.power, "standard_error": study.standard_error(study.correct)}
    return wanted | found | {"studies": len(study.samples), "samples": float(study.samples.mean())}


def apportioned(total: float, spent: IntArray, means: FloatArray) -> IntArray:
    """`(agent,)`: integer draws per agent that sum to a forecast total, with at least the draws already `spent`.

    Neither medians nor means per agent would sum to the total, which is a median. So the remaining draws are divided in
    proportion to the mean remaining draws of each agent.

    >>> apportioned(410.4, np.array([100, 50, 30]), np.array([300.0, 200.0, 92.0])).tolist()
    [212, 134, 64]
    """
    left = max(round(total) - int(spent.sum()), 0)
    ahead = np.maximum(means - spent, 0.0)
    exact = left * (ahead / ahead.sum() if ahead.any() else np.full(len(spent), 1 / len(spent)))
    whole = np.floor(exact).astype(np.int64)
    # The draws lost by rounding down go to the agents with the largest remainders.
    whole[np.argsort(whole - exact, kind="stable")[: left - int(whole.sum())]] += 1
    return np.asarray(spent + whole)


def forecast_document(
    policy: Policy, state: State, frozen: Collection[str], *, over: bool, between: IntArray | None = None
) -> dict[str, Any]:
    """The forecast after a phase, and the lower bound at the estimated means; only the bound if the study is over."""
    bound = bound_at_estimates(policy, state)
    document: dict[str, Any] = {
        "state": "ready",
        "after_phase": int(state.phase),
        "drawn": int(state.counts.sum()),
    }
    if bound is not None:
        document |= {"bound": float(bound.sum()), "bound_by_arm": bound.sum(axis=1).tolist(), "bound_draws": bound}
    if "price" in policy.problem.non_default():
        document["money"] = {"spent": float(money_of(policy.problem, state.counts))}
    if over:
        return document
    continuations = max(4, min(64, FORECAST_WORK // state.counts.size))
    try:
        ahead = simulate_rest(
            policy,
            state,
            frozen=frozen,
            between=between,
            continuations=continuations,
            seed=int(state.phase),
            seconds=FORECAST_SECONDS,
        )
    except InvalidInput as error:
        return document | {"reason": str(error)}
    levels = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
    total = dict(zip(levels, ahead.quantiles(*levels.values()), strict=True))
    costs = ahead.study_costs.summary()
    if "money" in document:
        document["money"] |= costs["money"]
    return document | {
        "days_left": costs.get("days"),
        "regret_left": costs.get("regret"),
        "total": total,
        "rounds": dict(zip(levels, _quantiles(ahead.rounds, levels.values()).tolist(), strict=True)),
        "total_per_agent": apportioned(total["p50"], state.counts.sum(axis=0), ahead.per_agent),
        "continuations": continuations,
        "unfinished": ahead.unfinished,
    }
