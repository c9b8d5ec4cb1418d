"""The tables, figures and page of a plan."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.costs import phase_days, stated_rates
from parley.experiments.forecasts.operating import Characteristic
from parley.experiments.forecasts.planning import Forecast, Logistics, ScenarioCost
from parley.experiments.report_kit.charts import delta_axis, sample_axis, theme_named
from parley.experiments.report_kit.pages import page, picture, table
from parley.formatting import size_text
from parley.harmonic.pace import agent_days
from parley.problem import FloatArray, IntArray, Problem

__all__ = [
    "bill_rows",
    "calendar",
    "move_rows",
    "operating_figure",
    "operating_head",
    "operating_parts",
    "operating_rows",
    "phase_calendar",
    "plan_figure",
    "plan_head",
    "plan_page",
    "plan_rows",
    "sized_once",
    "trade_figure",
    "trade_rows",
]

HEAD = (
    "scenario",
    "samples, mean",
    "10% to 90%",
    "rounds",
    "wrong",
    "median",
    "median alone",
    "saved",
)
LEVELS = {"delta": "delta, the error allowed", "horizon": "horizon, draws per agent"}
BILL_HEAD = ("scenario", "what", "mean", "10% to 90%")
TRADE_HEAD = ("a day is worth", "days, mean", "10% to 90%", "money, mean", "10% to 90%")

SAME = (
    "The truths are the same in every setting; near-ties are left out as the study's own weights see them, so other "
    "weights may meet some, and their upper ends are long."
)


def plan_head(plan: Forecast) -> tuple[str, ...]:
    """The heads of `plan_rows`: samples count, or regret where there is a horizon."""
    counted = "samples" if plan.scenarios[0].study_costs.regret is None else "regret"
    return tuple(title.replace("samples", counted) for title in HEAD)


def plan_rows(plan: Forecast) -> list[list[str]]:
    """One row per scenario, for a table of any kind."""
    return [_row(estimate, alone) for estimate, alone in zip(plan.scenarios, plan.alone, strict=True)]


def move_rows(plan: Forecast) -> list[list[str]]:
    """How the cost of the reference scenario moves, one setting a row."""
    settings = [(f"{plan.level_axis} {value:,.10g}", estimate) for value, estimate in plan.by_level]
    settings += [(f"{plan.weights_axis} {value:g}", estimate) for value, estimate in plan.by_weights]
    return [[setting, f"{estimate.quantiles(0.5)[0]:,.0f}"] for setting, estimate in settings]


def _row(estimate: ScenarioCost, alone: ScenarioCost) -> list[str]:
    low, high = estimate.quantiles(0.1, 0.9)
    # One near-tie of an agent alone would swamp a mean: compare what is typical.
    at_least = "at least " if 2 * alone.unfinished >= len(alone.samples) else ""
    together, apart = estimate.quantiles(0.5)[0], alone.quantiles(0.5)[0]
    return [
        estimate.scenario,
        f"{estimate.costs.mean():,.0f}",
        f"{low:,.0f} to {high:,.0f}",
        f"{estimate.rounds.mean():.1f}",
        f"{estimate.error_rate * len(estimate.samples):,.0f} of {len(estimate.samples):,}",
        f"{together:,.0f}",
        f"{at_least}{apart:,.0f}",
        f"{at_least}{apart / together:.2f} x" if apart >= together else "nothing",
    ]


def bill_rows(plan: Forecast) -> list[list[str]]:
    """Money and days of every scenario, where they are stated: expected, and from one study in ten to nine in ten."""
    return [
        [estimate.scenario, unit, f"{told['mean']:,.0f}", f"{told['p10']:,.0f} to {told['p90']:,.0f}"]
        for estimate in plan.scenarios
        for unit, told in estimate.study_costs.summary().items()
        if unit not in ("samples", "regret")
    ]


def trade_rows(timed: Logistics) -> list[list[str]]:
    """The points of the curve, from the cheapest study to the fastest."""
    rows = []
    for point in timed.trade:
        told = point.study_costs.summary()
        money = told.get("money", told["samples"])
        worth = "only days count" if math.isinf(point.day_cost) else f"{point.day_cost:,g}"
        days = told["days"]
        row = [worth + (" (this study)" if point.own else "")]
        for part in (days, money):
            row += [f"{part['mean']:,.0f}", f"{part['p10']:,.0f} to {part['p90']:,.0f}"]
        rows.append(row)
    return rows


def trade_figure(timed: Logistics, *, theme: str = "light") -> Figure:
    """Mean days against mean money, a point per worth of a day; the study's own is ringed."""
    look = theme_named(theme)
    told = [point.study_costs.summary() for point in timed.trade]
    days = [part["days"]["mean"] for part in told]
    money = [part.get("money", part["samples"])["mean"] for part in told]
    with look.context():
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        panel = figure.subplots()
        panel.plot(days, money, "o-", color=look.colour(0))
        for point, x, y in zip(timed.trade, days, money, strict=True):
            worth = "only days" if math.isinf(point.day_cost) else f"{point.day_cost:,g}"
            aside = (6, -12) if math.isinf(point.day_cost) else (6, 5)  # the last two are often nearly the same
            panel.annotate(worth, (x, y), textcoords="offset points", xytext=aside, size=8)
            if point.own:
                panel.plot(x, y, "o", markersize=13, markerfacecolor="none", color=look.colour(1), label="this study")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        panel.set_xlabel("days, mean")
        panel.set_ylabel("money, mean" if "money" in told[0] else "samples, mean")
        panel.set_title("Days against money: the figures are what a day is worth")
        panel.legend()
    return figure


def plan_figure(plan: Forecast, *, theme: str = "light") -> Figure:
    """Samples per scenario together and alone; how they move with delta; how they move with the weights."""
    look = theme_named(theme)
    with look.context():
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        spread, level, share = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
        places = range(len(plan.scenarios))
        for offset, estimates, colour, label in (
            (-0.18, plan.scenarios, look.colour(0), "together"),
            (0.18, plan.alone, look.colour(1), "every agent alone"),
        ):
            boxes = spread.boxplot(
                [estimate.costs for estimate in estimates],
                positions=[place + offset for place in places],
                widths=0.3,
                showfliers=False,
                patch_artist=True,
                medianprops={"color": look.ink},
                whiskerprops={"color": colour},
                capprops={"color": colour},
            )
            for box in boxes["boxes"]:
                box.set(facecolor=colour, edgecolor=colour, alpha=0.75)
            spread.plot([], [], "s", color=colour, label=label)
        lines = [re.sub(r" (?=\(|against )|, ", "\n", estimate.scenario) for estimate in plan.scenarios]
        spread.set_xticks(list(places), lines, size=8)
        spread.set_yscale("log")
        counted = plan_head(plan)[1].partition(",")[0]
        spread.set_ylabel(f"{counted} of all agents")
        spread.set_title("Cost by scenario")
        spread.legend()
        for panel, points, label in (
            (level, plan.by_level, LEVELS[plan.level_axis]),
            (share, plan.by_weights, plan.weights_axis),
        ):
            values = [value for value, _ in points]
            panel.plot(values, [estimate.quantiles(0.5)[0] for _, estimate in points], "o-", color=look.colour(0))
            low, high = zip(*(estimate.quantiles(0.1, 0.9) for _, estimate in points), strict=True)
            panel.fill_between(values, low, high, color=look.colour(0), alpha=0.2, linewidth=0)
            panel.set_xlabel(label)
            panel.set_ylabel(f"{counted}, median and 10% to 90%")
            panel.set_yscale("log")
        for panel in (spread, level, share):
            sample_axis(panel)
        if plan.level_axis == "delta":
            delta_axis(level, [value for value, _ in plan.by_level])
        else:
            level.set_xscale("log")
        level.set_title(f"Cost by {plan.level_axis}")
        share.set_title("Cost by weights")
    return figure


def plan_page(
    plan: Forecast,
    *,
    title: str,
    problem: Problem,
    policy: str,
    guarantee: str,
    command: str,
    timed: Logistics | None = None,
    characteristics: Sequence[Characteristic] = (),
) -> str:
    """Everything a plan tells, on one page; `timed` is about time, where rates are stated."""
    reference = plan.scenarios[-1]
    per_agent: Sequence[Sequence[str]] = [
        [estimate.scenario, *(f"{value:,.0f}" for value in estimate.per_agent)] for estimate in plan.scenarios
    ]
    shares = ["<h2>Who will draw how much</h2>", table(("scenario, mean draws", *problem.agents), per_agent)]
    if problem.horizon is not None:  # everybody draws to the end
        shares = []
    unusual = "".join(f" {words[:1].upper()}{words[1:]}." for words in problem.descriptions().values())
    return page(
        title,
        f"<p>{size_text(problem.shape)}, top {problem.top}, delta {problem.delta:g}. "
        f"Policy <code>{escape(policy)}</code>: {escape(guarantee)}.{escape(unusual)} "
        "Each figure comes from simulated studies.</p>",
        picture(lambda theme: plan_figure(plan, theme=theme), "Samples by scenario, by delta and by weights"),
        "<h2>What it will cost</h2>",
        table(plan_head(plan), plan_rows(plan)),
        *(operating_parts(characteristics) if characteristics else ()),
        *_billed(plan, problem, timed),
        *shares,
        f"<h2>What moves the cost</h2><p>Scenario: {escape(reference.scenario)}. {SAME}</p>",
        table(("setting", plan_head(plan)[1].replace("mean", "median")), move_rows(plan)),
        command=command,
    )


def _billed(plan: Forecast, problem: Problem, timed: Logistics | None) -> list[str]:
    """The parts about money and days."""
    parts = []
    if rows := bill_rows(plan):
        parts += ["<h2>Money and days</h2>", table(BILL_HEAD, rows)]
    reference = escape(plan.scenarios[-1].scenario)
    if timed and timed.trade:
        parts += [
            f"<h2>Days against money</h2><p>Scenario: {reference}. The more a day is worth, the faster the study and "
            "the dearer its draws. Choose a point and write its worth as <code>sampling.day_cost</code>.</p>",
            picture(
                lambda theme: trade_figure(timed, theme=theme), "Mean days against mean money, by what a day is worth"
            ),
            table(TRADE_HEAD, trade_rows(timed)),
        ]
    if timed and timed.course:
        parts += [
            f"<h2>Who draws when</h2><p>One simulated study. Scenario: {reference}.</p>",
            picture(lambda theme: phase_calendar(problem, timed.course, theme=theme), "Phases by site, over the days"),
        ]
    return parts


OPERATING_WORDS = (
    "Truths in which every arm outside the top is worse by just the gap, and truths drawn from the prior. Power: in "
    "how many simulated studies every agent got an answer within the tolerance of its best. Fixed size: the same "
    "number of draws of every arm at every agent, fixed in advance and tested once with Bonferroni's correction, with "
    "the same power under this very truth, which nobody knows when a size is fixed. Alone: every agent by itself, "
    "with the same policy; a study that cost a hundred times as much as together was stopped."
)


def sized_once(found: Sequence[Characteristic]) -> str:
    """What a size costs that must do for all of these truths: it is the same under each."""
    sizes = [one.fixed.samples for one in found if one.fixed is not None]
    return f"A fixed size that does for all of these truths takes {max(sizes):,} samples under each." if sizes else ""


def operating_head(found: Sequence[Characteristic]) -> tuple[str, ...]:
    """The heads of `operating_rows`; days where rates are stated."""
    days = ("days, mean", "days, 90%") if found[0].study.study_costs.days is not None else ()
    return ("truth", "power", "wrong", "samples, mean", "90%", "rounds", *days, "fixed size", "alone, mean")


def operating_rows(found: Sequence[Characteristic]) -> list[list[str]]:
    """One row per truth, for a table of any kind."""
    return [_operating_row(one) for one in found]


def _operating_row(one: Characteristic) -> list[str]:
    study, told = one.study, one.study.study_costs.summary()
    days = [f"{told['days'][key]:,.0f}" for key in ("mean", "p90")] if "days" in told else []
    at_least = "at least " if one.alone.unfinished else ""
    return [
        study.scenario,
        f"{100 * study.power:.1f} %",
        f"{100 * study.error_rate:.1f} %",
        f"{told['samples']['mean']:,.0f}",
        f"{told['samples']['p90']:,.0f}",
        f"{study.rounds.mean():.1f}",
        *days,
        "–" if one.fixed is None else f"{one.fixed.samples:,}",
        f"{at_least}{one.alone.samples.mean():,.0f}",
    ]


def operating_figure(found: Sequence[Characteristic], *, theme: str = "light") -> Figure:
    """Power and wrong answers by truth; samples by truth, beside the fixed size and every agent alone."""
    look = theme_named(theme)
    places, names = np.arange(len(found)), [one.study.scenario.replace(", ", ",\n") for one in found]
    with look.context():
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        power, cost = figure.subplots(1, 2, width_ratios=(1, 1.35))
        power.plot(places, [100 * one.study.power for one in found], "o-", color=look.colour(0), label="power")
        wrong = [100 * one.study.error_rate for one in found]
        power.plot(places, wrong, "s--", color=look.colour(1), label="wrong answers")
        power.set_ylim(-4, 104)
        power.set_ylabel("studies, %")
        power.set_title("Power to find the best within the tolerance")
        power.legend(loc="center left")
        _mean_to_p90(cost, places - 0.2, [one.study for one in found], look.colour(0), "this study, mean to 90%", "o")
        sized = [(place, one.fixed.samples) for place, one in zip(places, found, strict=True) if one.fixed]
        if sized:
            cost.plot(*zip(*sized, strict=True), "D", color=look.colour(2), label="fixed size, Bonferroni")
        _mean_to_p90(cost, places + 0.2, [one.alone for one in found], look.colour(1), "every agent alone", "s")
        cost.set_yscale("log")
        sample_axis(cost)
        cost.set_ylabel("samples of all agents")
        cost.set_title("What it costs")
        cost.legend()
        for panel in (power, cost):
            panel.set_xticks(places, names, size=8)
            panel.set_xlim(-0.5, len(found) - 0.5)
    return figure


def _mean_to_p90(panel: Axes, places: Any, studies: Sequence[ScenarioCost], colour: str, label: str, mark: str) -> None:
    means = np.array([study.samples.mean() for study in studies])
    high = np.array([np.quantile(study.samples, 0.9) for study in studies])
    panel.errorbar(
        places, means, yerr=[np.zeros(len(means)), np.maximum(high - means, 0)], fmt=mark, color=colour, label=label,
        capsize=4,
    )  # fmt: skip


def operating_parts(found: Sequence[Characteristic]) -> list[str]:
    """The part of a plan's page."""
    return [
        f"<h2>Operating characteristics</h2><p>{OPERATING_WORDS}</p>",
        picture(lambda theme: operating_figure(found, theme=theme), "Power, wrong answers and samples by truth"),
        table(operating_head(found), operating_rows(found)),
        f"<p>{sized_once(found)}</p>",
    ]


MOST_SITES = 40  # more bars would be too thin to read


def calendar(problem: Problem, quotas: Sequence[IntArray]) -> tuple[FloatArray, FloatArray]:
    """When every phase begins, `(phase,)`, and how long every agent draws in it, `(phase, agent)`, in days.

    >>> problem = Problem(arms=2, weights=np.eye(2), rate=[1.0, 4.0], round_days=2)
    >>> begins, draws = calendar(problem, [np.array([[3, 0], [1, 8]])] * 2)
    >>> begins.tolist(), draws.tolist()
    ([0.0, 6.0], [[4.0, 2.0], [4.0, 2.0]])
    """
    each = np.stack(list(quotas))
    lasts = phase_days(problem, each)
    return np.concatenate([[0.0], np.cumsum(lasts)[:-1]]), agent_days(each, stated_rates(problem))


def phase_calendar(problem: Problem, quotas: Sequence[IntArray], *, theme: str = "light") -> Figure:
    """A row per site, a bar per phase; thin lines are where phases begin, gaps are waiting."""
    look = theme_named(theme)
    begins, draws = calendar(problem, quotas)
    shown, end = min(problem.agent_count, MOST_SITES), float(begins[-1] + phase_days(problem, quotas[-1]))
    with look.context():
        figure = Figure(figsize=(11, 1.5 + 0.36 * shown), layout="constrained")
        panel = figure.subplots()
        for phase, begin in enumerate(begins):
            panel.barh(range(shown), draws[phase, :shown], left=begin, height=0.62, color=look.colour(phase))
            panel.axvline(begin, color=look.muted, linewidth=0.8)
        panel.set_yticks(range(shown), problem.agents[:shown])
        ticks = _apart(begins, end / 14)
        panel.set_xticks(begins[ticks], [f"{begins[phase]:,.0f}\nphase {phase + 1}" for phase in ticks], size=8)
        panel.invert_yaxis()
        panel.grid(visible=False)
        panel.set_xlabel("day on which a phase begins")
        panel.set_xlim(0, end)
        hidden = problem.agent_count - shown
        more = f" (first {shown} sites of {problem.agent_count})" if hidden else ""
        panel.set_title(f"One study of {end:,.0f} days, by site: bars are draws, gaps wait for the slowest{more}")
    return figure


def _apart(places: FloatArray, least: float) -> list[int]:
    """Which places to label, so that no two labels lie on each other."""
    chosen = [0]
    for place in range(1, len(places)):
        if places[place] - places[chosen[-1]] >= least:
            chosen.append(place)
    return chosen
