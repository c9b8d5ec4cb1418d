"""Times as ISO 8601 text, to be stored and shown.

No decision depends on them (`tests/coordinator/test_promise_08_clocks.py` checks this).

The clock itself is in `http.context`. The layers below it receive a time or a clock, so that tests can set the time.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

EXACT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d(?:\.\d+)?Z")
Clock: TypeAlias = Callable[[], str]


def later(at: str, hours: float) -> str:
    """Add hours to a time. Results sort correctly as text, and stop at the latest time that Python can represent.

    >>> later("2026-01-31T23:30:00.000Z", 1)
    '2026-02-01T00:30:00.000Z'
    >>> later("9999-12-31T23:30:00.000Z", 1)
    '9999-12-31T23:59:59.999Z'
    """
    last = datetime.max.replace(tzinfo=UTC)
    moment = datetime.fromisoformat(at).astimezone(UTC)
    moment = last if last - moment < timedelta(hours=hours) else moment + timedelta(hours=hours)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_the_minute(at: str) -> str:
    """Round a time down to the minute, which hides the order of events within a minute.

    >>> to_the_minute("2026-01-31T23:30:12.345Z")
    '2026-01-31T23:30:00.000Z'
    """
    return EXACT.sub(r"\1:00.000Z", at)


def hours_between(since: str, until: str) -> float:
    """Hours from `since` to `until`; 0 if `until` is earlier, since clocks may be set back.

    >>> hours_between("2026-01-31T23:30:00.000Z", "2026-02-01T00:15:00Z")
    0.75
    """
    return max(0.0, (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds() / 3600)
