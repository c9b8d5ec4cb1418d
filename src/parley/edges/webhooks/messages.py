"""Bodies and answers of the webhooks' operations."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from parley.coordinator.answers import Answer
from parley.coordinator.http.context import Place
from parley.protocol.codec import Model, Name


class WebhookPlace(Place, frozen=True, kw_only=True):
    """Path parameters of the webhooks' operations."""

    webhook: Annotated[str, Meta(max_length=64)] = ""


class Telling(StrEnum):
    """The kinds of messages that webhooks may receive."""

    DECIDED = "phase.decided"
    LATE = "site.late"
    ENDED = "study.ended"
    STOPPED = "arm.stopped"
    HELD = "report.held"
    PROPOSED = "stop.proposed"

    @property
    def hidden(self) -> bool:
        """Whether messages of this kind reveal something about rewards. Webhooks get them only on request."""
        return self in (Telling.HELD, Telling.PROPOSED)


class WebhookLine(Answer):
    """A webhook without its secret."""

    id: str
    url: str
    events: list[Telling]
    study: str | None
    created_at: str
    created_by: str
    state: str  # live, failing or disabled
    attempts: int  # failures since the last success
    failing_since: str | None
    error: str  # of the last attempt
    delivered_at: str | None


class Webhooks(Answer):
    """All webhooks, and the hosts that the operator allows."""

    webhooks: list[WebhookLine]
    allowed: list[str]


class NewWebhook(WebhookLine):
    """A new webhook, with the secret that signs its messages."""

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
    """What to send to which URL. Default: messages about all studies, of every kind that viewers may know."""

    url: Annotated[str, Meta(min_length=1, max_length=2000)]
    events: Annotated[list[Telling], Meta(max_length=10)] = msgspec.field(default_factory=list)
    study: Name | None = None
