"""The page that `parley demo` writes: one run as a picture, its phases, and the policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from parley.experiments.figures import elimination_course
from parley.experiments.page import page, picture, table
from parley.problem import Problem
from parley.simulation import Phase

__all__ = ["demo_page"]


def demo_page(
    *,
    title: str,
    problem: Problem,
    policy: str,
    guarantee: str,
    course: Sequence[Phase],
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
        "<h2>Policies over many runs</h2>",
        f"<p>No algorithm with error at most {problem.delta:g} can expect to draw fewer than {lower_bound:,.0f} "
        "samples.</p>",
        table(*comparison),
        command=command,
    )
