"""What a study will cost before it is launched, by simulating plausible truths.

If rates are stated, also when every site draws, and days against money: the same studies planned with ever higher
values of a day, as a curve to choose from.
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
CAP = 100  # a study that costs this many times the worst one together is stopped: its cost is a lower bound
MOST_PHASES = 60  # of the timeline that is drawn
STEPS = (0.1, 0.5, 2.0, 8.0, 50.0)  # times what a day of the cheapest study costs in draws


@dataclass(frozen=True, kw_only=True)
class ScenarioCost:
    """The cost of a scenario, with one entry per simulated study."""

    scenario: str
    study_costs: StudyCosts
    rounds: IntArray
    per_agent: FloatArray  # (agent,): mean draws
    correct: BoolArray  # every agent got an answer that is good
    mistaken: BoolArray  # some agent lost one of its top arms
    truths: int  # the scenario's; each has the same number of studies, in this order
    unfinished: int  # stopped by the cap: their samples are a lower bound
    largest_size: int | None = None  # the most samples that the policy takes, whatever the truth; None without a limit
    superior: BoolArray | None = None  # the control is proven worse for every agent that has a better arm, if asked for
    falsely: BoolArray | None = None  # the same for an agent that has none

    @property
    def power(self) -> float:
        """The share of studies in which every agent got a good answer."""
        return float(self.correct.mean())

    @property
    def reached(self) -> BoolArray:
        """Which studies achieved their aim: superiority over the control if that was asked for, or else all answers."""
        return self.correct if self.superior is None else self.superior

    @property
    def error_rate(self) -> float:
        """The share of studies that ruled out a true top arm."""
        return float(self.mistaken.mean())

    def standard_error(self, values: BoolArray | IntArray | FloatArray) -> float:
        """The Monte Carlo error of the mean of some of these arrays."""
        return standard_error(values, self.truths)

    def rounds_summary(self) -> dict[str, float]:
        """Mean, its Monte Carlo error, and the largest."""
        error = self.standard_error(self.rounds)
        return {"mean": float(self.rounds.mean()), "standard_error": error, "max": int(self.rounds.max())}

    @property
    def power_text(self) -> str:
        """The power with its Monte Carlo error."""
        return share_text(self.power, self.standard_error(self.correct))

    def summary(self) -> dict[str, dict[str, float]]:
        """Mean, its Monte Carlo error and quantiles of every cost that the problem states."""
        parts, errors = self.study_costs.summary(), self.study_costs.parts
        return {name: part | {"standard_error": self.standard_error(errors[name])} for name, part in parts.items()}

    def claims(self) -> dict[str, float]:
        """How often superiority over the control is shown, and how often wrongly; empty unless asked for."""
        if self.superior is None or self.falsely is None:
            return {}
        error = self.standard_error(self.superior)
        return {"superior": float(self.superior.mean()), "superior_error": error, "falsely": float(self.falsely.mean())}

    def figures(self) -> dict[str, Any]:
        """What the studies did, besides their costs; ready for JSON."""
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
        """Samples of every study."""
        return self.study_costs.samples

    @property
    def costs(self) -> IntArray | FloatArray:
        """The costs that count: samples, or regret if there is a horizon, to which everybody draws."""
        return self.samples if self.study_costs.regret is None else self.study_costs.regret

    def quantiles(self, *levels: float) -> list[float]:
        """Quantiles of the costs that count."""
        return [float(value) for value in np.quantile(self.costs, levels)]


@dataclass(frozen=True, kw_only=True)
class Planner:
    """The policy that will run the study, and the number of simulated studies per estimate."""

    policy: str
    options: Mapping[str, Any]
    replications: int  # of every instance of a scenario
    seed: int
    progress: Callable[[int], None] | None = None
    announced: Callable[[str], None] | None = None  # called with what is simulated next
    versus_control: bool = False  # whether superiority over the problem's control is looked for

    def announce(self, what: str) -> None:
        """Announce what is simulated next."""
        if self.announced is not None:
            self.announced(what)

    def estimate(
        self, scenario: Scenario, problem: Problem, *, max_samples: int | None = None, planned: Problem | None = None
    ) -> ScenarioCost:
        """Simulate the studies of one scenario; a cap stops near-ties.

        `planned` is the problem as the policy sees it, where costs are counted by another one.
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
        """The scenario as it is, and with every agent alone, up to `CAP` times the dearest study together."""
        self.announce(scenario.name)
        together = self.estimate(scenario, problem)
        self.announce(f"{scenario.name}, alone")
        alone = with_weights(problem, problem.alone)
        return together, self.estimate(scenario, alone, max_samples=CAP * int(together.samples.max()))


class _Claims:
    """Watches studies: for which agents the control was proven worse than their best at the end."""

    def __init__(self, policy: Policy) -> None:
        assert policy.problem.control is not None
        self.policy, self.control = policy, policy.problem.arms.index(policy.problem.control)
        self.seen = np.zeros(0, dtype=np.bool_)  # (study,): numbered through, truth by truth
        self.proven = np.zeros((0, policy.problem.agent_count), dtype=np.bool_)

    def __call__(self, members: IntArray, _phase: int, _fresh: Totals, state: State) -> None:
        if (more := int(members.max()) + 1 - len(self.seen)) > 0:
            self.seen, self.proven = np.pad(self.seen, (0, more)), np.pad(self.proven, ((0, more), (0, 0)))
        self.seen[members] = True
        # Statuses are slow to compute, and an agent that still has the control as a candidate has proven nothing about
        # it.
        out = np.asarray((~state.active[:, self.control]).any(axis=-1))
        if out.any():
            statuses = self.policy.arm_statuses(state.take(out))
            self.proven[members[out]] = statuses[:, self.control] == ArmStatus.RULED_OUT.value

    def judged(self, instances: Sequence[Instance]) -> tuple[BoolArray, BoolArray]:
        """`(study,)` each: shown for every agent with an arm better than the control; shown for one without."""
        better = np.stack([~instance.best[self.control] for instance in instances])[:, None]
        proven = self.proven[self.seen].reshape(len(instances), -1, self.proven.shape[1])
        shown = (proven | ~better).all(axis=-1) & better.any(axis=-1)
        return shown.ravel(), (proven & ~better).any(axis=-1).ravel()


@dataclass(frozen=True, kw_only=True, repr=False)
class CostPlan(Tabular):
    """What `parley plan` estimates."""

    scenarios: Sequence[ScenarioCost]
    alone: Sequence[ScenarioCost]  # the same scenarios with every agent on its own
    by_level: Sequence[tuple[float, ScenarioCost]]  # the reference scenario, by error level or by horizon
    level_axis: str  # which: "delta" or "horizon"
    by_weights: Sequence[tuple[float, ScenarioCost]]  # the reference scenario, from much collaboration to none
    weights_axis: str  # what moves in `by_weights`
    by_rho: Sequence[tuple[float | None, ScenarioCost]] = ()  # the reference scenario, with more or less noise
    without_doubt: ScenarioCost | None = None  # the reference scenario at the middle weights, where some are in doubt

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
    """Estimate every scenario, alone and together; the last one is used to vary delta and the weights.

    Nothing is simulated twice: neither scenarios `known` by name, nor the study's own delta and weights.
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
    """Whether a varied problem is the study's own after all, or everyone alone."""
    if any(getattr(moved, key) != getattr(problem, key) for key in ("delta", "horizon", "rho")):
        return None
    if np.array_equal(moved.weights, problem.weights):
        return _OWN
    return _ALONE if np.array_equal(moved.weights, problem.alone) else None


def _noises(problem: Problem) -> Sequence[float | None]:
    """Privacy levels to compare, from none to much, if reports are private."""
    return [] if problem.rho is None else [None, *sorted({*RHOS, problem.rho}, reverse=True)]


def _levels(problem: Problem) -> tuple[str, Sequence[float]]:
    """What to vary besides the weights: the horizon if there is one, else the error level."""
    if isinstance(problem.horizon, int):
        return "horizon", [max(problem.horizon // 10, 1), problem.horizon, 10 * problem.horizon]
    return "delta", DELTAS


def plan_studies(planner: Planner, problem: Problem, scenarios: Sequence[Scenario], known: Collection[str] = ()) -> int:
    """How many studies `make_plan` simulates, for a progress bar."""
    pairs = sum(len(scenario.means) for scenario in scenarios if scenario.name not in known)
    name, levels = _levels(problem)
    varied = sum(bool(level != getattr(problem, name)) for level in levels)
    varied += sum(_same_question(problem, moved) is None for _, moved in along_weights(problem)[1])
    varied += max(len(_noises(problem)) - 1, 0) + bool(problem.weight_steps)
    return planner.replications * (2 * pairs + varied * len(scenarios[-1].means))


@dataclass(frozen=True, kw_only=True)
class TradeOffPoint:
    """The studies' costs if a day is worth `day_cost`; infinite: only days count."""

    day_cost: float
    study: ScenarioCost
    own: bool  # the day_cost that the study states


@dataclass(frozen=True, kw_only=True)
class Logistics:
    """What `parley plan` estimates about time, if rates are stated."""

    trade_off: list[TradeOffPoint]
    timeline: list[IntArray]  # the draws of one study of the scenario, phase by phase, (arm, agent)


def logistics(planner: Planner, problem: Problem, scenario: Scenario) -> Logistics | None:
    """The trade-off and one timeline of a scenario; None without rates."""
    if problem.rate is None:
        return None
    instance = scenario.instances(problem)[0]
    policy = make_policy(planner.policy, problem, planner.options, instance)
    timeline = [phase.quotas for phase in islice(phases(policy, instance, seed=planner.seed), MOST_PHASES)]
    return Logistics(trade_off=trade_off(planner, problem, scenario), timeline=timeline)


def trade_off(planner: Planner, problem: Problem, scenario: Scenario) -> list[TradeOffPoint]:
    """Days against money, one point for each of `day_costs`; empty if there is nothing to trade."""
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
    """How many studies `trade_off` simulates, for a progress bar."""
    points = len(day_costs(problem, scenario)) if has_trade_off(planner.policy, problem) else 0
    return points * len(scenario.means) * planner.replications


def has_trade_off(policy: str, problem: Problem) -> bool:
    """Whether days can be traded for money.

    Not without rates, with free draws, for a policy that plans by neither time nor money, or with a horizon, to which
    everybody draws.
    """
    paid = problem.rate is not None and bool((problem.price > 0).all())
    return paid and problem.horizon is None and policy_class(policy).plans_by_price


def day_costs(problem: Problem, scenario: Scenario) -> list[float]:
    """Values of a day to try, from 0 (the cheapest study) to infinite (the fastest), with the study's own."""
    bound = cost(scenario.instances(problem)[0], accuracy=1e-3)
    a_day = float(money_of(problem, bound.allocation) / days_needed(bound.allocation, stated_rates(problem)))
    digits = 1 - math.floor(math.log10(a_day))  # two figures: round worths are easier to choose from
    return sorted({0.0, problem.day_cost, math.inf, *(round(step * a_day, digits) for step in STEPS)})
