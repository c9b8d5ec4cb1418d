"""The table of operations, with one row per operation of the API. Routing, guard and OpenAPI are made from it.

`parley.service.forecasts` adds two operations that run simulations; the coordinator itself must never simulate.
Edges add their own operations.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from parley import __version__
from parley.coordinator import answers
from parley.coordinator.access.tokens import ADMINS, AGENTS, EVERYONE, INSPECTORS, PLANNERS, READERS, UNBLINDED, Role
from parley.coordinator.http import schemas
from parley.coordinator.http.context import Place
from parley.coordinator.http.guard import Operation
from parley.coordinator.http.routes import access, agents, health, studies
from parley.coordinator.http.routes import administration as admin
from parley.coordinator.problems import Problem
from parley.protocol import Certificate, Decision, Plan, Receipt, Report, StudyMessage
from parley.protocol.acts import ACTS
from parley.web.openapi import Service

STUDY = "/v1/studies/{study}"
AGENT = STUDY + "/agents/{agent}"
PHASE = STUDY + "/phases/{phase}"
REPORT = PHASE + "/reports/{agent}"
STREAM = "text/event-stream"
RECEIPT = {"Parley-Receipt": "The last receipt held: <sequence>:<head>"}
REFUSED = {409: "Another report was accepted, wrong plan, closed or future phase, paused.", 422: "It cannot be true."}


def _row(method: str, path: str, handler: Any, roles: frozenset[Role] = frozenset(), **more: Any) -> Operation:
    return Operation(method=method, path=path, handler=handler, roles=roles, **more)


def _acts() -> Iterator[Operation]:
    """For every act, the operation that previews it, if it has a preview, and the operation that performs it."""
    for act in ACTS.values():
        path, preview = f"{STUDY}/{act.path}", act.preview
        if preview is not None:
            method, below = ("GET", "") if preview.body is None else ("POST", "/preview")
            yield _row(
                method, path + below, admin.preview_handler(act), PLANNERS, body=preview.body,
                answer=answers.PREVIEWED[preview.kind], results=preview.results, report=act.of_report,
            )  # fmt: skip
        roles = READERS if act.who == "readers" else ADMINS
        yield _row(
            "POST", path, admin.act_handler(act), roles, body=act.body, answer=answers.StudyLine, report=act.of_report
        )


def _results(path: str, handler: Any, answer: Any, roles: frozenset[Role] = UNBLINDED, **more: Any) -> Operation:
    """Make the row of an operation that reads results; by default, viewers may not call it."""
    return _row("GET", path, handler, roles, answer=answer, results=True, **more)


def _tagged(tag: str, *rows: Operation) -> tuple[Operation, ...]:
    return tuple(replace(row, tag=tag) for row in rows)


# Method, path, handler, roles; then query, body, answer and anything special. The operations of agents come first.
OPERATIONS: tuple[Operation, ...] = (
    *_tagged(
        "agents",
        _row(
            "GET", AGENT + "/plan", agents.get_agent_plan, AGENTS | UNBLINDED,
            query=schemas.PlanQuery, answer=answers.AgentAssignment, patient=True, results=True,
        ),
        _row(
            "PUT", REPORT, agents.put_report, AGENTS,
            body=Report, answer=Receipt, report=True, headers=RECEIPT, also={201: "Taken: the receipt."} | REFUSED,
        ),
        _results(REPORT, agents.get_report, answers.ReportOfAgent, AGENTS | UNBLINDED, sums=True),
        _results(PHASE + "/reports", agents.list_reports, answers.Reports),
    ),
    *_tagged(
        "studies",
        _row("GET", "/v1/studies", studies.list_studies, READERS, query=schemas.StudiesQuery, answer=answers.Studies),
        _row(
            "POST", "/v1/studies", studies.create_study, ADMINS,
            body=schemas.NewStudyBody, answer=answers.StudyLine, status=201, large=True,
        ),
        _row("GET", "/v1/events", studies.follow_studies, READERS, media_type=STREAM),
        _row("GET", STUDY, studies.get_study, EVERYONE, answer=answers.StudyStatus),
        _row("GET", STUDY + "/document", studies.get_document, EVERYONE, answer=StudyMessage),
        _results(STUDY + "/board", studies.get_board, answers.Board, READERS, query=schemas.SomeAgents),
        _results(STUDY + "/history", studies.get_history, answers.History, READERS, query=schemas.HistoryQuery),
        _results(STUDY + "/findings", studies.get_findings, answers.Findings, query=schemas.FindingsQuery),
        _results(STUDY + "/sensitivity", studies.get_sensitivity, answers.Sensitivities, query=schemas.SomeAgents),
        _results(STUDY + "/conduct", studies.get_conduct, answers.Conduct, query=schemas.SomeAgents),
        _results(PHASE + "/plan", studies.get_plan, Plan, AGENTS | UNBLINDED),
        _results(PHASE + "/decision", studies.get_decision, Decision),
        _results(STUDY + "/certificate", studies.get_certificate, Certificate),
        _row("GET", STUDY + "/events", studies.follow_study, READERS, media_type=STREAM),
    ),
    *_tagged(
        "oversight",
        *_acts(),
        _results(STUDY + "/quarantine", admin.list_quarantine, answers.Quarantine, query=schemas.QuarantineQuery),
        _results(STUDY + "/corrections", admin.list_corrections, answers.Corrections),
        _row("GET", STUDY + "/signatures", admin.list_signatures, READERS, answer=answers.Signatures),
        _results(STUDY + "/log", admin.get_log, answers.LogPage, INSPECTORS, query=schemas.StudyLogQuery),
        _row("GET", STUDY + "/export", admin.export_log, INSPECTORS, media_type="application/x-ndjson", results=True),
        _row("POST", STUDY + "/verify", admin.verify_study, UNBLINDED, answer=answers.Verified),
        _row(
            "GET", "/v1/log", admin.get_server_log, INSPECTORS,
            query=schemas.LogQuery, answer=answers.LogPage, server_wide=True,
        ),
    ),
    *_tagged(
        "tokens",
        _row("GET", "/v1/whoami", access.whoami, EVERYONE, answer=answers.Who),
        _row("GET", "/v1/tokens", access.list_tokens, ADMINS, query=schemas.TokensQuery, answer=answers.Tokens),
        _row(
            "POST", "/v1/tokens", access.issue_token, ADMINS,
            body=schemas.TokenBody, answer=answers.IssuedToken, status=201, secret=True,
        ),
        _row("DELETE", "/v1/tokens/{kid}", access.revoke_token, ADMINS, answer=answers.RevokedToken),
        _row(
            "POST", "/v1/sessions", access.open_session, READERS,
            answer=answers.SessionOpened, status=201, secret=True,
        ),
        _row("DELETE", "/v1/sessions", access.end_session, READERS, answer=answers.SessionEnd),
    ),
    *_tagged(
        "health",
        _row("GET", "/healthz", health.healthz, public=True, answer=answers.Health),
        _row("GET", "/readyz", health.readyz, public=True, answer=answers.Ready),
        _row("GET", "/metrics", health.metrics, public=True, media_type="text/plain"),
        _row("GET", "/v1/openapi.json", health.openapi, public=True, hidden=True),
    ),
)  # fmt: skip

COORDINATOR = Service(
    title="Parley coordinator",
    version=__version__,
    description="""Runs live studies: publishes plans, takes reports exactly once, decides, and keeps a log that can be
verified. Every refusal is `application/problem+json` (RFC 9457) with a stable `type` and `retry`, which says whether
the same request may succeed later.""",
    security={
        "token": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer parley_<kid>_<secret>`."},
        "session": {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Authorization: Session <session>`, as opened by `POST /v1/sessions`.",
        },
    },
    problem=Problem,
    place=Place,
)
