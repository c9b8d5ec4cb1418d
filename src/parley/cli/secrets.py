"""How a secret is handed over: to a file that only its owner can read, or, once, to the screen."""

from __future__ import annotations

from pathlib import Path

from parley.cli.console import screen
from parley.files import SECRET, write_whole

__all__ = ["hand_over", "write_secret"]


def hand_over(token: str, file: str | None) -> None:
    """A token, to a file if one is named."""
    if file is None:
        screen.print(f"Token (shown once, kept nowhere): {token}", highlight=False, soft_wrap=True)
        return
    write_secret(file, token)
    screen.print(f"Token written to {file}.", highlight=False, soft_wrap=True)


def write_secret(file: str, token: str) -> None:
    """A token, in a line of its own."""
    write_whole(Path(file), token + "\n", mode=SECRET)
