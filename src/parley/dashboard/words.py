"""Numbers, times and names as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

__all__ = ["STAGES", "ago", "clock", "duration", "gap", "number", "percent", "plural", "principal", "real", "stamp"]

# stage -> sign, word, what it means; the sign stands beside the colour, never colour alone
STAGES: dict[str, tuple[str, str, str]] = {
    "running": ("●", "Running", "Reports come in."),
    "closing": ("◐", "Deciding", "Every report is in; the decision is being computed."),
    "paused": ("‖", "Paused", "No report is taken until it is resumed."),
    "stalled": ("▲", "Stalled", "Not decided, and nobody is left who may be asked."),
    "finished": ("✓", "Finished", "Every agent has its answer."),
    "cancelled": ("■", "Cancelled", "Stopped before every agent had its answer."),
}
DASH = "–"


def number(value: float | None) -> str:
    """A whole number with thousands separators.

    >>> number(1234567), number(2117.4), number(None)
    ('1,234,567', '2,117', '–')
    """
    return DASH if value is None or not math.isfinite(value) else f"{round(value):,}"


def real(value: float | None, digits: int = 3) -> str:
    """A mean or a bound, with a true minus sign.

    >>> real(-0.12345), real(12.5, 1), real(None)
    ('−0.123', '12.5', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    shown = f"{value:,.{digits}f}"
    return shown.replace("-", "−") if float(shown.replace(",", "")) != 0 else shown.lstrip("-")


def percent(share: float | None) -> str:
    """A share in percent.

    >>> percent(0.9), percent(0.999)
    ('90 %', '99.9 %')
    """
    return DASH if share is None else f"{100 * share:.4g} %"


def plural(count: float, word: str, words: str | None = None) -> str:
    """A count with its unit.

    >>> plural(1, "sample"), plural(1200, "sample"), plural(2, "study", "studies")
    ('1 sample', '1,200 samples', '2 studies')
    """
    return f"{number(count)} {word if round(count) == 1 else words or word + 's'}"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def duration(seconds: float) -> str:
    """About how long, in one unit.

    >>> duration(5), duration(150), duration(7300), duration(200000)
    ('5 seconds', '2 minutes', '2 hours', '2 days')
    """
    for unit, size, most in (("second", 1, 120), ("minute", 60, 7200), ("hour", 3600, 172_800), ("day", 86_400, 1e99)):
        if seconds < most:
            return plural(max(int(seconds // size), 0), unit)
    raise AssertionError


def ago(text: str, now: datetime | None = None) -> str:
    """How long ago something was.

    >>> ago("2026-01-01T00:00:00.000Z", datetime(2026, 1, 3, tzinfo=UTC))
    '2 days ago'
    """
    seconds = ((now or datetime.now(UTC)) - _moment(text)).total_seconds()
    return "just now" if seconds < 5 else f"{duration(seconds)} ago"


def clock(text: str) -> str:
    """A time as it stands on a page, in UTC.

    >>> clock("2026-01-03T08:09:10.123Z")
    '3 January 2026, 08:09 UTC'
    """
    moment = _moment(text)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def stamp(text: str) -> str:
    """A time in a table, to the second; the foot of every page says that times are UTC.

    >>> stamp("2026-01-03T08:09:10.123Z")
    '3 Jan 2026, 08:09:10'
    """
    moment = _moment(text)
    return f"{moment.day} {moment:%b %Y, %H:%M:%S}"


def gap(value: float | None) -> str:
    """A lower bound on a gap; an arm that was ruled out is worse, even where the bound rounds to nothing.

    >>> gap(0.0351), gap(0.0), gap(None)
    ('0.035', 'above 0', '–')
    """
    return "above 0" if value is not None and value < 0.0005 else real(value)


def principal(who: dict[str, Any]) -> str:
    """The name of who is signed in, without the role that stands beside it.

    >>> principal({"principal": "analyst:statistics", "role": "analyst"})
    'statistics'
    """
    return str(who["principal"]).removeprefix(f"{who['role']}:") or str(who["role"])
