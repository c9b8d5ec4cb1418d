"""Webhooks: signed messages about decided phases, late sites and ended studies, to hosts that the operator allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parley.hooks import Command, Edge

if TYPE_CHECKING:
    from parley.coordinator.http.context import Context, Service
    from parley.coordinator.http.guard import Operation
    from parley.coordinator.record.tables import Schema
    from parley.coordinator.settings import EdgeSettings
    from parley.dashboard.session import EdgePages

HERE = Path(__file__).parent


class Webhooks(Edge):
    """Adds API operations, a page, commands, tables, and a sender in the background."""

    name = "webhooks"
    summary = "messages to other programs: serve --webhook-allow, admin webhooks"
    docs = "integrations.md#webhooks"
    commands = (
        Command(
            name="admin webhooks",
            target="parley.edges.webhooks.commands:webhooks_command",
            help="Notify other programs by signed requests to addresses that the operator allows.",
        ),
    )
    catalogs = HERE / "catalogs"
    not_restored = "Webhooks are in no backup: add them again (parley admin webhooks add URL)."

    def server_settings(self) -> type[EdgeSettings]:
        from parley.edges.webhooks.hosts import WebhookSettings

        return WebhookSettings

    def tables(self) -> Schema:
        from parley.coordinator.record.tables import Schema
        from parley.edges.webhooks.tables import metadata

        # Not in backups: secrets stay on this server, and a copy that is served for inspection must not send messages.
        return Schema(owner=self.name, metadata=metadata, migrations=HERE / "migrations")

    def operations(self) -> Sequence[Operation]:
        from parley.edges.webhooks.routes import OPERATIONS

        return OPERATIONS

    def service(self, context: Context) -> Service:
        from parley.edges.webhooks.sender import Sender

        return Sender(context)

    def pages(self) -> EdgePages:
        from parley.dashboard.session import EdgePages, Link
        from parley.edges.webhooks.page import routes

        links = (Link(path="/webhooks", title="Webhooks"),)
        return EdgePages(routes=routes, templates=HERE / "templates", links=links)


edge = Webhooks()
