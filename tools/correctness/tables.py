"""Tables of people: `python -m tools.correctness skewed` and `... analyses` (make tables).

`skewed`: two arms at two agents resample the rows of a table, as `[truth] data` does: skewed amounts of money, or
counts with many zeros. At a tie, ruling out either arm is an error. The tie has arms with the same table, or with
tables of the same mean and another shape: half as many buyers, who spend twice as much. Finally there is an effect,
with the samples that it takes compared with Gaussian rewards of the same means and variances. Rewrites part of
docs/appendix/rewards.md.

`analyses`: how often the intervals of `parley analyze` all hold. Rewrites part of docs/analysis.md.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from tools.correctness.common import APPENDIX, DOCS, SEED, in_parallel
from tools.pages import fill, table

from parley.experiments.analysis.fixed_size import analysed, usual_model
from parley.policies import State, make_policy
from parley.problem import Instance, Problem
from parley.rewards import RewardModel, make_model
from parley.rewards.history import Shape, history_of
from parley.simulation import simulate
from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray
from parley.validation.tables import Draws
from parley.weights import personalized

DELTA, ROWS = 0.05, 1000  # rows per site of a table
MOST = {"tie": 16_000, "shapes": 16_000, "effect": 2_000_000}  # samples at which a study is stopped
WEIGHTS = personalized(2, 0.5)
COLUMNS = {"arm": "arm", "agent": "site", "outcome": "y", "covariate": "x"}


def rows_of(name: str, seed: int = SEED) -> FloatArray:
    """`(agent, row)`: realistic outcomes."""
    generator = np.random.default_rng(seed)
    size = (2, ROWS)
    some = generator.random(size)
    if name == "money":
        return np.round((some < 0.4) * generator.lognormal(3.0, 0.8, size), 2)
    if name == "rare money":
        return np.round((some < 0.05) * generator.lognormal(3.0, 1.0, size), 2)
    if name == "counts":
        return np.asarray((some < 0.5) * generator.poisson(3.0, size), dtype=np.float64)
    return np.round(generator.normal(50.0, 10.0, size), 2)


TABLES = {
    "blood pressure": "about Gaussian",
    "money": "40 % buy, lognormal amounts",
    "rare money": "5 % buy, lognormal amounts",
    "counts": "half have no events, the others Poisson with mean 3",
}
MODELS = {
    "`gaussian`, unknown scale": lambda rows: make_model(scale="unknown", guess=float(rows.std())),
    "`bounded` by the largest row": lambda rows: make_model(kind="bounded", low=0.0, high=_ceiling(rows)),
    "`count`": lambda rows: make_model(kind="count", mean=float(rows.mean())),
    "`binary`, above 0 or not, exact": lambda _: make_model(kind="binary"),
    "`binary`, above 0 or not, normal": lambda _: make_model(kind="binary", inference="normal"),
}


def _ceiling(rows: FloatArray) -> float:
    return 2 * math.ceil(float(rows.max()))  # twice the largest row, for the other shape


def fits(name: str, model: str) -> bool:
    """Whether a reward model fits the outcomes of a table."""
    if name == "blood pressure":
        return "gaussian" in model
    return "count" not in model or name == "counts"


def studied(name: str, model: str, kind: str, runs: int) -> dict[str, float]:
    """Run studies at a tie of one shape (`tie`) or of two (`shapes`), or with an effect (`effect`)."""
    rows = rows_of(name)
    noise: RewardModel = MODELS[model](rows)
    own = (rows > 0).astype(np.float64) if noise.values else rows
    other = own if kind != "shapes" else np.where(np.arange(ROWS) % 2 == 0, 2 * own, 0.0)
    draws = _draws([own, other])
    past = history_of(draws, 2, noise)
    effect = 0.25 * float(own.std()) if kind == "effect" else 0.0
    means = past.means.mean(axis=0, keepdims=True) + np.array([[0.0], [effect]])
    gap = 2 * effect if effect else float(own.std())
    problem = Problem(
        arms=2, weights=WEIGHTS, delta=DELTA, noise=noise, largest_gap=gap if not noise.in_range else noise.usual_gap
    )
    scale = past.scales if noise.free_scale else None
    truth = Instance(problem=problem, means=means, scale=scale, history=past)
    policy = make_policy("evidence", problem)
    out = np.zeros(
        (runs, 2), dtype=np.bool_
    )  # whether an arm was ruled out for some agent, even if the study did not finish

    def watch(members: IntArray, _phase: int, _fresh: Totals, state: State) -> None:
        out[members] |= (~state.active).any(axis=-1)

    found = simulate(policy, truth, replications=runs, seed=SEED, max_samples=MOST[kind], watch=watch)
    if kind != "effect":
        return {"wrong": float(out.mean(axis=0).max()), "runs": runs}
    usual = simulate(
        policy,
        Instance(problem=problem, means=means, scale=scale),
        replications=runs,
        seed=SEED,
        max_samples=MOST[kind],
    )
    return {"samples": float(found.costs.mean()), "usual": float(usual.costs.mean()), "runs": runs}


def _draws(arms: list[FloatArray]) -> Draws:
    """The rows of a table with a column of arms, from `(agent, row)` per arm."""
    agents, rows = arms[0].shape
    arm = np.repeat(np.arange(len(arms)), agents * rows)
    agent = np.tile(np.repeat(np.arange(agents), rows), len(arms))
    return Draws(
        source="table",
        arms=tuple(f"arm {k + 1}" for k in range(len(arms))),
        agents=tuple(f"agent {m + 1}" for m in range(agents)),
        arm=arm,
        agent=agent,
        outcome=np.concatenate([values.ravel() for values in arms]),
        covariate=None,
        line=np.arange(len(arm)),
        columns=COLUMNS,
    )


def skewed(runs: int, workers: int) -> bool:
    """Run every table and model; returns whether exact models err at most as often as delta."""
    cases = [(name, model) for name in TABLES for model in MODELS if fits(name, model)]
    tasks = [(*case, kind) for case in cases for kind in ("tie", "shapes", "effect") if _asked(*case, kind)]
    found = dict(in_parallel(partial(_studied, runs=runs), tasks, workers))
    rows = []
    for name, model in cases:
        shape = Shape.of(rows_of(name).ravel())
        cost = found[name, model, "effect"]
        rows.append(
            [
                f"{name}: {TABLES[name]}" + (f" (skewness {shape.skewness:.1f})" if shape.skewness > 0.5 else ""),
                model,
                _over_delta(found.get((name, model, "tie"))),
                _over_delta(found.get((name, model, "shapes"))),
                f"{cost['samples']:,.0f}",
                "–" if "binary" in model else f"{cost['samples'] / cost['usual']:.2f}",
            ]
        )
    head = [
        "rows",
        "read as",
        "error at a tie",
        "the same, other shape",
        "samples for an effect",
        "over the model's own law",
    ]
    fill(APPENDIX / "rewards.md", "skewed", table(head, rows))
    most = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / runs)
    exact = [key for key in found if "bounded" in key[1] or key[1].endswith("exact")]
    return all(found[key].get("wrong", 0.0) <= most for key in exact)


def _asked(name: str, model: str, kind: str) -> bool:
    """Whether a case makes sense: other shapes of 0/1 outcomes have other means, and blood pressure has one shape."""
    return kind != "shapes" or not ("binary" in model or name == "blood pressure")


def _studied(task: tuple[str, str, str], runs: int) -> dict[str, float]:
    return studied(*task, runs)


def _over_delta(found: dict[str, float] | None) -> str:
    if found is None:
        return "–"
    share, runs = found["wrong"], found["runs"]
    return f"{share / DELTA:.2f} ± {math.sqrt(share * (1 - share) / runs) / DELTA:.2f}"


LAWS = {
    "Gaussian": lambda generator, size: (generator.standard_normal(size), 0.0),
    "exponential": lambda generator, size: (generator.exponential(size=size), 1.0),
    "money: 30 % buy, lognormal (0.7)": lambda generator, size: (
        (generator.random(size) < 0.3) * generator.lognormal(0, 0.7, size),
        0.3 * math.exp(0.245),
    ),
    "lognormal (1)": lambda generator, size: (generator.lognormal(0, 1, size), math.exp(0.5)),
    "0 or 1, 10 %": lambda generator, size: ((generator.random(size) < 0.1).astype(np.float64), 0.1),
    "Gaussian, slope 2 in a covariate": lambda generator, size: (generator.standard_normal(size), 0.0),
}
SIZES = (20, 100, 400)
ARMS, AGENTS, LEVEL = 4, 3, 0.05


def held(law: str, size: int, tables: int, seed: int = SEED) -> int:
    """The number of `tables` in which all means and differences of all agents lie within their intervals."""
    generator = np.random.default_rng([seed, size, len(law)])
    arm, agent = np.repeat(np.arange(ARMS), AGENTS * size), np.tile(np.repeat(np.arange(AGENTS), size), ARMS)
    names = {"arms": tuple(f"arm {k}" for k in range(ARMS)), "agents": tuple(f"agent {m}" for m in range(AGENTS))}
    shift = np.array([0.0, 0.2, 0.4, -1.0])[:AGENTS] if "0 or 1" not in law else np.zeros(AGENTS)
    right = 0
    for _ in range(tables):
        outcome, mean = LAWS[law](generator, len(arm))
        covariate = generator.lognormal(0, 0.5, len(arm)) if "covariate" in law else None
        centre = np.zeros(AGENTS)
        if covariate is not None:
            outcome = outcome + 2 * covariate
            # Means are reported at the mean of the covariate in the table.
            centre = 2 * np.bincount(agent, covariate) / np.bincount(agent)
        outcome = outcome + shift[agent]
        draws = Draws(
            source="table",
            **names,
            arm=arm,
            agent=agent,
            outcome=outcome,
            covariate=covariate,
            line=arm,
            columns=COLUMNS,
        )
        problem = Problem(
            **names, weights=personalized(AGENTS, 0.5), delta=LEVEL, control="arm 0", noise=usual_model(outcome)
        )
        found = analysed(problem, draws)
        true = (mean + shift + centre) @ problem.weights
        assert found.control is not None
        inside = (found.mean.low <= true) & (true <= found.mean.high)
        # All pairs: differences to every arm, not only to the leader and the control.
        pairs = [found.differences(np.full(AGENTS, k)) for k in range(ARMS)]
        right += bool(inside.all() and all(((one.low <= 0) & (one.high >= 0)).all() for one in pairs))
    return right


def analyses(tables: int, workers: int) -> bool:
    """Run every law and size; returns whether intervals hold as often as promised (`promised`)."""
    tasks = [(law, size) for law in LAWS for size in SIZES]
    found = dict(in_parallel(partial(_held, tables=tables), tasks, workers))
    rows = [[law, *(_share(found[law, size], tables) for size in SIZES)] for law in LAWS]
    fill(DOCS / "analysis.md", "analyses", table(["outcomes", *(f"{size} rows" for size in SIZES)], rows))
    least = 1 - LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / tables)
    return all(found[task] >= least * tables for task in tasks if promised(*task))


def promised(law: str, size: int) -> bool:
    """Whether intervals are promised to hold: for strong skew, only from 100 rows per arm and agent on."""
    return size >= 100 or law.startswith(("Gaussian", "0 or 1"))


def _held(task: tuple[str, int], tables: int) -> int:
    return held(*task, tables)


def _share(right: int, tables: int) -> str:
    share = right / tables
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / tables):.1f} %"
