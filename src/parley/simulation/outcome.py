"""The outcome of many replications: costs, answers, errors and regret, and the tally that collects them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parley.costs import StudyCosts, money_of, phase_days
from parley.policies.base import Policy, State
from parley.problem import BoolArray, FloatArray, Instance, IntArray, Problem
from parley.text.formatting import plural
from parley.text.status import OutcomeStatus
from parley.text.tabular import Columns, Picture, Tabular, cells

POINTS = 41  # number of points of a curve of regret over time


def draw_losses(instance: Instance) -> FloatArray:
    """`(arm, agent)`: the regret of one draw of each arm by each agent."""
    return np.asarray(instance.mixed_means.max(axis=-2, keepdims=True) - instance.mixed_means)


@dataclass(frozen=True, kw_only=True, eq=False)
class Regret:
    """The regret of R replications: expected and realised regret per agent, and the regret of all agents over time.

    A draw of arm k by agent m costs the mixed gap of k for m. The sum over all draws is the *pseudo-regret*, a function
    of the counts. The *realised* regret also contains the noise of the agent's own rewards, so it has the same mean and
    a larger spread.
    """

    pseudo: FloatArray  # (R, agent): draws times their mixed gaps
    realised: FloatArray  # (R, agent): pseudo-regret minus the noise of the agent's own rewards
    times: IntArray  # (points,): draws per agent
    curves: FloatArray  # (R, points): pseudo-regret of all agents together, up to each time

    @property
    def totals(self) -> FloatArray:
        """`(R,)`: pseudo-regret of all agents together."""
        return np.asarray(self.pseudo.sum(axis=-1))

    @classmethod
    def blank(cls, instance: Instance, count: int, until: int) -> Regret:
        """The regret of `count` replications before any draw; curves end after `until` draws per agent."""
        agents = instance.problem.agent_count
        times = np.unique(np.geomspace(1, max(until, 1), POINTS).round().astype(np.int64))
        return cls(
            pseudo=np.zeros((count, agents)),
            realised=np.zeros((count, agents)),
            times=times,
            curves=np.zeros((count, len(times))),
        )

    def add_phase(self, members: IntArray, losses: FloatArray, played: IntArray, quotas: IntArray) -> None:
        """Add a phase to the curves of some replications, as if its draws were made in random order.

        `played` is the number of draws per agent before the phase.
        """
        length = np.maximum(quotas.sum(axis=-2).max(axis=-1), 1)[:, None]
        passed = np.clip((self.times - played[:, None]) / length, 0.0, 1.0)
        self.curves[members] += (quotas * losses).sum(axis=(-2, -1))[:, None] * passed

    def enter(self, members: IntArray, losses: FloatArray, means: FloatArray, state: State) -> None:
        """Record the regret of replications that ended."""
        pseudo = (state.counts * losses).sum(axis=-2)
        self.pseudo[members] = pseudo
        self.realised[members] = pseudo - (state.sums - state.counts * means).sum(axis=-2)


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome(Tabular):
    """The outcome of R replications of a study under one policy.

    >>> import parley
    >>> problem = parley.Problem(arms=2, weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> instance = parley.Instance(problem=problem, means=[[0.9, 0.7], [0.1, 0.2]])
    >>> outcome = parley.simulate(parley.make_policy("evidence", problem), instance, replications=50, seed=0)
    >>> outcome.costs.shape, outcome.error_rate, outcome.status_shares["decided"]
    ((50,), 0.0, 1.0)
    >>> outcome
    <Outcome: evidence, 50 replications, 319.7 samples, 2.28 rounds, 0 wrong>
    """

    policy: str
    seed: int
    problem: Problem
    costs: IntArray  # (R,): samples drawn
    rounds: IntArray  # (R,): rounds of communication
    correct: BoolArray  # (R,): every agent's answer is right (False if the run is unfinished)
    finished: BoolArray  # (R,): every agent has an answer; False if the budget ran out first
    mistaken: BoolArray  # (R,): a true top arm was ruled out for some agent, whether or not the run finished
    statuses: NDArray[np.str_]  # (R,): values of `OutcomeStatus`: the worst among the study's agents
    chosen: IntArray  # (R, top, agent): arm indices in ascending order, -1 where unfinished
    draws: FloatArray  # (arm, agent): mean draws over the replications
    money: FloatArray  # (R,): the cost of the draws at the problem's prices
    priced: bool  # whether the problem states prices; otherwise a draw costs 1
    days: FloatArray | None = None  # (R,): duration at the problem's rates; None without rates
    regret: Regret | None = None  # None without a horizon
    seconds: float  # computing time

    @property
    def headline(self) -> str:
        count = plural(len(self.costs), "replication")
        cost = self.costs if self.regret is None else self.regret.totals
        unit = "samples" if self.regret is None else "regret"
        mean = f"{cost.mean():,.0f}" if cost.mean() >= 1000 else f"{cost.mean():.1f}"
        wrong = f"{int(self.mistaken.sum()):,} wrong"
        return f"{self.policy}, {count}, {mean} {unit}, {self.rounds.mean():.2f} rounds, {wrong}"

    @property
    def row_count(self) -> int:
        return len(self.costs)

    @property
    def picture(self) -> Picture:
        return Picture(shape="histogram", values="cost" if self.regret is None else "regret", rows="replications")

    def columns(self) -> Columns:
        """One row per replication, with the column names of sweeps; commas separate the arms of one answer."""
        parts = {name: values for name, values in self.study_costs.parts.items() if name != "samples"}
        arms = np.array([*self.problem.arms, ""])  # index -1, for no answer, is the empty text
        answers = {
            f"answer of {agent}": [", ".join(filter(None, row)) for row in arms[self.chosen[..., place]].tolist()]
            for place, agent in enumerate(self.problem.agents)
        }
        return {
            "replication": np.arange(len(self.costs)),
            "cost": self.costs,
            "rounds": self.rounds,
            "status": self.statuses,
            "correct": self.correct,
            "mistaken": self.mistaken,
            "finished": self.finished,
            **parts,
            **answers,
        }

    @property
    def mean_draws(self) -> MeanDraws:
        """The mean number of draws of every arm by every agent, as a separate table."""
        return MeanDraws(problem=self.problem, draws=self.draws)

    @property
    def status_shares(self) -> dict[str, float]:
        """The share of replications with each of the statuses decided, accepted, exhausted and blocked."""
        words = (OutcomeStatus.DECIDED, OutcomeStatus.ACCEPTED, OutcomeStatus.EXHAUSTED, OutcomeStatus.BLOCKED)
        return {word.value: float((self.statuses == word.value).mean()) for word in words}

    @property
    def study_costs(self) -> StudyCosts:
        """Samples per replication; also money with stated prices, days with stated rates, and regret with a horizon."""
        played = None if self.regret is None else self.regret.totals
        return StudyCosts(samples=self.costs, money=self.money if self.priced else None, days=self.days, regret=played)

    @property
    def error_rate(self) -> float:
        """The share of replications that ruled out a true top arm; delta bounds its expectation."""
        return float(self.mistaken.mean())


@dataclass(frozen=True, kw_only=True, repr=False)
class MeanDraws(Tabular):
    """The mean number of draws of every arm by every agent, as a table with a plot."""

    problem: Problem
    draws: FloatArray  # (arm, agent)

    @property
    def headline(self) -> str:
        return f"mean draws of an arm by an agent, {self.draws.sum():,.0f} in all"

    @property
    def row_count(self) -> int:
        return self.draws.size

    @property
    def picture(self) -> Picture:
        return Picture(shape="heat map", values="draws", rows="arm", across="agent")

    def columns(self) -> Columns:
        """One row per arm and agent, with the mean draws of that cell."""
        return cells(self.problem.arms, self.problem.agents, draws=self.draws)


class Tally:
    """Builds an `Outcome`: fills its arrays while replications run and end."""

    def __init__(self, policy: Policy, instance: Instance, count: int, seed: int, max_samples: int | None) -> None:
        problem, horizon = instance.problem, policy.problem.horizon
        ends = horizon if isinstance(horizon, int) else (max_samples or policy.problem.max_samples or 10**6)
        until = ends if isinstance(horizon, int) else ends // problem.agent_count
        self._policy, self._instance, self._losses = policy, instance, draw_losses(instance)
        self.outcome = Outcome(
            policy=policy.name,
            seed=seed,
            problem=problem,
            costs=np.zeros(count, dtype=np.int64),
            rounds=np.zeros(count, dtype=np.int64),
            correct=np.zeros(count, dtype=np.bool_),
            finished=np.zeros(count, dtype=np.bool_),
            mistaken=np.zeros(count, dtype=np.bool_),
            statuses=np.full(count, OutcomeStatus.OPEN.value, dtype="U9"),
            chosen=np.full((count, problem.top, problem.agent_count), -1, dtype=np.int64),
            draws=np.zeros(problem.shape),  # sums over replications, until `complete` divides them
            money=np.zeros(count),
            priced="price" in problem.non_default(),
            days=None if problem.rate is None else np.zeros(count),
            regret=None if horizon is None else Regret.blank(instance, count, until),
            seconds=0.0,
        )

    def run_phase(self, members: IntArray, quotas: IntArray, before: State) -> None:
        """Record a phase of replications that continue: its days and its regret."""
        if self.outcome.days is not None:
            self.outcome.days[members] += phase_days(self._instance.problem, quotas)
        if self.outcome.regret is not None:
            played = before.counts.sum(axis=-2).max(axis=-1)
            self.outcome.regret.add_phase(members, self._losses, played, quotas)

    def enter(self, members: IntArray, state: State, statuses: NDArray[np.str_], phase: int) -> None:
        """Record replications that ended in `state`, with their agents' `statuses (..., agent)`.

        Answers are judged against the arms that were open in the last `phase`.
        """
        found, instance, top = self.outcome, self._instance, self._instance.problem.top
        question = instance.question(instance.problem, phase)
        if question is not instance.problem:
            instance = replace(instance, problem=question)
        if found.regret is not None:
            found.regret.enter(members, self._losses, instance.means, state)
        found.costs[members] = state.counts.sum(axis=(-2, -1))
        # People who dropped out cost as much as the others, but are not in the counts.
        found.money[members] = money_of(instance.problem, state.counts) / (1 - instance.problem.dropout)
        found.rounds[members] = self._policy.rounds_of(state)
        for word in OutcomeStatus:  # from best to worst, so that the worst status of a study's agents is written last
            found.statuses[members[(statuses == word.value).any(axis=-1)]] = word.value
        answered = (state.active.sum(axis=-2) <= top).all(axis=-1)
        # An answer is right if all its arms are true top arms; with ties there are more than N true top arms.
        lost = ((state.active & instance.good).sum(axis=-2) < top).any(axis=-1)
        ranked = np.sort(np.where(state.active, np.arange(state.active.shape[-2])[:, None], 10**9), axis=-2)
        chosen = np.where(answered[:, None, None], ranked[:, :top], -1)
        found.finished[members], found.mistaken[members], found.chosen[members] = answered, lost, chosen
        found.correct[members] = answered & ~lost & instance.is_correct(chosen)
        found.draws[...] += state.counts.sum(axis=0)

    def complete(self, seconds: float) -> Outcome:
        """The finished outcome of all replications, given the computing time in `seconds`."""
        return replace(self.outcome, draws=self.outcome.draws / len(self.outcome.costs), seconds=seconds)
