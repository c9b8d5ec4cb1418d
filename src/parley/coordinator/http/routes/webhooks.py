"""Webhooks: list, add, remove, test. The secret of a new one is shown once."""

from parley.coordinator.access import webhooks
from parley.coordinator.answers import NewWebhook, RemovedWebhook, TestedWebhook, WebhookLine, Webhooks
from parley.coordinator.http.context import Call
from parley.coordinator.http.schemas import WebhookBody


async def list_webhooks(call: Call[None, None]) -> Webhooks:
    """Every webhook without its secret, and where the operator allows them to go."""
    found, allowed = await call.context.read(webhooks.every), call.context.settings.allowed_hosts
    shown = [WebhookLine(**webhooks.line(row)) for row in found]
    return Webhooks(webhooks=shown, allowed=[*allowed.names, *map(str, allowed.networks)])


async def add_webhook(call: Call[None, WebhookBody]) -> NewWebhook:
    """Tell an address what happens from now on; the answer is the only place where its secret is shown."""
    body, by, at = call.body, call.by.name, call.context.clock()
    await call.context.sender.check(body.url)
    secret, row = await call.change(
        lambda transaction: webhooks.register(
            transaction, url=body.url, events=body.events, study=body.study, by=by, at=at
        )
    )
    return NewWebhook(**webhooks.line(row), secret=secret)


async def remove_webhook(call: Call[None, None]) -> RemovedWebhook:
    """Tell a webhook nothing more, and forget its secret."""
    webhook, by, at = call.at.webhook, call.by.name, call.context.clock()
    row = await call.change(lambda transaction: webhooks.remove(transaction, webhook, by=by, at=at))
    return RemovedWebhook(id=row.id, removed=True)


async def test_webhook(call: Call[None, None]) -> TestedWebhook:
    """Send a test message now. If it arrives, a webhook that was failing or disabled is told what it missed."""
    row = await call.context.read(lambda transaction: webhooks.get(transaction, call.at.webhook))
    error = await call.context.sender.test(row)
    return TestedWebhook(id=row.id, delivered=not error, error=error)
