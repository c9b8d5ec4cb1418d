"""Named points at which a test can kill the process: between every two steps of an operation that must be atomic.

`PARLEY_KILL_AT=report-inserted` kills the process the first time it reaches that point, `report-inserted:7` the seventh
time. Without the variable a point costs one comparison. `coordinator.record.writer` lists its points as `POINTS`, for
the chaos tests.
"""

import os
import signal

_armed: dict[str, int] = {}  # point -> how many more times until the process dies there


def arm(point: str) -> None:
    """Choose the point at which to die and, after a colon, on which visit; an empty string chooses none."""
    _armed.clear()
    name, _, count = point.partition(":")
    if name:
        _armed[name] = int(count or 1)


def reached(point: str) -> None:
    """Kill the process if this point and this visit were chosen; the code under test calls it at every point."""
    if point in _armed:
        _armed[point] -= 1
        if _armed[point] == 0:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows: SIGTERM cannot be caught there


arm(os.environ.get("PARLEY_KILL_AT", ""))
