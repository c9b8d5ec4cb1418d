"""Bodies and answers of the operations."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from parley.coordinator.answers import Answer
from parley.coordinator.http.context import Place
from parley.protocol.codec import Model, Name


class WebhookPlace(Place, frozen=True, kw_only=True):
    """What the path of an operation may name."""

    webhook: Annotated[str, Meta(max_length=64)] = ""


class Telling(StrEnum):
    """The kinds of messages that webhooks get."""

    DECIDED = "phase.decided"
    LATE = "site.late"
    ENDED = "study.ended"
    STOPPED = "arm.stopped"
    HELD = "report.held"
    PROPOSED = "stop.proposed"

    @property
    def hidden(self) -> bool:
        """Whether it says something about rewards that viewers may not know, so that it has to be asked for."""
        return self in (Telling.HELD, Telling.PROPOSED)


class WebhookLine(Answer):
    """A webhook as it may be shown: without its secret."""

    id: str
    url: str
    events: list[Telling]
    study: str | None
    created_at: str
    created_by: str
    state: str  # live, failing or disabled
    attempts: int  # that failed since the last one that did not
    failing_since: str | None
    error: str  # of the last attempt
    delivered_at: str | None


class Webhooks(Answer):
    """Every webhook, and where the operator allows them to go."""

    webhooks: list[WebhookLine]
    allowed: list[str]


class NewWebhook(WebhookLine):
    """A new webhook, with the secret that signs what it is sent."""

    secret: str


class RemovedWebhook(Answer):
    """A webhook that was removed."""

    id: str
    removed: bool


class TestedWebhook(Answer):
    """The result of a test message."""

    id: str
    delivered: bool
    error: str


class WebhookBody(Model):
    """Where to send what: without `events`, all that viewers may know; without `study`, of all studies."""

    url: Annotated[str, Meta(min_length=1, max_length=2000)]
    events: Annotated[list[Telling], Meta(max_length=10)] = msgspec.field(default_factory=list)
    study: Name | None = None
