"""Verify a log: check its hash chain, repeat every decision, and compare each with the recorded one.

Verification needs only the records, so a log exported from one machine can be verified on another.

A chain alone cannot show that its end was cut off; the receipts that agents keep can, and so can time stamps. Receipts
also show that the report logged for an agent is the report that it sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from parley.errors import BrokenChain, CoordinatorError, InvalidInput, ParleyError
from parley.protocol import events
from parley.protocol.asking_anew import asked_again
from parley.protocol.certificate import issue_certificate, same_certificate
from parley.protocol.codec import LARGE, Count, Digest, Message, build_structs, digest, read_json
from parley.protocol.events import EVENTS, GENESIS, Event, Record, Unread, read_event
from parley.protocol.messages import Certificate, Decision, Receipt, require_live_size
from parley.protocol.replaying import apply, replay
from parley.protocol.report_checks import Scatter, added_scatters, data_warnings
from parley.protocol.state_machine import Stage
from parley.protocol.trial import Trial


class Stamp(Message, tag="parley/stamp/1"):
    """A time stamp authority's answer about the head of a log, stored with the log or by somebody else."""

    study: str
    sequence: Count  # number of the stamped record; its hash covers all records before it
    head: Digest
    authority: str  # the host that was asked
    response: Annotated[str, Meta(max_length=100_000)]  # RFC 3161, DER in base64


Proof: TypeAlias = Receipt | Stamp | tuple[int, str]  # proof that record `sequence` had the hash `head`


def chained(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records, each checked against the record before it; the first flaw raises `BrokenChain`."""
    sequence, head, stream = 0, GENESIS, None
    for record in records:
        stream = record.stream if stream is None else stream
        if record.sequence != sequence + 1:
            raise BrokenChain(f"record {sequence + 1} is missing or out of order: found {record.sequence}")
        if record.stream != stream:
            raise BrokenChain(f"record {record.sequence} belongs to {record.stream!r}, not to {stream!r}")
        if record.previous != head:
            raise BrokenChain(f"record {record.sequence} does not follow record {sequence}: its link is wrong")
        if record.hash != record.computed:
            raise BrokenChain(f"record {record.sequence} was changed: its hash does not fit its content")
        sequence, head = record.sequence, record.hash
        yield record


def check_receipts(heads: Mapping[int, str], given: Mapping[int, Receipt], receipts: Iterable[Proof]) -> None:
    """Raise `BrokenChain` if the log lacks the record that a proof names, or differs from the report on a receipt.

    `given` has the receipts that follow from the reports in the log, by the numbers of their records. A stamp or a bare
    (sequence, head) only proves that the chain had this record; a receipt also proves which report the agent sent.
    """
    for receipt in receipts:
        sequence, head = receipt if isinstance(receipt, tuple) else (receipt.sequence, receipt.head)
        if sequence < 1 or not head:
            raise InvalidInput("receipt", found=f"{sequence}, {head!r:.80}", allowed="a sequence from 1 and a hash")
        if heads.get(sequence) != head:
            what = "ends before it" if sequence not in heads else "has another record there"
            who = f"a time stamp of {receipt.authority}" if isinstance(receipt, Stamp) else "a receipt"
            raise BrokenChain(f"{who} names record {sequence} with the hash {head:.12}..., but the log {what}")
        if isinstance(receipt, Receipt) and receipt != given.get(sequence):
            raise BrokenChain(
                f"{receipt.agent!r} holds a receipt of {receipt.study!r} for its report {receipt.report:.12}... of "
                f"phase {receipt.phase}, but record {sequence}, which it names, does not hold that report"
            )


@dataclass(frozen=True, kw_only=True)
class Amendment:
    """Who amended an agent's report before the decision, or corrected it afterwards, and why."""

    phase: int
    agent: str
    sequence: int  # number of the record of the amendment or correction
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Who signed, when, and what the signature means."""

    principal: str  # whose token was entered again, or who signed in again
    name: str  # as it was typed
    meaning: str
    at: str
    actor: str  # actor of the record: the principal
    sequence: int | None  # number of the record, which signs all before it; None for readers who may not see the data

    @classmethod
    def of(cls, record: Record) -> Signature:
        """The signature in the record of a `signed` event."""
        event = events.Signed.from_json(record.payload)
        typed = {"name": event.name, "meaning": event.meaning}
        return cls(principal=event.principal, **typed, at=record.at, actor=record.actor, sequence=record.sequence)


@dataclass(frozen=True, kw_only=True)
class Read:
    """A read of results while the study was running: who saw them, and through which operation."""

    actor: str
    phase: int
    operation: str  # the API operation that first showed the results
    at: str
    sequence: int  # number of this record


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of verifying a log; `problem` is None if no flaw was found."""

    study: str
    records: int
    head: str
    phases: int  # number of decisions that were repeated
    stage: str
    exact: bool  # every state agreed to the last bit; another machine may round the last digits differently
    certificate: str | None  # digest of the certificate, if the log has one in force
    receipts: int  # receipts that were found in the log
    amended: tuple[Amendment, ...]  # amended reports of agents that hold a receipt, in the log's order
    problem: str | None
    trial: Trial | None  # the trial that the log leads to
    corrected: tuple[Amendment, ...] = ()  # reports corrected after their phase was decided
    warnings: tuple[str, ...] = ()  # assumptions of the study that the data contradict
    signatures: tuple[Signature, ...] = ()
    stamps: tuple[Stamp, ...] = ()  # stamps that were compared; their signatures are not checked here
    doubted: tuple[Stamp, ...] = ()  # stamps that were not accepted, and were ignored
    reads: tuple[Read, ...] = ()  # reads of results while the study was running

    @property
    def sound(self) -> bool:
        """Whether no problem was found."""
        return self.problem is None


# Anybody may have written the log. If our own code fails on it, our code did not write it: the log is reported as
# broken, and verification itself does not fail.
UNREPLAYABLE = (ParleyError, ArithmeticError, LookupError, TypeError, ValueError)
Observer: TypeAlias = Callable[[Record, Event, Trial | None, Trial], None]


def verify_log(
    records: Iterable[Record],
    receipts: Collection[Proof] = (),
    observe: Observer | None = None,
    believed: Callable[[Stamp], bool] = lambda _: True,
) -> Verification:
    """Verify a study's whole log, and check that every receipt names a record with the report that it was issued for.

    A time stamp or a bare (sequence, head) only has to name a record of the log. Proofs are checked after the records,
    because `read_log` may add stamps while it reads. `observe` is called with every verified record, its event, and the
    trial before (None at first) and after it. Stamps that are not `believed` are ignored.
    """
    build_structs()
    seen = _Seen(observe)
    doubted: list[Stamp] = []
    problem = None
    try:
        for record in chained(records):
            seen.take(record)
        if seen.trial is None:
            raise InvalidInput("log", found="no record", allowed="at least study-created")
        if seen.trial.stage in (Stage.FINISHED, Stage.CANCELLED) and seen.certificate is None:
            raise BrokenChain("the study is over, but its certificate is not in the log")
        doubted += [one for one in receipts if isinstance(one, Stamp) and not believed(one)]
        none = {id(one) for one in doubted}
        receipts = [one for one in receipts if id(one) not in none]
        check_receipts(seen.heads, seen.given, receipts)
    except CoordinatorError:  # the log could not be fetched, which says nothing about its content
        raise
    except ParleyError as error:
        problem = str(error)
    trial = seen.trial
    stamps = tuple(one for one in receipts if isinstance(one, Stamp))
    return Verification(
        study=trial.id if trial else "",
        records=len(seen.heads),
        head=seen.heads.get(len(seen.heads), ""),
        phases=len(seen.decisions),
        stage=str(trial.stage) if trial else "",
        exact=seen.exact,
        certificate=seen.certificate,
        receipts=len(receipts) - len(stamps) if problem is None else 0,
        amended=tuple(seen.amended_after(receipts)),
        problem=problem,
        trial=trial,
        corrected=tuple(seen.corrections),
        warnings=seen.warnings(trial) if trial else (),
        signatures=tuple(seen.signatures),
        stamps=stamps,
        doubted=tuple(doubted),
        reads=tuple(seen.reads),
    )


class _Seen:
    """The state of a verification after the records read so far."""

    def __init__(self, observe: Observer | None = None) -> None:
        self.trial: Trial | None = None
        self.observe = observe
        self.heads: dict[int, str] = {}
        self.given: dict[int, Receipt] = {}
        self.decisions: list[Decision] = []
        self.scatter: tuple[Scatter, ...] = ()  # of the primary outcome, then of each further one
        self.exact = True
        self.certificate: str | None = None
        self.amendments: list[Amendment] = []
        self.corrections: list[Amendment] = []
        self.signatures: list[Signature] = []
        self.reads: list[Read] = []
        self.released = 1  # the most releases in a quarantined report of a private study
        self.sent: set[str] = set()  # digests of quarantined reports, which are stored as they were sent

    def amended_after(self, receipts: Iterable[Proof]) -> Iterator[Amendment]:
        """All amendments to reports of agents that hold one of these receipts."""
        mine = {receipt.agent for receipt in receipts if isinstance(receipt, Receipt)}
        yield from (found for found in self.amendments if found.agent in mine)

    def take(self, record: Record) -> None:
        before = self.trial
        try:
            made = self._made_again(record)
            event = made or _read(record, first=before is None)
            if before is None:
                if isinstance(event, events.StudyCreated) and event.study_id != record.stream:
                    raise InvalidInput("study", found=event.study_id, allowed=record.stream)
                self.trial = replay([event])
            else:
                self.trial = apply(before, event)
                if isinstance(event, events.PhaseClosed):
                    self.scatter = added_scatters(
                        before.study.problem, before.totals, before.outcome_totals, self.scatter
                    )
                    self.decisions.append(event.decision)
                    self.exact &= digest(self.trial.state.to_json()) == event.decision.state
                if isinstance(event, events.AskedAnew):
                    self.exact &= asked_again(before, event).event("", "").states == event.states
                if isinstance(event, events.Certified):
                    self._check_certificate(event, before, made=made is not None)
                if isinstance(event, events.AgentThawed | events.Cancelled | events.AskedAnew | events.ReportCorrected):
                    self.certificate = None  # no longer in force: the study gets another certificate
        except UNREPLAYABLE as error:
            raise BrokenChain(
                f"record {record.sequence} ({record.kind}) does not follow from the earlier ones: {error}"
            ) from None
        self.heads[record.sequence] = record.hash
        self._note_report(record, event)
        if isinstance(event, events.Signed):
            self.signatures.append(Signature.of(record))
        if isinstance(event, events.ResultsRead):
            read = Read(
                actor=record.actor,
                phase=event.phase,
                operation=event.operation,
                at=record.at,
                sequence=record.sequence,
            )
            self.reads.append(read)
        if self.observe is not None:
            self.observe(record, event, before, self.trial)

    def _note_report(self, record: Record, event: Event) -> None:
        """Note the receipt, amendment or correction in a record. Accepting a held report unchanged amends nothing."""
        if isinstance(event, events.ReportAccepted | events.ReportAmended):
            self.given[record.sequence] = Receipt.of(event.report, sequence=record.sequence, head=record.hash)
        if isinstance(event, events.ReportQuarantined):
            self.sent.add(event.report.digest)
            self.released = max(self.released, event.report.releases or 1)
        if isinstance(event, events.ReportCorrected):
            self.corrections.append(_amendment(record, event))
        if isinstance(event, events.ReportAmended) and (event.replaces or event.report.digest not in self.sent):
            self.amendments.append(_amendment(record, event))

    def warnings(self, trial: Trial) -> tuple[str, ...]:
        """Sentences on assumptions of the study that the decided phases contradict."""
        return data_warnings(trial.study, self.scatter)

    def _check_certificate(self, event: events.Certified, trial: Trial, *, made: bool) -> None:
        if self.certificate is not None:
            raise InvalidInput("certificate", found="a second one", allowed="one")
        if not made:
            wrong = same_certificate(event.certificate, self._issued(trial, event.certificate.version))
            if wrong:
                found = f"another {', '.join(wrong)}"
                raise InvalidInput("certificate", found=found, allowed="what the log gives again")
        self.certificate = event.certificate.digest

    def _made_again(self, record: Record) -> events.Certified | None:
        """Recompute the certificate from the log. Returns None unless its text equals the recorded text.

        If the texts are equal, the recorded certificate need not be parsed. Another machine may round differently; the
        caller then parses the recorded certificate and compares number by number.
        """
        if record.kind != CERTIFIED or not isinstance(record.payload, Unread) or self.trial is None:
            return None
        version = _version_in(record.payload_text)
        if version is None:
            return None
        again = events.Certified(certificate=self._issued(self.trial, version))
        return again if again.is_written(record.payload_text) else None

    def _issued(self, trial: Trial, version: str) -> Certificate:
        last = len(self.heads)
        return issue_certificate(
            trial,
            data=[decision.data for decision in self.decisions],
            decisions=self.decisions,
            sequence=last,
            head=self.heads[last],
            version=version,
            warnings=self.warnings(trial),
            corrected_in=[found.sequence for found in self.corrections],
            released=self.released,
        )


def _read(record: Record, *, first: bool) -> Event:
    """Read the event of a record; check that it encodes to the same payload, and that a signer is the record's actor.

    A study beyond the size limits is refused before anything is built from it.
    """
    if first:
        _require_live_size(record.payload_text)
    event = _decoded(record) or read_event(record.kind, dict(record.payload))
    if event.text != record.payload_text:
        raise InvalidInput(record.kind, found="a payload that its event does not write", allowed="its text")
    if isinstance(event, events.Signed) and event.principal != record.actor:
        raise InvalidInput("principal", found=event.principal, allowed=record.actor)
    return event


class _Size(msgspec.Struct):
    """The size of a study in the first record; everything else is skipped."""

    class Study(msgspec.Struct):
        arms: list[msgspec.Raw]
        agents: list[msgspec.Raw]

    study: Study


def _require_live_size(payload: str) -> None:
    with suppress(msgspec.MsgspecError, UnicodeError):  # the full parse that follows reports the error
        study = msgspec.json.decode(payload, type=_Size).study
        require_live_size(len(study.arms), len(study.agents))


def _decoded(record: Record) -> Event | None:
    """Decode the event of a large payload directly, without a parsed document; None if that is not possible."""
    if not isinstance(record.payload, Unread) or record.kind not in EVENTS or "\\u0000" in record.payload_text:
        return None
    try:
        event: Event = msgspec.json.decode(record.payload_text, type=EVENTS[record.kind])
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return event if event.text == record.payload_text else None


def _amendment(record: Record, event: events.ReportAmended | events.ReportCorrected) -> Amendment:
    return Amendment(
        phase=event.report.phase,
        agent=event.report.agent,
        sequence=record.sequence,
        actor=record.actor,
        reason=event.reason,
    )


CERTIFIED = "certified"
LARGEST_RECORD = 128 * 2**20  # bytes: the certificate of a study of 100,000 cells takes about half of it


def lines_of(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Split a log that arrives in parts into lines.

    A line longer than `LARGEST_RECORD` is cut off, and nothing after it is read.
    """
    kept = bytearray()
    for part in parts:
        *whole, rest = part.split(b"\n")
        for line in whole:
            kept += line
            yield _taken(kept)
        kept += rest
        if len(kept) > LARGEST_RECORD:
            yield bytes(kept[: LARGEST_RECORD + 1])
            return
    if kept:
        yield _taken(kept)


def _taken(kept: bytearray) -> bytes:
    line = bytes(kept)
    kept.clear()
    return line


def read_log(lines: Iterable[str | bytes], proofs: list[Proof] | None = None) -> Iterator[Record]:
    """Yield the records of an exported log, one JSON object per line; time stamps are added to `proofs`, if given.

    Blank lines are skipped. A line longer than `LARGEST_RECORD` is refused before it is parsed.
    """
    number = 0
    for line in lines:
        # `enumerate` would hold on to the line, which may take 60 MB, while its record is processed.
        number += 1
        if len(line) > LARGEST_RECORD:
            most = f"{LARGEST_RECORD // 2**20} MB"
            raise BrokenChain(f"line {number} is not a record: it is longer than {most}, the most that one may have")
        if line.strip():
            record = _unread(line) if len(line) > LARGE else None
            if record is not None:
                del line  # free its memory: the record has the payload as text
                yield record
                continue
            try:
                document = read_json(line, Record.schema)
                if isinstance(document, dict) and document.get("schema") == Stamp.schema:
                    stamp = Stamp.from_json(document)
                    if proofs is not None:
                        proofs.append(stamp)
                    continue
                record = Record.from_json(document)
                text = line if isinstance(line, str) else line.decode()
                if record.text != text.strip():  # spaces do not matter; everything else must be canonical
                    _require_keys_once(text)
            except InvalidInput as error:
                raise BrokenChain(f"line {number} is not a record: {error}") from None
            yield record


def _unread(line: str | bytes) -> Record | None:
    """The record of a long line, with its payload left as text; None if the line is not in canonical form.

    The record's hash covers that text, and `verify_log` compares it with the text that the event encodes to, so nothing
    goes unchecked.
    """
    try:
        parts = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        raw = memoryview(parts.pop("payload"))
        shell = Record.from_json({key: read_json(bytes(part)) for key, part in parts.items()} | {"payload": {}})
        front, back = (end.encode() for end in shell.ends)
        text = line.encode() if isinstance(line, str) else line
        whole = memoryview(text.strip())
    except (ParleyError, msgspec.MsgspecError, LookupError, ValueError, RecursionError):
        return None  # the full parse that follows reports the error
    within = whole[: len(front)] == front and whole[-len(back) :] == back
    if not within or len(whole) != len(front) + len(raw) + len(back):
        return None
    return shell.unread(str(raw, "utf-8"))


def _version_in(payload: str) -> str | None:
    """The Parley version in a certificate, without parsing the rest; None if it has none."""
    try:
        raw = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])["certificate"]
        version = read_json(bytes(msgspec.json.decode(raw, type=dict[str, msgspec.Raw])["version"]))
    except (ParleyError, msgspec.MsgspecError, LookupError, ValueError, RecursionError):
        return None
    return version if isinstance(version, str) else None


def _require_keys_once(text: str) -> None:
    """Raise if an object has a key twice: parsers differ in which of the two they use, but the hash covers both."""

    def once(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidInput("record", found=f"the key {key!r:.80} twice", allowed="each key once")
            seen.add(key)

    json.loads(text, object_pairs_hook=once)
