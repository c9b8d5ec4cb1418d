"""Arms that come and go: `python -m tools.correctness arms`, into docs/appendix/arms.md.

The first table is the cost of a late arm, which is the best: it opens in phase 3 and is drawn from phase 4 on. Samples
from then on are divided by those of a study that has the arm from the start. The second table has error rates at ties
when arms are opened and withdrawn.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from tools.correctness.common import APPENDIX, SEED, in_parallel
from tools.pages import fill, table

from parley.policies import make_policy
from parley.simulation import phases, simulate
from parley.study import parse_study

PAGE = APPENDIX / "arms.md"
OPENS = 3
WEIGHTS = {"kind": "personalized", "alpha": 0.5}
KINDS: dict[str, dict[str, Any]] = {
    "best arm, together": {},
    "best arm, each": {"answers": "each"},
    "best arm, tolerance 0.05": {"tolerance": 0.05},
    "best two, together": {"top": 2},
}
NOISES: dict[str, dict[str, Any]] = {
    "gaussian, known scale": {"kind": "gaussian", "scale": 1.0},
    "gaussian, unknown scale": {"kind": "gaussian", "scale": "unknown"},
    "binary": {"kind": "binary"},
}
ACTS: dict[str, dict[str, dict[str, int]]] = {
    "one opens": {"opens": {"D": 3}},
    "one is withdrawn": {"withdraws": {"C": 3}},
    "both": {"opens": {"D": 2}, "withdraws": {"C": 4}},
}
DELTA, PHASES = 0.1, 12


def _study(truth: dict[str, Any], dormant: list[str], **more: Any) -> Any:
    asked = {"arms": ["A", "B", "C", "D"], "agents": 3, "delta": DELTA, "dormant": dormant, "weights": WEIGHTS}
    return parse_study(asked | {"noise": NOISES["gaussian, known scale"], "truth": truth} | more)


def late(name: str, runs: int) -> list[Any]:
    """Mean samples from the opening on, mean samples of a study with the arm, their ratio and its standard error."""
    means = [[0.3] * 3, [0.2] * 3, [0.0] * 3, [0.4] * 3]
    opens = _study({"means": means, "opens": {"D": OPENS}}, ["D"], **KINDS[name])
    whole = _study({"means": means}, [], **KINDS[name])
    after, right = [], 0
    for run in range(runs):
        ran = list(phases(make_policy("evidence", opens.problem), opens.instance, seed=SEED + run))
        if len(ran) > OPENS:  # the other studies ended before
            after.append(sum(int(phase.quotas.sum()) for phase in ran[OPENS:]))
            right += bool(ran[-1].after.active[3].all())
    policy = make_policy("evidence", whole.problem)
    begun = simulate(policy, whole.instance, replications=max(runs, 1000), seed=SEED).costs
    ratio = np.mean(after) / np.mean(begun)
    error = ratio * math.hypot(*(np.std(x) / np.mean(x) / math.sqrt(len(x)) for x in (after, begun)))
    return [
        name,
        str(len(after)),
        f"{np.mean(after):,.0f}",
        f"{np.mean(begun):,.0f}",
        f"{ratio:.2f} ± {error:.2f}",
        str(right),
    ]


def tie(task: tuple[str, str], runs: int) -> list[Any]:
    """The share of studies that rule out the best of the open arms, of which two tie."""
    noise, act = task
    means = [[0.5] * 3, [0.5 - 1e-7] * 3, [0.5 if "withdraws" in ACTS[act] else 0.3] * 3, [0.5 + 1e-7] * 3]
    dormant = ["D"] if "opens" in ACTS[act] else []
    if not dormant:
        means[3] = [0.1] * 3
    study = _study({"means": means, **ACTS[act]}, dormant, noise=NOISES[noise], max_rounds=PHASES)
    found = simulate(make_policy("evidence", study.problem), study.instance, replications=runs, seed=SEED)
    return [noise, act, f"{runs:,}", f"{found.mistaken.mean():.4f}"]


def arms(runs: int, workers: int) -> bool:
    """Make both tables; returns whether late arms are cheap enough and no error rate is above delta."""
    cells = [(noise, act) for noise in NOISES for act in ACTS]
    found = dict(in_parallel(partial(late, runs=max(runs // 10, 20)), list(KINDS), workers))
    wrong = dict(in_parallel(partial(tie, runs=runs), cells, workers))
    lates, ties = [found[name] for name in KINDS], [wrong[cell] for cell in cells]
    head = ["question", "studies", "samples from then on", "of a study that had it", "ratio", "found"]
    text = table(head, lates)
    print(text)
    errors = table(["rewards", "acts", "studies", "wrong"], ties)
    print(errors)
    fill(PAGE, "late", text)
    fill(PAGE, "ties", errors)
    return all(float(row[-1]) <= DELTA for row in ties)
