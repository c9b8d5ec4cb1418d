"""Reports that are not counted: what was put aside or is held, and what an administrator makes of it."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.coordinator.answers.reports import Aside, Quarantine
from parley.coordinator.answers.studies import StudyLine
from parley.coordinator.http.context import context_of, principal_of
from parley.coordinator.http.operations import operations
from parley.coordinator.http.routes.oversight import act
from parley.coordinator.http.schemas import PAGE, AmendBody, Limit, PathPhase, RefuseBody, Sequence
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import held_now, require_study
from parley.coordinator.record import Transaction, reports
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies import acts

__all__ = ["router"]

router = operations("oversight", prefix="/v1/studies/{study}")


@router.get("/quarantine", response_model=Quarantine)
async def list_quarantine(
    request: Request, study: str, after: Sequence = 0, limit: Limit = 100, held: bool = False
) -> Response:
    """Reports that came for a taken place, and those that are or were held; `after` continues. `held`: what waits."""

    def work(connection: Transaction) -> Quarantine:
        waits = {one.digest for one in held_now(connection, require_study(connection, study)).values()}
        only = waits if held else None
        found, following = reports.quarantined(connection, study, after=after, limit=limit, size=PAGE, only=only)
        told = [
            Aside(
                report=aside.report.to_json(),
                digest=aside.report.digest,
                stands=aside.stands,
                why=aside.why,
                refused=aside.refused,
                held=aside.report.digest in waits,
                at=aside.at,
                sequence=aside.sequence,
            )
            for aside in found
        ]
        return Quarantine(study=study, quarantine=told, next=following)

    return await context_of(request).answer(work, to=principal_of(request))


@router.post("/phases/{phase}/reports/{agent}/amend", response_model=StudyLine)
async def amend_report(request: Request, study: str, phase: PathPhase, agent: str, body: AmendBody) -> JSONResponse:
    """Put another report in the place of an accepted or held one, while its phase is in progress. Both are kept."""
    report = body.report.message()
    if (report.study, report.phase, report.agent) != (study, phase, agent):
        raise Refusal("invalid-request", "study, phase and agent of the report are not those of the address")

    def work(connection: Transaction, by: str, at: str) -> StudyRow:
        return acts.amend_report(connection, report, body.reason, actor=by, at=at)[0]

    return await act(request, work)


@router.post("/phases/{phase}/reports/{agent}/refuse", response_model=StudyLine)
async def refuse_report(request: Request, study: str, phase: PathPhase, agent: str, body: RefuseBody) -> JSONResponse:
    """Refuse a report that is held, since the stated model rules out a mean of it: the agent is asked for another."""
    refuse = partial(acts.refuse_report, study=study, phase=phase, agent=agent, digest=body.report, reason=body.reason)
    return await act(request, lambda c, by, at: refuse(c, actor=by, at=at))
