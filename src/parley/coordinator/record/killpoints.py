"""The coordinator's kill points: between every two statements of a transaction (`parley.killpoints`).

The chaos tests read `POINTS` (a report, and the step it may bring) and `ACTS` (what administrators do, and reports that
are held), so a new point is exercised by adding its name.
"""

from __future__ import annotations

from parley.killpoints import arm, reached

__all__ = ["ACTS", "POINTS", "arm", "reached"]

POINTS = (
    "begun",
    "report-locked",
    "report-looked-up",
    "report-inserted",
    "report-logged",
    "report-counted",
    "step-computed",
    "step-logged",
    "step-decision-stored",
    "step-state-stored",
    "step-phase-opened",
    "step-plan-stored",
    "step-counted",
    "step-certified",
    "before-commit",
    "after-commit",
)

ACTS = (
    "freeze-logged",
    "freeze-place-closed",
    "freeze-counted",
    "reweigh-logged",
    "reweigh-certificate-removed",
    "reweigh-weights-stored",
    "reweigh-states-stored",
    "reweigh-phase-opened",
    "reweigh-plan-stored",
    "reweigh-counted",
    "thaw-logged",
    "thaw-place-opened",
    "thaw-counted",
    "hold-logged",
    "hold-stored",
    "refuse-logged",
    "refuse-noted",
)
