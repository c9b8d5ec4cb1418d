"""The terms of a study: all that is asked beside its arms, agents, weights and rewards, each spelled once.

A row of `Terms` is an attribute of every `Problem`, a key of the study file, a key of the wire message and of the
stored document, a line of the API's view, of the dashboard's form and of docs/study-file.md. A new term is one row
here, and the place that uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from parley.checks import LARGEST_SCALE, SMALLEST_SCALE, FloatArray, number, positive, real_array, whole
from parley.errors import InvalidInput, UnknownName

__all__ = [
    "NUMBER",
    "REQUIRED",
    "TERMS",
    "Key",
    "Names",
    "Term",
    "Terms",
    "above_zero",
    "arm_name",
    "at_least_zero",
    "check_kinds",
    "check_section",
    "choice",
    "counted",
    "fewer_than_arms",
    "full_name",
    "or_none",
    "per_agent",
    "per_cell",
    "plain",
    "probability",
    "term",
    "until",
]

NUMBER = (int, float)
LARGEST_CELL = 1_000_000
LARGEST_COUNT = 2**53  # what every reader of JSON tells apart
NUMBERS = (int, float, list)
SMALLEST_DELTA = 1e-300
REQUIRED = "required"
WORDS = {int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a section"}


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key: what TOML may hold there, what it means, and what counts when it is left out (both in Markdown).

    >>> Key(kinds=(int, list), meaning="how many arms, or their names", default=REQUIRED).allowed
    'a whole number or a list'
    """

    kinds: tuple[type, ...]
    meaning: str
    default: str = ""

    @property
    def allowed(self) -> str:
        """The kinds in words."""
        return " or ".join(WORDS[kind] for kind in self.kinds if not (kind is int and float in self.kinds))

    @property
    def plain(self) -> tuple[str, str]:
        """Meaning and default without Markdown.

        >>> Key(kinds=(str,), meaning="`wcpe`; see [policies](policies.md)", default="`wcpe`").plain
        ('wcpe; see policies', 'wcpe')
        """
        words = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text) for text in (self.meaning, self.default))
        meaning, default = (text.replace("`", "") for text in words)
        return meaning, default


def full_name(section: str, key: str) -> str:
    """How a key is named outside of its section.

    >>> full_name("privacy", "minimum_cell"), full_name("", "delta")
    ('privacy.minimum_cell', 'delta')
    """
    return f"{section}.{key}" if section else key


def check_section(name: str, section: Mapping[str, Any], known: Mapping[str, Key]) -> None:
    """An unknown key, or a value of another kind, is an error that names the key and what is allowed.

    >>> check_section("privacy", {"cell": 3}, {"minimum_cell": Key(kinds=(int,), meaning="")})
    Traceback (most recent call last):
        ...
    parley.errors.UnknownName: key in [privacy]: found 'cell'; allowed: one of minimum_cell
    """
    for key in section:
        if key not in known:
            raise UnknownName(f"key in [{name}]" if name else "key", key, known)
    check_kinds(name, section, known)


def check_kinds(name: str, section: Mapping[str, Any], known: Mapping[str, Key]) -> None:
    """The kinds of the values whose keys are known; others are somebody else's to check."""
    for key, value in section.items():
        row = known.get(key)
        if row is not None and (
            not isinstance(value, row.kinds) or (isinstance(value, bool) and bool not in row.kinds)
        ):
            raise InvalidInput(full_name(name, key), found=repr(value), allowed=row.allowed)


Names = tuple[str, ...]
Check = Callable[[str, Any, Names, Names], Any]  # key, value, arms, agents -> the value that a problem holds


@dataclass(frozen=True, kw_only=True)
class Term(Key):
    """One row: a key of the study file and where it stands, the default, the check, and the words for people."""

    name: str = ""  # of the attribute and in documents
    key: str = ""  # in the study file; the name where nothing else is said
    section: str = ""
    usual: Any
    check: Check
    told: str = ""  # a sentence on a value that is not the usual one; may name {value}, and {span} of many numbers
    always: bool = False  # written even where it is the usual one, as it was before there was a choice
    wish: bool = False  # who does not say that it honours it refuses a value that is not the usual one
    granted: tuple[Any, ...] = ()  # values that are no wish: everybody can do them
    before: Any = None  # what a document means that does not have it, where that is not the usual value
    needs: str = ""  # another term that must not be as usual where this one is not

    @property
    def place(self) -> str:
        """Its full name in the study file."""
        return full_name(self.section, self.key)

    def tell(self, value: Any) -> str:
        """The sentence on a value."""
        low, high = (0, 0) if isinstance(value, str) else (np.min(value), np.max(value))
        span = f"{low:,.10g}" if low == high else f"from {low:,.10g} to {high:,.10g}"
        shown = f"{value:,}" if type(value) is int and "{value}" in self.told else value
        return self.told.format(value=shown, span=span)


def term(usual: Any, kinds: tuple[type, ...], check: Check, meaning: str, *, default: str = "", **row: Any) -> Any:
    """A field of a dataclass with its row."""
    shown = default or str(usual)
    made = Term(usual=usual, kinds=kinds, check=check, meaning=meaning, default=shown, **row)
    return field(default=usual, metadata={"term": made})


def probability(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """A probability that is neither nothing nor certainty."""
    found = number(key, value)
    if not SMALLEST_DELTA <= found < 1:
        allowed = f"a number strictly between 0 and 1 (at least {SMALLEST_DELTA:g})"
        raise InvalidInput(key, found=found, allowed=allowed)
    return found


def fewer_than_arms(key: str, value: Any, arms: Names, _agents: Names) -> int:
    """How many arms to find: not all of them."""
    return whole(key, value, 1, len(arms) - 1, f"at least 1 and less than the number of arms, {len(arms)}")


def arm_name(key: str, value: Any, arms: Names, _agents: Names) -> str:
    """The name of an arm."""
    if not isinstance(value, str) or value not in arms:
        some = ", ".join(arms[:20]) + (", ..." if len(arms) > 20 else "")
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=f"the name of an arm: {some}")
    return value


def above_zero(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """A number above 0."""
    return positive(key, value)


def at_least_zero(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """A finite number that is not negative."""
    found = number(key, value)
    if not 0 <= found <= LARGEST_SCALE:
        raise InvalidInput(key, found=found, allowed=f"a number of at least 0 (at most {LARGEST_SCALE:g})")
    return found


def counted(least: int, most: int) -> Check:
    """A whole number within limits."""
    return lambda key, value, _arms, _agents: whole(key, value, least, most)


def choice(*words: str) -> Check:
    """One of a few words."""

    def check(key: str, value: Any, _arms: Names, _agents: Names) -> str:
        if not isinstance(value, str) or value not in words:
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=" or ".join(f'"{word}"' for word in words))
        return value

    return check


def until(most: int, word: str) -> Check:
    """A whole number of at least 1, or one word."""

    def check(key: str, value: Any, _arms: Names, _agents: Names) -> int | str:
        if isinstance(value, str) or not isinstance(value, int | np.integer):
            if value == word:
                return word
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=f'a whole number or "{word}"')
        return whole(key, value, 1, most)

    return check


def or_none(check: Check) -> Check:
    """Nothing, or what the check takes."""
    return lambda key, value, arms, agents: None if value is None else check(key, value, arms, agents)


def per_cell(key: str, value: Any, arms: Names, agents: Names) -> FloatArray:
    """Numbers of at least 0, `(arm, agent)`, from one number, one per agent, or a row per arm."""
    shape = (len(arms), len(agents))
    words = f"a number, {shape[1]} numbers (one per agent), or {shape[0]} rows (arms) of {shape[1]} numbers (agents)"
    return _broadcast(key, value, shape, words)


def per_agent(key: str, value: Any, _arms: Names, agents: Names) -> FloatArray:
    """Numbers of at least 0, `(agent,)`, from one number or one per agent."""
    return _broadcast(key, value, (len(agents),), f"a number or {len(agents)} numbers (one per agent)")


def _broadcast(key: str, value: Any, shape: tuple[int, ...], words: str) -> FloatArray:
    array = real_array(key, value, words)
    if array.shape not in (shape[place:] for place in range(len(shape) + 1)):
        raise InvalidInput(key, found=f"numbers of shape {array.shape}", allowed=words)
    possible = (array == 0) | ((array >= SMALLEST_SCALE) & (array <= LARGEST_SCALE))
    if not possible.all():
        wrong = array[~possible][0]
        allowed = f"0, or numbers from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}"
        raise InvalidInput(key, found=f"{wrong:g}", allowed=allowed)
    return np.broadcast_to(np.array(plain(array)), shape)  # a view: one price for a million cells is one number


def plain(value: Any) -> Any:
    """An array as a number where all entries agree, as one row where all rows do, else in full.

    >>> plain(np.full((2, 3), 5.0)), plain(np.array([[1.0, 2.0], [1.0, 2.0]]))
    (5.0, [1.0, 2.0])
    """
    if not isinstance(value, np.ndarray):
        return value
    while value.ndim and (value.strides[0] == 0 or (value == value[0]).all()):
        value = value[0]
    return value.tolist()


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The rows. The order is that of the tables in the docs."""

    # fmt: off
    delta: float = term(
        0.1, NUMBER, probability, "largest probability that any agent's answer is wrong, between 0 and 1", always=True,
    )
    top: int = term(
        1, (int,), fewer_than_arms, "N: find each agent's N best arms; at least 1, less than the number of arms",
        always=True,
    )
    largest_gap: float = term(
        1.0, NUMBER, above_zero, "no gap between mixed means can be larger; sets the scale at which W-CPE starts",
        always=True,
    )
    tolerance: float = term(
        0.0, NUMBER, at_least_zero, "an arm within it of the best (of the N-th best) is an answer too; at least 0",
        told="an arm within {value:g} of the best is an answer", wish=True,
    )
    max_samples: int | None = term(
        None, (int,), or_none(counted(1, LARGEST_COUNT)), "draws in all after which the study ends, decided or not",
        default="no limit", told="it ends after {value:,} samples at most", wish=True,
    )
    max_rounds: int | None = term(
        None, (int,), or_none(counted(1, LARGEST_CELL)), "phases after which the study ends, decided or not",
        default="no limit", told="it ends after {value:,} rounds at most", wish=True,
    )
    control: str | None = term(
        None, (str,), or_none(arm_name), "the arm with which the others are compared in estimates",
        default="none", told="arms are compared with {value}", wish=True,
    )
    horizon: int | str | None = term(
        None, (int, str), or_none(until(LARGEST_COUNT, "open")),
        'draws per agent, all of which count: play while learning; `"open"`: nobody knows yet how many',
        default="none: find the answer and stop", told="agents play while they learn (horizon {value})", wish=True,
    )
    minimum_cell: int = term(
        1, (int,), counted(1, LARGEST_CELL),
        "whoever is asked to draw an arm in a phase is asked for at least this many draws of it, so that no reported "
        f"sum covers fewer; a whole number from 1 to {LARGEST_CELL:,}",
        section="privacy", told="no cell of a phase has fewer than {value:,} draws",
    )
    price: FloatArray = term(
        1.0, NUMBERS, per_cell, "what a draw costs: a number, one per agent, or a row per arm with a column per agent; "
        "0 only together with `day_cost`",
        section="sampling", told="a draw costs {span}",
    )
    rate: FloatArray | None = term(
        None, NUMBERS, or_none(per_agent), "draws a day: a number, or one per agent; 0 only for who has no weight",
        default="not known", section="sampling", told="agents make {span} draws a day",
    )
    day_cost: float = term(
        0.0, NUMBER, at_least_zero, "what a day of the study is worth, in the unit of `price`; needs `rate`",
        section="sampling", told="a day costs {value:,.10g}", needs="rate",
    )
    round_days: float = term(
        0.0, NUMBER, at_least_zero, "days that a round takes beside its draws: to collect, decide and start again; "
        "needs `rate`",
        section="sampling", told="a round takes {value:,.10g} days beside its draws", needs="rate",
    )
    delay: FloatArray = term(
        0.0, NUMBERS, per_agent, "days from a draw to its outcome: a number, or one per agent; a phase waits for the "
        "outcomes of its last draws; needs `rate`",
        section="sampling", told="days from a draw to its outcome: {span}", needs="rate",
    )
    site_counts: str | None = term(
        None, (str,), or_none(choice("exact", "flexible")),
        '`"exact"`: a report has the counts that the plan asks for. `"flexible"`: it may have others, with a '
        "[reason that is not in the rewards](site.md#other-counts-than-planned)",
        default='`"flexible"` where the policy\'s guarantee stays, else `"exact"`', section="sites", key="counts",
        wish=True, granted=("exact",), told="the counts of reports are {value}",
    )
    between: str = term(
        "outside", (str,), choice("outside", "leading"),
        'who comes to a site when its phase needs nobody more stays `"outside"` of the study, or gets the `"leading"` '
        "arm of the plan without being counted",
        default='`"outside"`', section="sites", told="who comes between phases gets the plan's {value} arm",
    )
    rules: int = term(
        3, (int,), counted(1, 3),
        "the edition of Parley's rules that decides. 1 is what studies follow that were stored before there was a "
        "choice; since 2 agents with the same weights pay for one question, and plans know who is frozen; since 3 an "
        "agent's leaders go on leading until another arm is better by a quarter of the tolerance, the top N are tested "
        "as one set (one arm: as before), and a report with a mean that the stated model rules out is held",
        told="it follows edition {value} of the rules", before=1,
    )
    # fmt: on

    def _check_terms(self, arms: Names, agents: Names) -> None:
        for row in TERMS.values():
            object.__setattr__(self, row.name, row.check(row.place, getattr(self, row.name), arms, agents))
        unusual = self.unusual()
        for row in map(TERMS.__getitem__, unusual):
            if row.needs and row.needs not in unusual:
                allowed = f"{row.usual} without {TERMS[row.needs].place}"
                raise InvalidInput(row.place, found=unusual[row.name], allowed=allowed)
        if self.day_cost == 0 and np.any(np.equal(plain(self.price), 0)):
            allowed = "numbers above 0, or 0 together with sampling.day_cost: what is free would be drawn without end"
            raise InvalidInput("sampling.price", found=0, allowed=allowed)

    def terms(self) -> dict[str, Any]:
        """Every term as plain JSON, by name; an array in the fewest numbers that say the same."""
        return {name: plain(getattr(self, name)) for name in TERMS}

    def unusual(self) -> dict[str, Any]:
        """The terms that are not as usual, plain, by name: none for a study that asks for nothing special."""
        return {name: value for name, value in self.terms().items() if value != TERMS[name].usual}

    def stored(self) -> dict[str, Any]:
        """What a document holds: a term at its default is left out, so that older documents keep their digest."""
        silent = {row.name: row.usual if row.before is None else row.before for row in TERMS.values() if not row.always}
        return {name: value for name, value in self.terms().items() if name not in silent or value != silent[name]}

    def refuse(self, who: str, honours: frozenset[str], hint: str | None = None) -> None:
        """What was asked for is done or refused, never passed over: raise for a wish that `who` does not honour."""
        for name, value in self.unusual().items():
            if TERMS[name].wish and value not in TERMS[name].granted and name not in honours:
                usual = TERMS[name].usual
                allowed = f"{'nothing' if usual is None else usual!r}: {who} does not take {TERMS[name].place}"
                raise InvalidInput(TERMS[name].place, found=f"{value!r:.60}", allowed=allowed, hint=hint)

    def told(self) -> dict[str, str]:
        """Key of the study file -> a sentence, for every unusual term that a reader should hear of."""
        rows = ((TERMS[name], value) for name, value in self.unusual().items())
        return {row.place: row.tell(value) for row, value in rows if row.told}


TERMS: dict[str, Term] = {
    row.name: replace(row.metadata["term"], name=row.name, key=row.metadata["term"].key or row.name)
    for row in fields(Terms)
}
