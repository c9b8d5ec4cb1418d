"""Tables that fit the terminal they are shown on: words wrap, numbers are never cut.

Where not even the numbers fit beside each other, each row becomes a small list of its own.
"""

from __future__ import annotations

from itertools import product

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from parley.formatting import is_number

__all__ = ["Shown", "table"]

LEAST_WORDS = 12  # columns of a terminal that a column of words may be squeezed to
LONGEST_WORD = 24  # a word up to this long is not broken, where there is room
EDGES = 3  # of a column: a space on either side, and a line


class Shown:
    """Headings and rows of text. A column stands right if all its cells are numbers."""

    def __init__(self, title: str, *columns: str) -> None:
        self.title, self.columns = title, columns
        self.rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """One more row, a cell for every column."""
        self.rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, style="bold")
        widths = self.widths(options.max_width)
        yield self._beside(widths) if widths else self._below(options.max_width - 2 * EDGES - 1)

    def widths(self, room: int) -> list[int] | None:
        """The width of every column, or None where they do not fit beside each other.

        Cells of numbers stay on one line if they can; if not, "1,625 to 1,884" may take three, but 1,625 stays whole.

        >>> shown = Shown("", "setting", "samples, median")
        >>> shown.add_row("share of one's own", "3,261,000")
        >>> shown.widths(80), shown.widths(30), shown.widths(20)
        ([18, 15], [13, 10], None)
        """
        space = room - EDGES * len(self.columns) - 1
        for least, whole in product((LONGEST_WORD, LEAST_WORDS), (True, False)):
            if found := self._squeezed(space, least, whole=whole):
                return found
        return None

    def _squeezed(self, space: int, least_words: int, *, whole: bool) -> list[int] | None:
        wanted, least = [], []
        for place, heading in enumerate(self.columns):
            cells = [row[place] for row in self.rows]
            longest, word = (max(map(len, parts), default=0) for parts in (cells, " ".join(cells).split()))
            wanted.append(max(longest, len(heading)))
            needed = (longest if whole else word) if self._right(place) else min(max(word, LEAST_WORDS), least_words)
            least.append(max(min(needed, longest), *map(len, heading.split())))
        while sum(wanted) > space:
            slack = [have - need for have, need in zip(wanted, least, strict=True)]
            if max(slack) <= 0:
                return None
            wanted[slack.index(max(slack))] -= 1
        return wanted

    def _right(self, place: int) -> bool:
        return place > 0 and all(is_number(row[place]) for row in self.rows)

    def _beside(self, widths: list[int]) -> Table:
        made = Table()
        for place, (heading, width) in enumerate(zip(self.columns, widths, strict=True)):
            made.add_column(heading, justify="right" if self._right(place) else "left", width=width, overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        return made

    def _below(self, space: int) -> Table:
        made = Table(show_header=False)
        word = max(len(word) for row in self.rows for cell in row for word in cell.split() or [""])
        left = min(max(map(len, self.columns)), max(space - max(word, space // 2), 1))
        made.add_column(width=left, overflow="fold")
        made.add_column(width=max(space - left, 1), overflow="fold")
        for row in self.rows:
            for place, (heading, cell) in enumerate(zip(self.columns, row, strict=True)):
                made.add_row(heading, cell, end_section=place == len(self.columns) - 1)
        return made


def table(title: str, *columns: str) -> Shown:
    """A table to be filled row by row and printed."""
    return Shown(title, *columns)
