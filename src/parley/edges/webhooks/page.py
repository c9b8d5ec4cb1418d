"""The page of webhooks: add, test, remove. The secret of a new webhook is displayed only once."""

from starlette.responses import RedirectResponse, Response

from parley.coordinator.problems import Refusal
from parley.dashboard.session import ADMINISTRATORS, Page, page
from parley.edges.webhooks import routes as api
from parley.edges.webhooks.messages import NewWebhook, Telling
from parley.text.translation import Translatable


async def webhooks_page(
    shown: Page, *, added: NewWebhook | None = None, said: str = "", problem: str = "", code: int = 200
) -> Response:
    """The list of webhooks without their secrets, except for the secret of a webhook `added` just now."""
    found = await shown.call(api.list_webhooks)
    return await shown.show(
        "webhooks.html",
        code=code,
        webhooks=found.webhooks,
        allowed=found.allowed,
        kinds=list(Telling),
        added=added,
        said=said,
        problem=problem,
        form=shown.form,
    )


async def add(shown: Page) -> Response:
    """Add the webhook in the form, and display its secret."""
    body = {"url": shown.form.get("url", "").strip(), "study": shown.form.get("study", "").strip() or None}
    chosen = [kind for kind in Telling if kind in shown.form]
    try:
        if not chosen:
            raise Refusal("invalid-request", "events: found none; allowed: at least one")
        return await webhooks_page(shown, added=await shown.call(api.add_webhook, body={**body, "events": chosen}))
    except Refusal as refusal:
        if refusal.status not in (404, 409, 422):
            raise
        return await webhooks_page(shown, problem=refusal.sentence, code=refusal.status)


async def test(shown: Page) -> Response:
    """Send a webhook a test message now, and report whether it arrived."""
    found = await shown.call(api.test_webhook, webhook=shown.form.get("webhook", "-"))
    if found.delivered:
        return await webhooks_page(shown, said=Translatable("The test message arrived: {0} is live.", found.id))
    problem = Translatable("The test message for {0} did not arrive: ", found.id) + str(found.error)
    return await webhooks_page(shown, problem=problem)


async def remove(shown: Page) -> Response:
    """Remove a webhook."""
    await shown.call(api.remove_webhook, webhook=shown.form.get("webhook", "-"))
    return RedirectResponse("/webhooks", status_code=303)


routes = [
    page("/webhooks", webhooks_page),
    page("/webhooks", add, "POST", only=ADMINISTRATORS),
    page("/webhooks/test", test, "POST", only=ADMINISTRATORS),
    page("/webhooks/remove", remove, "POST", only=ADMINISTRATORS),
]
