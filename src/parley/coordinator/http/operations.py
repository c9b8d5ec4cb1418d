"""The table of operations: a row for each thing that the API does. Routing, guard and OpenAPI come from it.

`service/forecasts.py` adds two rows that simulate, which the coordinator must not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from parley import __version__
from parley.coordinator.access.rights import ADMINS, AGENTS, EVERYONE, INSPECTORS, PLANNERS, READERS, UNBLINDED
from parley.coordinator.answers import (
    AgentTurn,
    Board,
    Findings,
    Health,
    History,
    IssuedToken,
    LogPage,
    PreviewedEarlyClose,
    PreviewedFreeze,
    PreviewedReweigh,
    PreviewedThaw,
    Quarantine,
    Ready,
    ReportOfAgent,
    Reports,
    RevokedToken,
    SessionEnd,
    SessionOpened,
    Studies,
    StudyLine,
    StudyStatus,
    Tokens,
    Verified,
    Who,
)
from parley.coordinator.http.context import Place
from parley.coordinator.http.guard import Operation, parameters_of
from parley.coordinator.http.routes import access, agents, audit, health, studies
from parley.coordinator.http.routes import administration as admin
from parley.coordinator.http.schemas import (
    AmendBody,
    ColumnsBody,
    ConfirmBody,
    FindingsQuery,
    FreezeBody,
    HistoryQuery,
    LogQuery,
    NewStudyBody,
    PlanQuery,
    QuarantineQuery,
    ReasonBody,
    RefuseBody,
    ReweighBody,
    SomeAgents,
    StudiesQuery,
    StudyLogQuery,
    TokenBody,
    TokensQuery,
)
from parley.coordinator.problems import MEDIA_TYPE, Problem
from parley.protocol import Receipt, Report

__all__ = ["OPERATIONS", "openapi"]

STUDY = "/v1/studies/{study}"
AGENT = STUDY + "/agents/{agent}"
PHASE = STUDY + "/phases/{phase}"
REPORT = PHASE + "/reports/{agent}"
STREAM = "text/event-stream"
RECEIPT = {"Parley-Receipt": "The last receipt held: <sequence>:<head>"}
REFUSED = {409: "Another report stands, wrong plan, closed or future phase, paused.", 422: "It cannot be true."}


def _row(tag: str, method: str, path: str, handler: Any, roles: frozenset[Any], **more: Any) -> Operation:
    return Operation(tag=tag, method=method, path=path, handler=handler, roles=roles, **more)


# What agents use is found first.
OPERATIONS: tuple[Operation, ...] = (
    _row(
        "agents", "GET", AGENT + "/plan", agents.get_agent_plan, AGENTS | UNBLINDED,
        query=PlanQuery, answer=AgentTurn, patient=True,
    ),
    _row(
        "agents", "PUT", REPORT, agents.put_report, AGENTS,
        body=Report, answer=Receipt, report=True, headers=RECEIPT, also={201: "Taken: the receipt."} | REFUSED,
    ),
    _row("agents", "GET", REPORT, agents.get_report, AGENTS | UNBLINDED, answer=ReportOfAgent),
    _row("agents", "GET", PHASE + "/reports", agents.list_reports, UNBLINDED, answer=Reports),
    _row("studies", "GET", "/v1/studies", studies.list_studies, READERS, query=StudiesQuery, answer=Studies),
    _row(
        "studies", "POST", "/v1/studies", studies.create_study, ADMINS,
        body=NewStudyBody, answer=StudyLine, status=201, large=True,
    ),
    _row("studies", "GET", "/v1/events", studies.follow_studies, READERS, media_type=STREAM),
    _row("studies", "GET", STUDY, studies.get_study, EVERYONE, answer=StudyStatus),
    _row("studies", "GET", STUDY + "/document", studies.get_document, EVERYONE),
    _row("studies", "GET", STUDY + "/board", studies.get_board, READERS, query=SomeAgents, answer=Board),
    _row("studies", "GET", STUDY + "/history", studies.get_history, READERS, query=HistoryQuery, answer=History),
    _row("studies", "GET", STUDY + "/findings", studies.get_findings, UNBLINDED, query=FindingsQuery, answer=Findings),
    _row("studies", "GET", PHASE + "/plan", studies.get_plan, AGENTS | UNBLINDED),
    _row("studies", "GET", PHASE + "/decision", studies.get_decision, UNBLINDED),
    _row("studies", "GET", STUDY + "/certificate", studies.get_certificate, UNBLINDED),
    _row("studies", "GET", STUDY + "/events", studies.follow_study, READERS, media_type=STREAM),
    _row("oversight", "POST", STUDY + "/pause", admin.pause_study, ADMINS, body=ReasonBody, answer=StudyLine),
    _row("oversight", "POST", STUDY + "/resume", admin.resume_study, ADMINS, body=ReasonBody, answer=StudyLine),
    _row("oversight", "POST", STUDY + "/cancel", admin.cancel_study, ADMINS, body=ReasonBody, answer=StudyLine),
    _row("oversight", "GET", PHASE + "/cut", admin.preview_cut, PLANNERS, answer=PreviewedEarlyClose),
    _row("oversight", "POST", PHASE + "/cut", admin.cut_phase, ADMINS, body=ConfirmBody, answer=StudyLine),
    _row("oversight", "GET", AGENT + "/freeze", admin.preview_freeze, PLANNERS, answer=PreviewedFreeze),
    _row("oversight", "POST", AGENT + "/freeze", admin.freeze_agent, ADMINS, body=FreezeBody, answer=StudyLine),
    _row(
        "oversight", "POST", STUDY + "/reweigh/preview", admin.preview_reweigh, PLANNERS,
        body=ColumnsBody, answer=PreviewedReweigh,
    ),
    _row("oversight", "POST", STUDY + "/reweigh", admin.reweigh_study, ADMINS, body=ReweighBody, answer=StudyLine),
    _row("oversight", "GET", AGENT + "/thaw", admin.preview_thaw, PLANNERS, answer=PreviewedThaw),
    _row("oversight", "POST", AGENT + "/thaw", admin.thaw_agent, ADMINS, body=ConfirmBody, answer=StudyLine),
    _row(
        "oversight", "GET", STUDY + "/quarantine", admin.list_quarantine, UNBLINDED,
        query=QuarantineQuery, answer=Quarantine,
    ),
    _row(
        "oversight", "POST", REPORT + "/amend", admin.amend_report, ADMINS,
        body=AmendBody, answer=StudyLine, report=True,
    ),
    _row("oversight", "POST", REPORT + "/refuse", admin.refuse_report, ADMINS, body=RefuseBody, answer=StudyLine),
    _row("oversight", "GET", STUDY + "/log", audit.get_log, INSPECTORS, query=StudyLogQuery, answer=LogPage),
    _row("oversight", "GET", STUDY + "/export", audit.export_log, INSPECTORS, media_type="application/x-ndjson"),
    _row("oversight", "POST", STUDY + "/verify", audit.verify_study, UNBLINDED, answer=Verified),
    _row(
        "oversight", "GET", "/v1/log", audit.get_server_log, INSPECTORS,
        query=LogQuery, answer=LogPage, server_wide=True,
    ),
    _row("tokens", "GET", "/v1/whoami", access.whoami, EVERYONE, answer=Who),
    _row("tokens", "GET", "/v1/tokens", access.list_tokens, ADMINS, query=TokensQuery, answer=Tokens),
    _row("tokens", "POST", "/v1/tokens", access.issue_token, ADMINS, body=TokenBody, answer=IssuedToken, status=201),
    _row("tokens", "DELETE", "/v1/tokens/{kid}", access.revoke_token, ADMINS, answer=RevokedToken),
    _row("tokens", "POST", "/v1/sessions", access.open_session, READERS, answer=SessionOpened, status=201),
    _row("tokens", "DELETE", "/v1/sessions", access.end_session, READERS, answer=SessionEnd),
    Operation(tag="health", method="GET", path="/healthz", handler=health.healthz, public=True, answer=Health),
    Operation(tag="health", method="GET", path="/readyz", handler=health.readyz, public=True, answer=Ready),
    Operation(
        tag="health", method="GET", path="/metrics", handler=health.metrics, public=True, media_type="text/plain"
    ),
    Operation(tag="health", method="GET", path="/v1/openapi.json", handler=health.openapi, public=True, hidden=True),
)  # fmt: skip

DESCRIPTION = """Runs live studies: publishes plans, takes reports exactly once, decides, and keeps a log that can be
verified. Every refusal is `application/problem+json` (RFC 9457) with a stable `type` and `retry`, which says whether
the same request may succeed later."""
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer parley_<kid>_<secret>`."},
    "session": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`Authorization: Session <session>`, as opened by `POST /v1/sessions`.",
    },
}


def openapi(operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI document of these operations.

    >>> openapi(OPERATIONS)["paths"]["/healthz"]["get"]["operationId"]
    'healthz'
    """
    shown = [operation for operation in operations if not operation.hidden]
    named = {kind for operation in shown for kind in (operation.body, operation.answer) if kind is not None}
    _, schemas = msgspec.json.schema_components(
        [Problem, *sorted(named, key=lambda kind: kind.__name__)], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in shown:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Parley coordinator", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": SECURITY},
    }


def _described(operation: Operation) -> dict[str, Any]:
    words = " ".join((operation.handler.__doc__ or "").split())
    answer: dict[str, Any] = {"description": "What was asked for."}
    answer["content"] = {operation.media_type: {"schema": _reference(operation.answer) if operation.answer else {}}}
    problem = {MEDIA_TYPE: {"schema": _reference(Problem)}}
    responses = {str(operation.status): answer}
    for status, said in operation.also.items():
        content = answer["content"] if status < 400 else problem
        responses[str(status)] = {"description": said, "content": content}
    responses["4XX"] = {"description": "Refused, and why.", "content": problem}
    responses["5XX"] = {"description": "Not possible at the moment.", "content": problem}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.name.replace("_", " ").capitalize(),
        "description": words,
        "parameters": list(_parameters(operation)),
        "responses": responses,
        "security": [] if operation.public else [{name: []} for name in SECURITY],
    }
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    place = parameters_of(Place)
    for name in re.findall(r"\{(\w+)\}", operation.path):
        schema = {key: value for key, value in place[name].items() if key != "default"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    if operation.query is not None:
        for name, schema in parameters_of(operation.query).items():
            yield {"name": name, "in": "query", "required": False, "schema": schema}
    for name, words in operation.headers.items():
        yield {"name": name, "in": "header", "required": False, "description": words, "schema": {"type": "string"}}
