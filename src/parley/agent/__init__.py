"""What a site runs: fetch the plan, draw, report, keep the receipt. Needs the extra `agent`.

from parley.agent import Client

client = Client("https://coordinator.example", token)
plan = client.plan("trial", "Lyon")
counts, sums, squares = draw(plan.draws)                     # yours
receipt = client.send(plan.report(sums=sums, squares=squares))
"""

from __future__ import annotations

from typing import Any

__all__ = ["AgentPlan", "AsyncClient", "Client", "Outbox", "Site", "Worker"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that the package can say what is missing."""
    homes = {
        "Client": "client",
        "AsyncClient": "client",
        "AgentPlan": "plans",
        "Outbox": "outbox",
        "Site": "site",
        "Worker": "worker",
    }
    if name not in homes:
        raise AttributeError(name)
    import importlib

    return getattr(importlib.import_module(f"parley.agent.{homes[name]}"), name)
