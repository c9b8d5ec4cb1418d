"""Builds docs/appendix/delta-correctness.md from the stored results."""

from __future__ import annotations

from dataclasses import replace

from tools.correctness.common import SEED
from tools.correctness.fingerprint import fingerprint
from tools.correctness.mutants import MUTANTS
from tools.correctness.normal import NAME, kept
from tools.correctness.tie_rows import COUNTED, PROBE, RUNS, RUNS_OF_THREE, TILTED, Result, Row, every_tie
from tools.correctness.ties import Measured, Tie
from tools.pages import table

from parley.simulation.rare import STRETCH


def page(known: dict[Row, Result], broken: dict[int, tuple[Measured, Measured]], faults: list[str]) -> str:
    heads = ["rewards", "K", "M", "N", "tie"]
    for delta in TILTED:
        heads += [f"{delta:g}, counted"] * (delta in COUNTED) + [f"{delta:g}, tilted"]
    rows = [_row(tie, known) for tie in sorted(every_tie(), key=_place)]
    pairs = [other.apart(known[row]) for row, other in _pairs(known)]
    apart = f"{len(pairs)} pairs, at most {max(pairs, default=0.0):.1f} standard errors apart"
    again = sum(result.again for result in known.values())
    flaws = [[MUTANTS[i].words, _words(MUTANTS[i].tie), *_shares(MUTANTS[i].tie, broken[i])] for i in sorted(broken)]
    return TEXT.format(
        runs=RUNS, three=RUNS_OF_THREE, seed=SEED,
        stretch=STRETCH, probe=PROBE, version=fingerprint(), apart=apart, again=again or "none",
        table=table(heads, rows),
        flaws=table(["flaw", "at", "0.1, counted", "1e-05, tilted"], flaws) if flaws else "Not tried yet.",
        faults="\n".join(f"- {fault}" for fault in faults) or "Nothing.",
        normal=f"<!-- {NAME} -->\n{kept()}\n<!-- /{NAME} -->",
    )  # fmt: skip


def _place(tie: Tie) -> tuple[int, ...]:
    """The sort key of a tie: worlds in their order, with all shapes of a world together."""
    worlds = list(dict.fromkeys(each.noise for each in every_tie()))
    return worlds.index(tie.noise), tie.top, tie.arms, tie.agents, tie.together


def _pairs(known: dict[Row, Result]) -> list[tuple[Row, Result]]:
    """Tilted rows, each with the result of its counted row."""
    both = [(row, replace(row, tilted=False)) for row in known if row.tilted]
    return [(row, known[other]) for row, other in both if other in known]


def _words(tie: Tie) -> str:
    return f"{tie.noise}, K = {tie.arms}, M = {tie.agents}, {'all' if tie.all_tied else 'two'} tie"


def _row(tie: Tie, known: dict[Row, Result]) -> list[str]:
    agents = f"{tie.agents}, together" if tie.together else f"{tie.agents}"
    told = [tie.noise, f"{tie.arms}", agents, f"{tie.top}", "all" if tie.all_tied else "two"]
    for delta in TILTED:
        for tilted in (False, True) if delta in COUNTED else (True,):
            result = known.get(Row(tie=replace(tie, delta=delta), tilted=tilted))
            told.append("" if result is None else _share(result.measured, delta))
    return told


def _share(found: Measured, delta: float) -> str:
    """The error rate over delta, with as many decimals as its precision warrants."""
    digits = 4 if found.error < 5e-4 * delta else 3
    return f"{found.agents_wrong / delta:.{digits}f} ± {found.error / delta:.{digits}f}"


def _shares(tie: Tie, pair: tuple[Measured, Measured]) -> list[str]:
    return [_share(found, delta) for found, delta in zip(pair, (tie.delta, 1e-5), strict=True)]


TEXT = """# Delta-correctness, tried hard

`make correctness` runs evidence racing where errors are likeliest: at ties. It rewrites this page. *Two*: N - 1 arms
are clearly better, two tie at the boundary of the top N, the others are clearly worse. *All*: every arm from there
on ties. Arms tie for all agents; where these answer *together*, for the first agent alone.

Every number is an **error over delta**, ± its standard error: the expected number of agents for whom a true top arm is
ruled out, at least the probability that the answer is wrong for anybody. The proof promises at most 1. A run that has
decided nothing after {stretch} times the samples of its first phase is given up.

- *Counted*: {runs:,} plain runs for one agent, {three:,} or more for three, seed {seed}.
- *Tilted*: what nobody can count, [by importance sampling](../evidence-racing.md#errors-too-rare-to-count): 4,000 runs
  an agent, and up to 64,000 where the standard error was above 6 % (one agent) or 12 %.

{table}

An empty cell was not run on this version yet.

Counted and tilted measure the same event: {apart}. A pair that is more than three apart is tilted again, with four
times the runs and another seed, and has to agree then. So many were: {again}.

*Rewards* names a world of `tools/correctness/near_ties.py`. `unknown, shared` is Gaussian of unknown scale (true
scale 1). `5 / 1 / 0.2` are the scales of three agents, known; those of `unknown per agent` and `unknown` (one per arm
and agent) are the same.
`bounded` takes half the range, `variance` the scatter there is; their rewards are 0 or 1 with a mean of 0.5 or 0.05.
`binary` has its rate. Three agents mix each other's rewards by an asymmetric matrix with a zero.
Counts of events have [tables of their own](../rewards.md#count-events-that-can-happen-more-than-once), which the same
command completes.

## The normal approximation of rates

{normal}

## A test of the test

Broken on purpose, the same command must notice. Errors over delta, which have to be above 1 by three standard errors:

{flaws}

## What is not as promised

A number above 1 by more than three standard errors, a pair that disagrees, less than 0.5 where one Gaussian bet can go
wrong (the test is sharp, not just safe), a standard error at 1e-10 above 10 % (K = 2, M = 1) or 25 % (K = 5, M = 3), a
flaw that went unnoticed, a number not measured:

{faults}

All rows are of one version of the sources that matter (`{version}`): each was measured by it, or by an earlier one that
does the same in the row's first {probe} runs, to the last count. `make correctness` runs the others again, and goes on
where it stopped.
"""
