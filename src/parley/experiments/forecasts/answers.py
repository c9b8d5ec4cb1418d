"""What the API tells of the future: plain figures, cut to what can be simulated while somebody waits.

Pure: a study or a state goes in, a document comes out. Who asks, what is remembered and what is beside it in the log is
the server's business.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from parley.currency import money_of
from parley.errors import InvalidInput
from parley.experiments.forecasts.outlook import bound_at_estimates, play_on
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import gap_scenario, usual_gaps
from parley.policies import Policy, State
from parley.problem import Problem

__all__ = ["estimates", "outlook"]

LARGEST_ESTIMATE = 12_000  # arms x agents that can be simulated while somebody waits
ESTIMATE_WORK, OUTLOOK_WORK = 8_000, 40_000  # arms x agents x simulated studies, about
OUTLOOK_SECONDS = 120.0


def estimates(policy: str, options: Mapping[str, Any], problem: Problem) -> list[dict[str, Any]]:
    """The usual gaps, together and alone; none where simulating would take too long."""
    pairs = problem.arm_count * problem.agent_count
    if pairs > LARGEST_ESTIMATE:
        return []
    planner = Planner(policy=policy, options=options, replications=max(2, min(40, ESTIMATE_WORK // pairs)), seed=0)
    return [_scenario(planner, problem, gap) for gap in usual_gaps(problem)]


def _scenario(planner: Planner, problem: Problem, gap: float) -> dict[str, Any]:
    together, alone = planner.together_and_alone(gap_scenario(problem, gap), problem)
    return {"gap": gap, **_figures(together), "alone": _figures(alone)}


def _figures(found: ScenarioCost) -> dict[str, Any]:
    return {
        **found.bill.told(),
        "rounds": {"mean": float(found.rounds.mean()), "max": int(found.rounds.max())},
        "per_agent": found.per_agent.tolist(),
        "error_rate": found.error_rate,
        "studies": len(found.samples),
        "unfinished": found.unfinished,
    }


def outlook(policy: Policy, state: State, frozen: Collection[str], *, over: bool) -> dict[str, Any]:
    """What is likely left after a phase, and the lower bound at the estimated means; only that once all is over."""
    bound = bound_at_estimates(policy, state)
    told: dict[str, Any] = {
        "state": "ready",
        "reason": "",
        "after_phase": int(state.phase),
        "drawn": int(state.counts.sum()),
        "bound": None if bound is None else float(bound.sum()),
        "bound_by_arm": None if bound is None else bound.sum(axis=1).tolist(),
        "bound_draws": bound,
        "total": None,
        "money": None,
        "days_left": None,
        "regret_left": None,
    }
    if "price" in policy.problem.unusual():
        told["money"] = {"spent": float(money_of(policy.problem, state.counts))}
    if over:
        return told
    continuations = max(4, min(64, OUTLOOK_WORK // state.counts.size))
    try:
        ahead = play_on(
            policy, state, frozen=frozen, continuations=continuations, seed=int(state.phase), seconds=OUTLOOK_SECONDS
        )
    except InvalidInput as error:
        return told | {"reason": str(error)}
    low, middle, high = ahead.quantiles(0.1, 0.5, 0.9)
    rounds = np.quantile(ahead.rounds, (0.1, 0.5, 0.9))
    billed = ahead.bill.told()
    if told["money"] is not None:
        told["money"] |= billed["money"]
    return told | {
        "days_left": billed.get("days"),
        "regret_left": billed.get("regret"),
        "total": {"p10": low, "p50": middle, "p90": high},
        "rounds": {"p10": float(rounds[0]), "p50": float(rounds[1]), "p90": float(rounds[2])},
        "total_per_agent": ahead.per_agent,
        "continuations": continuations,
        "unfinished": ahead.unfinished,
    }
