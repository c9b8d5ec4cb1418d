"""The permuted order: which arm the next person gets, drawn without replacement from what a phase still needs.

An arm is drawn with probability (what is left of it) / (what is left in all). So every order of the phase's draws is
equally likely, and when the urn is empty exactly the plan was given out. The block is the whole phase: there is no
shorter one whose end could be guessed.

The draw is a keyed hash of where it stands. Whoever holds the key can repeat every draw of a study; whoever does not
learns nothing of the next one from all those before. The key never leaves the site's journal.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from fractions import Fraction

__all__ = ["drawn_arm"]


def drawn_arm(key: bytes, phase: int, place: int, left: Sequence[int]) -> tuple[int, Fraction]:
    """The arm of the person at a `place` of a phase (from 0), and the probability it had; `left` is not all 0.

    >>> drawn_arm(b"secret", 1, 0, [0, 3])
    (1, Fraction(1, 1))
    >>> drawn_arm(b"secret", 1, 0, [1, 3]) == drawn_arm(b"secret", 1, 0, [1, 3])
    True
    """
    total = sum(left)
    hashed = hmac.new(key, f"{phase}:{place}".encode(), hashlib.sha256).digest()
    ticket = int.from_bytes(hashed, "big") % total  # 256 bits: no total of people makes the remainder uneven
    for arm, count in enumerate(left):
        if ticket < count:
            return arm, Fraction(count, total)
        ticket -= count
    raise AssertionError("a ticket beyond the urn")
