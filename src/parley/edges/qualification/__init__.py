"""Qualification: `parley qualify` tests on this machine whether Parley's promises hold, and writes a report."""

from parley.hooks import Command, Edge


class Qualification(Edge):
    """Adds the command `parley qualify`."""

    name = "qualification"
    summary = "try here what Parley promises: qualify"
    docs = "production.md#qualify-the-installation"
    commands = (
        Command(
            name="qualify",
            target="parley.edges.qualification.command:qualify_command",
            help="Try here what Parley promises, and write a report, which `--key` signs.",
            part="This machine",
        ),
    )


edge = Qualification()
