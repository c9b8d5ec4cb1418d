"""Axes and legends that every figure shares: plain numbers on logarithmic axes, legends that stay in the picture."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

__all__ = ["delta_axis", "legend_below", "sample_axis"]

WIDE = 0.98  # of a figure, which a legend may take


def sample_axis(panel: Axes) -> None:
    """Samples along y as people write them: 1,000 and 2,000, never 2 x 10^3."""
    if panel.get_yscale() == "log":
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        panel.yaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def delta_axis(panel: Axes, deltas: list[float]) -> None:
    """Deltas along x, from the largest to the smallest, each as it is typed: 0.1, 0.01, 0.001.

    >>> panel = Figure().subplots()
    >>> delta_axis(panel, [0.1, 0.05, 0.001])
    >>> [panel.xaxis.get_major_formatter()(value) for value in (0.1, 0.001)]
    ['0.1', '0.001']
    """
    panel.set_xscale("log")
    # Neighbours less than a third of a decade apart would write over each other.
    shown: list[float] = []
    for value in sorted(deltas, reverse=True):
        if not shown or 2.2 * value < shown[-1]:
            shown.append(value)
    panel.xaxis.set_major_locator(FixedLocator(shown))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10f}".rstrip("0")))
    if not panel.xaxis_inverted():
        panel.invert_xaxis()


def legend_below(figure: Figure, panel: Axes, *, columns: int = 8) -> None:
    """One legend under all panels, in as many columns as fit into the picture."""
    handles, labels = panel.get_legend_handles_labels()
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for count in range(min(len(labels), columns), 0, -1):
        made = figure.legend(handles, labels, loc="outside lower center", ncols=count)
        if count == 1 or made.get_window_extent(renderer).width <= WIDE * figure.bbox.width:
            for line in made.get_lines():
                line.set_linewidth(1.8)
            return
        made.remove()
