"""Named places at which a test may kill the process for good, between every two steps of what must not be torn.

`PARLEY_KILL_AT=report-inserted` dies there the first time it is reached, `report-inserted:7` the seventh. Without the
variable a point costs one comparison. Whoever has points lists them as `POINTS`, and the chaos tests read that.
"""

from __future__ import annotations

import os
import signal

__all__ = ["arm", "reached"]

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
