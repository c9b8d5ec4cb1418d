"""What a site answers: the arm of a person, how far a phase is; and what it takes: keys and rewards."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from parley.agent.entries import RulesSeen
from parley.agent.people import People, Person
from parley.errors import InvalidInput
from parley.rewards.plausibility import LARGEST_REWARD

__all__ = ["Assignment", "checked_key", "checked_reward", "standing"]

LONGEST_KEY = 200


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What a person gets: an arm's name, or None outside of the study."""

    participant: str
    phase: int
    arm: str | None
    counted: bool  # in the study
    probability: Fraction | None
    again: bool  # it was given before

    @classmethod
    def of(cls, person: Person, people: People, *, again: bool) -> Assignment:
        """As the journal has it."""
        arms = people.phases[person.phase].plan.arms
        return cls(
            participant=person.key,
            phase=person.phase,
            arm=None if person.arm is None else arms[person.arm],
            counted=person.counted,
            probability=person.probability,
            again=again,
        )

    def to_json(self) -> dict[str, Any]:
        """What the service answers. Not the probability: it would tell how much is left of the arm."""
        return {
            "participant": self.participant,
            "phase": self.phase,
            "arm": self.arm,
            "counted": self.counted,
            "again": self.again,
        }


def checked_key(key: str) -> str:
    """A participant's key as it is kept: one spelling, no outer spaces.

    >>> checked_key(" p-001 ")
    'p-001'
    """
    clean = unicodedata.normalize("NFC", key).strip() if isinstance(key, str) else ""
    if not clean or len(clean) > LONGEST_KEY or not clean.isprintable():
        raise InvalidInput(
            "participant", found=repr(key)[:80], allowed=f"a key of 1 to {LONGEST_KEY} printable characters"
        )
    return clean


def checked_reward(rules: RulesSeen, reward: float) -> float:
    """A reward that the study can have.

    >>> checked_reward(RulesSeen(low=0.0, high=1.0), 1)
    1.0
    >>> checked_reward(RulesSeen(low=0.0, high=1.0, values=(0.0, 1.0)), 0.5)
    Traceback (most recent call last):
    parley.errors.InvalidInput: reward: found 0.5; allowed: 0 or 1
    """
    low, high = rules.low, rules.high
    number = isinstance(reward, int | float) and not isinstance(reward, bool) and abs(reward) <= LARGEST_REWARD
    outside = number and ((low is not None and reward < low) or (high is not None and reward > high))
    if not number or outside or (rules.values and reward not in rules.values):
        limits = "a finite number" if low is None or high is None else f"a number from {low:g} to {high:g}"
        limits = " or ".join(f"{value:g}" for value in rules.values) or limits
        raise InvalidInput("reward", found=_shown(reward), allowed=limits)
    return float(reward)


def _shown(reward: object) -> str:
    """What was given, as far as it can be told: thousands of digits cannot."""
    return "a huge number" if isinstance(reward, int) and abs(reward) > LARGEST_REWARD else repr(reward)[:60]


def standing(people: People, *, replaces: bool) -> dict[str, Any]:
    """How far it is. Nothing here, and nothing that follows from it, tells the next arm: no count is by arm."""
    book, stage = people.current, people.stage
    names = ("phase", "asked", "assigned", "to_assign", "pending", "observed", "missing")
    shown: dict[str, Any] = {"stage": stage.stage, "reason": stage.reason, **dict.fromkeys(names, 0)}
    shown |= {"reported": False, "closed": ""}
    if book is not None:
        gone = sum(book.missing)
        shown |= {
            "phase": book.plan.phase,
            "asked": sum(book.plan.draws),
            "assigned": len(book.keys),
            "to_assign": sum(book.left(replace_missing=replaces)),
            "pending": book.pending,
            "observed": len(book.keys) - book.pending - gone,
            "missing": gone,
            "reported": book.reported is not None,
            "closed": book.closed,
        }
    shown["outside"] = sum(not person.counted for person in people.persons.values())
    return shown
