"""The coordinator's kill points: between every two statements of a transaction (`parley.killpoints`).

The chaos tests read `POINTS`, so a new point is exercised by adding its name.
"""

from __future__ import annotations

from parley.killpoints import arm, reached

__all__ = ["POINTS", "arm", "reached"]

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
