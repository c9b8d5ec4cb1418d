"""Outcomes from an uploaded table: preview what every row would do, in the reader's language, and record the rows.

The columns are `participant` and `reward`, or the words for these in any language and for any audience of the page. A
cell is `missing` if its outcome will not come, and empty if the outcome is not known yet. Values of 0 or 1 may be
words. Each further outcome of a study has a column with its name. A table needs a column for at least one outcome.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from babel.numbers import get_decimal_symbol

from parley.agent.entries import YES_OR_NO, Entered, checked_key
from parley.agent.journal import RulesSeen
from parley.agent.outcomes import GONE, PRIMARY, OutcomeRules
from parley.agent.people import Person
from parley.agent.site import Site
from parley.agent.strata import Strata
from parley.errors import InvalidInput, ParleyError
from parley.site.workbooks import text_of
from parley.text.formatting import csv_meant, csv_rows
from parley.text.translation import (
    AUDIENCES,
    LANGUAGES,
    Translatable,
    figure,
    gettext,
    language,
    reading,
    translated,
)
from parley.validation.tables import Row, Table, number_in, read_table, typed_number


def locale() -> str:
    """The reader's locale; for English, one that writes the day before the month."""
    return "en_GB" if language() == "en" else language()


def all_outcomes(rules: RulesSeen) -> list[OutcomeRules]:
    """The rules of all outcomes that the page asks for; the reward comes first, with an empty name."""
    primary = OutcomeRules(
        name=PRIMARY,
        question=rules.question or (gettext("Primary reward") if rules.outcomes else ""),
        answers=rules.words,
        low=rules.low,
        high=rules.high,
        values=rules.values,
        whole=rules.whole,
    )
    return [primary, *rules.outcomes]


def words_for(rules: OutcomeRules) -> tuple[str, ...]:
    """The words for 1 and 0: the study's own words, or else "yes" and "no" in the reader's language."""
    return rules.answers or (gettext("yes"), gettext("no"))


def value_of(text: str, rules: OutcomeRules, number: Callable[[str], float]) -> float:
    """Parse the value that a person wrote for an outcome: a number, or one of the words for 1 and 0."""
    if rules.values != YES_OR_NO:
        return number(text)
    meant = words_of_tables("yes", "no").get(text.lower())
    for value, word, usual in ((1.0, rules.answers[:1], "yes"), (0.0, rules.answers[1:], "no")):
        if text.casefold() in [one.casefold() for one in word] or meant == usual:
            return value
    try:
        return number(text)
    except InvalidInput:
        yes, no = words_for(rules)
        allowed = Translatable("{yes} (1) or {no} (0)", yes=yes, no=no)
        raise InvalidInput(rules.name or "reward", found=repr(text)[:60], allowed=allowed) from None


def error_text(error: ParleyError, *, place: bool = True) -> str:
    """An error in the reader's language; an error in a table begins with its position, unless `place` is False."""
    if not isinstance(error, InvalidInput):
        return translated(error.args[0])
    found = translated(error.found) if isinstance(error.found, str) else str(error.found)
    allowed = translated(error.allowed)
    words = gettext("Found: %(found)s. Allowed: %(allowed)s.", found=found, allowed=allowed)
    hint = translated(error.hint) if error.hint else ""
    where = f"{translated(error.key)}. " if place and ", " in error.key else ""
    return f"{where}{words} {hint}".strip()


def typed_value(text: str) -> float:
    """Parse a number in the notation of the reader's language."""
    return typed_number(text, thousands="." if get_decimal_symbol(locale()) == "," else ",")


TABLE = Translatable("table")
COLUMNS = (Translatable("draw"), Translatable("reward"))


@cache
def words_of_tables(*messages: str) -> dict[str, str]:
    """Lower-case text -> message, for the text of each message in every language and for every audience.

    >>> words_of_tables("yes", "reward")["outcome"], words_of_tables("yes", "reward")["oui"]
    ('reward', 'yes')
    """
    found = {message: message for message in messages}
    for audience in AUDIENCES:
        for spoken in LANGUAGES:
            with reading(audience, spoken):
                found |= {gettext(message).lower(): message for message in messages}
    return found


class Change(NamedTuple):
    """A change that a row of a table makes: the row's line, the person, the outcome, the new value and the old one."""

    line: int
    key: str
    label: str
    after: str
    before: str


@dataclass(kw_only=True)
class Taken:
    """The changes that a table's rows made or, in a preview, would make. If any row is wrong, no row is recorded."""

    text: str
    done: bool = False  # whether the rows were recorded
    stale: bool = False  # the preview is out of date, since somebody entered other values: nothing was recorded
    outcomes: int = 0
    missing: int = 0
    same: int = 0  # values that are recorded already
    changes: list[Change] = field(default_factory=list)  # those that replace a value come first
    ignored: list[int] = field(default_factory=list)  # lines without any outcome yet
    rows: list[Entered] = field(default_factory=list, repr=False)
    refused: dict[tuple[int, str], None] = field(default_factory=dict)  # (line, error), as an ordered set

    @property
    def wrong(self) -> list[tuple[int, str]]:
        """The errors with their lines, in the order of the lines."""
        return sorted(self.refused)

    @property
    def seen(self) -> str:
        """A digest of all changes that the table would make, so that a user confirms exactly those in the preview."""
        return hashlib.sha256(repr((self.changes, self.same)).encode()).hexdigest()

    def refuse(self, line: int, words: str) -> None:
        """Record an error in a line, but only once, since all outcomes of a person may have the same error."""
        self.refused[line, words] = None


def columns_in(rules: RulesSeen) -> dict[str, str]:
    """Accepted name of a column, in lower case -> the column that it stands for."""
    named = {one.name.lower(): one.name.lower() for one in rules.outcomes}
    return words_of_tables(*COLUMNS) | named


def uploaded_text(site: Site | Strata, data: bytes) -> str:
    """The text of the table in an uploaded file."""
    columns = columns_in(site.rules)
    names = [gettext(one) for one in COLUMNS] + [one.name for one in site.rules.outcomes]
    return text_of(data, lambda name: name.lower() in columns, names)


def take_table(
    site: Site | Strata, text: str, source: str = TABLE, *, take: bool = True, seen: str | None = None
) -> Taken:
    """Record a table's rows, all or none; without `take`, only say what they would do.

    With `seen`, the digest of a preview, the rows are recorded only if they would still make the same changes.
    """
    with site.turn():
        found = _judged(site, text, source)
        found.stale = take and not found.refused and seen is not None and seen != found.seen
        if take and not found.refused and not found.stale:
            site.record(found.rows)
            found.done = True
    return found


def _judged(site: Site | Strata, text: str, source: str) -> Taken:
    """Check a table's rows, and find out what they would do, without recording anything."""
    rules = site.rules
    named = {one.name.lower(): one for one in rules.outcomes}
    table = read_table(
        text.encode("utf-8", "replace"),
        source,
        needed=COLUMNS[:1] if rules.outcomes else COLUMNS,
        called={said: meant for said, meant in words_of_tables(*COLUMNS).items() if said not in named},
    )
    columns = {str(COLUMNS[1]): all_outcomes(rules)[0]} | named
    shown = [name for name in columns if name in table.columns]
    table.require_one_of([COLUMNS[1], *(one.name for one in rules.outcomes)])
    taken, seen, before = Taken(text=text), dict[str, int](), _everybody(site)
    rows: list[tuple[int, OutcomeRules, Entered]] = []
    for row in table.rows:
        key, said = row.values["draw"], [name for name in shown if row.values.get(name)]
        # An exported table escapes keys that a spreadsheet would take for formulas; undo that if it is uploaded again.
        key = key if key in before else csv_meant(key)
        if not said:
            taken.ignored.append(row.line)
        elif key in seen:
            found, once = (
                Translatable("{key!r} a second time", key=key),
                Translatable("once; it is already in line {line}", line=seen[key]),
            )
            taken.refuse(row.line, error_text(InvalidInput("participant", found=found, allowed=once), place=False))
        else:
            seen[key] = row.line
            for name in said:
                try:
                    value = _cell(table, row, name, columns[name])
                    rows.append((row.line, columns[name], Entered(key, value, columns[name].name)))
                except InvalidInput as error:
                    taken.refuse(row.line, _about(columns[name], error))
    taken.rows = [entered for *_, entered in rows]
    answers = site.record(taken.rows, take=False)
    for (line, one, _), refused in zip(rows, answers, strict=True):
        if refused is not None:
            taken.refuse(line, _about(one, refused))
    if not taken.refused:
        for line, one, entered in rows:
            taken.missing += entered.value is None
            _note_change(taken, line, one, entered, before[checked_key(entered.participant)])
        taken.outcomes = len(rows) - taken.missing
        taken.changes.sort(key=lambda change: not change.before)
    return taken


def exported(site: Site | Strata) -> str:
    """A CSV table of everybody at a site, with all recorded values; without arms if the site may not see them."""
    rules = site.rules
    masked = rules.masked or rules.kits
    unmasked = [] if masked else [gettext("Arm")]
    about = [gettext("Phase"), gettext("Stratum"), gettext("Assigned"), gettext("Status"), *unmasked]
    head = [gettext(COLUMNS[0]), *about, gettext(COLUMNS[1]), *(one.name for one in rules.outcomes)]
    rows: list[list[object]] = [list(head)]
    for one in _sites(site):
        for person in list(one.people.persons.values()):
            arms = one.people.book_of(person).plan.arms
            arm = [] if masked else ["" if person.arm is None else arms[person.arm]]
            status = gettext("voided") if person.voided else "" if person.counted else gettext("outside the study")
            day = person.at.astimezone().date().isoformat() if person.at else ""
            values = [_exported(person, rule) for rule in all_outcomes(rules)]
            rows.append([person.key, person.phase, one.stratum, day, status, *arm, *values])
    return csv_rows(rows)


def _exported(person: Person, rules: OutcomeRules) -> str | float:
    """The value of an outcome as an upload accepts it; empty if it is not known yet."""
    if person.is_gone(rules.name):
        return GONE
    value = person.value(rules.name)
    if value is None:
        return ""
    return int(value) if value.is_integer() else value


def _everybody(site: Site | Strata) -> dict[str, Person]:
    """A copy of all people, by key, since other threads may add people meanwhile."""
    return {person.key: person for one in _sites(site) for person in list(one.people.persons.values())}


def _sites(site: Site | Strata) -> Sequence[Site]:
    return site.sites if isinstance(site, Strata) else (site,)


def _note_change(taken: Taken, line: int, rules: OutcomeRules, entered: Entered, person: Person) -> None:
    known = person.is_gone(rules.name) or person.value(rules.name) is not None
    old = said_value(rules, person.value(rules.name)) if known else ""
    new = said_value(rules, entered.value)
    if old == new:
        taken.same += 1
    else:
        taken.changes.append(Change(line, person.key, rules.words, new, old))


def said_value(rules: OutcomeRules, value: float | None) -> str:
    """The value of an outcome as the reader sees it; None means that no outcome will come."""
    if value is None:
        return gettext("no outcome will come")
    return words_for(rules)[0 if value else 1] if rules.values == YES_OR_NO else figure(value)


def _cell(table: Table, row: Row, column: str, rules: OutcomeRules) -> float | None:
    """Parse a cell with the value of an outcome: a number, or a word for 0 or 1. None if the outcome will not come."""
    text = row.values[column]
    meant = (words_of_tables(GONE) | {"na": GONE, "n/a": GONE}).get(text.lower())
    return None if meant == GONE else value_of(text, rules, lambda _: number_in(table, row, column))


def _about(rules: OutcomeRules, error: ParleyError) -> str:
    """The error in a row as text, preceded by the name of the further outcome that it concerns, if any."""
    words = error_text(error, place=False)
    about_value = isinstance(error, InvalidInput) and error.key != "participant"
    return f"{rules.name}: {words}" if rules.name and about_value else words
