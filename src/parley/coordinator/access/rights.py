"""Who may do what: roles in groups, which the rows of the table of operations name, and the check of a call.

Beyond the role, a token that names a study reaches only that study, and an agent's only its own places in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parley.coordinator.access.tokens import Principal, Role
from parley.coordinator.problems import Refusal

EVERYONE = frozenset(Role)
AGENTS = frozenset({Role.AGENT})
ADMINS = frozenset({Role.ADMINISTRATOR})
INSPECTORS = ADMINS | {Role.AUDITOR}  # who may read the logs
PLANNERS = ADMINS | {Role.ANALYST}  # who may see what an act would do
UNBLINDED = ADMINS | {Role.ANALYST, Role.AUDITOR}
READERS = UNBLINDED | {Role.VIEWER}


def authorize(
    operation: str, roles: frozenset[Role], principal: Principal, path: Mapping[str, Any], *, server_wide: bool
) -> None:
    """Raise unless this principal may call this operation on this path; `server_wide` is not for tokens of a study."""
    if principal.role not in roles:
        raise Refusal("not-allowed", f"{principal.role} may not {operation.replace('_', ' ')}")
    if server_wide and principal.study is not None:
        raise Refusal("not-allowed", "the token is bound to one study")
    study, agent = path.get("study"), path.get("agent")
    if study is not None and not principal.reaches(study):
        raise Refusal("not-allowed", "the token is for another study")
    if principal.role is Role.AGENT and agent is not None and agent != principal.agent:
        raise Refusal("not-allowed", "the token is for another agent")
