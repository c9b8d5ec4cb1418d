"""The page that `parley demo` writes: one run as a picture, its phases, and the policies side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape

from matplotlib.figure import Figure

from parley.experiments.figures import elimination_course
from parley.problem import Problem
from parley.simulation import Phase

__all__ = ["demo_page", "svg"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --soft: #9ba4ae; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 64rem; padding: 1.5rem; }
h1 { line-height: 1.2; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; min-width: 30rem; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
.dark { display: none; }
@media (prefers-color-scheme: dark) { .light { display: none; } .dark { display: block; } }
code { font-size: .95em; }
"""


def svg(figure: Figure) -> str:
    """A figure as SVG to stand inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; every cell is escaped."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


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
    """A self-contained page: no script, nothing from another host."""
    pictures = "".join(
        f'<div class="{theme}">{svg(elimination_course(course, problem, theme=theme))}</div>'
        for theme in ("light", "dark")
    )
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
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{escape(title)}</h1>
<p>{problem.arm_count} arms, {problem.agent_count} agents, top {problem.top}, delta {problem.delta:g}.
Each agent's reward is a weighted mix of everybody's.</p>
<p>The policy <code>{escape(policy)}</code> gives this guarantee: {escape(guarantee)}.</p>
<h2>One run</h2>
<figure role="img" aria-label="Mixed means of every arm over the phases, one panel per agent">{pictures}</figure>
{table(("phase", "samples drawn", "so far", *(f"arms left, {agent}" for agent in problem.agents)), phases)}
<h2>Answers</h2>
{table(("agent", "top arms"), answers)}
<h2>Why arms are out</h2>
<ul>{listed}</ul>
<h2>Policies over many runs</h2>
<p>No algorithm with error at most {problem.delta:g} can expect to draw fewer than {lower_bound:,.0f} samples.</p>
{table(*comparison)}
<p class="soft">Made by <code>{escape(command)}</code>.</p>
</body></html>
"""
