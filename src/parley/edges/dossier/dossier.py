"""The numbers of a protocol's dossier: everything that `parley plan --report` simulates, in one object.

In addition to operating characteristics, the dossier has: how often each arm is selected; the errors of estimates at
the end of a study; wrong answers under truths where they can happen, and where all arms tie; probabilities of rare
errors, by importance sampling (*tilted* runs); the results under deviations from the plan; textbook designs; and
example runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.estimates import estimates, fixed_quantile, leading
from parley.experiments.forecasts.comparison import Comparison, Peer, compare, compared_studies
from parley.experiments.forecasts.harms import HarmChance, harm_chances
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
from parley.simulation import Outcome, Phase, phases, simulate
from parley.simulation.rare import RareError, Tie, hardest_ties, ruled_out_probability
from parley.study import Study
from parley.text.status import ArmStatus, OutcomeStatus
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.weights import WeightPath

REPLICATIONS = 1000  # studies per truth by default: the Monte Carlo error of a power of 0.9 is then 0.01
EXAMPLES = 2  # example runs under the planned truth; plus one under a tie, if studies of a tie end
MOST_NUMBERS = 2_000_000  # arms x agents x studies whose phases are stored for estimates: limits memory
ERRORS = 3  # factor on the number of studies for truths in which errors are likeliest
# Gaps as multiples of the tolerance: just beyond 1, a worse arm is a wrong answer; up to 1, it is a right answer.
BEYOND, WITHIN = 1.05, (0.5, 0.95)
LOW_RATE = 0.05  # a rate at which the normal approximation is poor
MOST_BEST = 6  # most arms for which a truth is made in which the arm is best
DESIGN_RUNS = 4_000  # simulated runs of other designs
TILTED = 5  # tilted runs per simulated study: they are cheap, but only a few contribute to an estimate
TIE_FACTOR = 20  # a tie without an end is stopped at this multiple of the planned study's cost
MISSING = Translatable("missing outcomes")
FINE = 1001  # values of alpha at which the best arm is computed


@dataclass(frozen=True, kw_only=True)
class EstimateErrors:
    """How good one kind of estimate is at the end of studies: its bias, and the coverage and width of its intervals.

    Every `..._error` is a Monte Carlo error, with the studies as the sample.
    """

    what: str  # what is estimated
    studies: int  # number of studies that have such an estimate
    bias: float
    bias_error: float
    rmse: float
    rmse_error: float
    usual: float  # share of usual intervals that contain the truth
    usual_error: float
    usual_width: float  # mean width
    joint: float  # share of Parley's joint intervals that contain the truth
    joint_error: float
    joint_width: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Watched:
    """The results of simulated studies under one truth, each observed until its end."""

    truth: str
    instance: Instance
    outcome: Outcome
    answers: BoolArray  # (study, arm, agent): the arms in an agent's answer; no arms without an answer
    counts: IntArray  # (study, arm): draws
    ruled_out: int  # studies in which some arm was ruled out as worse for some agent
    estimates: Sequence[EstimateErrors] = ()
    all_hold: float = 1.0  # share of studies in which all joint intervals contain the truth
    superior: float | None = None  # share of studies in which some answer's interval is above the control

    @property
    def studies(self) -> int:
        """The number of studies."""
        return len(self.answers)

    @property
    def selected(self) -> FloatArray:
        """`(arm, agent)`: the share of studies with the arm in the agent's answer."""
        return np.asarray(self.answers.mean(axis=0))

    @property
    def unanswered(self) -> FloatArray:
        """`(agent,)`: the share of studies without an answer."""
        return np.asarray(1 - self.answers.any(axis=1).mean(axis=0))

    def answered_among(self, arms: BoolArray) -> BoolArray:
        """`(study, agent)`: whether the agent's answer has an arm that `arms` `(arm, agent)` marks for this agent."""
        return np.asarray((self.answers & arms).any(axis=1))

    @property
    def bad(self) -> int:
        """The number of studies in which the answer of any agent contains a wrong arm."""
        return int(self.answered_among(~self.instance.good).any(axis=1).sum())

    @property
    def not_own_best(self) -> FloatArray:
        """`(agent,)`: the share of studies whose answer has an arm that is not best by the agent's own rewards."""
        means, top = self.instance.means, self.instance.problem.top
        return np.asarray(self.answered_among(means < -np.sort(-means, axis=0)[top - 1]).mean(axis=0))

    def named_instead(self, control: int) -> BoolArray:
        """`(study, agent)`: whether the agent's answer has an arm other than the control, given by its index."""
        return self.answered_among(np.arange(self.answers.shape[1])[:, None] != control)

    def document(self) -> dict[str, Any]:
        """The results as JSON values."""
        wrong, control = int(self.outcome.mistaken.sum()), self.instance.problem.control
        other = None if control is None else self.named_instead(self.instance.problem.arms.index(control))
        return {
            "truth": self.truth,
            "studies": self.studies,
            "power": float(self.outcome.correct.mean()),
            "wrong": wrong / self.studies,
            "wrong_at_most": upper_bound(wrong, self.studies),
            "named_bad": self.bad / self.studies,
            "selected": self.selected.tolist(),
            "unanswered": self.unanswered.tolist(),
            "not_own_best": self.not_own_best.tolist(),
            "other_than_control": None if other is None else float(other.any(axis=1).mean()),
            "superior_to_control": self.superior,
            "draws_per_arm": self.counts.mean(axis=0).tolist(),
            "all_intervals_hold": self.all_hold,
            "estimates": [vars(row) for row in self.estimates],
        }


@dataclass(frozen=True, kw_only=True)
class TiltedError:
    """The estimated probability that a tied best arm is wrongly ruled out for an agent."""

    tie: Tie
    agent: str
    found: RareError


@dataclass(frozen=True, kw_only=True)
class BestAlong:
    """An agent's best arms along a path of weights."""

    agent: str
    stretches: Sequence[tuple[float, float, tuple[str, ...]]]  # from, to, and the best arms between


@dataclass(frozen=True, kw_only=True, eq=False)
class Dossier:
    """All numbers of a dossier; `page` puts them into words."""

    study: Study
    policy: Policy
    planner: Planner
    truth: Scenario  # the truth that the study is planned for
    planned: Characteristic
    operating: Sequence[Characteristic]
    watched: Sequence[Watched]  # under the planned truth, and with all arms tied
    errors: Sequence[Watched]  # under truths in which errors can happen
    capped: int | None  # samples at which studies of an endless tie were stopped
    tilted: Sequence[TiltedError]
    what_if: Sequence[tuple[str, str, ScenarioCost]]  # what varies, its value, and the resulting costs
    weights_axis: str  # name of what varies in `by_weights`
    by_weights: Sequence[tuple[float, ScenarioCost]]
    best_along: Sequence[BestAlong]
    comparison: Comparison  # with other designs, under the planned truth and others
    examples: Sequence[tuple[str, int, Sequence[Phase]]]  # truth, seed, phases
    harms: Sequence[HarmChance] = ()  # what guardrails find under the planned truth
    beyond: Sequence[Peer] = ()  # the other designs under the first truth of `errors`; empty without a tolerance
    source: Sequence[str] = ()  # lines of the study file

    @property
    def problem(self) -> Problem:
        """The problem of the study."""
        return self.policy.problem

    def document(self) -> dict[str, Any]:
        """All numbers as JSON values, as `parley plan --report --json` prints them."""
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
            "watched": [one.document() for one in self.watched],
            "errors": [one.document() for one in self.errors],
            "what_if": [{"what": what, "value": value} | _short(cost) for what, value, cost in self.what_if],
            "by_weights": [{self.weights_axis: value} | _short(cost) for value, cost in self.by_weights],
            "best_by_weights": [
                {
                    "agent": one.agent,
                    "stretches": [{"from": a, "to": b, "arms": list(arms)} for a, b, arms in one.stretches],
                }
                for one in self.best_along
            ],
            "comparison": self.comparison.document(),
            "guardrails": [vars(one) for one in self.harms],
            "examples": [[int(phase.quotas.sum()) for phase in run] for *_, run in self.examples],
        }


def _short(cost: ScenarioCost) -> dict[str, Any]:
    wrong = int(cost.mistaken.sum())
    return cost.summary() | cost.figures() | {"error_rate_at_most": upper_bound(wrong, len(cost.samples))}


def _of(one: Characteristic) -> dict[str, Any]:
    fixed, sequential = (None if size is None else vars(size) for size in (one.fixed, one.sequential))
    return {"gap": one.gap} | _short(one.study) | {"alone": _short(one.alone), "fixed": fixed, "sequential": sequential}


def make_dossier(planner: Planner, study: Study, gaps: Sequence[float]) -> Dossier:
    """Run the simulations of a dossier: under the planned truth, under each gap, at ties and under variations.

    The planned truth is the study file's `[truth]`; if the file has none, it is the truth with the first gap.
    """
    problem = study.problem
    wanted = list(gaps) or usual_gaps(problem)
    truth = _planned_truth(study, wanted)
    planned = characteristics(planner, problem, {_gap(truth, problem): truth}, by_budget=False)[0]
    others = operating_scenarios(problem, wanted)
    operating = characteristics(planner, problem, others, by_budget=False)
    policy, instance = make_policy(planner.policy, problem, planner.options), truth.instances(problem)[0]
    hard = error_truths(planner, instance)
    rows = [(truth, planned.study), *zip(others.values(), (one.study for one in operating), strict=True)]
    comparison = compare(planner, problem, rows, runs=DESIGN_RUNS)
    planned, *operating = (
        replace(one, fixed=row.figures("fixed"), sequential=row.figures("sequential"))
        for one, row in zip([planned, *operating], comparison.rows, strict=True)
    )
    # With an exact tie and without a limit, a study might never end: its simulations are stopped.
    endless = not (problem.tolerance or problem.max_samples or problem.max_rounds)
    capped = TIE_FACTOR * int(planned.study.samples.mean()) if endless else None
    tie = tie_scenario(problem, float(np.median(instance.means)))
    axis, along = along_weights(problem)
    # Deviations may make a study far longer: its simulations are stopped at this many samples.
    cap = 5 * int(planned.study.samples.max())
    seeds = [(truth, planner.seed + place) for place in range(EXAMPLES)]
    seeds += [] if endless else [(tie, planner.seed)]
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
        errors=[
            watch(replace(planner, replications=many), policy, one.instances(problem)[0], one.name, estimated=False)
            for one, many in hard
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
        comparison=comparison,
        harms=harm_chances(planner, problem, truth, study.instance.outcomes if study.instance else {}),
        beyond=comparison.designs.under(hard[0][0].instances(problem)) if problem.tolerance else [],
        examples=[
            (one.name, seed, list(islice(phases(policy, one.instances(problem)[0], seed=seed), MOST_PHASES)))
            for one, seed in seeds
        ],
    )


def error_truths(planner: Planner, instance: Instance) -> list[tuple[Scenario, int]]:
    """Truths in which an error can happen, each with the number of studies to simulate.

    In some, one arm (each in turn) is best by just more than the tolerance, or the control is best by less than the
    tolerance. In others, every site has its own best arm, or only the last site's best arm differs from the others'.
    """
    problem, tolerance = instance.problem, instance.problem.tolerance
    many, made = ERRORS * planner.replications, list[tuple[Scenario, int]]()
    rates, gap = problem.noise.means_are_rates, max(2 * tolerance, instance.smallest_gap)
    middle = float(np.median(instance.means))
    # Leave room above the other arms, so that the best rate stays below 1.
    level = min(middle, 0.99 - gap) if rates else middle

    def best(name: str, places: Any, by: float, studies: int, low: float = level) -> None:
        means = np.full((1, *problem.shape), low)
        means[(0, *places)] += by
        made.append((Scenario(name=name, means=means), studies))

    def first(arm: int) -> tuple[Any, ...]:
        return ((arm + np.arange(problem.top)) % problem.arm_count,)

    beyond, sites = BEYOND * tolerance, np.flatnonzero(problem.draws)
    if tolerance:
        for arm, name in enumerate(problem.arms[:MOST_BEST]):
            best(Translatable("{0} best by {1:g}, just beyond the tolerance", name, beyond), first(arm), beyond, many)
        if rates and level > LOW_RATE:
            low = Translatable(
                "{0} best by {1:g} at a low rate (all others at {2:g} %)", problem.arms[0], beyond, 100 * LOW_RATE
            )
            best(low, first(0), beyond, many, LOW_RATE)
    if tolerance and problem.control is not None:
        for share in WITHIN:
            by = share * tolerance
            within = Translatable("{0} best by {1:g}, within the tolerance", problem.control, by)
            best(within, first(problem.arms.index(problem.control)), by, planner.replications)
    if len(sites) > 1 and problem.top == 1:
        each = many if tolerance else planner.replications
        own = Translatable("the agents have different best arms, each ahead by {0:.3g}", gap)
        best(own, (np.arange(len(sites)) % problem.arm_count, sites), gap, each)
        apart = np.where(sites == sites[-1], 0, problem.arm_count - 1)
        against = Translatable(
            "{0} has one best arm and all others have another, each ahead by {1:.3g}", problem.sites[-1], gap
        )
        best(against, (apart, sites), gap, each)
    return made


def dossier_studies(planner: Planner, study: Study, gaps: Sequence[float]) -> int:
    """About how many studies `make_dossier` will simulate, for a progress bar."""
    problem, wanted = study.problem, list(gaps) or usual_gaps(study.problem)
    truth, policy = _planned_truth(study, wanted), make_policy(planner.policy, problem, planner.options)
    pairs = 2 * (1 + len(operating_scenarios(problem, wanted)))
    rows = pairs + 2 + len(variations(truth, problem, policy)) + len(along_weights(problem)[1])
    instance = truth.instances(problem)[0]
    errors = sum(many for _, many in error_truths(planner, instance))
    tilted = 0 if problem.tolerance else TILTED * len(hardest_ties(problem)) * problem.question_count
    compared = compared_studies(planner, problem, [planner.replications] * (pairs // 2))
    return planner.replications * (rows + tilted) + errors + compared


def _planned_truth(study: Study, gaps: Sequence[float]) -> Scenario:
    found = study.instance
    if study.problem.horizon is not None:
        raise InvalidInput("--report", found="a horizon", allowed="a study that ends with answers")
    if found is None:
        return gap_scenario(study.problem, gaps[0])
    named = Scenario(
        name=Translatable("the study's truth"), means=found.means[None], scale=found.scale, drift=found.drift
    )
    return named.shaped(found)


def _gap(truth: Scenario, problem: Problem) -> float:
    return truth.instances(problem)[0].smallest_gap


def _tilted(planner: Planner, policy: Policy) -> list[TiltedError]:
    """Estimate errors that are too rare to count, by importance sampling.

    Empty with a tolerance, and for policies whose bets do not allow importance sampling.
    """
    problem = policy.problem
    if not isinstance(policy, EvidenceRacing) or problem.tolerance:
        return []
    planner.announce("rare errors, by tilted runs")
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
    """Deviations from the plan, each as its name, its value, and the resulting truth and problem."""
    made: list[tuple[str, str, Scenario, Problem]] = []
    instance, noise, most = truth.instances(problem)[0], problem.noise, problem.max_samples
    step = max(problem.tolerance, instance.smallest_gap)

    def times(factor: float) -> str:
        return Translatable("{0:g} times", factor)

    if noise.means_are_rates:
        for shift in (-0.05, 0.05):
            moved = np.clip(truth.means + shift, 0.001, 0.999)
            made.append(
                (
                    Translatable("all rates"),
                    Translatable("{0:+.0f} points", 100 * shift),
                    replace(truth, means=moved),
                    problem,
                )
            )
    elif noise.free_scale:
        scale = np.sqrt(np.broadcast_to(instance.cell_variances, instance.means.shape))
        for factor in (0.7, 1.4):
            made.append((Translatable("true scale"), times(factor), replace(truth, scale=factor * scale), problem))
    made += [(name, value, truth, problem.with_(noise=guessed)) for name, value, guessed in noise.other_guesses()]
    changed: list[tuple[str, str, dict[str, Any]]] = []
    if most is not None:
        name = Translatable("largest size")
        sizes = (most * 4 // 5, most * 5 // 4)
        changed += [(name, Translatable("{0:,}", size), {"max_samples": size}) for size in sizes]
    if problem.rate is not None:
        name = Translatable("recruitment")
        changed += [(name, times(share), {"rate": share * problem.rate}) for share in (0.5, 2.0)]
        name = Translatable("delay of outcomes")
        changed += [(name, Translatable("{0} days", days), {"delay": float(days)}) for days in (30, 90)]
    if "site_counts" in policy.supports and problem.site_counts != "exact":
        changed += [(MISSING, Translatable("{0:.0f} %", 100 * share), {"dropout": share}) for share in (0.1, 0.3)]
    made += [(what, value, truth, problem.with_(**keys)) for what, value, keys in changed]
    drift = {
        Translatable("drift: random walk between looks"): Drift(step=step),
        Translatable("drift: seasonal cycle of four looks"): Drift(season=step),
    }
    for name, moves in drift.items():
        made.append((name, Translatable("of {0:.3g}", step), replace(truth, drift=moves), problem))
    return made


def best_along(instance: Instance) -> list[BestAlong]:
    """The best arms of every agent under the truth, from equal weights to the agent's own reward alone.

    >>> problem = Problem(arms=["a", "b"], weights=[[0.75, 0.25], [0.25, 0.75]])
    >>> found = best_along(Instance(problem=problem, means=[[0.4, 0.0], [0.0, 0.3]]))
    >>> [(one.agent, one.stretches) for one in found][1]
    ('agent 2', [(0.0, 0.142, ('a',)), (0.143, 1.0, ('b',))])
    """
    problem = instance.problem
    path = WeightPath.through(problem.weights, problem.draws)
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
    """Records how each simulated study ended, and all its phases if estimates are wanted."""

    def __init__(self, policy: Policy, count: int, *, estimated: bool) -> None:
        self.shape = (count, *policy.problem.shape)
        self.policy, self.estimated, self.past = policy, estimated, list[Totals]()
        self.active, self.counts = np.ones(self.shape, dtype=np.bool_), np.zeros(self.shape[:2], dtype=np.int64)
        self.statuses, self.worse = (
            np.full((count, self.shape[-1]), "open", dtype="U9"),
            np.zeros(count, dtype=np.bool_),
        )

    def __call__(self, members: IntArray, phase: int, fresh: Totals, state: State) -> None:
        self.active[members], self.statuses[members] = state.active, self.policy.statuses(state)
        self.counts[members] = state.counts.sum(axis=-1)
        if not self.estimated:
            return
        out = self.policy.arm_statuses(state) == ArmStatus.RULED_OUT.value
        self.worse[members] = out.any(axis=(-2, -1))
        if phase == len(self.past):
            self.past.append(
                Totals(
                    counts=np.zeros(self.shape, dtype=np.int64), sums=np.zeros(self.shape), squares=np.zeros(self.shape)
                )
            )
        kept = self.past[phase]
        kept.counts[members], kept.sums[members] = fresh.counts, fresh.sums
        kept.require_squares()[members] = fresh.require_squares()


def watch(
    planner: Planner,
    policy: Policy,
    instance: Instance,
    name: str,
    *,
    max_samples: int | None = None,
    estimated: bool = True,
) -> Watched:
    """Simulate studies under one truth; collect their answers and, if `estimated`, the errors of their estimates."""
    planner.announce(name)
    most = (1 if estimated else ERRORS) * MOST_NUMBERS // instance.means.size
    # Estimates need the totals of every phase of every study, so simulate fewer studies if the problem is large.
    count = max(min(planner.replications, most), 20)
    seen = _Recorder(policy, count, estimated=estimated)
    outcome = simulate(
        policy,
        instance,
        replications=count,
        seed=planner.seed,
        max_samples=max_samples,
        progress=planner.progress,
        watch=seen,
    )
    answered = np.isin(seen.statuses, [end.value for end in OutcomeStatus if end.answered])
    ended = Watched(
        truth=name,
        instance=instance,
        outcome=outcome,
        answers=seen.active & answered[:, None],
        counts=seen.counts,
        ruled_out=int(seen.worse.sum()),
    )
    return _with_estimates(ended, seen, answered) if estimated else ended


def _with_estimates(ended: Watched, seen: _Recorder, answered: BoolArray) -> Watched:
    """Add the errors of estimates.

    The estimates are every arm's mean, the answer's mean, and its leads over the best other arm and over the control.
    """
    instance, problem = ended.instance, ended.instance.problem
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
        chosen = chosen & np.isfinite(kind.error) & np.isfinite(kind.high - kind.low)
        each = chosen.sum(axis=(-2, -1))
        studies = each > 0
        if not studies.any():
            return None

        def mean(values: FloatArray | BoolArray) -> tuple[float, float]:
            """Average over each study's chosen estimates, then over studies; returns the Monte Carlo error as well."""
            means = np.where(chosen, values, 0.0).sum(axis=(-2, -1))[studies] / each[studies]
            return float(means.mean()), float(means.std() / np.sqrt(len(means)))

        off = np.where(chosen, kind.value - right, 0.0)
        (bias, bias_error), (square, square_error) = mean(off), mean(np.square(off))
        (usual, usual_error), (joint, joint_error) = mean(np.abs(off) <= quantile * kind.error), mean(inside[name])
        return EstimateErrors(
            what=what,
            studies=int(studies.sum()),
            bias=bias,
            bias_error=bias_error,
            rmse=float(np.sqrt(square)),
            # By the delta method, from the error of the mean square.
            rmse_error=float(square_error / (2 * np.sqrt(square))) if square else 0.0,
            usual=usual,
            usual_error=usual_error,
            usual_width=mean(2 * quantile * kind.error)[0],
            joint=joint,
            joint_error=joint_error,
            joint_width=mean(kind.high - kind.low)[0],
        )

    arms = np.arange(problem.arm_count)[:, None]
    every = np.ones(found.mean.value.shape, dtype=np.bool_)
    rows = [row(Translatable("mean of {0}", arm), "mean", every & (arms == k)) for k, arm in enumerate(problem.arms)]
    is_leader, has = arms == place, answered[:, None]
    rows.append(row(Translatable("mean of the answer"), "mean", is_leader & has))
    second = np.where(is_leader, -np.inf, found.mean.value).argmax(axis=-2)[:, None]
    rows.append(row(Translatable("best other arm minus the answer"), "lead", (arms == second) & has))
    superior = None
    if problem.control is not None:
        against = (arms == problem.arms.index(problem.control)) & ~is_leader & has
        rows.append(row(Translatable("{0} minus the answer", problem.control), "lead", against))
        superior = float((against & (found.lead.high < 0)).any(axis=(-2, -1)).mean())
    kept = [one for one in rows if one is not None]
    return replace(ended, estimates=kept, all_hold=float(all_hold.mean()), superior=superior)
