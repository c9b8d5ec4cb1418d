"""As much of a study as decides what may happen to it: its stage and phase, and the place of the agent concerned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from parley.protocol.messages import Report, StudyMessage
from parley.protocol.stages import OVER, Stage
from parley.rewards import Past

__all__ = ["Held", "Place", "Situation"]


class Held(NamedTuple):
    """A report that waits for an administrator."""

    digest: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """One agent's place in the phase in progress."""

    plan: str  # digest of the plan in force
    draws: tuple[int, ...] | None  # None: the phase asks nothing of the agent
    frozen: bool = False
    standing: Report | None = None  # the report that counts, if there is one
    held: Held | None = None  # the one that waits for an administrator; of no account where one counts
    refused: frozenset[str] = field(default=frozenset(), compare=False)  # those that an administrator did not take

    @property
    def awaited(self) -> bool:
        """Whether the phase waits for a report here."""
        return self.due and not self.frozen

    @property
    def due(self) -> bool:
        """Whether the phase asks for a report that is not in, frozen or not."""
        return self.draws is not None and self.standing is None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """As much of a study as decides what may happen to it. `place` is that of the agent an event is about."""

    id: str
    study: StudyMessage
    stage: Stage
    phase: int  # in progress; the last one once it is over
    missing: int  # agents that the phase asks, who are not frozen and have not reported
    cut: bool = False  # the phase takes no more reports: it is decided with those that are in
    reported: int = field(default=0, compare=False)  # reports that are in; only closing the phase with them asks
    place: Place | None = None
    against: Past | None = field(default=None, compare=False)  # what reports are held against; None: nothing

    @property
    def awaited(self) -> int:
        """How many reports the phase still needs. It is never kept, so that it cannot differ from what it counts."""
        return 0 if self.cut or self.stage in OVER else self.missing
