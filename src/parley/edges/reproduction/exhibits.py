"""The exhibits of `parley reproduce`: each has measurements, tables, and a comment on what they mean."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from parley.edges.reproduction.discrepancies import ITERATIONS, CappedWcpe, Search, searches
from parley.edges.reproduction.published import CITATION, REGRET_CITATION, REGRET_INSTANCES, REGRET_RUNS
from parley.edges.reproduction.reproduction import ALGORITHMS, Row, paper_instance
from parley.experiments.report_kit.tables import Column, Table, fixed, share, whole

PLAIN, ENHANCED = ALGORITHMS["pf-ucb"], ALGORITHMS["pf-ucb-enhanced"]
REGRET_TITLES = {
    "performance": ("pf-ucb", "PF-UCB on its published instance"),
    "enhancement": ("pf-ucb-enhanced", "PF-UCB and its enhanced form on the instance published for it"),
}
REGRET_COLUMNS = (
    Column(title="alpha", key="alpha", show=lambda value: f"{value:g}"),
    Column(title="algorithm", key="label", programs=False),
    Column(title="algorithm", key="algorithm", people=False),
    Column(title="figures", key="source", people=False),
    Column(title="rounds", key="rounds", show=fixed(2)),
    Column(title="regret", key="cost", show=whole),
    Column(title="std error", key="standard_error", show=whole),
    Column(title="replications", key="replications", people=False),
    Column(title="/ C* log T", key="ratio", show=fixed(2)),
    Column(title="/ published", key="share", show=fixed(2)),
)
SEARCH_SEED = 1  # seed of a run with six phases, whose last phase needs more draws than the search can reach


@dataclass(frozen=True)
class Exhibit:
    """One result of `parley reproduce`: tables, an explanation, and the rows and searches for its figure."""

    name: str
    tables: Sequence[Table]
    words: str
    rows: Sequence[Row]
    searches: Sequence[Search] = ()


def _runs(rows: list[Row]) -> str:
    return f"{max(row.replications for row in rows if row.source != 'published'):,} replications"


def _table(rows: list[Row], *, number: int, fixed: str, by: str) -> Exhibit:
    title = f"Table {number} of the paper: {fixed}, {_runs(rows)} (published: 100 runs)"
    name = f"table{number}"
    savings = [
        written.cost / ours.cost
        for ours in rows
        for written in rows
        if ours.source == "ours" and written.algorithm == "W-CPE-BAI" and written.source == "as written"
        if (ours.alpha, ours.delta) == (written.alpha, written.delta)
    ]
    return Exhibit(name, [_comparison(name, title, rows, by=(by,))], _words("table", savings=savings), rows)


def _baseline(rows: list[Row]) -> Exhibit:
    far = [f"{mine.distance(theirs):+.1f}" for mine, theirs in _pairs(rows, "local means")]
    title = f"The baseline, {_runs(rows)}"
    table = _comparison("baseline", title, rows, by=("alpha",), hide=("ratio",), against="published")
    return Exhibit("baseline", [table], _words("baseline", far=far), rows)


def _counts(rows: list[Row]) -> Exhibit:
    cap = CappedWcpe.cap
    found = searches(paper_instance(alpha=0.5, delta=0.1), seed=SEARCH_SEED)
    off = [f"{100 * (mine.cost / theirs.cost - 1):+.0f}%" for mine, theirs in _pairs(rows, "capped counts")]
    words = _words("counts", iterations=ITERATIONS, last=found[-1], cap=cap, off=off)
    title = f"Counts capped at {cap:,}, {_runs(rows)}"
    hide = ("ratio", "error_rate")
    capped = _comparison("counts", title, rows, by=("alpha", "delta"), hide=hide, against="published")
    return Exhibit("counts", [_search_table(found), capped], words, rows, found)


def _regret(rows: list[Row]) -> Exhibit:
    first, second = ([row for row in rows if row.instance == name] for name in REGRET_TITLES)
    tables = [_regret_table(first), _regret_table(second)]
    return Exhibit("pf-ucb", tables, f"{_performance(first)} {_enhancement(second)}", rows)


# Name -> function that makes the exhibit from the measured and published rows of that name.
EXHIBITS: dict[str, Callable[[list[Row]], Exhibit]] = {
    "table1": partial(_table, number=1, fixed="delta = 0.1", by="alpha"),
    "table2": partial(_table, number=2, fixed="alpha = 0.5", by="delta"),
    "baseline": _baseline,
    "counts": _counts,
    "pf-ucb": _regret,
}


def _comparison(
    name: str,
    title: str,
    rows: list[Row],
    *,
    by: tuple[str, ...],
    hide: tuple[str, ...] = (),
    against: str | None = None,
) -> Table:
    """A table that compares rows, with columns for what varies (`by`) and without the columns in `hide`.

    With `against`, a further column has the distance to the row of that source, in standard errors.
    """
    single = len({row.algorithm for row in rows}) == 1
    columns = [
        *(Column(title=key, key=key, show=lambda value: f"{value:g}") for key in by),
        Column(title="figures" if single else "algorithm", key="label", programs=False),
        Column(title="algorithm", key="algorithm", people=False),
        Column(title="figures", key="source", people=False),
        Column(title="rounds", key="rounds", show=fixed(2)),
        Column(title="samples ± std", key="spread", programs=False),
        Column(title="mean samples", key="cost", people=False),
        Column(title="std", key="cost_std", people=False),
        Column(title="std error", key="standard_error", people=False),
        Column(title="replications", key="replications", people=False),
        Column(title="errors", key="error_rate", show=share, people="error_rate" not in hide),
        Column(title="c*", key="bound", people=False),
        Column(title="/ c*", key="ratio", show=fixed(1), people="ratio" not in hide),
    ]
    if against:
        columns.append(Column(title=f"from {against}, s.e.", key="distance", show=_errors))

    def distance(row: Row) -> float | None:
        other = next(r for r in rows if (r.alpha, r.delta, r.source) == (row.alpha, row.delta, against))
        return None if row is other else row.distance(other)

    values = _values(
        columns,
        rows,
        label=lambda row: row.source if single else f"{row.algorithm}, {row.source}",
        spread=lambda row: f"{row.cost:,.0f} ± {row.cost_std:,.0f}",
        distance=distance,
    )
    return Table(name=name, title=title, columns=tuple(columns), rows=values, note=f"Published: {CITATION}.")


def _values(columns: Sequence[Column], rows: list[Row], **made: Callable[[Row], Any]) -> tuple[tuple[Any, ...], ...]:
    """A table's cells, row by row. Functions in `made` compute the columns of their keys; others are attributes."""
    return tuple(tuple(made.get(one.key, attrgetter(one.key))(row) for one in columns) for row in rows)


def _search_table(found: list[Search]) -> Table:
    columns = (
        Column(title="phase", key="phase"),
        Column(title="draws needed", key="exact_max", show=whole),
        Column(title="draws found", key="search_max", show=whole),
        Column(title="missing", key="search_violation", show=whole),
        Column(title="needed in all", key="exact_sum", show=whole),
        Column(title="found in all", key="search_sum", show=whole),
        Column(title="missing from exact counts", key="exact_violation", people=False),
        Column(title="steps", key="iterations", show=whole),
        Column(title="search", key="ended"),
    )
    rows = tuple(
        (
            search.phase,
            int(search.exact.max()),
            float(search.found.max()),
            search.violation,
            int(search.exact.sum()),
            float(np.ceil(search.found).sum()),
            search.exact_violation,
            search.iterations,
            "cut off" if search.stopped else "done" if search.violation < 1 else "stalled",
        )
        for search in found
    )
    title = f"Largest counts of one run (alpha 0.5, delta 0.1, seed {SEARCH_SEED}): exact, and by trust-constr"
    return Table(name="counts-search", title=title, columns=columns, rows=rows)


def _errors(value: float | None) -> str:
    return "" if value is None else f"{value:+.1f}"


def _pairs(rows: list[Row], source: str) -> list[tuple[Row, Row]]:
    """The measured rows of a source, each paired with its published row."""
    published = [row for row in rows if row.source == "published"]
    return list(zip([row for row in rows if row.source == source], published, strict=True))


def _regret_table(rows: list[Row]) -> Table:
    name, title = REGRET_TITLES[rows[0].instance]
    horizon = REGRET_INSTANCES[rows[0].instance].horizon
    return Table(
        name=name,
        title=f"{title}: T = {horizon:,}, {_runs(rows)} (published: {REGRET_RUNS} runs)",
        columns=REGRET_COLUMNS,
        rows=_values(
            REGRET_COLUMNS,
            rows,
            label=lambda row: f"{row.algorithm}, {row.source}",
            share=lambda row: row.cost / _published(row, rows),
            standard_error=lambda row: None if row.source == "published" else row.standard_error,
        ),
        note=f"Published: {REGRET_CITATION}.",
    )


def _published(row: Row, rows: list[Row]) -> float:
    """The published regret of a row's algorithm at the same alpha, or of PF-UCB if the algorithm has none."""
    costs = {one.algorithm: one.cost for one in rows if (one.source, one.alpha) == ("published", row.alpha)}
    return costs.get(row.algorithm, costs[PLAIN])


def _found(rows: list[Row], algorithm: str, source: str) -> dict[float, Row]:
    return {row.alpha: row for row in rows if (row.algorithm, row.source) == (algorithm, source)}


def _performance(rows: list[Row]) -> str:
    published, released, written = (
        _found(rows, PLAIN, source) for source in ("published", "as released", "as written")
    )
    ours = _found(rows, ALGORITHMS["evidence-regret"], "ours")
    return _words(
        "performance",
        off=[f"{100 * (released[alpha].cost / row.cost - 1):+.0f}%" for alpha, row in published.items()],
        longer=[written[alpha].cost / row.cost for alpha, row in published.items()],
        shares=[ours[alpha].cost / row.cost for alpha, row in published.items()],
        times=[written[alpha].cost / row.cost for alpha, row in ours.items()],
        more=[f"{alpha:g}" for alpha, row in ours.items() if (row.rounds or 0) > (released[alpha].rounds or 0)],
        runs=REGRET_RUNS,
    )


def _enhancement(rows: list[Row]) -> str:
    plain, enhanced = (_found(rows, name, "published")[0.5].cost for name in (PLAIN, ENHANCED))
    mine, theirs = (_found(rows, name, "as released")[0.5] for name in (PLAIN, ENHANCED))
    spread = math.hypot(mine.cost_std, theirs.cost_std) / math.sqrt(REGRET_RUNS)
    error = math.hypot(mine.standard_error, theirs.standard_error)
    costs = {"plain": plain, "enhanced": enhanced, "mine": mine, "theirs": theirs}
    return _words("enhancement", **costs, spread=spread, error=error, runs=REGRET_RUNS)


def _words(exhibit: str, **figures: Any) -> str:
    """The comment on an exhibit: what a reader should conclude from its numbers."""
    from parley.experiments.report_kit.pages import render_text  # imports the drawing library, which is slow

    return render_text("exhibits", package="parley.edges.reproduction", filters={}, exhibit=exhibit, **figures).strip()
