"""Reproduction of the paper: its tables and figures, and an explanation of the published numbers."""

from parley.hooks import Command, Edge


class Reproduction(Edge):
    """Adds the command `parley reproduce`."""

    name = "reproduction"
    summary = "the paper's tables again: reproduce"
    docs = "experiments.md#the-paper-reproduced"
    commands = (
        Command(
            name="reproduce",
            target="parley.edges.reproduction.command:reproduce_command",
            help="Reproduce the paper's tables.",
            part="Experiments",
        ),
    )


edge = Reproduction()
