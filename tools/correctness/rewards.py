"""The cost of reward models that need no scale: the figures of docs/appendix/reward-figures.md, short and long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from tests.support import paper_study
from tools.correctness import held_out
from tools.correctness.common import APPENDIX, SEED, in_parallel
from tools.pages import table, write

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import Outcome, simulate
from parley.weights import personalized

# Conversion rates of four pages in five countries, drawn once between 3 and 5 %.
WEB = [
    [0.046, 0.047, 0.041, 0.049, 0.035],
    [0.043, 0.031, 0.041, 0.038, 0.035],
    [0.050, 0.038, 0.037, 0.033, 0.032],
    [0.050, 0.042, 0.048, 0.030, 0.042],
]
TEN = [[0.5], *([rate] for rate in np.linspace(0.2, 0.34, 9).round(4).tolist())]
NARROW = [[0.055, 0.053, 0.051], [0.052, 0.050, 0.049], [0.050, 0.052, 0.048], [0.048, 0.047, 0.050]]
UNEVEN = (0.5, 1.0, 1.5)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One study with one model: its cost, and the required limit."""

    study: str
    model: Mapping[str, Any]
    delta: float = 0.1
    scale: tuple[float, ...] | None = None
    most: float | None = None  # required limit on mean samples
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def instance(self) -> Instance:
        noise = make_model(**self.model)
        if self.study == "paper":
            study = paper_study()
            problem = study.problem.with_(noise=noise, delta=self.delta)
            return Instance(problem=problem, means=study.instance.means, scale=self.scale)
        means, weights, gap = {
            "web": (WEB, personalized(5, 0.5), 0.02),
            "ten": (TEN, np.eye(1), 1.0),
            "narrow": (NARROW, personalized(3, 0.5), 0.2),
        }[self.study]
        problem = Problem(arms=len(means), weights=weights, noise=noise, delta=self.delta, largest_gap=gap)
        return Instance(problem=problem, means=means, scale=self.scale)

    def run(self, replications: int, seed: int) -> Outcome:
        policy = make_policy("evidence", self.instance.problem, self.options)
        environment = "uniform" if self.study == "narrow" else None
        return simulate(policy, self.instance, replications=replications, seed=seed, environment=environment)

    def row(self, replications: int, seed: int) -> list[str]:
        outcome = self.run(replications, seed)
        mean, error = outcome.costs.mean(), outcome.costs.std() / math.sqrt(replications)
        asked = "" if self.most is None else f"{self.most:,.0f}"
        words = ", ".join(f"{key} {value}" for key, value in self.model.items())
        true = "" if self.scale is None else " / ".join(f"{value:g}" for value in self.scale)
        return [
            NAMES[self.study], words, true, f"{self.delta:g}", f"{mean:,.0f}", f"{error:,.0f}", asked,
            f"{outcome.rounds.mean():.2f}", f"{outcome.error_rate:.4f}",
        ]  # fmt: skip


NAMES = {"web": "web study", "ten": "ten arms", "paper": "paper's instance", "narrow": "a tenth of the range"}


BINARY = {"kind": "binary"}
RANGE = {"kind": "bounded", "low": 0.0, "high": 1.0}
FIGURES = (
    Figure(study="web", model=BINARY | {"rate": 0.04}, most=1_900_000),
    Figure(study="web", model=BINARY | {"rate": 0.04}, options={"rounds": 8}),
    Figure(study="web", model=RANGE | {"method": "hoeffding"}),
    Figure(study="web", model={"kind": "gaussian", "scale": 0.2}),
    Figure(study="ten", model=BINARY, most=1_600),
    Figure(study="ten", model=RANGE | {"method": "hoeffding"}),
    Figure(study="ten", model=BINARY, delta=1e-5, most=3_700),
    Figure(study="ten", model=RANGE | {"method": "hoeffding"}, delta=1e-5),
    Figure(study="paper", model={"scale": 1.0}),
    Figure(study="paper", model={"scale": "unknown, shared"}, most=6_450),
    Figure(study="paper", model={"scale": "unknown per agent"}),
    Figure(study="paper", model={"scale": "unknown"}, most=6_600),
    Figure(study="paper", model={"scale": [0.5, 1.0, 1.5]}, scale=UNEVEN),
    Figure(study="paper", model={"scale": "unknown per agent"}, scale=UNEVEN),
    Figure(study="paper", model={"scale": "unknown"}, scale=UNEVEN),
    Figure(study="narrow", model=RANGE | {"method": "hoeffding"}),
    Figure(study="narrow", model=RANGE | {"method": "variance"}),
)
COLUMNS = ("study", "model", "true scale", "delta", "samples", "±", "asked: at most", "rounds", "error rate")


def page(replications: int, workers: int) -> bool:
    """Run every figure and write the page; returns whether all limits are met."""
    done = dict(in_parallel(partial(_row, replications=replications), range(len(FIGURES)), workers))
    rows = [done[i] for i in range(len(FIGURES))]
    fresh = dict(
        in_parallel(
            partial(held_out.row, instances=60, replications=replications // 100), list(held_out.MODELS), workers
        )
    )
    others = table(held_out.COLUMNS, [fresh[name] for name in held_out.MODELS])
    told = TEXT.format(
        replications=replications, few=replications // 100, seed=SEED, table=table(COLUMNS, rows), others=others
    )
    write(PAGE, told)
    print(told)
    kept = (
        float(row[4].replace(",", "")) <= figure.most for row, figure in zip(rows, FIGURES, strict=True) if figure.most
    )
    return all(kept)


def _row(place: int, replications: int) -> list[str]:
    figure = FIGURES[place]
    return figure.row(replications // 4 if figure.study in ("web", "narrow") else replications, SEED)


PAGE = APPENDIX / "reward-figures.md"
TEXT = """# What reward models cost

`make rewards` runs evidence racing with every [reward model](../rewards.md) and rewrites this page: {replications:,}
replications a row, a quarter of that for the web study and the narrow rewards, seed {seed}. *Samples* is the mean, ±
its standard error. The second row of the web study has `rounds = 8` under `[policy]`. The web study (of instances of
the asked difficulty) and the ten arms are those on which the planning options of `binary` were chosen; below are
instances on which nothing was.

- *Web study*: four pages in five countries, conversion rates of 3 to 5 % (`examples/web-study.toml`), alpha 0.5.
- *Ten arms*: one agent, the best arm at 0.5, the others from 0.2 to 0.34.
- *Paper's instance*: six arms, three agents, alpha 0.5.
- *A tenth of the range*: rewards in [0, 1], uniform over about [0, 0.1].

{table}

## Instances that were not used for tuning

`binary` and `bounded` plan in smaller steps than boosted Gaussian rewards do. 60 random instances, drawn after that was
chosen (`tools/correctness/held_out.py`: 3 to 10 arms, 1 to 5 agents, rates around 1 to 50 %), {few} replications each:
mean samples over those of the same model planned as if it were boosted, and over those of half the range for a scale,
both in geometric mean. Smaller steps cost rounds.

{others}
"""
