"""Messages in the words of their reader: catalogs of audiences and of languages, in `catalogs/`; edges bring theirs.

A message is written once, in English and in the researcher's words (agent, arm, draw, reward). `trial.po` has it as
people of a trial say it, `fr.po` in French, `fr_trial.po` in French as people of a trial say it. What a catalog lacks
is looked up in the next one: (language, audience), then language, then audience, then the message itself.

Values stand in a message as `%(name)s`, a per cent sign as `%%`. Lower rooms make sentences before anybody knows who
reads them: as `Translatable`, which is the English text and also carries its message (the template, with values as
`{name}`) and the values. Pages show it `translated`. What is stored keeps both beside the text: `messages_of`. Words
of ours that are stored as plain text among such values are a `phrase`: they are recognised when they are shown.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from gettext import GNUTranslations, NullTranslations
from numbers import Real
from pathlib import Path
from string import Formatter
from typing import Any, Self

from parley.errors import needs
from parley.hooks import edges

PLAIN_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?")
FOLDER = Path(__file__).parent / "catalogs"
AUDIENCES = ("trial", "experiment", "bandit")  # one catalog each, except bandit: messages are in its words
LANGUAGES = ("en", *sorted(path.stem for path in FOLDER.glob("??.po")))  # of a site's page


@dataclass(frozen=True, eq=False)
class _Words:
    """The catalogs of one reader."""

    catalogs: NullTranslations
    language: str = "en"


_active: ContextVar[_Words] = ContextVar("_active", default=_Words(NullTranslations()))  # noqa: B039


@contextmanager
def reading(audience: str = "bandit", language: str = "en") -> Iterator[None]:
    """Within a `with` block, messages are in an audience's words and in a language.

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
    """A message about one or many things, in the reader's words; `num` is the count with thousands separators.

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
    return localized(f"{float(f'{value:.10g}'):,.10g}")


def localized(number: str) -> str:
    """A number as Python writes it, with the separators of the reader's language.

    >>> with reading("bandit", "de"):
    ...     localized("-1,234.50")
    '-1.234,50'
    """
    if language() == "en":
        return number
    signs = _separators(language())
    return re.sub("[,.]", lambda found: signs[found[0]], number)


@cache
def _separators(language: str) -> dict[str, str]:
    from babel.numbers import get_decimal_symbol, get_group_symbol

    return {",": get_group_symbol(language), ".": get_decimal_symbol(language)}


def fixed(value: float, digits: int) -> str:
    """A number with that many decimals, as the reader's language writes it.

    >>> fixed(1234.5, 2)
    '1,234.50'
    """
    if language() == "en":
        return f"{value:,.{digits}f}"
    from babel.numbers import format_decimal

    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return format_decimal(Decimal(f"{value:.{digits}f}"), format=pattern, locale=language())


class Translatable(str):
    """English text that remembers the message it was made from (its key in the catalogs) and its values.

    Everything that takes text takes it as it is, so files, commands and JSON have the English text. A value may be
    translatable itself; text added before or after is not translated.

    >>> said = Translatable("it ends after {value:,} samples at most", value=1200)
    >>> said, said.message, said.values
    ('it ends after 1,200 samples at most', 'it ends after {value:,} samples at most', {'value': 1200})
    """

    message: str
    values: dict[str, Any]  # by name; positional ones by number

    def __new__(cls, message: str, *positional: Any, **named: Any) -> Self:
        made = super().__new__(cls, message.format(*positional, **named))
        made.message = message
        made.values = {**{str(index): value for index, value in enumerate(positional)}, **named}
        return made

    def __reduce__(self) -> tuple[Any, ...]:  # for pickling
        return _made_from, (self.message, self.values)

    def __add__(self, other: str) -> str:
        return Translatable("{0}{1}", self, other) if other else self

    def __radd__(self, other: str) -> str:
        return Translatable("{0}{1}", other, self) if other else self

    def contains(self, message: str) -> bool:
        """Whether it, or one of its values, was made from this message."""
        inner = (value for value in self.values.values() if isinstance(value, Translatable))
        return self.message == message or any(value.contains(message) for value in inner)

    def to_json(self) -> dict[str, Any]:
        """Message and values, recursively."""
        values = {
            key: value.to_json() if isinstance(value, Translatable) else value for key, value in self.values.items()
        }
        return {"message": self.message, "values": values}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The text that `to_json` stored.

        >>> said = Translatable("{0}, {late}", Translatable("{agent!r} left", agent="Lyon"), late=2.5)
        >>> Translatable.from_json(said.to_json()).values == said.values
        True
        """
        values = {
            key: cls.from_json(value) if isinstance(value, Mapping) else value
            for key, value in document["values"].items()
        }
        return cls(document["message"], *_positional(values), **_named(values))


def _made_from(message: str, values: Mapping[str, Any]) -> Translatable:
    return Translatable(message, *_positional(values), **_named(values))


def _positional(values: Mapping[str, Any]) -> list[Any]:
    return [values[key] for key in sorted(filter(str.isdecimal, values), key=int)]


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not key.isdecimal()}


def joined(separator: str, parts: Iterable[str]) -> str:
    """Texts joined by a separator; some may be translatable.

    >>> joined("; ", ["A", Translatable("{0} samples", 3)]).values
    {'0': 'A', '1': '; ', '2': '3 samples'}
    """
    first, *rest = parts
    pieces = [first, *(piece for part in rest for piece in (separator, part))]
    return Translatable("".join(f"{{{index}}}" for index in range(len(pieces))), *pieces) if rest else first


def messages_of(texts: Iterable[str]) -> dict[str, Any]:
    """What to store beside texts so that they can be translated later: text -> its message and values."""
    return {str(text): text.to_json() for text in texts if isinstance(text, Translatable)}


_phrases: dict[str, list[tuple[re.Pattern[str], str]]] = {}  # message, or "" for any -> fragments, as patterns


def phrase(template: str, *, of: str = "") -> str:
    """A fragment that is stored as plain text, within sentences made from the message `of`, or anywhere.

    A name must never be mistaken for a fragment, so a fragment of one or two words has to name its message.

    >>> with_tea = phrase("with {0} of tea", of="made {how}")
    >>> translated(Translatable("made {how}", how=with_tea.format("2.5 l")))
    'made with 2.5 l of tea'
    """
    parts = [re.escape(text) + ("" if name is None else "(.+?)") for text, name, _, _ in Formatter().parse(template)]
    _phrases.setdefault(of, []).append((re.compile("".join(parts)), template))
    return template


def phrases() -> list[str]:
    """Every phrase, for the catalogs."""
    return sorted({template for some in _phrases.values() for _, template in some})


def translated(text: str, messages: Mapping[str, Any] | None = None) -> str:
    """A text in the reader's words, if it is translatable or if `messages` has its message.

    >>> said = Translatable("it ends after {value:,} samples at most", value=9)
    >>> with reading("trial"):
    ...     translated(said), translated(str(said)), translated(str(said), messages_of([said]))
    ('it ends after 9 participants at most', 'it ends after 9 samples at most', 'it ends after 9 participants at most')
    """
    if not isinstance(text, Translatable):
        found = (messages or {}).get(text)
        return _phrased(text) if found is None else translated(Translatable.from_json(found))
    values = {key: _value(value, text.message) for key, value in text.values.items()}
    return _LOCALIZED.vformat(_active.get().catalogs.gettext(text.message), _positional(values), _named(values))


def _value(value: Any, message: str) -> Any:
    """A value of a message, translated if it is one of our texts."""
    if not isinstance(value, str):
        return value
    return translated(value) if isinstance(value, Translatable) else _phrased(value, message)


def _phrased(text: str, *messages: str) -> str:
    """A plain text in the reader's words, if it is a phrase of these messages or of any."""
    for pattern, template in (one for message in (*messages, "") for one in _phrases.get(message, ())):
        if (found := pattern.fullmatch(text)) is not None:
            values = [
                localized(one) if PLAIN_NUMBER.fullmatch(one) else _phrased(one, template, *messages)
                for one in found.groups()
            ]
            return _active.get().catalogs.gettext(template).format(*values)
    return text


class _Localized(Formatter):
    """`str.format`, with numbers as the reader's language writes them and phrases in its words."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found, first = super().get_field(field_name, args, kwargs)
        return (translated(found) if isinstance(found, str) and "." in field_name else found), first

    def format_field(self, value: Any, format_spec: str) -> str:
        shown = format(value, format_spec)
        return localized(shown) if isinstance(value, Real) and not isinstance(value, bool) else shown


_LOCALIZED = _Localized()


def folders() -> list[Path]:
    """The folders of catalogs: Parley's own, then those of edges."""
    return [FOLDER, *(edge.catalogs for edge in edges() if edge.catalogs is not None)]


@cache
def _words(audience: str, language: str) -> _Words:
    """A reader's catalogs, compiled once per process."""
    names = (f"{language}_{audience}", language, audience)
    # Folder by folder, so that no edge can override Parley's own messages.
    paths = [folder / f"{name}.po" for folder in folders() for name in names]
    made: NullTranslations = NullTranslations()
    for path in reversed([path for path in paths if path.exists()]):
        above = GNUTranslations(io.BytesIO(_compiled(path)))
        above.add_fallback(made)
        made = above
    return _Words(made, language)


@cache
def _compiled(path: Path) -> bytes:
    """A catalog in the form that is looked up: the audiences share that of their language."""
    with needs("server", f"the words of {path.stem}"):
        from babel.messages.mofile import write_mo
        from babel.messages.pofile import read_po

    compiled = io.BytesIO()
    with path.open("rb") as file:
        catalog = read_po(file, abort_invalid=True)
    write_mo(compiled, catalog)
    return compiled.getvalue()


def language_of(accepted: str) -> str:
    """The supported language that a browser prefers, by its `Accept-Language`.

    >>> language_of("xx;q=0.9, en-GB;q=0.8, *;q=0.1"), language_of("")
    ('en', 'en')
    """
    wanted = []
    for part in accepted[:1000].split(","):
        tag, _, weight = part.partition(";q=")
        share = float(weight) if re.fullmatch(r"[01](\.\d{1,3})?", weight.strip()) else float(not weight)
        wanted.append((-share, tag.strip().partition("-")[0].lower()))
    return next((tag for share, tag in sorted(wanted, key=lambda row: row[0]) if share and tag in LANGUAGES), "en")
