"""Named places at which a test may kill the process for good, between every two statements of a transaction.

`PARLEY_KILL_AT=report-inserted` dies there the first time it is reached, `report-inserted:7` the seventh. Without the
variable a point costs one comparison. The chaos tests read `POINTS`, so a new point is exercised by adding its name.
"""

from __future__ import annotations

import os
import signal

__all__ = ["POINTS", "reached"]

POINTS = (
    "begun",
    "report-locked",
    "report-looked-up",
    "report-inserted",
    "report-logged",
    "report-counted",
    "step-computed",
    "step-decision-stored",
    "step-plan-stored",
    "step-logged",
    "step-certified",
    "before-commit",
    "after-commit",
)

_name, _, _count = os.environ.get("PARLEY_KILL_AT", "").partition(":")
_left = int(_count or 1)


def reached(point: str) -> None:
    """Die here if the environment says so."""
    global _left  # noqa: PLW0603 - counts down once in the life of a process
    if point == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
