"""Tables in the file formats that people use: CSV, Parquet and Excel.

A CSV file may come from Excel or elsewhere. It may have commas, semicolons or tabs, a byte-order mark, decimal commas,
and header names in any case. An error names the file, the line, the column and the value.
"""

import csv
import io
import math
import re
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from parley.errors import InvalidInput, need
from parley.text.translation import Translatable, joined
from parley.validation.checks import LARGEST_SCALE, FloatArray, IntArray

SEPARATORS = ",;\t"
COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
THOUSANDS = {sign: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}\{sign}[0-9]{{3}}") for sign in ",."}
UNITS = {True: "1", False: "0", None: ""}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table and its values by column; `line` is 1 for the first line of a CSV or Excel file."""

    line: int
    values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of a file. `unfinished` means that its last line had no line end yet and was ignored."""

    source: str
    separator: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    unfinished: bool = False

    def require(self, *names: str) -> None:
        """Raise unless the table has all these columns."""
        for name in names:
            if name not in self.columns:
                found = f"the columns {', '.join(self.columns)}"[:200]
                raise InvalidInput(f"{self.source}, column {name}", found=found, allowed=f"also {name}")

    def require_one_of(self, names: Sequence[str]) -> None:
        """Raise if the table has none of these columns, in upper or lower case: such a table probably has no header."""
        if self.columns and not {name.lower() for name in names} & set(self.columns):
            found = Translatable("the columns {names}", names=", ".join(self.columns)[:200])
            allowed = Translatable("a table that also has one of {names}", names=joined(", ", names))
            raise wrong_cell(self.source, 1, "", found, allowed)


def read_table(
    data: bytes,
    source: str,
    *,
    needed: Sequence[str],
    growing: bool = False,
    called: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    r"""Parse a table from a file's bytes; column names are in lower case.

    The last line of a `growing` file is ignored until it is complete. `called` maps other column names to Parley's.

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
            # A quoted cell may contain line ends, so a row is named by its first line.
            line, before = before + 1, reader.line_num
            clean = [cell.strip() for cell in cells]
            if not any(clean):
                continue
            if not columns:
                columns = _header(clean, called, source, line, needed)
                continue
            values = dict(zip(columns, clean, strict=False))
            lacking = [name for name in needed if name not in values]
            if lacking or (len(clean) > len(columns) and any(clean[len(columns) :])):
                found = Translatable("{count} values in this line", count=len(clean))
                allowed = Translatable("{count}, as in the header", count=len(columns))
                raise wrong_cell(source, line, lacking[0] if lacking else columns[-1], found, allowed)
            rows.append(Row(line=line, values=values))
    except csv.Error as error:
        found = Translatable("quotes that do not match, or a cell that is too long")
        raise wrong_cell(source, reader.line_num, "", found, Translatable("a CSV line")) from error
    return Table(
        source=source, separator=separator, columns=columns, rows=tuple(rows), unfinished=len(whole) < len(text)
    )


PARQUET, EXCEL, OLD_EXCEL = b"PAR1", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # first bytes of such files
FORMATS = "a CSV, TSV, Parquet or Excel (.xlsx) file"


def load_table(path: str | Path) -> Table:
    """Load a table from a file in any of `FORMATS`, recognized by its first bytes; from Excel, the first sheet."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput("table", found=f"no file at {path}", allowed=FORMATS) from None
    except OSError as error:
        raise InvalidInput("table", found=f"{path}: {error.strerror}", allowed=f"{FORMATS} that can be read") from None
    if data.startswith(PARQUET):
        return _parquet(path)
    if data.startswith(EXCEL):
        return _excel(data, str(path))
    if data.startswith(OLD_EXCEL):
        raise InvalidInput(str(path), found="an Excel file in the old format (.xls)", allowed=FORMATS)
    return read_table(data, str(path), needed=())


def _parquet(path: Path) -> Table:
    duckdb = need("duckdb", extra="sql", purpose=f"{path}, a Parquet file")
    try:
        with duckdb.connect() as connection:
            answer = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
            columns = [column[0] for column in answer.description]
            rows = answer.fetchall()
    except duckdb.Error as error:
        raise InvalidInput(str(path), found=" ".join(str(error).split())[:200], allowed=FORMATS) from None
    return _of_cells(str(path), [columns, *rows], first=0)  # Parquet: the first row is 1, and the names are in no row


def _excel(data: bytes, source: str) -> Table:
    openpyxl = need("openpyxl", extra="sql", purpose=f"{source}, an Excel file")
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        return _of_cells(source, book.worksheets[0].iter_rows(values_only=True), first=1)
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError, SyntaxError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(source, found=f"no sheet that can be read ({error})"[:200], allowed=FORMATS) from None


def _of_cells(source: str, lines: Iterable[Iterable[object]], *, first: int) -> Table:
    """Make a table from lines of typed cells, numbered from `first`: column names, then rows. Skips empty lines."""
    columns: tuple[str, ...] = ()
    rows: list[Row] = []
    for line, cells in enumerate(lines, start=first):
        texts = [cell_text(cell) for cell in cells]
        if not any(texts):
            continue
        if not columns:
            columns = tuple(text.lower() for text in texts)
        else:
            rows.append(Row(line=line, values=dict(zip(columns, texts, strict=False))))
    return Table(source=source, separator=",", columns=columns, rows=tuple(rows))


def number_in(table: Table, row: Row, column: str) -> float:
    r"""A cell as a finite number, with a decimal point or comma; an error names line and column.

    >>> table = read_table(b"arm,reward\nA,\"0,5\"\n", "x.csv", needed=("arm", "reward"))
    >>> number_in(table, table.rows[0], "reward")
    0.5
    """
    text = row.values.get(column, "")  # empty if the line is too short to have this column
    try:
        # In a comma-separated file, a quoted "1,250" may well mean 1250.
        return typed_number(text, thousands="," if table.separator == "," else "")
    except InvalidInput as error:
        raise wrong_cell(table.source, row.line, column, repr(text)[:60], error.allowed) from None


def typed_number(text: str, *, thousands: str) -> float:
    """Parse a finite number with a decimal point or comma; refuse it if the sign `thousands` may group its digits.

    >>> typed_number("0,5", thousands=","), typed_number("1,250", thousands=".")
    (0.5, 1.25)
    >>> typed_number("1,250", thousands=",")
    Traceback (most recent call last):
    parley.errors.InvalidInput: number: found '1,250'; allowed: a number without thousands separators
    """
    doubtful = thousands and THOUSANDS[thousands].fullmatch(text)
    plain = text.replace(",", ".") if COMMA.fullmatch(text) else text
    # `float` also accepts underscores and the digits of other scripts, which are typing errors in a table.
    try:
        value = float(plain) if plain.isascii() and "_" not in plain and not doubtful else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        separated = Translatable("a number without thousands separators")
        finite = Translatable("a finite number such as 0.5")
        raise InvalidInput("number", found=repr(text)[:60], allowed=separated if doubtful else finite)
    return value


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


def _header(
    cells: list[str], called: Mapping[str, str], source: str, line: int, needed: Sequence[str]
) -> tuple[str, ...]:
    columns = tuple(called.get(cell.lower(), cell.lower()) for cell in cells)
    for name in needed:
        if columns.count(name) != 1:
            names = ", ".join(cells)[:160]
            found = Translatable("{count} columns of that name in: {names}", count=columns.count(name), names=names)
            allowed = Translatable("the columns {names} once each", names=joined(", ", needed))
            raise wrong_cell(source, line, name, found, allowed)
    return columns


def wrong_cell(source: str, line: int, column: str, found: str, allowed: str) -> InvalidInput:
    """The error about a cell of a table, or about a whole line if `column` is empty."""
    place = Translatable("{source}, line {line}", source=source, line=line)
    if column:
        place = Translatable("{source}, line {line}, column {column}", source=source, line=line, column=column)
    return InvalidInput(place, found=found, allowed=allowed)


def cell_text(value: object) -> str:
    """A value as text, as in a CSV file: floats with all their digits, booleans as 1 and 0, NULL as empty text."""
    if isinstance(value, bool) or value is None:
        return UNITS[value]
    return str(value).strip()


ARM, AGENT, OUTCOME, COVARIATE = "arm", "agent", "outcome", "covariate"
USUAL_NAMES = {  # role -> usual names of its column, in a table with a row for every draw
    ARM: ("arm", "treatment", "variant", "variety", "option"),
    AGENT: ("agent", "site", "centre", "center", "hospital", "clinic", "market", "country", "location"),
    OUTCOME: ("outcome", "reward", "y", "value", "response", "result"),
}
NO_COLUMN = "none"


def columns_of(
    table: Table, given: Mapping[str, str | None], *, optional: Collection[str] = (), option: str = "--{}"
) -> dict[str, str | None]:
    r"""The column of each role (arm, agent, outcome, covariate): the `given` column, else one with a usual name.

    The column is None if an `optional` role has none, or if the name "none" is given for that role. A covariate is
    never guessed. `option` is the option or key with which a user names a role's column, for errors.

    >>> table = read_table(b"Site,Treatment,y\nParis,A,1\n", "x.csv", needed=())
    >>> columns_of(table, {})
    {'arm': 'treatment', 'agent': 'site', 'outcome': 'y', 'covariate': None}
    """
    found: dict[str, str | None] = {}
    for role in (ARM, AGENT, OUTCOME, COVARIATE):
        name, usual = given.get(role), USUAL_NAMES.get(role, ())
        key = option.format(role)
        if name is not None:
            if name == NO_COLUMN and role in optional and NO_COLUMN not in table.columns:
                found[role] = None
                continue
            if table.columns.count(name.lower()) != 1:
                allowed = "one of " + ", ".join(table.columns)[:300] if table.columns else "a table with columns"
                raise InvalidInput(
                    key, found=f"{name!r}, {table.columns.count(name.lower())} times in {table.source}", allowed=allowed
                )
            found[role] = name.lower()
            continue
        known = [column for column in table.columns if column in usual]
        if len(known) == 1:
            found[role] = known[0]
        elif role == COVARIATE or (not known and role in optional):
            found[role] = None
        else:
            which = ", ".join(known or table.columns)[:300]
            none = f", or {NO_COLUMN}" if role in optional else ""
            raise InvalidInput(
                f"{table.source}, column of the {role}s",
                found=which or "no columns",
                allowed=f"one that is called {' or '.join(usual[:3])}, or named by {key}{none}",
            )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """The draws in a table, as arrays with an entry per row: indices of arm and agent, outcome, and covariate.

    Without a column of arms, `arm` is None; without a column of agents, every row belongs to the first agent.
    """

    source: str
    arms: tuple[str, ...]
    agents: tuple[str, ...]
    arm: IntArray | None
    agent: IntArray
    outcome: FloatArray
    covariate: FloatArray | None
    line: IntArray  # line in the table, for errors
    columns: Mapping[str, str | None]

    def wrong(self, place: int, role: str, found: str, allowed: str) -> InvalidInput:
        """The error about a role's value in the row at index `place`."""
        return wrong_cell(self.source, int(self.line[place]), self.columns[role] or role, found, allowed)


def draws_of(
    table: Table,
    columns: Mapping[str, str | None],
    *,
    arms: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
) -> Draws:
    """The draws in a table's rows. Names of arms or agents that are not given come from the table, in natural order."""
    if not table.rows:
        raise InvalidInput(table.source, found="no rows below the header", allowed="a row for every draw")
    for column in columns.values():
        if column is not None and table.columns.count(column) != 1:
            raise InvalidInput(
                f"{table.source}, column {column}", found=f"{table.columns.count(column)} of that name", allowed="one"
            )
    placed = {ARM: _places(table, columns[ARM], arms), AGENT: _places(table, columns[AGENT], agents)}
    numbers = {
        role: None if columns[role] is None else _numbers(table, str(columns[role])) for role in (OUTCOME, COVARIATE)
    }
    (arm_names, arm), (agent_names, agent) = placed[ARM], placed[AGENT]
    outcome = numbers[OUTCOME]
    assert outcome is not None
    return Draws(
        source=table.source,
        arms=arm_names,
        agents=agent_names or tuple(agents or ("all",)),
        arm=arm,
        agent=np.zeros(len(table.rows), dtype=np.int64) if agent is None else agent,
        outcome=outcome,
        covariate=numbers[COVARIATE],
        line=np.array([row.line for row in table.rows]),
        columns=columns,
    )


def _numbers(table: Table, column: str) -> FloatArray:
    """A column as numbers; raise if a number is so large that its powers could not be summed."""
    values = np.array([number_in(table, row, column) for row in table.rows])
    if (large := np.abs(values) > LARGEST_SCALE).any():
        row = table.rows[int(np.argmax(large))]
        raise wrong_cell(table.source, row.line, column, repr(row.values[column])[:60], f"up to {LARGEST_SCALE:g}")
    return values


def _places(table: Table, column: str | None, names: Sequence[str] | None) -> tuple[tuple[str, ...], IntArray | None]:
    """The names in a column, and every row's index among these names; the indices are None without a column."""
    if column is None:
        return tuple(names or ()), None
    if names is None:
        own = {row.values.get(column, "") for row in table.rows}
        names = sorted(own - {""}, key=lambda name: [int(part) if part.isdecimal() else part for part in _split(name)])
        allowed = "a name"
    else:
        allowed = ", ".join(names)[:300]
    known = {name: place for place, name in enumerate(names)}
    places = np.empty(len(table.rows), dtype=np.int64)
    for place, row in enumerate(table.rows):
        name = row.values.get(column, "")
        if name not in known:
            raise wrong_cell(table.source, row.line, column, repr(name)[:60], allowed)
        places[place] = known[name]
    return tuple(names), places


def _split(name: str) -> list[str]:
    """Split a name at its numbers, so that names can be sorted with "arm 10" after "arm 2", not before it."""
    return re.split(r"([0-9]+)", name.lower())
