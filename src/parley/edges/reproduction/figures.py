"""Figures of the exhibits of `parley reproduce`."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.edges.reproduction.exhibits import Exhibit
from parley.edges.reproduction.reproduction import Row
from parley.experiments.report_kit.charts import Theme, canvas, delta_axis, legend_below, sample_axis

# Algorithm and source -> colour index (None: grey), marker and line style, the same in every figure.
SERIES = {
    ("W-CPE-BAI", "published"): (None, "o", "--"),
    ("PF-UCB-BAI", "published"): (None, "s", "--"),
    ("W-CPE-BAI", "as written"): (0, "o", "-"),
    ("PF-UCB-BAI", "as written"): (1, "s", "-"),
    ("evidence racing", "ours"): (2, "D", "-"),
    ("PF-UCB-BAI", "local means"): (3, "^", ":"),
    ("W-CPE-BAI", "capped counts"): (3, "^", ":"),
    ("PF-UCB", "published"): (None, "s", "--"),
    ("PF-UCB", "as written"): (1, "s", "-"),
    ("PF-UCB", "as released"): (3, "^", ":"),
}


ALPHA = "alpha (share of its own reward in an agent's mix)"
SAMPLES = "mean samples (bars: standard error)"


def _table1(exhibit: Exhibit, theme: str) -> Figure:
    with canvas(theme, 10.5, 4.4) as (figure, style):
        costs, rounds = figure.subplots(1, 2)
        _series(costs, exhibit.rows, style, x="alpha", y="cost")
        costs.set(title="Samples", ylabel=SAMPLES, yscale="log")
        sample_axis(costs)
        _rounds(rounds, exhibit.rows, style)
        _alphas(costs, exhibit.rows)
        legend_below(figure, costs, columns=3)
        figure.suptitle("The paper's Table 1 again: delta = 0.1", size=11)
    return figure


def _table2(exhibit: Exhibit, theme: str) -> Figure:
    with canvas(theme, 10.5, 4.4) as (figure, style):
        costs, ratios = figure.subplots(1, 2)
        _series(costs, exhibit.rows, style, x="delta", y="cost")
        _series(ratios, exhibit.rows, style, x="delta", y="ratio")
        bounds = {row.delta: row.bound for row in exhibit.rows if row.source != "published"}
        costs.plot(list(bounds), list(bounds.values()), color=style.ink, linestyle=":", label="lower bound c*")
        ratios.axhline(1, color=style.ink, linestyle=":")
        for panel in (costs, ratios):
            delta_axis(panel, sorted(bounds))
            panel.set(xlabel="delta (allowed probability of an error)", yscale="log")
            sample_axis(panel)
        costs.set(title="Samples", ylabel=SAMPLES)
        ratios.set(title="Ratio to the lower bound", ylabel="mean samples / c*")
        legend_below(figure, costs, columns=3)
        figure.suptitle("The paper's Table 2 again: alpha = 0.5", size=11)
    return figure


def _baseline(exhibit: Exhibit, theme: str) -> Figure:
    with canvas(theme, 7, 4.4) as (figure, style):
        panel = figure.subplots()
        title = "PF-UCB-BAI: published costs come from comparing local with mixed means"
        _samples_by_alpha(panel, exhibit.rows, style, title)
        legend_below(figure, panel, columns=3)
    return figure


def _counts(exhibit: Exhibit, theme: str) -> Figure:
    with canvas(theme, 10.5, 4.4) as (figure, style):
        search, costs = figure.subplots(1, 2)
        numbers = [one.phase for one in exhibit.searches]
        exact, found = [one.exact.max() for one in exhibit.searches], [one.found.max() for one in exhibit.searches]
        search.plot(numbers, exact, color=style.colour(0), marker="o", label="exact smallest counts")
        search.plot(numbers, found, color=style.colour(1), marker="x", linestyle="--", label="search, 1,000 iterations")
        search.set(title="One run: largest count of a phase", xlabel="phase", ylabel="draws of one arm by one agent")
        search.set_yscale("log")
        sample_axis(search)
        search.set_xticks(numbers)
        search.legend(loc="upper left")
        rows = [row for row in exhibit.rows if row.delta == 0.1]
        _samples_by_alpha(costs, rows, style, "W-CPE-BAI at delta = 0.1")
        legend_below(figure, costs, columns=3)
    return figure


def _regret(exhibit: Exhibit, theme: str) -> Figure:
    rows = [row for row in exhibit.rows if row.instance == "performance"]
    bounds = {row.alpha: row.bound for row in rows}
    with canvas(theme, 10.5, 4.4) as (figure, style):
        regrets, rounds = figure.subplots(1, 2)
        _series(regrets, rows, style, x="alpha", y="cost")
        regrets.plot(list(bounds), list(bounds.values()), color=style.ink, linestyle=":", label="C* log T")
        regrets.set(title="Regret after 10^6 draws per agent", ylabel="mean regret of all agents", yscale="log")
        sample_axis(regrets)
        _alphas(regrets, rows)
        _rounds(rounds, rows, style)
        legend_below(figure, regrets, columns=3)
        figure.suptitle("PF-UCB on its published instance", size=11)
    return figure


def _samples_by_alpha(panel: Axes, rows: Sequence[Row], style: Theme, title: str) -> None:
    _series(panel, rows, style, x="alpha", y="cost")
    panel.set(title=title, ylabel=SAMPLES, ylim=(0, None))
    sample_axis(panel)
    _alphas(panel, rows)


def _rounds(panel: Axes, rows: Sequence[Row], style: Theme) -> None:
    _series(panel, rows, style, x="alpha", y="rounds")
    panel.set(title="Rounds of communication", ylabel="mean rounds", ylim=(0, None))
    _alphas(panel, rows)


def _alphas(panel: Axes, rows: Sequence[Row]) -> None:
    panel.set_xlabel(ALPHA)
    panel.set_xticks(sorted({row.alpha for row in rows}))


def draw_exhibit(exhibit: Exhibit, *, theme: str = "light") -> Figure:
    """Draw the figure of an exhibit."""
    drawn = {"table1": _table1, "table2": _table2, "baseline": _baseline, "counts": _counts, "pf-ucb": _regret}
    return drawn[exhibit.name](exhibit, theme)


def _series(panel: Axes, rows: Sequence[Row], style: Theme, *, x: str, y: str) -> None:
    for (algorithm, source), (place, marker, dash) in SERIES.items():
        mine = [row for row in rows if (row.algorithm, row.source) == (algorithm, source)]
        mine = [row for row in mine if getattr(row, y) is not None]
        if not mine:
            continue
        # Standard errors in units of y; rounds have none.
        scales = {"cost": [1.0] * len(mine), "ratio": [1 / row.bound for row in mine]}.get(y)
        panel.errorbar(
            [getattr(row, x) for row in mine],
            [getattr(row, y) for row in mine],
            yerr=scales and [row.standard_error * scale for row, scale in zip(mine, scales, strict=True)],
            color=style.muted if place is None else style.colour(place),
            marker=marker,
            linestyle=dash,
            capsize=3,
            label=f"{algorithm}, {source}" if source != "ours" else f"{algorithm} (ours)",
        )
