"""Rendering of templates, with automatic escaping, and the functions that templates use."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.runtime import Context
from markupsafe import Markup, escape

from parley import __version__
from parley.experiments.report_kit.prose import as_text
from parley.hooks import edges
from parley.policies.base import NO_GUARANTEE, NOTED
from parley.protocol.certificate import WITHDRAWN
from parley.protocol.codec import LONGEST_WORDS
from parley.protocol.lost_sites import ASKED_ANEW
from parley.protocol.sensitivity import Robustness
from parley.protocol.state_machine import Stage
from parley.text import translation
from parley.text.formatting import (
    DASH,
    answer_text,
    candidates_text,
    gap,
    number,
    plural,
    ranged,
    real,
    share_text,
    short,
    status_text,
    unit_of,
)
from parley.text.status import ArmStatus, OutcomeStatus
from parley.text.translation import Translatable, translated

HERE = Path(__file__).parent
ROLE_WORDS = {
    "agent": Translatable("agent"),
    "administrator": Translatable("administrator"),
    "auditor": Translatable("auditor"),
    "analyst": Translatable("analyst"),
    "viewer": Translatable("viewer"),
}
MOST_SHOWN = 2_000  # values of the largest record that a page prints
# Words that answers of the API contain in English. Pages translate them, so `tools.catalogs` extracts them as messages.
WORDS = (
    *Stage,
    *ArmStatus,
    *Robustness,
    *("alarm", "cleared", "not cleared yet"),
    *("never", "blocked"),
    *("live", "failing", "disabled"),
    "-1: equal weights, 0: weights as stated, 1: own results only",
)
TOO_LARGE = "This record is too large to show here. The exported log contains all of it."


def _time(text: str | None) -> Markup:
    """Format a time as "how long ago", with the exact time as a tooltip; a dash if there is no time."""
    if not text:
        return Markup(DASH)
    return Markup('<time datetime="{}" data-show="ago" title="{}">{}</time>').format(text, clock(text), ago(text))


def _moment(show: str, words: Callable[[str], str]) -> Callable[[str], Markup]:
    """Make a filter that writes times in UTC; the page's script converts them to the reader's zone and language."""
    return lambda text: Markup('<time datetime="{}" data-show="{}">{}</time>').format(text, show, words(text))


def _stage(stage: str) -> Markup:
    sign, word, meaning = STAGES[stage][0], *map(translated, STAGES[stage][1:])
    return Markup('<span class="stage {}" title="{}"><span class="sign" aria-hidden="true">{}</span> {}</span>').format(
        stage, meaning, sign, word
    )


def _pretty(value: Any) -> str:
    if _size(value) > MOST_SHOWN:
        return translation.gettext(TOO_LARGE)
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _size(value: Any) -> int:
    """Estimate the number of values in a document, taking the first entry of each list as typical."""
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + len(value) * _size(value[0]) if isinstance(value, list | tuple) and value else 1


def _query(**values: Any) -> str:
    return "?" + urlencode({key: value for key, value in values.items() if value not in (None, "", 0)})


def _gettext(message: str, **values: Any) -> Markup:
    """`gettext` for templates: the message may contain markup, and its values are escaped."""
    return Markup(translation.gettext(message, **_escaped(values)))


def _ngettext(one: str, many: str, count: int, **values: Any) -> Markup:
    return Markup(translation.ngettext(one, many, count, **_escaped(values)))


def _escaped(values: dict[str, Any]) -> dict[str, Any]:
    return {name: escape(value) for name, value in values.items()}


class _Forgetful(Context):
    """A template context that drops its values after rendering.

    Jinja's macros and their context refer to each other. Without this, the values of a large page, a hundred megabytes,
    would stay in memory until garbage collection.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _made.get([]).append(self)

    def forget(self) -> None:
        self.parent, self.vars = {}, {}


# The contexts that the current task or thread has made; others may be rendering at the same time.
_made: ContextVar[list[_Forgetful]] = ContextVar("_made")


@cache
def environment(*folders: Path) -> Environment:
    """The Jinja environment that looks for templates in the given folders, then in the dashboard's folder."""
    made = Environment(
        loader=FileSystemLoader([*folders, HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    # {% trans %} calls `gettext` or `ngettext` and passes its values by name. Messages are trimmed, so that templates
    # may break their lines anywhere.
    made.install_null_translations(newstyle=True)  # type: ignore[attr-defined]
    made.policies["ext.i18n.trimmed"] = True
    made.globals |= {"gettext": _gettext, "ngettext": _ngettext}
    made.context_class = _Forgetful
    made.filters |= {
        "n": number,
        "real": real,
        "percent": percent,
        "plural": plural,
        "percent_whole": lambda share: f"{number(100 * share)} %",
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "time": _time,
        "clock": _moment("clock", clock),
        "stamp": _moment("stamp", stamp),
        "gap": gap,
        "status": lambda arm: translated(status_text(arm)),
        "candidates": candidates_text,
        "answer_text": answer_text,
        "error_bound": error_bound,
        "translated": translated,
        "word": word,
        "filled": lambda message, values: translated(Translatable(message, **values)),
        "problem": problem_text,
        "short": short,
        "share_text": share_text,
        "as_text": as_text,
        "ended": lambda end: translated(OutcomeStatus(end).description),
        "stage": _stage,
        "pretty": _pretty,
        "part": lambda text: quote(str(text), safe=""),
    }
    made.tests["withdrawn"] = lambda guarantee: says(guarantee, WITHDRAWN)
    made.globals |= {
        "query": _query,
        "version": __version__,
        "name_of": principal,
        "STAGES": STAGES,
        "ROLE_WORDS": ROLE_WORDS,
        "LONGEST_WORDS": LONGEST_WORDS,
    }
    made.globals |= {"ranged": ranged, "unit_of": unit_of}
    return made


@cache
def _edge_templates() -> tuple[Path, ...]:
    """The template folders of the installed edges."""
    return tuple(pages.templates for edge in edges() if (pages := edge.pages()) is not None and pages.templates)


def render(template: str, **values: Any) -> str:
    """Render a template to HTML; text among its values is always escaped.

    >>> "&lt;script&gt;" in render("error.html", title="<script>", detail="", retry=False, status=404, who=None)
    True
    """
    with _forgotten():
        return environment(*_edge_templates()).get_template(template).render(**values)


def render_part(template: str, macro: str, *given: Any, **values: Any) -> Markup:
    """Render one macro of a template: `given` are the macro's arguments, `values` the variables of its template."""
    with _forgotten():
        return Markup(
            getattr(environment(*_edge_templates()).get_template(template).make_module(values), macro)(*given)
        )


def render_text(template: str, **values: Any) -> str:
    """Render a Markdown template; nothing is escaped, so templates pass users' text through the filter `as_text`."""
    with _forgotten():
        made = environment(*_edge_templates()).overlay(autoescape=False)
        made.globals = made.globals | {"gettext": translation.gettext, "ngettext": translation.ngettext}
        return made.get_template(template).render(**values)


@contextmanager
def _forgotten() -> Iterator[None]:
    made: list[_Forgetful] = []
    _made.set(made)
    try:
        yield
    finally:
        for context in made:
            context.forget()


# stage -> sign, word, meaning. The sign accompanies the colour, so that colour is never the only cue.
STAGES: dict[str, tuple[str, str, str]] = {
    "running": ("●", Translatable("Running"), Translatable("Reports are coming in.")),
    "closing": ("◐", Translatable("Deciding"), Translatable("Every report is in, and the decision is being computed.")),
    "paused": ("‖", Translatable("Paused"), Translatable("No reports are accepted until the study is resumed.")),
    "stalled": (
        "▲",
        Translatable("Stalled"),
        Translatable("Undecided, because the missing data can no longer be supplied."),
    ),
    "finished": (
        "✓",
        Translatable("Finished"),
        Translatable("Every question has its answer, or the budget or horizon was reached first."),
    ),
    "cancelled": ("■", Translatable("Cancelled"), Translatable("Stopped before every question had its answer.")),
}


def percent(share: float | None) -> str:
    """Format a share as a percentage; a dash for None.

    >>> percent(0.9), percent(0.999)
    ('90 %', '99.9 %')
    """
    return DASH if share is None else f"{short(float(f'{100 * share:.4g}'))} %"


def error_bound(guarantee: str, delta: float) -> str:
    """Describe how a guarantee bounds the probability of an error, or why it does not.

    >>> error_bound("all answers right with probability at least 0.9", 0.1)
    'at most 10 %'
    >>> error_bound(Translatable(NO_GUARANTEE, "an experimental threshold"), 0.1)
    'not bounded: this policy has no guarantee'
    """
    if says(guarantee, WITHDRAWN):
        return translation.gettext("not bounded: too much data is missing")
    if says(guarantee, NO_GUARANTEE):
        return translation.gettext("not bounded: this policy has no guarantee")
    bound = translation.gettext("at most %(share)s", share=percent(delta))
    about = translation.gettext(", approximately") if says(guarantee, NOTED) else ""
    anew = translation.gettext(" for the changed question") if says(guarantee, ASKED_ANEW) else ""
    return bound + about + anew


def word(text: str) -> str:
    """Translate a word of `WORDS` for the reader; other text is returned unchanged.

    >>> word("ruled out"), word("a name")
    ('ruled out', 'a name')
    """
    return translation.gettext(text) if text in WORDS else text


def problem_text(text: str) -> Markup:
    """Format the reason of a refusal: translated if it is a message, else in English and marked as English."""
    # A message of nothing but parts is formatted part by part: some may be messages, and others English text.
    if isinstance(text, Translatable) and re.fullmatch(r"({\d+})+", text.message):
        return Markup("").join(problem_text(part) for part in text.values.values())
    if isinstance(text, Translatable) or translation.language() == "en" or not re.search("[A-Za-z]", text):
        return escape(translated(text))
    return Markup('<span lang="en">{}</span>').format(text)


def says(text: str, message: str) -> bool:
    """Whether a text was made from a message, entirely or in part; plain strings never are."""
    return isinstance(text, Translatable) and text.contains(message)


def duration(seconds: float) -> str:
    """Format a duration approximately, in one unit.

    >>> duration(5), duration(150), duration(7300), duration(200000)
    ('5 seconds', '2 minutes', '2 hours', '2 days')
    """
    for unit, size, most in (("second", 1, 60), ("minute", 60, 7200), ("hour", 3600, 172_800), ("day", 86_400, 1e99)):
        if seconds < most:
            return plural(max(int(seconds // size), 0), unit)
    raise AssertionError


def ago(text: str, now: datetime | None = None) -> str:
    """Format how long ago something was, to the minute at best: viewers get times only to the minute.

    >>> ago("2026-01-01T00:00:00.000Z", datetime(2026, 1, 3, tzinfo=UTC))
    '2 days ago'
    >>> ago("2026-01-01T00:00:00.000Z", datetime(2026, 1, 1, 0, 1, 57, tzinfo=UTC))
    '1 minute ago'
    """
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(text)).total_seconds()
    if seconds < 60:
        return translation.gettext("less than a minute ago")
    if translation.language() == "en":
        return f"{duration(seconds)} ago"
    from babel.dates import format_timedelta

    passed = timedelta(seconds=-seconds)
    return format_timedelta(passed, threshold=2.0, add_direction=True, locale=translation.language())


def clock(text: str) -> str:
    """Format a time for the text of a page, to the minute, in UTC.

    >>> clock("2026-01-03T08:09:10.123Z")
    '3 January 2026, 08:09 UTC'
    """
    moment = datetime.fromisoformat(text)
    if translation.language() == "en":
        return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
    from babel.dates import format_datetime

    return f"{format_datetime(moment, 'd MMMM y, HH:mm', locale=translation.language())} UTC"


def stamp(text: str) -> str:
    """Format a time for a table, to the second, in UTC.

    >>> stamp("2026-01-03T08:09:10.123Z")
    '3 Jan 2026, 08:09:10'
    """
    moment = datetime.fromisoformat(text)
    if translation.language() == "en":
        return f"{moment.day} {moment:%b %Y, %H:%M:%S}"
    from babel.dates import format_datetime

    return format_datetime(moment, "d MMM y, HH:mm:ss", locale=translation.language())


def principal(name: str, role: str) -> str:
    """The reader's name without the role: pages print the role beside the name.

    >>> principal("analyst:statistics", "analyst")
    'statistics'
    """
    return name.removeprefix(f"{role}:") or role
