"""The message catalogs, kept in step with the messages in code and templates. `make generated` rewrites them.

A message belongs to the folder of the edge that uses it (`edges/NAME/catalogs`), or to `text/catalogs` if it is used
outside of edges too. `messages.pot` lists all messages of a folder. They are marked by `{% trans %}` in templates, and
in Python by `gettext`, `ngettext` and `Translatable` of `parley.text.translation`; messages in tables and constants
are rows of `REGISTRIES`. The catalog of an audience contains the messages that use a researcher's word; that of a
language contains all messages; that of an audience in a language contains the messages that belong to both. A new
message is added without a translation, and `tests/text/test_translation.py` fails until it has one. A message that
moves keeps its translations, and a deleted message is removed from all catalogs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po

from parley.coordinator.problems import PROBLEMS
from parley.dashboard.pages.administration import OWN_FORMS, form_of
from parley.dashboard.render import TOO_LARGE, WORDS
from parley.hooks import own_edges
from parley.policies.base import CLAIM, NO_GUARANTEE, RIGHT, RIGHT_WITHIN
from parley.policies.regret_baselines import CLAIMS
from parley.protocol import EVENTS
from parley.protocol.acts import ACTS
from parley.protocol.certificate import ADJUSTED, CORRECTED, GONE, REMAIN, SHARE, SHARE_AND, WITHDRAWN, WITHOUT
from parley.protocol.corrections import STANDS, WITHOUT_ERROR
from parley.protocol.lost_sites import ASKED_ANEW, BOTH_CHANGED, FEWER_ARMS
from parley.protocol.report_checks import (
    CLOSING_REASONS,
    OVERDISPERSED,
    REASONS,
    SKEWED,
    STATED,
    STATED_ONE,
    UNEQUAL,
    VOIDS,
    WARNED,
)
from parley.rewards import MODELS
from parley.settings import CHOICES, SETTINGS
from parley.text.status import OutcomeStatus
from parley.text.translation import AUDIENCES, FOLDER

SRC = FOLDER.parents[1]
VALUE = re.compile(r"%\((\w+)\)s|\{([\w.]+)(?:![rs])?(?::[^}]*)?\}")  # a placeholder in a message
TEMPLATE = "messages.pot"
SHOWN = {"gettext": None, "ngettext": (1, 2), "_": None, "Translatable": None}
TEMPLATES = (".html", ".md")
JINJA = {"trimmed": "true", "newstyle_gettext": "true", "silent": "false"}
# Words that an audience does not use: its catalog rewords every message that contains one of them.
RESEARCHERS = (
    r"agents?|arms?|draw|draws|drawn|drew|drawing|rewards?|samples?|sampling|(?<!money )spent|mixed means?|bets?"
)
NOT_SAID = {
    "trial": re.compile(rf"\b({RESEARCHERS})\b", re.IGNORECASE),
    "experiment": re.compile(rf"\b({RESEARCHERS}|sites?)\b", re.IGNORECASE),
}
KEYS = re.compile(r"%\(\w+\)s|\{[^}]*\}|\bmax_\w+")  # placeholders and keys of the study file do not count as words


# Tables whose texts are shown to people: every row counts as marked.
REGISTRIES = {
    "settings.py": [
        *(row.sentence for row in SETTINGS.values()),
        *(word for words in CHOICES.values() for word in words),
    ],
    "text/status.py": [status.description for status in OutcomeStatus],
    "policies/base.py": [CLAIM, NO_GUARANTEE, RIGHT, RIGHT_WITHIN],
    "policies/regret_baselines.py": list(CLAIMS.values()),
    "rewards/base.py": [text for model in MODELS for text in (model.label, model.observed)],
    "protocol/events.py": [text for kind, event in EVENTS.items() for text in (event.template, kind.replace("-", " "))],
    "protocol/certificate.py": [WITHDRAWN, ADJUSTED, REMAIN, WITHOUT, GONE, *CORRECTED, SHARE, SHARE_AND],
    "protocol/corrections.py": [STANDS, WITHOUT_ERROR],
    "protocol/lost_sites.py": [ASKED_ANEW, BOTH_CHANGED, FEWER_ARMS],
    "protocol/report_checks.py": [
        *WARNED,
        VOIDS,
        UNEQUAL,
        SKEWED,
        OVERDISPERSED,
        *STATED.values(),
        *STATED_ONE.values(),
    ],
    "site/pages.py": list(CLOSING_REASONS.values()),
    "dashboard/pages/administration.py": [
        *REASONS.values(),
        *(text for act in ACTS.values() if act.command not in OWN_FORMS for text in form_of(act).messages),
    ],
    "dashboard/render.py": [*map(str, WORDS), TOO_LARGE],
    "coordinator/problems.py": [kind.title for kind in PROBLEMS.values()],
    "protocol/acts.py": [text for act in ACTS.values() for text in (act.button, act.heading)],
}


@cache
def extracted() -> Catalog:
    """Every message in the product, with the files that use it."""
    made = Catalog(charset="utf-8")
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in TEMPLATES and not (path.suffix == ".py" and b"translation import" in path.read_bytes()):
            continue
        method, options = ("jinja2.ext:babel_extract", JINJA) if path.suffix in TEMPLATES else ("python", {})
        place = path.relative_to(SRC).as_posix()
        for _, message, _, _ in extract_from_file(method, path, keywords=SHOWN, options=options):
            made.add(message, locations=[(place, 0)])
    for place, sentences in REGISTRIES.items():
        for sentence in filter(None, sentences):
            made.add(sentence, locations=[(place, 0)])
    return made


def not_said(audience: str, text: str) -> list[str]:
    """The words of a text that an audience does not use."""
    return NOT_SAID[audience].findall(KEYS.sub("", text))


def forms(message: Message) -> tuple[str, ...]:
    """The message, or its singular and plural."""
    return message.id if message.pluralizable else (message.id,)


def strings(message: Message) -> tuple[str, ...]:
    """The translation of a message, or those of its plural forms."""
    return tuple(message.string) if message.pluralizable else (message.string,)


def belongs(name: str, message: Message) -> bool:
    """Whether a message belongs in a catalog."""
    audience = name.rpartition("_")[2]
    return audience not in AUDIENCES or any(not_said(audience, form) for form in forms(message))


def folders() -> dict[str, Path]:
    """Folders of catalogs, by the edge that uses their messages; "" is the rest of Parley."""
    return {"": FOLDER} | {edge.name: edge.catalogs for edge in own_edges() if edge.catalogs is not None}


def owners(message: Message) -> set[str]:
    """The edges that use a message; only "" if it is used outside of edges too."""
    found = {place.split("/")[1] if place.startswith("edges/") else "" for place, _ in message.locations}
    return {""} if "" in found else found


def names(folder: Path = FOLDER) -> list[str]:
    """The names of all catalogs in a folder."""
    return sorted(path.stem for path in folder.glob("*.po"))


def language_of(name: str) -> str:
    """The language of a catalog; English if it is for an audience only."""
    return "en" if name in AUDIENCES else name.partition("_")[0]


@cache
def catalog(name: str, folder: Path = FOLDER) -> Catalog:
    """A catalog as it is stored."""
    with (folder / f"{name}.po").open("rb") as file:
        return read_po(file, locale=language_of(name), abort_invalid=True)


def texts() -> dict[Path, str]:
    """Every catalog file with the text that it should have; existing translations are kept."""
    every = [message for message in extracted() if message.id]
    silent = {owner for message in every for owner in owners(message)} - set(folders())
    if silent:
        raise SystemExit(f"edges with messages, but without `catalogs`: {', '.join(sorted(silent))}")
    # From every folder, so that a message keeps its translation when it moves from one folder to another.
    old = {name: [catalog(name, one) for one in folders().values() if name in names(one)] for name in names()}
    made = {}
    for owner, folder in folders().items():
        own = [message for message in every if owner in owners(message)]
        made[folder / TEMPLATE] = _text(own, Catalog(charset="utf-8"))
        for name in names():
            new = Catalog(locale=language_of(name), charset="utf-8")
            for message in (message for message in own if belongs(name, message)):
                found = filter(None, (one.get(forms(message)[0]) for one in old[name]))
                known = next((one for one in found if one.pluralizable == message.pluralizable), None)
                new.add(message.id, known.string if known else None, message.locations)
            if len(new) or (folder / f"{name}.po").exists():
                made[folder / f"{name}.po"] = _text((message for message in new if message.id), new)
    return made


def _text(messages: Iterable[Message], catalog: Catalog) -> str:
    """The text of a catalog without dates, line numbers and versions, so that it changes only with its messages."""
    out = Catalog(locale=catalog.locale, charset="utf-8")
    for message in messages:
        out.add(message.id, message.string, message.locations)
    written = io.BytesIO()
    write_po(written, out, width=120, omit_header=True, sort_output=True, include_lineno=False)
    head = [
        'msgid ""',
        'msgstr ""',
        '"Content-Type: text/plain; charset=utf-8\\n"',
        '"Content-Transfer-Encoding: 8bit\\n"',
    ]
    if catalog.locale is not None:
        head += [f'"Language: {catalog.locale}\\n"', f'"Plural-Forms: {catalog.plural_forms}\\n"']
    return "\n".join(head) + "\n\n" + written.getvalue().decode()
