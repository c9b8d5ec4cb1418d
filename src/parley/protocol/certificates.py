"""The certificate at the end of a study: made by the coordinator, made again by whoever verifies the log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parley.problem import FloatArray
from parley.protocol.canonical import digest
from parley.protocol.messages import Certificate
from parley.protocol.stages import Stage
from parley.protocol.trial import Trial

__all__ = ["issue_certificate", "same_certificate"]

ROUNDING = 1e-9


def issue_certificate(trial: Trial, *, data: Sequence[str], sequence: int, head: str, version: str) -> Certificate:
    """What a finished or cancelled trial may claim; `data` are the decisions' digests of the phases' reports."""
    policy, state, study = trial.policy, trial.state, trial.study
    shown = policy.explain(state)
    complete = trial.stage is Stage.FINISHED
    guarantee = policy.guarantee
    if not complete:
        guarantee = f"stopped early: what is listed are the candidates that remain, not answers ({guarantee} of them)"
    return Certificate(
        study=trial.id,
        problem=study.digest,
        data=digest(list(data)),
        policy=study.policy,
        options=study.options,
        version=version,
        delta=study.delta,
        guarantee=guarantee,
        complete=complete,
        answers={
            agent: [arm for arm, kept in zip(study.arms, column, strict=True) if kept]
            for agent, column in zip(study.agents, np.asarray(state.answers).T, strict=True)
        },
        phases=len(data),
        samples=int(state.counts.sum()),
        frozen=tuple(sorted(trial.frozen)),
        line=shown.line,
        score_means=shown.words,
        scores=_finite(shown.score),
        mixed_means=_finite(shown.mixed_means),
        radii=_finite(shown.radius),
        state=state.to_json(),
        sequence=sequence,
        head=head,
    )


def _finite(array: FloatArray) -> tuple[tuple[float | None, ...], ...]:
    rows = np.asarray(array, dtype=np.float64)
    return tuple(tuple(float(value) if np.isfinite(value) else None for value in row) for row in rows)


def same_certificate(one: Certificate, other: Certificate) -> list[str]:
    """The names of the fields in which two certificates differ by more than the rounding of another machine."""
    first, second = one.to_json(), other.to_json()
    return [key for key in first if key != "version" and not _same(first[key], second[key])]


def _same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= ROUNDING * max(1.0, abs(one), abs(other))
    return one == other
