"""The events of a study. The log holds these, in order, and nothing else changes a study.

Events are facts: an event is written only after it was checked to be legal (`state_machine.admit`) and readable
(`require_readable`). Each has a `sentence`, which pages and commands show.

The log is a chain: every record holds the hash of the record before it, so no record can be changed, dropped or moved
unnoticed. Everybody may see these hashes, but not what they commit to. So every record has a random salt: without it,
anybody could hash each of the few possible reports and see which one was sent. `docs/audit.md` has the recipe, `verify`
the checks.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
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


def alarm_of(guardrail: str, agents: Sequence[str]) -> str:
    """Why a guardrail stops an arm: harm in the mix of each of the agents, or, without agents, in the mean of all."""
    if agents:
        return Translatable("the guardrail {0} raised an alarm, in the mix of {1}", guardrail, ", ".join(agents))
    return Translatable("the guardrail {0} raised an alarm, on average over all mixes", guardrail)


class _Event(Message, tag="parley/event"):
    """Base class of events: each has a sentence that tells people what happened, usually made from a template."""

    template: ClassVar[str] = "{0.reason}"

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        return Translatable(self.template, self)


class _OfReport(_Event, tag="parley/event/of-report"):
    """Base class of events about a report. The sentence names its agent, its phase and its number of samples."""

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
    """The study was created, with its first plan."""

    template: ClassVar[str] = "{0.study.name}"
    study_id: str
    study: StudyMessage
    plan: Plan

    @once
    def text(self) -> str:
        """The canonical text, built from the cached texts of study and plan."""
        front, back = f'{{"plan":{self.plan.text},"schema":"{self.schema}"', canonical(self.study_id)
        return f'{front},"study":{self.study.text},"study_id":{back}}}'


class ReportAccepted(_OfReport, tag="parley/event/report-accepted/1"):
    """The first report of an agent in a phase was accepted."""

    template: ClassVar[str] = ""


class ReportQuarantined(_OfReport, tag="parley/event/report-quarantined/1"):
    """A report was stored but is not used.

    Either another report of this agent and phase counts already, or the stated model rules out one of the report's
    means. In the second case the report is held: the phase has no report of the agent until an administrator accepts
    or refuses the held one.
    """

    template: ClassVar[str] = "{0.why}"
    stands: Annotated[str, described("Digest of the accepted report; empty if this one is held.")]
    why: Annotated[str, described("Why it is held.")] = ""


class ReportAmended(_OfReport, tag="parley/event/report-amended/1"):
    """An administrator replaced an accepted report before its phase was decided, or accepted a held report."""

    replaces: Annotated[str, described("Digest of the accepted report; empty if one is held.")]
    reason: str


class ReportCorrected(_OfReport, tag="parley/event/report-corrected/1"):
    """An administrator corrected a report after its phase was decided.

    Decisions do not change; the certificate says how it would read with the corrected report instead.
    """

    replaces: Annotated[str, described("Digest of the correction before it; else of the report that was decided on.")]
    reason: str
    consequences: Previewed


class ReportRefused(_Event, tag="parley/event/report-refused/1"):
    """An administrator refused a held or quarantined report.

    If it was held, the agent has to send another. If it was quarantined (a site's correction, for example), the
    agent's other report keeps counting.
    """

    template: ClassVar[str] = "{0.agent}, phase {0.phase}: {0.reason}"
    phase: Phase
    agent: str
    report: Annotated[str, described("Digest of the report that was refused.")]
    reason: str


class PhaseClosed(_Event, tag="parley/event/phase-closed/1"):
    """A phase was decided by one step of the policy. The event has the next phase's plan, or None if there is none."""

    decision: Decision
    plan: Plan | None

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        decision = self.decision
        out = sum(row.count(decision.phase) for row in decision.dropped_in)
        if out == 1:
            words: str = Translatable("phase {0} decided: 1 arm ruled out or set aside for one agent", decision.phase)
        else:
            words = Translatable(
                "phase {0} decided: {1:,} arms ruled out or set aside, counted for each agent", decision.phase, out
            )
        return words + Translatable("; the study is finished") if decision.finished else words


class PhaseClosedEarly(_Event, tag="parley/event/phase-closed-early/1"):
    """An administrator closed a phase early: it is decided with the reports received so far."""

    phase: Phase
    reason: str
    without: Annotated[tuple[str, ...], described("The agents whose reports were still awaited.")]
    consequences: Previewed

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        return Translatable("phase {0} closed without {1}: {2}", self.phase, ", ".join(self.without), self.reason)


class StepFailed(_Event, tag="parley/event/step-failed/1"):
    """The policy's step failed; the study is paused until an administrator acts."""

    template: ClassVar[str] = "phase {0.phase}: {0.error}"
    phase: Phase
    error: str


class AgentFrozen(_Event, tag="parley/event/agent-frozen/1"):
    """An agent was frozen: it gets no more work, and its reports keep counting."""

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
    """Base class of events that change the question; all recorded phases are replayed under the new question.

    Each event holds everything that such events can change, so the latest event alone, applied to the study as
    created, gives the question in force.
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
    """The study was re-weighed without the frozen agents."""

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        if not self.left:
            return Translatable("question changed in phase {0}: {1}", self.phase, self.reason)
        return Translatable(
            "question changed in phase {0}, without {1}: {2}", self.phase, ", ".join(self.left), self.reason
        )


class ArmOpened(AskedAnew, tag="parley/event/arm-opened/1"):
    """A dormant or withdrawn arm became a candidate of every agent; agents that had an answer are asked again."""

    template: ClassVar[str] = "{0.arm}, in phase {0.phase}: {0.reason}"


class ArmWithdrawn(AskedAnew, tag="parley/event/arm-withdrawn/1"):
    """An arm is no longer a candidate for any agent; an arm that lost against it can now become an answer."""

    template: ClassVar[str] = "{0.arm}, in phase {0.phase}: {0.reason}"


class ArmStopped(ArmWithdrawn, tag="parley/event/arm-stopped/1"):
    """A guardrail raised an alarm, and the arm was withdrawn automatically for all agents.

    Outcomes of people who were given the arm may still come, and sites report them.
    """

    template: ClassVar[str] = "{0.arm}, in phase {0.phase}: {0.reason}"
    guardrail: Annotated[str, described("The outcome that it protects.")] = ""
    agents: Annotated[
        tuple[str, ...], described("Agents in whose own mix the harm is proven; none: in the mean of all mixes.")
    ] = ()

    @property
    def why(self) -> str:
        """The reason, translatable if it is what `guardrail` and `agents` say, as in every log of today."""
        said = alarm_of(self.guardrail, self.agents)
        return said if said == self.reason else self.reason

    @property
    def sentence(self) -> str:
        """What happened, as a sentence."""
        return Translatable(self.template, msgspec.structs.replace(self, reason=self.why))


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
    """A paused study continues where it stopped."""

    reason: str


class Disputed(_Event, tag="parley/event/disputed/1"):
    """An agent has a receipt for a record that this log lacks, so the study is paused.

    The log was restored from an old backup, for example, or rewritten.
    """

    template: ClassVar[str] = "{0.agent} holds a receipt for record {0.sequence}, which this log does not contain"
    agent: str
    sequence: Count
    head: str


class Cancelled(_Event, tag="parley/event/cancelled/1"):
    """An administrator stopped the study before every agent had its answer; undecided agents keep their candidates."""

    reason: str


class ResultsRead(_Event, tag="parley/event/results-read/1"):
    """A person saw results of a running study. Recorded once per principal and phase, before any results are shown."""

    template: ClassVar[str] = "in phase {0.phase}, first through {0.operation}"
    phase: Annotated[Phase, described("The phase in progress, or the last one of a study that stalled.")]
    operation: Annotated[str, described("The operation of the API that first showed them.")]


class Signed(_Event, tag="parley/event/signed/1"):
    """A person signed the study, after entering the token again or signing in again.

    The signature covers the log so far: the hash of its record includes the hash of the record before.
    """

    template: ClassVar[str] = "{0.principal} (name as typed: {0.name}): {0.meaning}"
    principal: Annotated[str, described("Whose token or sign-in proved who signed: the actor of the record.")]
    name: Annotated[str, described("As the signer typed it: nobody checked it.")]
    meaning: Annotated[str, described("What the signature says, as in 'approved the protocol'.")]


class Certified(_Event, tag="parley/event/certified/1"):
    """The certificate was issued, and stored in the log of its study."""

    template: ClassVar[str] = "{0.certificate.samples:,} samples, {0.certificate.phases} phases"
    certificate: Certificate

    @once
    def text(self) -> str:
        """The canonical text, built from the cached text of the certificate."""
        return self.certificate.text.join(self._ends)

    def is_written(self, text: str) -> bool:
        """Whether `text` is this event's canonical text. Builds no copy of it, since a certificate may take 60 MB."""
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
    """The kind of an event, as the log and the table of transitions name it.

    >>> kind_of(Paused(reason="holiday"))
    'paused'
    """
    return event.schema.split("/")[2]


def read_event(kind: str, payload: Any) -> Event:
    """Read an event from the kind and payload of a log record.

    >>> read_event("paused", {"schema": "parley/event/paused/1", "reason": "holiday"}).sentence
    'holiday'
    """
    if kind not in EVENTS:
        raise UnknownName("event", kind, EVENTS)
    return EVENTS[kind].from_json(payload)


READABLE = "readable"  # marks an event that passed the check, so that the check is not repeated under a lock


def require_readable(event: Event) -> None:
    """Raise unless reading the event back from its text gives the same event, to the last bit.

    An event that cannot be read again must never enter the log: no record after it could be replayed.

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
    """Make the salt of a record: 128 random bits, in hexadecimal.

    >>> len(new_salt())
    32
    """
    return secrets.token_hex(SALT_DIGITS // 2)


class Record(Message, tag="parley/record/1"):
    """One record of a log; exports have one line per record. `at` is for display only: no decision depends on it."""

    stream: str  # a study's id, or "server"
    sequence: Count  # from 1
    at: str  # time of writing
    actor: str  # the principal that caused the event
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
        """Make the record that follows `last` in a chain; None starts a new chain.

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
        """Make the record that follows a chain of `sequence` records whose last hash is `head`.

        The salt is new unless given. `payload_text` is the payload's canonical text, if the caller has it already.
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
        """The line of this record in a log, for a payload that is already encoded.

        >>> record = Record.after(None, stream="s", at="2026-01-01T00:00:00Z", actor="me", kind="paused", payload={})
        >>> record.line("{}") == record.text
        True
        """
        front, back = self.ends
        return f"{front}{payload_text}{back}"

    @property
    def ends(self) -> tuple[str, str]:
        """The text before and after the payload in the line of this record."""
        return _ends({name: getattr(self, name) for name in SHELL} | {"schema": self.schema})

    @once
    def payload_text(self) -> str:
        """The payload's canonical text."""
        return canonical(self.payload)

    def unread(self, payload_text: str) -> Self:
        """Copy this record with a payload that is parsed only when needed. Readers compare text and event."""
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
        """The hash that this record should have, computed from its other fields."""
        return _hash(self._body, self.payload_text)

    @property
    def _body(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SHELL if name != "hash"}


class Unread(Mapping[str, Any]):
    """A payload kept as text until it is needed, since a parsed certificate takes five times as much memory."""

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


# A payload may take megabytes, so lines and hashes are built from its text and the small fields around it.
SHELL = tuple(name for name in Record.known_keys() if name != "payload")


def _hash(body: Mapping[str, Any], payload_text: str) -> str:
    front, back = _ends(body)
    return sha256_of([front, payload_text, back])


def _ends(body: Mapping[str, Any]) -> tuple[str, str]:
    """The text before and after the payload in a record's body: keys are sorted, so the payload is in the middle."""
    front = canonical({key: value for key, value in body.items() if key < "payload"})
    back = canonical({key: value for key, value in body.items() if key > "payload"})
    return f'{front[:-1]},"payload":', f",{back[1:]}"
