"""What a log recorded against what its reports give: the same decision, and a plan that only rounding may change."""

from __future__ import annotations

import numpy as np

from parley.errors import InvalidInput
from parley.protocol.events import PhaseClosed, Reweighed
from parley.protocol.messages import Plan, StudyMessage

__all__ = ["check_fold", "check_following", "check_plan", "check_step"]

PLAN_TOLERANCE = 1e-6  # another machine's solver may round otherwise; more is another plan
FOLDED_AGAIN = ("phase", "weights", "left", "eliminated_in", "finished")
TAKEN_AGAIN = ("study", "phase", "plan", "data", "counts", "eliminated_in", "finished", "missing")


def check_step(recorded: PhaseClosed, mine: PhaseClosed, study: StudyMessage) -> None:
    """Raise unless a recorded step is the one that was taken again."""
    phase = recorded.decision.phase
    for name in TAKEN_AGAIN:
        if getattr(recorded.decision, name) != getattr(mine.decision, name):
            raise InvalidInput(
                f"decision of phase {phase}",
                found=f"a recorded {name!r} that the reports do not give",
                allowed="the decision recomputed from the log",
            )
    check_following(recorded.plan, mine.plan, study)


def check_fold(recorded: Reweighed, mine: Reweighed, study: StudyMessage) -> None:
    """Raise unless what a recorded re-weighing found in the past is what was found in it again."""
    for name in FOLDED_AGAIN:
        if getattr(recorded, name) != getattr(mine, name):
            raise InvalidInput(
                f"re-weighing in phase {recorded.phase}",
                found=f"a recorded {name!r} that the recorded phases do not give",
                allowed="the state recomputed from the log",
            )
    if len(recorded.states) != len(mine.states):
        raise InvalidInput("states", found=len(recorded.states), allowed=f"{len(mine.states)}, one a recorded phase")
    check_following(recorded.plan, mine.plan, study)


def check_following(recorded: Plan | None, mine: Plan | None, study: StudyMessage) -> None:
    """Raise unless a recorded plan of the next phase is the policy's, or there is none in either."""
    if (recorded is None) != (mine is None):
        raise InvalidInput("plan", found="one too many or too few", allowed="the policy's")
    if recorded is not None and mine is not None:
        check_plan(recorded, mine, study)


def check_plan(recorded: Plan, mine: Plan, study: StudyMessage) -> None:
    """Raise unless a recorded plan is the policy's, up to rounding, and within the study's minimum cell."""
    same_place = (recorded.study, recorded.phase) == (mine.study, mine.phase)
    if not same_place or recorded.array.shape != mine.array.shape:
        raise InvalidInput("plan", found="another study, phase or shape", allowed=f"that of phase {mine.phase}")
    least = study.problem.minimum_cell
    small = np.argwhere((recorded.array != 0) & (recorded.array < least))
    if small.size:
        arm, agent = small[0]
        raise InvalidInput(
            f"plan of phase {mine.phase}",
            found=f"{recorded.array[arm, agent]} draws of {study.arms[arm]!r} by {study.agents[agent]!r}",
            allowed=f"0 or at least {least}, the study's minimum cell",
        )
    # A cell that was raised to the minimum may have been a single draw, which rounding gives or takes.
    asked, expected = (np.maximum(array - (least - 1), 0) for array in (recorded.array, mine.array))
    if not np.allclose(asked, expected, rtol=PLAN_TOLERANCE, atol=1):
        raise InvalidInput(f"plan of phase {mine.phase}", found="other counts", allowed="those the policy asks for")
