"""Format numbers and findings, in the same way on a terminal, on a static page and on the dashboard.

Displayed numbers have as many decimals as their interval justifies (`ranged`); files have all digits.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from parley.text.status import ArmStatus
from parley.text.translation import Translatable, figure, fixed, gettext, language

DASH = "–"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
NUMBER = re.compile(
    r"(at least |above |below |about )?[-+−±<>~]?[\d.,]+(e[-+]?\d+)?"
    r"( ?(x|%|s|MB|points)( fewer| more)?|( ±| to| of) .*)?( \(.*\))?"
)


def number(value: float | None) -> str:
    """A number rounded to a whole number, with thousands separators; a dash for None.

    >>> number(1234567), number(2117.4), number(None)
    ('1,234,567', '2,117', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    return f"{round(value):,}" if language() == "en" else figure(round(value))


def printable(text: str) -> str:
    r"""Text with control characters spelled out, so that names and answers from others cannot control a terminal.

    Line ends and tabs stay. Marks that reverse the direction of writing are spelled out too, since they can disguise
    what a line says.

    >>> printable("a\x1b[2Jb"), printable("two\nlines")
    ('a\\x1b[2Jb', 'two\nlines')
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def plural(count: float, word: str, words: str | None = None) -> str:
    """A count with its noun in the singular or the plural.

    >>> plural(1, "sample"), plural(1200, "sample"), plural(2, "study", "studies")
    ('1 sample', '1,200 samples', '2 studies')
    """
    return f"{number(count)} {word if round(count) == 1 else words or word + 's'}"


def size_text(shape: tuple[int, int], questions: int = 0) -> str:
    """How many arms and agents a problem of this shape has; `questions` is the number of agents that only ask.

    >>> size_text((2, 1)), size_text((2, 4), 1)
    ('2 arms, 1 agent', '2 arms, 3 agents, 1 further question')
    """
    further = f", {plural(questions, 'further question')}" if questions else ""
    return f"{plural(shape[0], 'arm')}, {plural(shape[1] - questions, 'agent')}{further}"


def real(value: float | None, digits: int = 3) -> str:
    """A mean or a bound with `digits` decimals and a true minus sign; a dash for None.

    >>> real(-0.12345), real(12.5, 1), real(None)
    ('−0.123', '12.5', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    shown = fixed(value, digits)
    return shown.replace("-", "−") if round(value, digits) != 0 else shown.lstrip("-")


def short(value: float) -> str:
    """A number with six digits at most and no thousands separators.

    >>> short(0.05), short(20.0), short(1e-05)
    ('0.05', '20', '1e-05')
    """
    shown = f"{value:g}"
    return shown if language() == "en" or "e" in shown else figure(float(shown))


def typed(value: object) -> str:
    """The value of a setting as people type it, with thousands separators: 0.00001, not 1e-05.

    >>> typed(1e-05), typed(0.5), typed(3), typed(1_000_000), typed("wcpe")
    ('0.00001', '0.5', '3', '1,000,000', 'wcpe')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    one = float(value)
    return f"{one:.10f}".rstrip("0").rstrip(".") if 1e-9 < abs(one) < 1 else f"{one:,.10g}"


def decimals(radius: float) -> int:
    """The number of decimals that shows two significant digits of a half-width.

    >>> decimals(0.0031), decimals(4.2), decimals(120.0)
    (4, 1, 0)
    """
    return min(max(1 - math.floor(math.log10(radius)), 0), 9) if math.isfinite(radius) and radius > 0 else 3


def ranged(value: float | None, low: float | None, high: float | None, *, unit: str = "") -> str:
    """An estimate and its interval, with as many decimals as the half-width justifies.

    >>> ranged(0.05124, 0.0202, 0.0911), ranged(-12.34, -90.0, 30.0), ranged(None, None, None), ranged(0.0, 0.0, 0.0)
    ('0.051 (0.020 to 0.091)', '−12 (−90 to 30)', '–', '0')

    Shares are in per cent, and differences between shares in points, because "14 % less" would be relative.

    >>> ranged(0.05124, 0.0202, 0.0911, unit="%"), ranged(-0.141, -0.37, 0.06, unit="points")
    ('5.1 % (2.0 to 9.1)', '−14 points (−37 to 6)')
    """
    if value is None or low is None or high is None:
        return DASH
    if low == high:
        return real(value, 0 if value == round(value) else 3)
    if unit:
        first, rest = ranged(100 * value, 100 * low, 100 * high).split(" ", 1)
        return f"{first} {unit} {rest}"
    digits = decimals((high - low) / 2)
    ends = {"low": real(low, digits), "high": real(high, digits)}
    return gettext("%(value)s (%(low)s to %(high)s)", value=real(value, digits), **ends)


def share_text(share: float, error: float) -> str:
    """A share of simulated studies with its Monte Carlo error, in per cent.

    >>> share_text(0.842, 0.0123), share_text(1.0, 0.0)
    ('84.2 ± 1.2 %', '100.0 ± 0.0 %')
    """
    return f"{fixed(100 * share, 1)} ± {fixed(100 * error, 1)} %"


def gap(value: float | None) -> str:
    """A lower bound on a gap as text, which reads "above 0" if it would round to 0; a dash for None.

    >>> gap(0.0351), gap(0.0), gap(None)
    ('0.035', 'above 0', '–')
    """
    return gettext("above 0") if value is not None and value < 0.0005 else real(value)


def is_number(cell: str) -> bool:
    """Whether a cell of a table is a number, so that it is right-aligned; an empty cell counts as a number.

    >>> [is_number(cell) for cell in ("1,234", "0.05 ± 0.01", "1.87 x", "above 0", "", "arm 3")]
    [True, True, True, True, True, False]
    """
    plain = cell.strip().replace("\u202f", "").replace("\xa0", "")  # thousands in French
    at_least, to = gettext("at least %(limit)s", limit=""), gettext("%(low)s to %(high)s", low="", high="")
    plain = plain.removeprefix(at_least).replace(to, " to ")
    return not plain or plain == DASH or NUMBER.fullmatch(plain) is not None


KINDS = ("mean", "to_leader", "to_control")
ENDS = ("estimate", "low", "high", "fixed_low", "fixed_high")
NUMBERS = tuple(f"{kind}_{end}" for kind in KINDS for end in ENDS)
HEAD = ("agent", "end", "leader", "arm", "status", "dropped_in", "draws", *NUMBERS)


def unit_of(kind: str, *, rates: bool) -> str:
    """The unit of a mean or a difference: per cent or points if outcomes are `rates`, otherwise none."""
    return "" if not rates else "%" if kind == "mean" else gettext("points")


def estimate_text(cell: Mapping[str, float | None] | None, *, unit: str = "") -> str:
    """An estimate as text, with the interval that holds for all estimates jointly and at every phase.

    >>> estimate_text({"estimate": 0.5124, "low": 0.31, "high": 0.72}), estimate_text(None)
    ('0.51 (0.31 to 0.72)', '–')
    """
    found = cell or {}
    return ranged(found.get("estimate"), found.get("low"), found.get("high"), unit=unit)


def status_text(arm: Mapping[str, Any]) -> str:
    """The status of an agent's arm in words, from a document of the API or from a certificate.

    >>> status_text({"status": "ruled out", "dropped_in": 3})
    'ruled out in phase 3'
    """
    return ArmStatus(arm["status"]).described(arm["dropped_in"])


def candidates_text(settings: Mapping[str, Any]) -> str:
    """The statement that these settings allow about every agent's candidates; empty for a study with a horizon.

    >>> candidates_text({"top": 1, "tolerance": 0.0, "horizon": None})
    "each agent's true best is among them if the guarantee holds"
    >>> candidates_text({"top": 2, "tolerance": 0.1, "horizon": None})
    "if the guarantee holds, every agent's candidates include 2 that are within 0.1 of its 2 best"
    """
    top, tolerance = settings["top"], settings["tolerance"]
    if settings["horizon"] is not None:
        return ""
    if tolerance and top == 1:  # the true best may have been dropped if an arm within the tolerance of it remains
        return Translatable(
            "if the guarantee holds, every agent's candidates include one that is within {0} of its best",
            typed(tolerance),
        )
    if tolerance:
        return Translatable(
            "if the guarantee holds, every agent's candidates include {0} that are within {1} of its {0} best",
            top,
            typed(tolerance),
        )
    if top == 1:
        return Translatable("each agent's true best is among them if the guarantee holds")
    return Translatable("each agent's true {0} best are among them if the guarantee holds", top)


def answer_text(found: Mapping[str, Any]) -> str:
    """An agent's answer, or a statement that it has none and which arms lead.

    >>> answer_text({"arms": ["A"], "answered": True}), answer_text({"arms": ["A"], "answered": False})
    ('A', 'none; leading: A')
    """
    arms = ", ".join(found["arms"])
    if found["answered"]:
        return arms
    return gettext("none; leading: %(arms)s", arms=arms) if arms else gettext("none")


def finding_rows(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The findings as rows, one per agent and arm, with a value for every column of `HEAD`."""
    for agent in found["agents"]:
        for arm in agent["arms"]:
            numbers = {f"{kind}_{end}": (arm[kind] or {}).get(end) for kind in KINDS for end in ENDS}
            known = {"agent": agent["agent"], "end": agent["end"], "leader": agent["leader"], "arm": arm["arm"]}
            status = {"status": arm["status"], "dropped_in": arm["dropped_in"] or None}
            yield known | status | {"draws": arm["draws"]} | numbers


def findings_csv(found: Mapping[str, Any]) -> str:
    """The findings as CSV, one line per agent and arm."""
    return csv_text(HEAD, finding_rows(found))


def csv_text(head: Sequence[str], rows: Iterable[Mapping[str, object]], *, line_end: str = "\r\n") -> str:
    """A CSV file with the values of each row under their keys; lines end with CR LF (RFC 4180) by default.

    >>> csv_text(["arm", "draws"], [{"draws": 3, "arm": "=A"}])
    "arm,draws\\r\\n'=A,3\\r\\n"
    """
    written = io.StringIO()
    table = csv.DictWriter(written, head, lineterminator=line_end)
    table.writeheader()
    table.writerows({key: csv_safe(value) for key, value in row.items()} for row in rows)
    return written.getvalue()


def csv_rows(rows: Iterable[Sequence[object]]) -> str:
    """A CSV file from plain rows, the first of which is the header.

    >>> csv_rows([["key", "value"], ["@p1", -0.5]])
    "key,value\\r\\n'@p1,-0.5\\r\\n"
    """
    written = io.StringIO()
    csv.writer(written).writerows(map(csv_safe, row) for row in rows)
    return written.getvalue()


FORMULAS = ("=", "+", "-", "@", "\t", "\n")  # first characters of text that a spreadsheet may compute


def csv_safe(value: object) -> object:
    """A value for CSV; text is escaped so that no spreadsheet takes it for a formula, and no terminal for a command.

    >>> csv_safe("=1+1"), csv_safe("B"), csv_safe(-0.5)
    ("'=1+1", 'B', -0.5)
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text[:1] in FORMULAS else text


def csv_meant(text: str) -> str:
    """The text of a cell before `csv_safe` escaped it: an apostrophe before the start of a formula is the escape.

    >>> csv_meant("'-007"), csv_meant("-007"), csv_meant("'tis")
    ('-007', '-007', "'tis")
    """
    return text[1:] if text[:1] == "'" and text[1:2] in FORMULAS else text
