"""Tables with five renderings: for a terminal, as HTML, as Markdown, as CSV, and as plain records.

A column is right-aligned if all its cells are numbers; on a screen the first column is always left-aligned. On a
terminal, words wrap and numbers are never cut. If the columns still do not fit side by side, each row becomes a small
list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from markupsafe import Markup
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from parley.errors import InvalidInput
from parley.text.formatting import csv_text, is_number

Format = Callable[[Any], str]

LEAST_WORDS = 12  # smallest width, in characters, of a column of words on a terminal
LONGEST_WORD = 24  # words up to this length are not broken if there is room
EDGES = 3  # characters that a column needs besides its text: a space on either side, and a line


def plain(value: Any) -> str:
    """Format a value as text, None as empty text; text and `Markup` are returned unchanged."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def fixed(places: int) -> Format:
    """A format for numbers with `places` decimals; None becomes empty text.

    >>> fixed(1)(85.37), fixed(2)(None)
    ('85.4', '')
    """
    return lambda value: "" if value is None else f"{value:,.{places}f}"


whole = fixed(0)  # a large number: `93,969`
share = fixed(5)  # a small probability, at the paper's own precision


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: its heading and format for people, and its name for programs."""

    title: str  # heading
    key: str  # name in CSV and in records
    show: Format = plain
    people: bool = True  # included on a terminal, in pages and in Markdown
    programs: bool = True  # included in CSV and in records


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: a title, columns, and rows of raw values.

    >>> table = Table(
    ...     title="Costs",
    ...     columns=(Column(title="policy", key="policy"), Column(title="mean", key="cost", show=whole)),
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
    name: str = "table"  # file name, without its ending
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInput("row", found=f"{len(row)} values", allowed=f"{len(self.columns)}, one per column")

    @classmethod
    def of_text(cls, title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
        """A table whose cells are already text, with the headings `head`.

        >>> made = Table.of_text("", ("arm", "draws"), [("<b>", "1,200")])
        >>> '<tr><td>&lt;b&gt;</td><td class="num">1,200</td></tr>' in made.html()
        True
        """
        columns = tuple(Column(title=heading, key=heading) for heading in head)
        return cls(title=title, columns=columns, rows=tuple(map(tuple, rows)))

    @property
    def head(self) -> list[str]:
        """The titles of the columns that people see."""
        return [column.title for column in self.columns if column.people]

    def cells(self) -> list[list[str]]:
        """The rows as formatted text, with the columns of `head`."""
        return [
            [column.show(value) for column, value in zip(self.columns, row, strict=True) if column.people]
            for row in self.rows
        ]

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries from column keys to raw values, for programs."""
        return [
            {column.key: value for column, value in zip(self.columns, row, strict=True) if column.programs}
            for row in self.rows
        ]

    def csv(self) -> str:
        """The table as CSV: raw values, with the columns' keys as headings."""
        head = [column.key for column in self.columns if column.programs]
        return csv_text(head, self.records(), line_end="\n")

    def markdown(self, shown: Format = lambda cell: cell.replace("|", "\\|")) -> str:
        """The table in Markdown, without its title; `shown` escapes the text of a cell."""
        cells = self.cells()
        rules = ["---:" if right else "---" for right in _numeric(len(self.head), cells)]
        lines = (" | ".join(map(shown, row)) for row in (self.head, *cells))
        first, *rest = (f"| {line} |" for line in lines)
        return "\n".join([first, f"|{'|'.join(rules)}|", *rest])

    def html(self) -> Markup:
        """The table in HTML, without its title; every cell is escaped, and a wide table scrolls sideways."""
        cells = self.cells()
        sides = [Markup(' class="num"') if right else "" for right in _right(len(self.head), cells)]
        # A table with a title can get the keyboard focus, so that readers without a mouse can scroll it.
        named = Markup(' tabindex="0" role="region" aria-label="{}"').format(self.title) if self.title else ""
        parts = [Markup('<div class="scroll"{}><table class="lines"><thead><tr>').format(named)]
        parts += [
            Markup('<th scope="col"{}>{}</th>').format(side, text) for side, text in zip(sides, self.head, strict=True)
        ]
        parts.append(Markup("</tr></thead>\n<tbody>"))
        for row in cells:
            line = [Markup("<td{}>{}</td>").format(side, text) for side, text in zip(sides, row, strict=True)]
            parts.append(Markup("<tr>{}</tr>").format(Markup("").join(line)))
        parts.append(Markup("</tbody></table></div>"))
        return Markup("").join(parts)

    __html__ = html  # lets templates insert a table by its name alone

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, style="bold")
        yield _terminal(self.head, self.cells(), options.max_width)


def _numeric(count: int, cells: Sequence[Sequence[str]]) -> list[bool]:
    """For each of the `count` columns, whether it contains only numbers."""
    return [all(is_number(row[place]) for row in cells) for place in range(count)]


def _right(count: int, cells: Sequence[Sequence[str]]) -> list[bool]:
    """For each column, whether it is right-aligned on a screen: columns of numbers are, except the first column."""
    return [place > 0 and numeric for place, numeric in enumerate(_numeric(count, cells))]


def _terminal(head: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> rich_table.Table:
    right = _right(len(head), cells)
    if widths := _widths(head, cells, right, room):
        made = rich_table.Table()
        for heading, width, side in zip(head, widths, right, strict=True):
            made.add_column(heading, justify="right" if side else "left", width=width, overflow="fold")
        for row in cells:
            made.add_row(*row)
        return made
    return _as_lists(head, cells, room - 2 * EDGES - 1)


def _widths(head: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool], room: int) -> list[int] | None:
    """The width of every column on a terminal, or None if the columns do not fit side by side.

    Cells of numbers stay on one line if there is room. Otherwise "1,625 to 1,884" may take three lines, but the number
    1,625 is never broken.

    >>> head, cells = ("setting", "samples, median"), [("share of one's own", "3,261,000")]
    >>> [_widths(head, cells, (False, True), room) for room in (80, 30, 20)]
    [[18, 15], [13, 10], None]
    """
    space = room - EDGES * len(head) - 1
    # From the most to the least readable layout: number cells wrap before columns of words get narrow.
    for least_words, whole_cells in product((LONGEST_WORD, LEAST_WORDS), (True, False)):
        wanted, least = [], []
        for place, heading in enumerate(head):
            column = [row[place] for row in cells]
            longest, word = (max(map(len, parts), default=0) for parts in (column, " ".join(column).split()))
            wanted.append(max(longest, len(heading)))
            needed = min(max(word, LEAST_WORDS), least_words)
            if right[place]:
                needed = longest if whole_cells else word
            least.append(max(min(needed, longest), *map(len, heading.split())))
        if sum(least) <= space:
            while sum(wanted) > space:  # take from the column that can spare most
                slack = [have - need for have, need in zip(wanted, least, strict=True)]
                wanted[slack.index(max(slack))] -= 1
            return wanted
    return None


def _as_lists(head: Sequence[str], cells: Sequence[Sequence[str]], space: int) -> rich_table.Table:
    """A narrow table that lists every row as lines of heading and cell."""
    made = rich_table.Table(show_header=False)
    word = max(len(word) for row in cells for cell in row for word in cell.split() or [""])
    left = min(max(map(len, head)), max(space - max(word, space // 2), 1))
    made.add_column(width=left, overflow="fold")
    made.add_column(width=max(space - left, 1), overflow="fold")
    for row in cells:
        for place, (heading, cell) in enumerate(zip(head, row, strict=True)):
            made.add_row(heading, cell, end_section=place == len(head) - 1)
    return made
