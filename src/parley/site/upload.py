"""A table of outcomes, checked row by row before anything is taken: all of it, or every wrong row by its number."""

from __future__ import annotations

from dataclasses import dataclass

from parley.agent.site import Site
from parley.agent.tables import number_in, read_table
from parley.errors import InvalidInput, NotNow

__all__ = ["WrongRow", "take_table"]

GONE = ("missing", "na", "n/a")


@dataclass(frozen=True, kw_only=True)
class WrongRow:
    """What is wrong in a line, and where."""

    line: int
    words: str


def take_table(site: Site, text: str, source: str = "table") -> tuple[int, list[WrongRow]]:
    """How many rows were taken, and those that are wrong; if there is one, none was taken.

    The columns are `participant` and `reward`; `missing` stands for an outcome that will not come, and a row without
    a reward says nothing yet.
    """
    table = read_table(text.encode("utf-8", "replace"), source, needed=("participant", "reward"))
    rows, lines, wrong = [], [], []
    seen: dict[str, int] = {}
    for row in table.rows:
        key, said = row.values["participant"], row.values["reward"]
        if not said:
            continue
        try:
            if key in seen:
                raise InvalidInput("participant", found=f"{key!r} again", allowed=f"once; it is in line {seen[key]}")
            rows.append((key, None if said.lower() in GONE else number_in(table, row, "reward")))
            seen[key] = row.line
            lines.append(row.line)
        except InvalidInput as error:
            wrong.append(WrongRow(line=row.line, words=str(error)))
    found = site.record(rows) if not wrong else site.doubts(rows)
    wrong += [_told(line, error) for line, error in zip(lines, found, strict=True) if error is not None]
    return (0 if wrong else len(rows)), sorted(wrong, key=lambda one: one.line)


def _told(line: int, error: InvalidInput | NotNow) -> WrongRow:
    return WrongRow(line=line, words=str(error))
