"""Errors when means move between phases: `python -m tools.correctness drift` (make drift), into docs/drift.md.

Two tables. What every policy makes of the paper's instance, where a guarantee that assumes means that stay is seen to
break. And near-ties, where errors of evidence racing are likeliest, for every reward model.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from tools.correctness.common import DOCS, SEED, fill, in_parallel, table

from parley.policies import POLICIES, make_policy
from parley.policies.playing import Playing
from parley.simulation import simulate
from parley.study import parse_study

PAGE = DOCS / "drift.md"
DRIFTS = (0.0, 0.5, 2.0)  # standard deviations of a reward that a site moves by before every phase, at random
DELTA = 0.1
PHASES = 12
COMPARED = [name for name, policy in POLICIES.items() if not issubclass(policy, Playing) and name != "oracle"]
RUNS = 200  # of every policy on the paper's instance
MOST = 300_000  # samples of a run there: pooled means lead astray whoever chooses by them
NOISES: dict[str, dict[str, object]] = {
    "gaussian, known scale": {"kind": "gaussian", "scale": 1.0},
    "gaussian, unknown scale": {"kind": "gaussian", "scale": "unknown"},
    "binary": {"kind": "binary"},
    "binary, normal inference": {"kind": "binary", "inference": "normal"},
    "bounded, by variance": {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"},
    "bounded, by the range": {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "hoeffding"},
}


def on_paper(task: tuple[str, float]) -> tuple[float, float, float]:
    """Of the paper's instance with drift: the shares of wrong and of open studies, and mean samples."""
    name, drift = task
    study = parse_study(
        {
            "arms": 6,
            "agents": 3,
            "delta": DELTA,
            "noise": NOISES["gaussian, known scale"],
            "weights": {"kind": "personalized", "alpha": 0.5},
            "truth": {"generate": "paper", "drift": drift},
        }
    )
    policy = make_policy(name, study.problem)
    found = simulate(policy, study.require_truth(), replications=RUNS, seed=SEED, max_samples=MOST)
    return found.error_rate, float(1 - found.finished.mean()), float(found.costs.mean())


def near_tie(task: tuple[str, float, int], runs: int) -> int:
    """Studies of a near-tie that rule out an agent's best arm within twelve phases, of so many."""
    name, drift, top = task
    own = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0.4, 0.3, 0.35], [0.2, 0.3, 0.25]])[: 3 + (top > 1)]
    own[top] = own[top - 1] - 1e-7  # so close that nobody finds out, and one of them is best
    study = parse_study(
        {
            "arms": len(own),
            "agents": 3,
            "top": top,
            "delta": DELTA,
            "max_rounds": PHASES,
            "noise": NOISES[name],
            "weights": {"kind": "personalized", "alpha": 0.5},
            "truth": {"means": own.tolist(), "drift": drift * (1.0 if name.startswith("gaussian") else 0.5)},
        }
    )
    found = simulate(make_policy("evidence", study.problem), study.require_truth(), replications=runs, seed=SEED)
    return int(found.mistaken.sum())


def drift(runs: int, workers: int) -> bool:
    """Both tables into the page; whether evidence racing stays below delta, and W-CPE does not."""
    tasks = [(name, step) for name in COMPARED for step in DRIFTS]
    paper = dict(in_parallel(on_paper, tasks, workers))
    columns = [f"{what}, drift {step:g}" for step in DRIFTS for what in ("wrong", "open", "samples")]
    rows = [[f"`{name}`", *(_cell for step in DRIFTS for _cell in _shown(paper[name, step]))] for name in COMPARED]
    fill(PAGE, "policies", table(["policy", *columns], rows))
    ties = [(name, step, top) for name in NOISES for step in DRIFTS for top in (1, 2)]
    counted = dict(in_parallel(partial(near_tie, runs=runs), ties, workers))
    rows = [
        [name, str(top), *(f"{counted[name, step, top] / runs:.4f}" for step in DRIFTS)]
        for name in NOISES
        for top in (1, 2)
    ]
    fill(PAGE, "near-ties", table(["rewards", "N", *(f"wrong, drift {step:g}" for step in DRIFTS)], rows))
    most = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / runs)
    return max(counted.values()) <= most * runs and paper["wcpe", 2.0][0] > DELTA


def _shown(found: tuple[float, float, float]) -> tuple[str, str, str]:
    wrong, left_open, samples = found
    return f"{wrong:.3f}", f"{left_open:.3f}", f"{samples:,.0f}"
