"""What is left of a study, if rewards stay as they are estimated: the policy itself, run ahead without any noise.

What does not end there will hardly end in practice. Nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parley.errors import ParleyError
from parley.policies import State
from parley.protocol.codec import Message
from parley.protocol.plans import make_plan
from parley.protocol.stages import Stage
from parley.protocol.trial import Trial, ends_at
from parley.status import OutcomeStatus
from parley.totals import Totals

__all__ = ["Ahead", "Prospect", "prospect", "run_ahead"]

PHASES_AHEAD = 12  # of the projection; a study that needs more has lost its way
SAMPLES_AHEAD = 100  # times what was spent so far, after which the projection gives up


class Prospect(Message, tag="parley/prospect/1"):
    """Who has an answer, who would get one, and at which cost."""

    answered: tuple[str, ...]  # by the recorded phases
    expected: tuple[str, ...]  # of the others, if rewards stay as estimated
    without: tuple[str, ...]  # who asks, and would not get one
    left: tuple[str, ...]  # who asks no more
    open_pairs: int  # arms that would stay candidates of those without an answer
    phases: int  # still to come, were it so
    samples: int


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """Where a projection ended."""

    state: State
    phases: int
    samples: int


def run_ahead(trial: Trial) -> Ahead | None:
    """The policy from the last decided phase on, on rewards that are their estimates; None without any data."""
    state, means, policy = trial.state, trial.state.means, trial.policy
    before = int(state.counts.sum())
    if not before:
        return None
    squares = np.square(means) + trial.study.problem.noise.cell_variances(state.totals)
    phases = 0
    while phases < PHASES_AHEAD and not state.finished:
        try:
            quotas = make_plan(policy, state, trial.id, trial.phase, trial.frozen).array
            if not quotas.any() or int((state.counts + quotas).sum()) > SAMPLES_AHEAD * before:
                break
            state = policy.update(state, Totals(counts=quotas, sums=quotas * means, squares=quotas * squares))
        except ParleyError:  # the policy itself gives up
            break
        phases += 1
    return Ahead(state=state, phases=phases, samples=int(state.counts.sum()) - before)


def prospect(trial: Trial) -> Prospect:
    """Of a trial as it is; without any data nothing is said against anybody."""
    agents, top = trial.study.agents, trial.study.problem.top
    ahead = run_ahead(trial)
    now = ends_at(trial.policy, trial.state, Stage.RUNNING)
    then = now if ahead is None else ends_at(trial.policy, ahead.state, Stage.RUNNING)
    pairs = dict(zip(agents, zip(now, then, strict=True), strict=True))
    open_then = trial.policy.blocked(trial.state) if ahead is None else ahead.state.active.sum(axis=0) > top
    asked = np.array([end is not OutcomeStatus.LEFT for end in then])
    without = np.asarray(open_then) & asked
    active = trial.state.active if ahead is None else ahead.state.active
    return Prospect(
        answered=tuple(name for name, (first, _) in pairs.items() if first.answered),
        expected=tuple(
            name
            for (name, (first, last)), stuck in zip(pairs.items(), without, strict=True)
            if not first.answered and not stuck and last is not OutcomeStatus.LEFT
        ),
        without=tuple(name for name, stuck in zip(agents, without, strict=True) if stuck),
        left=tuple(name for name, (_, last) in pairs.items() if last is OutcomeStatus.LEFT),
        open_pairs=int((active & without).sum()),
        phases=0 if ahead is None else ahead.phases,
        samples=0 if ahead is None else ahead.samples,
    )
