"""The acts that people can perform on a study: `ACTS` has a row per act, and everything about an act is in its row.

A row names the act, who may perform it, its path, its request body (`body`), its preview (`preview`, a pure function of
the trial), the event that it becomes, and the sentences shown before and after it. Each driver derives its own part:
`coordinator.http.routes.administration` the operation, `cli.admin_changes` the command, and
`dashboard.pages.administration` the form and its confirmation. OpenAPI and the tables of docs/api.md follow from the
operation.

An act that has a preview is carried out only if the same principal saw that preview before and the preview is still
accurate. The body confirms it by its digest, which the log keeps.

The functions of a row receive the parts of the path and all fields of the body in one namespace: `given.agent`,
`given.reason`. An act about a trial returns an event, or a trial with a changed question (`Anew`), whose states are
stored with the event.

`then` names an act that the confirmation can request as well, on the same preview: after a freeze the others can be
re-weighed at once, so nobody confirms a freeze without having seen both ways to continue.

Accepting a held report (`take`) is a form but no act of its own: it is `amend` with that same report. The form names
the report by its record in the quarantine, since the administrator has read it there and types no report.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from parley.errors import InvalidInput
from parley.protocol import events
from parley.protocol.asking_anew import open_arm, reweigh, thaw, withdraw_arm
from parley.protocol.codec import INK, Digest, Message, Model, Name, Words, described
from parley.protocol.corrections import CorrectionPreview, correction_of, correction_preview
from parley.protocol.events import Event
from parley.protocol.messages import Report
from parley.protocol.previews import (
    ArmPreview,
    EarlyClosePreview,
    FreezePreview,
    ReweighPreview,
    ThawPreview,
    early_close_preview,
    freeze_preview,
    open_arm_preview,
    reweigh_preview,
    thaw_preview,
    weights_asked,
    withdraw_arm_preview,
)
from parley.protocol.state_machine import admit
from parley.protocol.trial import Trial
from parley.text.translation import Translatable, gettext, ngettext

Given: TypeAlias = SimpleNamespace
Columns = Annotated[dict[Name, Annotated[tuple[float, ...], Meta(max_length=100_000)]], Meta(max_length=100_000)]
Section: TypeAlias = Literal["phase", "sites", "arms", "decided", "reports", "course", "answer"]
PART = re.compile(r"\{(\w+)\}")


class ReasonBody(Model):
    """The reason for the act, which the log keeps."""

    reason: Words


class ConfirmBody(ReasonBody):
    """The reason, and in `preview` the digest of the preview: if the preview has changed, the act is refused."""

    preview: Digest


class FreezeBody(ConfirmBody):
    """The reason and the preview's digest. `reweigh` also re-weighs the other agents without this one, as previewed."""

    reweigh: Annotated[bool, described("Also re-weigh the other agents' questions without it.")] = False


class ColumnsBody(Model):
    """Agent -> the weights of all agents' rewards in its mix. Mixes of agents not listed are only normalized."""

    columns: Columns = msgspec.field(default_factory=dict)


class ReweighBody(ConfirmBody):
    """The reason, the columns that the preview was requested with, and the digest of that preview."""

    columns: Columns = msgspec.field(default_factory=dict)


class AmendBody(ReasonBody):
    """The reason, and the report that replaces the accepted or held one."""

    report: Report


class CorrectionBody(Model):
    """The corrected report."""

    report: Report


class CorrectBody(ConfirmBody):
    """The reason, the report that the preview was requested with, and the digest of that preview."""

    report: Report


class RefuseBody(ReasonBody):
    """The reason, and in `report` the digest of the waiting report, so that no later report is refused by mistake."""

    report: Digest


class SignBody(Model):
    """A signature: the signer's name as typed, what the signature means, and the signer's token, entered again."""

    name: Annotated[Name, Meta(pattern=INK, description="Your name, as it is to be printed.")]
    meaning: Annotated[Words, Meta(pattern=INK, description="What the signature says, as in 'approved the protocol'.")]
    token: str

    def __post_init__(self) -> None:
        for key, words in (("name", self.name), ("meaning", self.meaning)):
            if not words.isprintable():
                raise InvalidInput(key, found=ascii(words[:80]), allowed="one line of printable text")


class ConfirmedSignBody(SignBody):
    """A signature by a person who signed in again with the provider. Pages create it; no request can send it."""

    kid: str


def is_flag(one: msgspec.structs.FieldInfo) -> bool:
    """Whether a field of a body is a boolean."""
    return bool in (one.type, *get_args(one.type))


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The preview of an act: how it is computed, and which of its fields become sentences, under which labels."""

    name: str  # name of the operation
    kind: type[Message]
    words: str  # description of the operation
    look: Callable[[Trial, Given], Message]
    tells: tuple[tuple[str, str | Callable[[Any], str]], ...]  # label -> a field, or a function that makes the sentence
    body: type[Model] | None = None  # the request body; a preview that has one is requested by POST
    results: bool = True  # whether it is computed from rewards
    past: bool = True  # whether it is computed from the recorded phases

    def statements(self, shown: Message) -> list[tuple[str, str | tuple[str, ...]]]:
        """The statements of a preview with their labels; each is a sentence or some names. Empty ones are left out."""
        found = [(label, field(shown) if callable(field) else getattr(shown, field)) for label, field in self.tells]
        return [(label, value) for label, value in found if value]


@dataclass(frozen=True, kw_only=True)
class Act:
    """An act that people can perform on a study: one row of `ACTS`."""

    name: str  # name of the operation
    command: str  # name of the command in `parley admin`, and of the form on the page
    path: str  # below the study's URL
    kind: str  # kind of the event that it becomes
    words: str  # description of the operation
    event: Callable[[Any, Given], Any]  # makes the event or an `Anew`; the trial is loaded only if there is a preview
    button: str  # label of the button; may contain values of the path
    done: str  # the message after the act
    heading: str = ""  # heading of the preview
    body: type[Model] = ReasonBody
    preview: Preview | None = None
    who: Literal["administrators", "readers"] = "administrators"
    section: Section = "course"  # section of the page on which it starts
    grave: bool = True  # the button is styled as dangerous
    # Fields that few rows override.
    replaces: bool = False  # the event names the report that it replaces: `given.replaces`
    ends: bool = False  # it ends the study; the certificate is then made outside of the lock
    then: str = ""  # an act that may follow at once; body and preview have a field of that name
    secret: str = ""  # a field that proves who acts: entered again, and never stored

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the placeholders in the act's path, such as `agent`."""
        return tuple(PART.findall(self.path))

    @property
    def subject(self) -> str:
        """What the act is about: "agent", "arm", or "" for the study as a whole."""
        return next((part for part in ("agent", "arm") if part in self.parts), "")

    @property
    def fields(self) -> dict[str, msgspec.structs.FieldInfo]:
        """The fields of the body except `reason` and `preview`."""
        return {one.name: one for one in msgspec.structs.fields(self.body) if one.name not in ("reason", "preview")}

    @property
    def of_report(self) -> bool:
        """Whether the body contains a whole report."""
        return "report" in self.fields and self.fields["report"].type is Report

    def address(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The segments of the act's path, with the given values filled in.

        >>> ACTS["thaw"].address({"agent": "Lyon/2"})
        ('agents', 'Lyon/2', 'thaw')
        """
        return tuple(str(given[part[1:-1]]) if PART.fullmatch(part) else part for part in self.path.split("/"))


EFFECT, GUARANTEE = (Translatable("Effect"), "effect"), (Translatable("Guarantee"), "guarantee")


def _drawn(shown: ArmPreview) -> str:
    if not shown.drawn:
        return ""
    words = ngettext("%(num)s sample of %(arm)s", "%(num)s samples of %(arm)s", shown.drawn, arm=shown.arm)
    return f"{words}; " + (
        gettext("they count again") if shown.opens else gettext("they no longer count as evidence against other arms")
    )


ARM = (
    EFFECT,
    (Translatable("Candidates afterwards"), "open_arms"),
    (Translatable("Asked again"), "asked_again"),
    (Translatable("Drawn so far"), _drawn),
    GUARANTEE,
)


def _closed_early(trial: Trial, given: Given) -> events.PhaseClosedEarly:
    return events.PhaseClosedEarly(
        phase=given.phase, reason=given.reason, without=trial.awaited, consequences=given.preview
    )


def _closing(trial: Trial, given: Given) -> EarlyClosePreview:
    """Preview an early close; raises if the close itself would be refused: wrong phase, no report, or fixed counts."""
    blank = Given(phase=given.phase, reason="", preview="")
    admit(trial.situation(), _closed_early(trial, blank))
    return early_close_preview(trial)


def _this_phase(shown: FreezePreview) -> str:
    if shown.released:
        return Translatable("no other report is awaited, so it would be decided at once")
    return Translatable("it still waits for other reports")


def _corrected(trial: Trial, given: Given) -> Event:
    made = correction_of(trial, given.report)
    return msgspec.structs.replace(made, reason=given.reason, consequences=given.preview)


_ROWS = (
    Act(
        name="pause_study",
        command="pause",
        path="pause",
        kind="paused",
        words="Accept no report until the study is resumed.",
        event=lambda _, given: events.Paused(reason=given.reason),
        button="Pause: accept no reports",
        done="Paused",
        grave=False,
    ),
    Act(
        name="resume_study",
        command="resume",
        path="resume",
        kind="resumed",
        words="Continue a paused study where it was.",
        event=lambda _, given: events.Resumed(reason=given.reason),
        button="Resume",
        done="Resumed",
        grave=False,
    ),
    Act(
        name="cancel_study",
        command="cancel",
        path="cancel",
        kind="cancelled",
        words="Stop the study for good, with a certificate of the candidates that remain.",
        event=lambda _, given: events.Cancelled(reason=given.reason),
        ends=True,
        button="Cancel permanently",
        done="Cancelled",
    ),
    Act(
        name="close_early",
        command="close-early",
        path="phases/{phase}/close-early",
        kind="phase-closed-early",
        words="Close the phase in progress with the reports that are in.",
        body=ConfirmBody,
        preview=Preview(
            name="preview_early_close",
            kind=EarlyClosePreview,
            words="What closing the phase in progress with the reports that are in would do.",
            look=_closing,
            tells=(
                (Translatable("No longer awaited"), "awaited"),
                EFFECT,
                GUARANTEE,
                (Translatable("Arms without a draw"), "lost"),
            ),
            results=False,
            past=False,
        ),
        event=_closed_early,
        section="phase",
        heading="If phase {phase} is closed now",
        button="Close phase {phase} with the reports received",
        done="Closed",
    ),
    Act(
        name="freeze_agent",
        command="freeze",
        path="agents/{agent}/freeze",
        kind="agent-frozen",
        words="Ask an agent for no more draws: its counts stay. With `reweigh`, the other agents are re-weighed "
        "without it, with the weights that the preview showed.",
        body=FreezeBody,
        preview=Preview(
            name="preview_freeze",
            kind=FreezePreview,
            words="What freezing an agent would do to termination and guarantee, and both ways to continue.",
            look=lambda trial, given: freeze_preview(trial, given.agent),
            tells=((Translatable("Termination"), "termination"), GUARANTEE, (Translatable("This phase"), _this_phase)),
        ),
        event=lambda _, given: events.AgentFrozen(agent=given.agent, reason=given.reason, consequences=given.preview),
        then="reweigh",
        section="sites",
        heading="If {agent} is frozen",
        button="Freeze {agent}",
        done="Frozen",
    ),
    Act(
        name="reweigh_study",
        command="reweigh",
        path="reweigh",
        kind="reweighed",
        words="Change the question to leave out the frozen agents: all recorded phases count under the new weights.",
        body=ReweighBody,
        preview=Preview(
            name="preview_reweigh",
            kind=ReweighPreview,
            words="What re-weighing without the frozen agents would do, with given columns or without.",
            body=ColumnsBody,
            look=lambda trial, given: reweigh_preview(trial, given.columns),
            tells=((Translatable("Left out"), "frozen"), EFFECT, GUARANTEE),
        ),
        event=lambda trial, given: reweigh(trial, weights_asked(trial, given.columns)),
        section="sites",
        heading="If the question is changed",
        button="Re-weigh {study}",
        done="Re-weighed",
    ),
    Act(
        name="thaw_agent",
        command="thaw",
        path="agents/{agent}/thaw",
        kind="agent-thawed",
        words="Ask a frozen agent again; weights stay as they are.",
        body=ConfirmBody,
        preview=Preview(
            name="preview_thaw",
            kind=ThawPreview,
            words="What asking a frozen agent again would do.",
            look=lambda trial, given: thaw_preview(trial, given.agent),
            tells=(EFFECT, (Translatable("Weighed by"), "weighed_by"), GUARANTEE),
        ),
        event=lambda trial, given: thaw(trial, given.agent).event(given.reason, given.preview),
        section="sites",
        heading="If {agent} is thawed",
        button="Thaw {agent}",
        done="Thawed",
        grave=False,
    ),
    Act(
        name="open_arm",
        command="open-arm",
        path="arms/{arm}/open",
        kind="arm-opened",
        words="Make an arm that is dormant or withdrawn a candidate of every agent.",
        body=ConfirmBody,
        preview=Preview(
            name="preview_open_arm",
            kind=ArmPreview,
            words="What making a dormant or withdrawn arm a candidate would do.",
            look=lambda trial, given: open_arm_preview(trial, given.arm),
            tells=ARM,
        ),
        event=lambda trial, given: open_arm(trial, given.arm),
        section="arms",
        heading="If {arm} is opened",
        button="Open {arm}",
        done="Opened",
        grave=False,
    ),
    Act(
        name="withdraw_arm",
        command="withdraw-arm",
        path="arms/{arm}/withdraw",
        kind="arm-withdrawn",
        words="Continue without an arm: an arm that it had beaten may be the best of the others.",
        body=ConfirmBody,
        preview=Preview(
            name="preview_withdraw_arm",
            kind=ArmPreview,
            words="What going on without an arm would do.",
            look=lambda trial, given: withdraw_arm_preview(trial, given.arm),
            tells=ARM,
        ),
        event=lambda trial, given: withdraw_arm(trial, given.arm),
        section="arms",
        heading="If {arm} is withdrawn",
        button="Withdraw {arm}",
        done="Withdrawn",
    ),
    Act(
        name="amend_report",
        command="amend",
        path="phases/{phase}/reports/{agent}/amend",
        kind="report-amended",
        words="Replace an accepted or held report with another one while its phase is in progress. Both are kept.",
        body=AmendBody,
        event=lambda _, given: events.ReportAmended(report=given.report, replaces=given.replaces, reason=given.reason),
        replaces=True,
        section="reports",
        button="Use this report instead",
        done="Amended",
    ),
    Act(
        name="correct_report",
        command="correct",
        path="phases/{phase}/reports/{agent}/correct",
        kind="report-corrected",
        words="Correct an agent's report of a decided phase. Both reports are kept, and no decision changes. The "
        "certificate says what estimates and evidence would be with the corrected report, and whether an answer would "
        "change.",
        body=CorrectBody,
        preview=Preview(
            name="preview_correction",
            kind=CorrectionPreview,
            words="What the study would have found with the corrected report, and whose answer would change.",
            body=CorrectionBody,
            look=lambda trial, given: correction_preview(trial, given.report),
            tells=(EFFECT, GUARANTEE),
        ),
        event=_corrected,
        section="decided",
        heading="If the report of {agent} in phase {phase} is corrected",
        button="Correct the report of {agent} in phase {phase}",
        done="Corrected",
    ),
    Act(
        name="refuse_report",
        command="refuse",
        path="phases/{phase}/reports/{agent}/refuse",
        kind="report-refused",
        words="Refuse a held report, one with a mean that the stated model rules out: the agent is asked for another. "
        "Or refuse a corrected report that a site handed over: the numbers that count stay.",
        body=RefuseBody,
        event=lambda _, given: events.ReportRefused(
            phase=given.phase, agent=given.agent, report=given.report, reason=given.reason
        ),
        section="reports",
        button="Refuse it: {agent} has to report again",
        done="Refused: {agent} is told",
    ),
    Act(
        name="sign_study",
        command="sign",
        path="signatures",
        kind="signed",
        words="Sign a study: its log gets the principal, name and meaning as typed, and the time. The token "
        "is sent again: an open session alone cannot sign.",
        body=SignBody,
        event=lambda _, given: events.Signed(principal=given.by, name=given.name, meaning=given.meaning),
        who="readers",
        secret="token",
        section="answer",
        button="Sign {study}",
        done="Signed, with {name} as the typed name: {meaning}",
    ),
)

ACTS: dict[str, Act] = {row.command: row for row in _ROWS}
