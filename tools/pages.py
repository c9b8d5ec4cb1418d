"""Docs pages with tables that commands write: each table is a CSV file below docs/tables, to which the page links.

    docs/appendix/peers.md          [ten-arms-yes-or-no.csv](../tables/peers/ten-arms-yes-or-no.csv)
    docs/tables/peers/ten-arms-yes-or-no.csv

Commands write Markdown that contains tables (`write`, `fill`) and read it back in that form (`read`), in which the docs
site shows it too. On GitHub a link leads to the file, which is shown as a table. Outside the appendix only long tables
between marks become files; short tables, and tables written by hand, stay on the page.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

LINK = re.compile(r"^\[[^\]]+\.csv\]\(([^)]*tables/[^)]+\.csv)\)$", flags=re.MULTILINE)
# A table, or a heading or mark, which names the tables below it; without one, the page names them.
PART = re.compile(
    r"^##+ (?P<heading>.+)$|^<!-- (?P<mark>.+?) -->$|(?P<table>^\|.*\|\n\|[-:| ]+\|(?:\n\|.*\|)*)$",
    flags=re.MULTILINE,
)
SHORT = 10  # most rows of a table that stays on a page outside the appendix


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown.

    >>> print(table(["N", "saving"], [["1", "25.2"]]))
    | N | saving |
    |---|---|
    | 1 | 25.2 |
    """
    lines = [f"| {' | '.join(map(_one_line, line))} |" for line in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def _one_line(cell: str) -> str:
    return " ".join(cell.splitlines()).replace("|", "\\|")


def cells(markdown: str) -> list[list[str]]:
    """Head and rows of a table in Markdown.

    >>> cells(table(["rule", "cost"], [["`a|b`", ""]]))
    [['rule', 'cost'], ['`a|b`', '']]
    """
    head, _, *rows = markdown.split("\n")
    split = (re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in (head, *rows))
    return [[cell.strip().replace("\\|", "|") for cell in line] for line in split]


def files(page: Path, text: str) -> tuple[str, dict[Path, str]]:
    """The text with a link in place of each table, and the content of each table's file."""
    appendix, name, marked = page.parent.name == "appendix", page.stem, False
    folder = (page.parent.parent if appendix else page.parent) / "tables" / page.stem
    made, named = dict[Path, str](), Counter[str]()

    def moved(part: re.Match[str]) -> str:
        nonlocal name, marked
        if part["mark"]:
            marked = not part["mark"].startswith("/")
        if part["table"] is None:
            name = part["heading"] or part["mark"]
            return part[0]
        rows = cells(part["table"])
        if not appendix and not (marked and len(rows) - 1 > SHORT):
            return part[0]
        plain = "-".join(re.findall(r"\w+", re.sub(r"['’]", "", name.lower())))
        named[plain] += 1
        path = folder / f"{plain}{f'-{named[plain]}' if named[plain] > 1 else ''}.csv"
        told = io.StringIO()
        csv.writer(told, lineterminator="\n").writerows(rows)
        made[path] = told.getvalue()
        return f"[{path.name}]({Path(os.path.relpath(path, page.parent)).as_posix()})"

    return PART.sub(moved, text), made


def linked(page: Path, text: str) -> list[Path]:
    """The files of tables that a page's text links to."""
    return [Path(os.path.normpath(page.parent / link)) for link in LINK.findall(text)]


def with_tables(page: Path, text: str, below: str = "") -> str:
    """The text with tables instead of links to them; `below` is put under each, with its link in place of `{}`."""

    def shown(link: re.Match[str]) -> str:
        with (page.parent / link[1]).open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        return table(head, rows) + below.format(link[1])

    return LINK.sub(shown, text)


def read(page: Path) -> str:
    """A page with its tables."""
    return with_tables(page, page.read_text(encoding="utf-8"))


def write(page: Path, text: str) -> None:
    """Write a page, and the files of its tables."""
    store(page, *files(page, text))


def fill(page: Path, name: str, text: str) -> None:
    """Replace the text between two marks of a page; its tables go into files.

    The other tables of the page are written again too, so that no two of them take the same name.
    """
    write(page, between(read(page), name, text))


def store(page: Path, text: str, made: Mapping[Path, str]) -> None:
    """Write a page and the files of its tables; delete files that it no longer links to."""
    before = linked(page, page.read_text(encoding="utf-8")) if page.exists() else []
    page.write_text(text, encoding="utf-8")
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for path in set(before) - set(linked(page, text)):
        path.unlink(missing_ok=True)


def between(text: str, name: str, part: str) -> str:
    """The text of a page with a part between the marks `<!-- name -->` and `<!-- /name -->`."""
    first, last = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if first not in text or last not in text:
        raise SystemExit(f"no marks {first.strip()} and {last}")
    before, _, rest = text.partition(first)
    return before + first + part + "\n" + last + rest.partition(last)[2]


def part(page: Path, name: str) -> str:
    """The text between two marks of a page, with its tables."""
    return read(page).partition(f"<!-- {name} -->\n")[2].partition(f"\n<!-- /{name} -->")[0]
