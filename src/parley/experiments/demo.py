"""What `parley demo` tells of one run: sentences, tables, figures and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from parley.experiments.report_kit.charts import DASHES, MARKERS, elimination_timeline, theme_named
from parley.experiments.report_kit.pages import page, picture, table
from parley.formatting import DASH, gap, real, set_aside, size_text
from parley.policies import Policy
from parley.problem import Instance, Problem
from parley.simulation import Phase
from parley.status import OutcomeStatus

__all__ = [
    "answers_told",
    "certificate_rows",
    "demo_page",
    "eliminations",
    "ending",
    "regret_figure",
    "regret_page",
    "sizes_told",
]

LET_GO = "Let go: the agent accepted its answer, which is within the tolerance of the best; this arm may be as good."


def certificate_rows(certificate: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Head and rows of a certificate's table: what decided about every arm of every agent."""
    bounded = any("gap_at_least" in arm for agent in certificate["agents"] for arm in agent["arms"])
    head = ["agent", "arm", "mixed mean", "ruled out in phase", "score"]
    rows = []
    for agent in certificate["agents"]:
        for arm in agent["arms"]:
            spared = set_aside(arm, certificate["line"])
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
    told = [set_aside(arm, certificate["line"]) for agent in certificate["agents"] for arm in agent["arms"]]
    spared = f" {LET_GO}" if any(told) else ""
    listed = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return page(
        title,
        f"<p>{size_text(problem.shape)}, top {problem.top}, delta {problem.delta:g}. "
        f"Each agent's reward is a weighted mix of everybody's.</p><p>The policy <code>{escape(policy)}</code> gives "
        f"this guarantee: {escape(guarantee)}.</p>",
        "<h2>One run</h2>",
        picture(
            lambda theme: elimination_timeline(course, problem, theme=theme),
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


def regret_figure(results: Sequence[Mapping[str, Any]], least: float, *, theme: str = "light") -> Figure:
    """Mean regret of all agents over time, with the band that holds 80 % of the runs; one line a policy."""
    look = theme_named(theme)
    with look.context():
        figure = Figure(figsize=(8.5, 4.6), layout="constrained")
        panel = figure.subplots()
        for place, result in enumerate(results):
            curve = result["regret"]["curve"]
            panel.plot(
                curve["times"],
                curve["mean"],
                color=look.colour(place),
                label=result["policy"],
                linestyle=DASHES[place % 3],  # dotted is the bound
                marker=MARKERS[place % len(MARKERS)],
                markevery=(2 + place, 8),  # curves that lie on each other show both
            )
            panel.fill_between(curve["times"], curve["p10"], curve["p90"], color=look.colour(place), alpha=0.18, lw=0)
        panel.axhline(least, color=look.ink, linestyle=":", label="C* log T at the horizon")
        panel.set(xscale="log", yscale="log", xlabel="draws per agent", ylabel="regret of all agents together")
        panel.set_ylim(bottom=max(least / 100, 1e-9))
        panel.set_xlim(left=first_seen(results, least / 100))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        panel.legend(loc="upper left")
    return figure


def first_seen(results: Sequence[Mapping[str, Any]], floor: float) -> float:
    """The draws after which the first curve is above the floor of the figure: what comes before is empty."""
    curves = [result["regret"]["curve"] for result in results]
    seen = [time for curve in curves for time, mean in zip(curve["times"], curve["mean"], strict=True) if mean > floor]
    return max(min(seen, default=1.0), 1.0)


def regret_page(
    *,
    title: str,
    problem: Problem,
    guarantee: str,
    course: tuple[Sequence[str], Sequence[Sequence[str]]],
    comparison: tuple[Sequence[str], Sequence[Sequence[str]]],
    results: Sequence[Mapping[str, Any]],
    least: float,
    command: str,
) -> str:
    """The whole page."""
    return page(
        title,
        f"<p>{size_text(problem.shape)}, {problem.horizon:,} draws each, and every one of "
        "them counts: a draw costs the gap between the mixed mean of the arm played and the agent's best.</p>"
        f"<p>{escape(guarantee.capitalize())}.</p>",
        "<h2>One game</h2>",
        table(*course),
        "<h2>Regret over time</h2>",
        picture(
            lambda theme: regret_figure(results, least, theme=theme),
            "Mean regret of every policy over time, with bands of 80 % of the runs",
        ),
        f"<p>No policy that is good on every instance stays below C* log T, here {least:,.0f}, for long horizons.</p>",
        table(*comparison),
        command=command,
    )


def answers_told(certificate: dict[str, Any]) -> Iterator[str]:
    """For every agent its answer, and what is proven of the gaps where the policy bounds them."""
    for agent in certificate["agents"]:
        told = f"{agent['agent']}: {', '.join(agent['chosen'])}"
        out = [arm for arm in agent["arms"] if arm["eliminated_in"] and "gap_at_least" in arm]
        beaten = [arm for arm in out if not set_aside(arm, certificate["line"])]
        much = [f"{arm['arm']} by {arm['gap_at_least']:.2f}" for arm in beaten if arm["gap_at_least"] >= 0.005]
        rest = [arm["arm"] for arm in beaten if arm["gap_at_least"] < 0.005]
        parts = [f"than {', '.join(much)} at least"] if much else []
        parts += [f"than {', '.join(rest)}"] if rest else []
        yield f"{told}, proven better {', and '.join(parts)}" if parts else told


def sizes_told(instance: Instance) -> str:
    """How large the question is, and how hard."""
    problem = instance.problem
    return (
        f"{size_text(problem.shape)}, top {problem.top}, delta {problem.delta:g}, "
        f"smallest gap {instance.smallest_gap:.3f}"
    )


def eliminations(policy: Policy, phase: Phase) -> Iterator[str]:
    """One sentence for every arm that this phase ruled out."""
    problem, told = policy.problem, policy.certificate(phase.after)["agents"]
    for arm, agent in np.argwhere(phase.before.active & ~phase.after.active):
        entries = {entry["arm"]: entry for entry in told[agent]["arms"]}
        out = entries[problem.arms[arm]]
        if set_aside(out, policy.explain(phase.after).line):
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


def ending(problem: Problem, ends: Sequence[OutcomeStatus], *, right: bool) -> str:
    """How the run ended, and whether its answers are good: here the truth is known."""
    kind = f"within {problem.tolerance:g} of the best" if problem.tolerance else "right"
    found = f"all are {kind}" if right else "at least one is WRONG"
    left = [end for end in ends if not end.answered]
    if not left:
        return f"Every agent has its answer, and {found}"
    if len(left) == len(ends):
        return f"No agent has its answer ({left[0].description}); what is listed are candidates"
    return f"{len(ends) - len(left)} of {len(ends)} agents have their answer, and {found}; of the others candidates"
