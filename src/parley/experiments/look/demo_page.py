"""The page that `parley demo` writes: one run as a picture, its phases, and the policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from parley.experiments.look.course import elimination_course
from parley.experiments.look.page import page, picture, table
from parley.problem import Problem
from parley.simulation import Phase
from parley.words import DASH, gap, let_go, real

__all__ = ["certificate_rows", "demo_page"]
LET_GO = "Let go: the agent accepted its answer, which is within the tolerance of the best; this arm may be as good."


def certificate_rows(certificate: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Head and rows of a certificate's table: what decided about every arm of every agent."""
    bounded = any("gap_at_least" in arm for agent in certificate["agents"] for arm in agent["arms"])
    head = ["agent", "arm", "mixed mean", "ruled out in phase", "score"]
    rows = []
    for agent in certificate["agents"]:
        for arm in agent["arms"]:
            spared = let_go(arm, certificate["line"])
            out = str(arm["eliminated_in"]) if arm["eliminated_in"] else "chosen" if arm["chosen"] else DASH
            out = f"let go in {out}" if spared else out
            row = [agent["agent"], arm["arm"], real(arm["mixed_mean"]), out, real(arm["score"], 2)]
            if bounded:
                beaten = arm["eliminated_in"] and not spared
                row += [", ".join(arm["opponents"]), gap(arm["gap_at_least"])] if beaten else ["", ""]
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
    lower_bound: float | None,
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
    told = [let_go(arm, certificate["line"]) for agent in certificate["agents"] for arm in agent["arms"]]
    spared = f" {LET_GO}" if any(told) else ""
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
        f"<p>Score: {escape(certificate['score'].split(';')[0])}. An arm is out at {certificate['line']:.2f}.",
        f"{spared}</p>",
        table(*certificate_rows(certificate)),
        "<h2>Policies over many runs</h2>",
        ""
        if lower_bound is None
        else f"<p>No algorithm with error at most {problem.delta:g} can expect to draw fewer than {lower_bound:,.0f} "
        "samples.</p>",
        table(*comparison),
        command=command,
    )
