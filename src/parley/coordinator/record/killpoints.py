"""Named places at which a test may kill the process for good, between every two statements of a transaction.

`PARLEY_KILL_AT=report-inserted` dies there the first time it is reached, `report-inserted:7` the seventh. Without the
variable a point costs one comparison. The chaos tests read `POINTS`, so a new point is exercised by adding its name.
"""

from __future__ import annotations

import os
import signal

__all__ = ["POINTS", "arm", "reached"]

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

_armed: dict[str, int] = {}  # point -> how often it may still be reached


def arm(words: str) -> None:
    """Choose where to die: a point, and after a colon at which time of reaching it. Empty words disarm."""
    _armed.clear()
    name, _, count = words.partition(":")
    if name:
        _armed[name] = int(count or 1)


def reached(point: str) -> None:
    """Die here if so armed."""
    if point in _armed:
        _armed[point] -= 1
        if _armed[point] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("PARLEY_KILL_AT", ""))
