"""Forecasts of the cost of a study that is not launched yet, by simulating it under plausible truths.

If the study states rates, the forecast includes a calendar of when every site draws, and a trade-off of days against
money: a curve to choose from, along which the same study is planned for a higher and higher cost of a day.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from parley.bounds.prices import cost
from parley.costs import StudyCosts, days_needed, money_of, stated_rates
from parley.experiments.forecasts.scenarios import Scenario, along_weights, standard_error, with_weights
from parley.policies import Policy, State, make_policy, policy_class
from parley.problem import BoolArray, FloatArray, Instance, IntArray, Problem
from parley.simulation import phases, simulate_truths
from parley.text.formatting import plural, share_text
from parley.text.status import ArmStatus
from parley.text.tabular import Columns, Picture, Tabular
from parley.totals import Totals
from parley.weight_map import stated_alone

DELTAS = (0.1, 0.05, 0.01, 0.001)
RHOS = (0.5, 0.05, 0.005)
CAP = 100  # studies alone stop at this multiple of the largest study together; their costs are then lower bounds
MOST_PHASES = 60  # of the calendar
STEPS = (0.1, 0.5, 2.0, 8.0, 50.0)  # costs of a day to try, as multiples of the cheapest study's cost per day


@dataclass(frozen=True, kw_only=True)
class ScenarioCost:
    """The results of simulated studies of one scenario; arrays are `(study,)` unless stated."""

    scenario: str
    study_costs: StudyCosts
    rounds: IntArray
    per_agent: FloatArray  # (agent,): mean draws
    correct: BoolArray  # whether every agent got a good answer
    mistaken: BoolArray  # whether a true top arm was ruled out for some agent
    truths: int  # number of truths of the scenario; each has the same number of studies, in this order
    unfinished: int  # number of studies stopped by a cap: their samples are lower bounds
    largest_size: int | None = None  # the most samples that the policy takes under any truth; None without a limit
    # With a test against the control: whether the control is proven worse for every agent that has a better arm, and
    # whether it is falsely proven worse for an agent that has none.
    superior: BoolArray | None = None
    falsely: BoolArray | None = None

    @property
    def power(self) -> float:
        """The share of studies in which every agent got a good answer."""
        return float(self.correct.mean())

    @property
    def reached(self) -> BoolArray:
        """`(study,)`: whether a study reached its aim: superiority over the control if tested, else all answers."""
        return self.correct if self.superior is None else self.superior

    @property
    def error_rate(self) -> float:
        """The share of studies that ruled out a true top arm."""
        return float(self.mistaken.mean())

    def standard_error(self, values: BoolArray | IntArray | FloatArray) -> float:
        """The Monte Carlo standard error of the mean of `values (study,)`."""
        return standard_error(values, self.truths)

    def rounds_summary(self) -> dict[str, float]:
        """The mean number of rounds, its Monte Carlo error, and the largest number."""
        error = self.standard_error(self.rounds)
        return {"mean": float(self.rounds.mean()), "standard_error": error, "max": int(self.rounds.max())}

    @property
    def power_text(self) -> str:
        """The power with its Monte Carlo error."""
        return share_text(self.power, self.standard_error(self.correct))

    def summary(self) -> dict[str, dict[str, float]]:
        """The mean, its Monte Carlo error and quantiles of samples and of every other cost that the problem states."""
        parts, errors = self.study_costs.summary(), self.study_costs.parts
        return {name: part | {"standard_error": self.standard_error(errors[name])} for name, part in parts.items()}

    def claims(self) -> dict[str, float]:
        """How often superiority over the control is proven, and how often falsely; empty if it is not tested."""
        if self.superior is None or self.falsely is None:
            return {}
        error = self.standard_error(self.superior)
        return {"superior": float(self.superior.mean()), "superior_error": error, "falsely": float(self.falsely.mean())}

    def figures(self) -> dict[str, Any]:
        """The results of the studies other than their costs, ready for JSON."""
        return self.claims() | {
            "scenario": self.scenario,
            "studies": len(self.samples),
            "per_agent": self.per_agent.tolist(),
            "rounds": self.rounds_summary(),
            "error_rate": self.error_rate,
            "error_rate_error": self.standard_error(self.mistaken),
            "power": self.power,
            "power_error": self.standard_error(self.correct),
            "unfinished": self.unfinished,
            "largest_size": self.largest_size,
        }

    @property
    def samples(self) -> IntArray:
        """`(study,)`: the number of samples."""
        return self.study_costs.samples

    @property
    def costs(self) -> IntArray | FloatArray:
        """`(study,)`: the costs to minimise: regret if there is a horizon, which fixes the samples; else samples."""
        return self.samples if self.study_costs.regret is None else self.study_costs.regret

    def quantiles(self, *levels: float) -> list[float]:
        """Quantiles of `costs`."""
        return [float(value) for value in np.quantile(self.costs, levels)]


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Simulates studies for a forecast, with one policy, a number of replications and a seed."""

    policy: str
    options: Mapping[str, Any]
    replications: int  # of every instance of a scenario
    seed: int
    progress: Callable[[int], None] | None = None  # called with the number of studies that have just ended
    announced: Callable[[str], None] | None = None  # called with a description of the next simulation
    versus_control: bool = False  # whether studies test superiority over the problem's control

    def announce(self, what: str) -> None:
        """Announce the next simulation to the caller, if `announced` is set."""
        if self.announced is not None:
            self.announced(what)

    def estimate(
        self, scenario: Scenario, problem: Problem, *, max_samples: int | None = None, planned: Problem | None = None
    ) -> ScenarioCost:
        """Simulate the studies of one scenario; `max_samples` is a cap that stops near-ties.

        If `planned` is given, the policy plans by the prices of that problem; costs are always counted by the prices of
        `problem`.
        """
        policy = make_policy(self.policy, planned or problem, self.options)
        instances = scenario.instances(problem)
        claims = _Claims(policy) if self.versus_control else None
        outcomes = simulate_truths(
            policy,
            instances,
            replications=self.replications,
            seed=self.seed,
            max_samples=max_samples,
            progress=self.progress,
            watch=claims,
        )
        superior, falsely = claims.judged(instances) if claims else (None, None)
        return ScenarioCost(
            scenario=scenario.name,
            study_costs=StudyCosts.join([outcome.study_costs for outcome in outcomes]),
            rounds=np.concatenate([outcome.rounds for outcome in outcomes]),
            per_agent=np.mean([outcome.draws.sum(axis=0) for outcome in outcomes], axis=0),
            correct=np.concatenate([outcome.correct for outcome in outcomes]),
            mistaken=np.concatenate([outcome.mistaken for outcome in outcomes]),
            truths=len(outcomes),
            unfinished=sum(int((~outcome.finished).sum()) for outcome in outcomes),
            largest_size=policy.largest_size,
            superior=superior,
            falsely=falsely,
        )

    def together_and_alone(self, scenario: Scenario, problem: Problem) -> tuple[ScenarioCost, ScenarioCost]:
        """Simulate the scenario with the stated weights, and with every agent alone.

        Studies alone are stopped at `CAP` times the samples of the largest study together.
        """
        self.announce(scenario.name)
        together = self.estimate(scenario, problem)
        self.announce(f"{scenario.name}, alone")
        alone = with_weights(problem, problem.alone)
        return together, self.estimate(scenario, alone, max_samples=CAP * int(together.samples.max()))


class _Claims:
    """Records during a simulation for which agents the control is proven worse than another arm."""

    def __init__(self, policy: Policy) -> None:
        assert policy.problem.control is not None
        self.policy, self.control = policy, policy.problem.arms.index(policy.problem.control)
        self.seen = np.zeros(0, dtype=np.bool_)  # (study,): numbered consecutively, truth by truth, with gaps
        self.proven = np.zeros((0, policy.problem.agent_count), dtype=np.bool_)  # (study, agent)

    def __call__(self, members: IntArray, _phase: int, _fresh: Totals, state: State) -> None:
        if (more := int(members.max()) + 1 - len(self.seen)) > 0:
            self.seen, self.proven = np.pad(self.seen, (0, more)), np.pad(self.proven, ((0, more), (0, 0)))
        self.seen[members] = True
        # Statuses are slow to compute, so they are computed only for studies in which an agent dropped the control: an
        # agent that still has the control as a candidate has proven nothing about it.
        out = np.asarray((~state.active[:, self.control]).any(axis=-1))
        if out.any():
            statuses = self.policy.arm_statuses(state.take(out))
            self.proven[members[out]] = statuses[:, self.control] == ArmStatus.RULED_OUT.value

    def judged(self, instances: Sequence[Instance]) -> tuple[BoolArray, BoolArray]:
        """Whether superiority was rightly proven, and whether it was falsely proven; `(study,)` each.

        The first is true if superiority was proven for every agent with an arm better than the control, and there is
        such an agent. The second is true if superiority was proven for an agent without such an arm.
        """
        better = np.stack([~instance.best[self.control] for instance in instances])[:, None]
        proven = self.proven[self.seen].reshape(len(instances), -1, self.proven.shape[1])
        shown = (proven | ~better).all(axis=-1) & better.any(axis=-1)
        return shown.ravel(), (proven & ~better).any(axis=-1).ravel()


@dataclass(frozen=True, kw_only=True, repr=False)
class CostPlan(Tabular):
    """The cost estimates of `parley plan`, as a table with a row per scenario."""

    scenarios: Sequence[ScenarioCost]
    alone: Sequence[ScenarioCost]  # the same scenarios with every agent alone
    by_level: Sequence[tuple[float, ScenarioCost]]  # the reference scenario, by delta or by horizon
    level_axis: str  # what varies in `by_level`: "delta" or "horizon"
    by_weights: Sequence[tuple[float, ScenarioCost]]  # the reference scenario, from much collaboration to none
    weights_axis: str  # name of what varies in `by_weights`
    by_rho: Sequence[tuple[float | None, ScenarioCost]] = ()  # the reference scenario, by privacy; None: exact reports
    without_doubt: ScenarioCost | None = None  # the reference scenario at the middle weights; None if none is in doubt

    @property
    def unit(self) -> str:
        """The unit of cost: samples, or regret if there is a horizon."""
        return "samples" if self.scenarios[0].study_costs.regret is None else "regret"

    @property
    def headline(self) -> str:
        most = max(estimate.quantiles(0.5)[0] for estimate in self.scenarios)
        return f"{plural(len(self.scenarios), 'scenario')}, up to {most:,.0f} {self.unit} at the median"

    @property
    def row_count(self) -> int:
        return len(self.scenarios)

    @property
    def picture(self) -> Picture:
        low, middle, high = (f"{self.unit}_{level}" for level in ("p10", "p50", "p90"))
        return Picture(shape="bars", values=middle, rows="scenario", low=low, high=high)

    def columns(self) -> Columns:
        """Costs, rounds, errors and power of every scenario, named as in the JSON of `parley plan`."""
        rows = []
        for together, alone in zip(self.scenarios, self.alone, strict=True):
            row: dict[str, Any] = {"scenario": together.scenario, "studies": len(together.samples)}
            summaries = together.summary() | {"rounds": together.rounds_summary()}
            row |= {f"{cost}_{key}": value for cost, part in summaries.items() for key, value in part.items()}
            row |= {"error_rate": together.error_rate, "power": together.power, **together.claims()}
            rows.append(row | {f"alone_{self.unit}_p50": alone.quantiles(0.5)[0]})
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


Pair = tuple[ScenarioCost, ScenarioCost]  # together and alone


def make_plan(
    planner: Planner, problem: Problem, scenarios: Sequence[Scenario], known: Mapping[str, Pair] | None = None
) -> CostPlan:
    """Estimate every scenario, together and alone; in the last one, also vary delta or horizon, weights and privacy.

    Nothing is simulated twice: neither scenarios whose results are `known`, by name, nor the study's own delta and
    weights.
    """
    pairs = [(known or {}).get(one.name) or planner.together_and_alone(one, problem) for one in scenarios]
    planner.announce("other levels and weights")
    together, alone = zip(*pairs, strict=True)
    reference, cap = scenarios[-1], CAP * int(together[-1].samples.max())
    axis, problems = along_weights(problem)
    name, levels = _levels(problem)
    found = {_OWN: together[-1], _ALONE: alone[-1]}

    def cost(moved: Problem, most: int | None = None) -> ScenarioCost:
        same = _same_question(problem, moved)
        return found[same] if same else planner.estimate(reference, moved, max_samples=most)

    return CostPlan(
        scenarios=together,
        alone=alone,
        by_level=[(level, cost(problem.with_(**{name: level}))) for level in levels],
        level_axis=name,
        by_weights=[(value, cost(moved, cap)) for value, moved in problems],
        weights_axis=axis,
        by_rho=[(rho, cost(problem.with_(rho=rho))) for rho in _noises(problem)],
        without_doubt=cost(stated_alone(problem)) if problem.weight_steps else None,
    )


_OWN, _ALONE = "own", "alone"


def _same_question(problem: Problem, moved: Problem) -> str | None:
    """The key of the known results that also apply to a varied problem, `_OWN` or `_ALONE`; None if neither applies."""
    if any(getattr(moved, key) != getattr(problem, key) for key in ("delta", "horizon", "rho")):
        return None
    if np.array_equal(moved.weights, problem.weights):
        return _OWN
    return _ALONE if np.array_equal(moved.weights, problem.alone) else None


def _noises(problem: Problem) -> Sequence[float | None]:
    """The values of rho to compare if reports are private: None for exact reports, then smaller and smaller values."""
    return [] if problem.rho is None else [None, *sorted({*RHOS, problem.rho}, reverse=True)]


def _levels(problem: Problem) -> tuple[str, Sequence[float]]:
    """The setting to vary besides the weights, with its values: the horizon if there is one, else delta."""
    if isinstance(problem.horizon, int):
        return "horizon", [max(problem.horizon // 10, 1), problem.horizon, 10 * problem.horizon]
    return "delta", DELTAS


def plan_studies(planner: Planner, problem: Problem, scenarios: Sequence[Scenario], known: Collection[str] = ()) -> int:
    """The number of studies that `make_plan` simulates, for a progress bar."""
    pairs = sum(len(scenario.means) for scenario in scenarios if scenario.name not in known)
    name, levels = _levels(problem)
    varied = sum(bool(level != getattr(problem, name)) for level in levels)
    varied += sum(_same_question(problem, moved) is None for _, moved in along_weights(problem)[1])
    varied += max(len(_noises(problem)) - 1, 0) + bool(problem.weight_steps)
    return planner.replications * (2 * pairs + varied * len(scenarios[-1].means))


@dataclass(frozen=True, kw_only=True)
class TradeOffPoint:
    """The costs of a study that is planned as if a day were worth `day_cost`."""

    day_cost: float  # inf: only days count
    study: ScenarioCost
    own: bool  # whether the study states this day_cost


@dataclass(frozen=True, kw_only=True)
class Logistics:
    """The estimates of `parley plan` about time, for studies that state rates."""

    trade_off: list[TradeOffPoint]
    timeline: list[IntArray]  # the draws of one study of the scenario, `(arm, agent)` for every phase


def logistics(planner: Planner, problem: Problem, scenario: Scenario) -> Logistics | None:
    """Estimate the trade-off of days against money and one timeline of a scenario; None without rates."""
    if problem.rate is None:
        return None
    instance = scenario.instances(problem)[0]
    policy = make_policy(planner.policy, problem, planner.options, instance)
    timeline = [phase.quotas for phase in islice(phases(policy, instance, seed=planner.seed), MOST_PHASES)]
    return Logistics(trade_off=trade_off(planner, problem, scenario), timeline=timeline)


def trade_off(planner: Planner, problem: Problem, scenario: Scenario) -> list[TradeOffPoint]:
    """Simulate the study for each assumed cost of a day (`day_costs`); empty if there is no trade-off."""
    if not has_trade_off(planner.policy, problem):
        return []
    planner.announce("days against money")
    return [
        TradeOffPoint(
            day_cost=worth,
            study=planner.estimate(
                scenario,
                problem,
                planned=problem.with_(price=0.0, day_cost=1.0) if math.isinf(worth) else problem.with_(day_cost=worth),
            ),
            own=worth == problem.day_cost,
        )
        for worth in day_costs(problem, scenario)
    ]


def trade_off_studies(planner: Planner, problem: Problem, scenario: Scenario) -> int:
    """The number of studies that `trade_off` simulates, for a progress bar."""
    points = len(day_costs(problem, scenario)) if has_trade_off(planner.policy, problem) else 0
    return points * len(scenario.means) * planner.replications


def has_trade_off(policy: str, problem: Problem) -> bool:
    """Whether a study can trade days for money.

    It cannot if it states no rates, if any draws are free, if its policy plans by neither time nor money, or if it has
    a horizon: all agents then draw until the end.
    """
    paid = problem.rate is not None and bool((problem.price > 0).all())
    return paid and problem.horizon is None and policy_class(policy).plans_by_price


def day_costs(problem: Problem, scenario: Scenario) -> list[float]:
    """Costs of a day to try, from 0 (the cheapest study) to inf (the fastest), including the cost that is stated."""
    bound = cost(scenario.instances(problem)[0], accuracy=1e-3)
    a_day = float(money_of(problem, bound.allocation) / days_needed(bound.allocation, stated_rates(problem)))
    digits = 1 - math.floor(math.log10(a_day))  # two significant digits: round values are easier to choose from
    return sorted({0.0, problem.day_cost, math.inf, *(round(step * a_day, digits) for step in STEPS)})
