"""Messages in the words of their reader: catalogs of audiences and of languages, in `catalogs/`.

A message is written once, in English and in the researcher's words (agent, arm, draw, reward). `trial.po` has it as
people of a trial say it, `fr.po` in French, `fr_trial.po` in French as people of a trial say it. What a catalog lacks
is looked up in the next one: (language, audience), then language, then audience, then the message itself.

Values stand in a message as `%(name)s`, a per cent sign as `%%`. Sentences of lower rooms, which are stored or
sent before anybody knows who reads them, are `marked` there, with values as `{name}`; pages show them `retold`.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from gettext import GNUTranslations, NullTranslations
from pathlib import Path

from parley.errors import needs

FOLDER = Path(__file__).parent / "catalogs"
AUDIENCES = ("trial", "experiment", "bandit")  # a catalog each, but for bandit: its words are those of the messages
LANGUAGES = ("en", *sorted(path.stem for path in FOLDER.glob("??.po")))  # of the page of a site
VALUE = re.compile(r"%\((\w+)\)s|\{([\w.]+)(?:![rs])?(?::[^}]*)?\}")
RETOLD = "retold"  # the comment in the catalogs on messages that lower rooms make
WORDS = 4  # such a message of as many words is a clause, which is looked for within longer texts too


@dataclass(frozen=True, eq=False)
class _Words:
    """The catalogs of one reader; the messages to retell as patterns with their translations, the longest first."""

    catalogs: NullTranslations
    language: str = "en"
    patterns: tuple[tuple[re.Pattern[str], str], ...] = ()
    clauses: tuple[tuple[re.Pattern[str], str], ...] = ()  # those that may be a part of a longer text


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
    return _active.get().catalogs.ngettext(one, many, count) % {"num": figure(count), **values}


def language() -> str:
    """The reader's language."""
    return _active.get().language


def figure(value: float) -> str:
    """A number as the reader's language writes it.

    >>> figure(1200), figure(0.1 + 0.2)
    ('1,200', '0.3')
    """
    short = float(f"{value:.10g}")
    if language() == "en":
        return f"{short:,.10g}"
    from babel.numbers import format_decimal

    return format_decimal(short, locale=language(), decimal_quantization=False)


def marked(message: str) -> str:
    """The message as it is: the catalogs get it from here, and `gettext` or `retold` translates it where it is shown.

    >>> marked("every agent has its answer")
    'every agent has its answer'
    """
    return message


def retold(text: str) -> str:
    """A sentence that was made before anybody knew its reader (stored, or answered by the API), in the reader's words.

    It is found again among the messages of the catalogs, whatever values it has; otherwise each clause that is found.

    >>> with reading("trial"):
    ...     retold("it ends after 9 samples at most"), retold("all right: kept, if the reason is not in the rewards")
    ('it ends after 9 participants at most', 'all right: kept, if the reason is not in the outcomes')
    """
    return _retold(_active.get(), text)


@lru_cache(maxsize=4096)
def _retold(words: _Words, text: str) -> str:
    for pattern, translation in words.patterns:
        if match := pattern.fullmatch(text):
            return _filled(match, translation)
    for pattern, translation in words.clauses:
        text = pattern.sub(partial(_filled, translation=translation), text)
    return text


def _filled(match: re.Match[str], translation: str) -> str:
    """The translation with the values of a match."""
    return VALUE.sub(lambda value: match[_group(value[1] or value[2])], translation.replace("%%", "%"))


def _group(name: str) -> str:
    """The name of a value as that of a group: an event's template has `{0.phase}`."""
    return f"v_{name.replace('.', '_')}"


@cache
def _words(audience: str, language: str) -> _Words:
    """Read and compile the catalogs of a reader, once a process."""
    paths = [FOLDER / f"{name}.po" for name in (f"{language}_{audience}", language, audience)]
    made: NullTranslations = NullTranslations()
    rows: dict[str, str] = {}
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
        rows |= {str(one.id): str(one.string) for one in catalog if RETOLD in one.auto_comments and one.string}
    longest = [(one, _pattern(one), rows[one]) for one in sorted(rows, key=len, reverse=True)]
    patterns = tuple((pattern, text) for _, pattern, text in longest)
    clauses = tuple(
        (pattern, text) for one, pattern, text in longest if len(one.split()) >= WORDS and _ends(one) == _ends(text)
    )
    return _Words(made, language, patterns, clauses)


def _ends(message: str) -> tuple[str, ...]:
    """The values at both ends: in a clause of a longer text nobody knows where these begin and end."""
    values = list(VALUE.finditer(message))
    return tuple(value[0] for value in values if value.start() == 0 or value.end() == len(message))


def _pattern(message: str) -> re.Pattern[str]:
    """What a message looks like with its values in it.

    >>> _pattern("%(arm)s: 5 %% of %(arm)s").fullmatch("A: 5 % of A")["v_arm"]
    'A'
    """
    seen: set[str] = set()
    parts, place = [], 0
    for value in VALUE.finditer(message):
        name = _group(value[1] or value[2])
        parts.append(re.escape(message[place : value.start()].replace("%%", "%")))
        parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>.+?)")
        seen.add(name)
        place = value.end()
    return re.compile("".join([*parts, re.escape(message[place:].replace("%%", "%"))]), re.DOTALL)


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
