"""The table of operations: a row for each thing that the API does. Routing, guard and OpenAPI come from it.

`service.py` adds two rows that simulate, which the coordinator must not.
"""

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
from parley.web.openapi import Service

STUDY = "/v1/studies/{study}"
AGENT = STUDY + "/agents/{agent}"
ARM = STUDY + "/arms/{arm}"
PHASE = STUDY + "/phases/{phase}"
REPORT = PHASE + "/reports/{agent}"
STREAM = "text/event-stream"
RECEIPT = {"Parley-Receipt": "The last receipt held: <sequence>:<head>"}
REFUSED = {409: "Another report stands, wrong plan, closed or future phase, paused.", 422: "It cannot be true."}


def _row(method: str, path: str, handler: Any, roles: frozenset[Role] = frozenset(), **more: Any) -> Operation:
    return Operation(method=method, path=path, handler=handler, roles=roles, **more)


def _act(path: str, handler: Any, body: Any, roles: frozenset[Role] = ADMINS, **more: Any) -> Operation:
    """What changes a study, and answers its line."""
    return _row("POST", path, handler, roles, body=body, answer=answers.StudyLine, **more)


def _preview(path: str, handler: Any, answer: Any, *, results: bool = True, **more: Any) -> Operation:
    """What an act would do; with a body, POST."""
    method = "POST" if "body" in more else "GET"
    return _row(method, path, handler, PLANNERS, answer=answer, results=results, **more)


def _results(path: str, handler: Any, answer: Any, roles: frozenset[Role] = UNBLINDED, **more: Any) -> Operation:
    """What is read of a study that viewers may not see."""
    return _row("GET", path, handler, roles, answer=answer, results=True, **more)


def _tagged(tag: str, *rows: Operation) -> tuple[Operation, ...]:
    return tuple(replace(row, tag=tag) for row in rows)


# Method, path, handler, who may; then query, body, answer and what else is special. What agents use is found first.
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
        _act(STUDY + "/pause", admin.pause_study, schemas.ReasonBody),
        _act(STUDY + "/resume", admin.resume_study, schemas.ReasonBody),
        _act(STUDY + "/cancel", admin.cancel_study, schemas.ReasonBody),
        _preview(PHASE + "/close-early", admin.preview_early_close, answers.PreviewedEarlyClose, results=False),
        _act(PHASE + "/close-early", admin.close_early, schemas.ConfirmBody),
        _preview(AGENT + "/freeze", admin.preview_freeze, answers.PreviewedFreeze),
        _act(AGENT + "/freeze", admin.freeze_agent, schemas.FreezeBody),
        _preview(
            STUDY + "/reweigh/preview", admin.preview_reweigh, answers.PreviewedReweigh, body=schemas.ColumnsBody,
        ),
        _act(STUDY + "/reweigh", admin.reweigh_study, schemas.ReweighBody),
        _preview(AGENT + "/thaw", admin.preview_thaw, answers.PreviewedThaw),
        _act(AGENT + "/thaw", admin.thaw_agent, schemas.ConfirmBody),
        _preview(ARM + "/open", admin.preview_open_arm, answers.PreviewedArm),
        _act(ARM + "/open", admin.open_arm, schemas.ConfirmBody),
        _preview(ARM + "/withdraw", admin.preview_withdraw_arm, answers.PreviewedArm),
        _act(ARM + "/withdraw", admin.withdraw_arm, schemas.ConfirmBody),
        _results(STUDY + "/quarantine", admin.list_quarantine, answers.Quarantine, query=schemas.QuarantineQuery),
        _act(REPORT + "/amend", admin.amend_report, schemas.AmendBody, report=True),
        _preview(
            REPORT + "/correct/preview", admin.preview_correction, answers.PreviewedCorrection,
            body=schemas.CorrectionBody, report=True,
        ),
        _act(REPORT + "/correct", admin.correct_report, schemas.CorrectBody, report=True),
        _results(STUDY + "/corrections", admin.list_corrections, answers.Corrections),
        _act(REPORT + "/refuse", admin.refuse_report, schemas.RefuseBody),
        _act(STUDY + "/signatures", admin.sign_study, schemas.SignBody, READERS),
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
