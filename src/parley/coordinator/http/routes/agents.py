"""Operations for agents: the plan to draw, the report to send, the receipt to keep."""

import re
from functools import partial
from time import monotonic

from starlette.responses import Response

from parley.coordinator.access.tokens import INSPECTORS
from parley.coordinator.answers import AgentAssignment, ReportOfAgent, Reports
from parley.coordinator.http.context import Call, Context
from parley.coordinator.http.guard import encoded, record_read
from parley.coordinator.http.schemas import PlanQuery
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import agent_assignment, report_of_agent, reports_of_phase
from parley.coordinator.record import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies.phases import Accepted, take_report
from parley.protocol import Report, Stage
from parley.protocol.codec import LARGEST_INTEGER

IN_PROGRESS = (Stage.RUNNING, Stage.CLOSING, Stage.PAUSED)
RECEIPT = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})")


def known_receipt(text: str | None) -> tuple[int, str] | None:
    """Parse the header `Parley-Receipt: <sequence>:<head>`.

    >>> known_receipt("12:" + "a" * 64)[0]
    12
    """
    if text is None:
        return None
    form = RECEIPT.fullmatch(text)
    if form is None or int(form[1]) > LARGEST_INTEGER:
        raise Refusal(
            "invalid-request", "Parley-Receipt is <sequence>:<head>, a number up to 2^53 and 64 hexadecimal digits"
        )
    return int(form[1]), form[2]


async def get_agent_plan(call: Call[PlanQuery, None]) -> AgentAssignment:
    """An agent's planned draws in the current phase.

    With `wait`, the answer comes once the study has left phase `after`, or when the time is up. A site may also send
    its progress, and an `objection` if its own policy does not allow the draws; no decision depends on these.
    """
    context, query, agent = call.context, call.query, call.at.agent
    look, until = partial(agent_assignment, study=call.study, agent=agent), monotonic() + query.wait
    row, found = await context.read(look)
    if call.by.agent == agent:  # others may read the plan, but only the agent itself speaks for its site
        said, key = context.storage.cache.said, (call.study, agent, row.phase)
        if query.during == row.phase:
            said.put(key, (query.recruited, query.observed, query.objection, query.unmasked))
        # A call without progress keeps the numbers, but an objection that is not repeated counts as withdrawn.
        elif (before := said.get(key)) is not None and before[2]:
            said.put(key, (*before[:2], "", before[3]))
    while row.phase <= query.after and row.stage in IN_PROGRESS and await _moved(context, row, query.after, until):
        row, found = await context.read(look)
    return found


async def _moved(context: Context, row: StudyRow, after: int, until: float) -> bool:
    """Wait until the study leaves the phase, whatever reports arrive meanwhile; False if time is up first."""
    sequence = row.sequence
    while (left := until - monotonic()) > 0:
        glance = await context.watch.next(row.id, sequence, left)
        if glance is None:
            return False
        sequence = glance.sequence
        if glance.phase > after or glance.stage not in IN_PROGRESS:
            return True
    return False


async def put_report(call: Call[None, Report]) -> Response:
    """Send the report of a phase. The first call returns the receipt with 201; a repeated call returns it with 200."""
    context, by, at = call.context, call.by.name, call.at
    report, known = call.body, known_receipt(call.headers.get("parley-receipt"))
    if (report.study, report.phase, report.agent) != (at.study, at.phase, at.agent):
        raise Refusal("invalid-request", "study, phase and agent of the body are not those of the address")

    def work(transaction: Transaction) -> Accepted | Refusal:
        return take_report(transaction, report, actor=by, at=context.clock(), known=known)

    try:
        accepted: Accepted = await call.change(work, study=call.study)
    except Refusal as refusal:  # the metric does not say why: viewers may not know that a report is held
        context.metrics.reports.labels("refused").inc()
        if refusal.slug == "report-conflict":
            # This refusal counts as a read of results: a guess that is refused is wrong, and the digest in the refusal
            # confirms the right one.
            await record_read(call, "put_report")
        raise
    context.metrics.reports.labels("repeated" if accepted.repeated else "accepted").inc()
    await context.decided(accepted.row)
    status = 200 if accepted.repeated else 201
    return Response(encoded(accepted.receipt), status, media_type="application/json")


async def get_report(call: Call[None, None]) -> ReportOfAgent:
    """An agent's report that counts in a phase, its receipt, and earlier revisions if it was amended.

    The agent itself, and readers of the log, also get the salt of the report's record: recomputing the head needs it.
    """
    at, salted = call.at, call.by.agent == call.at.agent or call.by.role in INSPECTORS
    return await call.about(partial(report_of_agent, phase=at.phase, agent=at.agent, salted=salted))


async def list_reports(call: Call[None, None]) -> Reports:
    """List all reports that count in a phase."""
    return await call.about(partial(reports_of_phase, phase=call.at.phase))
