"""Numbers, times and names as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from parley.formatting import DASH, gap, number, plural, real

__all__ = [
    "DASH",
    "STAGES",
    "ago",
    "case_told",
    "clock",
    "duration",
    "gap",
    "number",
    "percent",
    "plural",
    "principal",
    "real",
    "stamp",
]

# stage -> sign, word, what it means; the sign stands beside the colour, never colour alone
STAGES: dict[str, tuple[str, str, str]] = {
    "running": ("●", "Running", "Reports come in."),
    "closing": ("◐", "Deciding", "Every report is in; the decision is being computed."),
    "paused": ("‖", "Paused", "No report is taken until it is resumed."),
    "stalled": ("▲", "Stalled", "Not decided, and nobody is left who may be asked."),
    "finished": ("✓", "Finished", "Every agent has its answer, or the budget or the horizon came first."),
    "cancelled": ("■", "Cancelled", "Stopped before every agent had its answer."),
}


def percent(share: float | None) -> str:
    """A share in percent.

    >>> percent(0.9), percent(0.999)
    ('90 %', '99.9 %')
    """
    return DASH if share is None else f"{100 * share:.4g} %"


def case_told(words: str) -> str:
    """What a policy's score is, on a page where bars are something else; certificates keep the words as they are.

    >>> case_told("log evidence against the arm; bars are two standard errors")
    'log evidence against the arm; intervals are two standard errors'
    """
    return words.replace("bars are", "intervals are")


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


def principal(name: str, role: str) -> str:
    """The name of who is signed in, without the role that stands beside it.

    >>> principal("analyst:statistics", "analyst")
    'statistics'
    """
    return name.removeprefix(f"{role}:") or role
