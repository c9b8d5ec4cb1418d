"""Every command of the command line, from the help that it prints itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from parley.cli.main import main

__all__ = ["page"]


def page() -> str:
    """One page, a heading a command."""
    context = click.Context(main, info_name="parley")
    lines = [
        "# Commands",
        "",
        "What `parley COMMAND --help` says, on one page. Exit status: 0 done, 1 the work itself failed,",
    ]
    lines += ["2 the input was wrong, 130 interrupted.", ""]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        lines += _told(command, click.Context(command, info_name=name, parent=context), 2)
    return "\n".join(lines) + "\n"


def _told(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} `{context.command_path}`"
    yield ""
    yield from _prose(command.help or command.short_help or "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _told(below, click.Context(below, info_name=name, parent=context), depth + 1)
        return
    yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    yield ""
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and one.name != "help"]
    rows = [record for option in options if (record := option.get_help_record(context))]
    if not rows:
        return
    yield "| option | |"
    yield "|---|---|"
    for names, words in rows:
        yield f"| `{names}` | {_cell(words)} |"
    yield ""


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; one that click is told to leave alone (marked by a backspace) stays as it was typed."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from ("    " + line for line in paragraph.removeprefix("\b\n").splitlines())
        else:
            yield from (_plain(line) for line in paragraph.splitlines())
        yield ""


def _plain(text: str) -> str:
    return text.replace("<", "\\<").replace("[", "\\[").replace("*", "\\*")


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")
