"""Results of a sweep: their data frames, a summary with confidence intervals, and paired tests between policies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import stats

from parley.errors import InvalidInput, UnknownName, need
from parley.experiments.sweeps.storage import OTHER_COSTS, Folder, Stored
from parley.experiments.sweeps.sweep import Cell, parse_sweep
from parley.problem import FloatArray
from parley.validation.checks import share

METHODS = ("t", "bootstrap")
RESAMPLES = 2_000  # of the bootstrap


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of a sweep in memory: the rows of all cells, with the specification of each cell."""

    name: str  # of the sweep
    command: str  # the command that ran the sweep
    version: str  # of Parley
    axes: tuple[str, ...]
    per_replication: bool  # whether a row is a replication; else a row is a cell
    table: pa.Table
    cells: tuple[tuple[Cell, Stored], ...]  # the finished cells
    missing: int  # number of cells without a valid file
    damaged: tuple[str, ...]  # names of damaged files

    def pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    @property
    def unit(self) -> str:
        """The unit of cost: samples, or regret if every cell has a horizon."""
        stated = "regret" in self.table.column_names and not self.table["regret"].null_count
        return "regret" if stated else "samples"

    def costs(self) -> pd.DataFrame:
        """All rows, with `cost` in the sweep's unit: samples or regret."""
        frame = self.pandas()
        if self.unit == "samples":
            return frame
        names = {name: f"regret{name[4:]}" for name in ("cost", "cost_std") if name in frame}
        return frame.assign(**{name: frame[other] for name, other in names.items()})

    @property
    def other_costs(self) -> list[str]:
        """The names of the columns with other costs, such as money or days."""
        return [name for name in OTHER_COSTS if name in self.table.column_names and name != self.unit]

    def polars(self) -> Any:
        """All rows as a Polars frame (requires the extra `polars`)."""
        return need("polars", extra="polars", purpose="a Polars frame").from_arrow(self.table)

    @property
    def grouping(self) -> list[str]:
        """The columns that identify a row's cell."""
        return [*(axis for axis in self.axes if axis != "policy"), "policy"]


def load_results(path: str | Path) -> Results:
    """Read a results folder, complete or not; damaged files are skipped and listed in `damaged`."""
    folder = Folder(path=Path(path))
    manifest = folder.manifest
    if manifest is None:
        raise InvalidInput("results", found=f"no sweep.json in {path}", allowed="the folder of a `parley sweep`")
    sweep = parse_sweep(
        {key: value for key, value in manifest["sweep"].items() if value is not None}, made_by=manifest["parley"]
    )
    missing, damaged = folder.survey(sweep.cells)
    absent = {cell.key for cell in missing}
    kept = tuple((cell, folder.read(cell.key)) for cell in sweep.cells if cell.key not in absent)
    stored = tuple((cell, one) for cell, one in kept if one is not None)
    if not stored:
        raise InvalidInput("results", found=f"no finished cell in {path}", allowed="a folder with at least one")
    return Results(
        name=sweep.name,
        command=manifest["command"],
        version=manifest["parley"],
        axes=sweep.axes,
        per_replication=sweep.rows == "replication",
        table=pa.concat_tables([one.rows for _, one in stored], promote_options="permissive"),
        cells=stored,
        missing=len(missing),
        damaged=tuple(file.name for file in damaged),
    )


def interval(values: FloatArray, *, level: float = 0.95, method: str = "t", seed: int = 0) -> tuple[float, float]:
    """A confidence interval for a mean, by Student's t or by the percentile bootstrap; nan for fewer than two values.

    >>> low, high = interval(np.array([1.0, 2.0, 3.0, 4.0]))
    >>> round(low, 2), round(high, 2)
    (0.45, 4.55)
    """
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    share("level", level)
    mean = float(values.mean())
    if len(values) < 2:
        return float("nan"), float("nan")
    if method == "bootstrap":
        generator = np.random.default_rng(seed)
        # Resamples are drawn 20 at a time, to limit memory.
        means = np.concatenate(
            [generator.choice(values, (20, len(values))).mean(axis=1) for _ in range(RESAMPLES // 20)]
        )
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1)) * float(values.std(ddof=1)) / len(values) ** 0.5
    return mean - half, mean + half


def grouped(frame: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the groups of rows that agree in the columns `names`, each with its key, in order of appearance.

    Without names, all rows are one group with an empty key.
    """
    if not names:
        yield (), frame
        return
    for key, group in frame.groupby(list(names), sort=False):
        yield key if isinstance(key, tuple) else (key,), group


def summary(results: Results, *, level: float = 0.95, method: str = "t") -> pd.DataFrame:
    """Summarize a sweep, with a row per cell: mean cost, rounds and error rate with intervals, and the bound.

    Intervals of error rates are exact binomial intervals. `ratio` is the mean cost divided by the lower bound. The cost
    is regret if every cell has a horizon, else the number of samples.
    """
    frame = results.costs()
    if not results.per_replication:
        return _of_cells(frame, results.grouping, level)
    rows = []
    for key, group in grouped(frame, results.grouping):
        costs, rounds = group["cost"].to_numpy(np.float64), group["rounds"].to_numpy(np.float64)
        wrong = int(group["mistaken"].sum())
        errors = stats.binomtest(wrong, len(group)).proportion_ci(level)
        bound = group["lower_bound"].iloc[0]
        rows.append(
            {
                **dict(zip(results.grouping, key, strict=True)),
                "replications": len(group),
                **_mean("cost", costs, level, method),
                "cost_std": costs.std(ddof=1) if len(costs) > 1 else 0.0,
                "cost_median": float(np.median(costs)),
                **_mean("rounds", rounds, level, method),
                "error_rate": wrong / len(group),
                "error_low": errors.low,
                "error_high": errors.high,
                "unfinished": int((~group["finished"]).sum()),
                "lower_bound": bound,
                "ratio": costs.mean() / bound if bound else float("nan"),
                "seconds": group["seconds"].iloc[0],
                **_other_costs(group, level, method),
            }
        )
    return pd.DataFrame(rows)


def _mean(name: str, values: FloatArray, level: float, method: str) -> dict[str, float]:
    low, high = interval(values, level=level, method=method)
    return {name: float(values.mean()), f"{name}_low": low, f"{name}_high": high}


def _other_costs(group: pd.DataFrame, level: float, method: str) -> dict[str, float]:
    """Money, days and regret of a cell, if stated: means with intervals, and the 10 % and 90 % quantiles."""
    made: dict[str, float] = {}
    for name in OTHER_COSTS:
        if name in group and group[name].notna().all():
            values = group[name].to_numpy(np.float64)
            tenth, ninth = np.quantile(values, (0.1, 0.9)).tolist()
            made |= _mean(name, values, level, method) | {f"{name}_p10": tenth, f"{name}_p90": ninth}
    return made


def _of_cells(frame: pd.DataFrame, grouping: Sequence[str], level: float) -> pd.DataFrame:
    """The summary if every row is a whole cell: intervals follow from the stored standard deviations."""
    made = frame.copy()
    count = made["replications"].to_numpy(np.float64)
    half = np.asarray(stats.t.ppf((1 + level) / 2, np.maximum(count - 1, 1))) / np.sqrt(count)
    for name in ("cost", "rounds", *(name for name in OTHER_COSTS if name in made)):
        made[f"{name}_low"] = made[name] - half * made[f"{name}_std"]
        made[f"{name}_high"] = made[name] + half * made[f"{name}_std"]
    made["ratio"] = made["cost"] / made["lower_bound"]
    first = [*grouping, "replications", "cost", "cost_low", "cost_high", "cost_std", "rounds", "error_rate"]
    return made[[*first, *(name for name in made.columns if name not in first)]]


def compare(results: Results, *, axis: str = "policy", against: Any = None, level: float = 0.95) -> pd.DataFrame:
    """Compare the costs at every value of an axis with the costs at a reference value, in pairs of replications.

    Cells are compared if they agree in all other axes. Their replications see the same rewards as long as they make the
    same draws, so the tests use the differences of pairs. Each row has the mean difference with an interval, and the
    p-values of a paired t-test and of Wilcoxon's signed-rank test, also with Holm's correction. `against` is the
    reference value; by default the first value of the axis.
    """
    if not results.per_replication:
        raise InvalidInput("rows", found="a row per cell", allowed='rows = "replication", to pair replications')
    frame = results.costs()
    if axis not in frame.columns or axis not in results.grouping:
        raise UnknownName("axis", axis, results.grouping)
    values = list(dict.fromkeys(frame[axis]))
    reference = values[0] if against is None else against
    if reference not in values:
        raise UnknownName(axis, reference, map(str, values))
    others = [name for name in results.grouping if name != axis]
    rows = []
    for key, group in grouped(frame, others):
        wide = group.pivot_table(index="replication", columns=axis, values="cost")
        for value in (value for value in values if value != reference and value in wide and reference in wide):
            mine, theirs = wide[value].to_numpy(np.float64), wide[reference].to_numpy(np.float64)
            where = dict(zip(others, key, strict=True)) | {axis: value, "against": reference}
            rows.append(where | _paired(mine, theirs, level))
    made = pd.DataFrame(rows)
    for name in ("t_p", "wilcoxon_p"):
        if len(made):
            made[f"{name}_holm"] = _holm(made[name].to_numpy(np.float64))
    return made


def _paired(mine: FloatArray, theirs: FloatArray, level: float) -> dict[str, float]:
    difference = mine - theirs
    # The t-test is undefined for constant differences: its p is then 1 if they are 0, and 0 otherwise.
    constant = np.ptp(difference) == 0
    return {
        "pairs": len(difference),
        **_mean("difference", difference, level, "t"),
        "saving": float(theirs.mean() / mine.mean()),
        "cheaper": float((difference < 0).mean()),
        "t_p": float(difference[0] == 0) if constant else float(stats.ttest_rel(mine, theirs).pvalue),
        "wilcoxon_p": 1.0 if not difference.any() else float(stats.wilcoxon(difference).pvalue),
    }


def _holm(p: FloatArray) -> FloatArray:
    """Holm's correction of p-values for multiple tests.

    >>> _holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    scaled = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return corrected
