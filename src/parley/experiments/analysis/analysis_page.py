"""The tables, the pictures and the page of an analysis."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from parley.experiments.analysis.fixed_size import METHOD, Analysis, Verdict
from parley.experiments.analysis.sequential import MOST, Sequential
from parley.experiments.report_kit.forest import forest_chart
from parley.experiments.report_kit.pages import render
from parley.experiments.report_kit.prose import words_of_reader
from parley.experiments.report_kit.svg import Scale, element, line, mark, svg, text, tick_words, ticks
from parley.experiments.report_kit.tables import Table
from parley.rewards.history import Shape
from parley.text.formatting import estimate_text, number, plural, real, unit_of
from parley.text.status import ArmStatus

MOST_FORESTS = 12  # largest number of agents with a forest plot; tables have all agents
KINDS = {"mean": "mixed mean", "to_leader": "difference to the best", "to_control": "difference to the control"}


def verdict_words(found: Analysis, verdict: Verdict) -> str:
    """The verdict about an agent's best arms, in the words of the reader's field."""
    words = words_of_reader()
    behind = f"{100 * verdict.behind:.3g} points" if found.rates else f"{verdict.behind:.3g}"
    return verdict.words(words["arm"], words["arms"], behind)


def verdict_table(title: str, found: Analysis) -> Table:
    """The verdicts, one row per agent."""
    rows = [(verdict.agent, verdict_words(found, verdict)) for verdict in found.verdicts]
    return Table.of_text(title, (words_of_reader()["agent"], "what may be said"), rows)


def estimates_table(title: str, document: Mapping[str, Any], agent: Mapping[str, Any], *, rates: bool) -> Table:
    """The estimates of an agent's arms with simultaneous intervals, best arm first."""
    kinds = [kind for kind in KINDS if kind in agent["arms"][0]]
    named = {"to_leader": agent["leader"], "to_control": document.get("control")}
    arms = sorted(agent["arms"], key=lambda arm: -arm["mean"]["estimate"])
    rows = [
        (
            arm["arm"],
            *(
                "0, by definition"
                if named.get(kind) == arm["arm"]
                else estimate_text(arm[kind], unit=unit_of(kind, rates=rates))
                for kind in kinds
            ),
        )
        for arm in arms
    ]
    return Table.of_text(title, (words_of_reader()["arm"], *(KINDS[kind] for kind in kinds)), rows)


def rows_table(title: str, found: Analysis) -> Table:
    """The data of every arm at every agent: number of rows, mean, standard deviation, and the shape in words."""
    problem, draws, rows = found.problem, found.draws, list[tuple[str, ...]]()
    for m, agent in enumerate(problem.agents):
        for k, arm in enumerate(problem.arms):
            own = draws.outcome[(draws.agent == m) & (draws.arm == k)]
            if len(own):  # an agent without weight may have none
                shape = Shape.of(own)
                words = "0 or 1" if found.rates else shape.words
                rows.append((agent, arm, f"{shape.rows:,}", real(shape.mean), real(shape.deviation), words))
    named = words_of_reader()
    head = (named["agent"], named["arm"], "rows", "mean", "standard deviation", "shape")
    return Table.of_text(title, head, rows)


def slopes_table(title: str, found: Analysis) -> Table:
    """The covariate's slope at every agent; no rows without a covariate."""
    made, rows = found.adjustment, []
    if made is not None:
        for m, agent in enumerate(found.problem.agents):
            kept = 1 - made.correlation[m] ** 2
            slope = f"{real(made.slope[m])} ± {real(made.error[m])}"
            rows.append((agent, slope, real(made.correlation[m], 2), real(made.center[m]), f"{100 * kept:.0f} %"))
    head = (words_of_reader()["agent"], "slope ± error", "correlation", "told at", "variance that is left")
    return Table.of_text(title, head, rows)


def sequential_words(found: Sequential) -> str:
    """A short paragraph on the draws that a sequential study would have needed."""
    document, words = found.document(), words_of_reader()
    low, median, high = (number(round(document["samples"][name])) for name in ("p10", "median", "p90"))
    if found.decided < 0.5:
        return (
            f"Most of {plural(document['replications'], 'sequential study', 'sequential studies')} on these rows had "
            f"no answer for every {words['agent']} by {number(found.most)} {words['draws']}, {MOST} times the table: "
            f"its best {words['arms']} are too close to be told apart sooner."
        )
    return (
        f"A sequential study would have needed {median} {words['draws']} in the median (10 % to 90 %: {low} to {high}) "
        f"in {document['rounds']['mean']:.1f} rounds; the table has {number(found.rows)} rows. "
        f"{100 * found.fewer:.0f} % of the studies needed no more than that, and {100 * found.differs:.1f} % ruled out "
        f"an {words['arm']} that is best in the table."
    )


def needed_chart(found: Sequential) -> Markup:
    """A chart of the draws that sequential studies need (median, 10 % to 90 %), and of the table's number of rows."""
    samples = found.document()["samples"]
    most = 1.08 * max(samples["p90"], found.rows)
    x = Scale(0.0, most, 4.0, 416.0)
    marks = ticks(0.0, most, 4)
    drawn = [line(x(value), 20, x(value), 62, "grid") for value in marks]
    drawn += [
        text(x(value), 80, shown, "soft", "start" if not value else "middle")
        for value, shown in zip(marks, tick_words(marks), strict=True)
    ]
    side = "end" if found.rows > most / 2 else "start"
    drawn += [
        line(x(found.rows), 18, x(found.rows), 64, "limit"),
        text(x(found.rows), 12, f"the table: {number(found.rows)}", "ink", side),
        line(x(samples["p10"]), 42, x(samples["p90"]), 42, "s0 fixed"),
        mark("square", x(samples["median"]), 42, 4.5, "s0"),
    ]
    label = f"Sequential studies: median {number(round(samples['median']))}, the table {number(found.rows)}"
    return svg(420.0, 88.0, label, element("title", label), *drawn, kind="figure forest")


def _forests(found: Analysis, agent: Mapping[str, Any], document: Mapping[str, Any], chosen: tuple[str, ...]) -> Markup:
    arms = [
        arm
        | {
            "status": ArmStatus.CHOSEN.value if arm["arm"] in chosen else ArmStatus.OPEN.value,
            "dropped_in": int(arm["to_leader"]["high"] < 0),
        }
        for arm in agent["arms"]
    ]
    kinds = {"to_leader": agent["leader"]}
    kinds |= {"to_control": document["control"]} if document["control"] else {"mean": None}
    pictures = []
    for kind, to in kinds.items():
        what = "Mixed means" if to is None else f"Differences to {to}"
        label = f"{what} of {agent['agent']} with simultaneous intervals; the numbers are below"
        tolerance = found.problem.tolerance
        pictures.append(forest_chart(arms, kind, label, to=to, rates=found.rates, tolerance=tolerance))
    return Markup('<div class="pair">{}</div>').format(Markup("").join(pictures))


def analysis_page(found: Analysis, *, title: str, command: str, weights: str, beside: Sequential | None) -> str:
    """The whole analysis on one page; `weights` describes the origin of the weights."""
    problem, document = found.problem, found.document() | {"control": found.problem.control}
    agents = [
        {
            "name": verdict.agent,
            "words": verdict_words(found, verdict),
            "pictures": _forests(found, agent, document, verdict.chosen) if place < MOST_FORESTS else None,
            "table": estimates_table("", document, agent, rates=found.rates),
        }
        for place, (agent, verdict) in enumerate(zip(document["agents"], found.verdicts, strict=True))
    ]
    return render(
        "analysis",
        title=title,
        command=command,
        problem=problem,
        source=found.draws.source,
        rows=len(found.draws.outcome),
        weights=weights,
        words=words_of_reader(),
        method=METHOD,
        comparisons=found.comparisons,
        rates=found.rates,
        agents=agents,
        verdicts=verdict_table("", found),
        cells=rows_table("", found),
        covariate=None if found.adjustment is None else found.adjustment.name,
        slopes=slopes_table("", found),
        sequential=None
        if beside is None
        else {
            "words": sequential_words(beside),
            "picture": needed_chart(beside),
            "policy": beside.outcome.policy,
            "studies": len(beside.outcome.costs),
        },
    )
