"""The agent's side of a study: fetch the plan, draw, report, keep the receipt. Needs the extra `agent`.

    from parley.agent import Client
    from parley.totals import Totals

    with Client("https://coordinator.example", token) as client:
        plan = client.plan("trial", "Lyon")
        rewards = [draw(arm, count) for arm, count in zip(plan.arms, plan.draws)]  # `draw` is yours: it returns a list
        receipt = client.send(plan.report(Totals.of(rewards)))

A test runs this example. Only totals leave the site: counts, sums and sums of squares by arm, and from a `Site` also
numbers of people, such as those whose outcome is missing. A `Worker` repeats these steps until the study is over.
"""

from typing import Any

__all__ = ["AgentPlan", "Client", "Network", "Outbox", "Site", "Worker"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the error can name a missing extra."""
    homes = {
        "Client": "client",
        "AgentPlan": "plans",
        "Network": "network",
        "Outbox": "outbox",
        "Site": "site",
        "Worker": "worker",
    }
    if name not in homes:
        raise AttributeError(name)
    import importlib

    return getattr(importlib.import_module(f"parley.agent.{homes[name]}"), name)
