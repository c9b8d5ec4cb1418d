"""The time, for people to read. No decision looks at it: `tests/coordinator/test_promise_08_clocks.py`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

__all__ = ["Clock", "utc_now"]

Clock: TypeAlias = Callable[[], str]


def utc_now() -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
