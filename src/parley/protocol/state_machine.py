"""All rules of legality in one file: the stages of a study, and what can happen at each.

A study is at one `Stage`. `TRANSITIONS` says which events are possible at which stage and where they may lead. No stage
changes in any other way, and the picture in docs/audit.md is made from that table (`picture()`). The table alone cannot
tell whether *this* report of *this* agent is legal: `admit` decides that, by rules that are functions in this file.

`admit` is pure and needs little: a `Situation` holds the part of a study on which the decision depends. It can be
computed from a replayed trial, and also from three rows of a database. So the coordinator, before it writes an event,
and an audit afterwards call the same function, and a replay can never refuse an event that was written.

A refusal is an `IllegalMove`. Its `reason` is a code that the API's problem types use too; its words say what would
have been possible. Totals that no rewards could produce raise an `ImpossibleReport` (`report_checks`).

Why the rules are what they are:

- A report is accepted once. A second report of the same agent and phase is quarantined and changes nothing: anybody who
  could replace a report after seeing others could choose the outcome. Only an administrator amends a report, with a
  reason, and only before the phase is decided: another report cannot undo a decision.
- A report with a mean that the stated model rules out is held: it is stored but not counted, and the phase still needs
  a report of the agent. Accepting it would let one slip of the pen decide the study; refusing it unseen would let the
  coordinator choose its data. So an administrator either accepts it (as an amendment that replaces nothing), or refuses
  it, and the agent is asked for another report.
- Once a phase is decided its reports are corrected, not amended, at any stage and as often as needed. A correction
  changes no plan, decision or answer, since the person who corrects a report has seen them.
- Freezing and thawing never change what was reported. They only change who is asked from here on.
- Closing a phase early needs a policy whose guarantee allows other counts than it planned, and at least one report.
- While a study is paused, administrators may still mend it (amend, refuse, freeze, thaw, re-weigh, open or withdraw
  arms). It accepts no report and makes no decision, so nothing is decided on a state that somebody is examining.
- An arm is opened or withdrawn for all agents. Withdrawing never changes the phase in progress: sites that stop drawing
  the arm report no draws of it, for the reason "supply". Both acts replay all recorded phases, so the result does not
  depend on earlier acts.
- A guardrail's alarm stops an arm by itself, as a withdrawal, before the phase whose reports raised it is decided. No
  phase is decided as long as the log lacks a finding of the guardrails (`Trial.finding`).
- The log names who sees results of a study that may continue, once per phase: results could influence their actions.
  Once the study is over, they can influence nothing in it, and reads are no longer recorded.
- Nothing changes a finished study: only its certificate, corrections, signatures, quarantined reports and refusals of
  such reports may follow.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from parley.errors import IllegalMove, ImpossibleReport
from parley.problem import Problem
from parley.protocol.events import (
    AgentFrozen,
    AgentThawed,
    ArmOpened,
    ArmWithdrawn,
    Cancelled,
    Disputed,
    Event,
    Paused,
    PhaseClosed,
    PhaseClosedEarly,
    ReportAccepted,
    ReportAmended,
    ReportCorrected,
    ReportQuarantined,
    ReportRefused,
    ResultsRead,
    Resumed,
    Reweighed,
    StepFailed,
    kind_of,
)
from parley.protocol.lost_sites import arms_fixed, ask_anew, not_reweighable
from parley.protocol.messages import Plan, Report, StudyMessage
from parley.protocol.report_checks import check_adjustment, check_between, check_report
from parley.rewards import Past
from parley.text.status import OutcomeStatus
from parley.text.translation import Translatable


class Stage(StrEnum):
    """The stages that a study goes through, as in `TRANSITIONS`."""

    RUNNING = "running"  # a plan is published, and reports arrive
    CLOSING = "closing"  # every awaited report is in; the policy's step is due
    PAUSED = "paused"  # stopped by an administrator, a dispute or a failed step; takes no reports
    STALLED = "stalled"  # all open questions are blocked; freezing leads here, thawing or another question leads out
    FINISHED = "finished"  # every agent that asks has its answer, or the budget ran out first
    CANCELLED = "cancelled"  # stopped early; candidates remain


CONCLUDED = (Stage.FINISHED, Stage.STALLED)  # answers are final; agents without an answer may wait for a frozen site
OVER = (*CONCLUDED, Stage.CANCELLED)  # no more reports are awaited
# The status of agents without an answer in a study that was stopped.
STOPPED = {Stage.CANCELLED: OutcomeStatus.CANCELLED, Stage.STALLED: OutcomeStatus.BLOCKED}

R, C, P, S, F, X = Stage.RUNNING, Stage.CLOSING, Stage.PAUSED, Stage.STALLED, Stage.FINISHED, Stage.CANCELLED

ANEW = ("reweighed", "arm-opened", "arm-withdrawn")

# (stage, event) -> possible next stages. If there are two, the content of the event decides.
TRANSITIONS: dict[tuple[Stage, str], frozenset[Stage]] = {
    (R, "report-accepted"): frozenset({R, C}),
    (R, "report-amended"): frozenset({R, C}),  # C: a held report is accepted, and no other report is awaited
    (R, "agent-frozen"): frozenset({R, C}),
    (R, "agent-thawed"): frozenset({R}),
    (R, "phase-closed-early"): frozenset({C}),
    (R, "paused"): frozenset({P}),
    (R, "disputed"): frozenset({P}),
    (R, "cancelled"): frozenset({X}),
    (C, "phase-closed"): frozenset({R, S, F}),
    (C, "step-failed"): frozenset({P}),
    (C, "report-amended"): frozenset({C}),
    (C, "agent-frozen"): frozenset({C}),
    (C, "paused"): frozenset({P}),
    (C, "disputed"): frozenset({P}),
    (C, "cancelled"): frozenset({X}),
    (P, "report-amended"): frozenset({P}),
    (P, "agent-frozen"): frozenset({P}),
    (P, "agent-thawed"): frozenset({P}),
    (P, "resumed"): frozenset({R, C}),
    (P, "cancelled"): frozenset({X}),
    (S, "agent-thawed"): frozenset({R, S}),
    (S, "reweighed"): frozenset({R, F}),
    (S, "arm-opened"): frozenset({R, S, F}),  # S: all open questions stay blocked
    (S, "arm-withdrawn"): frozenset({R, S, F}),
    (S, "cancelled"): frozenset({X}),
    (S, "certified"): frozenset({S}),
    (F, "certified"): frozenset({F}),
    (X, "certified"): frozenset({X}),
    # Changes of the question. The study finishes if the recorded phases answer the new question; otherwise the phase in
    # progress goes on as planned.
    **{(stage, kind): frozenset({stage, F}) for kind in ANEW for stage in (R, C, P)},
    # Findings of guardrails in the reports of a phase, before the phase is decided.
    **{(stage, "arm-stopped"): frozenset({stage, F}) for stage in (R, C)},
    **{(stage, "guardrail-noted"): frozenset({stage}) for stage in (R, C)},
    # Only kept for the record: these events change nothing.
    **{(stage, "report-quarantined"): frozenset({stage}) for stage in Stage},
    **{(stage, "report-corrected"): frozenset({stage}) for stage in Stage},
    **{(stage, "report-refused"): frozenset({stage}) for stage in Stage},
    **{(stage, "signed"): frozenset({stage}) for stage in Stage},
    **{(stage, "results-read"): frozenset({stage}) for stage in (R, C, P, S)},
}


def allowed(stage: Stage) -> list[str]:
    """The kinds of events possible at a stage.

    >>> "certified" in allowed(Stage.FINISHED), "paused" in allowed(Stage.FINISHED)
    (True, False)
    """
    return sorted(kind for where, kind in TRANSITIONS if where == stage)


def illegal(stage: Stage, kind: str, words: str = "", reason: str = "illegal-move") -> IllegalMove:
    """Make the error that refuses a move; it lists the moves that are possible."""
    why = f": {words}" if words else ""
    message = f"{kind} cannot happen while the study is {stage}{why} (can: {', '.join(allowed(stage))})"
    return IllegalMove(message, reason=reason, words=words)


def require(stage: Stage, kind: str, then: Stage | None = None) -> None:
    """Raise `IllegalMove` unless an event of this kind is possible at the stage, and may lead to `then` if given.

    >>> require(Stage.RUNNING, "paused", Stage.PAUSED)
    >>> require(Stage.FINISHED, "paused")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    parley.errors.IllegalMove: paused cannot happen while the study is finished (can: certified, ...)
    """
    targets = TRANSITIONS.get((stage, kind))
    if targets is None or (then is not None and then not in targets):
        raise illegal(stage, kind, f"it would lead to {then}" if targets and then else "")


def picture() -> str:
    """The table of transitions as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> running: study-created"]
    arrows: dict[tuple[Stage, Stage], list[str]] = {}
    for (stage, kind), targets in TRANSITIONS.items():
        for target in sorted(targets):
            arrows.setdefault((stage, target), []).append(kind)
    lines += [f"    {here} --> {there}: {', '.join(sorted(kinds))}" for (here, there), kinds in arrows.items()]
    return "\n".join(lines)


# The part of a study that `admit` has to know.


class Held(NamedTuple):
    """A report that waits for an administrator to accept or refuse it."""

    digest: str
    why: str  # why it is held


class Counted(NamedTuple):
    """The facts about an agent's report in a decided phase with which a correction is compared."""

    plan: str  # digest of the phase's plan
    draws: tuple[int, ...]  # draws that the plan asked for
    counts: tuple[int, ...]  # counts that the decision used
    digest: str  # digest of the latest correction, else of the report that the decision used
    between: tuple[int, ...] = ()  # as in `Place`
    ahead: tuple[int, ...] = ()  # people assigned for the next phase; the plan of that phase counted on them


@dataclass(frozen=True, kw_only=True)
class Place:
    """The state of one agent in the phase in progress."""

    plan: str  # digest of the plan in force
    draws: tuple[int, ...] | None  # planned draws per arm; None if the phase asks nothing of the agent
    frozen: bool = False
    standing: Report | None = None  # the report that counts, if there is one
    held: Held | None = None  # the report that waits for an administrator; ignored if another report counts
    refused: frozenset[str] = field(default=frozenset(), compare=False)  # digests of refused reports
    between: tuple[int, ...] = ()  # per arm: people assigned for this phase before it began
    most_ahead: int = 0  # how many people may be assigned for the next phase

    @property
    def awaited(self) -> bool:
        """Whether the phase waits for this agent's report."""
        return self.due and not self.frozen

    @property
    def due(self) -> bool:
        """Whether the agent's report is asked for and missing; true for a frozen agent too."""
        return self.draws is not None and self.standing is None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The part of a study on which `admit` decides. `place` is the state of the agent that an event is about."""

    id: str
    study: StudyMessage
    stage: Stage
    phase: int  # the phase in progress, or the last phase
    missing: int  # agents with work in the phase that are not frozen and have not reported
    closed_early: bool = False  # the phase accepts no more reports: it is decided with those received
    reported: int = field(default=0, compare=False)  # number of reports received; only an early close needs it
    place: Place | None = None
    counted: Counted | None = field(default=None, compare=False)  # only a correction needs it
    aside: bool = field(default=False, compare=False)  # the report waits in quarantine; only a refusal needs it
    against: Past | None = field(default=None, compare=False)  # past means that reports are compared with, if any

    @property
    def awaited(self) -> int:
        """How many reports the phase still needs. The number is not stored, so that it cannot be inconsistent."""
        return 0 if self.closed_early or self.stage in OVER else self.missing


# The rules.


def agent_of(event: Event) -> str | None:
    """The agent that an event is about; None if its legality does not depend on the state of one agent.

    >>> agent_of(Paused(reason="holiday")) is None
    True
    """
    match event:
        case ReportAccepted(report=report) | ReportAmended(report=report) | ReportQuarantined(report=report):
            return report.agent
        case AgentFrozen(agent=agent) | AgentThawed(agent=agent) | ReportRefused(agent=agent):
            return agent
        case _:
            return None


def admit(here: Situation, event: Event) -> Situation:
    """Return the situation after an event; an illegal event raises. `place` is not updated.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
    >>> here = Situation(id="s", study=study, stage=Stage.RUNNING, phase=1, missing=1)
    >>> admit(here, Paused(reason="holiday")).stage.value
    'paused'
    """
    kind = kind_of(event)
    match event:
        case ReportAccepted() | ReportAmended() | ReportRefused() | ReportQuarantined(stands=""):
            after = _report_admitted(here, event, kind)
        case ReportCorrected():
            _check_correction(here, event, kind)
            after = here
        case ResultsRead(phase=phase):
            _require_phase(here, phase, kind)
            after = here
        case AgentFrozen() | AgentThawed():
            require(here.stage, kind)
            after = _asked_or_not(here, event, kind)
        case Reweighed() | ArmOpened() | ArmWithdrawn():
            after = _asked_anew(here, event, kind)
        case PhaseClosedEarly(phase=phase):
            _check_early_close(here, phase, kind)
            after = _settled(replace(here, closed_early=True))
        case PhaseClosed(decision=decision, plan=plan):
            end = Stage.FINISHED if decision.finished else Stage.STALLED
            after = replace(here, stage=end) if plan is None else _opened(here, plan)
        case Paused() | Disputed() | StepFailed():
            after = replace(here, stage=Stage.PAUSED)
        case Resumed():
            require(here.stage, kind)
            after = _settled(replace(here, stage=Stage.RUNNING))
        case Cancelled():
            after = replace(here, stage=Stage.CANCELLED)
        # Quarantined, signed and certified are only recorded. A second creation is not in the table, so it is refused.
        case _:
            after = here
    require(here.stage, kind, after.stage)
    return after


def _settled(here: Situation) -> Situation:
    """The situation at stage `RUNNING` if reports are awaited, else at `CLOSING`. A paused study stays paused."""
    if here.stage is Stage.PAUSED:
        return here
    return replace(here, stage=Stage.RUNNING if here.awaited else Stage.CLOSING)


def _opened(here: Situation, plan: Plan) -> Situation:
    """The situation at stage `RUNNING`, in the phase of a new plan."""
    asked = int((plan.array.sum(axis=0) > 0).sum())
    return replace(here, stage=Stage.RUNNING, phase=plan.phase, missing=asked, closed_early=False)


def _resumed_with(here: Situation, plan: Plan, kind: str) -> Situation:
    """The situation in which a stalled study continues with a new plan; at any other stage this raises."""
    if here.stage is not Stage.STALLED:
        raise illegal(here.stage, kind, "a new plan while one is out")
    return _opened(here, plan)


def _asked_or_not(here: Situation, event: AgentFrozen | AgentThawed, kind: str) -> Situation:
    """The situation after one agent was frozen or thawed."""
    place, freezes = here.place, isinstance(event, AgentFrozen)
    if event.agent not in here.study.problem.sites or place is None or place.frozen is freezes:
        words = Translatable("{0!r} is not an agent that can be frozen", event.agent)
        raise illegal(here.stage, kind, words if freezes else f"{event.agent!r} is not frozen")
    if isinstance(event, AgentFrozen):
        return _settled(replace(here, missing=here.missing - place.awaited))
    if event.plan is not None:
        return _resumed_with(here, event.plan, kind)
    # A phase that waits for no report is about to be decided. It is not reopened: the agent joins the next phase.
    return replace(here, missing=here.missing + place.due, closed_early=here.closed_early or not here.awaited)


def _asked_anew(here: Situation, event: Reweighed | ArmOpened | ArmWithdrawn, kind: str) -> Situation:
    """The situation after a change of weights or arms; raises if the policy's guarantee does not allow that change."""
    require(here.stage, kind)
    _require_phase(here, event.phase, kind)
    why = not_reweighable(here.study) if isinstance(event, Reweighed) else arms_fixed(here.study)
    if why is not None:
        raise illegal(here.stage, kind, why)
    if not isinstance(event, Reweighed):
        _check_arm(here, event.arm, kind, opens=isinstance(event, ArmOpened))
    after = here if event.plan is None else _resumed_with(here, event.plan, kind)
    if event.finished:
        after = replace(here, stage=Stage.FINISHED)
    asked = ask_anew(here.study, event.weights, event.delta, event.opened, event.withdrawn)
    return replace(after, study=asked)


def _check_arm(here: Situation, arm: str, kind: str, *, opens: bool) -> None:
    """Raise unless the arm can be opened (is closed now) or withdrawn (is open now)."""
    if arm not in here.study.arms or (arm in here.study.problem.dormant) is not opens:
        closed = Translatable("{0!r} is not an arm that can be opened", arm)
        raise illegal(here.stage, kind, closed if opens else Translatable("{0!r} is not an open arm", arm), "not-found")


def _check_early_close(here: Situation, phase: int, kind: str) -> None:
    """Raise unless the phase may be closed early: the policy must allow other counts, and some report must be in."""
    require(here.stage, kind)
    _require_phase(here, phase, kind)
    if not here.study.flexible:
        words = f"the policy {here.study.policy} needs the counts of the plan, or the study asks for them"
        raise illegal(here.stage, kind, words)
    if not here.reported:
        raise illegal(here.stage, kind, "no report of this phase is in: there is nothing to close it with")


def _require_phase(here: Situation, phase: int, kind: str) -> None:
    if phase != here.phase:
        raise illegal(here.stage, kind, f"the study is in phase {here.phase}", "phase-closed")


# The rules for one agent's report: whether it may be accepted, held, replaced or refused.


def _report_admitted(
    here: Situation, event: ReportAccepted | ReportAmended | ReportQuarantined | ReportRefused, kind: str
) -> Situation:
    match event:
        case ReportAccepted(report=report):
            _check_awaited(here, report, kind)
            _check_numbers(here, report, kind)
            if (why := _implausible(here, report)) is not None:
                raise illegal(here.stage, kind, why, "report-implausible")
            return _settled(replace(here, missing=here.missing - 1))
        case ReportQuarantined(report=report):  # held: `stands` is empty
            _check_awaited(here, report, kind)
            _check_numbers(here, report, kind)
            if _implausible(here, report) is None:
                raise illegal(here.stage, kind, "it is plausible: there is no reason to hold it")
            return here
        case ReportRefused(phase=phase, report=digest):
            # A quarantined report delays nothing, since another report counts: it may be refused at any stage.
            if not here.aside:
                _check_held(here, phase, kind, digest)
            return here
        case ReportAmended(report=report, replaces="") if here.place is not None and here.place.held is not None:
            if report.study != here.id:
                raise illegal(here.stage, kind, f"it is of {report.study!r}, not of {here.id!r}")
            _check_held(here, report.phase, kind)
            _check_numbers(here, report, kind)
            return _settled(replace(here, missing=here.missing - 1))
        case ReportAmended(report=report, replaces=replaces):
            require(here.stage, kind)
            _check_standing(here, report, replaces, kind)
            _check_numbers(here, report, kind)
            return here


def _check_awaited(here: Situation, report: Report, kind: str) -> None:
    """Refuse a report that is not awaited, with the reason that helps the agent most.

    The order matters: "your phase is over" and "wait, the study is paused" come before anything about the agent, since
    the agent reacts differently to them. "Another report was accepted" comes before "this report was refused".
    """

    def refused(reason: str, words: str) -> Exception:
        return illegal(here.stage, kind, words, reason)

    if report.study != here.id:
        raise refused("illegal-move", f"it is of {report.study!r}, not of {here.id!r}")
    if report.phase > here.phase:
        raise refused("phase-future", f"the study is in phase {here.phase}")
    if report.phase < here.phase or here.stage in (Stage.FINISHED, Stage.STALLED, Stage.CLOSING):
        raise refused("phase-closed", f"the study is {here.stage} in phase {here.phase}")
    if here.stage is Stage.PAUSED:
        raise refused("study-paused", "it accepts no report until it is resumed")
    require(here.stage, kind)
    if report.agent not in here.study.agents:
        raise refused("not-found", f"no agent {report.agent!r} in {here.id!r}")
    if here.place is None or here.place.draws is None:
        raise refused("nothing-asked", f"phase {report.phase} asks nothing of {report.agent!r}")
    if here.place.frozen:
        raise refused("agent-frozen", f"{report.agent!r} is frozen")
    if here.place.standing is not None:
        raise refused("report-conflict", f"a report of {report.agent!r} was accepted before")
    if report.digest in here.place.refused:
        raise refused("report-refused", f"an administrator refused this report of {report.agent!r}")
    if here.place.held is not None:
        which = "it waits" if here.place.held.digest == report.digest else "another report of this agent waits"
        raise refused("report-held", f"{which} until an administrator accepts or refuses it: {here.place.held.why}")


def _implausible(here: Situation, report: Report) -> str | None:
    """A sentence about a mean in a report that the stated model rules out; None if there is none."""
    if here.against is None:
        return None
    study = here.study
    found = study.problem.noise.implausible_mean(
        report.counts, report.sums, here.against, study.agents.index(report.agent), study.problem.largest_gap
    )
    return None if found is None else found.sentence(study.arms)


def _check_held(here: Situation, phase: int, kind: str, digest: str | None = None) -> None:
    """Raise unless the agent has a held report in the phase in progress, with the `digest` if given."""
    require(here.stage, kind)
    if phase != here.phase or not here.awaited or here.stage is Stage.CLOSING:
        raise illegal(here.stage, kind, f"phase {phase} waits for no agent any more", "phase-closed")
    held = here.place.held if here.place is not None and here.place.awaited else None
    if held is None or digest not in (None, held.digest):
        raise illegal(here.stage, kind, "no such report is held, and there is none to amend", "not-found")


def _check_standing(here: Situation, report: Report, replaces: str, kind: str) -> None:
    """Raise unless the report to amend is of the phase in progress and `replaces` is the digest of the accepted one."""
    if (report.study, report.phase) != (here.id, here.phase):
        words = f"phase {report.phase} is not in progress: another report cannot undo a decision"
        raise illegal(here.stage, kind, words, "phase-closed")
    standing = None if here.place is None else here.place.standing
    if standing is None:
        words = f"no report of {report.agent!r} in phase {report.phase} to amend"
        raise illegal(here.stage, kind, words, "not-found")
    if standing.digest != replaces:
        raise illegal(here.stage, kind, f"the report of {report.agent!r} that it replaces is not the accepted one")


def _check_correction(here: Situation, event: ReportCorrected, kind: str) -> None:
    """Raise unless the report to correct was decided on and is still the latest, and the new numbers are possible."""
    report, counted, problem = event.report, here.counted, here.study.problem
    if report.study != here.id:
        raise illegal(here.stage, kind, f"it is of {report.study!r}, not of {here.id!r}")
    if counted is None and report.phase >= here.phase and here.stage not in OVER:
        words = f"phase {report.phase} is not decided: until then its reports are amended (parley admin amend)"
        raise illegal(here.stage, kind, words)
    if counted is None:
        words = f"no report of {report.agent!r} was decided on in phase {report.phase}"
        raise illegal(here.stage, kind, words, "not-found")
    if report.digest == counted.digest:
        raise illegal(here.stage, kind, "nothing to correct: the report already has these numbers")
    if event.replaces != counted.digest:
        words = f"the report of {report.agent!r} that it replaces was corrected meanwhile: look again"
        raise illegal(here.stage, kind, words, "changed-meanwhile")
    if report.plan != counted.plan:
        raise illegal(
            here.stage, kind, f"the report names another plan than that of phase {report.phase}", "wrong-plan"
        )
    if problem.rho is not None and report.releases is None:
        hint = "The site makes such a report: parley agent --correct, or parley site correct"
        allowed = "2 or more: other sums of the same people are another release, with noise of their own"
        raise ImpossibleReport("releases", found="nothing", allowed=allowed, hint=hint)
    draws = still_asked(report, counted.draws, problem, counted.counts)
    check_report(report, draws, problem.noise, problem if here.study.flexible else None, problem.outcomes)
    check_adjustment(report, problem)
    if report.ahead != counted.ahead:
        allowed = f"{list(counted.ahead)}, as before: the next plan counted on them"
        raise ImpossibleReport("ahead", found=list(report.ahead), allowed=allowed)
    check_between(report, counted.between, sum(counted.ahead), problem.noise, problem.outcomes)


def _check_numbers(here: Situation, report: Report, kind: str) -> None:
    """Raise unless the report follows the plan in force and has possible numbers."""
    assert here.place is not None
    if report.plan != here.place.plan:
        raise illegal(here.stage, kind, "the report names another plan than the one in force", "wrong-plan")
    problem = here.study.problem
    draws = still_asked(report, here.place.draws or (), problem)
    check_report(report, draws, problem.noise, problem if here.study.flexible else None, problem.outcomes)
    check_adjustment(report, problem)
    check_between(report, here.place.between, here.place.most_ahead, problem.noise, problem.outcomes)


def still_asked(
    report: Report, draws: tuple[int, ...], problem: Problem, taken: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The draws that a report without a reason must have: the planned draws, but fewer or none of a withdrawn arm.

    A withdrawn arm may have the draws made before it was withdrawn. In a correction, any arm may keep the
    count that the decision used (`taken`), since a withdrawn arm may have been opened again.
    """
    if report.reason or not (problem.dormant or taken) or len(report.counts) != len(draws):
        return draws
    cells = zip(problem.arms, report.counts, draws, taken or draws, strict=True)
    return tuple(
        count
        if count == before or (arm in problem.dormant and (count == 0 or problem.minimum_cell <= count < asked))
        else asked
        for arm, count, asked, before in cells
    )
