"""The course of a phase: its reports are accepted, each exactly once, and the last report closes it.

Accepting a report is the transaction on which every promise depends. The last report of a phase puts the study into the
stage `closing`: a step of the policy is due. The step is computed outside of every lock, whatever the size of the
study, and stored if the study has not changed since (`store_prepared`). Which steps are due follows from the stage
alone, so no step is lost in a crash: the closer of the next process takes it.
"""

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from sqlalchemy.exc import SQLAlchemyError

from parley.coordinator.clock import Clock
from parley.coordinator.observability import Metrics, logger
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Storage, StorageUnavailable, ledger, phases, studies
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import COORDINATOR, Prepared, enact, locked, prepare, store_prepared
from parley.coordinator.studies.certify import with_certificate
from parley.errors import ImpossibleReport, ParleyError
from parley.protocol import (
    TRANSITIONS,
    Held,
    Receipt,
    Report,
    Stage,
    Step,
    StudyMessage,
    Trial,
    check_adjustment,
    check_between,
    check_report,
    require_readable,
)
from parley.protocol.asking_anew import Anew, finding_event
from parley.protocol.codec import LONGEST_WORDS, canonical
from parley.protocol.events import (
    Disputed,
    GuardrailNoted,
    ReportAccepted,
    ReportCorrected,
    ReportQuarantined,
    StepFailed,
)
from parley.protocol.replaying import apply
from parley.protocol.state_machine import OVER, still_asked
from parley.protocol.trial import Settled

COUNTED_BEFORE = "it was accepted before and replaced since: ask an administrator to correct the report with it again"
MOST_ASIDE = 20  # most waiting reports per agent and phase; further ones are refused without storing their content
MOMENT = 2.0  # seconds after which the closer looks for due steps even if nobody calls it


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An accepted report: its receipt, and whether the same report had been accepted before."""

    receipt: Receipt
    repeated: bool
    row: StudyRow


def take_report(
    transaction: Transaction, report: Report, *, actor: str, at: str, known: tuple[int, str] | None = None
) -> Accepted | Refusal:
    """Accept a report exactly once. A returned `Refusal` keeps the records written for it; a raised one undoes them.

    `known` is the latest receipt (sequence, head) that the agent has.
    """
    row = locked(transaction, report.study)
    sys.audit("parley.reached", "report-locked")
    if not len(report.counts) == len(report.sums) == row.arms or len(report.squares) not in (0, row.arms):
        # Checked before anything is computed from the report, which may be very long.
        lengths = f"{len(report.counts)} counts, {len(report.sums)} sums, {len(report.squares)} squares"
        raise Refusal("impossible-report", f"report: found {lengths}; allowed: {row.arms} of each, one per arm")
    # A lost record must be noticed before the log accepts anything more from the agent.
    if known is not None and not ledger.has(transaction, row.id, *known):
        return dispute(transaction, row, report.agent, known, actor=actor, at=at)
    place = phases.free_place(transaction, row, report.agent) if report.phase == row.phase else None
    earlier = () if place else phases.receipts(transaction, report.study, report.phase, report.agent)
    sys.audit("parley.reached", "report-looked-up")
    if earlier:
        receipt = _repeated(transaction, report, earlier)
        if receipt is not None:
            return Accepted(receipt=receipt, repeated=True, row=row)
        return _put_aside(transaction, row, report, earlier, actor=actor, at=at)
    try:
        row = enact(transaction, row, ReportAccepted(report=report), actor=actor, at=at, place=place)
    except Refusal as refusal:
        if refusal.slug != "report-implausible":
            raise
        return _hold(transaction, row, report, refusal.detail, actor=actor, at=at)
    receipt = Receipt.of(report, sequence=row.sequence, head=row.head)
    return Accepted(receipt=receipt, repeated=False, row=row)


def _hold(transaction: Transaction, row: StudyRow, report: Report, why: str, *, actor: str, at: str) -> Refusal:
    """Quarantine and log a report that the study's reward model rules out, until an administrator decides about it."""
    for one in phases.held(transaction, report.study, report.phase):
        if one.digest == report.digest and one.refused is not None:
            raise Refusal("report-refused", f"{one.refused}. It was refused since {one.why}")
    row = enact(transaction, row, ReportQuarantined(report=report, stands="", why=why), actor=actor, at=at)
    return Refusal("report-held", f"it waits until an administrator accepts or refuses it: {why}")


def _repeated(transaction: Transaction, report: Report, earlier: Sequence[Receipt]) -> Receipt | None:
    """The receipt of a repeated report: the agent's first report for the phase, or the one that counts. Otherwise None.

    After a correction, only the first report still gets its receipt: the sender of a later report must not think that
    this report counts.
    """
    first, last = earlier[0], earlier[-1]
    if report.digest == first.report:
        return first
    return last if report.digest == last.report and not _corrections_of(transaction, report) else None


def _corrections_of(transaction: Transaction, report: Report) -> list[ReportCorrected]:
    """The corrections of reports of the same agent and phase, in order."""
    found = [one.event for one in phases.corrections(transaction, report.study)]
    return [one for one in found if (one.report.phase, one.report.agent) == (report.phase, report.agent)]


def _put_aside(
    transaction: Transaction, row: StudyRow, report: Report, earlier: Sequence[Receipt], *, actor: str, at: str
) -> Refusal:
    """Quarantine and log a report that differs from the accepted report of its agent and phase.

    The accepted report still counts. The new report must be acceptable in itself: a report for another plan, or with
    impossible numbers, is refused and not stored.
    """
    standing = phases.standing(transaction, report.study, report.phase, report.agent)
    if report.plan != standing.plan:
        raise Refusal("wrong-plan", "the report names another plan than that of its phase", plan=standing.plan)
    study = studies.message(transaction, row)
    draws = phases.draws_of_many(transaction, row.id, report.phase, [report.agent]).get(report.agent, standing.counts)
    draws = still_asked(report, draws, study.problem, standing.counts)
    try:
        problem = study.problem
        check_report(report, draws, problem.noise, problem if study.flexible else None, problem.outcomes)
        check_adjustment(report, problem)
        early = phases.between(transaction, row, report.phase, report.agent)
        check_between(report, early.between, early.most_ahead, problem.noise, problem.outcomes)
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None
    aside = phases.set_aside(transaction, report.study, report.phase, report.agent)
    counted = {receipt.report for receipt in earlier}
    known = report.digest in aside or report.digest in counted
    place = (report.phase, report.agent)
    waiting = [one for one in phases.asides(transaction, row.id) if (one.phase, one.agent) == place]
    full = len(waiting) >= MOST_ASIDE
    answer, reason = _answered(transaction, report, aside, counted) if known else ("waiting", "")
    if not known and not full:
        enact(transaction, row, ReportQuarantined(report=report, stands=standing.digest), actor=actor, at=at)
    return Refusal(
        "report-conflict",
        f"phase {report.phase} has a report of {report.agent!r} with other numbers, and that one counts",
        stands=standing.digest,
        quarantined=known or not full,
        answer=answer,
        reason=reason,
    )


def _answered(
    transaction: Transaction, report: Report, aside: Mapping[str, str | None], counted: Collection[str]
) -> tuple[str, str]:
    """What an administrator decided about a quarantined report: "accepted", "refused" or "waiting", and the reason.

    A site asks for this by sending the report again.
    """
    made, digest = _corrections_of(transaction, report), report.digest
    if made and made[-1].report.digest == digest:
        return "accepted", made[-1].reason
    if digest in counted or any(one.report.digest == digest for one in made):
        return "refused", COUNTED_BEFORE
    refused = aside[digest]
    return ("waiting", "") if refused is None else ("refused", refused)


def dispute(
    transaction: Transaction, row: StudyRow, agent: str, known: tuple[int, str], *, actor: str, at: str
) -> Refusal:
    """Pause a running study because an agent has a receipt that this log lacks; return the refusal for the agent."""
    if (row.stage, "disputed") in TRANSITIONS:
        enact(transaction, row, Disputed(agent=agent, sequence=known[0], head=known[1]), actor=actor, at=at)
    return Refusal(
        "receipt-unknown",
        f"record {known[0]} of this log has another hash, or is missing: an old backup or a rewritten log",
        sequence=known[0],
    )


def load_trial(transaction: Transaction, row: StudyRow, *, past: bool = False) -> Trial:
    """Load a stored study as a `Trial`; with its decided phases if `past` (for replays) or if it has a guardrail."""
    study = studies.message(transaction, row)
    # If this phase was decided (finished, stalled), the state after it is stored; otherwise take the state before it.
    state = phases.state_after(transaction, study, row.id, row.phase)
    if state is None:
        state = phases.state_after(transaction, study, row.id, row.phase - 1)
    plan = phases.plan_of(transaction, row.id, row.phase)
    if state is None or plan is None:
        raise StorageUnavailable(f"the study {row.id} has no state or no plan for phase {row.phase}: damaged data")
    taken = phases.reports_of(transaction, row.id, row.phase)
    held = phases.held(transaction, row.id, row.phase)
    trial = replace(
        studies.without_reports(transaction, row, state=state, plan=plan),
        reports={agent: found.report for agent, found in taken.items()},
        past=None,
        held={one.agent: Held(one.digest, one.why) for one in held if one.refused is None},
        refused=frozenset(one.digest for one in held if one.refused is not None),
    )
    if not (past or is_guarded(study)):
        return trial
    recorded, settled, outcomes = [], [], []
    for phase in range(1, phases.decided(transaction, row.id) + 1):
        plan, taken = phases.plan_of(transaction, row.id, phase), phases.reports_of(transaction, row.id, phase)
        if plan is None:
            raise StorageUnavailable(f"the study {row.id} has no plan for phase {phase}: damaged data")
        found = {agent: one.report for agent, one in taken.items()}
        then = replace(trial, reports=found)
        recorded.append(then.totals)
        outcomes.append(then.outcome_totals)
        digests = {agent: one.receipt.report for agent, one in taken.items()}
        ahead = {agent: report.ahead for agent, report in found.items() if report.ahead}
        settled.append(Settled(plan=plan, reports=digests, ahead=ahead))
    corrected = tuple(one.event for one in phases.corrections(transaction, row.id))
    return replace(
        trial,
        past=tuple(recorded),
        settled=tuple(settled),
        corrections=corrected,
        outcomes_past=tuple(outcomes) if study.outcomes else (),
        verdicts=phases.verdicts(transaction, row.id),
    )


@dataclass(frozen=True, kw_only=True)
class _Step:
    """A step of the policy that can be stored, or the reason why the step failed.

    A study whose step fails is paused with the reason, so that the step is not retried forever.
    """

    failure: str = ""  # why the step failed; empty if it did not
    trial: Trial | None = None
    step: Step | None = None
    found: Anew | GuardrailNoted | None = None  # a guardrail's finding, which is recorded before the policy's step


def _attempt(work: Callable[[], _Step]) -> _Step:
    """Run `work`; a failure becomes a `_Step` with the reason, except that errors of the database are raised."""
    try:
        return work()
    except SQLAlchemyError:
        raise
    except ParleyError as error:
        words = str(error)
    except Exception as error:
        logger.exception("a step failed")
        words = f"{type(error).__name__}: {error}"
    return _Step(failure=words.encode(errors="replace").decode().replace("\x00", "")[:LONGEST_WORDS])


def _computed(loaded: _Step) -> _Step:
    """Compute the policy's step, and check that the log can hold its event; the slow part of closing a phase."""
    trial = loaded.trial
    if trial is None:
        return loaded

    def compute() -> _Step:
        if trial.finding is not None:
            return _Step(trial=trial, found=finding_event(trial, trial.finding))
        step = trial.step()
        require_readable(step.event)
        return _Step(trial=trial, step=step)

    return _attempt(compute)


def closing_studies(transaction: Transaction) -> list[str]:
    """The ids of studies at stage `closing`, in which a step of the policy is due."""
    return [row.id for row in studies.find(transaction, stage=Stage.CLOSING, limit=1000)[0]]


def running_studies(transaction: Transaction) -> list[str]:
    """The ids of all running studies."""
    return [row.id for row in studies.find(transaction, stage=Stage.RUNNING, limit=None)[0]]


def _guards(transaction: Transaction, study: str) -> bool:
    row = studies.get(transaction, study)
    return row is not None and is_guarded(studies.message(transaction, row))


def is_guarded(study: StudyMessage) -> bool:
    """Whether a study has a guardrail."""
    return any(outcome.guards for outcome in study.problem.outcomes)


def take_step(storage: Storage, study: str, at: str) -> StudyRow | None:
    """Take a study's due step and return its updated row; None if no step is due, or the study changed meanwhile.

    A step that ends the study stores the certificate too. A step that fails pauses the study, with the reason. A
    guardrail's finding is a separate step, taken before the policy's step. At stage `running`, only guardrails'
    findings are recorded.
    """

    def look(transaction: Transaction) -> tuple[StudyRow, _Step] | None:
        row = studies.get(transaction, study)
        if row is None or row.stage not in (Stage.CLOSING, Stage.RUNNING):
            return None
        if row.stage is Stage.RUNNING and not _guards(transaction, study):
            return None
        loaded = _attempt(lambda: _Step(trial=load_trial(transaction, row)))
        quiet = loaded.trial is None or loaded.trial.finding is None
        return None if row.stage is Stage.RUNNING and quiet else (row, loaded)

    found = storage.read(look)
    if found is None:
        return None
    prepared = _prepared(storage, found[0], _computed(found[1]), at)
    sys.audit("parley.reached", "step-computed")
    return storage.change(lambda transaction: store_prepared(transaction, prepared), study=study)


def _prepared(storage: Storage, seen: StudyRow, taken: _Step, at: str) -> Prepared:
    trial, step = taken.trial, taken.step
    if trial is not None and taken.found is not None:
        return _prepared_finding(storage, seen, trial, taken.found, at)
    if trial is None or step is None:
        return prepare(seen, StepFailed(phase=seen.phase, error=taken.failure), actor=COORDINATOR, at=at)
    state, after = canonical(step.state.to_json()), trial.close(step)
    prepared = prepare(seen, step.event, actor=COORDINATOR, at=at, states={"state": state})
    return with_certificate(storage, prepared, after) if after.stage in OVER else prepared


def _prepared_finding(
    storage: Storage, seen: StudyRow, trial: Trial, found: Anew | GuardrailNoted, at: str
) -> Prepared:
    """Prepare the events of a guardrail's finding: a note, or a stopped arm, which may end the study."""
    if isinstance(found, GuardrailNoted):
        return prepare(seen, found, actor=COORDINATOR, at=at)
    assert found.finding is not None
    event = found.event(str(found.finding.reason), "")
    start = canonical(found.trial.policy.start().to_json())
    states = {"state": start, "states": [canonical(state.to_json()) for state in found.states]}
    prepared, after = prepare(seen, event, actor=COORDINATOR, at=at, states=states), apply(trial, event)
    return with_certificate(storage, prepared, after) if after.stage in OVER else prepared


class Closer:
    """A thread that takes due steps, including steps that another process did not finish.

    It looks for due steps when called, and every `MOMENT` seconds. The database alone determines which steps are due.
    """

    _notify: Callable[[StudyRow], None]

    def __init__(self, storage: Storage, clock: Clock, metrics: Metrics) -> None:
        self._storage, self._clock, self._metrics = storage, clock, metrics
        self._call, self._stopped, self._lock = threading.Event(), False, threading.Lock()
        self._reported: set[str] | None = None  # running studies with new reports; None: check all running studies
        self._unguarded: set[str] = set()  # studies known to have no guardrails
        self._thread = threading.Thread(target=self._run, name="closer", daemon=True)

    def start(self, notify: Callable[[StudyRow], None]) -> None:
        """Start the thread, which first takes the steps that are due now. It calls `notify` after every step."""
        self._notify = notify
        self._thread.start()

    def stop(self) -> None:
        """Finish the step in progress, and stop the thread."""
        self._stopped = True
        self._call.set()
        self._thread.join()

    def call(self) -> None:
        """Wake the thread, because a step may be due."""
        self._call.set()

    def reported(self, study: str) -> None:
        """Note that a running study has new reports, so that the thread checks its guardrails."""
        if study in self._unguarded:
            return
        with self._lock:
            if self._reported is not None:
                self._reported.add(study)
        self._call.set()

    def _run(self) -> None:
        while not self._stopped:
            for study in self._due():
                if self._stopped:
                    return
                self._close(study)
            self._call.wait(MOMENT)
            self._call.clear()

    def _due(self) -> list[str]:
        try:
            with self._lock:
                reported, self._reported = self._reported, set()
            running = self._storage.read(running_studies) if reported is None else sorted(reported)
            return [*self._storage.read(closing_studies), *filter(self._guarded, running)]
        except StorageUnavailable as error:
            logger.warning("cannot look for phases to close", error=str(error))
        except Exception:  # only this thread closes phases, so it must survive any error
            logger.exception("cannot look for phases to close")
        self._reported = None  # after a failure all running studies are checked, so that no report is missed
        return []

    def _guarded(self, study: str) -> bool:
        """Whether a study has a guardrail, which never changes; the answer is cached if it has none."""
        if study not in self._unguarded and not self._storage.read(lambda transaction: _guards(transaction, study)):
            self._unguarded.add(study)
        return study not in self._unguarded

    def _close(self, study: str) -> None:
        """Take all due steps of one study; errors are only logged, so that they do not delay other studies."""
        try:
            while not self._stopped:
                begun, at = perf_counter(), self._clock()
                row = take_step(self._storage, study, at)
                if row is None:
                    return
                self._metrics.steps.observe(perf_counter() - begun)
                # Any other step decides no phase: it is a guardrail's finding, or a failure that paused the study.
                if row.stage in OVER or row.opened_at == at:
                    self._metrics.phases.inc()
                logger.info("step taken", study=study, stage=str(row.stage), phase=row.phase)
                self._notify(row)
        except StorageUnavailable as error:
            logger.warning("cannot close a phase", study=study, error=str(error))
        except Exception:
            logger.exception("a phase was not closed, or nobody was told of it", study=study)
