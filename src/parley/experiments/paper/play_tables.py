"""What `parley reproduce pf-ucb` tells: a table per published instance, and what the figures come to."""

from __future__ import annotations

import math
from typing import Any

from parley.experiments.look.tables import Column, Table, fixed, whole
from parley.experiments.paper.play import GAMES, NAMES, PLAY_CITATION, PLAY_RUNS
from parley.experiments.paper.reproduction import Row

__all__ = ["played_tables"]

PLAIN, ENHANCED = NAMES["pf-ucb"], NAMES["pf-ucb-enhanced"]
TITLES = {
    "performance": ("pf-ucb", "PF-UCB on its published instance"),
    "enhancement": ("pf-ucb-enhanced", "PF-UCB and its enhanced form on the instance published for it"),
}
COLUMNS = (
    Column(title="alpha", key="alpha", show=lambda value: f"{value:g}"),
    Column(title="algorithm", key="label", number=False, programs=False),
    Column(title="algorithm", key="algorithm", people=False),
    Column(title="figures", key="source", people=False),
    Column(title="rounds", key="rounds", show=fixed(2)),
    Column(title="regret", key="cost", show=whole),
    Column(title="std error", key="standard_error", show=whole),
    Column(title="replications", key="replications", people=False),
    Column(title="/ C* log T", key="ratio", show=fixed(2)),
    Column(title="/ published", key="share", show=fixed(2)),
)


def played_tables(rows: list[Row]) -> tuple[tuple[Table, ...], str]:
    """The tables and the words."""
    first, second = ([row for row in rows if row.game == game] for game in TITLES)
    return (_table(first), _table(second)), f"{_performance(first)} {_enhancement(second)}"


def _table(rows: list[Row]) -> Table:
    name, title = TITLES[rows[0].game]
    runs = max(row.replications for row in rows if row.source != "published")
    told = f"T = {GAMES[rows[0].game].horizon:,}, {runs:,} replications (published: {PLAY_RUNS} runs)"
    values = tuple(tuple(_value(row, column.key, rows) for column in COLUMNS) for row in rows)
    return Table(name=name, title=f"{title}: {told}", columns=COLUMNS, rows=values, note=f"Published: {PLAY_CITATION}.")


def _value(row: Row, key: str, rows: list[Row]) -> Any:
    if key == "label":
        return f"{row.algorithm}, {row.source}"
    if key == "share":
        return row.cost / _published(row, rows)
    return None if key == "standard_error" and row.source == "published" else getattr(row, key)


def _published(row: Row, rows: list[Row]) -> float:
    """The published regret of the same algorithm, or of PF-UCB, at the same alpha."""
    told = {one.algorithm: one.cost for one in rows if (one.source, one.alpha) == ("published", row.alpha)}
    return told.get(row.algorithm, told[PLAIN])


def _found(rows: list[Row], algorithm: str, source: str) -> dict[float, Row]:
    return {row.alpha: row for row in rows if (row.algorithm, row.source) == (algorithm, source)}


def _performance(rows: list[Row]) -> str:
    told, released, written = (_found(rows, PLAIN, source) for source in ("published", "as released", "as written"))
    ours = _found(rows, NAMES["evidence-regret"], "ours")
    off = [f"{100 * (released[alpha].cost / row.cost - 1):+.0f}%" for alpha, row in told.items()]
    longer = [written[alpha].cost / row.cost for alpha, row in told.items()]
    shares = [ours[alpha].cost / row.cost for alpha, row in told.items()]
    times = [written[alpha].cost / row.cost for alpha, row in ours.items()]
    more = [f"{alpha:g}" for alpha, row in ours.items() if (row.rounds or 0) > (released[alpha].rounds or 0)]
    return (
        f"With the released radius PF-UCB is {', '.join(off)} from its published regret (read off a plot of "
        f"{PLAY_RUNS} runs): the published figures are those of a radius for which nothing is proven. With the proven "
        f"one it needs {min(longer):.1f} to {max(longer):.1f} times the published regret. Evidence racing needs "
        f"{min(shares):.2f} to {max(shares):.2f} of the published regret, {sum(shares) / len(shares):.2f} on average, "
        f"and {min(times):.0f} to {max(times):.0f} times less than PF-UCB as written, in "
        + (
            f"more rounds than PF-UCB as released at alpha {', '.join(more)}."
            if more
            else "fewer rounds at every alpha."
        )
    )


def _enhancement(rows: list[Row]) -> str:
    plain, enhanced = (_found(rows, name, "published")[0.5].cost for name in (PLAIN, ENHANCED))
    mine, theirs = (_found(rows, name, "as released")[0.5] for name in (PLAIN, ENHANCED))
    spread = math.hypot(mine.cost_std, theirs.cost_std) / math.sqrt(PLAY_RUNS)
    error = math.hypot(mine.standard_error, theirs.standard_error)
    return (
        f"On the other instance the enhanced form was published with {100 * (1 - enhanced / plain):.0f}% less regret "
        f"than PF-UCB. Here it has {100 * (theirs.cost / mine.cost - 1):+.1f}% (±{100 * error / mine.cost:.1f}%). A "
        f"difference of two means of {PLAY_RUNS} runs has a standard error of {whole(spread)} or more, and the "
        f"published one is {(plain - enhanced) / spread:.1f} of them: what chance may do."
    )
