"""The rows of docs/appendix: which cells there are, how each is run, and when it must be run again."""

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
# Arms, agents, N, which arms tie: the cheap ones first. Other rates and guesses of a model go through three of them.
SHAPES = ((2, 1, 1, TWO), (5, 1, 1, ALL), (5, 1, 3, TWO), (2, 3, 1, TWO), (5, 3, 2, TWO))
TOGETHER = ((2, 3, 1, TWO), (5, 3, 2, TWO))
FURTHER = {"unknown, shared, guess 10", "variance 0.05", "binary 0.5", "binary 0.01"}
FEWER = ((2, 1, 1, TWO), (5, 1, 1, ALL), (5, 1, 2, TWO))
UNEVEN = "gaussian 5 / 1 / 0.2"  # one scale an agent: three agents
RUNS, RUNS_OF_THREE, TILTED_RUNS, MOST_TILTED = 100_000, 20_000, 4000, 64_000  # counted: one agent, three agents
PROBE = 128  # runs by which a row is recognised


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of the table."""

    tie: Tie
    tilted: bool

    @property
    def wished(self) -> float:
        """The relative standard error that a tilted row should have."""
        return 0.06 if self.tie.agents == 1 else 0.12

    def run(self, runs: int = RUNS) -> Result:
        """Tilted rows take four times as many runs, anew, until they are as sharp as wished."""
        if not self.tilted:
            return self._result(self.tie.counted(self.least(runs), SEED))
        count = self.least(runs)
        found = self.tie.tilted(count, SEED)
        while found.error > self.wished * found.agents_wrong and 4 * count <= min(MOST_TILTED, runs):
            count *= 4
            found = self.tie.tilted(count, SEED + count)
        return self._result(found)

    def least(self, runs: int) -> int:
        """How many runs the row has at least, if one agent has this many: studies of three agents take longer."""
        return min(runs, TILTED_RUNS if self.tilted else RUNS if self.tie.agents == 1 else RUNS_OF_THREE)

    def again(self, result: Result) -> Result:
        """A tilted row with four times its runs and other seeds: what is asked for where it seems to disagree."""
        count = 4 * result.measured.replications
        return replace(self._result(self.tie.tilted(count, SEED + 7 * count)), again=True)

    def probe(self) -> int:
        """What this version does in the first few runs, to the last count."""
        return (self.tie.tilted if self.tilted else self.tie.counted)(PROBE, SEED).trace

    def _result(self, measured: Measured) -> Result:
        return Result(measured=measured, sources=fingerprint(), probe=self.probe())


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a row, and by which version."""

    measured: Measured
    sources: str
    probe: int
    again: bool = False  # measured a second time, since the first seemed to disagree

    def above(self, delta: float) -> bool:
        """Above delta, by more than chance."""
        return self.measured.agents_wrong > delta + 3 * max(self.measured.error, self._least(delta))

    def _least(self, delta: float) -> float:
        """A standard error for few errors, or none: that of a probability of delta."""
        return 0.0 if self.measured.studies_wrong is None else math.sqrt(delta / self.measured.replications)

    def apart(self, other: Result) -> float:
        """Standard errors between this, counted, and another, tilted."""
        mean = max(self.measured.agents_wrong, other.measured.agents_wrong)
        counted = max(self.measured.error, math.sqrt(mean / self.measured.replications))
        return abs(self.measured.agents_wrong - other.measured.agents_wrong) / math.hypot(counted, other.measured.error)


def every_tie() -> list[Tie]:
    """Of every world its shapes, at the largest delta; the cheap shapes of all worlds come first."""
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
    """What was found of these rows, in their order."""
    entries = [
        json.dumps({"tie": asdict(row.tie), "tilted": row.tilted} | asdict(found[row])) for row in rows if row in found
    ]
    whole = results.with_suffix(".new")  # a run that is cut off leaves the old file or the new one
    whole.write_text("[\n" + ",\n".join(entries) + "\n]\n", encoding="utf-8")
    whole.replace(results)


def confirmed(row: Row, result: Result, runs: int) -> Result | None:
    """The result, if this version gives it too, by its sources or by what it does; None if it must be run anew."""
    if result.measured.replications < row.least(runs):
        return None
    if result.sources == fingerprint():
        return result
    return replace(result, sources=fingerprint()) if row.probe() == result.probe else None
