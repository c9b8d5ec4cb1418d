"""Findings about further outcomes: estimates of each, and the status of every arm for each guardrail.

The coordinator, certificates and replays all use these functions. The functions decide nothing: a guardrail's decisions
are in the log (`Trial.verdicts`).
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from parley.estimates import estimates, fixed_quantile
from parley.outcomes import Outcome
from parley.policies.guardrails import Guardrail, GuardState
from parley.problem import Problem
from parley.protocol.trial import Finding, Trial
from parley.text.translation import Translatable
from parley.totals import Totals

OPEN, CLEARED = "not cleared yet", "cleared"
SECONDARY = Translatable("estimates and intervals of a secondary outcome, which decided nothing")
GUARDRAIL = Translatable(
    "the probability of any false alarm or false clearing of this guardrail in the whole study is at most delta"
)


def trial_outcomes(
    trial: Trial, phases: Sequence[Sequence[Totals]] | None = None, agents: slice = slice(None)
) -> list[dict[str, Any]]:
    """The findings about a trial's further outcomes in decided `phases`, by default `trial.outcomes_past`."""
    phases = trial.outcomes_past if phases is None else phases
    guarded = list(zip(trial.guardrails, trial.guarded, strict=True))
    return outcome_findings(trial.study.problem, phases, guarded, trial.verdicts, agents)


def outcome_findings(
    problem: Problem,
    phases: Sequence[Sequence[Totals]],
    guarded: Sequence[tuple[Guardrail, GuardState]],
    verdicts: Collection[Finding],
    agents: slice = slice(None),
) -> list[dict[str, Any]]:
    """The findings about each further outcome, ready for JSON; empty without phases.

    `phases[phase][outcome]` are totals `(arm, agent)`.
    """
    if not phases:
        return []
    guards = {guard.outcome.name: (guard, state) for guard, state in guarded}
    return [
        _found(problem, outcome, [phase[place] for phase in phases], guards.get(outcome.name), verdicts, agents)
        for place, outcome in enumerate(problem.outcomes)
    ]


def _found(
    problem: Problem,
    outcome: Outcome,
    phases: Sequence[Totals],
    guard: tuple[Guardrail, GuardState] | None,
    verdicts: Collection[Finding],
    agents: slice,
) -> dict[str, Any]:
    asked = problem.of_outcome(outcome) if guard is None else guard[0].problem
    found = estimates(asked, phases, some=agents)
    quantile = fixed_quantile(asked.delta)
    means = found.mean.cells(quantile)
    controls = None if found.control is None else found.control.cells(quantile)
    total = np.sum([phase.everybody.counts for phase in phases], axis=0)[:, agents]
    return {
        "name": outcome.name,
        "role": outcome.role,
        "better": outcome.better,
        "level": 1 - asked.delta,
        "rates": outcome.noise.means_are_rates,
        "margin": outcome.margin,
        "limit": outcome.limit,
        "delta": outcome.delta,
        "words": SECONDARY if guard is None else GUARDRAIL,
        "agents": [
            {
                "agent": agent,
                "arms": [
                    {
                        "arm": arm,
                        "count": int(total[k, m]),
                        "mean": means[k][m],
                        "to_control": None if controls is None else controls[k][m],
                        "status": None
                        if guard is None
                        else _status(guard[1], k, range(problem.agent_count)[agents][m]),
                    }
                    for k, arm in enumerate(problem.arms)
                ],
            }
            for m, agent in enumerate(found.agents)
        ],
        "arms": [] if guard is None else _arms(problem, outcome, guard[1], verdicts),
    }


def _status(state: GuardState, arm: int, agent: int) -> str:
    """The status of an arm in one agent's mix."""
    if state.alarmed_in[arm, agent]:
        return "alarm"
    return CLEARED if state.cleared_in[arm, agent] else OPEN


def _arms(problem: Problem, outcome: Outcome, state: GuardState, verdicts: Collection[Finding]) -> list[dict[str, Any]]:
    """The status of every arm for all agents together. A control arm that others are compared with has no status."""
    said = {one.arm: one for one in sorted(verdicts, key=lambda one: one.verdict) if one.guardrail == outcome.name}
    rows = []
    for arm, cleared in zip(problem.arms, state.cleared.tolist(), strict=True):
        if outcome.limit is None and arm == problem.control:
            continue
        known = said.get(arm)
        status = known.verdict if known is not None else CLEARED if cleared else OPEN
        rows.append({"arm": arm, "status": status, "agents": [] if known is None else list(known.agents)})
    return rows
