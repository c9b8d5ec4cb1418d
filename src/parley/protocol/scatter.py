"""A stated scale is compared with the scatter of the reports: per arm and agent, per agent, and over all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from parley.checks import FloatArray
from parley.protocol.messages import Report, StudyMessage
from parley.rewards.plausibility import log_evidence_of_scale
from parley.totals import Totals

__all__ = ["LEVEL", "Scatter", "added_scatter", "scale_warnings"]

LEVEL = 0.01  # chance of any warning at all in a whole study whose scale is right
MOST_TOLD = 12
SMALL = "was stated: too small, so the guarantee does not hold"
LARGE = "was stated: too large, so the study costs more than it must"

Scatter = tuple[FloatArray, FloatArray, FloatArray]  # (arm, agent): draws, degrees of freedom, scatter


def added_scatter(study: StudyMessage, reports: Iterable[Report], before: Scatter | None = None) -> Scatter:
    """Reports of any phases, each around its own means, added up, to what there was `before`."""
    shape = (len(study.arms), len(study.agents))
    draws, degrees, scatter = (np.zeros(shape) if before is None else before[i].copy() for i in range(3))
    place = {name: i for i, name in enumerate(study.agents)}
    for report in reports:
        totals: Totals = report.totals
        column = place[report.agent]
        draws[:, column] += totals.counts
        degrees[:, column] += np.maximum(totals.counts - 1, 0)
        scatter[:, column] += totals.scatter
    return draws, degrees, scatter


def scale_warnings(study: StudyMessage, added: Scatter) -> tuple[str, ...]:
    """What the data contradict, in words; nothing where no scale is stated or nothing is wrong."""
    model, (draws, degrees, scatter) = study.problem.noise, added
    stated = model.stated_variance
    if stated is None:
        return ()
    each = np.broadcast_to(stated, scatter.shape)
    tried = scatter.size + len(study.agents) + 1
    line = math.log(2 * tried) - math.log(LEVEL)
    units, nu = scatter / each, degrees if model.boosted else draws
    told: list[str] = []
    for words, axes in (("all rewards", (0, 1)), ("the rewards of {agent}", (0,)), ("{arm} at {agent}", ())):
        group, freedom, total = (np.asarray(values.sum(axis=axes)) for values in (units, nu, degrees))
        small, large = log_evidence_of_scale(group, freedom)
        against = np.argwhere((small >= line) | ((large >= line) & model.boosted)).tolist()
        for index in against:
            at = tuple(index)
            names = _names(study, at)
            found = math.sqrt(group[at] / max(total[at], 1.0))
            verdict = SMALL if small[at] >= line else LARGE
            scale = f"{math.sqrt(float(each.flat[0])):.3g} " if np.ndim(stated) == 0 else "what "
            told.append(
                f"{words.format(**names)} scatter by about {found:.3g} times the stated scale; {scale}{verdict}"
            )
    more = len(told) - MOST_TOLD
    return tuple(told[:MOST_TOLD]) + ((f"and {more} more",) if more > 0 else ())


def _names(study: StudyMessage, at: tuple[int, ...]) -> dict[str, Any]:
    if len(at) == 1:
        return {"agent": study.agents[at[0]]}
    return {"arm": study.arms[at[0]], "agent": study.agents[at[1]]} if at else {}
