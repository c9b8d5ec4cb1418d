"""Where a study can be and what can happen there: one table, and nothing moves outside it.

`docs/protocol.md` shows the table as a picture made by `picture()`; a test keeps it current.
"""

from __future__ import annotations

from enum import StrEnum

from parley.errors import IllegalMove

__all__ = ["CONCLUDED", "OVER", "TRANSITIONS", "Stage", "allowed", "illegal", "picture", "require"]


class Stage(StrEnum):
    """Where a study is."""

    RUNNING = "running"  # a plan is out, reports come in
    CLOSING = "closing"  # every awaited report is in; the policy's step is due
    PAUSED = "paused"  # an administrator, a dispute or a failed step stopped it; nothing is taken
    STALLED = "stalled"  # what is open is blocked: only freezing leads here, thawing or re-weighing away
    FINISHED = "finished"  # every agent has its answer
    CANCELLED = "cancelled"  # stopped early; candidates remain


CONCLUDED = (Stage.FINISHED, Stage.STALLED)  # who has an answer has it for good; who has none waits for a site, if any

OVER = (*CONCLUDED, Stage.CANCELLED)  # no report is awaited any more

R, C, P, S, F, X = Stage.RUNNING, Stage.CLOSING, Stage.PAUSED, Stage.STALLED, Stage.FINISHED, Stage.CANCELLED

# (where it is, what happens) -> where it may be then. Where two are possible, the trial's content tells which.
TRANSITIONS: dict[tuple[Stage, str], frozenset[Stage]] = {
    (R, "report-accepted"): frozenset({R, C}),
    (R, "report-amended"): frozenset({R, C}),  # C: one that was held is taken, and nobody else is awaited
    (R, "report-refused"): frozenset({R}),
    (R, "agent-frozen"): frozenset({R, C}),
    (R, "agent-thawed"): frozenset({R}),
    (R, "reweighed"): frozenset({R, F}),
    (R, "phase-cut"): frozenset({C}),
    (R, "paused"): frozenset({P}),
    (R, "disputed"): frozenset({P}),
    (R, "cancelled"): frozenset({X}),
    (C, "phase-closed"): frozenset({R, S, F}),
    (C, "step-failed"): frozenset({P}),
    (C, "report-amended"): frozenset({C}),
    (C, "agent-frozen"): frozenset({C}),
    (C, "reweighed"): frozenset({C, F}),
    (C, "paused"): frozenset({P}),
    (C, "disputed"): frozenset({P}),
    (C, "cancelled"): frozenset({X}),
    (P, "report-amended"): frozenset({P}),
    (P, "report-refused"): frozenset({P}),
    (P, "agent-frozen"): frozenset({P}),
    (P, "agent-thawed"): frozenset({P}),
    (P, "reweighed"): frozenset({P, F}),
    (P, "resumed"): frozenset({R, C}),
    (P, "cancelled"): frozenset({X}),
    (S, "agent-thawed"): frozenset({R, S}),
    (S, "reweighed"): frozenset({R, F}),
    (S, "cancelled"): frozenset({X}),
    (S, "certified"): frozenset({S}),
    (F, "certified"): frozenset({F}),
    (X, "certified"): frozenset({X}),
    # Kept for the record wherever the study is; it changes nothing.
    **{(stage, "report-quarantined"): frozenset({stage}) for stage in Stage},
}


def allowed(stage: Stage) -> list[str]:
    """What can happen at a stage.

    >>> allowed(Stage.FINISHED)
    ['certified', 'report-quarantined']
    """
    return sorted(kind for where, kind in TRANSITIONS if where == stage)


def illegal(stage: Stage, kind: str, words: str = "", reason: str = "illegal-move") -> IllegalMove:
    """The refusal of a move, with what would have been possible."""
    why = f": {words}" if words else ""
    message = f"{kind} cannot happen while the study is {stage}{why} (can: {', '.join(allowed(stage))})"
    return IllegalMove(message, reason=reason, words=words)


def require(stage: Stage, kind: str, then: Stage | None = None) -> None:
    """Raise `IllegalMove` unless the table has the move (to `then`, if given).

    >>> require(Stage.RUNNING, "paused", Stage.PAUSED)
    >>> require(Stage.FINISHED, "paused")
    Traceback (most recent call last):
    parley.errors.IllegalMove: paused cannot happen while the study is finished (can: certified, report-quarantined)
    """
    targets = TRANSITIONS.get((stage, kind))
    if targets is None or (then is not None and then not in targets):
        raise illegal(stage, kind, f"it would lead to {then}" if targets and then else "")


def picture() -> str:
    """The table as a Mermaid state diagram; moves that stay where they are are listed once, below their stage."""
    lines = ["stateDiagram-v2", "    [*] --> running: study-created"]
    arrows: dict[tuple[Stage, Stage], list[str]] = {}
    for (stage, kind), targets in TRANSITIONS.items():
        for target in sorted(targets):
            arrows.setdefault((stage, target), []).append(kind)
    lines += [f"    {here} --> {there}: {', '.join(sorted(kinds))}" for (here, there), kinds in arrows.items()]
    return "\n".join(lines)
