"""Templates, escaped by default, and what they may use."""

from __future__ import annotations

import json
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.runtime import Context
from markupsafe import Markup

from parley import __version__
from parley.dashboard import words
from parley.formatting import measured
from parley.status import OutcomeStatus

__all__ = ["HERE", "environment", "render"]

HERE = Path(__file__).parent
MOST_SHOWN = 2_000  # numbers and the like of one record
TOO_LARGE = "This record is too large for a page. The export of the log has it whole."


def _time(text: str | None) -> Markup:
    """A time of which a reader sees how long ago it was, and on hovering when."""
    if not text:
        return Markup(words.DASH)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(text, words.clock(text), words.ago(text))


def _stage(stage: str) -> Markup:
    sign, word, meaning = words.STAGES[stage]
    return Markup('<span class="stage {}" title="{}"><span class="sign" aria-hidden="true">{}</span> {}</span>').format(
        stage, meaning, sign, word
    )


def _pretty(value: Any) -> str:
    if _size(value) > MOST_SHOWN:
        return TOO_LARGE
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _size(value: Any) -> int:
    """About how many numbers, texts and the like: of a list the first one speaks for all."""
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + len(value) * _size(value[0]) if isinstance(value, list | tuple) and value else 1


def _query(**values: Any) -> str:
    return "?" + urlencode({key: value for key, value in values.items() if value not in (None, "", 0)})


class _Forgetful(Context):
    """What a page was made of. Jinja's macros and their context hold on to each other, and so to all they were given,
    until garbage is looked for: after a large page a hundred megabytes."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _made.get([]).append(self)

    def forget(self) -> None:
        self.parent, self.vars = {}, {}


_made: ContextVar[list[_Forgetful]] = ContextVar("_made")


@cache
def environment(*folders: Path) -> Environment:
    """Templates from some folders and then from here, with the words they may use."""
    made = Environment(
        loader=FileSystemLoader([*folders, HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.context_class = _Forgetful
    made.filters |= {
        "n": words.number,
        "case": words.case_told,
        "promise": lambda text: text.replace(" (docs/regret.md)", ""),  # a page has no such file; /help has it
        "real": words.real,
        "percent": words.percent,
        "plural": words.plural,
        "percent_whole": lambda share: f"{100 * share:.0f} %",
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "time": _time,
        "clock": words.clock,
        "stamp": words.stamp,
        "gap": words.gap,
        "ended": lambda end: OutcomeStatus(end).description,
        "stage": _stage,
        "pretty": _pretty,
        "part": lambda text: quote(str(text), safe=""),
    }
    made.globals |= {"query": _query, "version": __version__, "name_of": words.principal, "STAGES": words.STAGES}
    made.globals |= {"measured": measured}
    return made


def render(template: str, **values: Any) -> str:
    """A page; whatever a name contains, it comes out as text.

    >>> "&lt;script&gt;" in render("error.html", title="<script>", detail="", retry=False, status=404, who=None)
    True
    """
    made: list[_Forgetful] = []
    _made.set(made)
    try:
        return environment().get_template(template).render(**values)
    finally:
        for context in made:
            context.forget()
