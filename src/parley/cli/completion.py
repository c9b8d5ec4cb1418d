"""`parley completion`: the shell's own completion for commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    bash:  parley completion bash > ~/.local/share/bash-completion/completions/parley
    zsh:   parley completion zsh  > ~/.zfunc/_parley        (with ~/.zfunc in fpath)
    fish:  parley completion fish > ~/.config/fish/completions/parley.fish
    """
    from parley.cli.main import main

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(main, {}, "parley", "_PARLEY_COMPLETE").source())
