"""From a summary to curves: what a figure draws, whoever draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from parley.experiments.sweeps.results import Results
from parley.problem import FloatArray
from parley.words import typed

__all__ = [
    "LOGARITHMIC",
    "TITLES",
    "Boxes",
    "Curve",
    "bound_curve",
    "box_axis",
    "boxes",
    "curves",
    "drawn_axes",
    "saving_curves",
]

# What axes mean, with their units, for the axis of a figure.
TITLES = {
    "alpha": "alpha (share of its own reward in an agent's mix)",
    "delta": "delta (allowed probability of an error)",
    "K": "arms, K",
    "M": "agents, M",
    "N": "arms to find per agent, N",
    "noise.scale": "noise scale (standard deviation of a reward)",
    "horizon": "horizon T (draws per agent)",
    "truth.min_gap": "smallest gap allowed between mixed means (reward)",
}
LOGARITHMIC = ("delta", "horizon")  # axes that are drawn by their logarithm
INSTANCES = ("seed", "truth.seed")  # an axis of instances is averaged over, not drawn along


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a figure, with its interval."""

    label: str
    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """The costs of one policy at every value of an axis, one entry a replication."""

    label: str
    groups: tuple[str, ...]
    values: tuple[FloatArray, ...]


def drawn_axes(results: Results) -> list[str]:
    """The axes that make sense as a horizontal axis: numbers, more than one, not a seed."""
    frame = results.pandas()
    return [
        axis
        for axis in results.axes
        if axis not in (*INSTANCES, "policy")
        and pd.api.types.is_numeric_dtype(frame[axis])
        and frame[axis].nunique() > 1
    ]


def box_axis(results: Results) -> str | None:
    """What to tell boxes apart by, beside the policy: the first axis of numbers, or of anything but seeds."""
    names = [axis for axis in results.axes if axis not in (*INSTANCES, "policy")]
    return next(iter([*drawn_axes(results), *names]), None)


def curves(results: Results, summary: pd.DataFrame, x: str, y: str) -> list[Curve]:
    """`y` (cost or rounds) along `x`, a curve for every combination of the other axes, averaged over instances.

    With several instances the interval is between instances; with one, between its replications.
    """
    made = []
    others = [name for name in results.grouping if name not in (x, *INSTANCES)]
    for key, group in summary.groupby(others, sort=False) if others else [((), summary)]:
        points = [(float(place), part) for place, part in group.groupby(x)]  # type: ignore[arg-type]
        ends = [_between(part, y) for _, part in points]
        made.append(
            Curve(
                label=_label(others, key, summary),
                x=np.array([place for place, _ in points]),
                y=np.array([part[y].mean() for _, part in points]),
                low=np.array([low for low, _ in ends]),
                high=np.array([high for _, high in ends]),
            )
        )
    return made


def bound_curve(results: Results, summary: pd.DataFrame, x: str) -> list[Curve]:
    """The lower bound along `x`: one curve for each setting of the other axes that it depends on."""
    known = summary.dropna(subset=["lower_bound"])
    others = [name for name in results.grouping if name not in (x, "policy", *INSTANCES) and known[name].nunique() > 1]
    made = []
    for key, group in known.groupby(others, sort=False) if others else [((), known)] if len(known) else []:
        means = group.groupby(x)["lower_bound"].mean()
        y = means.to_numpy(np.float64)
        label = ", ".join(filter(None, ("lower bound", _label(others, key, known))))
        made.append(Curve(label=label, x=means.index.to_numpy(np.float64), y=y, low=y, high=y))
    return made


def saving_curves(results: Results, x: str) -> list[Curve]:
    """How many times fewer samples the lower bound asks for with collaboration than with every agent alone."""
    rows = [
        {**cell.axes, "policy": cell.policy, "saving": one.isolated_bound / one.lower_bound}
        for cell, one in results.cells
        if one.isolated_bound and one.lower_bound
    ]
    frame = pd.DataFrame(rows)
    if frame.empty:
        return []
    others = [name for name in results.grouping if name not in (x, "policy", *INSTANCES)]
    made = []
    for key, group in frame.groupby(others, sort=False) if others else [((), frame)]:
        means = group.groupby(x)["saving"].mean()
        y = means.to_numpy(np.float64)
        label = _label(others, key, frame) or "T* alone / T* together"
        made.append(Curve(label=label, x=means.index.to_numpy(np.float64), y=y, low=y, high=y))
    flat = all(np.ptp(curve.y) < 1e-3 * curve.y.max() for curve in made)
    return [] if flat else made  # a saving that does not depend on x is no picture


def boxes(results: Results, x: str | None) -> list[Boxes]:
    """Costs by policy and by the values of `x` (all together without one); nothing where rows are cells."""
    if not results.per_replication:
        return []
    frame = results.costs()
    made = []
    for policy, group in frame.groupby("policy", sort=False):
        parts = [(f"{x} = {typed(value)}", part) for value, part in group.groupby(x)] if x else [("all cells", group)]
        made.append(
            Boxes(
                label=str(policy),
                groups=tuple(name for name, _ in parts),
                values=tuple(part["cost"].to_numpy(np.float64) for _, part in parts),
            )
        )
    return made


def _between(part: pd.DataFrame, y: str) -> tuple[float, float]:
    if len(part) == 1:
        return float(part[f"{y}_low"].iloc[0]), float(part[f"{y}_high"].iloc[0])
    values = part[y].to_numpy(np.float64)
    half = float(stats.t.ppf(0.975, len(values) - 1)) * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half


def _label(names: Sequence[str], key: object, frame: pd.DataFrame) -> str:
    """The policy, and every other axis that has more than one value."""
    values = key if isinstance(key, tuple) else (key,)
    words = [
        str(value) if name == "policy" else f"{name} = {typed(value)}"
        for name, value in zip(names, values, strict=True)
        if name == "policy" or frame[name].nunique() > 1
    ]
    return ", ".join(reversed(words))
