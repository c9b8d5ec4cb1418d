"""The settings of a study: everything that it states besides its arms, agents, weights and rewards.

Each setting is one row of `StudySettings`. The row makes it an attribute of every `Problem`, a key of the study file,
of the wire message and of the stored document, a field of the API and of the dashboard's form, and a line of
docs/study-file.md. To add a setting, write its row here and the code that uses it.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from parley.errors import InvalidInput, UnknownName
from parley.text.translation import AUDIENCES, Translatable
from parley.validation import checks
from parley.validation.checks import (
    IN_WORDS,
    LARGEST_COUNT,
    LARGEST_SCALE,
    SMALLEST_SCALE,
    FloatArray,
    positive,
    real_array,
    whole,
)

NUMBER = (int, float)
LARGEST_CELL = 1_000_000
BETWEEN_PHASES, COUNTS_ARE = (
    "rule for people who come between phases: {value}",
    "the counts of reports are {value}",
)
# These sentences contain a value that is a word, so the words are translated too.
CHOICES = {BETWEEN_PHASES: ("leading", "assign"), COUNTS_ARE: ("exact", "flexible")}
MOST_HALVINGS = 6  # how often the distance between two steps of weights in doubt may be halved
NUMBERS = (int, float, list)
SMALLEST_DELTA = 1e-300
REQUIRED = "required"
TYPES: dict[type, tuple[str, str]] = {  # type -> its name for people, and in JSON Schema
    int: (IN_WORDS[int], "integer"),
    float: (IN_WORDS[float], "number"),
    bool: (IN_WORDS[bool], "boolean"),
    str: (IN_WORDS[str], "string"),
    list: (IN_WORDS[list], "array"),
    dict: ("a section", "object"),
}


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of the study file: the types it accepts, its meaning and its default (both in Markdown).

    The parser of the file, the form for a new study and the tables of docs/study-file.md all use this row.

    >>> Key(kinds=(int, list), meaning="how many arms, or their names", default=REQUIRED).allowed
    'a whole number or a list'
    >>> Key(kinds=(bool,), meaning="whether to do it").allowed
    'true or false'
    """

    kinds: tuple[type, ...]
    meaning: str
    default: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict, hash=False)  # limits in JSON Schema's keywords, for editors

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of this key.

        >>> Key(kinds=(int, float), meaning="a share", default="0.5", limits={"maximum": 1}).schema
        {'type': 'number', 'description': 'a share (default: 0.5)', 'maximum': 1}
        """
        names = [name for _, name in self._types]
        meaning, default = self.plain
        about = meaning if default in ("", REQUIRED) else f"{meaning} (default: {default})"
        return {"type": names[0] if len(names) == 1 else names, "description": about, **self.limits}

    @property
    def allowed(self) -> str:
        """The accepted types, in plain words."""
        return " or ".join(words for words, _ in self._types)

    @property
    def _types(self) -> list[tuple[str, str]]:
        return [TYPES[kind] for kind in self.kinds if not (kind is int and float in self.kinds)]

    @property
    def plain(self) -> tuple[str, str]:
        """The meaning and the default as plain text, without Markdown.

        >>> Key(kinds=(str,), meaning="`wcpe`; see [policies](policies.md)", default="`wcpe`").plain
        ('wcpe; see policies', 'wcpe')
        """
        words = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text) for text in (self.meaning, self.default))
        meaning, default = (text.replace("`", "") for text in words)
        return meaning, default


def full_name(section: str, key: str) -> str:
    """The name of a key, prefixed with its section.

    >>> full_name("privacy", "minimum_cell"), full_name("", "delta")
    ('privacy.minimum_cell', 'delta')
    """
    return f"{section}.{key}" if section else key


def check_section(
    name: str,
    section: Mapping[str, Any],
    known: Mapping[str, Key],
    *,
    open_to_others: bool = False,
    meant: Callable[[str, str], str | None] = lambda _section, _key: None,
) -> None:
    """Raise if a key is unknown or its value has the wrong type; the error names the key and what is allowed.

    For an unknown key the error suggests the key that `meant` names or, if it names none, the closest spelling.

    >>> check_section("privacy", {"cell": 3}, {"minimum_cell": Key(kinds=(int,), meaning="")})
    Traceback (most recent call last):
        ...
    parley.errors.UnknownName: key in [privacy]: found 'cell'; allowed: one of minimum_cell
    """
    for key, value in section.items():
        row = known.get(key)
        if row is None and not open_to_others:
            raise UnknownName(f"key in [{name}]" if name else "key", key, known, meant(name, key))
        if row is not None and (
            not isinstance(value, row.kinds) or (isinstance(value, bool) and bool not in row.kinds)
        ):
            raise InvalidInput(full_name(name, key), found=repr(value), allowed=row.allowed)


Names = tuple[str, ...]
Check = Callable[[str, Any, Names, Names], Any]  # (key, value, arms, agents) -> the value that a problem holds


@dataclass(frozen=True)
class Limited:
    """A check together with its limits as JSON Schema keywords, for editors."""

    check: Check
    limits: Mapping[str, Any]

    def __call__(self, key: str, value: Any, arms: Names, agents: Names) -> Any:
        return self.check(key, value, arms, agents)


@dataclass(frozen=True, kw_only=True)
class Setting(Key):
    """One setting: its key in the study file, its default, its check, and the texts about it."""

    name: str = ""  # name of the attribute and of the key in stored documents
    key: str = ""  # name of the key in the study file; the same as `name` unless given
    section: str = ""  # of the study file; empty if the key is outside of any section
    default_value: Any
    check: Check
    sentence: str = ""  # describes a value other than the default; may use {value}, or {span}: from least to most
    always_stored: bool = False  # whether stored documents contain the setting even at its default
    affects_decisions: bool = False  # policies that do not list it in `supports` refuse any value but the default
    always_supported: tuple[Any, ...] = ()  # further values that every policy supports
    needs: str = ""  # another setting that has to be given too
    in_file: bool = True  # False if other keys of the study file produce it (`parley.questions`)

    @property
    def place(self) -> str:
        """The full name of the setting's key in the study file."""
        return full_name(self.section, self.key)

    def describe(self, value: Any) -> str:
        """A sentence that describes a value of this setting."""
        if isinstance(value, tuple):  # names
            value = ", ".join(value)
        low, high = (0, 0) if isinstance(value, str | bool) else (np.min(value), np.max(value))
        one, two = Translatable("{0:,.10g}", low), Translatable("from {0:,.10g} to {1:,.10g}", low, high)
        span = one if low == high else two
        shown = Translatable("{0:,}", value) if type(value) is int and "{value}" in self.sentence else value
        if value in CHOICES.get(self.sentence, ()):
            shown = Translatable(value)
        return Translatable(self.sentence, value=shown, span=span)


def _limits(check: Check) -> Mapping[str, Any]:
    return check.limits if isinstance(check, Limited) else {}


def setting(
    default_value: Any, kinds: tuple[type, ...], check: Check, meaning: str, *, default: str = "", **row: Any
) -> Any:
    """A dataclass field that carries its `Setting` row as metadata."""
    shown = default or str(default_value)
    row |= {"kinds": kinds, "meaning": meaning, "default": shown, "limits": _limits(check)}
    made = Setting(default_value=default_value, check=check, **row)
    return field(default=default_value, metadata={"setting": made})


probability = Limited(
    lambda key, value, _arms, _agents: checks.share(key, value, SMALLEST_DELTA),
    {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
)


def fewer_than_arms(key: str, value: Any, arms: Names, _agents: Names) -> int:
    """Check the number of arms to find, which must be less than the number of arms."""
    return whole(key, value, 1, len(arms) - 1, f"at least 1 and less than the number of arms, {len(arms)}")


def arm_name(key: str, value: Any, arms: Names, _agents: Names) -> str:
    """Check the name of an arm."""
    if not isinstance(value, str) or value not in arms:
        some = ", ".join(arms[:20]) + (", ..." if len(arms) > 20 else "")
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=f"the name of an arm: {some}")
    return value


def arm_names(key: str, value: Any, arms: Names, agents: Names) -> Names:
    """Check a list of distinct names of arms, and return it in the order of the arms.

    >>> arm_names("dormant", ["c", "b"], ("a", "b", "c"), ())
    ('b', 'c')
    """
    if not isinstance(value, list | tuple) or len(set(map(str, value))) < len(value):
        raise InvalidInput(key, found=f"{value!r:.60}", allowed="a list of names of arms, each once")
    chosen = {arm_name(key, name, arms, agents) for name in value}
    return tuple(arm for arm in arms if arm in chosen)


def agent_names(key: str, value: Any, arms: Names, agents: Names) -> Names:
    """Check a list of distinct names of agents, and return it in the order of the agents.

    >>> agent_names("asks_only", ["country"], (), ("Paris", "country"))
    ('country',)
    """
    chosen = text_list(key, value, arms, agents)
    unknown = sorted(set(chosen) - set(agents))
    if unknown:
        raise InvalidInput(key, found=f"{unknown[0]!r:.60}", allowed=f"names of agents: {', '.join(agents[:20])}")
    return tuple(agent for agent in agents if agent in chosen)


def text_list(key: str, value: Any, _arms: Names, _agents: Names) -> Names:
    """Check that a value is a list of distinct strings."""
    if not isinstance(value, list | tuple) or len(set(map(str, value))) < len(value):
        raise InvalidInput(key, found=f"{value!r:.60}", allowed="a list of names, each once")
    if not all(isinstance(name, str) and name.isprintable() for name in value):
        raise InvalidInput(key, found=f"{value!r:.60}", allowed="printable names")
    return tuple(value)


def label_per_agent(key: str, value: Any, _arms: Names, agents: Names) -> Names:
    """Check labels: one for every agent, or none at all.

    >>> label_per_agent("weights.site_of", ["A", "A"], (), ("A, young", "A, old"))
    ('A', 'A')
    """
    if not isinstance(value, list | tuple) or len(value) not in (0, len(agents)):
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=f"{len(agents)} names, one per agent")
    if not all(isinstance(name, str) and name.isprintable() for name in value):
        raise InvalidInput(key, found=f"{value!r:.60}", allowed="printable names")
    return tuple(value)


def above_zero(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """Check that a value is a number above 0."""
    return positive(key, value)


def within(least: float, most: float, allowed: str = "") -> Check:
    """A check that a value is a number from `least` to `most`; `allowed` replaces these limits in errors."""

    limits = {"minimum": least, "maximum": most}
    return Limited(lambda key, value, _arms, _agents: checks.within(key, value, least, most, allowed), limits)


at_least_zero = within(0.0, LARGEST_SCALE, f"a number of at least 0 (at most {LARGEST_SCALE:g})")


def counted(least: int, most: int) -> Check:
    """A check that a value is a whole number from `least` to `most`."""
    limits = {"minimum": least, "maximum": most}
    return Limited(lambda key, value, _arms, _agents: whole(key, value, least, most), limits)


def choice(*words: str) -> Check:
    """A check that a value is one of the `words`."""

    def check(key: str, value: Any, _arms: Names, _agents: Names) -> str:
        if not isinstance(value, str) or value not in words:
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=" or ".join(f'"{word}"' for word in words))
        return value

    return Limited(check, {"enum": list(words)})


def text(most: int) -> Check:
    """A check that a value is one line of text of at most `most` characters."""

    def check(key: str, value: Any, _arms: Names, _agents: Names) -> str:
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=f"one line of 1 to {most} characters")
        return value

    return Limited(check, {"maxLength": most})


def questions(most: int, longest: int) -> Check:
    """A check that a value lists at most `most` distinct questions, each one line of at most `longest` characters."""

    def check(key: str, value: Any, arms: Names, agents: Names) -> Names:
        asked = text_list(key, value, arms, agents)
        if len(asked) > most or not all(one.strip() and len(one) <= longest for one in asked):
            allowed = f"up to {most} questions of up to {longest} characters"
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=allowed)
        return asked

    return Limited(check, {"maxItems": most})


def key_mask(most: int) -> Check:
    """A check that a value is a mask for people's keys: empty, or with at least one `#` (a digit) or `@` (a letter)."""

    def check(key: str, value: Any, arms: Names, agents: Names) -> str:
        mask: str = text(most)(key, value, arms, agents)
        if mask and (mask != mask.strip() or not {"#", "@"} & set(mask)):
            allowed = "a key with # for every digit and @ for every letter that differ, as in BX-###"
            raise InvalidInput(key, found=repr(mask), allowed=allowed)
        return mask

    return Limited(check, {"maxLength": most})


def switch(key: str, value: Any, _arms: Names, _agents: Names) -> bool:
    """Check that a value is true or false."""
    return checks.switch(key, value)


def until(most: int, word: str) -> Check:
    """A check that a value is a whole number from 1 to `most`, or `word`."""

    def check(key: str, value: Any, _arms: Names, _agents: Names) -> int | str:
        if isinstance(value, str) or not isinstance(value, int | np.integer):
            if value == word:
                return word
            raise InvalidInput(key, found=f"{value!r:.60}", allowed=f'a whole number or "{word}"')
        return whole(key, value, 1, most)

    return Limited(check, {"minimum": 1, "maximum": most, "pattern": f"^{word}$"})


def or_none(check: Check) -> Check:
    """A version of `check` that also accepts None."""

    def checked(key: str, value: Any, arms: Names, agents: Names) -> Any:
        return None if value is None else check(key, value, arms, agents)

    return Limited(checked, _limits(check))


COLUMNS = (
    "arm",
    "reward",
    "id",
    "exposure",
    "count",
    "sum",
    "squares",
    "draw",
    "participant",
    "agent",
)  # names that tables already use


def column_name(key: str, value: Any, arms: Names, agents: Names) -> str:
    """Check the name of a column, which must differ from the names that tables already use."""
    name: str = text(60)(key, value, arms, agents)
    if not name.strip() or name != name.strip() or name.lower() in COLUMNS or "," in name:
        allowed = f"a name without outer spaces and commas, and none of {', '.join(COLUMNS)}"
        raise InvalidInput(key, found=repr(name), allowed=allowed)
    return name


def any_number(key: str, value: Any, _arms: Names, _agents: Names) -> float:
    """Check that a value is a finite number."""
    return checks.within(key, value, -LARGEST_SCALE, LARGEST_SCALE, "a finite number")


def two_numbers(key: str, value: Any, arms: Names, agents: Names) -> list[float]:
    """Check that a value is a range, [low, high] with low < high."""
    allowed = "[low, high]: two numbers with low < high"
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=allowed)
    low, high = (any_number(key, end, arms, agents) for end in value)
    if not low < high:
        raise InvalidInput(key, found=f"[{low:g}, {high:g}]", allowed=allowed)
    return [low, high]


def any_per_agent(key: str, value: Any, arms: Names, agents: Names) -> FloatArray:
    """Check finite numbers given as one number or one per agent, and return them as `(agent,)`."""
    words = f"a finite number or {len(agents)} of them (one per agent)"
    array = real_array(key, value, words)
    if array.shape not in ((), (len(agents),)):
        raise InvalidInput(key, found=f"numbers of shape {array.shape}", allowed=words)
    for each in array.ravel().tolist():
        any_number(key, each, arms, agents)
    return np.broadcast_to(np.array(plain(array)), (len(agents),))


def per_cell(key: str, value: Any, arms: Names, agents: Names) -> FloatArray:
    """Check nonnegative numbers, given as one number, one per agent, or a row per arm; returns `(arm, agent)`."""
    shape = (len(arms), len(agents))
    words = f"a number, {shape[1]} numbers (one per agent), or {shape[0]} rows (arms) of {shape[1]} numbers (agents)"
    return _broadcast(key, value, shape, words)


def per_agent(key: str, value: Any, _arms: Names, agents: Names) -> FloatArray:
    """Check nonnegative numbers, given as one number or one per agent; returns `(agent,)`."""
    return _broadcast(key, value, (len(agents),), f"a number or {len(agents)} numbers (one per agent)")


def _broadcast(key: str, value: Any, shape: tuple[int, ...], words: str) -> FloatArray:
    array = real_array(key, value, words)
    # One number, or the last axes of the shape: these broadcast to the whole shape.
    if array.shape not in (shape[place:] for place in range(len(shape) + 1)):
        raise InvalidInput(key, found=f"numbers of shape {array.shape}", allowed=words)
    possible = (array == 0) | ((array >= SMALLEST_SCALE) & (array <= LARGEST_SCALE))
    if not possible.all():
        wrong = array[~possible][0]
        allowed = f"0, or numbers from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}"
        raise InvalidInput(key, found=f"{wrong:g}", allowed=allowed)
    return np.broadcast_to(np.array(plain(array)), shape)  # a view: one price for a million cells stays one number


def plain(value: Any) -> Any:
    """The shortest form of an array: one number if all entries agree, one row if all rows agree, else nested lists.

    >>> plain(np.full((2, 3), 5.0)), plain(np.array([[1.0, 2.0], [1.0, 2.0]]))
    (5.0, [1.0, 2.0])
    """
    if not isinstance(value, np.ndarray):
        return value
    # A stride of 0 marks an axis made by broadcasting: comparing a million equal entries would be slow.
    while value.ndim and (value.strides[0] == 0 or (value == value[0]).all()):
        value = value[0]
    return value.tolist()


@dataclass(frozen=True, kw_only=True, eq=False)
class StudySettings:
    """All settings of a study, in the order of the tables in docs/study-file.md."""

    # fmt: off
    delta: float = setting(
        0.1, NUMBER, probability, "largest probability that any agent's answer is wrong, between 0 and 1",
        always_stored=True,
    )
    top: int = setting(
        1, (int,), fewer_than_arms, "N: find each agent's N best arms; at least 1, less than the number of arms",
        always_stored=True,
    )
    largest_gap: float = setting(
        1.0, NUMBER, above_zero,
        "an upper limit on the gaps between mixed means; W-CPE starts from it, and `evidence` uses it to size its "
        "first phase",
        default="1.0, or how far apart the means of `[truth]` are if that is more; bounded, and gaussian with clip: "
        "the width of the range", always_stored=True,
    )
    tolerance: float = setting(
        0.0, NUMBER, at_least_zero,
        "an arm within this distance of the best (of the N-th best) is a right answer too; at least 0",
        sentence="an arm within {value:g} of the best counts as an answer", affects_decisions=True,
    )
    answers: str = setting(
        "together", (str,), choice("together", "each"),
        'whether `evidence` gives the answers of all agents `"together"`, final when all are settled, or `"each"` by '
        "itself, which takes more samples ([why](evidence-racing.md#one-answer-of-all-agents))",
        default='`"together"`', sentence="every agent's answer becomes final without waiting for the others",
    )
    audience: str = setting(
        "bandit", (str,), choice(*AUDIENCES),
        'whose words pages and reports use: `"bandit"` (agent, arm, draw, reward), `"trial"` (site, treatment, '
        'participant, outcome) or `"experiment"` (market, variant, visitor, conversion); no decision depends on it',
        default='`"bandit"`',
    )
    max_samples: int | None = setting(
        None, (int,), or_none(counted(1, LARGEST_COUNT)),
        "the study ends after this many draws in total, decided or not",
        default="no limit", sentence="the study ends after at most {value:,} samples", affects_decisions=True,
    )
    max_rounds: int | None = setting(
        None, (int,), or_none(counted(1, LARGEST_CELL)), "the study ends after this many phases, decided or not",
        default="no limit", sentence="the study ends after at most {value:,} phases", affects_decisions=True,
    )
    control: str | None = setting(
        None, (str,), or_none(arm_name), "the arm with which the others are compared in estimates",
        default="none", sentence="arms are compared with the control {value}", affects_decisions=True,
    )
    dormant: Names = setting(
        (), (list,), arm_names,
        "names of arms that are not open yet: they are neither drawn nor answers until an administrator "
        "[opens them](changes.md#arms-that-come-and-go); more than `top` arms must be open at the start",
        default="none", sentence="arms closed at the start: {value}", affects_decisions=True,
    )
    asks_only: Names = setting(
        (), (list,), agent_names, "agents that only ask: a question beside those of the sites; nobody draws there",
        default="none", sentence="further questions: {value}", key="questions", in_file=False,
    )
    draws_only: Names = setting(
        (), (list,), agent_names, "agents that are only drawn, and ask nothing",
        default="none", sentence="agents that ask no question of their own: {value}", section="sites", key="asks",
        in_file=False,
    )
    weight_steps: Names = setting(
        (), (list,), text_list, "the weights that are in doubt, in order: each site asks at every one of them",
        default="none", sentence=(
            "weights are in doubt, and every question is asked with each of these: {value}"
        ), section="weights",
        key="steps", in_file=False,
    )
    site_of: Names = setting(
        (), (list,), label_per_agent, "the site of every agent: agents of one site are its strata",
        default="every agent is a site", sentence=(
            "the site of each stratum, in the order of the agents: {value}"
        ), section="weights", in_file=False,
    )
    stratum_of: Names = setting(
        (), (list,), label_per_agent, "the stratum of every agent at its site",
        default="none", sentence="strata: {value}", section="weights", in_file=False, needs="site_of",
    )
    weight_refine: int = setting(
        0, (int,), counted(0, MOST_HALVINGS),
        "how many times the distance between two stated steps is halved: finer steps matter where answers differ",
        default="0", sentence=(
            "if the answers at two neighbouring steps differ, the distance between the steps is halved up to {value} "
            "times"
        ),
        section="weights", key="refine", in_file=False,
    )
    horizon: int | str | None = setting(
        None, (int, str), or_none(until(LARGEST_COUNT, "open")),
        'draws per agent, where every draw counts: agents play while they learn; `"open"` if the number is not known',
        default="none: find the answer and stop", sentence="agents play while they learn (horizon {value})",
        affects_decisions=True,
    )
    minimum_cell: int = setting(
        1, (int,), counted(1, LARGEST_CELL),
        "an agent that draws an arm in a phase draws it at least this often, so that no reported sum covers fewer "
        f"draws; a whole number from 1 to {LARGEST_CELL:,}",
        section="privacy", sentence="every cell of a phase has either no draws or at least {value:,}",
    )
    rho: float | None = setting(
        None, NUMBER, or_none(within(1e-8, 100.0)),
        "reports are private: sites add discrete Gaussian noise to every sum, so that a report is rho-zCDP for each "
        "person in it ([private reports](privacy.md)); rewards are binary, bounded, or gaussian with `clip`",
        default="none: sums are exact", section="privacy", sentence="reports are private: {value:g}-zCDP per person",
        affects_decisions=True,
    )
    covariate: str | None = setting(
        None, (str,), or_none(column_name),
        "a number that is known about a person before the arm is assigned, such as age, a baseline value or a "
        "prognostic score: sites report outcomes [adjusted for it](covariates.md). The name of its column or field",
        default="none", section="covariate", key="name", sentence="outcomes are adjusted for {value}",
        affects_decisions=True,
    )
    covariate_range: list[float] | None = setting(
        None, (list,), or_none(two_numbers),
        "[low, high]: sites clip the covariate to it. Needed where rewards have a range, and useful for a skewed "
        "covariate",
        default="not clipped", section="covariate", key="range", sentence="the covariate is clipped to {value}",
        needs="covariate",
    )
    covariate_center: float | None = setting(
        None, NUMBER, or_none(any_number),
        "x0: estimates are for people with this covariate, and it replaces unknown ones",
        default="each site's mean in its first phase; the middle of the range where `theta` is stated",
        section="covariate", key="center", sentence="estimates are for people with a covariate of {value:g}",
        needs="covariate",
    )
    covariate_theta: FloatArray | None = setting(
        None, NUMBERS, or_none(any_per_agent),
        "by how much an outcome rises with the covariate, from history: a number, or one per agent. No value breaks "
        "the guarantee. Needs `center` or `range`",
        default="each site learns it from its own earlier phases", section="covariate", key="theta",
        sentence="the slope on the covariate is stated: {span}", needs="covariate",
    )
    covariate_largest_theta: float | None = setting(
        None, NUMBER, or_none(above_zero), "the largest absolute value of a learned theta",
        default="where rewards are in a range: its width over that of `range`", section="covariate",
        key="largest_theta", sentence="slopes on the covariate are limited to ±{value:g}", needs="covariate",
    )
    covariate_correlation: float = setting(
        0.0, NUMBER, within(-0.999, 0.999),
        "the expected correlation of covariate and outcome within an arm: plans and simulations use it, and with "
        "`theta` it sizes the first phase; no answer depends on it",
        section="covariate", key="correlation", sentence=(
            "the covariate's correlation with the outcome is expected to be {value:g}"
        ),
        needs="covariate",
    )
    price: FloatArray = setting(
        1.0, NUMBERS, per_cell, "what a draw costs: a number, one per agent, or a row per arm with a column per agent; "
        "0 only together with `day_cost`",
        section="sampling", sentence="a draw costs {span}",
    )
    price_unit: str = setting(
        "", (str,), text(20), 'the unit of `price` and `day_cost`, as in `"EUR"`; no decision depends on it',
        default="not stated", section="sampling", sentence="the unit of costs is {value}",
    )
    rate: FloatArray | None = setting(
        None, NUMBERS, or_none(per_agent),
        "draws a day: a number, or one per agent; 0 only for an agent without weight",
        default="not known", section="sampling", sentence="each agent makes {span} draws a day",
    )
    day_cost: float = setting(
        0.0, NUMBER, at_least_zero, "what a day of the study costs, in the unit of `price`; needs `rate`",
        section="sampling", sentence="a day costs {value:,.10g}", needs="rate",
    )
    round_days: float = setting(
        0.0, NUMBER, at_least_zero, "days that a round takes on top of its draws: to collect, decide and start again; "
        "needs `rate`",
        section="sampling", sentence="a phase takes {value:,.10g} days in addition to the time for its draws",
        needs="rate",
    )
    delay: FloatArray = setting(
        0.0, NUMBERS, per_agent, "days from a draw to its outcome: a number, or one per agent; a phase waits for the "
        "outcomes of its last draws; needs `rate`",
        section="sampling", sentence="days from a draw to its outcome: {span}", needs="rate",
    )
    dropout: float = setting(
        0.0, NUMBER, within(0.0, 0.9),
        "share of draws whose outcome will never come; `parley plan` and `parley simulate` leave them out at random",
        section="sampling", sentence="expected share of draws without an outcome: {value:.3g}",
    )
    site_counts: str | None = setting(
        None, (str,), or_none(choice("exact", "flexible")),
        '`"exact"`: a report has the counts of the plan. `"flexible"`: it may have others, with a '
        "[reason that does not depend on the rewards](site.md#other-counts-than-planned)",
        default='`"flexible"` where the policy\'s guarantee allows it, else `"exact"`', section="sites", key="counts",
        affects_decisions=True, always_supported=("exact",), sentence=COUNTS_ARE,
    )
    most_missing: float = setting(
        0.5, NUMBER, within(0.0, 1.0),
        "share of an arm's planned draws that may be missing from reports; beyond it the certificate "
        "[withdraws the guarantee](site.md#what-breaks-it)",
        section="sites", sentence=(
            "the guarantee is withdrawn if more than this share of an arm's draws is missing: {value:.3g}"
        ),
    )
    most_times_plan: float = setting(
        3.0, NUMBER, within(1.0, 1e6), "a report may have at most this many times the planned draws of an arm",
        section="sites", sentence="a report may have up to {value:,.10g} times the planned draws",
    )
    between: str = setting(
        "outside", (str,), choice("outside", "leading", "assign"),
        'a person who comes to a site when its phase needs no one else stays `"outside"` of the study, gets the '
        '`"leading"` arm of the plan without being counted, or is [`"assign"`ed for the next '
        "phase](changes.md#people-who-come-between-phases)",
        default='`"outside"`', section="sites", sentence=BETWEEN_PHASES,
        affects_decisions=True, always_supported=("leading",),
    )
    most_between: float = setting(
        0.5, NUMBER, within(0.01, 1.0),
        'with `between = "assign"`: how many people a site assigns at most for the next phase, as a share of what its '
        "last one asked for",
        section="sites", sentence=(
            "between phases, at most {value:.3g} times the planned draws of the last phase may be assigned for the "
            "next one"
        ),
        needs="between",
    )
    grace_hours: float | None = setting(
        None, NUMBER, or_none(within(0.0, 720.0)),
        "hours from the last entry of a complete phase until a site reports it, so that typing errors can be "
        "[corrected](site.md#before-a-phase-is-reported)",
        default="24 where `sampling.rate` says that people come one by one, else 0", section="sites",
        sentence="a site reports a complete phase {value:g} hours after its last entry",
    )
    contact: str = setting(
        "", (str,), text(200),
        "whom people at a site ask, for instance when an outcome of a reported phase was wrong; their page shows it",
        default="the study's administrator", section="sites",
        sentence="people at the sites send their questions to {value}",
    )
    key_pattern: str = setting(
        "", (str,), key_mask(100),
        'how the keys of people look, as in `"BX-###"`: `#` is a digit, `@` a letter, and any other character '
        "stands for itself; a site refuses other keys",
        default="any key", section="sites", sentence="keys of people have the form {value}",
    )
    eligibility: Names = setting(
        (), (list,), questions(10, 200),
        "questions that a site's page asks about a person before the arm is known, as in `[\"Aged 18 or older?\"]`: "
        "nobody is assigned unless all are answered yes",
        default="none", section="sites", sentence="before anybody is assigned, sites ask: {value}",
    )
    masked: bool = setting(
        True, (bool,), switch,
        "whether the page of a site hides the arm where outcomes are entered; `false` where those who judge outcomes "
        "know it anyway",
        default="true", section="sites", sentence="sites see the arm when they enter outcomes",
    )
    outcome_question: str = setting(
        "", (str,), text(200),
        "what the page of a site asks for the primary outcome of a person, as in `\"Wound closed after 14 days?\"`",
        default="none", section="sites", key="question", sentence="question that sites ask about the outcome: {value}",
    )
    outcome_words: Names = setting(
        (), (list,), text_list,
        "what sites call an outcome of 1 and one of 0, as in `[\"closed\", \"open\"]`, where outcomes are 0 or 1",
        default="yes and no, in the reader's language", section="sites", key="words",
        sentence="names of the outcomes 1 and 0: {value}",
    )
    kits: bool = setting(
        False, (bool,), switch,
        "whether sites hand out [numbered kits](strata.md#kits), and never see which arm is in them",
        default="false", section="sites", sentence="sites hand out numbered kits",
    )
    show_answer: bool = setting(
        False, (bool,), switch, "whether a site sees its own answer on its page when the study is finished",
        default="false", section="sites", sentence="sites see their answer at the end",
    )
    # fmt: on

    def _check_settings(self, arms: Names, agents: Names) -> None:
        for row in SETTINGS.values():
            object.__setattr__(self, row.name, row.check(row.place, getattr(self, row.name), arms, agents))
        if len(arms) - len(self.dormant) < self.top:
            found = f"{', '.join(self.dormant)}: {len(arms) - len(self.dormant)} of {len(arms)} arms are open"
            raise InvalidInput(
                "dormant", found=found, allowed=f"at least {self.top} open arms, as many as an answer has"
            )
        changed = self.non_default()
        for row in map(SETTINGS.__getitem__, changed):
            if row.needs and row.needs not in changed:
                allowed = f"{row.default_value} without {SETTINGS[row.needs].place}"
                raise InvalidInput(row.place, found=changed[row.name], allowed=allowed)
        if self.day_cost == 0 and np.any(np.equal(plain(self.price), 0)):
            allowed = "numbers above 0, or 0 together with sampling.day_cost: free draws would have no limit"
            raise InvalidInput("sampling.price", found=0, allowed=allowed)

    def settings(self) -> dict[str, Any]:
        """All settings by name, as plain JSON with arrays in their shortest form."""
        return {name: plain(getattr(self, name)) for name in SETTINGS}

    def non_default(self) -> dict[str, Any]:
        """The settings that differ from their default, by name, as plain JSON."""
        return {name: value for name, value in self.settings().items() if value != SETTINGS[name].default_value}

    def stored(self) -> dict[str, Any]:
        """The settings to store: no defaults unless `always_stored`, so that new settings change no study's digest."""
        changed = self.non_default()
        return {
            name: value for name, value in self.settings().items() if name in changed or SETTINGS[name].always_stored
        }

    def refuse(self, who: str, supported: frozenset[str], hint: str | None = None) -> None:
        """Raise if `who` does not support a given setting that affects decisions.

        Otherwise the setting would be silently ignored.
        """
        for name, value in self.non_default().items():
            row = SETTINGS[name]
            if row.affects_decisions and value not in row.always_supported and name not in supported:
                usual = "no value" if row.default_value in (None, ()) else repr(row.default_value)
                instead = " or ".join([*map(repr, row.always_supported), usual])
                allowed = f"{instead}, since {who} does not support {row.place}"
                found = ", ".join(value) if isinstance(value, tuple) else repr(value)
                raise InvalidInput(row.place, found=f"{found:.60}", allowed=allowed, hint=hint)

    def descriptions(self) -> dict[str, str]:
        """A sentence about every setting that differs from its default, by its key in the study file."""
        rows = ((SETTINGS[name], value) for name, value in self.non_default().items())
        return {row.place: row.describe(value) for row, value in rows if row.sentence}


def why_largest_gap(gap: float) -> str:
    """A sentence on what `largest_gap` is and why a study needs it, with a value that suffices for `gap`.

    >>> why_largest_gap(2.31).rpartition(": ")[2]
    'largest_gap = 2.4 would do'
    """
    return (
        "largest_gap limits how far apart the mixed means of two arms can be, and so sets the scale of the first "
        "phase. It has to be at least every gap, and a much larger value only costs draws: largest_gap = "
        f"{rounded_up(gap):g} would do"
    )


def rounded_up(value: float) -> float:
    """A number above 0, rounded up to two significant digits.

    >>> rounded_up(2.31), rounded_up(50.0), rounded_up(0.0123)
    (2.4, 50.0, 0.013)
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # Without this rounding, 0.9 / 0.01 would be a little more than 90.
    return float(f"{math.ceil(round(value / unit, 9)) * unit:.6g}")


SETTINGS: dict[str, Setting] = {
    row.name: replace(row.metadata["setting"], name=row.name, key=row.metadata["setting"].key or row.name)
    for row in fields(StudySettings)
}
