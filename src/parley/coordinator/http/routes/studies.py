"""Studies: list, create, look at."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.coordinator.access.tokens import Role
from parley.coordinator.answers.base import answered
from parley.coordinator.answers.findings import Findings
from parley.coordinator.answers.progress import Board, History
from parley.coordinator.answers.studies import ListedStudy, Studies, StudyLine, StudyStatus, Who
from parley.coordinator.http.context import context_of, principal_of, told, visibility_of
from parley.coordinator.http.operations import operations
from parley.coordinator.http.schemas import LARGEST_PHASE, NewStudyBody, PathPhase
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.findings import findings
from parley.coordinator.reading.progress import Columns, board, history
from parley.coordinator.reading.studies import pulse, require_study, status
from parley.coordinator.record import Transaction, phases, studies
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.acts import create_study as store_study
from parley.coordinator.studies.acts import prepare_study, suggest_id
from parley.errors import InvalidInput
from parley.protocol import Stage, StudyMessage, Trial

__all__ = ["First", "Some", "read_study", "router"]

router = operations("studies")

MOST_NUMBERS = 1_000_000  # pairs of arm and agent in one answer, over its phases
MOST_CELLS = 10_000  # pairs of arm and agent whose intervals are worked out for one answer
First = Annotated[int, Query(ge=0, le=1_000_000, description="The place of the first agent to tell of.")]
Some = Annotated[int, Query(ge=1, le=2000, description="Of how many agents to tell.")]


@router.get("/whoami", response_model=Who)
async def whoami(request: Request) -> JSONResponse:
    """Role and scope of the token."""
    who = principal_of(request)
    return answered(
        Who(
            kid=who.kid,
            role=str(who.role),
            principal=who.name,
            study=who.study,
            agent=who.agent,
            blinded=who.role is Role.VIEWER,
        )
    )


@router.get("/studies", response_model=Studies)
async def list_studies(
    request: Request,
    search: Annotated[str, Query(max_length=100)] = "",
    stage: Stage | None = None,
    after: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> JSONResponse:
    """Studies by id; `search` looks into names and ids, `after` continues a list."""
    only = principal_of(request).study

    def work(connection: Transaction) -> tuple[list[ListedStudy], tuple[int, int]]:
        found = studies.find(connection, search=search, stage=stage, only=only, after=after, limit=limit)
        asked, reported = phases.reports_due(connection, [row.id for row in found])
        listed = [
            ListedStudy(**vars(told(request, row)), asked=asked.get(row.id, 0), reported=reported.get(row.id, 0))
            for row in found
        ]
        return listed, pulse(connection, only)

    listed, beat = await context_of(request).read(work)
    version = context_of(request).etags.of(only, *beat)
    following = listed[-1].id if len(listed) == limit else None
    return answered(Studies(studies=listed, next=following, version=version))


@router.post("/studies", status_code=201, response_model=StudyLine)
async def create_study(request: Request, body: NewStudyBody) -> JSONResponse:
    """Create a study and open its first phase. The document is a study file's content with the weights as a matrix."""
    context, by = context_of(request), principal_of(request)
    trial = await context.heavy.run(by.kid, partial(_prepare, body, context.settings))
    row = await context.change(
        lambda connection: store_study(connection, trial, actor=by.name, at=context.clock()), by=by
    )
    context.changed(row)
    return answered(told(request, row), 201)


def _prepare(body: NewStudyBody, settings: ServerSettings) -> Trial:
    study = read_study(body, settings)
    return prepare_study(body.id if body.id is not None else suggest_id(study.name), study)


def read_study(body: NewStudyBody, settings: ServerSettings) -> StudyMessage:
    """The study that a body describes, if it can be run here."""
    document = body.study
    agents, arms = document.get("agents"), document.get("arms")
    if isinstance(agents, list) and isinstance(arms, list):
        cells = len(agents) * len(arms)
        if len(agents) > settings.max_agents or cells > settings.max_cells:
            raise Refusal(
                "invalid-study",
                f"{len(arms)} arms x {len(agents)} agents: at most {settings.max_agents} agents and "
                f"{settings.max_cells} cells are allowed here",
            )
    try:
        return StudyMessage.from_json({"schema": StudyMessage.schema, **document})
    except InvalidInput as error:
        raise Refusal("invalid-study", str(error)[:400]) from None


@router.get("/studies/{study}", response_model=StudyStatus)
async def get_study(request: Request, study: str) -> Response:
    """Where a study is, whom it waits for and since when."""
    visibility, etags = visibility_of(request), context_of(request).etags
    return await context_of(request).answer(
        lambda connection: status(connection, require_study(connection, study), visibility, etags),
        to=principal_of(request),
    )


@router.get("/studies/{study}/document")
async def get_document(request: Request, study: str) -> Response:
    """The study as it is asked now: canonical JSON, whose SHA-256 is the study's digest."""

    def work(connection: Transaction) -> str:
        return studies.message(connection, require_study(connection, study)).text

    return await context_of(request).answer(work, to=principal_of(request))


@router.get("/studies/{study}/board", response_model=Board)
async def get_board(request: Request, study: str, first: First = 0, columns: Some = 2000) -> Response:
    """Arm x agent: candidates, when others were ruled out, answers, draws so far and planned; of some agents only,
    from the `first` on. Blinded, what is told of single arms is null."""
    blinded = principal_of(request).role is Role.VIEWER

    def work(connection: Transaction) -> Board:
        row = require_study(connection, study)
        return board(connection, row, columns=Columns(first=first, limit=columns), blinded=blinded)

    return await context_of(request).answer(work, to=principal_of(request))


@router.get("/studies/{study}/history", response_model=History)
async def get_history(
    request: Request,
    study: str,
    after: Annotated[int, Query(ge=0, le=LARGEST_PHASE)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    first: First = 0,
    columns: Some = 2000,
    explain: Annotated[bool, Query(description="With means, radii and scores.")] = True,
) -> Response:
    """What every decided phase brought, of some agents: draws and, unless blinded, who is out, means, scores."""
    blinded = principal_of(request).role is Role.VIEWER

    def work(connection: Transaction) -> History:
        row = require_study(connection, study)
        some = Columns(first=first, limit=columns)
        few = min(limit, max(1, MOST_NUMBERS // (row.arms * min(columns, row.agents))))
        return history(connection, row, after=after, limit=few, columns=some, blinded=blinded, explain=explain)

    return await context_of(request).answer(work, to=principal_of(request))


@router.get("/studies/{study}/findings", response_model=Findings)
async def get_findings(
    request: Request,
    study: str,
    phase: Annotated[int | None, Query(ge=0, le=LARGEST_PHASE, description="After it; default: the latest.")] = None,
    first: First = 0,
    columns: Some = 2000,
) -> Response:
    """What the study has found so far: every mean and difference, with intervals that hold jointly at every phase.

    Of large studies an answer has fewer agents than asked for: go on with `first`."""

    def work(connection: Transaction) -> Findings:
        row = require_study(connection, study)
        few = min(columns, max(1, MOST_CELLS // row.arms))
        return findings(connection, row, columns=Columns(first=first, limit=few), phase=phase)

    return await context_of(request).answer(work, to=principal_of(request))


@router.get("/studies/{study}/phases/{phase}/plan")
async def get_plan(request: Request, study: str, phase: PathPhase) -> Response:
    """The whole plan of a phase, every agent's draws."""

    def work(connection: Transaction) -> str:
        plan = phases.plan_of(connection, require_study(connection, study).id, phase)
        if plan is None:
            raise Refusal("not-found", f"phase {phase} has no plan")
        return plan.text

    return await context_of(request).answer(work, to=principal_of(request))


@router.get("/studies/{study}/phases/{phase}/decision")
async def get_decision(request: Request, study: str, phase: PathPhase) -> Response:
    """What a phase decided, and from which data."""

    def work(connection: Transaction) -> str:
        found = phases.phase_row(connection, require_study(connection, study).id, phase)
        if found is None or found.decision is None:
            raise Refusal("not-found", f"phase {phase} has no decision")
        return str(found.decision)

    return await context_of(request).answer(work, to=principal_of(request))


@router.get("/studies/{study}/certificate")
async def get_certificate(request: Request, study: str) -> Response:
    """The certificate, once the study is over."""

    def work(connection: Transaction) -> str:
        text = studies.certificate_of(connection, require_study(connection, study).id)
        if text is None:
            raise Refusal("not-found", "the study is not over: there is no certificate yet")
        return text

    return await context_of(request).answer(work, to=principal_of(request))
