"""How figures look: colours that colour-blind readers can tell apart, on light and on dark ground.

The colours are Okabe and Ito's, darkened or lightened where they would vanish on the ground; every series also has
its own marker and dash, so that colour is never the only cue.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from matplotlib import rc_context

from parley.errors import UnknownName

__all__ = ["DASHES", "MARKERS", "THEMES", "Theme", "theme_named"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Ground, ink and series colours of a figure."""

    name: str
    ground: str
    ink: str
    faint: str  # grid lines and frames
    muted: str  # what is named but not in focus: published figures, arms that are out
    series: tuple[str, ...]
    heat: str = field(default="cividis")  # a map that is even in lightness, also without colour

    def colour(self, place: int) -> str:
        """The colour of the n-th series; they repeat after the last.

        >>> THEMES["light"].colour(0)
        '#0072b2'
        """
        return self.series[place % len(self.series)]

    def context(self) -> AbstractContextManager[None]:
        """matplotlib as this theme wants it, for as long as a figure is made."""
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
            "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
        }
        return rc_context(settings)


def _themes(themes: Sequence[Theme]) -> dict[str, Theme]:
    return {theme.name: theme for theme in themes}


THEMES = _themes(
    [
        Theme(
            name="light",
            ground="#ffffff",
            ink="#1c1f24",
            faint="#d5d9e0",
            muted="#737985",
            series=("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b07d00", "#3f97c7", "#5b5b5b", "#882255"),
        ),
        Theme(
            name="dark",
            ground="#14171c",
            ink="#e8eaee",
            faint="#3a404a",
            muted="#9aa1ad",
            series=("#56b4e9", "#ff8c42", "#2fc79b", "#e39ac6", "#f0e442", "#8fa8ff", "#c4c4c4", "#ff7f9c"),
        ),
    ]
)


def theme_named(name: str) -> Theme:
    """A theme by its name; an unknown name is an error that lists them."""
    if name not in THEMES:
        raise UnknownName("theme", name, THEMES)
    return THEMES[name]
