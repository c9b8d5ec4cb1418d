"""The status of a study, an agent, and an agent's arm: one term each, the same everywhere.

Policies, logs, certificates, the API, pages, files and commands all use these terms, and no others.
"""

from collections.abc import Iterable
from enum import StrEnum

from parley.text.translation import Translatable


class OutcomeStatus(StrEnum):
    """The ways in which an agent's question can end, from best to worst; `OPEN` if it has not ended."""

    UNASKED = "unasked"  # the agent asks no question and is only drawn
    DECIDED = "decided"  # the agent's N best arms are found
    ACCEPTED = "accepted"  # the agent's leaders are within the tolerance of its best
    LEFT = "left"  # the agent is gone, and the questions of other agents were re-weighed without it
    EXHAUSTED = "exhausted"  # the budget of samples or rounds, or the horizon, ran out first
    BLOCKED = "blocked"  # nobody is left who could make the missing draws
    CANCELLED = "cancelled"  # an administrator stopped the study first
    SETTLED = "settled"  # the agent's question is closed, but its answer is final only when all agents are settled
    OPEN = "open"  # the agent's question has not ended

    @property
    def answered(self) -> bool:
        """Whether the agent has an answer under the study's guarantee."""
        return self in (OutcomeStatus.DECIDED, OutcomeStatus.ACCEPTED)

    @property
    def description(self) -> str:
        """The status with an explanation if it needs one, for pages and commands.

        >>> OutcomeStatus.ACCEPTED.description, OutcomeStatus.DECIDED.description
        ('accepted: within the tolerance of the best', 'decided')
        """
        meaning = {
            OutcomeStatus.UNASKED: "it asks no question",
            OutcomeStatus.ACCEPTED: "within the tolerance of the best",
            OutcomeStatus.EXHAUSTED: "the budget or horizon was reached first",
            OutcomeStatus.BLOCKED: "the missing draws can no longer be supplied",
            OutcomeStatus.LEFT: "the others were re-weighed without it",
            OutcomeStatus.SETTLED: "final when all agents are settled",
        }.get(self)
        return Translatable(f"{self.value}: {meaning}" if meaning else self.value)


class ArmStatus(StrEnum):
    """The status of an arm for one agent."""

    CHOSEN = "chosen"  # an answer, under the study's guarantee
    OPEN = "open"  # still a candidate: the agent has no answer
    RULED_OUT = "ruled out"  # proven worse than the agent's N best
    SET_ASIDE = "set aside"  # the agent accepted other arms within the tolerance; this arm may be as good
    LEFT = "left"  # the agent is gone or asks nothing, so it has no answer
    CLOSED = "closed"  # nobody's candidate: not opened yet, or withdrawn

    def described(self, phase: int) -> str:
        """The status in words, with the phase in which the arm was dropped, if it was.

        >>> ArmStatus.SET_ASIDE.described(4), ArmStatus.RULED_OUT.described(3), ArmStatus.OPEN.described(0)
        ('set aside in phase 4', 'ruled out in phase 3', 'open')
        """
        if self is ArmStatus.RULED_OUT:
            return Translatable("ruled out in phase {0:,}", phase)
        if self is ArmStatus.SET_ASIDE:
            return Translatable("set aside in phase {0:,}", phase)
        return Translatable(self.value)


def overall(ends: Iterable[str]) -> OutcomeStatus:
    """The status of a study: the worst status among agents that ask and have not left; `LEFT` if there are none.

    >>> overall(["decided", "accepted", "decided"]).value, overall(["decided", "left"]).value
    ('accepted', 'decided')
    """
    order = list(OutcomeStatus)
    gone = (OutcomeStatus.LEFT, OutcomeStatus.UNASKED)
    stayed = [end for end in map(OutcomeStatus, ends) if end not in gone]
    return max(stayed, key=order.index, default=OutcomeStatus.LEFT)
