"""What closing a phase with the reports that are in would do, shown before anybody confirms it."""

from __future__ import annotations

from parley.protocol.codec import Message
from parley.protocol.trial import Trial

__all__ = ["CutConsequences", "cut_consequences"]


class CutConsequences(Message, tag="parley/cut-consequences/1"):
    """What an administrator is shown before a cut; its digest is confirmed and kept in the log."""

    study: str
    phase: int
    reported: tuple[str, ...]  # whose reports are in
    awaited: tuple[str, ...]  # whose are not, and will not be taken for this phase
    drawn: int  # draws in the reports
    planned: int  # draws that the phase asked for
    lost: tuple[str, ...]  # arms of which nobody's draws are in, though some were asked for
    effect: str
    guarantee: str


def cut_consequences(trial: Trial) -> CutConsequences:
    """Of the phase in progress, were it closed now."""
    study, planned = trial.study, trial.plan.array
    got = trial.totals.counts
    empty = (planned.sum(axis=1) > 0) & (got.sum(axis=1) == 0)
    names = ", ".join(trial.awaited) or "nobody"
    return CutConsequences(
        study=trial.id,
        phase=trial.phase,
        reported=tuple(sorted(trial.reports)),
        awaited=trial.awaited,
        drawn=int(got.sum()),
        planned=int(planned.sum()),
        lost=tuple(arm for arm, nothing in zip(study.arms, empty, strict=True) if nothing),
        effect=(
            f"the phase is decided on {int(got.sum())} of {int(planned.sum())} draws. What {names} drew in it is never "
            "counted; the next phase asks everybody for what is still needed"
        ),
        guarantee=(
            f"{trial.policy.guarantee}: kept, if the reason for not waiting is not in the rewards of this phase. Only "
            "draws that were reported are weighed, and what needs others is not decided"
        ),
    )
