"""Tables that are made once and shown four ways: for a terminal, as Markdown, as CSV, as plain records."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from parley.errors import InvalidInput

__all__ = ["Column", "Table", "fixed", "plain", "share", "whole"]

Format = Callable[[Any], str]


def plain(value: Any) -> str:
    """As it is; nothing for None."""
    return "" if value is None else str(value)


def whole(value: float | None) -> str:
    """A large number without decimals: `93,969`."""
    return "" if value is None else f"{value:,.0f}"


def fixed(places: int) -> Format:
    """A number with so many decimals.

    >>> fixed(1)(85.37), fixed(2)(None)
    ('85.4', '')
    """
    return lambda value: "" if value is None else f"{value:,.{places}f}"


def share(value: float | None) -> str:
    """A small probability: five decimals, the paper's own precision."""
    return "" if value is None else f"{value:.5f}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A heading, how its values are shown to people, and the name programs know it by."""

    title: str
    key: str
    show: Format = plain
    number: bool = True  # numbers stand right, text stands left
    people: bool = True  # shown in a terminal and in Markdown
    programs: bool = True  # in CSV and in records


@dataclass(frozen=True, kw_only=True)
class Table:
    """A title, columns, and rows of raw values.

    >>> table = Table(
    ...     title="Costs",
    ...     columns=(Column(title="policy", key="policy", number=False), Column(title="mean", key="cost", show=whole)),
    ...     rows=(("wcpe", 93969.2),),
    ... )
    >>> print(table.markdown())
    | policy | mean |
    |---|---:|
    | wcpe | 93,969 |
    >>> table.records()
    [{'policy': 'wcpe', 'cost': 93969.2}]
    """

    title: str
    name: str = "table"  # of the files it is written to
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInput("row", found=f"{len(row)} values", allowed=f"{len(self.columns)}, one per column")

    def shown(self) -> list[list[str]]:
        """The rows as people read them, under the titles of `visible`."""
        return [
            [column.show(value) for column, value in zip(self.columns, row, strict=True) if column.people]
            for row in self.rows
        ]

    @property
    def visible(self) -> list[Column]:
        """The columns that people see."""
        return [column for column in self.columns if column.people]

    def records(self) -> list[dict[str, Any]]:
        """The rows as programs read them."""
        return [
            {column.key: value for column, value in zip(self.columns, row, strict=True) if column.programs}
            for row in self.rows
        ]

    def markdown(self) -> str:
        """A Markdown table, without its title."""
        return "\n".join(
            [
                _line([column.title for column in self.visible]),
                "|" + "|".join("---:" if column.number else "---" for column in self.visible) + "|",
                *(_line(row) for row in self.shown()),
            ]
        )

    def csv(self) -> str:
        """Comma-separated raw values under the columns' keys."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.key for column in self.columns if column.programs])
        writer.writerows(["" if value is None else value for value in row.values()] for row in self.records())
        return text.getvalue()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
