"""Messages in the words of their reader, from catalogs of audiences and languages in `catalogs/` and in edges.

A message is written once, in English and in the researcher's words (agent, arm, draw, reward). `trial.po` has it in the
words of people in a trial, `fr.po` in French, `fr_trial.po` in French and in the words of people in a trial. A message
that a catalog lacks is looked up in the next one: (language, audience), then language, then audience. If no catalog has
the message, the message itself is used.

In a message, a value is written `%(name)s` and a per cent sign `%%`. Packages that make sentences before the reader is
known use `Translatable`: the English text, which also carries its message (the template, with values as `{name}`) and
the values. Words of Parley among the values are translatable themselves; plain text is somebody's own, and is never
translated. Pages show `translated(text)`. Stored documents keep message and values beside the text (`messages_of`).
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

FOLDER = Path(__file__).parent / "catalogs"
AUDIENCES = ("trial", "experiment", "bandit")  # one catalog each, except bandit: messages are in its words
LANGUAGES = ("en", *sorted(path.stem for path in FOLDER.glob("??.po")))  # in which a site's page can be shown


@dataclass(frozen=True, eq=False)
class _Words:
    """The catalogs and the language of one reader."""

    catalogs: NullTranslations
    language: str = "en"


_active: ContextVar[_Words] = ContextVar("_active", default=_Words(NullTranslations()))  # noqa: B039


@contextmanager
def reading(audience: str = "bandit", language: str = "en") -> Iterator[None]:
    """Use an audience's words and a language for all messages in a `with` block.

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
    """A message in the reader's language, with its values filled in.

    >>> gettext("%(share)s %% of %(name)s", share=5, name="A")
    '5 % of A'
    """
    return _active.get().catalogs.gettext(message) % values


def ngettext(one: str, many: str, count: int, **values: object) -> str:
    """A message in the reader's language, singular or plural by `count`; `num` is the count with thousands separators.

    >>> ngettext("%(num)s draw of %(arm)s", "%(num)s draws of %(arm)s", 1, arm="A")
    '1 draw of A'
    """
    return _active.get().catalogs.ngettext(one, many, count) % {"num": figure(count), **values}


def language() -> str:
    """The code of the reader's language, such as "en"."""
    return _active.get().language


def figure(value: float) -> str:
    """A number with up to ten digits, as the reader's language writes it.

    >>> figure(1200), figure(0.1 + 0.2)
    ('1,200', '0.3')
    """
    return localized(f"{float(f'{value:.10g}'):,.10g}")


def localized(number: str) -> str:
    """A number formatted by Python, rewritten with the separators of the reader's language.

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
    """A number with `digits` decimals, as the reader's language writes it.

    >>> fixed(1234.5, 2)
    '1,234.50'
    """
    if language() == "en":  # without Babel, which is an optional package
        return f"{value:,.{digits}f}"
    from babel.numbers import format_decimal

    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return format_decimal(Decimal(f"{value:.{digits}f}"), format=pattern, locale=language())


class Translatable(str):
    """English text that remembers the message it was made from (its key in the catalogs) and its values.

    It is a plain string to all code that takes text, so files, commands and JSON have the English text. A value may be
    translatable itself; text added before or after is not translated.

    >>> said = Translatable("the study ends after at most {value:,} samples", value=1200)
    >>> said, said.message, said.values
    ('the study ends after at most 1,200 samples', 'the study ends after at most {value:,} samples', {'value': 1200})
    """

    message: str
    values: dict[str, Any]  # by name; positional values by number

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
        """Whether this text, or one of its values, was made from the given message."""
        inner = (value for value in self.values.values() if isinstance(value, Translatable))
        return self.message == message or any(value.contains(message) for value in inner)

    def to_json(self) -> dict[str, Any]:
        """The message and its values as JSON, including the messages of translatable values."""
        values = {
            key: value.to_json() if isinstance(value, Translatable) else value for key, value in self.values.items()
        }
        return {"message": self.message, "values": values}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore a text from the JSON of `to_json`.

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
    """Join texts, some of which may be translatable, by a separator.

    >>> joined("; ", ["A", Translatable("{0} samples", 3)]).values
    {'0': 'A', '1': '; ', '2': '3 samples'}
    """
    first, *rest = parts
    pieces = [first, *(piece for part in rest for piece in (separator, part))]
    return Translatable("".join(f"{{{index}}}" for index in range(len(pieces))), *pieces) if rest else first


def messages_of(texts: Iterable[str]) -> dict[str, Any]:
    """The messages and values of translatable texts, by text; stored so that the texts can be translated later."""
    return {str(text): text.to_json() for text in texts if isinstance(text, Translatable)}


def numeral(value: float, form: str) -> Translatable:
    """A number as a value of a message that states no format for it: each reader sees it with their own separators.

    >>> numeral(1234.5, ",.1f")
    '1,234.5'
    """
    return Translatable(f"{{0:{form}}}", value)


def translated(text: str, messages: Mapping[str, Any] | None = None) -> str:
    """A text in the reader's language if it is translatable or `messages` has its message; otherwise the text itself.

    >>> said = Translatable("the study ends after at most {value:,} samples", value=9)
    >>> with reading("trial"):
    ...     translated(said) == translated(str(said), messages_of([said])), translated(str(said)), translated(said)
    (True, 'the study ends after at most 9 samples', 'the study ends after at most 9 participants')
    """
    if not isinstance(text, Translatable):
        found = (messages or {}).get(text)
        return text if found is None else translated(Translatable.from_json(found))
    values = {key: translated(value) if isinstance(value, str) else value for key, value in text.values.items()}
    return _LOCALIZED.vformat(_active.get().catalogs.gettext(text.message), _positional(values), _named(values))


class _Localized(Formatter):
    """`str.format` that writes numbers, and translatable attributes of values, in the reader's language."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found, first = super().get_field(field_name, args, kwargs)
        return (translated(found) if isinstance(found, str) and "." in field_name else found), first

    def format_field(self, value: Any, format_spec: str) -> str:
        shown = format(value, format_spec)
        return localized(shown) if isinstance(value, Real) and not isinstance(value, bool) else shown


_LOCALIZED = _Localized()


def folders() -> list[Path]:
    """The folders of catalogs: Parley's own folder, then the folders of edges."""
    return [FOLDER, *(edge.catalogs for edge in edges() if edge.catalogs is not None)]


@cache
def _words(audience: str, language: str) -> _Words:
    """A reader's catalogs, compiled once per process."""
    names = (f"{language}_{audience}", language, audience)
    # Catalogs are tried folder by folder, so that no edge can override Parley's own messages.
    paths = [folder / f"{name}.po" for folder in folders() for name in names]
    made: NullTranslations = NullTranslations()
    # The chain is built from the last catalog to the first, because every catalog needs its fallback.
    for path in reversed([path for path in paths if path.exists()]):
        above = GNUTranslations(io.BytesIO(_compiled(path)))
        above.add_fallback(made)
        made = above
    return _Words(made, language)


@cache
def _compiled(path: Path) -> bytes:
    """A catalog compiled for lookup; cached, since all audiences of a language use that language's catalog."""
    with needs("server", f"the words of {path.stem}"):
        from babel.messages.mofile import write_mo
        from babel.messages.pofile import read_po

    compiled = io.BytesIO()
    with path.open("rb") as file:
        catalog = read_po(file, abort_invalid=True)
    write_mo(compiled, catalog)
    return compiled.getvalue()


def language_of(accepted: str) -> str:
    """The supported language that a browser prefers by its `Accept-Language` header; English if it prefers none.

    >>> language_of("xx;q=0.9, en-GB;q=0.8, *;q=0.1"), language_of("")
    ('en', 'en')
    """
    wanted = []
    for part in accepted[:1000].split(","):
        tag, _, weight = part.partition(";q=")
        share = float(weight) if re.fullmatch(r"[01](\.\d{1,3})?", weight.strip()) else float(not weight)
        wanted.append((-share, tag.strip().partition("-")[0].lower()))
    return next((tag for share, tag in sorted(wanted, key=lambda row: row[0]) if share and tag in LANGUAGES), "en")
