"""The ties at which evidence racing errs most, counted and tilted: both estimate the same quantity and must agree.

The top N arms are 0 to N - 1. If agents answer separately, then for every agent either N - 1 arms are clearly better,
two tie at the boundary and the rest are clearly worse (*two tie*), or all arms from the boundary on tie (*all tie*). If
all answer together, a tie of one agent keeps all open, so arms tie for the first agent only. What is measured is the
expected number of agents for whom a top arm is ruled out. It is at least the error probability of the whole answer, and
delta bounds it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from tools.correctness.near_ties import MIX, WORLDS

from parley.policies import EvidenceRacing, make_policy
from parley.problem import Drift, FloatArray, Instance, IntArray, Problem
from parley.simulation.rare import STRETCH, ruled_out_probability
from parley.simulation.simulate import drifted, make_environment

__all__ = ["Measured", "Tie"]

CHUNK = 4096  # replications at a time: arrays that fit a cache
Maker = Callable[[Problem], EvidenceRacing]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The mean number of agents that rule out a top arm, and how it was measured."""

    replications: int  # per agent if tilted
    agents_wrong: float
    error: float  # its standard error
    studies_wrong: float | None = None  # counted only: the share of runs in which any agent ruled out a top arm
    rounds: float | None = None
    trace: int = 0  # checksum of all counts and decisions, the same for versions that behave the same


@dataclass(frozen=True, kw_only=True)
class Tie:
    """One truth, one model, one delta."""

    noise: str  # of WORLDS
    arms: int
    agents: int
    top: int
    all_tied: bool = False
    mixed: bool = True  # agents weigh each other, if there are three
    together: bool = False  # all answer together, and arms tie for the first agent only
    delta: float = 0.1
    drift: float = 0.0  # random step of every site before every phase, in standard deviations of a reward

    @property
    def instance(self) -> Instance:
        world = WORLDS[self.noise]
        mixed = self.mixed and self.agents == len(MIX) and not self.together
        weights = MIX if mixed else np.eye(self.agents)
        answers = "together" if self.together else "each"
        problem = Problem(
            arms=self.arms, weights=weights, top=self.top, delta=self.delta, noise=world.model, answers=answers
        )
        step = problem.largest_gap / 2
        low, high = world.model.ends
        step = min(step, (world.level - low) / 2, (high - world.level) / 2)
        levels = np.full(self.arms, world.level if self.all_tied else world.level - step)
        levels[: self.top - 1], levels[self.top - 1 : self.top + 1] = world.level + step, world.level
        means = np.outer(levels, np.ones(self.agents))
        if self.together:
            means[self.top :, 1:] = world.level - step
        still = Instance(problem=problem, means=means, scale=list(world.scale[: self.agents]) or None)
        deviation = float(np.sqrt(still.cell_variances[self.top - 1, 0]))  # of the tied arms
        return replace(still, drift=Drift(step=self.drift * deviation)) if self.drift else still

    def counted(self, replications: int, seed: int, make: Maker | None = None) -> Measured:
        """Measure by plain runs, stopped after as many samples as tilted ones."""
        instance, wrong, rounds, trace = self.instance, np.zeros(self.agents + 1), 0, 0
        policy, squares = (make or _racing)(instance.problem), 0.0
        for first in range(0, replications, CHUNK):
            generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(first,))))
            members, phase, most = np.arange(min(CHUNK, replications - first)), 0, 0
            state, count = policy.start((len(members),)), len(members)
            while len(state.counts):
                quotas = policy.plan(state)
                shifts = drifted(instance, count, seed=seed, block=first, phase=phase)
                draw = make_environment(instance, None, None if shifts is None else shifts[members])
                rounds += len(quotas)
                most = most or STRETCH * int(quotas[0].sum())
                state = policy.update(state, draw(generator, quotas))
                over = state.finished | (state.counts.sum(axis=(-2, -1)) > most)
                lost = ~state.active[over][:, : self.top].all(axis=1)
                wrong += [*lost.sum(axis=0), lost.any(axis=1).sum()]
                squares += float(np.square(lost.sum(axis=1)).sum())
                trace = _traced(trace, state.counts[over], state.active[over])
                state, members, phase = state.take(~over), members[~over], phase + 1
        mean = float(wrong[:-1].sum()) / replications
        spread = math.sqrt(max(squares / replications - mean**2, 0.0) / replications)
        return Measured(
            replications=replications,
            agents_wrong=mean,
            error=spread,
            studies_wrong=float(wrong[-1]) / replications,
            rounds=rounds / replications,
            trace=trace,
        )

    def tilted(self, replications: int, seed: int, make: Maker | None = None) -> Measured:
        """Measure by tilted runs, separately for each agent; the result is the sum."""
        instance = self.instance
        policy = (make or _racing)(instance.problem)
        found = [
            ruled_out_probability(policy, instance, arm=self.top - 1, agent=agent, replications=replications, seed=seed)
            for agent in range(1 if self.together else self.agents)
        ]
        errors = np.array([[each.probability, each.standard_error] for each in found])
        return Measured(
            replications=replications,
            agents_wrong=float(errors[:, 0].sum()),
            error=float(np.sqrt(np.square(errors[:, 1]).sum())),
            trace=_traced(0, np.array([f"{value:.6e}" for value in errors.ravel()])),
        )


def _racing(problem: Problem) -> EvidenceRacing:
    policy = make_policy("evidence", problem)
    assert isinstance(policy, EvidenceRacing)
    return policy


def _traced(trace: int, *values: IntArray | FloatArray) -> int:
    """The checksum `trace`, extended by these arrays."""
    for value in values:
        trace = zlib.crc32(np.ascontiguousarray(value).tobytes(), trace)
    return trace
