"""Qualification: `parley qualify` tries on this machine what Parley promises, and reports it, signed."""

from parley.hooks import Command, Edge


class Qualification(Edge):
    """A command."""

    name = "qualification"
    summary = "try here what Parley promises: qualify"
    commands = (
        Command(
            name="qualify",
            target="parley.edges.qualification.command:qualify_command",
            help="Try here what Parley promises, and write a signed report.",
            part="This machine",
        ),
    )


edge = Qualification()
