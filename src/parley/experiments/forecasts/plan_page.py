"""Tables, figures and page of a plan: the study's costs, its operating characteristics and its calendar."""

import math
import re
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.costs import agent_days, stated_rates
from parley.experiments.forecasts.comparison import Comparison
from parley.experiments.forecasts.designs import LOOKS
from parley.experiments.forecasts.harms import HarmChance
from parley.experiments.forecasts.planning import CostPlan, Logistics, ScenarioCost
from parley.experiments.forecasts.power import Characteristic, PoweredBudget
from parley.experiments.forecasts.scenarios import upper_bound
from parley.experiments.report_kit.charts import canvas, delta_axis, draw_boxes, sample_axis
from parley.experiments.report_kit.pages import picture, render
from parley.experiments.report_kit.svg import calendar_chart
from parley.experiments.report_kit.tables import Table
from parley.problem import Problem
from parley.rewards.history import History
from parley.rewards.privacy import epsilon
from parley.text.formatting import DASH, number, real, share_text
from parley.text.translation import gettext, localized, translated

LABEL = 14  # letters in a line of the label below a box
LEVELS = {"delta": "delta, the error allowed", "horizon": "horizon, draws per agent"}


def cost_table(title: str, plan: CostPlan) -> Table:
    """The costs of a study with its own weights and with every agent alone, one row per scenario."""
    head = ("scenario", f"{plan.unit}, mean", "10% to 90%", "rounds", "wrong", "median", "median alone", "saved")
    pairs = zip(plan.scenarios, plan.alone, strict=True)
    return Table.of_text(title, head, [_cost_row(plan.unit, together, alone) for together, alone in pairs])


def _cost_row(unit: str, estimate: ScenarioCost, alone: ScenarioCost) -> list[str]:
    low, high = estimate.quantiles(0.1, 0.9)
    # Medians are compared, because one near-tie of a single agent would dominate a mean.
    at_least = "at least " if 2 * alone.unfinished >= len(alone.samples) else ""
    together, apart = estimate.quantiles(0.5)[0], alone.quantiles(0.5)[0]
    return [
        estimate.scenario,
        mean_text(estimate.summary()[unit]),
        f"{low:,.0f} to {high:,.0f}",
        f"{estimate.rounds.mean():.1f}",
        f"{estimate.error_rate * len(estimate.samples):,.0f} of {len(estimate.samples):,}",
        f"{together:,.0f}",
        f"{at_least}{apart:,.0f}",
        f"{at_least}{apart / together:.2f} x" if apart >= together else "nothing",
    ]


def sensitivity_table(title: str, plan: CostPlan) -> Table:
    """The cost of the reference scenario under other settings, one setting per row."""
    settings = [(f"{plan.level_axis} {value:,.10g}", estimate) for value, estimate in plan.by_level]
    settings += [(f"{plan.weights_axis} {value:g}", estimate) for value, estimate in plan.by_weights]
    for rho, estimate in plan.by_rho:
        settings.append(("exact reports" if rho is None else f"rho {rho:g}, epsilon {epsilon(rho):.2g}", estimate))
    if plan.without_doubt is not None:
        settings.append(("the middle weights alone, none in doubt", plan.without_doubt))
    rows = [(setting, f"{estimate.quantiles(0.5)[0]:,.0f}") for setting, estimate in settings]
    return Table.of_text(title, ("setting", f"{plan.unit}, median"), rows)


def money_and_days_table(title: str, plan: CostPlan) -> Table:
    """Money and days of every scenario; no rows if the study states neither prices nor rates."""
    rows = [
        (estimate.scenario, unit, *_mean_and_range(figures))
        for estimate in plan.scenarios
        for unit, figures in estimate.summary().items()
        if unit not in ("samples", "regret")
    ]
    return Table.of_text(title, ("scenario", "what", "mean", "10% to 90%"), rows)


def _mean_and_range(figures: dict[str, float]) -> tuple[str, str]:
    return mean_text(figures), f"{figures['p10']:,.0f} to {figures['p90']:,.0f}"


def operating_table(title: str, found: Sequence[Characteristic]) -> Table:
    """Operating characteristics, one row per truth; with days if the study states rates."""
    days = ("days, mean", "days, 90%") if found[0].study.study_costs.days is not None else ()
    others = ("fixed size", f"{LOOKS} looks, mean", "Bechhofer")
    head = ("truth", "power", "wrong", "samples, mean", "90%", "rounds", *days, *others, "alone, mean")
    return Table.of_text(title, head, [_operating_row(one) for one in found])


def _operating_row(one: Characteristic) -> list[str]:
    study, costs = one.study, one.study.summary()
    sizes = (
        one.fixed.samples if one.fixed else None,
        one.sequential.mean if one.sequential else None,
        one.bechhofer,
    )
    return [
        translated(study.scenario),
        right_text(study),
        wrong_text(study),
        mean_text(costs["samples"]),
        f"{costs['samples']['p90']:,.0f}",
        f"{study.rounds.mean():.1f}",
        *([mean_text(costs["days"]), f"{costs['days']['p90']:,.0f}"] if "days" in costs else []),
        *map(number, sizes),
        f"{'at least ' if one.alone.unfinished else ''}{mean_text(one.alone.summary()['samples'])}",
    ]


def right_text(study: ScenarioCost) -> str:
    """Format the power with its Monte Carlo error or, if no study failed, with its lower confidence bound."""
    if not study.correct.all():
        return study.power_text
    share, bound = (localized(f"{100 * one:.1f} %") for one in (1.0, 1 - upper_bound(0, len(study.samples))))
    return gettext("%(share)s (at least %(bound)s)", share=share, bound=bound)


def wrong_text(study: ScenarioCost) -> str:
    """Format the share of wrong studies with its upper bound: a few hundred studies without an error prove little."""
    wrong = int(study.mistaken.sum())
    share, bound = (f"{100 * one:.1f} %" for one in (study.error_rate, upper_bound(wrong, len(study.samples))))
    return gettext("%(share)s (at most %(bound)s)", share=localized(share), bound=localized(bound))


def mean_text(figures: Mapping[str, float]) -> str:
    """Format a mean with its Monte Carlo error."""
    return localized(f"{figures['mean']:,.0f} ± {figures['standard_error']:,.0f}")


def budget_table(title: str, found: Sequence[Characteristic]) -> Table:
    """Power of the study and of a fixed size with the same budget, one row per truth and budget."""
    rows = [
        (
            one.study.scenario,
            f"{point.max_samples:,}",
            point.study.power_text,
            share_text(point.fixed.power, point.fixed.power_error),
            mean_text(point.study.summary()["samples"]),
        )
        for one in found
        for point in one.budgets
    ]
    return Table.of_text(title, ("truth", "samples at most", "power", "power, fixed size", "samples, mean"), rows)


def beside_table(title: str, found: Comparison) -> Table:
    """A table of the comparison, one row per truth.

    The columns are mean samples and power under each inference method, and the other design with the fewest samples.
    """
    names = list(found.rows[0].studies)
    head = ["truth", *(f"{what}, {name}" for name in names for what in ("samples", "power"))]
    rows = []
    for row in found.rows:
        cells = [translated(row.truth)]
        for study in row.studies.values():
            cells += [mean_text(study.summary()["samples"]), right_text(study)]
        best = row.best if row.peers else None
        rows.append([*cells, f"{best.label}: {best.figures.mean:,.0f}" if best else DASH])
    return Table.of_text(title, [*head, "fewest of the other designs"], rows)


def designs_table(title: str, found: Comparison, name: str = "this study") -> Table:
    """A table of sizes, looks, power and errors, one row per truth and design.

    The last column is the study's mean samples divided by the design's. Only the first row of a truth has its name.
    """
    rows: list[list[str]] = []
    for row in found.rows:
        first = len(rows)
        for key, study in row.studies.items():
            inference = f", {key} inference" if len(row.studies) > 1 else ""
            figures = mean_text(study.summary()["samples"]), f"{study.rounds.mean():.1f}"
            size = DASH if study.largest_size is None else f"{study.largest_size:,}"
            rows.append(["", name + inference, size, *figures, right_text(study), wrong_text(study), DASH])
        for peer in row.peers:
            one = peer.figures
            mean = f"{one.mean:,.0f} ± {one.mean_error:,.0f}"
            power, wrong = share_text(one.power, one.power_error), f"{100 * one.wrong:.1f} %"
            ratio = f"{row.ratio(found.inference[0], peer):.2f}"
            rows.append(["", peer.label, f"{one.samples:,}", mean, f"{one.rounds:,.1f}", power, wrong, ratio])
        rows[first][0] = translated(row.truth)
    head = ("truth", "design", "samples at most", "mean", "looks", "power", "wrong", "study over design")
    return Table.of_text(title, head, rows)


def versus_table(title: str, studies: Sequence[ScenarioCost]) -> Table:
    """How often superiority over the control is proven, and how often it is wrongly claimed; one row per truth."""
    rows = []
    for study in studies:
        found, wrong = study.claims(), 0 if study.falsely is None else int(study.falsely.sum())
        most = upper_bound(wrong, len(study.samples))
        shown = share_text(found["superior"], found["superior_error"])
        rows.append((study.scenario, shown, f"{100 * found['falsely']:.1f} % (at most {100 * most:.1f} %)"))
    return Table.of_text(title, ("truth", "superiority shown", "wrongly claimed"), rows)


def power_table(title: str, found: Sequence[PoweredBudget]) -> Table:
    """The smallest budget with the wanted power, one row per truth."""
    rows = [
        (
            one.study.scenario,
            f"{one.max_samples:,}",
            share_text(float(one.study.reached.mean()), one.study.standard_error(one.study.reached)),
            mean_text(one.study.summary()["samples"]),
            f"{one.study.rounds.mean():.1f}",
            DASH if one.fixed is None else f"{one.fixed.samples:,}",
        )
        for one in found
    ]
    return Table.of_text(title, ("truth", "max_samples", "power", "samples, mean", "rounds", "fixed size"), rows)


def shapes_table(title: str, problem: Problem, history: History) -> Table:
    """A table of the shape of past data (skew, tails, zeros), with a row per agent, or per agent and arm."""
    rows = [
        (
            problem.agents[agent],
            *(() if arm is None else (problem.arms[arm],)),
            f"{shape.rows:,}",
            real(shape.mean),
            real(shape.deviation),
            f"{shape.skewness:.1f}",
            f"{100 * shape.tail:.0f} %",
            shape.words,
        )
        for arm, agent, shape in history.shapes()
    ]
    named = (gettext("agent"), gettext("arm")) if history.by_arm else (gettext("agent"),)
    head = (*named, "rows", "mean", "standard deviation", "skewness", "variance due to 1 % of the rows", "in words")
    return Table.of_text(title, head, rows)


def harms_table(title: str, found: Sequence[HarmChance]) -> Table:
    """Probabilities that guardrails raise an alarm about an arm or clear it; one row per guardrail and size of harm."""
    rows = [
        (
            one.guardrail,
            f"{one.margins:g}",
            f"{one.mean:.4g}",
            f"{one.alarm:.1%}",
            *(DASH if value is None else f"{value:,.0f}" for value in (one.people, one.phase)),
            f"{one.cleared:.1%}",
            f"{one.power:.1%}",
        )
        for one in found
    ]
    until = "draws of the arm before the alarm, median"
    head = ("guardrail", "harm, in margins", "mean", "alarm", until, "phase, median", "cleared", "power")
    return Table.of_text(title, head, rows)


def largest_fixed_size(found: Sequence[Characteristic]) -> str:
    """A sentence on the fixed size that suffices for all truths; empty if no size suffices for any truth."""
    sizes = [one.fixed.samples for one in found if one.fixed is not None]
    return f"A fixed size that does for all of these truths takes {max(sizes):,} samples under each." if sizes else ""


def trade_off_table(title: str, timed: Logistics) -> Table:
    """Days and money of a study for each assumed cost of a day, from the cheapest study to the fastest."""
    rows = []
    for point in timed.trade_off:
        costs = point.study.summary()
        worth = "only days count" if math.isinf(point.day_cost) else f"{point.day_cost:,g}"
        parts = (costs["days"], costs.get("money", costs["samples"]))
        cells = [cell for part in parts for cell in _mean_and_range(part)]
        rows.append((worth + (" (this study)" if point.own else ""), *cells))
    head = ("a day is worth", "days, mean", "10% to 90%", "money, mean", "10% to 90%")
    return Table.of_text(title, head, rows)


def plan_page(
    plan: CostPlan,
    *,
    title: str,
    command: str,
    problem: Problem,
    policy: str,
    guarantee: str,
    extent: str = "",
    timed: Logistics | None = None,
    characteristics: Sequence[Characteristic] = (),
    comparison: Comparison | None = None,
    warning: str = "",
    history: History | None = None,
    harms: Sequence[HarmChance] = (),
) -> str:
    """The whole plan on one page, with the calendar and the trade-off of `timed` if the study states rates."""
    operating = trade_off = calendar = per_agent = None
    if known := characteristics:
        operating = {
            "table": operating_table("", known),
            "looks": LOOKS,
            "largest_fixed_size": largest_fixed_size(known),
            "figure": picture("Power, wrong answers and samples by truth", operating_figure, known),
            "budgets": budget_table("", known),
            "by_budget": picture("Power and mean samples by budget, beside the fixed size", budget_figure, known),
        }
    if timed and timed.trade_off:
        drawn = picture("Mean days against mean money, by what a day is worth", trade_off_figure, timed)
        trade_off = {"table": trade_off_table("", timed), "figure": drawn}
    if timed and timed.timeline:
        days = agent_days(np.stack(timed.timeline), stated_rates(problem)).tolist()
        sites, days = problem.draws, np.asarray(days)[:, problem.draws].tolist()
        calendar = calendar_chart(problem.sites, days, problem.delay[sites].tolist(), problem.round_days)
    if problem.horizon is None:  # with a horizon, all agents draw until the end, so the table would be trivial
        each = ((cost.scenario, cost.per_agent[problem.draws]) for cost in plan.scenarios)
        rows = [(name, *(f"{value:,.0f}" for value in draws)) for name, draws in each]
        per_agent = Table.of_text("", ("scenario, mean draws", *problem.sites), rows)
    return render(
        "plan",
        title=title,
        command=command,
        problem=problem,
        policy=policy,
        guarantee=guarantee,
        extent=extent,
        warning=warning,
        unusual="".join(f" {sentence[:1].upper()}{sentence[1:]}." for sentence in problem.descriptions().values()),
        figure=picture("Samples by scenario, by delta and by weights", plan_figure, plan),
        costs=cost_table("", plan),
        operating=operating,
        comparison=comparison,
        designs=designs_table("", comparison) if comparison else None,
        versus=versus_table("", comparison.claiming) if comparison and comparison.claiming else None,
        money_and_days=money_and_days_table("", plan),
        trade_off=trade_off,
        calendar=calendar,
        per_agent=per_agent,
        reference=plan.scenarios[-1].scenario,
        sensitivity=sensitivity_table("", plan),
        harms={"table": harms_table("", harms), "truth": harms[0].truth, "studies": harms[0].studies}
        if harms
        else None,
        past=None if history is None else {"source": history.source, "shapes": shapes_table("", problem, history)},
    )


def plan_figure(plan: CostPlan, *, theme: str = "light") -> Figure:
    """Plot the cost by scenario, together and alone; by delta or horizon; and by weights."""
    with canvas(theme, 11, 4.2) as (figure, style):
        spread, level, share = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
        places = np.arange(len(plan.scenarios))
        for offset, estimates, colour, label in (
            (-0.18, plan.scenarios, style.colour(0), "together"),
            (0.18, plan.alone, style.colour(1), "every agent alone"),
        ):
            costs = [estimate.costs for estimate in estimates]
            at = (places + offset).tolist()
            draw_boxes(spread, costs, at, colour=colour, style=style, label=label, widths=0.3, showfliers=False)
        parts = [re.split(r" (?=\(|against )|, ", estimate.scenario) for estimate in plan.scenarios]
        lines = ["\n".join(fill(part, LABEL) for part in each) for each in parts]
        spread.set_xticks(places, lines, size=8)
        spread.set_yscale("log")
        spread.set(title="Cost by scenario", ylabel=f"{plan.unit} of all agents")
        spread.legend()
        for panel, points, label in (
            (level, plan.by_level, LEVELS[plan.level_axis]),
            (share, plan.by_weights, plan.weights_axis),
        ):
            values = [value for value, _ in points]
            panel.plot(values, [estimate.quantiles(0.5)[0] for _, estimate in points], "o-", color=style.colour(0))
            low, high = zip(*(estimate.quantiles(0.1, 0.9) for _, estimate in points), strict=True)
            panel.fill_between(values, low, high, color=style.colour(0), alpha=0.2, linewidth=0)
            panel.set(xlabel=label, ylabel=f"{plan.unit}, median and 10% to 90%", yscale="log")
        for panel in (spread, level, share):
            sample_axis(panel)
        if plan.level_axis == "delta":
            delta_axis(level, [value for value, _ in plan.by_level])
        else:
            level.set_xscale("log")
        level.set_title(f"Cost by {plan.level_axis}")
        share.set_title("Cost by weights")
    return figure


def operating_figure(found: Sequence[Characteristic], *, theme: str = "light") -> Figure:
    """Plot power, wrong answers and samples by truth, with the samples of textbook designs and of every agent alone."""
    places, names = np.arange(len(found)), [translated(one.study.scenario) for one in found]
    with canvas(theme, 11, 2.7 + 0.36 * len(found)) as (figure, style):
        power, cost = figure.subplots(1, 2, width_ratios=(1, 1.35), sharey=True)
        power.plot([100 * one.study.power for one in found], places, "o", color=style.colour(0), label=gettext("power"))
        wrong = [100 * one.study.error_rate for one in found]
        power.plot(wrong, places, "s", color=style.colour(1), label=gettext("wrong answers"))
        power.set(xlim=(-4, 104), xlabel=gettext("studies, %%"), title=gettext("Power to find the best"))
        ours = gettext("this study, mean to 90th percentile")
        _mean_to_p90(cost, places - 0.2, [one.study for one in found], style.colour(0), ours, "o")
        sized = [(one.fixed.samples, place) for place, one in zip(places, found, strict=True) if one.fixed]
        if sized:
            cost.plot(*zip(*sized, strict=True), "D", color=style.colour(2), label=gettext("fixed size"))
        looked = [(one.sequential.mean, place) for place, one in zip(places, found, strict=True) if one.sequential]
        if looked:
            cost.plot(
                *zip(*looked, strict=True),
                "^",
                color=style.colour(3),
                label=gettext("%(count)s looks, mean", count=LOOKS),
            )
        _mean_to_p90(
            cost, places + 0.2, [one.alone for one in found], style.colour(1), gettext("every agent alone"), "s"
        )
        cost.set_xscale("log")
        sample_axis(cost, "x")
        cost.set(
            xlabel=gettext("draws of all agents") + gettext(" (logarithmic scale)"), title=gettext("Size of the study")
        )
        power.set_yticks(places, names)
        power.set_ylim(len(found) - 0.5, -0.5)
        for panel in (power, cost):  # legends are below the panels; inside, they would cover points
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.6 / (1 + 0.36 * len(found))), ncols=3, fontsize=8)
    return figure


def budget_figure(found: Sequence[Characteristic], *, theme: str = "light") -> Figure:
    """Plot power and mean samples by budget, with a colour per truth.

    Dashed lines are the fixed size, which always spends its whole budget.
    """
    with canvas(theme, 11, 4.2) as (figure, style):
        power, cost = figure.subplots(1, 2)
        for place, one in enumerate(found):
            budgets = [point.max_samples for point in one.budgets]
            studies, look = [point.study for point in one.budgets], {"color": style.colour(place)}
            errors = [100 * study.standard_error(study.correct) for study in studies]
            power.errorbar(budgets, [100 * study.power for study in studies], yerr=errors, fmt="o-", **look)
            power.plot(budgets, [100 * point.fixed.power for point in one.budgets], "--", **look)
            cost.plot(budgets, [study.samples.mean() for study in studies], "o-", label=one.study.scenario, **look)
        cost.plot(budgets, budgets, "--", color=style.muted, label="fixed size")
        power.set(ylim=(-4, 104), ylabel="power, %", title="Power (dashed: fixed size at the same budget)")
        cost.set(ylabel="samples of all agents, mean", title="What is spent of it", yscale="log")
        sample_axis(cost)
        cost.legend(fontsize=8)
        for panel in (power, cost):
            panel.set(xlabel="samples at most", xscale="log")
            panel.set_xticks(budgets, [f"{budget:,}" for budget in budgets], size=8)
            panel.minorticks_off()
    return figure


def _mean_to_p90(
    panel: Axes, places: np.ndarray[Any, Any], studies: Sequence[ScenarioCost], colour: str, label: str, marker: str
) -> None:
    means = np.array([study.samples.mean() for study in studies])
    high = np.array([np.quantile(study.samples, 0.9) for study in studies])
    bars = [np.zeros(len(means)), np.maximum(high - means, 0)]
    panel.errorbar(means, places, xerr=bars, fmt=marker, color=colour, label=label, capsize=4)


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The Pareto frontier from left to right: the points that no other point beats in both coordinates.

    >>> frontier([(3.0, 1.0), (2.0, 2.0), (2.5, 2.5), (1.0, 4.0)])
    [(1.0, 4.0), (2.0, 2.0), (3.0, 1.0)]
    """
    kept: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def trade_off_figure(timed: Logistics, *, theme: str = "light") -> Figure:
    """Plot mean money against mean days: a point for each assumed cost of a day, and a ring around this study's point.

    The line joins only the points of the frontier: means of simulations scatter, and a line through all points would
    run back and forth.
    """
    costs = [point.study.summary() for point in timed.trade_off]
    days = [part["days"]["mean"] for part in costs]
    money = [part.get("money", part["samples"])["mean"] for part in costs]
    with canvas(theme, 7, 4.2) as (figure, style):
        panel = figure.subplots()
        panel.plot(days, money, "o", color=style.colour(0))
        panel.plot(*zip(*frontier(list(zip(days, money, strict=True))), strict=True), "-", color=style.colour(0))
        for place, (point, x, y) in enumerate(zip(timed.trade_off, days, money, strict=True)):
            worth = "only days" if math.isinf(point.day_cost) else f"{point.day_cost:,g}"
            aside = (6, 5) if place % 2 else (-6, -12)  # alternate sides, since neighbouring points often coincide
            side = "left" if place % 2 else "right"
            panel.annotate(worth, (x, y), textcoords="offset points", xytext=aside, size=8, ha=side)
            if point.own:
                panel.plot(x, y, "o", markersize=13, markerfacecolor="none", color=style.colour(1), label="this study")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        panel.set(xlabel="days, mean", ylabel="money, mean" if "money" in costs[0] else "samples, mean")
        panel.set_title("Money against days; labels show the assumed cost of a day")
        panel.legend()
    return figure
