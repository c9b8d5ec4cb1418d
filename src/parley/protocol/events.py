"""The events of a study. The log holds these, in order, and nothing else changes a study.

They are facts: an event is written after it was found to be legal (`state_machine.admit`) and readable
(`require_readable`). Each has a `sentence`, by which pages and commands show it.

The log is a chain: every record holds the hash of the one before, so none can be changed, dropped or moved. A hash that
everybody may see commits to what nobody else may: who can list the few reports that are possible could try each, were
there not a random salt in every record. `docs/audit.md` has the recipe, `verify` the checks.
"""

import secrets
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeAlias, get_args

import msgspec
from msgspec import Meta

from parley.errors import InvalidInput, UnknownName
from parley.protocol.codec import Count, Message, Phase, canonical, described, read_json, sha256_of
from parley.protocol.messages import Certificate, Decision, Plan, Report, Rows, StudyMessage, Weights
from parley.system.once import once
from parley.text.translation import Translatable, joined

GENESIS = "0" * 64  # the hash that the first record names as its predecessor
SALT_DIGITS = 32
Salt = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{SALT_DIGITS}}}$")]
Previewed = Annotated[str, described("Digest of the preview that the administrator confirmed.")]


class _Event(Message, tag="parley/event"):
    """Base class of events: each has a sentence that tells people what happened, usually a template."""

    template: ClassVar[str] = "{0.reason}"

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        return Translatable(self.template, self)


class _OfReport(_Event, tag="parley/event/of-report"):
    """An event about a report: whose it is, how much it contains, and what the template adds."""

    report: Report

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        report, drawn = self.report, sum(self.report.counts)
        values = report.agent, report.phase, drawn
        one = Translatable("{0}, phase {1}: {2:,} sample", *values)
        words = one if drawn == 1 else Translatable("{0}, phase {1}: {2:,} samples", *values)
        return joined("; ", filter(None, [words, report.reason, self.template.format(self)]))


class StudyCreated(_Event, tag="parley/event/study-created/1"):
    """The study and its first plan."""

    template: ClassVar[str] = "{0.study.name}"
    study_id: str
    study: StudyMessage
    plan: Plan

    @once
    def text(self) -> str:
        """The canonical text; the study and plan in it are encoded only once."""
        front, back = f'{{"plan":{self.plan.text},"schema":"{self.schema}"', canonical(self.study_id)
        return f'{front},"study":{self.study.text},"study_id":{back}}}'


class ReportAccepted(_OfReport, tag="parley/event/report-accepted/1"):
    """The first report of an agent in a phase."""

    template: ClassVar[str] = ""


class ReportQuarantined(_OfReport, tag="parley/event/report-quarantined/1"):
    """A report that is stored but not used.

    Either another one counts already, or the stated model rules out one of its means. In the second case it is held:
    nothing counts in its place until an administrator accepts or refuses it.
    """

    template: ClassVar[str] = "{0.why}"
    stands: Annotated[str, described("Digest of the accepted report; empty if this one is held.")]
    why: Annotated[str, described("Why it is held.")] = ""


class ReportAmended(_OfReport, tag="parley/event/report-amended/1"):
    """An administrator replaced an accepted report before the phase was decided, or accepted one that was held."""

    replaces: Annotated[str, described("Digest of the accepted report; empty if one is held.")]
    reason: str


class ReportCorrected(_OfReport, tag="parley/event/report-corrected/1"):
    """An administrator corrected a report after its phase was decided.

    Decisions stand as they were made; the certificate says how it would read with this report instead.
    """

    replaces: Annotated[str, described("Digest of the correction before it; else of the report that was decided on.")]
    reason: str
    consequences: Previewed


class ReportRefused(_Event, tag="parley/event/report-refused/1"):
    """An administrator refused a held report; the agent has to send another. Or one that came beside the report that
    counts, such as a site's correction; nothing changes.
    """

    template: ClassVar[str] = "{0.agent}, phase {0.phase}: {0.reason}"
    phase: Phase
    agent: str
    report: Annotated[str, described("Digest of the report that was refused.")]
    reason: str


class PhaseClosed(_Event, tag="parley/event/phase-closed/1"):
    """One step of the policy, and the plan of the next phase unless there is none."""

    decision: Decision
    plan: Plan | None

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        decision = self.decision
        out = sum(row.count(decision.phase) for row in decision.dropped_in)
        if out == 1:
            words: str = Translatable("phase {0} decided: 1 pair ruled out or set aside", decision.phase)
        else:
            words = Translatable("phase {0} decided: {1:,} pairs ruled out or set aside", decision.phase, out)
        return words + Translatable("; the study is finished") if decision.finished else words


class PhaseClosedEarly(_Event, tag="parley/event/phase-closed-early/1"):
    """An administrator closed a phase early, with the reports received so far."""

    phase: Phase
    reason: str
    without: Annotated[tuple[str, ...], described("The agents whose reports were still awaited.")]
    consequences: Previewed

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        return Translatable("phase {0} closed without {1}: {2}", self.phase, ", ".join(self.without), self.reason)


class StepFailed(_Event, tag="parley/event/step-failed/1"):
    """The policy's step failed; the study waits for an administrator."""

    template: ClassVar[str] = "phase {0.phase}: {0.error}"
    phase: Phase
    error: str


class AgentFrozen(_Event, tag="parley/event/agent-frozen/1"):
    """An agent is frozen: it gets no more work, and its reports stay."""

    template: ClassVar[str] = "{0.agent}: {0.reason}"
    agent: str
    reason: str
    consequences: Previewed


class AgentThawed(_Event, tag="parley/event/agent-thawed/1"):
    """A frozen agent takes part again."""

    template: ClassVar[str] = "{0.agent}: {0.reason}"
    agent: str
    reason: str
    plan: Annotated[Plan | None, described("Plan of the next phase, if the study had stalled and can go on.")]
    consequences: Previewed


class AskedAnew(_Event, tag="parley/event/asked-anew"):
    """The question changes, and all recorded phases are replayed under it.

    An event holds the whole question, so the latest one is in force, together with what the study said when it was
    created.
    """

    phase: Annotated[Phase, described("The phase in progress, which goes on as planned; or the last one.")]
    reason: str
    weights: Annotated[Weights, described("The weights from here on.")]
    delta: Annotated[float, described("What this question may spend of the study's delta.")]
    left: Annotated[tuple[str, ...], described("Agents whose own question is no longer asked.")]
    states: Annotated[tuple[str, ...], described("Digests of the policy's state after every recorded phase.")]
    dropped_in: Annotated[Rows, described("After the last recorded phase, as in a decision.")]
    finished: bool
    plan: Annotated[Plan | None, described("Plan of the next phase, if the study had stalled.")]
    consequences: Previewed
    arm: Annotated[str, described("The arm that was opened or withdrawn; empty where the study was re-weighed.")] = ""
    opened: Annotated[dict[str, Phase], described("Arms opened so far -> the phase in which each was last opened.")] = (
        msgspec.field(default_factory=dict)
    )
    withdrawn: Annotated[dict[str, Phase], described("Withdrawn arms -> the phase in which each was withdrawn.")] = (
        msgspec.field(default_factory=dict)
    )


class Reweighed(AskedAnew, tag="parley/event/reweighed/1"):
    """The study is re-weighed without the frozen agents."""

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        if not self.left:
            return Translatable("question changed in phase {0}: {1}", self.phase, self.reason)
        return Translatable(
            "question changed in phase {0}, without {1}: {2}", self.phase, ", ".join(self.left), self.reason
        )


class ArmOpened(AskedAnew, tag="parley/event/arm-opened/1"):
    """A dormant or withdrawn arm becomes a candidate; agents that had an answer are asked again."""

    template: ClassVar[str] = "{0.arm}, in phase {0.phase}: {0.reason}"


class ArmWithdrawn(AskedAnew, tag="parley/event/arm-withdrawn/1"):
    """An arm is no longer a candidate for any agent; one that it had beaten may be the best of the others."""

    template: ClassVar[str] = "{0.arm}, in phase {0.phase}: {0.reason}"


class ArmStopped(ArmWithdrawn, tag="parley/event/arm-stopped/1"):
    """A guardrail raised an alarm, and the arm is withdrawn everywhere, automatically.

    People who were given it still have outcomes to come, and these are reported.
    """

    template: ClassVar[str] = "{0.arm}, in phase {0.phase}: {0.reason}"
    guardrail: Annotated[str, described("The outcome that it protects.")] = ""
    agents: Annotated[
        tuple[str, ...], described("Agents in whose own mix the harm is proven; none: in the mean of all mixes.")
    ] = ()


class GuardrailNoted(_Event, tag="parley/event/guardrail-noted/1"):
    """A guardrail's finding without an automatic consequence: an arm is cleared, or should be stopped."""

    phase: Phase
    guardrail: Annotated[str, described("The outcome that it protects.")]
    arm: str
    verdict: Annotated[str, described('"cleared" for everybody, or "proposed": an administrator should withdraw it.')]
    agents: Annotated[
        tuple[str, ...], described("Agents in whose own mix that is proven; none: harm in the mean of all mixes.")
    ]

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        values = {"arm": self.arm, "guardrail": self.guardrail, "phase": self.phase}
        if self.verdict == "cleared":
            return Translatable("the guardrail {guardrail} cleared {arm} in phase {phase}", **values)
        return Translatable(
            "the guardrail {guardrail} raised an alarm about {arm} in phase {phase}: withdraw it", **values
        )


class Paused(_Event, tag="parley/event/paused/1"):
    """The study takes no reports until it is resumed."""

    reason: str


class Resumed(_Event, tag="parley/event/resumed/1"):
    """The study continues where it was."""

    reason: str


class Disputed(_Event, tag="parley/event/disputed/1"):
    """An agent has a receipt that is not in this log (an old backup or a rewritten log). The study is paused."""

    template: ClassVar[str] = "{0.agent} holds a receipt for record {0.sequence}, which this log does not contain"
    agent: str
    sequence: Count
    head: str


class Cancelled(_Event, tag="parley/event/cancelled/1"):
    """Stopped before every agent had its answer; what remains is a set of candidates."""

    reason: str


class ResultsRead(_Event, tag="parley/event/results-read/1"):
    """A person saw results of a running study; recorded once per principal and phase, before they are shown."""

    template: ClassVar[str] = "in phase {0.phase}, first through {0.operation}"
    phase: Annotated[Phase, described("The phase in progress, or the last one of a study that stalled.")]
    operation: Annotated[str, described("The operation of the API that first showed them.")]


class Signed(_Event, tag="parley/event/signed/1"):
    """A person signed, after entering the token again or signing in again.

    It covers the log up to here: its hash includes that of the record before.
    """

    template: ClassVar[str] = "{0.principal} (name as typed: {0.name}): {0.meaning}"
    principal: Annotated[str, described("Whose token or sign-in proved who signed: the actor of the record.")]
    name: Annotated[str, described("As the signer typed it: nobody checked it.")]
    meaning: Annotated[str, described("What the signature says, as in 'approved the protocol'.")]


class Certified(_Event, tag="parley/event/certified/1"):
    """The certificate, stored in the log that it is about."""

    template: ClassVar[str] = "{0.certificate.samples:,} samples, {0.certificate.phases} phases"
    certificate: Certificate

    @once
    def text(self) -> str:
        """The canonical text; the certificate in it is encoded only once."""
        return self.certificate.text.join(self._ends)

    def is_written(self, text: str) -> bool:
        """Whether this is its text, without building that: a certificate may have 60 megabytes."""
        front, back = self._ends
        within = text.startswith(front) and text.endswith(back)
        return within and self.certificate.is_written(text, len(front), len(text) - len(back))

    @property
    def _ends(self) -> tuple[str, str]:
        return '{"certificate":', f',"schema":"{self.schema}"}}'


Event: TypeAlias = (
    StudyCreated
    | ReportAccepted
    | ReportQuarantined
    | ReportAmended
    | ReportRefused
    | ReportCorrected
    | PhaseClosed
    | PhaseClosedEarly
    | StepFailed
    | AgentFrozen
    | AgentThawed
    | Reweighed
    | ArmOpened
    | ArmWithdrawn
    | ArmStopped
    | GuardrailNoted
    | Paused
    | Resumed
    | Disputed
    | Cancelled
    | ResultsRead
    | Signed
    | Certified
)

# kind -> class; the kind is the middle of the schema: "parley/event/paused/1" is "paused"
EVENTS: dict[str, type[Event]] = {kind.schema.split("/")[2]: kind for kind in get_args(Event)}


def kind_of(event: Event) -> str:
    """The kind of an event in the log and in the table of transitions.

    >>> kind_of(Paused(reason="holiday"))
    'paused'
    """
    return event.schema.split("/")[2]


def read_event(kind: str, payload: Any) -> Event:
    """An event from a log record.

    >>> read_event("paused", {"schema": "parley/event/paused/1", "reason": "holiday"}).sentence
    'holiday'
    """
    if kind not in EVENTS:
        raise UnknownName("event", kind, EVENTS)
    return EVENTS[kind].from_json(payload)


READABLE = "readable"  # marks an event that passed the check, so that it is not repeated under a lock


def require_readable(event: Event) -> None:
    """Raise unless reading the event back from its text gives the same event, to the last bit.

    An event that could not be read again must never enter the log: it would spoil all that follows.

    >>> require_readable(Paused(reason="holiday"))
    >>> require_readable(Disputed(agent="x", sequence=2**53 + 1, head=""))
    Traceback (most recent call last):
    parley.errors.InvalidInput: sequence: found a huge number; allowed: whole numbers up to 2^53
    """
    if READABLE in vars(event):
        return
    kind, text = kind_of(event), event.text
    if read_event(kind, read_json(text, kind)).text != text:
        raise InvalidInput(kind, found="an event that does not read back as written", allowed="one that does")
    vars(event)[READABLE] = True


def new_salt() -> str:
    """128 random bits, in hexadecimal.

    >>> len(new_salt())
    32
    """
    return secrets.token_hex(SALT_DIGITS // 2)


class Record(Message, tag="parley/record/1"):
    """One line of a log. `at` is for people; no decision depends on it."""

    stream: str  # a study's id, or "server"
    sequence: Count  # from 1
    at: str
    actor: str  # the principal that caused it
    kind: str
    payload: Mapping[str, Any]
    previous: str
    hash: str
    salt: Salt

    def __post_init__(self) -> None:
        if not isinstance(self.salt, str) or len(self.salt) != SALT_DIGITS:
            raise ValueError(f"a record needs a salt of {SALT_DIGITS} digits")  # not a user's input: a bug of ours

    @classmethod
    def after(
        cls,
        last: Self | None,
        *,
        stream: str,
        at: str,
        actor: str,
        kind: str,
        payload: Mapping[str, Any],
        salt: str | None = None,
    ) -> Self:
        """The next record of a chain.

        >>> first = Record.after(None, stream="s", at="2026-01-01T00:00:00Z", actor="me", kind="paused", payload={})
        >>> second = Record.after(first, stream="s", at="2026-01-02T00:00:00Z", actor="me", kind="resumed", payload={})
        >>> second.sequence, second.previous == first.hash
        (2, True)
        """
        head = (last.sequence, last.hash) if last else (0, GENESIS)
        return cls.linked(*head, stream=stream, at=at, actor=actor, kind=kind, payload=payload, salt=salt)

    @classmethod
    def linked(
        cls,
        sequence: int,
        head: str,
        *,
        stream: str,
        at: str,
        actor: str,
        kind: str,
        payload: Mapping[str, Any],
        salt: str | None = None,
        payload_text: str | None = None,
    ) -> Self:
        """The record that follows a chain of `sequence` records with the hash `head`; with a new salt unless given.

        `payload_text` is the payload's canonical text, if it is at hand.
        """
        body: dict[str, Any] = {
            "stream": stream,
            "sequence": sequence + 1,
            "at": at,
            "actor": actor,
            "kind": kind,
            "payload": payload,
            "previous": head,
            "salt": salt or new_salt(),
        }
        text = canonical(payload) if payload_text is None else payload_text
        return cls(**body, hash=_hash(body, text))

    def line(self, payload_text: str) -> str:
        """The line of this record, for a payload that is already encoded.

        >>> record = Record.after(None, stream="s", at="2026-01-01T00:00:00Z", actor="me", kind="paused", payload={})
        >>> record.line("{}") == record.text
        True
        """
        front, back = self.ends
        return f"{front}{payload_text}{back}"

    @property
    def ends(self) -> tuple[str, str]:
        """The text before and after the payload in its line."""
        return _ends({name: getattr(self, name) for name in SHELL} | {"schema": self.schema})

    @once
    def payload_text(self) -> str:
        """The payload's canonical text."""
        return canonical(self.payload)

    def unread(self, payload_text: str) -> Self:
        """This record with a payload that is parsed when it is needed. Readers compare the event's text."""
        made = msgspec.structs.replace(self, payload=Unread(payload_text))
        vars(made)["payload_text"] = payload_text
        return made

    @property
    def hashed(self) -> bytes:
        """The bytes to hash: the canonical text without `schema` and `hash`."""
        front, back = _ends(self._body)
        return f"{front}{self.payload_text}{back}".encode()

    @property
    def computed(self) -> str:
        """The hash that this record should have."""
        return _hash(self._body, self.payload_text)

    @property
    def _body(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SHELL if name != "hash"}


class Unread(Mapping[str, Any]):
    """A payload kept as text until it is needed: parsed, a certificate takes five times as much memory."""

    def __init__(self, text: str) -> None:
        self.text = text

    @once
    def _document(self) -> dict[str, Any]:
        found = read_json(self.text, "payload")
        if not isinstance(found, dict):
            raise InvalidInput("payload", found=type(found).__name__, allowed="an object")
        return found

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)


SHELL = tuple(name for name in Record.known_keys() if name != "payload")


def _hash(body: Mapping[str, Any], payload_text: str) -> str:
    front, back = _ends(body)
    return sha256_of([front, payload_text, back])


def _ends(body: Mapping[str, Any]) -> tuple[str, str]:
    """The text before and after the payload in a record's body: keys are sorted, so the payload is in the middle."""
    front = canonical({key: value for key, value in body.items() if key < "payload"})
    back = canonical({key: value for key, value in body.items() if key > "payload"})
    return f'{front[:-1]},"payload":', f",{back[1:]}"
