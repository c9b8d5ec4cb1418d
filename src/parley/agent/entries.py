"""Checks of the values that are entered at a site: participants' keys, lines of text, outcomes."""

import unicodedata
from typing import Any, NamedTuple

from parley.agent import journal
from parley.agent.outcomes import PRIMARY, OutcomeRules
from parley.errors import InvalidInput
from parley.rewards.plausibility import LARGEST_REWARD
from parley.text.translation import Translatable

LONGEST_KEY = 200
YES_OR_NO = (0.0, 1.0)  # the possible rewards in a study with yes/no outcomes


class Entered(NamedTuple):
    """A value entered for a person: the reward, or the outcome that `outcome` names. `value` is None if missing."""

    participant: str
    value: float | None
    outcome: str = PRIMARY


def checked_key(key: str) -> str:
    """Return a participant's key in its stored form: normalized (Unicode NFC), without leading or trailing spaces.

    >>> checked_key(" p-001 ")
    'p-001'
    """
    clean = unicodedata.normalize("NFC", key).strip() if isinstance(key, str) else ""
    if not clean or len(clean) > LONGEST_KEY or not clean.isprintable():
        allowed = Translatable("a key of 1 to {longest} printable characters", longest=LONGEST_KEY)
        raise InvalidInput("participant", found=repr(key)[:80], allowed=allowed)
    return clean


def checked_line(key: str, text: str) -> str:
    """Strip a line of text and return it; raise `InvalidInput` if it is empty, too long or not printable."""
    clean = text.strip() if isinstance(text, str) else ""
    if not clean or len(clean) > LONGEST_KEY or not clean.isprintable():
        allowed = Translatable("a line of 1 to {longest} characters", longest=LONGEST_KEY)
        raise InvalidInput(key, found=repr(text)[:80], allowed=allowed)
    return clean


def checked_reward(rules: journal.RulesSeen | OutcomeRules, reward: Any) -> float:
    """Return a reward or the value of a further outcome as a float; raise if the study's rules do not allow it.

    >>> checked_reward(journal.RulesSeen(low=0.0, high=1.0), 1)
    1.0
    >>> checked_reward(journal.RulesSeen(low=0.0, high=1.0, values=(0.0, 1.0)), 0.5)
    Traceback (most recent call last):
    parley.errors.InvalidInput: reward: found 0.5; allowed: 0 or 1
    >>> checked_reward(journal.RulesSeen(low=0.0, whole=True), -1)
    Traceback (most recent call last):
    parley.errors.InvalidInput: reward: found -1; allowed: a whole number of at least 0
    """
    low, high = rules.low, rules.high
    number = isinstance(reward, int | float) and not isinstance(reward, bool) and abs(reward) <= LARGEST_REWARD
    outside = number and ((low is not None and reward < low) or (high is not None and reward > high))
    broken = number and rules.whole and not float(reward).is_integer()
    if not number or outside or broken or (rules.values and reward not in rules.values):
        limits: str = Translatable("a finite number")
        if low is not None and high is not None:
            limits = Translatable("a number from {low:g} to {high:g}", low=low, high=high)
        if rules.whole and low is not None:
            limits = Translatable("a whole number of at least {low:g}", low=low)
        words = rules.answers if isinstance(rules, OutcomeRules) else rules.words
        if rules.values == YES_OR_NO:
            limits = Translatable("0 or 1")
            if words:
                limits = Translatable("{yes} (1) or {no} (0)", yes=words[0], no=words[1])
        elif rules.values:
            limits = Translatable("one of {values}", values=", ".join(f"{one:g}" for one in rules.values))
        # JSON has no NaN, so programs send null instead. So a null does not mean that no outcome will come.
        hint = "`missing` says that no outcome will come" if reward is None else None
        key = rules.name if isinstance(rules, OutcomeRules) else "reward"
        raise InvalidInput(key, found=shortened(reward), allowed=limits, hint=hint)
    return float(reward)


def shortened(reward: object) -> str:
    """Format an entered value for an error message, shortened, since an integer may have thousands of digits."""
    return "a huge number" if isinstance(reward, int) and abs(reward) > LARGEST_REWARD else repr(reward)[:60]
