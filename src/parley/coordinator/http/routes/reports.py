"""What agents use: the plan to draw, the report to send, the receipt to keep."""

from __future__ import annotations

import re
from time import monotonic
from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.coordinator.access.rights import INSPECTORS
from parley.coordinator.answers.base import answered
from parley.coordinator.answers.reports import (
    AgentTurn,
    ReportOfAgent,
    Reports,
    SaltedReport,
    TakenReport,
)
from parley.coordinator.http.context import Context, context_of, principal_of
from parley.coordinator.http.operations import operations
from parley.coordinator.http.schemas import (
    LARGEST_PHASE,
    PathPhase,
    ProblemView,
    ReceiptView,
    ReportBody,
)
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import require_study
from parley.coordinator.record import Transaction, ledger, phases, reports, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies.reports import Accepted, take_report
from parley.protocol import Stage
from parley.protocol.codec import LARGEST_INTEGER

__all__ = ["router"]

router = operations("agents", prefix="/v1/studies/{study}")

LONGEST_WAIT = 60
IN_PROGRESS = (Stage.RUNNING, Stage.CLOSING, Stage.PAUSED)
RECEIPT = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})")


def known_receipt(text: str | None) -> tuple[int, str] | None:
    """The header `Parley-Receipt: <sequence>:<head>`.

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


@router.get("/agents/{agent}/plan", response_model=AgentTurn)
async def get_agent_plan(
    request: Request,
    study: str,
    agent: str,
    after: Annotated[int, Query(ge=0, le=LARGEST_PHASE, description="The last phase the agent has reported.")] = 0,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for a later phase.")] = 0,
    during: Annotated[int, Query(ge=0, le=LARGEST_PHASE, description="The phase of the next two.")] = 0,
    recruited: Annotated[int, Query(ge=0, le=LARGEST_INTEGER, description="People assigned in it so far.")] = 0,
    observed: Annotated[int, Query(ge=0, le=LARGEST_INTEGER, description="Of them with an outcome.")] = 0,
) -> JSONResponse:
    """What an agent is asked to draw now. With `wait`, answers when the study moves past phase `after`, or in time.

    A site may say how far it is; nothing is decided by that.
    """
    context, until = context_of(request), monotonic() + wait
    row, found = await context.glance(lambda connection: _agent_plan(connection, study, agent))
    if during == row.phase and principal_of(request).agent == agent:
        said = (recruited, observed)
        await context.glance(lambda connection: connection.cache.recruited.put((study, agent, during), said))
    while row.phase <= after and row.stage in IN_PROGRESS and await _moved(context, row, after, until):
        row, found = await context.glance(lambda connection: _agent_plan(connection, study, agent))
    return answered(found)


async def _moved(context: Context, row: StudyRow, after: int, until: float) -> bool:
    """Wait until the study leaves the phase, however many reports come meanwhile; False when time is up."""
    sequence = row.sequence
    while (left := until - monotonic()) > 0:
        glance = await context.watch.next(row.id, sequence, left)
        if glance is None:
            return False
        sequence = glance.sequence
        if glance.phase > after or glance.stage not in IN_PROGRESS:
            return True
    return False


def _agent_plan(connection: Transaction, study: str, agent: str) -> tuple[StudyRow, AgentTurn]:
    turn = phases.turn_of(connection, study, agent)
    if turn is None:
        raise Refusal("not-found", f"no study {study!r}")
    row = turn.row
    message = studies.message(connection, row)
    if agent not in message.agents:
        raise Refusal("not-found", f"no agent {agent!r} in {study!r}")
    return row, AgentTurn(
        study=study,
        agent=agent,
        stage=str(row.stage),
        reason=row.reason,
        phase=row.phase,
        plan=turn.plan,
        arms=list(message.arms),
        draws=list(turn.draws) if turn.draws is not None and not turn.frozen else None,
        reported=turn.reported,
        frozen=turn.frozen,
    )


@router.put(
    "/phases/{phase}/reports/{agent}",
    response_model=ReceiptView,
    responses={
        201: {"model": ReceiptView, "description": "Taken: the receipt."},
        409: {
            "model": ProblemView,
            "description": "Another report stands, wrong plan, closed or future phase, paused.",
        },
        422: {"model": ProblemView, "description": "A report that cannot be true."},
    },
)
async def put_report(
    request: Request,
    study: str,
    phase: PathPhase,
    agent: str,
    body: ReportBody,
    parley_receipt: Annotated[str | None, Header(description="The last receipt held: <sequence>:<head>")] = None,
) -> JSONResponse:
    """Report a phase. The same body again, at any time, gives the first receipt (200); the first time gives 201."""
    if (body.study, body.phase, body.agent) != (study, phase, agent):
        raise Refusal("invalid-request", "study, phase and agent of the body are not those of the address")
    context, by = context_of(request), principal_of(request)
    report, known = body.message(), known_receipt(parley_receipt)

    def work(connection: Transaction) -> Accepted | Refusal:
        return take_report(connection, report, actor=by.name, at=context.clock(), known=known)

    try:
        accepted: Accepted = await context.change(work, by=by, study=study)
    except Refusal as refusal:
        context.metrics.reports.labels(refusal.slug).inc()
        raise
    context.metrics.reports.labels("repeated" if accepted.repeated else "accepted").inc()
    context.changed(accepted.row)
    if not accepted.repeated and accepted.row.phase > phase:
        context.metrics.phases.inc()
    return JSONResponse(accepted.receipt.to_json(), status_code=200 if accepted.repeated else 201)


@router.get("/phases/{phase}/reports/{agent}", response_model=ReportOfAgent)
async def get_report(request: Request, study: str, phase: PathPhase, agent: str) -> Response:
    """The report that counts, its receipt, and earlier revisions if it was amended.

    With the salt of its record, for the agent itself and for those who may read the log: with it the head can be
    computed again.
    """
    who = principal_of(request)
    salted = who.agent == agent or who.role in INSPECTORS

    def work(connection: Transaction) -> ReportOfAgent:
        require_study(connection, study)
        found = reports.revisions(connection, study, phase, agent)
        if not found:
            raise Refusal("not-found", f"no report of {agent!r} in phase {phase}")
        shown = [
            SaltedReport(
                **vars(_taken(taken)),
                salt=ledger.salt_of(connection, study, taken.receipt.sequence) if salted else None,
            )
            for taken in found
        ]
        return ReportOfAgent(**vars(shown[-1]), earlier=shown[:-1])

    return await context_of(request).answer(work, to=who)


@router.get("/phases/{phase}/reports", response_model=Reports)
async def list_reports(request: Request, study: str, phase: PathPhase) -> Response:
    """Every report of a phase that counts."""

    def work(connection: Transaction) -> Reports:
        require_study(connection, study)
        found = [_taken(taken) for _, taken in sorted(reports.of_phase(connection, study, phase).items())]
        return Reports(study=study, phase=phase, reports=found)

    return await context_of(request).answer(work, to=principal_of(request))


def _taken(taken: reports.Taken) -> TakenReport:
    report, receipt = taken.report.to_json(), taken.receipt.to_json()
    return TakenReport(report=report, revision=taken.revision, at=taken.at, receipt=receipt)
