"""Operating characteristics as a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.experiments.forecasts.operating import Characteristic
from parley.experiments.forecasts.planning import ScenarioCost
from parley.experiments.look.axes import sample_axis
from parley.experiments.look.page import picture, table
from parley.experiments.look.palette import theme_named

__all__ = ["operating_figure", "operating_head", "operating_parts", "operating_rows", "sized_once"]

WORDS = (
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
    days = ("days, mean", "days, 90%") if found[0].study.bill.days is not None else ()
    return ("truth", "power", "wrong", "samples, mean", "90%", "rounds", *days, "fixed size", "alone, mean")


def operating_rows(found: Sequence[Characteristic]) -> list[list[str]]:
    """One row per truth, for a table of any kind."""
    return [_row(one) for one in found]


def _row(one: Characteristic) -> list[str]:
    study, told = one.study, one.study.bill.told()
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
        _spread(cost, places - 0.2, [one.study for one in found], look.colour(0), "this study, mean to 90%", "o")
        sized = [(place, one.fixed.samples) for place, one in zip(places, found, strict=True) if one.fixed]
        if sized:
            cost.plot(*zip(*sized, strict=True), "D", color=look.colour(2), label="fixed size, Bonferroni")
        _spread(cost, places + 0.2, [one.alone for one in found], look.colour(1), "every agent alone", "s")
        cost.set_yscale("log")
        sample_axis(cost)
        cost.set_ylabel("samples of all agents")
        cost.set_title("What it costs")
        cost.legend()
        for panel in (power, cost):
            panel.set_xticks(places, names, size=8)
            panel.set_xlim(-0.5, len(found) - 0.5)
    return figure


def _spread(panel: Axes, places: Any, studies: Sequence[ScenarioCost], colour: str, label: str, mark: str) -> None:
    means = np.array([study.samples.mean() for study in studies])
    high = np.array([np.quantile(study.samples, 0.9) for study in studies])
    panel.errorbar(
        places, means, yerr=[np.zeros(len(means)), np.maximum(high - means, 0)], fmt=mark, color=colour, label=label,
        capsize=4,
    )  # fmt: skip


def operating_parts(found: Sequence[Characteristic]) -> list[str]:
    """The part of a plan's page."""
    return [
        f"<h2>Operating characteristics</h2><p>{WORDS}</p>",
        picture(lambda theme: operating_figure(found, theme=theme), "Power, wrong answers and samples by truth"),
        table(operating_head(found), operating_rows(found)),
        f"<p>{sized_once(found)}</p>",
    ]
