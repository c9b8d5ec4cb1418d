"""`parley admin webhooks`: add, list, test, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from parley.cli.console import hand_over, json_option, print_json, say, show_table, with_client
from parley.text.formatting import plural

if TYPE_CHECKING:
    from parley.agent.client import Client


@click.group()
def webhooks_command() -> None:
    """Notify other programs by signed requests to addresses that the operator allows."""


# The values of `Telling`, repeated since its module needs the server's packages.
EVENTS = ("phase.decided", "site.late", "study.ended", "arm.stopped", "report.held", "stop.proposed")


@webhooks_command.command("add")
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(EVENTS),
    help="What to send; may be repeated. Default: all but report.held and stop.proposed, which viewers may not know.",
)
@click.option("--study", help="Send only messages about this study; default: about all studies.")
@click.option(
    "--output", type=click.Path(dir_okay=False), help="Write the secret to this file instead of to the screen."
)
@with_client
def add_webhook(client: Client, url: str, events: tuple[str, ...], study: str | None, output: str | None) -> None:
    """Notify URL of what happens from now on. The secret that signs the messages is printed only once.

    The operator of the coordinator must allow the host: parley serve --webhook-allow.
    """
    made = client.request("POST", "webhooks", json={"url": url, "events": list(events), "study": study})
    say(f"{made['id']} gets {', '.join(made['events'])} of {made['study'] or 'all studies'}.")
    hand_over(made["secret"], output, what="Secret", kept="")
    say(f"Next: parley admin webhooks test {made['id']}")


@webhooks_command.command("list")
@with_client
@json_option
def list_webhooks(client: Client, as_json: bool) -> None:
    """List all webhooks, without their secrets, and whether their messages arrive."""
    found = client.request("GET", "webhooks")
    if as_json:
        print_json(found)
        return
    rows = [
        (one["id"], one["url"], ", ".join(one["events"]), one["study"] or "all", _webhook_state(one))
        for one in found["webhooks"]
    ]
    show_table("Webhooks", ("id", "url", "events", "study", "state"), rows)
    say(f"Allowed: {', '.join(found['allowed']) or 'nothing (parley serve --webhook-allow)'}.")


def _webhook_state(one: dict[str, Any]) -> str:
    if one["state"] == "live":
        return f"live, delivered {one['delivered_at']}" if one["delivered_at"] else "live, nothing sent yet"
    failed = plural(one["attempts"], "failed attempt")
    return f"{one['state']}; first failure {one['failing_since']}, {failed}: {one['error']}"


@webhooks_command.command("remove")
@click.argument("webhook")
@with_client
def remove_webhook(client: Client, webhook: str) -> None:
    """Remove WEBHOOK, by its id."""
    say(f"Removed: {client.request('DELETE', 'webhooks', webhook)['id']}")


@webhooks_command.command("test")
@click.argument("webhook")
@with_client
def test_webhook(client: Client, webhook: str) -> None:
    """Send WEBHOOK a test message now. If it arrives, a failing or disabled webhook receives all that it missed."""
    found = client.request("POST", "webhooks", webhook, "test", timeout=60)
    if not found["delivered"]:
        raise click.ClickException(f"not delivered: {found['error']}")
    say("Delivered.")
