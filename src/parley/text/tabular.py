"""Results in the forms that researchers use: a data frame, a table in a notebook, a short repr, a picture.

A kind of result names its columns once (`columns`), and says which of them make its picture (`picture`). Frame, HTML
and picture follow from these. pandas, Polars and matplotlib are imported only when somebody asks for their output.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.errors import MissingPackage, UnknownName, need
from parley.text.formatting import plural

FRAMES = {"pandas": "experiments", "polars": "polars"}  # package -> the extra that provides it, preferred first
MOST_ROWS = 12  # of a table in a notebook
LARGEST_TABLE = 100_000  # rows: larger tables are not built just to show a few
DRAWING = "parley.experiments.report_kit.plots"  # imported by name: numeric packages must not depend on matplotlib

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The form of a picture ("histogram", "bars" or "heat map") and the columns that it shows."""

    shape: str
    values: str  # the column that is drawn
    rows: str = ""  # the column that names the bars or a heat map's rows; what a histogram counts
    across: str = ""  # the column that names a heat map's columns
    low: str = ""  # bars: the columns with the ends of a range around the values
    high: str = ""


class Tabular(ABC):
    """Base class of results with a table, from which data frames, HTML and pictures are made.

    >>> class Draws(Tabular):
    ...     headline = "draws of two arms"
    ...     row_count = 2
    ...     picture = Picture(shape="bars", values="draws", rows="arm")
    ...     def columns(self):
    ...         return {"arm": ["A", "<B>"], "draws": np.array([1200, 3])}
    >>> Draws()
    <Draws: draws of two arms>
    >>> "<td>&lt;B&gt;</td><td>3</td>" in Draws()._repr_html_()
    True
    """

    @property
    @abstractmethod
    def headline(self) -> str:
        """One line about the result: its repr, and the caption of its table."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """The number of rows of the table, computed without building it."""

    @property
    @abstractmethod
    def picture(self) -> Picture:
        """The form of the picture that `plot` draws, and its columns."""

    @abstractmethod
    def columns(self) -> Columns:
        """The columns of the table, by name."""

    def to_frame(self, package: str | None = None) -> Any:
        """The table as a data frame of `package`, "pandas" or "polars"; by default, of one that is installed."""
        if package is not None and package not in FRAMES:
            raise UnknownName("package", package, FRAMES)
        found = [name for name in FRAMES if package in (None, name) and find_spec(name)]
        if not found:
            wanted = package or " or ".join(FRAMES)
            raise MissingPackage(wanted, extra=FRAMES[package or "pandas"], purpose="to_frame()")
        # Text is passed as a list: NumPy's text type has a fixed width, which neither package preserves.
        table = {name: _plain(values) for name, values in self.columns().items()}
        return need(found[0], extra=FRAMES[found[0]], purpose="to_frame()").DataFrame(table)

    def plot(self, values: str | None = None, *, axes: Any = None) -> Any:
        """Draw the table on the given matplotlib axes, or on new ones; returns the axes.

        `values` names the numeric column to draw instead of the usual column.
        """
        return importlib.import_module(DRAWING).draw(self, values, axes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def _repr_html_(self) -> str:
        """The first rows of the table as HTML, for notebooks."""
        from html import escape

        caption = f"<caption>{escape(self.headline)}</caption>"
        if self.row_count > LARGEST_TABLE:
            return f'<table class="dataframe">{caption}</table>'
        table = {name: _plain(values[:MOST_ROWS]) for name, values in self.columns().items()}
        head = "".join(f"<th>{escape(name)}</th>" for name in table)
        rows = (
            "".join(f"<td>{escape(_shown(value))}</td>" for value in row) for row in zip(*table.values(), strict=True)
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        hidden = self.row_count - MOST_ROWS
        more = f"<p>... and {plural(hidden, 'more row', 'more rows')}</p>" if hidden > 0 else ""
        return f'<table class="dataframe">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def cells(arms: Sequence[str], agents: Sequence[str], **values: NDArray[Any]) -> dict[str, Any]:
    """Columns of a table with a row for every pair of arm and agent, from arrays `(arm, agent)`.

    >>> table = cells(["A", "B"], ["Paris"], draws=np.array([[3], [5]]))
    >>> {name: list(map(str, column)) for name, column in table.items()}
    {'arm': ['A', 'B'], 'agent': ['Paris', 'Paris'], 'draws': ['3', '5']}
    """
    names = {"arm": [arm for arm in arms for _ in agents], "agent": list(agents) * len(arms)}
    shape = (len(arms), len(agents))
    return names | {name: np.broadcast_to(array, shape).ravel() for name, array in values.items()}


def _plain(values: Sequence[Any] | NDArray[Any]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind != "U":
        return values
    return [str(value) for value in values]


def _shown(value: Any) -> str:
    """Format a value of a table for display.

    >>> _shown(np.int64(1200)), _shown(0.123456), _shown(np.True_), _shown("A"), _shown(1e-12)
    ('1,200', '0.1235', 'yes', 'A', '1e-12')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        size = abs(float(value))
        return f"{value:,.1f}" if 1000 <= size < 1e15 else f"{value:.4g}"
    return str(value)
