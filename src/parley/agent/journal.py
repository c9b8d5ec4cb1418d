"""The entries of a site's journal, and the append-only file that holds them. Only totals (`Reported`) leave the site.

Each line is synced to disk before the caller that wrote it gets an answer. It begins with a hash of its content and of
the previous line's hash. If the last line is incomplete, the process or the machine died while writing it; nobody got
an answer, so the line is cut off. Any other damage raises `DamagedJournal`, which names the line. Several processes may
share a journal: each locks the file, and first reads what the others wrote.
"""

import hashlib
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

from parley.agent.outcomes import PRIMARY, OutcomeRules
from parley.covariates import Covariate
from parley.errors import DamagedJournal, InvalidInput, NoRoom, UnknownName
from parley.protocol.codec import Message, canonical, read_json
from parley.protocol.messages import BetweenTotals, OutcomeTotals
from parley.system.files import lock_file, open_private, read_from, sync_folder
from parley.text.translation import Translatable


class Opened(Message, omit_defaults=False, tag="parley/site/opened/1"):
    """The first line of a journal: its study and agent, and the secret key of the randomization."""

    study: str
    agent: str
    key: str  # hexadecimal; whoever knows it knows the next arm


class RulesSeen(Message, omit_defaults=False, tag="parley/site/rules-seen/1"):
    """The study's rules for its sites. `low` and `high` bound a reward; None means no bound."""

    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()  # the only possible rewards, if they are few, such as 0 and 1
    whole: bool = False  # rewards are whole numbers
    between: str = (
        "outside"  # for people who come when nobody is needed: "outside" the study, on the "leading" arm, or "assign"ed
    )
    flexible: bool = False  # a report may have other counts than the plan's
    minimum_cell: int = 1  # a cell with fewer outcomes is reported as empty
    digest: str = ""  # digest of the study
    clip: tuple[float, float] | None = None  # the range to which rewards are clipped, if any
    rho: float | None = None  # of a private study: the privacy loss per person
    grid: float = 1.0  # the step to which private sums are rounded
    sensitivity: int = 1  # in steps: how far one person's outcome can move a sum
    audience: str = "bandit"  # the readers whose vocabulary the page uses
    title: str = ""  # the study's name
    delay: float = 0.0  # days from an assignment until its outcome is due; 0 if not stated
    grace_hours: float = 0.0  # from the last entry of a complete phase to its report
    contact: str = ""  # whom people at the site can ask
    key_pattern: str = ""  # pattern of participants' keys: # is a digit, @ a letter; empty allows any key
    place: str = ""  # the name of the site, if agents are its strata
    stratum: str = ""  # the name of this stratum
    question: str = ""  # the question in which the page asks for the reward
    words: tuple[str, ...] = ()  # the words for rewards of 1 and 0; yes and no if empty
    masked: bool = True  # the arm is hidden where outcomes are entered
    eligibility: tuple[str, ...] = ()  # questions that must all be answered yes before an assignment
    kits: bool = False  # people get numbered kits, and nobody here sees the arm
    arms: tuple[str, ...] = ()  # the study's arms, if there are kits
    outcomes: tuple[OutcomeRules, ...] = ()  # further outcomes, besides the reward
    covariate: str = ""  # the name of the covariate asked before an assignment; empty if none
    covariate_range: tuple[float, float] | None = None
    covariate_center: float | None = None
    covariate_theta: float | None = None  # for this agent, if the study states it
    covariate_largest: float | None = None  # limit on the size of a learned theta
    report_low: float | None = None  # bounds of reported values, after adjustment for the covariate
    report_high: float | None = None

    @property
    def adjustment(self) -> Covariate | None:
        """The covariate adjustment for this agent alone, with arrays of shape `(1,)`; None if there is no covariate."""
        if not self.covariate:
            return None
        return Covariate(
            name=self.covariate,
            center=self.covariate_center,
            range=self.covariate_range,
            theta=None if self.covariate_theta is None else np.array([self.covariate_theta]),
            largest=math.inf if self.covariate_largest is None else self.covariate_largest,
        )


class PhaseBegun(Message, omit_defaults=False, tag="parley/site/phase-begun/1"):
    """A phase began, and its plan asks this site for `draws`. Earlier phases that were not reported are over."""

    phase: int
    plan: str  # digest of the whole plan
    arms: tuple[str, ...]
    draws: tuple[int, ...]
    # The adjustment for a covariate. It follows from earlier phases, and is stored here before the first outcome.
    theta: float | None = None
    x0: float | None = None
    between: tuple[int, ...] = ()  # per arm: people who were assigned for this phase in advance; empty if nobody
    most_ahead: int = 0  # how many may be assigned for the next phase once this one is full

    @property
    def asks(self) -> tuple[Any, ...]:
        """The fields that must be the same whenever the coordinator sends the plan of this phase."""
        return (self.phase, self.plan, self.arms, self.draws)


class StageSeen(Message, omit_defaults=False, tag="parley/site/stage-seen/1"):
    """The coordinator reported a new stage of the study, such as paused or finished."""

    stage: str
    reason: str
    answer: tuple[str, ...] | None = None  # the study's answer for this site, if it may see it


class ArmsClosed(Message, omit_defaults=False, tag="parley/site/arms-closed/1"):
    """All arms that are dormant or withdrawn, and so not assigned now. Only the latest such entry counts."""

    arms: tuple[str, ...]


class Assigned(Message, omit_defaults=False, tag="parley/site/assigned/1"):
    """A person got an arm. `probability` is the arm's probability at that moment, as a fraction such as "2/3"."""

    participant: str
    phase: int
    arm: int
    probability: str
    x: float | None = None  # the covariate, if the study has one and it is known
    kit: str = ""  # number of the kit, in a study with kits
    ahead: bool = False  # assigned for the next phase, since this one is full


class Outside(Message, omit_defaults=False, tag="parley/site/outside/1"):
    """A person came when the phase needed nobody, and is outside the study. `arm` is None if such people get no arm."""

    participant: str
    phase: int
    arm: int | None


class KitsListed(Message, omit_defaults=False, tag="parley/site/kits-listed/1"):
    """Kits arrived: the number of each kit, and the arm that it contains."""

    kits: tuple[tuple[str, str], ...]


class Unmasked(Message, omit_defaults=False, tag="parley/site/unmasked/1"):
    """A person's arm was revealed to somebody, for a stated reason."""

    participant: str
    by: str  # who saw the arm
    reason: str
    emergency: bool


class Observed(Message, omit_defaults=False, tag="parley/site/observed/1"):
    """An outcome was entered, or changed before it was reported: the reward, or the outcome that `outcome` names."""

    participant: str
    reward: float
    outcome: str = PRIMARY


class Missing(Message, omit_defaults=False, tag="parley/site/missing/1"):
    """A person's reward, or the named outcome, was marked as missing: it will never come."""

    participant: str
    outcome: str = PRIMARY


class Voided(Message, omit_defaults=False, tag="parley/site/voided/1"):
    """A mistaken assignment was voided: the person is in no report, and is never assigned again."""

    participant: str
    reason: str
    who: str  # the person who voided it


class PartClosed(Message, omit_defaults=False, tag="parley/site/part-closed/1"):
    """The site stopped assigning people in this phase, although the plan asks for more."""

    phase: int
    reason: str


class Reported(Message, omit_defaults=False, tag="parley/site/reported/1"):
    """A phase was closed, with the totals that its report will have. Nothing in the phase changes afterwards."""

    phase: int
    counts: tuple[int, ...]
    sums: tuple[float, ...]
    squares: tuple[float, ...]
    missing: tuple[int, ...]
    reason: str = ""  # why the counts are not the plan's
    outside: int = 0  # people since the previous report who are not counted
    unmasked: int = 0  # people unmasked since the previous report
    outcomes: tuple[OutcomeTotals, ...] = ()  # totals of further outcomes
    left: float | None = None  # with a covariate: the variance expected in the next phase, relative to this one's
    missing_x: int = 0  # people whose covariate is not known
    voided: int = 0  # voided assignments of the phase
    ahead: tuple[int, ...] = ()  # per arm: people assigned for the next phase; no more are added afterwards
    between: BetweenTotals | None = None  # totals of people who were assigned for this phase in advance


class Corrected(Message, omit_defaults=False, tag="parley/site/corrected/1"):
    """Outcomes of one person in a reported phase were corrected; a corrected report has to be sent."""

    participant: str
    outcomes: tuple[tuple[str, float | None], ...]  # names and corrected values; None if one will not come
    reason: str = ""
    who: str = ""


class CorrectionSent(Message, omit_defaults=False, tag="parley/site/correction-sent/1"):
    """The coordinator has the corrected report of a phase, for an administrator to accept or refuse."""

    phase: int
    report: str  # digest of the corrected report
    number: int  # number of the phase's corrections in this report: later corrections are still to be sent
    same: bool = False  # the report equals the first one again, so there is nothing to confirm


class CorrectionAnswered(Message, omit_defaults=False, tag="parley/site/correction-answered/1"):
    """An administrator accepted a corrected report, or refused it."""

    phase: int
    report: str  # digest of the corrected report
    accepted: bool
    reason: str = ""


Entry: TypeAlias = (
    Opened
    | RulesSeen
    | PhaseBegun
    | StageSeen
    | ArmsClosed
    | Assigned
    | Outside
    | KitsListed
    | Unmasked
    | Observed
    | Missing
    | Voided
    | PartClosed
    | Reported
    | Corrected
    | CorrectionSent
    | CorrectionAnswered
)
ENTRIES: dict[str, type[Entry]] = {kind.schema: kind for kind in get_args(Entry)}


def read_entry(document: Any) -> Entry:
    """Parse an entry of a journal from its JSON document.

    >>> read_entry(Missing(participant="p-001").to_json()).participant
    'p-001'
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in ENTRIES:
        raise UnknownName("journal entry", schema, ENTRIES)
    return ENTRIES[schema].from_json(document)


def journals_in(outbox: str, study: str | None = None) -> list[Opened]:
    """The first entry of every journal in an outbox; with `study`, only of that study's journals."""
    found = []
    for path in sorted(Path(outbox).glob("*/*/journal")):
        with path.open("rb") as file, lock_file(file.fileno()):  # on Windows a locked file cannot be read
            first = file.readline().partition(b" ")[2]
        entry = read_entry(read_json(first)["entry"]) if first else None
        if isinstance(entry, Opened) and study in (None, entry.study):
            found.append(entry)
    return found


def now() -> datetime:
    """The current time in UTC, as a journal records it."""
    return datetime.now(UTC)


Write = Callable[..., None]  # writes entries, and returns when they are on disk
CHECK = 16  # hexadecimal digits of a line's hash


def _check(before: str, body: str) -> str:
    return hashlib.sha256(f"{before}\n{body}".encode()).hexdigest()[:CHECK]


class Journal:
    """The journal file at `path`. `fold` gets every entry with its time, in order, whichever process wrote it."""

    def __init__(
        self, path: Path, fold: Callable[[Entry, datetime], None], clock: Callable[[], datetime] = now
    ) -> None:
        self._path, self._fold, self._clock = path, fold, clock
        self._end, self._last, self._line = 0, "", 0
        # This lock is for the threads of one process; `lock_file` is for several processes.
        self._mine, self._depth = threading.RLock(), 0
        self._file = open_private(path, os.O_APPEND)
        sync_folder(path.parent)

    def close(self) -> None:
        with self._mine:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    @contextmanager
    def turn(self) -> Iterator[Write]:
        """Lock the journal and read all entries so far; yields a function that writes entries.

        The lock is reentrant, because `Strata` locks all journals of a site and then calls methods that lock one again.
        """
        with self._mine:
            if self._file < 0:
                raise InvalidInput("journal", found="closed", allowed="an open one", hint="Start the site again")
            if self._depth:
                yield self._write
                return
            with lock_file(self._file):
                self._catch_up()
                self._depth += 1
                try:
                    yield self._write
                finally:
                    self._depth -= 1

    def _catch_up(self) -> None:
        """Read the entries that other processes added since the last read, and cut off an incomplete last line."""
        size = os.fstat(self._file).st_size
        if size == self._end:
            return
        if size < self._end:
            raise DamagedJournal(f"{self._path}: it is shorter than when it was last read")
        text = read_from(self._file, self._end, size - self._end)
        whole = text.rfind(b"\n") + 1
        for line in text[:whole].split(b"\n")[:-1]:
            self._read(line)
            self._end += len(line) + 1
        if whole < len(text):
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)

    def _read(self, line: bytes) -> None:
        self._line += 1
        try:
            check, _, body = line.decode("utf-8").partition(" ")
            if check != _check(self._last, body):
                raise InvalidInput("check", found=check[:CHECK], allowed="the hash of the line and of all before it")
            found = read_json(body)
            entry, at = read_entry(found["entry"]), datetime.fromisoformat(found["at"])
        except (UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
            raise DamagedJournal(f"{self._path}, line {self._line}: changed after it was written ({error})") from None
        self._last = check
        self._fold(entry, at)

    def _write(self, *entries: Entry) -> None:
        """Write entries, all or none, and return when they are on disk. Raises `NoRoom` if they cannot be written."""
        at, check, lines = self._clock().replace(microsecond=0), self._last, b""
        for entry in entries:
            body = canonical({"at": at.isoformat(), "entry": entry.to_json()})
            check = _check(check, body)
            lines += f"{check} {body}\n".encode()
        if not lines:
            return
        sys.audit("parley.reached", "journal-before-write")
        try:
            # Written in two halves, so that a test can kill the process in between.
            half = len(lines) // 2
            _write_all(self._file, lines[:half])
            sys.audit("parley.reached", "journal-half-written")
            _write_all(self._file, lines[half:])
            sys.audit("parley.reached", "journal-written")
            os.fsync(self._file)
        except OSError as error:
            self._undo()
            raise NoRoom(
                Translatable(
                    "{path} could not be written ({why}), so nothing was recorded", path=self._path, why=error.strerror
                )
            ) from None
        sys.audit("parley.reached", "journal-synced")
        self._end, self._last, self._line = self._end + len(lines), check, self._line + len(entries)
        for entry in entries:
            self._fold(entry, at)

    def _undo(self) -> None:
        """Undo a partial write; if that fails too, close the journal, since its content is then unknown."""
        try:
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)
        except OSError:
            os.close(self._file)
            self._file = -1


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
