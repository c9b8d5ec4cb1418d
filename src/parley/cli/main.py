"""The `parley` command: imports a subcommand's module, runs the subcommand, and turns errors into clear messages.

The exit status is 0 for success, 1 if the work itself failed, 2 if the input was wrong, 130 if the user interrupted it
(Ctrl-C), and 143 if it was terminated (SIGTERM).
"""

import importlib
import io
import os
import sys
from concurrent.futures import BrokenExecutor
from difflib import get_close_matches
from typing import NoReturn

import click
from rich.text import Text

from parley import __version__
from parley.cli.console import Terminated, errors
from parley.errors import InvalidInput, ParleyError
from parley.hooks import commands_of_edges, edges
from parley.system import killpoints

# The commands that `parley --help` lists, in the order in which users meet them. Help texts are here because a
# command's module is imported only when the command is called.
PARTS = {
    "See and plan": {
        "demo": "Watch one study being decided, then compare the policies.",
        "bounds": "Compute what no algorithm can beat on a study, with proof.",
        "simulate": "Run a policy many times: samples, rounds, errors, regret.",
        "plan": "Estimate what a study will cost, before anything is known.",
        "analyze": "Analyse a finished table: every agent's best arm, and how sure.",
    },
    "A live study": {
        "serve": "Run the coordinator, and a dashboard at the same address.",
        "admin": "Prepare a coordinator's database, and run its studies.",
        "agent": "Take part in a study: draw what the plan asks for, and report it.",
        "site": "Run a site where people come one by one.",
        "verify": "Check a study's log: every hash, every decision.",
    },
    "Experiments": {
        "sweep": "Run a policy over many settings, and keep the results.",
        "report": "Summarise a sweep: tables, figures, a page.",
        "figures": "Draw the figures of a sweep for a paper: PDF, column width.",
        "audit-policy": "Measure error probabilities too small to count.",
    },
    "This machine": {
        "doctor": "Check what is installed and whether the database answers.",
        "completion": "Print the completion script of a shell.",
        "schema": "Print the JSON Schema of the study file, for editors.",
    },
}
# Modules of `parley.cli` that are not named after their command.
MODULES = {
    "agent": "site",
    "audit-policy": "simulate",
    "completion": "doctor",
    "figures": "sweeps",
    "report": "sweeps",
    "schema": "doctor",
    "sweep": "sweeps",
}
COMMANDS = {name: f"parley.cli.{MODULES.get(name, name)}" for part in PARTS.values() for name in part}


class Commands(click.Group):
    """A group that loads commands by name: `parley demo` is `demo_command` in the module `demo`. Edges add commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted({*COMMANDS, *commands_of_edges()})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        parts = {title: dict(part) for title, part in PARTS.items()}
        for name, command in commands_of_edges().items():
            parts.setdefault(command.part, {})[name] = command.help
        for title, part in parts.items():
            with formatter.section(title):
                formatter.write_dl(list(part.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module = importlib.import_module(COMMANDS[cmd_name])
            command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
            return command
        further = commands_of_edges()
        if cmd_name in further:
            return further[cmd_name].load()
        near = get_close_matches(cmd_name, (*COMMANDS, *further), n=1, cutoff=0.7)
        hint = f"Did you mean {near[0]!r}?" if near else f"Edges that bring commands: {_bringing()} (parley doctor)."
        raise click.UsageError(f"No such command {cmd_name!r}. {hint}", ctx)


def _bringing() -> str:
    """The names of the installed edges that add commands, for the error about an unknown command."""
    return ", ".join(edge.name for edge in edges() if edge.commands) or "none"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="parley")
def main() -> None:
    """Find every agent's best arms when each agent's reward is a weighted mix of everybody's.

    A study is a TOML file (see examples/). Start with `parley demo`, then try `parley bounds` and `parley simulate` on
    examples/paper.toml, then on a copy of it with your own arms, agents and weights.
    """
    killpoints.arm(os.environ.get("PARLEY_KILL_AT", ""))


def run() -> None:
    """Run `main` as the console script does: users see a message instead of a traceback (unless PARLEY_DEBUG=1)."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a Windows console, or LANG=C, cannot encode every name
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.exceptions.Abort, KeyboardInterrupt):
        errors.print("Interrupted.")
        sys.exit(130)
    except Terminated:
        _tell("Stopped", "the process was asked to end (SIGTERM) before it was done", 143)
    except BrokenExecutor:
        _tell("Failed", "a worker process was killed, perhaps because it ran out of memory: try fewer workers", 1)
    except InvalidInput as error:
        _tell("Error", str(error), 2)
    except (ParleyError, OSError) as error:
        _tell("Failed", str(error), 1)
    except MemoryError:
        _tell("Failed", "out of memory: the problem or the number of replications is too large for this machine", 1)
    except Exception as error:  # a bug in Parley: report it in one line
        if os.environ.get("PARLEY_DEBUG"):
            raise
        _tell("Failed", f"{type(error).__name__}: {error}. This is a bug in Parley; PARLEY_DEBUG=1 shows where", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _tell(word: str, message: str, status: int) -> NoReturn:
    errors.print(Text(f"{word}: ", style="bold red") + Text(message), highlight=False, soft_wrap=True)
    sys.exit(status)
