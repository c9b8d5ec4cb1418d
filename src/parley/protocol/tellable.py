"""What the log could not tell again never enters it: an event is written, read back and compared first."""

from __future__ import annotations

from parley.errors import InvalidInput
from parley.protocol.codec import read_json
from parley.protocol.events import Event, kind_of, read_event

__all__ = ["require_tellable"]

TOLD_AGAIN = "told again"  # noted in an event that was found right


def require_tellable(event: Event) -> None:
    """Raise unless a reader of the log will find this very event: written, read and compared, to the last bit.

    Of one object once: whoever writes it under a lock finds that it was made sure before.

    >>> from parley.protocol.events import Disputed, Paused
    >>> require_tellable(Paused(reason="holiday"))
    >>> require_tellable(Disputed(agent="x", sequence=2**53 + 1, head=""))
    Traceback (most recent call last):
    parley.errors.InvalidInput: sequence: found a huge number; allowed: whole numbers up to 2^53
    """
    if TOLD_AGAIN in vars(event):
        return
    kind, text = kind_of(event), event.text
    if read_event(kind, read_json(text, kind)).text != text:
        raise InvalidInput(
            kind, found="something that would be read as something else", allowed="what can be told again"
        )
    vars(event)[TOLD_AGAIN] = True
