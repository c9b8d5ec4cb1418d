"""Closed studies at full size: `python -m tools.correctness closed` (make closed), into docs/appendix/tolerance.md.

The rows are ties and clear gaps of the usual designs, trials with normal inference, and limits on rounds and people.
Every row runs with two seeds; the second was never used while tuning. Results for the same sources and size are kept in
docs/closed.json and not run again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tools.correctness.common import APPENDIX, DOCS, SEED
from tools.correctness.fingerprint import fingerprint
from tools.correctness.near_ties import allowance
from tools.pages import fill, table

from parley.policies import make_policy
from parley.problem import FloatArray, Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.weights import personalized

KNOWN, PAGE = DOCS / "closed.json", APPENDIX / "tolerance.md"
SEEDS = (SEED, 42_190_417)
GAUSSIAN: Mapping[str, Any] = {"kind": "gaussian", "scale": 1.0}
UNKNOWN: Mapping[str, Any] = {"kind": "gaussian", "scale": "unknown"}
NORMAL: Mapping[str, Any] = {"kind": "binary", "inference": "normal"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A study, its true means `(arm,)` or `(arm, agent)`, and the most samples that it may take."""

    means: FloatArray | Sequence[float]
    most: int
    noise: Mapping[str, Any] = field(default_factory=lambda: GAUSSIAN)
    weights: FloatArray | Sequence[Sequence[float]] = ((1.0,),)
    settings: Mapping[str, Any] = field(default_factory=lambda: {"tolerance": 0.1, "delta": 0.1})
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def instance(self) -> Instance:
        means = np.asarray(self.means, dtype=np.float64)
        means = means if means.ndim == 2 else np.repeat(means[:, None], len(self.weights), axis=1)
        noise = make_model(**self.noise)
        problem = Problem(arms=len(means), weights=self.weights, noise=noise, **self.settings)
        return Instance(problem=problem, means=means, scale=1.0 if self.noise == UNKNOWN else None)

    def measured(self, runs: int, seed: int) -> dict[str, float]:
        """Mean samples and rounds, and how many studies gave an answer, and a bad answer."""
        instance = self.instance
        policy = make_policy("evidence", instance.problem, self.options)
        found = simulate(policy, instance, replications=runs, seed=seed)
        return {
            "runs": runs,
            "samples": float(found.costs.mean()),
            "error": float(found.costs.std()) / math.sqrt(runs),
            "largest": float(found.costs.max()),
            "rounds": float(found.rounds.mean()),
            "answered": int(found.finished.sum()),
            "bad": int(found.mistaken.sum()),
        }


def _hospitals(gap: float, most: int) -> Row:
    settings = {"tolerance": 0.05, "delta": 0.05}
    return Row(means=(0.25 + gap, 0.25, 0.25), most=most, noise=NORMAL, weights=personalized(4, 0.5), settings=settings)


def _regions(most: int, settings: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """A row with 16 regions of different rates; one arm is better by 0.008, another by 0.001."""
    means = np.linspace(0.92, 0.95, 16) + np.array([[0.008], [0.001], [0.0]])
    stated = {"tolerance": 0.005, "delta": 0.05, **settings}
    weights = np.full((16, 16), 1 / 16)
    return Row(means=means, most=most, noise=NORMAL, weights=weights, settings=stated, options=options)


TEN = {"tolerance": 1.0, "delta": 0.05, "largest_gap": 9.0}
PEOPLE = {"tolerance": 0.05, "delta": 0.05, "max_samples": 2000}
ROWS: dict[str, Row] = {
    "2 arms tie": Row(means=[0.0] * 2, most=640),
    "4 arms tie": Row(means=[0.0] * 4, most=2850),
    "8 arms tie": Row(means=[0.0] * 8, most=8400),
    "4 arms, gap 0.2": Row(means=[0.2, 0, 0, 0], most=975),
    "4 arms, gap 0.3": Row(means=[0.3, 0, 0, 0], most=570),
    "0.5, 0.5, 0.2, 0": Row(means=[0.5, 0.5, 0.2, 0.0], most=1300),
    "8 arms, 0 to 0.7": Row(means=np.linspace(0.7, 0.0, 8), most=1550),
    "10 arms, gap 0.5": Row(means=[0.5] + [0.0] * 9, most=840),
    "four hospitals, tie": _hospitals(0.0, 5800),
    "four hospitals, gap 0.025": _hospitals(0.025, 5300),
    "four hospitals, gap 0.05": _hospitals(0.05, 3750),
    "four hospitals, gap 0.1": _hospitals(0.1, 1780),
    "10 arms, 1 to 10, known scale": Row(means=np.arange(1.0, 11.0), most=35, settings=TEN),
    "10 arms, 1 to 10, unknown scale": Row(means=np.arange(1.0, 11.0), most=117, noise=UNKNOWN, settings=TEN),
    "3 arms at 25 %, 2,000 people at most": Row(means=[0.25] * 3, most=1653, noise=NORMAL, settings=PEOPLE),
    "16 regions, `rounds = 5`": _regions(25_000, {}, {"rounds": 5}),
    "16 regions, `max_rounds = 4`": _regions(32_000, {"max_rounds": 4}, {}),
}


def closed(runs: int) -> bool:
    """Measure missing rows and rewrite the table; returns whether bad answers are at most what delta allows."""
    stored = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    version = fingerprint()
    known: dict[str, Any] = stored["rows"] if stored.get("sources") == version and stored.get("runs") == runs else {}
    for name, row in ROWS.items():
        for seed in SEEDS:
            if (place := f"{name}, seed {seed}") not in known:
                known[place] = row.measured(runs, seed)
                print(place, known[place], flush=True)
                told = {"sources": version, "runs": runs, "rows": known}
                KNOWN.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    found = {name: [known[f"{name}, seed {seed}"] for seed in SEEDS] for name in ROWS}
    columns = ["study", "samples", "by the other seed", "at most", "rounds", "largest", "answered, %", "bad, %"]
    fill(PAGE, "closed", table(columns, [_shown(name, *found[name]) for name in ROWS]))
    return all(
        sum(one["bad"] for one in both) <= 2 * runs * allowance(ROWS[name].settings["delta"], 2 * runs)
        for name, both in found.items()
    )


def _shown(name: str, own: Mapping[str, float], other: Mapping[str, float]) -> list[str]:
    runs = own["runs"] + other["runs"]
    return [
        name,
        *(f"{one['samples']:,.0f} ± {one['error']:,.0f}" for one in (own, other)),
        f"{ROWS[name].most:,}",
        f"{(own['rounds'] + other['rounds']) / 2:.1f}",
        f"{max(own['largest'], other['largest']):,.0f}",
        f"{100 * (own['answered'] + other['answered']) / runs:.1f}",
        f"{100 * (own['bad'] + other['bad']) / runs:.2f}",
    ]
