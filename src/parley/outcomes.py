"""Outcomes observed in addition to the primary one: guardrails, which stop a harmful arm, and secondary outcomes.

`[noise]` describes the primary outcome, which alone decides the answer. Each entry of `[[outcomes]]` describes another
outcome: its role, its reward model (with the keys of `[noise]`) and, if it is a guardrail, its error probability.
docs/outcomes.md explains them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parley.errors import InvalidInput
from parley.rewards import Gaussian, RewardModel, make_model, noise_keys, section_keys, study_model
from parley.settings import NUMBER, REQUIRED, SMALLEST_DELTA, Key, check_section
from parley.validation.checks import LARGEST_SCALE, number, share, within

GUARDRAIL, SECONDARY = "guardrail", "secondary"
ROLES, DIRECTIONS, ALARMS = (GUARDRAIL, SECONDARY), ("higher", "lower"), ("stop", "propose")
LONGEST_NAME, LONGEST_QUESTION, MOST_OUTCOMES = 40, 200, 20
LONGEST_DELAY = 36_500.0  # days
USUAL_MARGINS = 3.0  # assumed mean harm of the control, in margins: a margin is rarely more than a third of that harm
# Names that columns, form fields and document keys already use.
RESERVED = frozenset(
    {"primary", "outcome", "outcomes", "reward", "arm", "agent", "site", "stratum", "key", "person", "phase", "count"}
    | {"missing", "reason", "covariate", "participant", "draw", "id", "exposure"}
)

OWN_KEYS: dict[str, Key] = {
    "name": Key(
        kinds=(str,),
        meaning=f"its name in columns, fields, tables and answers: up to {LONGEST_NAME} characters",
        default=REQUIRED,
    ),
    "role": Key(
        kinds=(str,),
        meaning='`"guardrail"`: an arm that is shown to be worse by more than `margin`, or beyond `limit`, is stopped; '
        '`"secondary"`: estimates and intervals, never a decision',
        default=REQUIRED,
        limits={"enum": list(ROLES)},
    ),
    "better": Key(
        kinds=(str,),
        meaning='`"lower"` (harm, as bleeding) or `"higher"` (as survival)',
        default=REQUIRED,
        limits={"enum": list(DIRECTIONS)},
    ),
    "margin": Key(
        kinds=NUMBER,
        meaning="guardrail: how much worse than the `control` an arm may be, in units of the outcome; at least 0",
        default="this or `limit`",
        limits={"minimum": 0},
    ),
    "limit": Key(kinds=NUMBER, meaning="guardrail: how bad an arm's mean may be, whatever the control's is"),
    "delta": Key(
        kinds=NUMBER,
        meaning="guardrail: largest probability of any false alarm or false clearing of this guardrail in the study",
        default="required of a guardrail",
        limits={"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
    "on_alarm": Key(
        kinds=(str,),
        meaning='guardrail: `"stop"` the arm everywhere, at once, or `"propose"` that to an administrator',
        default='`"stop"`',
        limits={"enum": list(ALARMS)},
    ),
    "question": Key(kinds=(str,), meaning="the question that a site's page asks about a person", default="the name"),
    "words": Key(
        kinds=(list,),
        meaning='what a site\'s page calls a value of 1 and one of 0, as in `["healed", "not healed"]`',
        default="yes and no, in the reader's language",
        limits={"minItems": 2, "maxItems": 2},
    ),
    "delay": Key(
        kinds=NUMBER,
        meaning="days from a draw to this outcome, where they differ from `sampling.delay`",
        default="`sampling.delay`",
        limits={"minimum": 0},
    ),
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An outcome that is observed with every draw, in addition to the primary outcome.

    >>> from parley.rewards import Binary
    >>> bleeding = Outcome(name="bleeding", noise=Binary(), better="lower", role="guardrail", margin=0.02, delta=0.05)
    >>> bleeding.sign, bleeding.document()["on_alarm"]
    (1.0, 'stop')
    """

    name: str
    role: str  # "guardrail" or "secondary"
    better: str  # "higher" or "lower"
    noise: RewardModel = field(default_factory=Gaussian)  # reward model of this outcome
    margin: float | None = None  # guardrail: how much worse than the control an arm may be, at least 0
    limit: float | None = None  # guardrail, instead of a margin: how bad an arm's mean may be
    delta: float | None = None  # guardrail: its error probability, separate from the study's
    on_alarm: str | None = None  # guardrail: "stop" or "propose"; "stop" unless given
    question: str = ""  # what a site's page asks; the name unless given
    words: tuple[str, ...] = ()  # what a site's page calls 1 and 0
    delay: float | None = None  # days from a draw to this outcome; None: as for the primary outcome

    def __post_init__(self) -> None:
        _check_name(self.name)
        _one_of(self.place("role"), self.role, ROLES)
        _one_of(self.place("better"), self.better, DIRECTIONS)
        if not isinstance(self.question, str) or len(self.question) > LONGEST_QUESTION:
            allowed = f"text of up to {LONGEST_QUESTION} characters"
            raise InvalidInput(self.place("question"), found=f"{self.question!r:.60}", allowed=allowed)
        if not self.question.isprintable():
            raise InvalidInput(self.place("question"), found=f"{self.question!r:.60}", allowed="one line of text")
        self._set("words", checked_words(self.place("words"), self.words, self.noise))
        if self.delay is not None:
            self._set("delay", within(self.place("delay"), self.delay, 0.0, LONGEST_DELAY))
        if self.role == GUARDRAIL:
            self._check_guardrail()
            return
        for key in ("margin", "limit", "delta", "on_alarm"):
            if getattr(self, key) is not None:
                allowed = "nothing: a secondary outcome decides nothing"
                raise InvalidInput(self.place(key), found=getattr(self, key), allowed=allowed)

    def _check_guardrail(self) -> None:
        if (self.margin is None) == (self.limit is None):
            found = "neither margin nor limit" if self.margin is None else "margin and limit"
            allowed = "a guardrail has either a margin against the control or a limit"
            raise InvalidInput(self.place("margin"), found=found, allowed=allowed)
        low, high = self.noise.ends
        if self.margin is not None:
            margin = number(self.place("margin"), self.margin)
            widest = high - low if self.noise.in_range else LARGEST_SCALE
            if not 0 <= margin < widest:
                allowed = f"from 0 to less than {widest:g}"
                raise InvalidInput(self.place("margin"), found=margin, allowed=allowed + self._of_range)
            self._set("margin", margin)
        if self.limit is not None:
            limit = number(self.place("limit"), self.limit)
            if not max(low, -LARGEST_SCALE) < limit < min(high, LARGEST_SCALE):
                allowed = f"between {max(low, -LARGEST_SCALE):g} and {min(high, LARGEST_SCALE):g}"
                raise InvalidInput(self.place("limit"), found=limit, allowed=allowed + self._of_range)
            self._set("limit", limit)
        if self.delta is None:
            raise InvalidInput(self.place("delta"), found="nothing", allowed="a guardrail's own error probability")
        self._set("delta", share(self.place("delta"), self.delta, SMALLEST_DELTA))
        self._set("on_alarm", self.on_alarm or ALARMS[0])
        _one_of(self.place("on_alarm"), self.on_alarm, ALARMS)

    @property
    def _of_range(self) -> str:
        low, high = self.noise.ends
        return f", for outcomes from {low:g} to {high:g}" if self.noise.in_range else ""

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def place(self, key: str) -> str:
        """The full name of one of this outcome's keys, for errors."""
        return f"outcomes.{self.name}.{key}"

    @property
    def guards(self) -> bool:
        """Whether this outcome is a guardrail."""
        return self.role == GUARDRAIL

    @property
    def sign(self) -> float:
        """The factor that turns the outcome into harm: 1 if lower is better, else -1."""
        return 1.0 if self.better == "lower" else -1.0

    @property
    def expected_noise(self) -> RewardModel:
        """The reward model with an expected mean: as stated, or else one that the guardrail's margin or limit suggests.

        >>> from parley.rewards import Binary
        >>> guardrail = {"role": "guardrail", "better": "lower", "margin": 0.02, "delta": 0.05}
        >>> Outcome(name="harm", noise=Binary(), **guardrail).expected_noise
        Binary(rate=0.06)
        """
        low, high = self.noise.ends
        best, worse = (low, 1.0) if self.better == "lower" else (high, -1.0)
        if self.limit is not None:
            return self.noise.expecting(self.limit)
        if not self.margin or not math.isfinite(best):
            return self.noise
        return self.noise.expecting(best + worse * min(USUAL_MARGINS * self.margin, (high - low) / 2))

    def check_problem(self, control: str | None, dormant: Sequence[str], shape: tuple[int, int]) -> None:
        """Raise unless the outcome fits the study. A margin needs a control that is open from the start."""
        if self.margin is not None and (control is None or control in dormant):
            found = "a margin without a control" if control is None else f"a control that is not open, {control}"
            allowed = "control = the name of an arm that is open from the start, or a limit instead of a margin"
            raise InvalidInput(self.place("margin"), found=found, allowed=allowed)
        try:
            self.noise.check_shape(shape)
        except InvalidInput as error:
            raise _renamed(error, self.name) from None

    def document(self) -> dict[str, Any]:
        """The outcome's keys and values, ready to be stored; `outcome_of` restores the outcome from them."""
        own = {key: getattr(self, key) for key in OWN_KEYS}
        return {key: value for key, value in own.items() if value not in (None, "", ())} | self.noise.document()


def checked_words(key: str, words: Sequence[str], noise: RewardModel) -> tuple[str, ...]:
    """Check the two words that sites see for 1 and for 0; return them stripped, or () if none are given."""
    if not words:
        return ()
    if noise.values != (0.0, 1.0):
        raise InvalidInput(key, found=f"{words!r:.60}", allowed="nothing: these outcomes are not 0 or 1")
    texts = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
    clean = texts and all(word.strip() and word.isprintable() and len(word) <= LONGEST_NAME for word in words)
    if not clean or len(words) != 2 or len({word.strip().casefold() for word in words}) != 2:
        allowed = f"two different words of up to {LONGEST_NAME} characters, for 1 and for 0"
        raise InvalidInput(key, found=f"{words!r:.60}", allowed=allowed)
    return tuple(word.strip() for word in words)


def outcome_keys() -> dict[str, Key]:
    """The documented keys of an [[outcomes]] entry: its own keys, and `kind`, which stands for all keys of [noise]."""
    about = "its reward model: this and all other keys of `[noise]`, as there"
    return OWN_KEYS | {"kind": replace(noise_keys()["kind"], meaning=about)}


def outcome_of(document: Mapping[str, Any]) -> Outcome:
    """The outcome that a stored document describes.

    >>> made = outcome_of({"name": "pain", "role": "secondary", "better": "lower", "kind": "count"})
    >>> made.noise.kind, outcome_of(made.document()) == made
    ('count', True)
    """
    return _made(document, make_model)


def study_outcomes(entries: Sequence[Any]) -> tuple[Outcome, ...]:
    """The outcomes in a study file's [[outcomes]], by default with the reward model that assumes the least."""
    for entry in entries:
        if not isinstance(entry, dict):
            raise InvalidInput("outcomes", found=f"{entry!r:.60}", allowed="sections [[outcomes]]")
    return tuple(_made(entry, study_model_of) for entry in entries)


def study_model_of(**keys: Any) -> RewardModel:
    """`study_model` with the keys as keyword arguments, so that it has the signature of `make_model`."""
    return study_model(keys)


def _made(document: Mapping[str, Any], model: Any) -> Outcome:
    noise = {key: value for key, value in document.items() if key not in OWN_KEYS}
    own = {key: value for key, value in document.items() if key in OWN_KEYS}
    name = document.get("name")
    for key in (key for key, row in OWN_KEYS.items() if row.default == REQUIRED):
        if key not in document:
            where = f"outcomes.{name}.{key}" if isinstance(name, str) else f"outcomes.{key}"
            raise InvalidInput(where, found="nothing", allowed=OWN_KEYS[key].plain[0])
    _check_name(name)
    try:
        check_section("outcomes", document, OWN_KEYS | section_keys(noise))
        made = model(**noise)
    except InvalidInput as error:
        raise _renamed(error, document["name"]) from None
    return Outcome(**own, noise=made)


def _renamed(error: InvalidInput, name: str) -> InvalidInput:
    """Reword an error about [noise] or a section [outcomes] so that it names the outcome."""
    key = error.key.replace("noise.", f"outcomes.{name}.").replace("[noise]", f"[[outcomes]] {name}")
    key = key.replace("[outcomes]", f"[[outcomes]] {name}") if "[[" not in key else key
    section = key.startswith("outcomes.") and not key.startswith(f"outcomes.{name}.")
    key = key.replace("outcomes.", f"outcomes.{name}.", 1) if section else key
    return InvalidInput(key, found=error.found, allowed=error.allowed, hint=error.hint)


def checked_outcomes(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Check that outcomes have distinct names and that there are not too many of them."""
    if len(outcomes) > MOST_OUTCOMES:
        raise InvalidInput("outcomes", found=len(outcomes), allowed=f"up to {MOST_OUTCOMES}")
    seen: set[str] = set()
    for outcome in outcomes:
        if outcome.name.casefold() in seen:
            raise InvalidInput("outcomes.name", found=f"the name {outcome.name!r} twice", allowed="distinct names")
        seen.add(outcome.name.casefold())
    return tuple(outcomes)


def _check_name(name: Any) -> None:
    clean = isinstance(name, str) and name.isprintable() and name == name.strip() and 0 < len(name) <= LONGEST_NAME
    if not clean or any(character in name for character in "/.,;:=\"'[]{}<>"):
        allowed = f"a name of up to {LONGEST_NAME} characters without dots, slashes, quotes or brackets"
        raise InvalidInput("outcomes.name", found=f"{name!r:.60}", allowed=allowed)
    if name.casefold() in RESERVED:
        allowed = f"a name that nothing else has: not {', '.join(sorted(RESERVED))}"
        raise InvalidInput("outcomes.name", found=repr(name), allowed=allowed)


def _one_of(key: str, value: Any, words: tuple[str, ...]) -> None:
    if value not in words:
        raise InvalidInput(key, found=f"{value!r:.60}", allowed=" or ".join(f'"{word}"' for word in words))
