"""The style of figures: colours, axes, legends and marks; and the timeline of one run.

The colours are Okabe and Ito's, darkened or lightened where they would be too faint on the background. Colour-blind
readers can distinguish them, and every series also has its own marker and dash, so that colour is never the only cue.
Functions return matplotlib `Figure` objects, which the caller may display or save; no figure is kept in a global.

>>> from parley.policies import make_policy
>>> from parley.simulation import phases
>>> from parley.study import parse_study
>>> document = {"arms": 3, "agents": 2, "noise": {"scale": 1.0}, "truth": {"generate": "paper", "min_gap": 0.2}}
>>> study = parse_study(document)
>>> run = list(phases(make_policy("wcpe", study.problem), study.instance, seed=0))
>>> len(elimination_timeline(run, study.problem).axes)
2
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator, ScalarFormatter

from parley.errors import InvalidInput, UnknownName
from parley.problem import FloatArray, Problem
from parley.simulation import Phase
from parley.text.translation import gettext, localized

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
WIDEST_LEGEND = 0.98  # largest width of a legend, as a share of the figure's width
MOST_PANELS = 12  # largest number of agents with a panel; more panels would be too small to read
MOST_TICKS = 7  # largest number of phases with a label


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The colours of a figure's background, text, lines and series."""

    ground: str  # background
    ink: str  # text
    faint: str  # grid lines and frames
    muted: str  # elements out of focus: published figures, arms that are out
    series: tuple[str, ...]

    def colour(self, place: int) -> str:
        """The colour of series number `place`, counted from 0; colours repeat after the last.

        >>> THEMES["light"].colour(0)
        '#0072b2'
        """
        return self.series[place % len(self.series)]

    def context(self) -> AbstractContextManager[None]:
        """A context in which matplotlib draws with the settings of the theme."""
        settings: Any = {
            "figure.facecolor": self.ground,
            "axes.facecolor": self.ground,
            "savefig.facecolor": self.ground,
            "axes.edgecolor": self.faint,
            "axes.labelcolor": self.ink,
            "text.color": self.ink,
            "xtick.color": self.ink,
            "ytick.color": self.ink,
            "grid.color": self.faint,
            "axes.grid": True,
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 10,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
        }
        return rc_context(settings)


THEMES = {
    "light": Theme(
        ground="#ffffff",
        ink="#1c1f24",
        faint="#d5d9e0",
        muted="#737985",
        series=("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b07d00", "#3f97c7", "#5b5b5b", "#882255"),
    ),
    "dark": Theme(
        ground="#14171c",
        ink="#e8eaee",
        faint="#3a404a",
        muted="#9aa1ad",
        series=("#56b4e9", "#ff8c42", "#2fc79b", "#e39ac6", "#f0e442", "#8fa8ff", "#c4c4c4", "#ff7f9c"),
    ),
}


def theme_named(name: str) -> Theme:
    """Return a theme by its name; raise an error that lists all themes if the name is unknown."""
    if name not in THEMES:
        raise UnknownName("theme", name, THEMES)
    return THEMES[name]


@contextmanager
def canvas(theme: str, width: float, height: float) -> Iterator[tuple[Figure, Theme]]:
    """A context that yields an empty figure of this size in inches, and its theme.

    >>> with canvas("dark", 6, 4) as (figure, style):
    ...     line = figure.subplots().plot([1, 2], color=style.colour(0))
    >>> line[0].get_color()
    '#56b4e9'
    """
    style, asked = theme_named(theme), _WIDTH.get()
    if asked is not None:
        # Letters keep their printed size, so the height of a narrower figure shrinks less than its width.
        width, height = asked, height * math.sqrt(asked / width)
    with style.context(), rc_context({} if asked is None else PRINTED):
        yield Figure(figsize=(width, height), layout="constrained"), style


_WIDTH: ContextVar[float | None] = ContextVar("width of the figures that are drawn, in inches", default=None)
NARROW = 5.0  # inches
PRINTED: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
}


@contextmanager
def column_width(inches: float | None) -> Iterator[None]:
    """A context in which figures are `inches` wide, like a page's column, with 8-point letters.

    With None, each figure keeps its usual width.
    """
    token = _WIDTH.set(inches)
    try:
        yield
    finally:
        _WIDTH.reset(token)


def side_by_side(count: int) -> int:
    """The number of panels to put in one row: all `count` of them, or only one in a narrow column.

    >>> with column_width(3.35):
    ...     side_by_side(2)
    1
    """
    asked = _WIDTH.get()
    return count if asked is None or asked >= NARROW else 1


def title_above(figure: Figure, text: str) -> None:
    """Put a title above all panels of a figure, on as many lines as it needs."""
    size = float(rcParams["axes.titlesize"])
    letters = int(figure.get_figwidth() * 72 / (0.55 * size))
    figure.suptitle(fill(text, letters), size=size)


def draw_boxes(
    panel: Axes, values: Sequence[Any], places: Sequence[float], *, colour: str, style: Theme, label: str, **more: Any
) -> None:
    """Draw boxplots of one colour, one for each array in `values`, at the positions `places`.

    Boxes end at the quartiles; whiskers extend by up to 1.5 times the distance between the quartiles.
    """
    drawn = panel.boxplot(
        list(values),
        positions=list(places),
        patch_artist=True,
        medianprops={"color": style.ink, "linewidth": 1.6},
        flierprops={"marker": ".", "markersize": 2, "markeredgecolor": colour, "alpha": 0.4},
        whiskerprops={"color": colour},
        capprops={"color": colour},
        **more,
    )
    for box in drawn["boxes"]:
        box.set(facecolor=colour, edgecolor=colour, alpha=0.75)
    panel.plot([], [], "s", color=colour, label=label)  # the legend shows a small square


MOST_NUMBERS = 60  # largest number of cells of a heat map whose numbers are legible


def draw_heat_map(
    panel: Axes,
    values: FloatArray,
    rows: Sequence[str],
    across: Sequence[str],
    *,
    shades: FloatArray | None = None,
    top: float | None = None,
) -> Any:
    """Draw a heat map, with numbers in its cells if they are few enough to be legible.

    Colours show `shades` if given, else `values`. The scale of colours runs from 0 to `top` if given, else from the
    smallest to the largest of these numbers.
    """
    shown = values if shades is None else shades
    low, high = (float(shown.min()), float(shown.max())) if top is None else (0.0, top)
    panel.grid(visible=False)
    image = panel.imshow(shown, aspect="auto", cmap="cividis", vmin=low, vmax=high)
    panel.set_xticks(range(len(across)), across, rotation=30, ha="right")
    panel.set_yticks(range(len(rows)), rows)
    if values.size <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            ink = "#ffffff" if shown[row, column] - low <= 0.55 * (high - low) else "#14171c"
            text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
            panel.text(column, row, text, ha="center", va="center", color=ink, size=8)
    return image


SCREEN = {"light": "", "dark": "-dark"}  # theme -> ending of its file names
# Settings for writing files. A PDF embeds its fonts as TrueType, because journals refuse the default, Type 3. In an
# SVG, text stays text, so that it can be searched, edited and read aloud.
FONTS: Any = {"pdf.fonttype": 42, "svg.fonttype": "none"}


def save_figure(
    draw: Callable[..., Figure],
    folder: Path,
    name: str,
    *,
    title: str,
    formats: Sequence[str] = ("png", "svg"),
    themes: Mapping[str, str] = SCREEN,
) -> list[Path]:
    """Write a figure in every format and theme; `draw` is called with the theme. Returns the files.

    PDF files contain no date, so that the same numbers give the same file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for theme, suffix in themes.items():
        figure = draw(theme=theme)
        for kind in formats:
            files.append(folder / f"{name}{suffix}.{kind}")
            undated = {"CreationDate": None} if kind == "pdf" else {}
            with rc_context(FONTS):
                figure.savefig(files[-1], dpi=150, metadata={"Title": title, **undated})
    return files


def sample_axis(panel: Axes, which: Literal["x", "y"] = "y") -> None:
    """Format numbers of samples on an axis as people write them: 1,000 and 2,000, never 2 x 10^3."""
    axis = panel.yaxis if which == "y" else panel.xaxis
    if axis.get_scale() == "log":
        low, high = sorted(axis.get_view_interval())
        between = (1.0, 2.0, 5.0) if which == "y" or high < 30 * low else (1.0,)  # words need more room along x
        axis.set_major_locator(LogLocator(subs=between))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: localized(f"{value:,.0f}")))


class _LocalizedTicks(ScalarFormatter):
    """Formats numbers as matplotlib does, but with the separators of the reader's language."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return localized(super().__call__(x, pos))


def localized_axis(panel: Axes, which: Literal["x", "y"]) -> None:
    """Format the numbers on an axis with the separators of the reader's language."""
    (panel.yaxis if which == "y" else panel.xaxis).set_major_formatter(_LocalizedTicks())


def delta_axis(panel: Axes, deltas: list[float]) -> None:
    """Put deltas on the x axis, from the largest to the smallest, in plain decimals: 0.1, 0.01, 0.001.

    >>> panel = Figure().subplots()
    >>> delta_axis(panel, [0.1, 0.05, 0.001])
    >>> [panel.xaxis.get_major_formatter()(value) for value in (0.1, 0.001)]
    ['0.1', '0.001']
    """
    panel.set_xscale("log")
    # Labels of deltas less than a third of a decade apart would overlap.
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
    """Put one legend under all panels, in as many columns as fit the width of the figure."""
    handles, labels = panel.get_legend_handles_labels()
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    # Only a drawn legend knows its width, so layouts with fewer and fewer columns are tried until one fits.
    for count in range(min(len(labels), columns), 0, -1):
        made = figure.legend(handles, labels, loc="outside lower center", ncols=count)
        if count == 1 or made.get_window_extent(renderer).width <= WIDEST_LEGEND * figure.bbox.width:
            for line in made.get_lines():
                line.set_linewidth(1.8)
            return
        made.remove()


def elimination_timeline(phases: Sequence[Phase], problem: Problem, *, theme: str = "light") -> Figure:
    """Plot one run, a panel per agent: each arm's estimated mixed mean, with a cross where the arm was dropped."""
    if not phases:
        raise InvalidInput("phases", found="none", allowed="at least one phase of a run")
    shown = min(problem.agent_count, MOST_PANELS)
    columns = min(shown, 3)
    rows = math.ceil(shown / columns)
    with canvas(theme, 1.2 + 3.4 * columns, 1.0 + 2.8 * rows) as (figure, style):
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for agent, panel in enumerate(panels[:shown]):
            _draw_timeline(panel, phases, problem, agent, style)
        for panel in panels[shown:]:
            panel.set_axis_off()
        for panel in panels[max(shown - columns, 0) : shown]:  # panels with no panel below them
            panel.tick_params(labelbottom=True)
            panel.set_xlabel(gettext("phase, and draws so far"), size=9)
        legend_below(figure, panels[0])
        out = gettext("A cross: the phase in which the arm was ruled out")
        title = gettext("A cross: the phase in which the arm was ruled out or set aside") if problem.tolerance else out
        if problem.agent_count > shown:
            title += gettext(" (first %(shown)s agents of %(count)s)", shown=shown, count=problem.agent_count)
        figure.suptitle(title, size=11)
    return figure


def _draw_timeline(panel: Axes, phases: Sequence[Phase], problem: Problem, agent: int, style: Theme) -> None:
    numbers = np.array([phase.number for phase in phases])
    means = np.stack([problem.mixed(phase.after.means)[:, agent] for phase in phases])
    dropped = phases[-1].after.dropped_in[:, agent]
    for arm, name in enumerate(problem.arms):
        last = int(dropped[arm]) or int(numbers[-1])
        seen = numbers <= last
        out = dropped[arm] > 0
        colour = style.colour(arm)
        panel.plot(
            numbers[seen],
            means[seen, arm],
            color=colour,
            linestyle=DASHES[arm // len(style.series) % len(DASHES)],
            marker=MARKERS[arm % len(MARKERS)],
            linewidth=1.2 if out else 2.6,
            label=name,
        )
        if out:
            end = means[numbers == last, arm]
            panel.plot(last, end, "x", color=style.ink, markersize=9, markeredgewidth=1.6, zorder=5)
    remaining = [name for arm, name in enumerate(problem.arms) if not dropped[arm]]
    still = gettext("%(count)s arms left", count=len(remaining))
    answer = ", ".join(remaining) if len(remaining) == problem.top else still
    panel.set_title(f"{problem.agents[agent]}: {answer}")
    ticks = phases[:: math.ceil(len(phases) / MOST_TICKS)]
    labels = [f"{phase.number}\n{_thousands(int(phase.after.counts.sum()))}" for phase in ticks]
    panel.set_xticks([phase.number for phase in ticks], labels)
    panel.set_xlim(numbers[0] - 0.25, numbers[-1] + 0.25)
    if panel.get_subplotspec().is_first_col():  # type: ignore[union-attr]
        panel.set_ylabel(gettext("mean reward, weighted"))
        localized_axis(panel, "y")


def _thousands(count: int) -> str:
    """Abbreviate a number of samples for an axis.

    >>> _thousands(950), _thousands(93_969), _thousands(2_400_000)
    ('950', '94.0k', '2.4M')
    """
    if count < 1_000:
        return str(count)
    return localized(f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M")
