"""Read rewards from a site's tables: rows with an arm and a reward, rows with exposure, and results of queries.

`parley.validation.tables` parses the files. An error names the file, the line, the column and the value.
"""

import math
import os
import random
import re
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from parley.agent.outcomes import DrawnOutcome
from parley.agent.plans import NotYet
from parley.errors import InvalidInput, UnknownName, need, needs
from parley.validation.checks import IN_WORDS, above_zero
from parley.validation.tables import Row, Table, cell_text, number_in, read_table, wrong_cell

EXPOSURE = "exposure"
NEVER = ("missing", "na", "n/a")  # cells of a further outcome that will not come
MOST_UNITS, MOST_EVENTS = 10_000, 1_000_000  # per row, which is split into a row for each unit


def arm_in(table: Table, row: Row, arms: Sequence[str]) -> str:
    """The arm that a row names; an arm that is not in `arms` raises an error with the line and column."""
    arm = row.values["arm"]
    if arm not in arms:
        raise wrong_cell(table.source, row.line, "arm", repr(arm)[:60], ", ".join(arms))
    return arm


def rewards_by_arm(data: bytes, source: str, arms: Sequence[str], *, counts: bool = False) -> list[list[float]]:
    r"""Read a table with the columns `arm` and `reward`; returns the rewards of every arm, in the order of the rows.

    With `counts`, a row with several units of exposure is split into one row per unit (`per_unit`).

    >>> rewards_by_arm(b"arm,reward\nB,1\nA,0\nB,0\n", "x.csv", ("A", "B"))
    [[0.0], [1.0, 0.0]]
    """
    table = read_table(data, source, needed=("arm", "reward"))
    table = per_unit(table) if counts else table
    found: dict[str, list[float]] = {arm: [] for arm in arms}
    for row in table.rows:
        found[arm_in(table, row, arms)].append(number_in(table, row, "reward"))
    return list(found.values())


def covariates_by_arm(data: bytes, source: str, arms: Sequence[str], covariate: str) -> list[list[float | None]]:
    r"""Read the covariate of each row in a table like the one for `rewards_by_arm`; None if empty or marked missing.

    >>> covariates_by_arm(b"arm,reward,age\nB,1,40\nA,0,\nB,0,50\n", "x.csv", ("A", "B"), "Age")
    [[None], [40.0, 50.0]]
    """
    column = covariate.lower()
    table = read_table(data, source, needed=("arm", "reward", column))
    found: dict[str, list[float | None]] = {arm: [] for arm in arms}
    for row in table.rows:
        x = number_in(table, row, column) if row.values[column] and not is_gone(row.values[column]) else None
        found[arm_in(table, row, arms)].append(x)
    return list(found.values())


def is_gone(cell: object) -> bool:
    """Whether a cell marks an outcome as missing for good, in any of the usual spellings.

    >>> is_gone("Missing"), is_gone(None), is_gone("")
    (True, True, False)
    """
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in NEVER)


def outcomes_by_arm(
    data: bytes, source: str, arms: Sequence[str], columns: Mapping[str, str]
) -> tuple[DrawnOutcome, ...]:
    r"""Read further outcomes from a table like the one for `rewards_by_arm`; `columns` maps outcomes to columns.

    >>> outcomes_by_arm(b"arm,reward,harm\nB,1,0\nB,0,missing\n", "x.csv", ("A", "B"), {"Harm": "harm"})[0].missing
    (0, 1)
    """
    table = read_table(data, source, needed=("arm", "reward", *columns.values()))
    made = []
    for name, column in columns.items():
        found: dict[str, list[float | None]] = {arm: [] for arm in arms}
        for row in table.rows:
            gone = is_gone(row.values[column])
            found[arm_in(table, row, arms)].append(None if gone else number_in(table, row, column))
        made.append(DrawnOutcome.of(name, list(found.values())))
    return tuple(made)


def per_unit(table: Table, *, alone: bool = True) -> Table:
    r"""Split a table of event counts into one row per unit of exposure; without a column `exposure` it is unchanged.

    A row with the exposure e and x events becomes e rows with x events in all. Given their sum, independent Poisson
    counts with equal means are multinomial, so a random split has the same distribution as counts recorded unit by
    unit. A row may therefore be divided between two phases, and overdispersion can still be detected. The same table is
    always split in the same way. If the reward is not `alone` because people have further outcomes, a row cannot be
    divided, and a column `exposure` is an error.

    >>> table = read_table(b"arm,reward,exposure\nA,5,3\nB,0,1\n", "x.csv", needed=("arm", "reward"))
    >>> [(row.line, row.values["arm"], row.values["reward"]) for row in per_unit(table).rows]
    [(2, 'A', '1'), (2, 'A', '1'), (2, 'A', '3'), (3, 'B', '0')]
    """
    if EXPOSURE not in table.columns:
        return table
    if not alone:
        raise InvalidInput(
            f"{table.source}, column {EXPOSURE}",
            found="exposure in a study with further outcomes",
            allowed="one row per person: further outcomes cannot be divided into units",
        )
    rows: list[Row] = []
    for place, row in enumerate(table.rows):
        # Exposure must not depend on the events, so a row must state it before its events, or with them.
        units = _whole_in(table, row, EXPOSURE, least=1, most=MOST_UNITS)
        known = bool(row.values["reward"])
        total = _whole_in(table, row, "reward", least=0, most=MOST_EVENTS) if known else 0
        # A later phase must see the same split. Python guarantees the same numbers for this seed in every version.
        generator = random.Random(f"{place} {units}")
        events = Counter(int(generator.random() * units) for _ in range(total))
        for unit in range(units):
            own = {"id": f"{row.values['id']}, unit {unit + 1}"} if row.values.get("id") else {}
            rows.append(Row(line=row.line, values={**row.values, **own, "reward": str(events[unit]) if known else ""}))
    return replace(table, rows=tuple(rows))


def _whole_in(table: Table, row: Row, column: str, *, least: int, most: int) -> int:
    number = number_in(table, row, column) if row.values.get(column) else math.nan
    if not least <= number <= most or not number.is_integer():
        found = repr(row.values.get(column, ""))[:60]
        raise wrong_cell(table.source, row.line, column, found, f"a whole number from {least} to {most}")
    return int(number)


PASSWORD, ADDRESS = "PARLEY_SQL_PASSWORD", "PARLEY_SQL_URL"
ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Warehouse:
    """A database and a query. The query runs in a transaction that is read-only if possible, and is rolled back."""

    name: str  # name of the settings file, with which errors begin
    query: str
    url: str = field(default="", repr=False)  # an SQLAlchemy URL; if empty, PARLEY_SQL_URL has it
    password_variable: str = PASSWORD  # environment variable, so that no file or command line needs to hold a password
    timeout: float = 60.0  # seconds until a query is interrupted

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a TOML file with `url`, `query`, and optionally `password_variable` and `timeout`."""
        try:
            found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidInput(str(path), found=str(error), allowed="a TOML file with url and query") from None
        known = {one.name: one for one in fields(cls) if one.name != "name"}
        for key, value in found.items():
            if key not in known:
                raise UnknownName(str(path), key, known)
            if key == "timeout":
                above_zero(f"{path}, {key}", value)
            elif not isinstance(value, str) or not value:
                raise InvalidInput(f"{path}, {key}", found=repr(value)[:60], allowed=IN_WORDS[str])
        if "query" not in found:
            raise InvalidInput(str(path), found="no query", allowed='query = "SELECT ..."')
        return cls(name=str(path), **found)

    @property
    def answer(self) -> str:
        """The name of the query's result in error messages, where line numbers count the rows of the result."""
        return f"the answer to {self.name}"

    @property
    def ordered(self) -> bool:
        """Whether the query contains ORDER BY."""
        return ORDERED.search(self.query) is not None

    def ask(self, **parameters: object) -> Table:
        """Run the query and return its result as a table.

        Raises `NotYet` if the database does not answer, and `InvalidInput` if the query is wrong.
        """
        sql = need("sqlalchemy", extra="sql", purpose="the source sql")
        url, options = self._address(sql)
        statement = sql.text(self.query)
        if unknown := set(statement.compile().params) - set(parameters):
            known = ", ".join(f":{name}" for name in parameters)
            raise InvalidInput(f"{self.name}, query", found=f":{min(unknown)}", allowed=f"the parameters {known}")
        late = threading.Event()
        try:
            with needs("sql", "the source sql"):
                engine = sql.create_engine(url, poolclass=sql.NullPool, **options)
            with engine.connect() as connection, _stopped_after(self.timeout, connection, late):
                answer = connection.execute(statement, parameters)
                columns = tuple(map(str.lower, answer.keys()))
                rows = [[cell_text(value) for value in row] for row in answer]
        except sql.exc.NoSuchModuleError as error:
            raise self._wrong(f"{url.drivername} ({error})", "a database that SQLAlchemy knows", "url") from None
        except (sql.exc.SQLAlchemyError, OSError) as error:
            words = " ".join(str(getattr(error, "orig", None) or error).split())[:400]
            # A driver's error may quote the address with the password.
            words = words.replace(url.password, "***") if url.password else words
            if late.is_set():
                raise NotYet(f"{self.name}: no answer within {self.timeout:g} s (timeout)") from None
            if isinstance(error, sql.exc.OperationalError | OSError) and "no such" not in words:
                raise NotYet(f"{self.name}: no answer: {words}") from None
            raise self._wrong(words, "a query that the database understands", "query") from None
        for name in columns:
            if columns.count(name) > 1:
                raise self._wrong(f"two columns {name}", "every column once", "query")
        made = [dict(zip(columns, row, strict=True)) for row in rows]
        lines = tuple(Row(line=line, values=values) for line, values in enumerate(made, start=1))
        return Table(source=self.answer, separator=",", columns=columns, rows=lines)

    def _address(self, sql: Any) -> tuple[Any, dict[str, Any]]:
        """The database's address with its password, and the options for read-only access."""
        try:
            url = sql.make_url(self.url or os.environ.get(ADDRESS, ""))
        except sql.exc.ArgumentError:
            allowed = f"an address such as postgresql://USER@HOST/DATABASE or duckdb:///FILE, or one in {ADDRESS}"
            raise self._wrong("none that can be read", allowed, "url") from None
        if self.url and url.password is not None:
            allowed = f"an address without one: the password comes from {self.password_variable}"
            raise self._wrong("a password", allowed, "url")
        if url.host and url.password is None and os.environ.get(self.password_variable):
            url = url.set(password=os.environ[self.password_variable])
        kind, file = url.get_backend_name(), url.database if url.database != ":memory:" else None
        if kind == "postgresql":
            plain = url.drivername in ("postgresql", "postgres")
            return url.set(drivername="postgresql+psycopg") if plain else url, {
                "connect_args": {"connect_timeout": 10},
                "execution_options": {"postgresql_readonly": True},
            }
        if kind == "duckdb":
            return url, {"connect_args": {"read_only": True}} if file else {}
        if kind == "sqlite" and file:  # only a URI can open a file for reading only
            return url.set(database=Path(file).absolute().as_uri(), query={"mode": "ro", "uri": "true"}), {}
        return url, {}

    def _wrong(self, found: str, allowed: str, key: str) -> InvalidInput:
        return InvalidInput(f"{self.name}, {key}", found=found, allowed=allowed)


@contextmanager
def _stopped_after(seconds: float, connection: Any, late: threading.Event) -> Iterator[None]:
    """Interrupt the query and set `late` if the block takes longer than `seconds`."""
    driver = connection.connection.dbapi_connection
    interrupt = getattr(driver, "interrupt", None) or getattr(driver, "cancel", None)

    def stop() -> None:
        if interrupt is not None:  # other drivers stop by themselves, or when the query is done
            late.set()
            interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
