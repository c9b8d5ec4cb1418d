"""The numbers of a protocol's dossier: everything that `parley plan --report` simulates of a design, in one value.

Beside the operating characteristics: which arm is selected how often, how far estimates are off at the end of a study,
how often anything is ruled out where all arms tie, rare errors by tilted runs, what moves the figures, and examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.estimates import estimates, fixed_quantile, leading
from parley.experiments.forecasts.planning import MOST_PHASES, Planner, ScenarioCost
from parley.experiments.forecasts.power import Characteristic, characteristics, operating_scenarios
from parley.experiments.forecasts.scenarios import (
    Scenario,
    along_weights,
    gap_scenario,
    tie_scenario,
    upper_bound,
    usual_gaps,
)
from parley.policies import Policy, State, make_policy
from parley.policies.evidence.racing import EvidenceRacing
from parley.problem import BoolArray, Drift, FloatArray, Instance, IntArray, Problem
from parley.simulation import Phase, phases, simulate
from parley.simulation.rare import RareError, Tie, hardest_ties, ruled_out_probability
from parley.status import ArmStatus, OutcomeStatus
from parley.study import Study
from parley.totals import Totals
from parley.weights import WeightPath

REPLICATIONS = 1000  # studies of every truth, unless told: the Monte Carlo error of a power of 0.9 is then 0.01
EXAMPLES = 3
MOST_NUMBERS = 2_000_000  # arms x agents x studies whose phases are kept for estimates
TILTED = 5  # tilted runs for every study that is simulated: they are cheap, and few of them carry an estimate
TIE_FACTOR = 20  # a tie without an end is stopped at this many times what the planned study costs
FINE = 1001  # values of alpha at which the truth's best arm is looked up


@dataclass(frozen=True, kw_only=True)
class EstimateErrors:
    """How far some estimates are off at the end of studies, and how often their intervals hold."""

    what: str
    bias: float
    bias_error: float  # the Monte Carlo error of the bias
    rmse: float
    usual: float  # the share of usual intervals that hold the truth
    joint: float  # and of ours


@dataclass(frozen=True, kw_only=True, eq=False)
class Watched:
    """Studies of one truth, seen to their end."""

    truth: str
    studies: int
    selected: FloatArray  # (arm, agent): the share of the studies in which the arm is in the agent's answer
    unanswered: FloatArray  # (agent,): the share without an answer
    ruled_out: int  # studies in which some arm was ruled out, as worse, for some agent
    estimates: Sequence[EstimateErrors]
    all_hold: float  # the share of the studies in which every interval of ours holds


@dataclass(frozen=True, kw_only=True)
class TiltedError:
    """The probability that an arm of a tie is ruled out for an agent."""

    tie: Tie
    agent: str
    found: RareError


@dataclass(frozen=True, kw_only=True)
class BestAlong:
    """The best arms of an agent by the weights: from which value to which."""

    agent: str
    stretches: Sequence[tuple[float, float, tuple[str, ...]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dossier:
    """All numbers; `parley.experiments.forecasts.dossier_page` words them."""

    study: Study
    policy: Policy
    planner: Planner
    truth: Scenario  # what the study is planned for
    planned: Characteristic
    operating: Sequence[Characteristic]
    watched: Sequence[Watched]  # the planned truth, and all arms tied
    capped: int | None  # samples at which studies of a tie were stopped that have no end
    tilted: Sequence[TiltedError]
    what_if: Sequence[tuple[str, str, ScenarioCost]]  # what moves, how, and what the studies then do
    weights_axis: str
    by_weights: Sequence[tuple[float, ScenarioCost]]
    best_along: Sequence[BestAlong]
    examples: Sequence[Sequence[Phase]]

    @property
    def problem(self) -> Problem:
        """The study's."""
        return self.policy.problem

    def document(self) -> dict[str, Any]:
        """Ready for JSON."""
        tie = self.watched[1]
        return {
            "truth": self.truth.name,
            "planned": _of(self.planned),
            "operating": [_of(one) for one in self.operating],
            "ties": {
                "studies": tie.studies,
                "ruled_out": tie.ruled_out / tie.studies,
                "ruled_out_at_most": upper_bound(tie.ruled_out, tie.studies),
                "stopped_at": self.capped,
                "tilted": [
                    {"tie": one.tie.words, "agent": one.agent, "probability": one.found.probability}
                    | {"standard_error": one.found.standard_error}
                    for one in self.tilted
                ],
            },
            "watched": [
                {
                    "truth": one.truth,
                    "studies": one.studies,
                    "selected": one.selected.tolist(),
                    "unanswered": one.unanswered.tolist(),
                    "all_intervals_hold": one.all_hold,
                    "estimates": [vars(row) for row in one.estimates],
                }
                for one in self.watched
            ],
            "what_if": [{"what": what, "value": value} | _short(cost) for what, value, cost in self.what_if],
            "by_weights": [{self.weights_axis: value} | _short(cost) for value, cost in self.by_weights],
            "best_by_weights": [
                {
                    "agent": one.agent,
                    "stretches": [{"from": a, "to": b, "arms": list(arms)} for a, b, arms in one.stretches],
                }
                for one in self.best_along
            ],
            "examples": [[int(phase.quotas.sum()) for phase in run] for run in self.examples],
        }


def _short(cost: ScenarioCost) -> dict[str, Any]:
    wrong = int(cost.mistaken.sum())
    return cost.summary() | cost.figures() | {"error_rate_at_most": upper_bound(wrong, len(cost.samples))}


def _of(one: Characteristic) -> dict[str, Any]:
    fixed, sequential = (None if size is None else vars(size) for size in (one.fixed, one.sequential))
    return {"gap": one.gap} | _short(one.study) | {"alone": _short(one.alone), "fixed": fixed, "sequential": sequential}


def make_dossier(planner: Planner, study: Study, gaps: Sequence[float]) -> Dossier:
    """Simulate all of it: under the study's `[truth]`, else under the first of the gaps, and under each of them."""
    problem = study.problem
    wanted = list(gaps) or usual_gaps(problem)
    truth = _planned_truth(study, wanted)
    planned = characteristics(planner, problem, {_gap(truth, problem): truth}, by_budget=False)[0]
    operating = characteristics(planner, problem, operating_scenarios(problem, wanted), by_budget=False)
    policy, instance = make_policy(planner.policy, problem, planner.options), truth.instances(problem)[0]
    endless = not (problem.tolerance or problem.max_samples or problem.max_rounds)
    capped = TIE_FACTOR * int(planned.study.samples.mean()) if endless else None
    tie = tie_scenario(problem, float(np.median(instance.means)))
    axis, along = along_weights(problem)
    cap = 5 * int(planned.study.samples.max())
    return Dossier(
        study=study,
        policy=policy,
        planner=planner,
        truth=truth,
        planned=planned,
        operating=operating,
        watched=[
            watch(planner, policy, instance, truth.name),
            watch(planner, policy, tie.instances(problem)[0], tie.name, max_samples=capped),
        ],
        capped=capped,
        tilted=_tilted(planner, policy),
        what_if=[
            (what, value, planner.estimate(moved, asked, max_samples=cap))
            for what, value, moved, asked in variations(truth, problem, policy)
        ],
        weights_axis=axis,
        by_weights=[(value, planner.estimate(truth, moved, max_samples=cap)) for value, moved in along]
        if problem.agent_count > 1
        else [],
        best_along=best_along(instance) if problem.agent_count > 1 else [],
        examples=[
            list(islice(phases(policy, instance, seed=planner.seed + place), MOST_PHASES)) for place in range(EXAMPLES)
        ],
    )


def dossier_studies(planner: Planner, study: Study, gaps: Sequence[float]) -> int:
    """How many studies `make_dossier` simulates, about: what a progress bar counts to."""
    problem, wanted = study.problem, list(gaps) or usual_gaps(study.problem)
    truth, policy = _planned_truth(study, wanted), make_policy(planner.policy, problem, planner.options)
    pairs = 2 * (1 + len(operating_scenarios(problem, wanted)))
    rows = pairs + 2 + len(variations(truth, problem, policy)) + len(along_weights(problem)[1])
    tilted = 0 if problem.tolerance else TILTED * len(hardest_ties(problem)) * problem.question_count
    return planner.replications * (rows + tilted)


def _planned_truth(study: Study, gaps: Sequence[float]) -> Scenario:
    found = study.instance
    if study.problem.horizon is not None:
        raise InvalidInput("--report", found="a horizon", allowed="a study that ends with answers")
    if found is None:
        return gap_scenario(study.problem, gaps[0])
    return Scenario(name="the study's truth", means=found.means[None], scale=found.scale, drift=found.drift)


def _gap(truth: Scenario, problem: Problem) -> float:
    return truth.instances(problem)[0].smallest_gap


def _tilted(planner: Planner, policy: Policy) -> list[TiltedError]:
    """Errors too rare to be counted, where the policy's bets say how they come about; not with a tolerance."""
    problem = policy.problem
    if not isinstance(policy, EvidenceRacing) or problem.tolerance:
        return []
    return [
        TiltedError(
            tie=tie,
            agent=problem.agents[agent],
            found=ruled_out_probability(
                policy,
                tie.instance,
                arm=tie.arm,
                agent=int(agent),
                replications=TILTED * planner.replications,
                seed=planner.seed,
                progress=planner.progress,
            ),
        )
        for tie in hardest_ties(problem)
        for agent in np.flatnonzero(problem.questions)
    ]


def variations(truth: Scenario, problem: Problem, policy: Policy) -> list[tuple[str, str, Scenario, Problem]]:
    """What may be otherwise than planned: its name, its value, and the truth and the problem that it makes."""
    made: list[tuple[str, str, Scenario, Problem]] = []
    instance, noise = truth.instances(problem)[0], problem.noise
    step = max(problem.tolerance, instance.smallest_gap)
    if noise.means_are_rates:
        for shift in (-0.05, 0.05):
            moved = np.clip(truth.means + shift, 0.001, 0.999)
            made.append(("all rates", f"{100 * shift:+.0f} points", replace(truth, means=moved), problem))
        if getattr(noise, "rate", None) is not None:
            for factor in (0.5, 1.5):
                guessed = replace(noise, rate=min(factor * noise.rate, 0.99))  # type: ignore[attr-defined,call-arg]
                made.append(("guess of the rate", f"{factor:g} times", truth, problem.with_(noise=guessed)))
    elif noise.low is None:
        scale = np.sqrt(np.broadcast_to(instance.cell_variances, instance.means.shape))
        for factor in (0.7, 1.4):
            made.append(("true scale", f"{factor:g} times", replace(truth, scale=factor * scale), problem))
    if problem.rate is not None:
        for factor in (0.5, 2.0):
            made.append(("recruitment", f"{factor:g} times", truth, problem.with_(rate=factor * problem.rate)))
    if "site_counts" in policy.supports and problem.site_counts != "exact":
        for share in (0.1, 0.3):
            made.append(("missing outcomes", f"{100 * share:.0f} %", truth, problem.with_(dropout=share)))
    drift = {"random walk between looks": Drift(step=step), "season of four looks": Drift(season=step)}
    for name, moves in drift.items():
        made.append((f"drift: {name}", f"of {step:.3g}", replace(truth, drift=moves), problem))
    return made


def best_along(instance: Instance) -> list[BestAlong]:
    """The best arms of every agent under the truth, from everybody's reward equally to one's own alone.

    >>> problem = Problem(arms=["a", "b"], weights=[[0.75, 0.25], [0.25, 0.75]])
    >>> found = best_along(Instance(problem=problem, means=[[0.4, 0.0], [0.0, 0.3]]))
    >>> [(one.agent, one.stretches) for one in found][1]
    ('agent 2', [(0.0, 0.142, ('a',)), (0.143, 1.0, ('b',))])
    """
    problem = instance.problem
    path = WeightPath.through(problem.weights)
    values = np.linspace(path.values[0], path.values[-1], FINE)
    closed = np.isin(problem.arms, problem.dormant)[:, None]
    mixed = np.stack([np.where(closed, -np.inf, instance.means @ path.at(float(value))) for value in values])
    best = mixed >= -np.sort(-mixed, axis=-2)[:, problem.top - 1 : problem.top]
    found = []
    for agent, name in enumerate(problem.agents):
        arms = [tuple(arm for arm, in_ in zip(problem.arms, row, strict=True) if in_) for row in best[:, :, agent]]
        edges = [0, *(place for place in range(1, FINE) if arms[place] != arms[place - 1]), FINE]
        stretches = [
            (round(float(values[low]), 3), round(float(values[high - 1]), 3), arms[low])
            for low, high in pairwise(edges)
        ]
        found.append(BestAlong(agent=name, stretches=stretches))
    return found


class _Recorder:
    """Keeps every phase of every study, and how each ended."""

    def __init__(self, policy: Policy, count: int) -> None:
        shape = (count, *policy.problem.shape)
        self.policy, self.past = policy, list[Totals]()
        self.active, self.statuses = np.ones(shape, dtype=np.bool_), np.full((count, shape[-1]), "open", dtype="U9")
        self.worse, self.shape = np.zeros(count, dtype=np.bool_), shape

    def __call__(self, members: IntArray, phase: int, fresh: Totals, state: State) -> None:
        if phase == len(self.past):
            self.past.append(
                Totals(
                    counts=np.zeros(self.shape, dtype=np.int64), sums=np.zeros(self.shape), squares=np.zeros(self.shape)
                )
            )
        kept = self.past[phase]
        kept.counts[members], kept.sums[members] = fresh.counts, fresh.sums
        kept.require_squares()[members] = fresh.require_squares()
        self.active[members], self.statuses[members] = state.active, self.policy.statuses(state)
        out = self.policy.arm_statuses(state) == ArmStatus.RULED_OUT.value
        self.worse[members] = out.any(axis=(-2, -1))


def watch(
    planner: Planner, policy: Policy, instance: Instance, name: str, *, max_samples: int | None = None
) -> Watched:
    """Run studies of one truth and look at their answers and estimates when they end."""
    problem = policy.problem
    count = max(min(planner.replications, MOST_NUMBERS // instance.means.size), 20)
    seen = _Recorder(policy, count)
    simulate(
        policy,
        instance,
        replications=count,
        seed=planner.seed,
        max_samples=max_samples,
        progress=planner.progress,
        watch=seen,
    )
    answered = np.isin(seen.statuses, [end.value for end in OutcomeStatus if end.answered])
    rows, all_hold = _estimate_errors(problem, instance, seen, answered)
    return Watched(
        truth=name,
        studies=count,
        selected=(seen.active & answered[:, None]).mean(axis=0),
        unanswered=1 - answered.mean(axis=0),
        ruled_out=int(seen.worse.sum()),
        estimates=rows,
        all_hold=all_hold,
    )


def _estimate_errors(
    problem: Problem, instance: Instance, seen: _Recorder, answered: BoolArray
) -> tuple[list[EstimateErrors], float]:
    """Of the mean of every arm and of the answer, and of the answer's difference to the best other and the control."""
    total = seen.past[0]
    for one in seen.past[1:]:
        total = total + one
    leader = leading(problem, total, seen.active)
    found, quantile = estimates(problem, seen.past, leader), fixed_quantile(problem.delta)
    truth, place = instance.mixed_means, leader[:, None]
    lead_truth = truth - np.take_along_axis(np.broadcast_to(truth, found.mean.value.shape), place, axis=-2)
    kinds = {"mean": (found.mean, np.broadcast_to(truth, found.mean.value.shape)), "lead": (found.lead, lead_truth)}
    inside = {name: (kind.low <= right) & (right <= kind.high) for name, (kind, right) in kinds.items()}
    all_hold = np.logical_and.reduce([held.all(axis=(-2, -1)) for held in inside.values()])

    def row(what: str, name: str, chosen: BoolArray) -> EstimateErrors | None:
        kind, right = kinds[name]
        chosen = chosen & np.isfinite(kind.error)
        if not chosen.any():
            return None
        off = np.where(chosen, kind.value - right, 0.0)
        each = chosen.sum(axis=(-2, -1))
        studies = each > 0
        means = off.sum(axis=(-2, -1))[studies] / each[studies]
        return EstimateErrors(
            what=what,
            bias=float(means.mean()),
            bias_error=float(means.std() / np.sqrt(len(means))),
            rmse=float(np.sqrt(np.square(off).sum() / chosen.sum())),
            usual=float((np.abs(off) <= quantile * kind.error)[chosen].mean()),
            joint=float(inside[name][chosen].mean()),
        )

    arms = np.arange(problem.arm_count)[:, None]
    every = np.ones(found.mean.value.shape, dtype=np.bool_)
    rows = [row(f"mean of {arm}", "mean", every & (arms == k)) for k, arm in enumerate(problem.arms)]
    is_leader, has = arms == place, answered[:, None]
    rows.append(row("mean of the answer", "mean", is_leader & has))
    second = np.where(is_leader, -np.inf, found.mean.value).argmax(axis=-2)[:, None]
    rows.append(row("best other less the answer", "lead", (arms == second) & has))
    if problem.control is not None:
        control = problem.arms.index(problem.control)
        rows.append(row(f"{problem.control} less the answer", "lead", (arms == control) & ~is_leader & has))
    return [one for one in rows if one is not None], float(all_hold.mean())
