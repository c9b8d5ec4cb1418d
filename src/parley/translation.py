"""Messages in the words of whoever reads them: catalogs of audiences and of languages, in `catalogs/`.

A message is written once, in English and in the researcher's words (agent, arm, draw, reward). `trial.po` has it as
people of a trial say it, `fr.po` in French, `fr_trial.po` in French as people of a trial say it. What a catalog lacks
is looked up in the next one: (language, audience), then language, then audience, then the message itself.

Values stand in a message as `%(name)s`, a per cent sign as `%%`. Nothing is assembled of translated pieces.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path

from parley.errors import needs

FOLDER = Path(__file__).parent / "catalogs"
AUDIENCES = ("trial", "experiment", "bandit")  # a catalog each, but for bandit: its words are those of the messages
LANGUAGES = ("en", *sorted(path.stem for path in FOLDER.glob("??.po")))  # of the page of a site
VALUE = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, eq=False)
class _Words:
    """The catalogs of one reader, and the messages with values as patterns, those with the most words first."""

    catalogs: NullTranslations
    patterns: tuple[tuple[re.Pattern[str], str], ...] = ()


_active: ContextVar[_Words] = ContextVar("_active", default=_Words(NullTranslations()))  # noqa: B039


@contextmanager
def reading(audience: str = "bandit", language: str = "en") -> Iterator[None]:
    """Within this context messages have the words of an audience, in a language.

    >>> with reading("trial"):
    ...     gettext("Go to agent"), ngettext("%(num)s arm", "%(num)s arms", 1200)
    ('Go to site', '1,200 treatments')
    >>> gettext("Go to agent")
    'Go to agent'
    """
    token = _active.set(_words(audience, language))
    try:
        yield
    finally:
        _active.reset(token)


def gettext(message: str, **values: object) -> str:
    """A message in the reader's words, with its values.

    >>> gettext("%(share)s %% of %(name)s", share=5, name="A")
    '5 % of A'
    """
    return _active.get().catalogs.gettext(message) % values


def ngettext(one: str, many: str, count: int, **values: object) -> str:
    """A message about one or many, in the reader's words; `num` is the count with thousands separators.

    >>> ngettext("%(num)s draw of %(arm)s", "%(num)s draws of %(arm)s", 1, arm="A")
    '1 draw of A'
    """
    return _active.get().catalogs.ngettext(one, many, count) % {"num": f"{count:,}", **values}


def marked(message: str) -> str:
    """The message as it is: the catalogs get it from here, and `gettext` or `retold` translates it where it is shown.

    >>> marked("every agent has its answer")
    'every agent has its answer'
    """
    return message


def retold(text: str) -> str:
    """A sentence that was made before anybody knew its reader (stored, or answered by the API), in the reader's words.

    It is found again among the messages of the catalogs, whatever values it has; one that is in none stays as it is.

    >>> with reading("trial"):
    ...     retold("3 agents"), retold("something else")
    ('3 sites', 'something else')
    """
    return _retold(_active.get(), text)


@lru_cache(maxsize=4096)
def _retold(words: _Words, text: str) -> str:
    if (found := words.catalogs.gettext(text.replace("%", "%%"))) != text.replace("%", "%%"):
        return found % {}
    for pattern, translation in words.patterns:
        if match := pattern.fullmatch(text):
            return translation % match.groupdict()
    return text


@cache
def _words(audience: str, language: str) -> _Words:
    """Read and compile the catalogs of a reader, once a process."""
    paths = [FOLDER / f"{name}.po" for name in (f"{language}_{audience}", language, audience)]
    made: NullTranslations = NullTranslations()
    patterns: list[tuple[re.Pattern[str], str]] = []
    for path in reversed([path for path in paths if path.exists()]):
        with needs("server", f"the words of {path.stem}"):
            from babel.messages.mofile import write_mo
            from babel.messages.pofile import read_po

        compiled = io.BytesIO()
        with path.open("rb") as file:
            catalog = read_po(file, abort_invalid=True)
        write_mo(compiled, catalog)
        compiled.seek(0)
        above = GNUTranslations(compiled)
        above.add_fallback(made)
        made = above
        for message in catalog:
            forms = (message.id, message.string) if message.pluralizable else ((message.id,), (message.string,))
            found = zip(*forms, strict=False)  # languages have other numbers of plural forms; singular is the first
            above_all = [(_pattern(one), text) for one, text in found if text and VALUE.search(one)]
            patterns = above_all + patterns
    return _Words(made, tuple(sorted(patterns, key=lambda row: -len(row[0].pattern))))


def _pattern(message: str) -> re.Pattern[str]:
    """What a message looks like with its values in it.

    >>> _pattern("%(arm)s: 5 %% of %(arm)s").fullmatch("A: 5 % of A")["arm"]
    'A'
    """
    seen: set[str] = set()
    parts = []
    for place, part in enumerate(VALUE.split(message)):
        if place % 2:  # a value
            parts.append(f"(?P={part})" if part in seen else f"(?P<{part}>.+?)")
            seen.add(part)
        else:
            parts.append(re.escape(part.replace("%%", "%")))
    return re.compile("".join(parts), re.DOTALL)


def language_of(accepted: str) -> str:
    """The language of ours that a browser likes best, by its `Accept-Language`.

    >>> language_of("xx;q=0.9, en-GB;q=0.8, *;q=0.1"), language_of("")
    ('en', 'en')
    """
    wanted = []
    for part in accepted[:1000].split(","):
        tag, _, weight = part.partition(";q=")
        share = float(weight) if re.fullmatch(r"[01](\.\d{1,3})?", weight.strip()) else float(not weight)
        wanted.append((-share, tag.strip().partition("-")[0].lower()))
    return next((tag for share, tag in sorted(wanted, key=lambda row: row[0]) if share and tag in LANGUAGES), "en")
