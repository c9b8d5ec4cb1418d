"""`make correctness`: measure every tie, counted and tilted, storing each row at once; then write the page.

A row measured by another version is kept if a few runs of this version agree with it exactly, and measured again
otherwise. So an interrupted command is resumed, and in the end all rows are valid for this version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from tools import pages
from tools.correctness.common import APPENDIX, SEED, in_parallel
from tools.correctness.fingerprint import fingerprint
from tools.correctness.mutants import MUTANTS
from tools.correctness.tie_page import page
from tools.correctness.tie_rows import Result, Row, confirmed, every_row, read, write
from tools.correctness.ties import Measured

PAGE = APPENDIX / "delta-correctness.md"
FARTHEST = 3.0  # largest difference between counted and tilted results, in standard errors


def ties(runs: int, workers: int, *, anew: bool, chosen: Callable[[Row], bool]) -> bool:
    """Run missing or outdated rows (with `anew` all rows); returns whether all promises are kept."""
    known = {} if anew else still_true(read(), every_row(), runs)
    wanted = [row for row in every_row() if row not in known and chosen(row)]
    print(f"version {fingerprint()}: {len(known)} rows stand, {len(wanted)} to run", flush=True)
    for row, result in in_parallel(partial(_run, runs=runs), wanted, workers):
        known[row] = result
        _keep(known, {})
    apart = [row for row in known if row.tilted and not known[row].again and _apart(row, known) > FARTHEST]
    for row, result in in_parallel(partial(_again, known=known), apart, workers):
        known[row] = result
    whole = len(known) == len(every_row())  # mutants are tried last, when all rows are complete
    broken = dict(in_parallel(_mutant, range(len(MUTANTS)), workers)) if whole else {}
    faults = _keep(known, broken)
    print(pages.read(PAGE))
    return not faults


def _keep(known: dict[Row, Result], broken: dict[int, tuple[Measured, Measured]]) -> list[str]:
    """Write the results so far; returns the broken promises."""
    faults = [*_faults(known), *_survivors(broken)]
    write(known, every_row())
    pages.write(PAGE, page(known, broken, faults))
    return faults


def _run(row: Row, runs: int) -> Result:
    return row.run(runs)


def _again(row: Row, known: dict[Row, Result]) -> Result:
    return row.again(known[row])


def still_true(known: dict[Row, Result], rows: Iterable[Row], runs: int) -> dict[Row, Result]:
    """The known results of these rows that this version reproduces."""
    asked = {row: confirmed(row, known[row], runs) for row in rows if row in known}
    return {row: result for row, result in asked.items() if result is not None}


def _apart(row: Row, known: dict[Row, Result]) -> float:
    """The difference between a tilted row and its counted row, in standard errors; 0 without a counted row."""
    other = known.get(replace(row, tilted=False))
    return 0.0 if other is None else other.apart(known[row])


def _mutant(place: int) -> tuple[Measured, Measured]:
    """The error rates of a mutant, counted at delta 0.1 and tilted at 1e-5."""
    mutant = MUTANTS[place]
    tie = replace(mutant.tie, delta=1e-5)
    return mutant.tie.counted(20_000, SEED, mutant.make), tie.tilted(32_000, SEED, mutant.make)


def _faults(known: dict[Row, Result]) -> list[str]:
    """The broken promises, as sentences."""
    told = []
    for row, result in known.items():
        tie, found = row.tie, result.measured
        name = f"{'tilted' if row.tilted else 'counted'} {tie}"
        if result.above(tie.delta):
            told.append(f"above delta: {name}")
        if row.tilted and _apart(row, known) > FARTHEST:
            told.append(f"counted and tilted disagree: {name}")
        small = (tie.arms, tie.agents) == (2, 1)
        if not row.tilted and tie.noise == "gaussian" and small and found.agents_wrong < tie.delta / 2:
            told.append(f"safe but not sharp: {name}")
        allowed = 0.1 if small else 0.25 if (tie.arms, tie.agents) == (5, 3) else math.inf
        if row.tilted and tie.delta == 1e-10 and found.error > allowed * found.agents_wrong:
            told.append(f"standard error of more than {allowed:.0%}: {name}")
    missing = len(every_row()) - len(known)
    return told + ([f"{missing} numbers not measured yet"] if missing else [])


def _survivors(broken: dict[int, tuple[Measured, Measured]]) -> list[str]:
    return [
        f"a flaw that went unnoticed: {MUTANTS[place].words}, delta {delta:g}"
        for place, pair in broken.items()
        for delta, found in zip((MUTANTS[place].tie.delta, 1e-5), pair, strict=True)
        if found.agents_wrong <= delta + 3 * found.error
    ]
