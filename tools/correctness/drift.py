"""Errors when means move between phases: `python -m tools.correctness drift` (make drift), into docs/appendix/drift.md.

The first table runs every policy on the paper's instance, and shows that guarantees which assume constant means break.
The second has ties, where evidence racing errs most, for every reward model: errors are counted, or estimated by
tilting if they are rare. An interrupted run is resumed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tools.correctness.common import APPENDIX, DOCS, SEED, in_parallel
from tools.correctness.full_ties import still_true
from tools.correctness.tie_rows import Result, Row, read, write
from tools.correctness.ties import Tie
from tools.pages import fill, table

from parley.policies import POLICIES, make_policy
from parley.policies.playing import Playing
from parley.simulation import simulate
from parley.study import parse_study

PAGE = APPENDIX / "drift.md"
DRIFTS = (0.0, 0.5, 2.0)  # random step of a site before every phase, in standard deviations of a reward
DELTA = 0.1
COMPARED = [name for name, policy in POLICIES.items() if not issubclass(policy, Playing) and name != "oracle"]
RUNS = 200  # per policy on the paper's instance
MOST = 300_000  # limit on samples of a run there: policies that rely on pooled means may never end
RESULTS = DOCS / "drift.json"
WORLDS = {
    "gaussian, known scale": "gaussian",
    "gaussian, unknown scale": "unknown",
    "binary": "binary 0.5",
    "bounded, by variance": "variance",
    "bounded, by the range": "bounded",
    "binary, normal inference": "normal 0.5",
}
# Cheap ties first; `rows_of` fills in rewards, delta and drift.
SHAPES = {
    "1 agent, 5 arms that all tie": Tie(noise="", arms=5, agents=1, top=1, all_tied=True),
    "3 agents, 3 arms": Tie(noise="", arms=3, agents=3, top=1),
    "3 agents together, 2 arms": Tie(noise="", arms=2, agents=3, top=1, together=True),
    "3 agents, the best 2 of 5 arms": Tie(noise="", arms=5, agents=3, top=2),
}
RARE = 1e-5  # the delta for tilted runs; normal inference is an approximation, so its errors are only counted


def on_paper(task: tuple[str, float]) -> tuple[float, float, float]:
    """On the paper's instance with drift: the shares of wrong and of unfinished studies, and mean samples."""
    name, drift = task
    study = parse_study(
        {
            "arms": 6,
            "agents": 3,
            "delta": DELTA,
            "noise": {"kind": "gaussian", "scale": 1.0},
            "weights": {"kind": "personalized", "alpha": 0.5},
            "truth": {"generate": "paper", "drift": drift},
        }
    )
    policy = make_policy(name, study.problem)
    found = simulate(policy, study.require_truth(), replications=RUNS, seed=SEED, max_samples=MOST)
    return found.error_rate, float(1 - found.finished.mean()), float(found.costs.mean())


def rows_of(world: str, shape: str, *, tilted: bool) -> list[Row]:
    """The rows of one line of the table, one per drift."""
    tie = replace(SHAPES[shape], noise=WORLDS[world], delta=RARE if tilted else DELTA)
    return [Row(tie=replace(tie, drift=drift), tilted=tilted) for drift in DRIFTS]


def lines(*, tilted: bool) -> list[tuple[str, str]]:
    return [(world, shape) for shape in SHAPES for world in WORLDS if not (tilted and "normal" in world)]


def every_row() -> list[Row]:
    both = [(line, tilted) for line in lines(tilted=False) for tilted in (True, False)]
    return [row for line, tilted in both if line in lines(tilted=tilted) for row in rows_of(*line, tilted=tilted)]


def drift(runs: int, workers: int, only: str | None) -> bool:
    """Rewrite both tables; returns whether evidence racing stays below delta and W-CPE does not."""
    return (only == "policies" or _ties(runs, workers)) and (only == "ties" or _policies(workers))


def _policies(workers: int) -> bool:
    tasks = [(name, step) for name in COMPARED for step in DRIFTS]
    paper = dict(in_parallel(on_paper, tasks, workers))
    columns = [f"{what}, drift {step:g}" for step in DRIFTS for what in ("wrong", "open", "samples")]
    rows = [[f"`{name}`", *(_cell for step in DRIFTS for _cell in _shown(paper[name, step]))] for name in COMPARED]
    fill(PAGE, "policies", table(["policy", *columns], rows))
    return paper["wcpe", 2.0][0] > DELTA


def _shown(found: tuple[float, float, float]) -> tuple[str, str, str]:
    wrong, left_open, samples = found
    return f"{wrong:.3f}", f"{left_open:.3f}", f"{samples:,.0f}"


def _ties(runs: int, workers: int) -> bool:
    """Run every row that is missing or outdated, and store each result at once."""
    rows = every_row()
    known = still_true(read(RESULTS), rows, runs)
    wanted = [row for row in rows if row not in known]
    print(f"{len(known)} rows stand, {len(wanted)} to run", flush=True)
    _keep(known)
    for row, result in in_parallel(partial(Row.run, runs=runs), wanted, workers):
        known[row] = result
        _keep(known)
    return all(row in known and not known[row].above(row.tie.delta) for row in rows)


def _keep(known: dict[Row, Result]) -> None:
    """Write the results so far."""
    write(known, every_row(), RESULTS)
    for name, tilted in (("counted", False), ("tilted", True)):
        fill(PAGE, name, _table(known, tilted=tilted))


def _table(known: dict[Row, Result], *, tilted: bool) -> str:
    shown = []
    for world, shape in lines(tilted=tilted):
        found = [known.get(row) for row in rows_of(world, shape, tilted=tilted)]
        if not any(found):
            continue
        runs = sorted({each.measured.replications for each in found if each})
        figures = [_figure(each, tilted=tilted) for each in found]
        shown.append([world, shape, " to ".join(f"{count:,}" for count in runs[:1] + runs[1:][-1:]), *figures])
    return table(["rewards", "study", "runs", *(f"drift {step:g}" for step in DRIFTS)], shown)


def _figure(result: Result | None, *, tilted: bool) -> str:
    if result is None:
        return "not run yet"
    found = result.measured
    return f"{found.agents_wrong:.2g} ± {found.error:.1g}" if tilted else f"{found.agents_wrong:.4f}"
