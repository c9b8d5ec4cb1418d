"""How a study ends, for an agent and as a whole: one word each, the same in policy, log, certificate, API and page."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

__all__ = ["End", "overall"]


class End(StrEnum):
    """The end of an agent's question. Those further down are worse for who asked."""

    DECIDED = "decided"  # its N arms are found
    ACCEPTED = "accepted"  # its leaders are within the tolerance
    LEFT = "left"  # it is gone, and the others' questions were re-weighed without it
    EXHAUSTED = "exhausted"  # the budget of samples or rounds, or the horizon, came first
    BLOCKED = "blocked"  # what is missing can come from nobody any more
    CANCELLED = "cancelled"  # an administrator stopped the study first
    OPEN = "open"  # not yet

    @property
    def answered(self) -> bool:
        """Whether the agent has an answer, under the study's guarantee."""
        return self in (End.DECIDED, End.ACCEPTED)

    @property
    def words(self) -> str:
        """The word, and what it means where it does not say so itself: on every page and in every command.

        >>> End.ACCEPTED.words, End.DECIDED.words
        ('accepted: within the tolerance of the best', 'decided')
        """
        meaning = {
            End.ACCEPTED: "within the tolerance of the best",
            End.EXHAUSTED: "the budget or the horizon came first",
            End.BLOCKED: "what is missing can come from nobody any more",
            End.LEFT: "the others were re-weighed without it",
        }.get(self)
        return f"{self.value}: {meaning}" if meaning else self.value


def overall(ends: Iterable[str]) -> End:
    """The end of the study: the worst of its agents', but for those who left while others stayed.

    >>> overall(["decided", "accepted", "decided"]).value, overall(["decided", "left"]).value
    ('accepted', 'decided')
    """
    order = list(End)
    stayed = [end for end in map(End, ends) if end is not End.LEFT]
    return max(stayed, key=order.index, default=End.LEFT)
