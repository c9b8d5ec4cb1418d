"""Who may call what: one table, operation -> roles. An operation that is not in it is refused to everybody.

Beyond the role, a token that names a study reaches only that study, and an agent's only its own places in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parley.coordinator.access.tokens import Principal, Role
from parley.coordinator.problems import Refusal

__all__ = ["ACCESS", "PUBLIC", "authorize"]

AGENT, VIEWER, ANALYST, AUDITOR, ADMIN = Role.AGENT, Role.VIEWER, Role.ANALYST, Role.AUDITOR, Role.ADMINISTRATOR
EVERYONE = frozenset(Role)
READERS = frozenset({VIEWER, ANALYST, AUDITOR, ADMIN})
UNBLINDED = frozenset({ANALYST, AUDITOR, ADMIN})
INSPECTORS = frozenset({AUDITOR, ADMIN})
ADMINS = frozenset({ADMIN})

PUBLIC = frozenset({"healthz", "readyz", "metrics", "openapi"})

ACCESS: dict[str, frozenset[Role]] = {
    "whoami": EVERYONE,
    "open_session": READERS,
    "end_session": READERS,
    "list_studies": READERS,
    "create_study": ADMINS,
    "get_study": EVERYONE,
    "get_document": EVERYONE,
    "get_board": READERS,
    "get_history": READERS,
    "get_plan": frozenset({AGENT, *UNBLINDED}),
    "get_agent_plan": frozenset({AGENT, *UNBLINDED}),
    "put_report": frozenset({AGENT}),
    "get_report": frozenset({AGENT, *UNBLINDED}),
    "list_reports": UNBLINDED,
    "get_decision": UNBLINDED,
    "get_certificate": UNBLINDED,
    "get_findings": UNBLINDED,
    "get_log": INSPECTORS,
    "export_log": INSPECTORS,
    "verify_study": UNBLINDED,
    "list_quarantine": UNBLINDED,
    "amend_report": ADMINS,
    "refuse_report": ADMINS,
    "preview_freeze": frozenset({ANALYST, ADMIN}),
    "freeze_agent": ADMINS,
    "preview_reweigh": frozenset({ANALYST, ADMIN}),
    "reweigh_study": ADMINS,
    "preview_thaw": frozenset({ANALYST, ADMIN}),
    "thaw_agent": ADMINS,
    "preview_cut": frozenset({ANALYST, ADMIN}),
    "cut_phase": ADMINS,
    "pause_study": ADMINS,
    "resume_study": ADMINS,
    "cancel_study": ADMINS,
    "follow_study": READERS,
    "follow_studies": READERS,
    "estimate_study": ADMINS,
    "get_outlook": UNBLINDED,
    "list_tokens": ADMINS,
    "issue_token": ADMINS,
    "revoke_token": ADMINS,
    "get_server_log": INSPECTORS,
}

SERVER_WIDE = frozenset({"get_server_log"})  # not for a token that is bound to one study


def authorize(operation: str, principal: Principal, path: Mapping[str, Any]) -> None:
    """Raise unless this principal may call this operation on this path."""
    if principal.role not in ACCESS.get(operation, frozenset()):
        raise Refusal("not-allowed", f"{principal.role} may not {operation.replace('_', ' ')}")
    if operation in SERVER_WIDE and principal.study is not None:
        raise Refusal("not-allowed", "the token is bound to one study")
    study, agent = path.get("study"), path.get("agent")
    if study is not None and not principal.reaches(study):
        raise Refusal("not-allowed", "the token is for another study")
    if principal.role is Role.AGENT and agent is not None and agent != principal.agent:
        raise Refusal("not-allowed", "the token is for another agent")
