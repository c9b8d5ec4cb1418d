"""Tables in REDCap's format: read outcomes from an export, and write allocations for an import.

The first column holds the record's id, whatever the project calls it. REDCap's own columns, such as the event and the
data access group, are ignored; a record may have a row for every event, and empty cells are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from parley.agent.entries import YES_OR_NO, Entered
from parley.agent.outcomes import PRIMARY
from parley.agent.strata import Strata
from parley.errors import InvalidInput
from parley.text.formatting import csv_meant, csv_rows
from parley.validation.tables import Row, Table, number_in, read_table, wrong_cell

RECORD, GROUP = "record_id", "redcap_data_access_group"
WORDS = {"yes": 1.0, "no": 0.0}
ALLOCATED = ("stratum", "allocation", "allocation_date", "in_study", "voided")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A value read from a table, with its line and field."""

    line: int
    field: str
    entered: Entered


def fields_of(strata: Strata, named: Mapping[str, str]) -> dict[str, str]:
    """Outcome -> the field that holds it: as in `named`, or else the outcome's own name (`reward` for the reward)."""
    known = [PRIMARY, *(one.name for one in strata.rules.outcomes)]
    for name in named:
        if (name if name != "reward" else PRIMARY) not in known:
            allowed = ", ".join(one or "reward" for one in known)
            raise InvalidInput("--field", found=repr(name), allowed=allowed)
    return {one: named.get(one or "reward", one or "reward") for one in known}


def outcomes_in(
    data: bytes, source: str, strata: Strata, named: Mapping[str, str], missing: Collection[str] = ()
) -> list[Found]:
    """Read all outcomes from a table. A cell with one of the `missing` codes marks its outcome as missing for good."""
    fields = fields_of(strata, named)
    table = read_table(data, source, needed=())
    shown = {outcome: field.lower() for outcome, field in fields.items() if field.lower() in table.columns}
    if not shown or not table.columns:
        allowed = f"a record's id in the first column, and one of {', '.join(fields.values())}"
        raise wrong_cell(source, 1, "", f"the columns {', '.join(table.columns)}"[:200], allowed)
    yes_no = {PRIMARY: strata.rules.values == YES_OR_NO}
    yes_no |= {one.name: one.values == YES_OR_NO for one in strata.rules.outcomes}
    found: list[Found] = []
    seen: dict[tuple[str, str], int] = {}
    for row in table.rows:
        key = row.values[table.columns[0]]
        key = key if strata.knows(key) else csv_meant(key)
        for outcome, field in shown.items():
            if not row.values.get(field):
                continue
            if (key, outcome) in seen:
                allowed = f"one value of a record, in one event; it is in line {seen[key, outcome]}"
                raise wrong_cell(source, row.line, field, f"another value of {key!r}", allowed)
            seen[key, outcome] = row.line
            value = None if row.values[field] in missing else _value(table, row, field, yes_no=yes_no[outcome])
            found.append(Found(line=row.line, field=field, entered=Entered(key, value, outcome)))
    return found


def _value(table: Table, row: Row, field: str, *, yes_no: bool) -> float:
    word = WORDS.get(row.values[field].lower()) if yes_no else None
    return number_in(table, row, field) if word is None else word


def take(found: Iterable[Found], source: str, strata: Strata) -> int:
    """Record all outcomes that were read from a table, or none if any is wrong; returns their number."""
    rows = list(found)
    for row, wrong in zip(rows, strata.record([one.entered for one in rows]), strict=True):
        if isinstance(wrong, InvalidInput):
            raise wrong_cell(source, row.line, row.field, str(wrong.found), wrong.allowed)
        if wrong is not None:
            raise wrong_cell(source, row.line, row.field, repr(row.entered.participant), str(wrong))
    return len(rows)


def allocations_out(strata: Strata, named: Mapping[str, str], *, with_arms: bool = False) -> str:
    """Write a CSV table with a row for everybody who came: site, stratum, arm or kit, date, status and outcomes.

    The arms of a masked site are included only if `with_arms` is set, for readers who may see them.
    """
    fields = fields_of(strata, named)
    rows: list[list[object]] = [[RECORD, GROUP, *ALLOCATED, *fields.values()]]
    with strata.turn():
        for site in strata.sites:
            for person in site.people.persons.values():
                hidden = person.arm is None or (site.rules.masked and not with_arms)
                arm = "" if hidden else site.people.phases[person.phase].plan.arms[person.arm or 0]
                cells: list[object] = [
                    person.key,
                    strata.place,
                    site.rules.stratum,
                    person.kit if site.rules.kits else arm,
                ]
                cells += [f"{person.at:%Y-%m-%d}" if person.at else "", "1" if person.counted else "0"]
                cells.append("1" if person.voided else "0")
                rows.append([*cells, *(person.value(outcome) for outcome in fields)])
    return csv_rows(rows)
