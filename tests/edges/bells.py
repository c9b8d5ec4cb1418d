"""An edge of another package in one file: a route, a command, a page, and a reaction to a commit."""

from functools import cache

import click

from parley.hooks import Command, Edge


@cache
def tower():
    """The class of the service. It needs the packages of a server, so it is made when one starts."""
    from parley.coordinator.http import context

    class Tower(context.Service):
        rung = ()

        def committed(self, row):
            self.rung = (*self.rung, (row.id, row.sequence))

    return Tower


class Bells(Edge):
    name = "bells"
    summary = "a bell that rings when a study changes: bells"
    commands = (Command(name="bells", target="bells:bells_command", help="Ring a bell."),)

    def service(self, context):
        return tower()()

    def operations(self):
        from parley.coordinator.access.tokens import ADMINS
        from parley.coordinator.answers import Answer
        from parley.coordinator.http.guard import Operation

        class Rung(Answer):
            bells: int

        async def count_bells(call):
            return Rung(bells=len(call.context.service(tower()).rung))

        return [Operation(tag="bells", method="GET", path="/v1/bells", handler=count_bells, roles=ADMINS, answer=Rung)]

    def pages(self):
        from starlette.responses import HTMLResponse

        from parley.dashboard.session import EdgePages, Link, page

        async def bells_page(shown):
            return HTMLResponse(f"The bell rang {(await shown.call('count_bells')).bells} times.")

        return EdgePages(routes=[page("/bells", bells_page)], links=[Link(path="/bells", title="Bells")])


edge = Bells()
bells_command = click.Command("bells", callback=lambda: click.echo("Ding."), help="Ring a bell.")
