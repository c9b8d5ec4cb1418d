"""Taking a report: the one transaction on which every promise rests."""

from dataclasses import dataclass

from parley.coordinator.problems import Refusal
from parley.coordinator.record import ledger, phases, studies
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import enact, locked
from parley.coordinator.studies.phases import close_if_due
from parley.errors import ImpossibleReport
from parley.killpoints import reached
from parley.protocol import TRANSITIONS, Receipt, Report, check_report
from parley.protocol.events import Disputed, ReportAccepted, ReportQuarantined
from parley.protocol.state_machine import still_asked

MOST_ASIDE = 20  # conflicting reports kept for one place; more are refused without a trace of their content


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A receipt, and whether the report had been taken before."""

    receipt: Receipt
    repeated: bool
    row: StudyRow


def take_report(
    transaction: Transaction, report: Report, *, actor: str, at: str, known: tuple[int, str] | None = None
) -> Accepted | Refusal:
    """Take a report exactly once. A returned `Refusal` leaves its trace in the log; a raised one leaves none.

    `known` is the last receipt (sequence, head) the agent holds.
    """
    row = locked(transaction, report.study)
    reached("report-locked")
    if not len(report.counts) == len(report.sums) == row.arms or len(report.squares) not in (0, row.arms):
        # Before anything is computed from it: it may be very long.
        lengths = f"{len(report.counts)} counts, {len(report.sums)} sums, {len(report.squares)} squares"
        raise Refusal("impossible-report", f"report: found {lengths}; allowed: {row.arms} of each, one per arm")
    if known is not None and not ledger.has(transaction, row.id, *known):
        return dispute(transaction, row, report.agent, known, actor=actor, at=at)
    place = phases.free_place(transaction, row, report.agent) if report.phase == row.phase else None
    earlier = () if place else phases.receipts(transaction, report.study, report.phase, report.agent)
    reached("report-looked-up")
    for receipt in earlier:
        if receipt.report == report.digest:
            return Accepted(receipt=receipt, repeated=True, row=row)
    if earlier:
        return _put_aside(transaction, row, report, actor=actor, at=at)
    try:
        row = enact(transaction, row, ReportAccepted(report=report), actor=actor, at=at, place=place)
    except Refusal as refusal:
        if refusal.slug != "report-implausible":
            raise
        return _hold(transaction, row, report, refusal.detail, actor=actor, at=at)
    receipt = Receipt.of(report, sequence=row.sequence, head=row.head)
    return Accepted(receipt=receipt, repeated=False, row=close_if_due(transaction, row, at))


def _hold(transaction: Transaction, row: StudyRow, report: Report, why: str, *, actor: str, at: str) -> Refusal:
    """A report that the stated model rules out: keep it apart, write it down, and wait for an administrator."""
    for one in phases.held(transaction, report.study, report.phase):
        if one.digest == report.digest and one.refused is not None:
            raise Refusal("report-refused", f"{one.refused}. It was refused since {one.why}")
    row = enact(transaction, row, ReportQuarantined(report=report, stands="", why=why), actor=actor, at=at)
    return Refusal("report-held", f"it waits until an administrator takes or refuses it: {why}")


def _put_aside(transaction: Transaction, row: StudyRow, report: Report, *, actor: str, at: str) -> Refusal:
    """Another body for a taken place: keep it apart, write it down, and let the first stand.

    It must be one that could have been taken: what answers another plan, or cannot be true, is refused and not kept.
    """
    standing = phases.standing(transaction, report.study, report.phase, report.agent)
    if report.plan != standing.plan:
        raise Refusal("wrong-plan", "the report names another plan than the one it is for", plan=standing.plan)
    study = studies.message(transaction, row)
    draws = phases.draws_of_many(transaction, row.id, report.phase, [report.agent]).get(report.agent, standing.counts)
    draws = still_asked(report, draws, study.problem, standing.counts)
    try:
        check_report(report, draws, study.problem.noise, study.problem if study.flexible else None)
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None
    aside = phases.set_aside(transaction, report.study, report.phase, report.agent)
    known, full = report.digest in aside, len(aside) >= MOST_ASIDE
    if not known and not full:
        enact(transaction, row, ReportQuarantined(report=report, stands=standing.digest), actor=actor, at=at)
    return Refusal(
        "report-conflict",
        f"phase {report.phase} has a report of {report.agent!r} with other numbers; it stands",
        stands=standing.digest,
        quarantined=known or not full,
    )


def dispute(
    transaction: Transaction, row: StudyRow, agent: str, known: tuple[int, str], *, actor: str, at: str
) -> Refusal:
    """An agent holds a receipt this log lacks: pause a study in progress, once, and say so."""
    if (row.stage, "disputed") in TRANSITIONS:
        enact(transaction, row, Disputed(agent=agent, sequence=known[0], head=known[1]), actor=actor, at=at)
    return Refusal(
        "receipt-unknown",
        f"record {known[0]} of this log has another hash, or is missing: an old backup or a rewritten log",
        sequence=known[0],
    )
