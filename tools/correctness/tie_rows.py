"""The rows of the tables of ties in docs/appendix: which there are, how each is run, and when it must run again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tools.correctness.common import DOCS, SEED
from tools.correctness.fingerprint import fingerprint
from tools.correctness.near_ties import NOISES
from tools.correctness.ties import Measured, Tie

RESULTS = DOCS / "delta-correctness.json"
COUNTED, TILTED = (0.1, 0.01), (0.1, 0.01, 1e-5, 1e-10)  # deltas
TWO, ALL = False, True
# Arms, agents, N, which arms tie; cheap shapes first. Other rates and guesses of a model use only three of them.
SHAPES = ((2, 1, 1, TWO), (5, 1, 1, ALL), (5, 1, 3, TWO), (2, 3, 1, TWO), (5, 3, 2, TWO))
TOGETHER = ((2, 3, 1, TWO), (5, 3, 2, TWO))
FURTHER = {"unknown, shared, guess 10", "variance 0.05", "binary 0.5", "binary 0.01"}
FEWER = ((2, 1, 1, TWO), (5, 1, 1, ALL), (5, 1, 2, TWO))
UNEVEN = "gaussian 5 / 1 / 0.2"  # one scale per agent, for three agents
RUNS, RUNS_OF_THREE, TILTED_RUNS, MOST_TILTED = 100_000, 20_000, 4000, 64_000  # counted: one agent, three agents
PROBE = 128  # runs used to recognise a row of another version


@dataclass(frozen=True, kw_only=True)
class Row:
    """One entry of a table."""

    tie: Tie
    tilted: bool

    @property
    def wished(self) -> float:
        """The relative standard error that a tilted row should reach."""
        return 0.06 if self.tie.agents == 1 else 0.12

    def run(self, runs: int = RUNS) -> Result:
        """Measure the row. A tilted row starts again with four times as many runs until it is precise enough."""
        if not self.tilted:
            return self._result(self.tie.counted(self.least(runs), SEED))
        count = self.least(runs)
        found = self.tie.tilted(count, SEED)
        while found.error > self.wished * found.agents_wrong and 4 * count <= min(MOST_TILTED, runs):
            count *= 4
            found = self.tie.tilted(count, SEED + count)
        return self._result(found)

    def least(self, runs: int) -> int:
        """The least number of runs of the row; fewer for three agents, whose studies take longer."""
        return min(runs, TILTED_RUNS if self.tilted else RUNS if self.tie.agents == 1 else RUNS_OF_THREE)

    def again(self, result: Result) -> Result:
        """Measure a tilted row again with four times the runs and other seeds, because it seems to disagree."""
        count = 4 * result.measured.replications
        return replace(self._result(self.tie.tilted(count, SEED + 7 * count)), again=True)

    def probe(self) -> int:
        """A checksum of what this version does in the first few runs."""
        return (self.tie.tilted if self.tilted else self.tie.counted)(PROBE, SEED).trace

    def _result(self, measured: Measured) -> Result:
        return Result(measured=measured, sources=fingerprint(), probe=self.probe())


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a row, and the version that measured it."""

    measured: Measured
    sources: str
    probe: int
    again: bool = False  # measured a second time, because the first result seemed to disagree

    def above(self, delta: float) -> bool:
        """Whether the error rate is above delta by more than chance."""
        return self.measured.agents_wrong > delta + 3 * max(self.measured.error, self._least(delta))

    def _least(self, delta: float) -> float:
        """The least standard error to assume if there are few errors or none: that of a probability of delta."""
        return 0.0 if self.measured.studies_wrong is None else math.sqrt(delta / self.measured.replications)

    def apart(self, other: Result) -> float:
        """The difference between this counted result and a tilted one, in standard errors."""
        mean = max(self.measured.agents_wrong, other.measured.agents_wrong)
        counted = max(self.measured.error, math.sqrt(mean / self.measured.replications))
        return abs(self.measured.agents_wrong - other.measured.agents_wrong) / math.hypot(counted, other.measured.error)


def every_tie() -> list[Tie]:
    """All shapes of every world at the largest delta; the cheap shapes of all worlds come first."""
    alone = [
        Tie(noise=noise, arms=arms, agents=agents, top=top, all_tied=tied)
        for arms, agents, top, tied in dict.fromkeys((*FEWER, *SHAPES))
        for noise in NOISES
        if (arms, agents, top, tied) in (FEWER if noise in FURTHER else SHAPES) and (noise != UNEVEN or agents == 3)
    ]
    return alone + [
        Tie(noise=noise, arms=arms, agents=agents, top=top, all_tied=tied, together=True)
        for arms, agents, top, tied in TOGETHER
        for noise in NOISES
        if noise not in FURTHER
    ]


def every_row() -> list[Row]:
    return [
        Row(tie=replace(tie, delta=delta), tilted=tilted)
        for tie in every_tie()
        for tilted in (True, False)
        for delta in (TILTED if tilted else COUNTED)
    ]


def read(results: Path = RESULTS) -> dict[Row, Result]:
    if not results.exists():
        return {}
    told = {}
    for entry in json.loads(results.read_text(encoding="utf-8")):
        row = Row(tie=Tie(**entry.pop("tie")), tilted=entry.pop("tilted"))
        told[row] = Result(**entry | {"measured": Measured(**entry["measured"])})
    return told


def write(found: dict[Row, Result], rows: Iterable[Row], results: Path = RESULTS) -> None:
    """Write the results of these rows, in their order."""
    entries = [
        json.dumps({"tie": asdict(row.tie), "tilted": row.tilted} | asdict(found[row])) for row in rows if row in found
    ]
    whole = results.with_suffix(".new")  # an interrupted run leaves either the old file or the new one
    whole.write_text("[\n" + ",\n".join(entries) + "\n]\n", encoding="utf-8")
    whole.replace(results)


def confirmed(row: Row, result: Result, runs: int) -> Result | None:
    """The result, if this version has the same sources or reproduces it; None if it must be run again."""
    if result.measured.replications < row.least(runs):
        return None
    if result.sources == fingerprint():
        return result
    return replace(result, sources=fingerprint()) if row.probe() == result.probe else None
