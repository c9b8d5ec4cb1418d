"""Tables that are files of their own are shown on the page that links to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.pages import linked, with_tables

__all__ = ["show_tables"]

BELOW = "\n\n[This table as CSV]({})"
UNBROKEN = " ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"  # a wide table scrolls


def show_tables(app: Any, name: str, source: list[str]) -> None:
    """Before a page is read: a link to the file of a table becomes the table, with a link to download it below."""
    page = Path(app.env.doc2path(name))
    for path in linked(page, source[0]):
        app.env.note_dependency(str(path))
    lines = with_tables(page, source[0], BELOW).split("\n")
    source[0] = "\n".join(line.replace(*UNBROKEN) if line.startswith("|") else line for line in lines)
