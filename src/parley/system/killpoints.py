"""Kill the process at a named point, for tests: between any two steps of an operation that must be atomic.

At each of its points such an operation raises an audit event: `sys.audit("parley.reached", "report-inserted")`. The
event costs next to nothing while nobody listens. Code that may be killed does not import this module, which adds the
listening hook once a point is armed. `PARLEY_KILL_AT=report-inserted` kills a command the first time it reaches that
point, `report-inserted:7` the seventh time. `coordinator.record.writer` lists its points as `POINTS`, for the chaos
tests.
"""

import os
import signal
import sys
from functools import cache
from typing import Any

REACHED = "parley.reached"  # the audit event; its argument is the name of the point

_armed: dict[str, int] = {}  # point -> how many more times until the process dies there


def arm(point: str) -> None:
    """Choose the point at which to die and, after a colon, on which visit; an empty string chooses none."""
    _armed.clear()
    name, _, count = point.partition(":")
    if not name:
        return
    _armed[name] = int(count or 1)
    _listen()


@cache
def _listen() -> None:
    """Add the hook, once: hooks cannot be removed, and forks inherit them."""
    sys.addaudithook(_die)


def _die(event: str, values: tuple[Any, ...]) -> None:
    """Kill the process if it has reached the armed point."""
    if event != REACHED or values[0] not in _armed:
        return
    _armed[values[0]] -= 1
    if _armed[values[0]] == 0:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows: SIGTERM cannot be caught there
