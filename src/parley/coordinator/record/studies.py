"""Read and write a study's row, and read its document, current question, certificate and frozen agents."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec
import sqlalchemy as sa

from parley.coordinator.problems import Refusal
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.tables import assignments, documents, frozen, questions, reports, studies
from parley.errors import StorageUnavailable
from parley.policies import State
from parley.protocol import Plan, Stage, StudyMessage, Trial
from parley.protocol.codec import read_json, sha256
from parley.protocol.events import ArmStopped, AskedAnew, read_event
from parley.protocol.lost_sites import ask_anew
from parley.protocol.state_machine import OVER


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """A study's row without its document, which `message` reads."""

    id: str
    name: str
    digest: str  # digest of the study with its current question
    policy: str
    arms: int
    agents: int
    questions: int  # agents that only ask
    stage: Stage
    phase: int
    closed_early: bool  # the phase in progress accepts no more reports
    samples: int  # samples in accepted reports
    sequence: int  # number of the last record of the log; changes with every event
    head: str  # hash of that record
    reason: str  # why the study is paused or cancelled
    created_at: str
    opened_at: str  # when the phase in progress began, for people
    missing: int  # agents with work that are not frozen and have not reported; not stored, counted by every query

    @property
    def awaited(self) -> int:
        """How many reports the phase in progress still needs."""
        return 0 if self.closed_early or self.stage in OVER else self.missing


NAMES = tuple(field.name for field in fields(StudyRow))
STORED = tuple(name for name in NAMES if name != "missing")
CHANGING = ("digest", "stage", "phase", "closed_early", "samples", "sequence", "head", "reason", "opened_at")


def _now(table: sa.Table) -> sa.ColumnElement[bool]:
    """Condition that selects the rows of the phase in progress."""
    return sa.and_(table.c.study == studies.c.id, table.c.phase == studies.c.phase)


def _count(table: sa.Table, *here: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    return sa.select(sa.func.count()).select_from(table).where(*here).correlate(studies).scalar_subquery()


# Counted by every query, so that the number can never be inconsistent. This is fast, since it needs only primary keys
# and few agents are frozen. Only agents with work can report, so the first count minus the second is exact.
MISSING = (
    _count(assignments, _now(assignments))
    - _count(reports, _now(reports), reports.c.revision == 0)
    - _count(
        frozen,
        frozen.c.study == studies.c.id,
        sa.exists().where(_now(assignments), assignments.c.agent == frozen.c.agent).correlate(studies, frozen),
        ~sa.exists().where(_now(reports), reports.c.agent == frozen.c.agent).correlate(studies, frozen),
    )
)
COLUMNS = [*(studies.c[name] for name in STORED), MISSING.label("missing")]

# Statements are built once: building them costs more than running them.
GET = sa.select(*COLUMNS).where(studies.c.id == sa.bindparam("study"))
LOCK = sa.select(studies.c.id).where(studies.c.id == sa.bindparam("study")).with_for_update()
INSERT = sa.insert(studies)
SAVE = sa.update(studies).where(studies.c.id == sa.bindparam("study")).values({n: sa.bindparam(n) for n in CHANGING})


msgspec.json.Decoder(StudyRow)  # inspect the type now, on one thread: see `codec.build_structs`


def _row(found: sa.Row[*tuple[Any, ...]]) -> StudyRow:
    """Check a stored row and convert it: SQLite accepts a value of any type in any column."""
    values = dict(zip(NAMES, found, strict=True))
    try:
        return msgspec.convert(values, StudyRow)
    except msgspec.ValidationError as error:
        name = str(error).rpartition("`$.")[2].rstrip("`")
        words = f"the study {values['id']} has the {name} {str(values.get(name))!r:.80}: damaged data"
        raise StorageUnavailable(words) from None


def get(transaction: Transaction, study: str) -> StudyRow | None:
    """Read the row of a study in this snapshot; None if there is no such study."""
    found = transaction.execute(GET, {"study": study}).one_or_none()
    return None if found is None else _row(found)


def require(transaction: Transaction, study: str) -> StudyRow:
    """Read the row of a study in this snapshot; raises a refusal if there is no such study."""
    row = get(transaction, study)
    if row is None:
        raise Refusal("not-found", f"no study {study!r}")
    return row


def lock(transaction: Transaction, study: str) -> StudyRow | None:
    """Lock a study until this transaction ends, and return its row. On SQLite the transaction itself is the lock.

    The row is read by a second statement, after the lock is taken: a statement that waits for the lock would see the
    reports as of when it began to wait, and miss the reports that the previous holder wrote. If this transaction has
    locked the study already, the row is as this transaction last wrote it.
    """
    row = transaction.locked.get(study)
    if row is None:
        transaction.execute(LOCK, {"study": study})
        row = get(transaction, study)
        if row is not None:
            transaction.locked[study] = row
    return row


def find(
    transaction: Transaction,
    *,
    search: str = "",
    stage: str | None = None,
    only: str | None = None,
    among: Sequence[str] | None = None,
    after: str = "",
    limit: int | None = 100,
) -> tuple[list[StudyRow], list[str]]:
    """Find studies, in the order of their ids, after the id `after`; `search` looks in names and ids.

    `only` and `among` select ids. A study with a damaged row does not hide the others: its id is in the second list.
    """
    query = sa.select(*COLUMNS).where(studies.c.id > after).order_by(studies.c.id).limit(limit)
    if search:
        # % and _ are wildcards of LIKE; people who search for them mean the characters.
        escaped = search.lower().replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
        pattern = f"%{escaped}%"
        query = query.where(
            sa.or_(sa.func.lower(studies.c.name).like(pattern, escape="\\"), studies.c.id.like(pattern, escape="\\"))
        )
    if stage:
        query = query.where(studies.c.stage == stage)
    if among is not None:
        query = query.where(studies.c.id.in_(among))
    if only is not None:
        query = query.where(studies.c.id == only)
    rows, damaged = [], []
    for found in transaction.execute(query):
        try:
            rows.append(_row(found))
        except StorageUnavailable:
            damaged.append(str(found.id))
    return rows, damaged


def add(transaction: Transaction, row: StudyRow) -> None:
    """Insert a new study."""
    transaction.execute(INSERT, {name: getattr(row, name) for name in STORED})


def save(transaction: Transaction, row: StudyRow) -> None:
    """Write back the row of a study that this transaction has locked."""
    transaction.execute(SAVE, {"study": row.id, **{name: getattr(row, name) for name in CHANGING}})
    transaction.locked[row.id] = row


def message(transaction: Transaction, row: StudyRow) -> StudyMessage:
    """The study with its current question, parsed once and cached by its digest.

    One thread at a time parses a study, since a large one takes tens of megabytes and all of its agents ask for it at
    once. Waiting threads cannot deadlock: reading a document holds no lock of the database.
    """

    def parsed() -> StudyMessage:
        text, last = _created(transaction, row), question(transaction, row.id)
        asked = StudyMessage.read(text)
        if last is not None:
            asked = ask_anew(asked, last.weights, last.delta, last.opened, last.withdrawn)
        # The stored text is canonical, so its hash is the digest; encoding a million weights again would take a second.
        # Checked, so that a damaged document is never cached under the digest of the row.
        if (sha256(text) if last is None else asked.digest) != row.digest:
            raise StorageUnavailable(f"the study {row.id} has another document than its row says: damaged data")
        return asked

    return transaction.cache.studies.get_or_compute(row.digest, parsed)


def claim(transaction: Transaction, row: StudyRow) -> StudyMessage:
    """The study as created. The guarantee states its delta, even after the question was changed."""
    unchanged = question(transaction, row.id) is None
    return message(transaction, row) if unchanged else created(transaction, row)


def created(transaction: Transaction, row: StudyRow) -> StudyMessage:
    """Parse the document of the study as created."""
    return StudyMessage.read(_created(transaction, row))


def _created(transaction: Transaction, row: StudyRow) -> str:
    text = _document(transaction, row.id, "study")
    if not isinstance(text, str):
        raise StorageUnavailable(f"the study {row.id} has no document: damaged data")
    return text


def question(transaction: Transaction, study: str) -> AskedAnew | None:
    """The event that asked the current question; None if the original question is current."""
    query = sa.select(questions.c.kind, questions.c.body).where(questions.c.study == study)
    found = transaction.execute(query.order_by(questions.c.sequence.desc()).limit(1)).one_or_none()
    if found is None:
        return None
    event = read_event(found.kind, read_json(found.body))
    assert isinstance(event, AskedAnew)
    return event


def asked_anew(transaction: Transaction, study: str) -> dict[str, sa.Row[*tuple[Any, ...]]]:
    """Arm -> its last opening or withdrawal: kind, phase, reason and time. The key "" has the last re-weighing."""
    columns = (questions.c[name] for name in ("arm", "kind", "phase", "reason", "at"))
    return {row.arm: row for row in transaction.execute(sa.select(*columns).where(questions.c.study == study))}


def alarms(transaction: Transaction, study: str) -> dict[str, str]:
    """The stored reason of every arm that a guardrail stopped -> the same reason, translatable."""
    query = sa.select(questions.c.body).where(questions.c.study == study, questions.c.kind == "arm-stopped")
    events = (ArmStopped.from_json(read_json(body)) for body in transaction.execute(query).scalars())
    return {event.reason: event.why for event in events}


def frozen_agents(transaction: Transaction, study: str) -> dict[str, sa.Row[*tuple[Any, ...]]]:
    """Frozen agent -> the phase in which it was frozen, the reason and the time."""
    query = sa.select(frozen.c.agent, frozen.c.phase, frozen.c.reason, frozen.c.at).where(frozen.c.study == study)
    return {row.agent: row for row in transaction.execute(query)}


def without_reports(transaction: Transaction, row: StudyRow, *, state: State, plan: Plan) -> Trial:
    """Make the `Trial` of a study without any reports, with its current question and its frozen agents."""
    last = question(transaction, row.id)
    return Trial(
        id=row.id,
        study=message(transaction, row),
        stage=row.stage,
        state=state,
        plan=plan,
        frozen=frozenset(frozen_agents(transaction, row.id)),
        closed_early=row.closed_early,
        origin=None if last is None else created(transaction, row),
        leaves=frozenset() if last is None else frozenset(last.left),
        arms_opened={} if last is None else last.opened,
        arms_withdrawn={} if last is None else last.withdrawn,
    )


def _document(transaction: Transaction, study: str, kind: str) -> str | None:
    here = sa.and_(documents.c.study == study, documents.c.kind == kind)
    return transaction.execute(sa.select(documents.c.body).where(here)).scalar_one_or_none()


def certificate_of(transaction: Transaction, study: str) -> str | None:
    """The canonical text of a study's certificate; None if it has none."""
    return _document(transaction, study, "certificate")
