"""What `parley demo` says of a run: its size, why arms are out, how it ended, what is proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from parley.ends import End
from parley.policies import Policy
from parley.problem import Instance, Problem
from parley.simulation import Phase
from parley.words import let_go, real

__all__ = ["answers_told", "eliminations", "ending", "sizes_told"]


def answers_told(certificate: dict[str, Any]) -> Iterator[str]:
    """For every agent its answer, and what is proven of the gaps where the policy bounds them."""
    for agent in certificate["agents"]:
        told = f"{agent['agent']}: {', '.join(agent['chosen'])}"
        out = [arm for arm in agent["arms"] if arm["eliminated_in"] and "gap_at_least" in arm]
        beaten = [arm for arm in out if not let_go(arm, certificate["line"])]
        much = [f"{arm['arm']} by {arm['gap_at_least']:.2f}" for arm in beaten if arm["gap_at_least"] >= 0.005]
        rest = [arm["arm"] for arm in beaten if arm["gap_at_least"] < 0.005]
        parts = [f"than {', '.join(much)} at least"] if much else []
        parts += [f"than {', '.join(rest)}"] if rest else []
        yield f"{told}, proven better {', and '.join(parts)}" if parts else told


def sizes_told(instance: Instance) -> str:
    """How large the question is, and how hard."""
    problem = instance.problem
    return (
        f"{problem.arm_count} arms, {problem.agent_count} agents, top {problem.top}, delta {problem.delta:g}, "
        f"smallest gap {instance.smallest_gap:.3f}"
    )


def eliminations(policy: Policy, phase: Phase) -> Iterator[str]:
    """One sentence for every arm that this phase ruled out."""
    problem, told = policy.problem, policy.certificate(phase.after)["agents"]
    for arm, agent in np.argwhere(phase.before.active & ~phase.after.active):
        entries = {entry["arm"]: entry for entry in told[agent]["arms"]}
        out = entries[problem.arms[arm]]
        if let_go(out, policy.explain(phase.after).line):
            chosen = " and ".join(told[agent]["chosen"])
            yield (
                f"Phase {phase.number}: {out['arm']} is let go for {problem.agents[agent]}, which accepts {chosen}: "
                f"nothing is better by {problem.tolerance:g} or more."
            )
            continue
        rivals = out.get("opponents") or told[agent]["chosen"]  # those that beat it, as the certificate has them
        against = " and ".join(f"{real(entries[rival]['mixed_mean'])} of {rival}" for rival in rivals)
        yield (
            f"Phase {phase.number}: {out['arm']} is out for {problem.agents[agent]}, mixed mean "
            f"{real(out['mixed_mean'])} against {against}."
        )


def ending(problem: Problem, ends: Sequence[End], *, right: bool) -> str:
    """How the run ended, and whether its answers are good: here the truth is known."""
    kind = f"within {problem.tolerance:g} of the best" if problem.tolerance else "right"
    found = f"all are {kind}" if right else "at least one is WRONG"
    left = [end for end in ends if not end.answered]
    if not left:
        return f"Every agent has its answer, and {found}"
    if len(left) == len(ends):
        return f"No agent has its answer ({left[0].words}); what is listed are candidates"
    return f"{len(ends) - len(left)} of {len(ends)} agents have their answer, and {found}; of the others candidates"
