"""The page that `parley demo` writes: one run as a picture, its phases, and the policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from parley.experiments.look.course import elimination_course
from parley.experiments.look.page import page, picture, table
from parley.problem import Problem
from parley.simulation import Phase
from parley.words import gap, real

__all__ = ["certificate_rows", "demo_page"]


def certificate_rows(certificate: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Head and rows of a certificate's table: what decided about every arm of every agent."""
    bounded = any("gap_at_least" in arm for agent in certificate["agents"] for arm in agent["arms"])
    head = ["agent", "arm", "mixed mean", "ruled out in phase", "score"]
    rows = []
    for agent in certificate["agents"]:
        for arm in agent["arms"]:
            out = str(arm["eliminated_in"]) if arm["eliminated_in"] else "chosen" if arm["chosen"] else "-"
            row = [agent["agent"], arm["arm"], real(arm["mixed_mean"]), out, real(arm["score"], 2)]
            if bounded:
                against = ", ".join(arm["opponents"]) if arm["eliminated_in"] else ""
                row += [against, gap(arm["gap_at_least"]) if arm["eliminated_in"] else ""]
            rows.append(row)
    return ([*head, "beaten by", "worse than the chosen by at least"] if bounded else head), rows


def demo_page(
    *,
    title: str,
    problem: Problem,
    policy: str,
    guarantee: str,
    course: Sequence[Phase],
    certificate: dict[str, Any],
    reasons: Sequence[str],
    comparison: tuple[Sequence[str], Sequence[Sequence[str]]],
    lower_bound: float,
    command: str,
) -> str:
    """The whole page."""
    phases = [
        [str(phase.number), f"{int(phase.quotas.sum()):,}", f"{int(phase.after.counts.sum()):,}"]
        + [str(int(remaining)) for remaining in phase.after.active.sum(axis=0)]
        for phase in course
    ]
    final = course[-1].after.answers
    answers = [
        [agent, ", ".join(arm for arm, chosen in zip(problem.arms, final[:, m], strict=True) if chosen)]
        for m, agent in enumerate(problem.agents)
    ]
    listed = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return page(
        title,
        f"<p>{problem.arm_count} arms, {problem.agent_count} agents, top {problem.top}, delta {problem.delta:g}. "
        f"Each agent's reward is a weighted mix of everybody's.</p><p>The policy <code>{escape(policy)}</code> gives "
        f"this guarantee: {escape(guarantee)}.</p>",
        "<h2>One run</h2>",
        picture(
            lambda theme: elimination_course(course, problem, theme=theme),
            "Mixed means of every arm over the phases, one panel per agent",
        ),
        table(("phase", "samples drawn", "so far", *(f"arms left, {agent}" for agent in problem.agents)), phases),
        "<h2>Answers</h2>",
        table(("agent", "top arms"), answers),
        "<h2>Why arms are out</h2>",
        f"<ul>{listed}</ul>",
        "<h2>Certificate</h2>",
        f"<p>{escape(certificate['score'].capitalize())}. An arm is out at {certificate['line']:.2f}.</p>",
        table(*certificate_rows(certificate)),
        "<h2>Policies over many runs</h2>",
        f"<p>No algorithm with error at most {problem.delta:g} can expect to draw fewer than {lower_bound:,.0f} "
        "samples.</p>",
        table(*comparison),
        command=command,
    )
