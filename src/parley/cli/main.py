"""The `parley` command: finds the file of a command, runs it, and turns an error into one clear message.

Exit status: 0 done, 1 the work itself failed, 2 the input was wrong, 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys

import click

from parley import __version__
from parley.cli.console import errors
from parley.errors import InvalidInput, ParleyError

__all__ = ["main", "run"]

# Name -> module of the command; imported only when it is called, so that `parley --help` answers at once.
COMMANDS = {
    "admin": "parley.cli.admin",
    "agent": "parley.cli.agent",
    "bounds": "parley.cli.bounds",
    "completion": "parley.cli.completion",
    "demo": "parley.cli.demo",
    "live-demo": "parley.cli.live",
    "plan": "parley.cli.plan",
    "serve": "parley.cli.serve",
    "simulate": "parley.cli.simulate",
    "verify": "parley.cli.verify",
}


class Commands(click.Group):
    """Loads commands by name from `COMMANDS`; each module holds a click command called `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="parley")
def main() -> None:
    """Find every agent's best arms when each agent's reward is a weighted mix of everybody's.

    A study is a TOML file (see examples/). Start with `parley demo`, then try `parley bounds` and `parley simulate` on
    examples/paper.toml, then on a copy of it with your own arms, agents and weights.
    """


def run() -> None:
    """The console script: like `main`, but no traceback ever reaches a user."""
    try:
        status = main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.exceptions.Abort:
        errors.print("Interrupted.")
        sys.exit(130)
    except InvalidInput as error:
        errors.print(f"[bold red]Error:[/] {_plain(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except ParleyError as error:
        errors.print(f"[bold red]Failed:[/] {_plain(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader of a pipe left: `parley ... | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        errors.print(f"[bold red]Failed:[/] {_plain(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def _plain(text: str) -> str:
    """Square brackets in a message are text, not markup."""
    return text.replace("[", r"\[")
