"""The `plot()` of a result: a histogram, bars or a heat map of its table, on matplotlib axes.

The style is the caller's matplotlib style. The module `charts` has the figures that Parley writes itself.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from parley.errors import InvalidInput
from parley.experiments.report_kit.charts import draw_heat_map, sample_axis
from parley.text.tabular import Columns, Picture, Tabular


def draw(table: Tabular, values: str | None = None, axes: Any = None) -> Axes:
    """Plot a table's usual column, or its column `values`, on the given axes or on new ones.

    >>> from matplotlib.figure import Figure
    >>> import parley
    >>> problem = parley.Problem(arms=2, agents=["Paris", "Lille"], weights=[[0.7, 0.4], [0.3, 0.6]])
    >>> panel = draw(problem, axes=Figure().subplots())
    >>> [label.get_text() for label in panel.get_yticklabels()]
    ['Paris', 'Lille']
    """
    columns, picture = table.columns(), table.picture
    name = values or picture.values
    numbers = [key for key, column in columns.items() if np.asarray(column).dtype.kind in "iufb"]
    if name not in numbers:
        raise InvalidInput("values", found=repr(name), allowed=f"a column of numbers: {', '.join(numbers)}")
    if axes is None:
        # Like pandas, use pyplot: a notebook displays only figures that pyplot knows.
        from matplotlib import pyplot

        axes = pyplot.subplots(layout="constrained")[1]
    SHAPES[picture.shape](axes, columns, picture, name)
    axes.set_title(table.headline, size="medium")
    panel: Axes = axes
    return panel


def _histogram(axes: Axes, columns: Columns, picture: Picture, name: str) -> None:
    found = np.asarray(columns[name], dtype=np.float64)
    # Rice's rule: NumPy's own rule makes millions of bins if a single study in thousands is expensive.
    axes.hist(found, bins=math.ceil(2 * len(found) ** (1 / 3)) if np.ptp(found) else 1, alpha=0.75)
    axes.axvline(found.mean(), linestyle=":", color="black", label=f"mean {found.mean():,.4g}")
    axes.set(xlabel=name, ylabel=picture.rows)
    if found.max() >= 1000:
        sample_axis(axes, "x")
    axes.legend()


def _bars(axes: Axes, columns: Columns, picture: Picture, name: str) -> None:
    found, places = np.asarray(columns[name], dtype=np.float64), np.arange(len(columns[name]))
    axes.barh(places, found, alpha=0.75)
    if picture.low and name == picture.values:
        low, high = (np.asarray(columns[end], dtype=np.float64) for end in (picture.low, picture.high))
        axes.hlines(places, low, high, color="black", label=f"{picture.low} to {picture.high}")
        axes.legend()
    axes.set_yticks(places, [str(row) for row in columns[picture.rows]])
    axes.invert_yaxis()
    axes.set_xlabel(name)
    if found.max() >= 1000:
        sample_axis(axes, "x")


def _heat_map(axes: Axes, columns: Columns, picture: Picture, name: str) -> None:
    rows, across = (list(dict.fromkeys(map(str, columns[key]))) for key in (picture.rows, picture.across))
    found = np.asarray(columns[name], dtype=np.float64).reshape(len(rows), len(across))
    image = draw_heat_map(axes, found, rows, across)
    axes.set(ylabel=picture.rows, xlabel=picture.across)
    axes.figure.colorbar(image, ax=axes, label=name)


SHAPES: Mapping[str, Callable[[Axes, Columns, Picture, str], None]] = {
    "histogram": _histogram,
    "bars": _bars,
    "heat map": _heat_map,
}
