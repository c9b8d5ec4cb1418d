"""API operations of webhooks: list, add, test, remove."""

from typing import Any

from parley.coordinator.access.tokens import ADMINS
from parley.coordinator.http.context import Call
from parley.coordinator.http.guard import Operation
from parley.edges.webhooks import subscriptions
from parley.edges.webhooks.hosts import WebhookSettings
from parley.edges.webhooks.messages import (
    NewWebhook,
    RemovedWebhook,
    TestedWebhook,
    WebhookBody,
    WebhookLine,
    WebhookPlace,
    Webhooks,
)
from parley.edges.webhooks.sender import Sender


async def list_webhooks(call: Call[None, None]) -> Webhooks:
    """List all webhooks without their secrets, and the hosts that the operator allows."""
    found = await call.context.read(subscriptions.every)
    allowed = call.context.settings.of(WebhookSettings).allowed_hosts
    shown = [WebhookLine(**subscriptions.line(row)) for row in found]
    return Webhooks(webhooks=shown, allowed=[*allowed.names, *map(str, allowed.networks)])


async def add_webhook(call: Call[None, WebhookBody]) -> NewWebhook:
    """Add a webhook, which receives what happens from now on. Only this answer has its secret: store it."""
    body, by, at = call.body, call.by.name, call.context.clock()
    await call.context.service(Sender).check(body.url)
    secret, row = await call.change(
        lambda transaction: subscriptions.register(
            transaction, url=body.url, events=body.events, study=body.study, by=by, at=at
        )
    )
    return NewWebhook(**subscriptions.line(row), secret=secret)


async def remove_webhook(call: Call[None, None]) -> RemovedWebhook:
    """Remove a webhook: nothing is sent to it any more, and its secret is deleted."""
    webhook, by, at = _named(call), call.by.name, call.context.clock()
    row = await call.change(lambda transaction: subscriptions.remove(transaction, webhook, by=by, at=at))
    return RemovedWebhook(id=row.id, removed=True)


async def test_webhook(call: Call[None, None]) -> TestedWebhook:
    """Send a webhook a test message now. If it arrives, a failing or disabled webhook receives all that it missed."""
    row = await call.context.read(lambda transaction: subscriptions.get(transaction, _named(call)))
    error = await call.context.service(Sender).test(row)
    return TestedWebhook(id=row.id, delivered=not error, error=error)


def _named(call: Call[None, None]) -> str:
    assert isinstance(call.at, WebhookPlace)
    return call.at.webhook


ALL, ONE = "/v1/webhooks", "/v1/webhooks/{webhook}"


def _row(method: str, path: str, handler: Any, **more: Any) -> Operation:
    return Operation(tag="webhooks", method=method, path=path, handler=handler, roles=ADMINS, **more)


OPERATIONS = (
    _row("GET", ALL, list_webhooks, answer=Webhooks),
    _row("POST", ALL, add_webhook, body=WebhookBody, answer=NewWebhook, status=201, secret=True),
    _row("DELETE", ONE, remove_webhook, place=WebhookPlace, answer=RemovedWebhook),
    _row("POST", ONE + "/test", test_webhook, place=WebhookPlace, answer=TestedWebhook),
)
