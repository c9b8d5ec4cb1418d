"""Test of access rights: call every operation with every role and compare the answers with an independent table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

ROLES = ("agent", "viewer", "analyst", "auditor", "administrator")
ENDLESS = ("follow_study", "follow_studies")  # streams of events, whose bodies are not read
REASON = {"reason": "x"}
BODIES: dict[str, Any] = {
    "create_study": {"study": {}},
    "estimate_study": {"study": {}},
    "put_report": {},
    "pause_study": REASON,
    "resume_study": REASON,
    "cancel_study": REASON,
    "freeze_agent": REASON | {"preview": "0" * 64},
    "close_early": REASON | {"preview": "0" * 64},
    "amend_report": REASON | {"report": {}},
    "issue_token": {"role": "viewer", "name": "x"},
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request of the test: an operation, called with a role for a study and an agent."""

    operation: str
    method: str
    path: str  # with its parameters in braces
    role: str | None  # None for a request without a token
    study: str
    agent: str
    public: bool  # whether the operation needs no token

    @property
    def place(self) -> dict[str, str]:
        """The values of the path's parameters, by name."""
        known = {"phase": "1", "kid": "0" * 16, "arm": "arm 1", "study": self.study, "agent": self.agent}
        return {key: known.get(key, "unknown") for key in re.findall(r"{(\w+)}", self.path)}


def call(http: Any, tokens: Mapping[str | None, str], asked: Asked) -> int:
    """Make the request over HTTP with the role's token, and return the status code."""
    address = asked.path
    for key, value in asked.place.items():
        address = address.replace(f"{{{key}}}", quote(value))
    headers = {"Authorization": f"Bearer {tokens[asked.role]}"} if asked.role else {}
    body = {"json": BODIES[asked.operation]} if asked.operation in BODIES else {}
    with http.stream(asked.method, address, headers=headers, **body) as response:
        if asked.operation not in ENDLESS:
            response.read()
        status: int = response.status_code
        return status


def access_mistakes(
    document: Mapping[str, Any],
    table: Mapping[str, Mapping[str, str]],
    agents: Sequence[str],
    ask: Callable[[Asked], int],
) -> tuple[list[str], int]:
    """Call every operation of the OpenAPI `document` with every role; return the mistakes and the number of calls.

    A mistake is a sentence about an answer that differs from the `table` of rights. Tokens, except the
    administrator's, are bound to the study "mine", and the agent's token to `agents[0]`. `ask` makes a request and
    returns the status code.
    """
    wrong, tried = [], 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            row = table.get(f"{method.upper()} {path}")
            if row is None:
                wrong.append(f"{method.upper()} {path} has no row in docs/api.md, “Who may call what”")
                continue
            for role in (None, *ROLES):
                for study in ("mine", "other") if "{study}" in path else ("mine",):
                    for agent in agents[:2] if "{agent}" in path else agents[:1]:
                        asked = Asked(operation=operation["operationId"], method=method.upper(), path=path, role=role,
                                      study=study, agent=agent, public=not operation["security"])  # fmt: skip
                        status, expected = ask(asked), _expected(row, asked, agents[0])
                        tried += 1
                        if {401: "no token", 403: "denied"}.get(status, "allowed") != expected or status >= 500:
                            who = f"{role or 'nobody'} in study {study!r} for {agent!r}"
                            wrong.append(f"{asked.method} {path} by {who}: {status}, expected: {expected}")
    return wrong, tried


def _expected(row: Mapping[str, str], asked: Asked, own: str) -> str:
    if asked.public:
        return "allowed"
    if asked.role is None:
        return "no token"
    cell = row[asked.role]
    if not cell or (cell == "its own" and asked.agent != own):
        return "denied"
    if asked.role == "administrator":
        return "allowed"
    if asked.operation == "get_server_log":
        return "denied"  # these tokens are bound to a study
    return "allowed" if asked.study == "mine" else "denied"
