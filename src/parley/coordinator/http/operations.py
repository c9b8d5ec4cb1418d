"""The table of operations: a row for each thing that the API does. Routing, guard and OpenAPI come from it.

`service/app.py` adds two rows that simulate, which the coordinator must not.
"""

from dataclasses import replace
from typing import Any

from parley import __version__
from parley.coordinator import answers
from parley.coordinator.access.tokens import ADMINS, AGENTS, EVERYONE, INSPECTORS, PLANNERS, READERS, UNBLINDED, Role
from parley.coordinator.http import schemas
from parley.coordinator.http.context import Place
from parley.coordinator.http.guard import Operation
from parley.coordinator.http.routes import access, agents, health, studies, webhooks
from parley.coordinator.http.routes import administration as admin
from parley.coordinator.problems import Problem
from parley.openapi import Service
from parley.protocol import Certificate, Decision, Plan, Receipt, Report, Stamp, StudyMessage

STUDY = "/v1/studies/{study}"
AGENT = STUDY + "/agents/{agent}"
ARM = STUDY + "/arms/{arm}"
PHASE = STUDY + "/phases/{phase}"
REPORT = PHASE + "/reports/{agent}"
WEBHOOK = "/v1/webhooks/{webhook}"
STREAM = "text/event-stream"
RECEIPT = {"Parley-Receipt": "The last receipt held: <sequence>:<head>"}
REFUSED = {409: "Another report stands, wrong plan, closed or future phase, paused.", 422: "It cannot be true."}


def _row(method: str, path: str, handler: Any, roles: frozenset[Role] = frozenset(), **more: Any) -> Operation:
    return Operation(method=method, path=path, handler=handler, roles=roles, **more)


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
        _row("GET", REPORT, agents.get_report, AGENTS | UNBLINDED, answer=answers.ReportOfAgent, results=True),
        _row("GET", PHASE + "/reports", agents.list_reports, UNBLINDED, answer=answers.Reports, results=True),
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
        _row(
            "GET", STUDY + "/board", studies.get_board, READERS,
            query=schemas.SomeAgents, answer=answers.Board, results=True,
        ),
        _row(
            "GET", STUDY + "/history", studies.get_history, READERS,
            query=schemas.HistoryQuery, answer=answers.History, results=True,
        ),
        _row(
            "GET", STUDY + "/findings", studies.get_findings, UNBLINDED,
            query=schemas.FindingsQuery, answer=answers.Findings, results=True,
        ),
        _row(
            "GET", STUDY + "/sensitivity", studies.get_sensitivity, UNBLINDED,
            query=schemas.SomeAgents, answer=answers.Sensitivities, results=True,
        ),
        _row(
            "GET", STUDY + "/conduct", studies.get_conduct, UNBLINDED,
            query=schemas.SomeAgents, answer=answers.Conduct, results=True,
        ),
        _row("GET", PHASE + "/plan", studies.get_plan, AGENTS | UNBLINDED, answer=Plan, results=True),
        _row("GET", PHASE + "/decision", studies.get_decision, UNBLINDED, answer=Decision, results=True),
        _row("GET", STUDY + "/certificate", studies.get_certificate, UNBLINDED, answer=Certificate, results=True),
        _row("GET", STUDY + "/events", studies.follow_study, READERS, media_type=STREAM),
    ),
    *_tagged(
        "oversight",
        _row("POST", STUDY + "/pause", admin.pause_study, ADMINS, body=schemas.ReasonBody, answer=answers.StudyLine),
        _row("POST", STUDY + "/resume", admin.resume_study, ADMINS, body=schemas.ReasonBody, answer=answers.StudyLine),
        _row("POST", STUDY + "/cancel", admin.cancel_study, ADMINS, body=schemas.ReasonBody, answer=answers.StudyLine),
        _row("GET", PHASE + "/close-early", admin.preview_early_close, PLANNERS, answer=answers.PreviewedEarlyClose),
        _row(
            "POST", PHASE + "/close-early", admin.close_early, ADMINS,
            body=schemas.ConfirmBody, answer=answers.StudyLine,
        ),
        _row("GET", AGENT + "/freeze", admin.preview_freeze, PLANNERS, answer=answers.PreviewedFreeze, results=True),
        _row("POST", AGENT + "/freeze", admin.freeze_agent, ADMINS, body=schemas.FreezeBody, answer=answers.StudyLine),
        _row(
            "POST", STUDY + "/reweigh/preview", admin.preview_reweigh, PLANNERS,
            body=schemas.ColumnsBody, answer=answers.PreviewedReweigh, results=True,
        ),
        _row(
            "POST", STUDY + "/reweigh", admin.reweigh_study, ADMINS,
            body=schemas.ReweighBody, answer=answers.StudyLine,
        ),
        _row("GET", AGENT + "/thaw", admin.preview_thaw, PLANNERS, answer=answers.PreviewedThaw, results=True),
        _row("POST", AGENT + "/thaw", admin.thaw_agent, ADMINS, body=schemas.ConfirmBody, answer=answers.StudyLine),
        _row("GET", ARM + "/open", admin.preview_open_arm, PLANNERS, answer=answers.PreviewedArm, results=True),
        _row("POST", ARM + "/open", admin.open_arm, ADMINS, body=schemas.ConfirmBody, answer=answers.StudyLine),
        _row("GET", ARM + "/withdraw", admin.preview_withdraw_arm, PLANNERS, answer=answers.PreviewedArm, results=True),
        _row("POST", ARM + "/withdraw", admin.withdraw_arm, ADMINS, body=schemas.ConfirmBody, answer=answers.StudyLine),
        _row(
            "GET", STUDY + "/quarantine", admin.list_quarantine, UNBLINDED,
            query=schemas.QuarantineQuery, answer=answers.Quarantine, results=True,
        ),
        _row(
            "POST", REPORT + "/amend", admin.amend_report, ADMINS,
            body=schemas.AmendBody, answer=answers.StudyLine, report=True,
        ),
        _row(
            "POST", REPORT + "/correct/preview", admin.preview_correction, PLANNERS,
            body=schemas.CorrectionBody, answer=answers.PreviewedCorrection, report=True, results=True,
        ),
        _row(
            "POST", REPORT + "/correct", admin.correct_report, ADMINS,
            body=schemas.CorrectBody, answer=answers.StudyLine, report=True,
        ),
        _row(
            "GET", STUDY + "/corrections", admin.list_corrections, UNBLINDED, answer=answers.Corrections, results=True,
        ),
        _row(
            "POST", REPORT + "/refuse", admin.refuse_report, ADMINS,
            body=schemas.RefuseBody, answer=answers.StudyLine,
        ),
        _row("POST", STUDY + "/signatures", admin.sign_study, READERS, body=schemas.SignBody, answer=answers.StudyLine),
        _row("GET", STUDY + "/signatures", admin.list_signatures, READERS, answer=answers.Signatures),
        _row(
            "GET", STUDY + "/log", admin.get_log, INSPECTORS,
            query=schemas.StudyLogQuery, answer=answers.LogPage, results=True,
        ),
        _row("GET", STUDY + "/export", admin.export_log, INSPECTORS, media_type="application/x-ndjson", results=True),
        _row("POST", STUDY + "/stamps", admin.add_stamp, ADMINS, body=Stamp, answer=Stamp, status=201),
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
        "webhooks",
        _row("GET", "/v1/webhooks", webhooks.list_webhooks, ADMINS, answer=answers.Webhooks),
        _row(
            "POST", "/v1/webhooks", webhooks.add_webhook, ADMINS,
            body=schemas.WebhookBody, answer=answers.NewWebhook, status=201, secret=True,
        ),
        _row("DELETE", WEBHOOK, webhooks.remove_webhook, ADMINS, answer=answers.RemovedWebhook),
        _row("POST", WEBHOOK + "/test", webhooks.test_webhook, ADMINS, answer=answers.TestedWebhook),
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
