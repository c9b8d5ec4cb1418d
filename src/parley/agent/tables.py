"""Tables as people keep them: CSV from Excel or elsewhere, with commas, semicolons or tabs, a byte-order mark, decimal
commas, header names in any case. An error names the file, the line, the column and the value.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from parley.errors import InvalidInput
from parley.translation import marked

SEPARATORS = ",;\t"
COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
THOUSANDS = {sign: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}\{sign}[0-9]{{3}}") for sign in ",."}
PLACE = marked("{source}, line {line}, column {column}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a table (the header is line 1) and its values by column."""

    line: int
    values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of a file; `unfinished` if a last line without its end was left out."""

    source: str
    separator: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    unfinished: bool


def read_table(
    data: bytes,
    source: str,
    *,
    needed: Sequence[str],
    growing: bool = False,
    called: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    r"""The table in a file's bytes, with columns by their names in small letters.

    A `growing` file's last line may still be being written: without its end it is not read. `called` has other names
    of columns.

    >>> table = read_table(b"\xef\xbb\xbfArm;Reward\r\nA;0,5\r\n", "x.csv", needed=("arm", "reward"))
    >>> table.rows[0].line, dict(table.rows[0].values), table.separator
    (2, {'arm': 'A', 'reward': '0,5'}, ';')
    """
    text = _decoded(data, source)
    whole = text[: text.rfind("\n") + 1] if growing else text
    header = whole.partition("\n")[0]
    separator = max(SEPARATORS, key=header.count) if any(map(header.count, SEPARATORS)) else ","
    reader = csv.reader(io.StringIO(whole, newline=""), delimiter=separator, strict=True)
    rows: list[Row] = []
    columns: tuple[str, ...] = ()
    before = 0
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            clean = [cell.strip() for cell in cells]
            if not any(clean):
                continue
            if not columns:
                columns = _header([called.get(cell.lower(), cell) for cell in clean], source, line, needed)
                continue
            values = dict(zip(columns, clean, strict=False))
            lacking = [name for name in needed if name not in values]
            if lacking or (len(clean) > len(columns) and any(clean[len(columns) :])):
                found = marked("{count} values in this line").format(count=len(clean))
                allowed = marked("{count}, as in the header").format(count=len(columns))
                raise _wrong(source, line, lacking[0] if lacking else columns[-1], found, allowed)
            rows.append(Row(line=line, values=values))
    except csv.Error as error:
        raise _wrong(source, reader.line_num, "", str(error), marked("a CSV line")) from None
    return Table(
        source=source, separator=separator, columns=columns, rows=tuple(rows), unfinished=len(whole) < len(text)
    )


def number_in(table: Table, row: Row, column: str) -> float:
    r"""A finite number in a cell, with a point or a comma; an error names the place.

    >>> table = read_table(b"arm,reward\nA,\"0,5\"\n", "x.csv", needed=("arm", "reward"))
    >>> number_in(table, table.rows[0], "reward")
    0.5
    """
    text = row.values[column]
    try:
        # In a file with commas between its values a quoted "1,250" may well be meant as a thousand.
        return typed_number(text, thousands="," if table.separator == "," else "")
    except InvalidInput as error:
        raise _wrong(table.source, row.line, column, repr(text)[:60], error.allowed) from None


def typed_number(text: str, *, thousands: str) -> float:
    """A finite number with a point or a comma. What looks like `thousands` by that sign is refused: it may be meant.

    >>> typed_number("0,5", thousands=","), typed_number("1,250", thousands=".")
    (0.5, 1.25)
    >>> typed_number("1,250", thousands=",")
    Traceback (most recent call last):
    parley.errors.InvalidInput: number: found '1,250'; allowed: a number without separators of thousands
    """
    doubtful = thousands and THOUSANDS[thousands].fullmatch(text)
    plain = text.replace(",", ".") if COMMA.fullmatch(text) else text
    try:
        value = float(plain) if plain.isascii() and "_" not in plain and not doubtful else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        separated, finite = marked("a number without separators of thousands"), marked("a finite number such as 0.5")
        raise InvalidInput("number", found=repr(text)[:60], allowed=separated if doubtful else finite)
    return value


def arm_in(table: Table, row: Row, arms: Sequence[str]) -> str:
    """The arm that a row names; an error names the place."""
    arm = row.values["arm"]
    if arm not in arms:
        raise _wrong(table.source, row.line, "arm", repr(arm)[:60], ", ".join(arms))
    return arm


def rewards_by_arm(data: bytes, source: str, arms: Sequence[str]) -> list[list[float]]:
    r"""The rewards of every arm, in the order of the rows of a table with the columns `arm` and `reward`.

    >>> rewards_by_arm(b"arm,reward\nB,1\nA,0\nB,0\n", "x.csv", ("A", "B"))
    [[0.0], [1.0, 0.0]]
    """
    table = read_table(data, source, needed=("arm", "reward"))
    found: dict[str, list[float]] = {arm: [] for arm in arms}
    for row in table.rows:
        found[arm_in(table, row, arms)].append(number_in(table, row, "reward"))
    return list(found.values())


def _decoded(data: bytes, source: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput(source, found="UTF-16 text", allowed="UTF-8", hint="Save it as `CSV UTF-8`")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidInput(
            f"{source}, line {line}",
            found=f"the byte 0x{data[error.start]:02x}, which is not UTF-8",
            allowed="UTF-8",
            hint="Save it as `CSV UTF-8`",
        ) from None


def _header(cells: list[str], source: str, line: int, needed: Sequence[str]) -> tuple[str, ...]:
    columns = tuple(cell.lower() for cell in cells)
    for name in needed:
        if columns.count(name) != 1:
            found = marked("{count} columns of that name in: {names}")
            found = found.format(count=columns.count(name), names=", ".join(cells))
            allowed = marked("the columns {names} once each").format(names=", ".join(needed))
            raise _wrong(source, line, name, found[:200], allowed)
    return columns


def _wrong(source: str, line: int, column: str, found: str, allowed: str) -> InvalidInput:
    place = PLACE if column else marked("{source}, line {line}")
    return InvalidInput(place.format(source=source, line=line, column=column), found=found, allowed=allowed)
