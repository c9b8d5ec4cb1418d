"""Sources of an agent's rewards: a Python function, a command, a growing file, a database, a simulated arm.

A source is a callable that takes a plan and returns `Totals` or a `Delivery`. `repeatable` says whether a second call
for the same phase gives the same rewards; a source that is not repeatable is never called twice for a phase.
"""

import hashlib
import importlib
import math
import os
import shlex
import subprocess
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Protocol

import numpy as np

from parley.agent.outbox import Outbox
from parley.agent.outcomes import DrawnOutcome
from parley.agent.plans import AgentPlan, Delivery, NotYet
from parley.agent.tables import NEVER, Warehouse, arm_in, is_gone, per_unit
from parley.covariates import Covariate
from parley.errors import InvalidInput, SourceFailed
from parley.policies.between import people_ahead
from parley.protocol import Plan, Report
from parley.protocol.codec import canonical, read_json
from parley.protocol.messages import BetweenTotals, OutcomeTotals
from parley.simulation import phase_outcomes, phase_pairs, phase_totals
from parley.study import Study, load_study
from parley.totals import Totals
from parley.validation.tables import Row, Table, number_in, read_table

FORMS = (
    "python:MODULE:FUNCTION, command:PROGRAM ARGUMENTS, csv:FILE, parquet:FILE, sql:WAREHOUSE.toml, or "
    "simulate:STUDY.toml"
)


class Source(Protocol):
    """Interface of the sources: draw the rewards that a plan asks for."""

    repeatable: bool

    def __call__(self, plan: AgentPlan) -> Totals | Delivery:
        """Return the totals of exactly `plan.draws` rewards, or a `Delivery` with other counts and the reason."""


# One draw: the reward, every further outcome in the study's order (None if it will not come) and, in a study with a
# covariate, the covariate's value (None if unknown).
Drawn = tuple[float | None, ...]


def _number(what: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(what, found=f"{value!r:.60}", allowed="numbers") from None
    if not math.isfinite(number):
        raise InvalidInput(what, found=value, allowed="finite numbers")
    return number


def _rows(arm: str, values: Sequence[object], count: int, outcomes: Sequence[str]) -> list[Drawn]:
    """Check that a source returned `count` valid draws of an arm.

    If a draw also has values of `outcomes`, each item is a row that begins with the reward.
    """
    if len(values) != count:
        kind = "rows" if outcomes else "numbers"
        raise InvalidInput(f"rewards of {arm}", found=f"{len(values)} {kind}", allowed=f"{count}, as planned")
    if not outcomes:
        return [(_number(f"rewards of {arm}", value),) for value in values]
    drawn: list[Drawn] = []
    for value in values:
        row = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        if len(row) != 1 + len(outcomes):
            allowed = f"rows of {1 + len(outcomes)} numbers: the reward, {', '.join(outcomes)}"
            raise InvalidInput(f"rewards of {arm}", found=f"{value!r:.60}", allowed=allowed)
        others = [
            None if is_gone(cell) else _number(f"{name} of {arm}", cell)
            for name, cell in zip(outcomes, row[1:], strict=True)
        ]
        drawn.append((_number(f"rewards of {arm}", row[0]), *others))
    return drawn


def _asked(plan: AgentPlan) -> Iterator[tuple[str, int]]:
    assert plan.draws is not None
    return zip(plan.arms, plan.draws, strict=True)


def _delivered(arms: Sequence[Sequence[Drawn]], outcomes: Sequence[str], covariate: str = "") -> Delivery:
    """Make a delivery from the draws of every arm."""
    rewards = [[row[0] for row in rows if row[0] is not None] for rows in arms]
    others = (
        DrawnOutcome.of(name, [[row[place] for row in rows] for rows in arms])
        for place, name in enumerate(outcomes, start=1)
    )
    xs = [[row[-1] for row in rows] for rows in arms] if covariate else ()
    return Delivery(totals=Totals.of(rewards), rewards=rewards, outcomes=tuple(others), covariates=xs)


def _with(outcomes: Sequence[str], covariate: str) -> tuple[str, ...]:
    """The names of the values that follow the reward in a row: further outcomes, and the covariate if there is one."""
    return (*outcomes, covariate) if covariate else tuple(outcomes)


class FunctionSource:
    """A Python function, named `module:function`, that returns `count` rewards when called with `(arm, count)`.

    In a study with further outcomes the function returns `count` rows: the reward and the `outcomes` in the study's
    order, None for an outcome that will not come. A covariate is the last value of a row, None if it is not known.
    """

    repeatable = False

    def __init__(self, address: str, outcomes: Sequence[str] = (), covariate: str = "") -> None:
        self._outcomes, self._covariate = outcomes, covariate
        module, _, name = address.partition(":")
        try:
            self._draw: Callable[[str, int], Iterable[object]] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidInput(
                "source", found=f"python:{address} ({error})", allowed="python:MODULE:FUNCTION"
            ) from None

    def __call__(self, plan: AgentPlan) -> Delivery:
        names = _with(self._outcomes, self._covariate)
        drawn = [_rows(arm, self._drawn(plan, arm, n), n, names) if n else [] for arm, n in _asked(plan)]
        return _delivered(drawn, self._outcomes, self._covariate)

    def _drawn(self, plan: AgentPlan, arm: str, count: int) -> list[object]:
        """Call the user's function; if it fails, raise `SourceFailed` with the function's own traceback."""
        try:
            return list(self._draw(arm, count))
        except Exception as error:
            own = "".join(traceback.format_exception(error.with_traceback(_outer(error))))
            name = f"{self._draw.__module__}:{getattr(self._draw, '__qualname__', self._draw)}"
            raise SourceFailed(
                f"your function {name} failed for the arm {arm!r} ({count} rewards):\n\n{own}\n{_way_out(plan)}"
            ) from None


def _outer(error: Exception) -> TracebackType | None:
    """The traceback without its first frame, which is ours, so that it begins in the user's code."""
    found = error.__traceback__
    return found.tb_next if found is not None and found.tb_next is not None else found


def _way_out(plan: AgentPlan) -> str:
    """Advice for the user after a source failed in the middle of a draw."""
    return (
        f"Parley does not know what phase {plan.phase} has spent. If it spent nothing, or if you can discard its "
        f"rewards unseen, fix the source and start again with `--draw-again {plan.phase}`; if rewards were seen, tell "
        "the study's administrator"
    )


class CommandSource:
    """A program that is run once per arm, with the arm's name and the count as its last arguments, and prints rewards.

    In a study with further outcomes it prints one line per draw: the reward and the `outcomes` in the study's order,
    `missing` for an outcome that will not come. A covariate comes last, `missing` if it is unknown.

    The names of arms come from the coordinator. A program could take a name that begins with a hyphen for an option,
    so such a name is refused unless the command ends in `--`, after which programs accept no options.
    """

    repeatable = False

    def __init__(self, command: str, outcomes: Sequence[str] = (), covariate: str = "") -> None:
        self._outcomes, self._covariate = outcomes, covariate
        # On Windows a backslash is part of a path, and quotes only need to be removed.
        words = shlex.split(command, posix=os.name != "nt")
        self._command = [word.strip('"') for word in words] if os.name == "nt" else words
        if not self._command:
            raise InvalidInput("source", found="command: and no program after it", allowed=FORMS)

    def __call__(self, plan: AgentPlan) -> Delivery:
        for arm, _ in _asked(plan):  # check every arm before the first one is drawn
            self._require_no_option(arm)
        drawn = [self._run(plan, arm, n) if n else [] for arm, n in _asked(plan)]
        return _delivered(drawn, self._outcomes, self._covariate)

    def _require_no_option(self, arm: str) -> None:
        if arm.startswith("-") and self._command[-1] != END_OF_OPTIONS:
            raise InvalidInput(
                "source",
                found=f"the arm {arm!r}, which {self._command[0]} may take for an option",
                allowed="arms that do not begin with a hyphen",
                hint="If the program supports it, end the command with --, after which nothing is an option",
            )

    def _run(self, plan: AgentPlan, arm: str, count: int) -> list[Drawn]:
        # Our own variables hold tokens, codes and passwords, which the program must not see.
        environment = {key: value for key, value in os.environ.items() if not _ours(key)}
        environment |= {"PARLEY_STUDY": plan.study, "PARLEY_AGENT": plan.agent, "PARLEY_PHASE": str(plan.phase)}
        try:
            done = subprocess.run(
                [*self._command, arm, str(count)],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise InvalidInput("source", found=f"{self._command[0]} ({error.strerror})", allowed="a program") from None
        if done.returncode != 0:
            raise SourceFailed(
                f"your program {self._command[0]} ended with exit status {done.returncode} for the arm {arm!r}. "
                + _way_out(plan)
            )
        lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
        names = _with(self._outcomes, self._covariate)
        return _rows(arm, lines if names else done.stdout.split(), count, names)


def _ours(variable: str) -> bool:
    return variable.upper().startswith("PARLEY_")


END_OF_OPTIONS = "--"
NEEDED, CELLS = ("arm", "reward"), ("arm", "count", "sum", "squares")
OWN_CELLS = (*CELLS[1:], "missing")  # suffixes of a further outcome's columns, after its name
PARQUET = b"PAR1"  # first bytes of a Parquet file
SAME = 1e-9  # relative tolerance for sums of the same numbers added in another order


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A row of the table with its parsed values and their hashes; `drawn` is None while a needed cell is empty."""

    row: Row
    id: str
    arm: str
    drawn: Drawn | None
    x: tuple[float | None, ...] = ()  # the covariate, if the study has one; must not change while the row is incomplete

    @property
    def reward(self) -> float | None:
        return None if self.drawn is None else self.drawn[0]

    @property
    def hash(self) -> str:
        """A hash of the values of arm, reward, further outcomes and covariate: 1, 1.0 and "1,0" give the same hash."""
        return self.unfilled if self.drawn is None else _hash(self.arm, *map(repr, self.drawn))

    @property
    def unfilled(self) -> str:
        """The hash that the row has while its reward is empty."""
        return _hash(self.arm, "", *map(repr, self.x))

    @property
    def words(self) -> str:
        return "no reward" if self.drawn is None else ", ".join(_shown(value) for value in self.drawn)


def _shown(value: float | None) -> str:
    return NEVER[0] if value is None else f"{value:g}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class CsvSource:
    """A growing CSV or Parquet file with the columns `arm` and `reward`.

    Optional columns are `id` and, for `counts` of events, `exposure`. `outcomes` maps every further outcome of the
    study to its column, where `missing` says that the outcome will not come. A phase waits until the empty cells of its
    rows are filled in, except for empty cells of the `covariate`, which mean that the value is unknown.

    A phase uses the next rows of every arm, each row once. For every row up to the last one used, the outbox stores the
    id and a hash of the values. When the next phase reads the file, these rows must still be there unchanged
    (docs/site.md). A row with an id may be corrected until it is used; without ids, only an empty reward may be filled
    in.

    `taken` returns the report of an earlier phase, or None if nothing was asked of the agent in it. It is called if the
    outbox is new: the counts in earlier reports tell which rows were used, and the sums tell whether these rows have
    changed.
    """

    repeatable = True  # rows are only added at the end, so a second call finds the same next rows

    def __init__(
        self,
        path: str,
        taken: Callable[[int], Report | None],
        memory: Outbox,
        *,
        counts: bool = False,
        outcomes: Mapping[str, str] = MappingProxyType({}),
        covariate: Covariate | None = None,
    ) -> None:
        self._path, self._taken, self._memory, self._counts = Path(path), taken, memory, counts
        self._outcomes = {name: column.lower() for name, column in outcomes.items()}
        self._rule, self._column = covariate, "" if covariate is None else covariate.name.lower()

    def __call__(self, plan: AgentPlan) -> Delivery:
        return self._next_rows(plan, self._read())

    def _next_rows(self, plan: AgentPlan, table: Table) -> Delivery:
        table = per_unit(table, alone=not self._outcomes) if self._counts else table
        lines = [self._line(table, row, plan.arms) for row in table.rows]
        self._check_ids(lines)
        used = self._used(plan, lines)
        chosen: list[list[Drawn]] = []
        for arm, count in zip(plan.arms, plan.draws or (), strict=True):
            places = [place for place, line in enumerate(lines) if line.arm == arm and place not in used][:count]
            ready = [drawn for place in places if (drawn := lines[place].drawn) is not None]
            if len(ready) < count:
                raise NotYet(f"{arm}: {len(ready)} of {count} rows are there{self._hint(table, lines, places)}")
            chosen.append(ready)
            used |= set(places)
        self._remember(plan.phase, lines, used, with_ids="id" in table.columns)
        return _delivered(chosen, tuple(self._outcomes), self._column)

    def _read(self) -> Table:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            raise NotYet(f"{self._path} is not there") from None
        except OSError as error:
            raise InvalidInput(str(self._path), found=error.strerror, allowed="a file that can be read") from None
        if not data.startswith(PARQUET):
            return read_table(data, str(self._path), needed=self._needed, growing=True)
        whole = Warehouse(name=str(self._path), url="duckdb://", query="SELECT * FROM read_parquet(:file)")
        table = whole.ask(file=str(self._path))
        table.require(*self._needed)
        return table

    @property
    def _needed(self) -> tuple[str, ...]:
        return *NEEDED, *_with(tuple(self._outcomes.values()), self._column)

    def _line(self, table: Table, row: Row, arms: tuple[str, ...]) -> _Line:
        arm = arm_in(table, row, arms)
        columns, drawn = self._awaited, None
        x = (self._value(table, row, self._column) if row.values[self._column] else None,) if self._column else ()
        if all(row.values[column] for column in columns):
            drawn = (*(self._value(table, row, column) for column in columns), *x)
        return _Line(row=row, id=row.values.get("id", ""), arm=arm, drawn=drawn, x=x)

    @property
    def _awaited(self) -> tuple[str, ...]:
        """The columns whose empty cells a phase waits for.

        The covariate is not one of them: its value is known before the draw, or never.
        """
        return tuple(column for column in self._needed[1:] if column != self._column)

    def _value(self, table: Table, row: Row, column: str) -> float | None:
        gone = column != NEEDED[1] and is_gone(row.values[column])
        return None if gone else number_in(table, row, column)

    def _check_ids(self, lines: list[_Line]) -> None:
        seen: dict[str, int] = {}
        for line in lines:
            if "id" not in line.row.values:
                continue
            if not line.id or line.id in seen:
                found = f"{line.id!r} again, as in line {seen[line.id]}" if line.id else "no id"
                where = f"{self._path}, line {line.row.line}, column id"
                raise InvalidInput(where, found=found, allowed="a different id in every row")
            seen[line.id] = line.row.line

    def _used(self, plan: AgentPlan, lines: list[_Line]) -> set[int]:
        """Indices of the rows that earlier phases used, after checking that these rows are unchanged."""
        found = self._memory.rows_before(plan.phase)
        if found is None:
            return self._used_by_counts(plan, lines)
        phase, text = found
        memory = read_json(text, "rows")
        for place, (known_id, known_hash, was_used) in enumerate(memory["rows"]):
            self._check_row(lines, place, phase, known_id if memory["ids"] else None, known_hash, was_used=was_used)
        return {place for place, (_, _, was_used) in enumerate(memory["rows"]) if was_used}

    def _check_row(
        self, lines: list[_Line], place: int, phase: int, known_id: str | None, known_hash: str, *, was_used: bool
    ) -> None:
        if place >= len(lines):
            last = lines[-1].row.line if lines else 1
            raise self._differs(last + 1, "no more rows", phase)
        line = lines[place]
        if known_id is not None:
            if line.id != known_id:
                elsewhere = any(other.id == known_id for other in lines)
                found = f"the row {line.id!r} where {known_id!r} was" + (", which is elsewhere now" * elsewhere)
                raise self._differs(line.row.line, found, phase)
            if not was_used:
                return
        if line.hash != known_hash and (was_used or known_hash != line.unfilled):
            raise self._differs(line.row.line, f"{line.arm}, {line.words}, which was not there", phase)

    def _differs(self, line: int, found: str, phase: int) -> InvalidInput:
        return InvalidInput(
            f"{self._path}, line {line}",
            found=found,
            allowed=f"the rows as they were when phase {phase} was reported, and new ones below them",
            hint="Rows may be added at the end, never sorted, changed or removed: they could be counted twice",
        )

    def _used_by_counts(self, plan: AgentPlan, lines: list[_Line]) -> set[int]:
        """Infer the indices of used rows from earlier reports, for an outbox that has not stored them.

        These are the first rows of every arm, as many as were reported. Raises `InvalidInput` if their sums differ from
        the reported sums, since the file has then changed.
        """
        used: set[int] = set()
        for phase in range(1, plan.phase):
            report = self._taken(phase)
            if report is None:
                continue
            for arm, count, total in zip(plan.arms, report.counts, report.sums, strict=True):
                places = [place for place, line in enumerate(lines) if line.arm == arm and place not in used][:count]
                rewards = [self._reported(lines[place], report) for place in places]
                scale = sum(map(abs, rewards)) + abs(total)
                alike = math.isclose(sum(rewards), total, rel_tol=SAME, abs_tol=SAME * scale)
                if len(places) < count or not (alike or report.private):  # noisy sums cannot be compared
                    raise InvalidInput(
                        str(self._path),
                        found=f"{len(places)} rows of {arm} that add up to {sum(rewards):.9g}",
                        allowed=f"the {count} that phase {phase} reported, with the sum {total:.9g}",
                        hint="It is a different file, or it was sorted, changed or cut since",
                    )
                used |= set(places)
        return used

    def _reported(self, line: _Line, report: Report) -> float:
        """The reward of a row as its phase reported it, adjusted for the covariate."""
        moved = 0.0
        x = line.x[0] if line.x else None
        if self._rule is not None and x is not None and report.theta:
            moved = report.theta * (self._rule.clipped(x) - (report.x0 or 0.0))
        return (line.reward or 0.0) - moved

    def _remember(self, phase: int, lines: list[_Line], used: set[int], *, with_ids: bool) -> None:
        prefix = lines[: max(used) + 1] if used else []
        rows = [[line.id, line.hash, place in used] for place, line in enumerate(prefix)]
        self._memory.keep_rows(phase, canonical({"ids": with_ids, "rows": rows}))

    def _hint(self, table: Table, lines: list[_Line], places: list[int]) -> str:
        empty = next((lines[place].row for place in places if lines[place].drawn is None), None)
        if empty is not None:
            lacking = next(column for column in self._awaited if not empty.values[column])
            return f" (line {empty.line} has no {lacking} yet)"
        return " (the last line has no line end and is not read yet)" if table.unfinished else ""


class SqlSource(CsvSource):
    """A database query that returns either a phase's totals, or rows that are used like the rows of a CSV file.

    Totals have the columns `arm`, `count`, `sum`, `squares`, and for a further outcome with the column `harm` also
    `harm_count`, `harm_sum`, `harm_squares`, `harm_missing`.

    Parley sums rows without rounding, like the rows of a file. Totals are summed by the database.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        taken: Callable[[int], Report | None],
        memory: Outbox,
        *,
        counts: bool = False,
        outcomes: Mapping[str, str] = MappingProxyType({}),
        covariate: Covariate | None = None,
    ) -> None:
        super().__init__(warehouse.answer, taken, memory, counts=counts, outcomes=outcomes, covariate=covariate)
        self._warehouse = warehouse

    def __call__(self, plan: AgentPlan) -> Delivery:
        table = self._warehouse.ask(study=plan.study, agent=plan.agent, phase=plan.phase)
        if "count" in table.columns and not self._column:  # only single rewards can be adjusted for a covariate
            table.require(*CELLS, *(f"{column}_{cell}" for column in self._outcomes.values() for cell in OWN_CELLS))
            return self._totals(plan, table)
        table.require(*self._needed)
        # Without an order, the database may return the same rows in another order, and a row could be used twice.
        if not self._warehouse.ordered:
            raise InvalidInput(
                f"{self._warehouse.name}, query",
                found="rows in no order",
                allowed="ORDER BY the time or number at which rows were written, so that new rows come last",
            )
        return self._next_rows(plan, table)

    def _totals(self, plan: AgentPlan, table: Table) -> Delivery:
        rows: dict[str, Row] = {}
        for row in table.rows:
            arm = arm_in(table, row, plan.arms)
            if arm in rows:
                where = f"{self._path}, line {row.line}, column arm"
                raise InvalidInput(where, found=f"{arm!r} again", allowed="every arm once")
            rows[arm] = row

        def column(name: str) -> list[float]:
            """The values of a column by arm; 0 where the cell is empty or the arm has no row."""
            known = (rows.get(arm) for arm in plan.arms)
            return [number_in(table, row, name) if row is not None and row.values[name] else 0.0 for row in known]

        counts = column("count")
        for (arm, asked), count in zip(_asked(plan), counts, strict=True):
            if count > asked or not count.is_integer():
                raise InvalidInput(
                    f"{self._path}, count of {arm}",
                    found=f"{count:.12g}",
                    allowed=f"{asked}, as phase {plan.phase} asks",
                    hint="Let the query count only the rows of the phase (:phase), or let it return rows",
                )
            if count < asked:
                raise NotYet(f"{arm}: {count:.0f} of {asked} are there")

        def totals(prefix: str) -> Totals:
            counts, sums, squares = (np.array(column(f"{prefix}{cell}")) for cell in CELLS[1:])
            return Totals(counts=counts.astype(np.int64), sums=sums, squares=squares)

        others = []
        for name, own in self._outcomes.items():
            found, missing = column(f"{own}_count"), column(f"{own}_missing")
            for (arm, asked), known, gone in zip(_asked(plan), found, missing, strict=True):
                if known + gone != asked or not known.is_integer() or known < 0 or gone < 0:
                    raise InvalidInput(
                        f"{self._path}, {own}_count and {own}_missing of {arm}",
                        found=f"{known:.12g} and {gone:.12g}",
                        allowed=f"together {asked}, as phase {plan.phase} asks",
                    )
            others.append(DrawnOutcome(name=name, totals=totals(f"{own}_"), missing=tuple(map(int, missing))))
        return Delivery(totals=totals(""), outcomes=tuple(others))


def make_source(
    text: str,
    *,
    seed: int,
    whole_plan: Callable[[int], Plan],
    taken: Callable[[int], Report | None],
    memory: Outbox,
    counts: bool = False,
    outcomes: Mapping[str, str] = MappingProxyType({}),
    covariate: Covariate | None = None,
) -> Source:
    """Make a source from its description, such as `python:module:function` or `csv:file` (all forms: `FORMS`).

    With `counts`, rewards are counts of events, and tables may have a column `exposure`. `outcomes` maps the study's
    further outcomes to their columns in a table. With a `covariate`, the source also returns the covariate's
    values, for an `AdjustedSource`.
    """
    kind, _, rest = text.partition(":")
    name = "" if covariate is None else covariate.name
    if kind == "python" and rest:
        return FunctionSource(rest, tuple(outcomes), name)
    if kind == "command":
        return CommandSource(rest, tuple(outcomes), name)
    if kind in ("csv", "parquet") and rest:
        return CsvSource(rest, taken, memory, counts=counts, outcomes=outcomes, covariate=covariate)
    if kind == "sql" and rest:
        return SqlSource(Warehouse.load(rest), taken, memory, counts=counts, outcomes=outcomes, covariate=covariate)
    if kind == "simulate" and rest:
        return SimulatedSource(load_study(rest), seed=seed, whole_plan=whole_plan)
    raise InvalidInput("source", found=repr(text), allowed=FORMS)


class SimulatedSource:
    """Simulated rewards: the agent's share of replication 0 of a simulation with this seed."""

    repeatable = True  # the same seed gives the same rewards

    def __init__(self, study: Study, *, seed: int, whole_plan: Callable[[int], Plan]) -> None:
        self._instance = study.require_truth()
        self._seed, self._whole_plan = seed, whole_plan

    def __call__(self, plan: AgentPlan) -> Delivery:
        problem = self._instance.problem
        if plan.arms != problem.arms or plan.agent not in problem.agents:
            raise InvalidInput(
                "study file",
                found="arms or agents that are not the live study's",
                allowed="the same as in the live study",
            )
        # Draw for all agents and take our own column, so that the rewards are the same as in the simulation.
        place = problem.agents.index(plan.agent)
        whole = self._whole_plan(plan.phase)
        quotas, at = whole.array, {"seed": self._seed, "phase": plan.phase - 1}
        between = np.array(whole.between, dtype=np.int64) if whole.between else None
        pairs = None
        if self._instance.covariate is None:
            drawn = phase_totals(self._instance, counts=quotas, between=between, **at)
        else:
            pairs = phase_pairs(self._instance, counts=quotas, between=between, **at)
            drawn = replace(pairs.totals, between=None if pairs.between is None else pairs.between.totals)
        early = None if drawn.between is None or not plan.between else drawn.between[:, place]
        most = np.array(whole.most_ahead or 0, dtype=np.int64)
        ahead = people_ahead(problem, quotas, most)[:, place] if whole.most_ahead else np.zeros(0, dtype=np.int64)
        further = [
            (one.name, totals[:, place])
            for one, totals in zip(problem.outcomes, phase_outcomes(self._instance, primary=drawn, **at), strict=True)
        ]
        others = tuple(OutcomeTotals.of(name, found.between) for name, found in further if found.between is not None)
        own = None if pairs is None else pairs[:, place : place + 1]
        return Delivery(
            totals=replace(drawn[:, place], between=None),
            ahead=tuple(ahead.tolist()) if ahead.any() else (),
            between=None if early is None else BetweenTotals.of(early, outcomes=others),
            pairs=own if own is None or early is not None else replace(own, between=None),
            outcomes=tuple(DrawnOutcome(name=name, totals=replace(found, between=None)) for name, found in further),
        )
