"""The cost of stating a true key: `python -m tools.correctness stated`, into docs/appendix/evidence-racing.md.

Every case runs twice with the same seed, without the key and with it, in identification and in play. Stating a true
value must never cost more than 5 %.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tools.correctness.common import APPENDIX, SEED, in_parallel
from tools.pages import fill, table

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.weights import personalized

PAGE = APPENDIX / "evidence-racing.md"
MOST = 1.05  # largest ratio of the mean cost with the key to that without
RATES = (0.5, 0.25, 0.1, 0.02, 0.005, 0.001, 0.0005)
LIFT = 0.6  # lift of the best arm over the base rate; the third arm has half of it


@dataclass(frozen=True, kw_only=True)
class Case:
    """A truth, the keys that are always stated, and the true keys that are added to the study or its [noise]."""

    truth: str
    means: tuple[float, ...]
    noise: Mapping[str, Any] = field(hash=False)
    key: str
    stated: Mapping[str, Any] = field(hash=False)
    agents: int = 1
    horizon: int | None = None
    scale: float | None = None

    def cost(self, *, stated: bool, runs: int, seed: int = SEED) -> tuple[float, float]:
        """Mean samples, or regret in play, and the standard error."""
        keys = dict(self.stated) if stated else {}
        noise = {**self.noise, **keys.pop("noise", {})}
        weights = personalized(self.agents, 0.5) if self.agents > 1 else [[1.0]]
        model = make_model(**noise)
        settings = {"largest_gap": max(model.usual_gap, self.spread)} | keys
        problem = Problem(arms=len(self.means), weights=weights, noise=model, horizon=self.horizon, **settings)
        means = np.repeat(np.array(self.means)[:, None], self.agents, axis=1)
        truth = Instance(problem=problem, means=means, scale=self.scale if not model.knows_scale else None)
        policy = make_policy("evidence" if self.horizon is None else "evidence-regret", problem)
        found = simulate(policy, truth, replications=runs, seed=seed)
        spent = found.costs if self.horizon is None else found.regret.totals
        return float(spent.mean()), float(spent.std()) / math.sqrt(runs)

    @property
    def spread(self) -> float:
        return max(self.means) - min(self.means)

    def ratio(self, runs: int) -> tuple[float, float]:
        """Mean cost with the key over that without, and its standard error; exactly 1 if the studies are the same."""
        (before, error), (after, other) = (self.cost(stated=on, runs=runs) for on in (False, True))
        return after / before, after / before * math.hypot(error / before, other / after)


def cases() -> Iterator[Case]:
    """All cases."""
    yield from _rates()
    yield from _scales()
    yield from _played()


def _rates() -> Iterator[Case]:
    """Cases with three arms around a rate, with exact and normal inference."""
    for rate, agents, inference in itertools.product(RATES, (1, 4), ("exact", "normal")):
        means = (min(rate * (1 + LIFT), 0.65), rate, rate / 2)
        own: Mapping[str, Any] = {"noise": {"rate": rate}}
        widest: Mapping[str, Any] = {"largest_gap": 1.25 * (means[0] - means[2])}
        for key, stated in {"rate": own, "largest_gap": widest, "rate, largest_gap": {**own, **widest}}.items():
            if agents == 1 or key == "rate":
                noise = {"kind": "binary", "inference": inference}
                truth = f"rate {rate:g}, {inference}"
                yield Case(truth=truth, means=means, noise=noise, key=key, stated=stated, agents=agents)


def _scales() -> Iterator[Case]:
    """Cases with Gaussian rewards of known, guessed or unknown scale, with rewards in a range, and with a budget."""
    for scale, kind in itertools.product((0.1, 1.0), ("unknown", "unknown, shared")):
        means = (0.5 * scale, 0.2 * scale, 0.0)
        given: Mapping[str, Mapping[str, Any]] = {
            "guess": {"noise": {"guess": scale}},
            "largest_gap": {"largest_gap": scale},
            "scale": {"noise": {"scale": scale}},
        }
        for key, stated in given.items():
            noise = {"kind": "gaussian", "scale": kind}
            truth = f"scale {scale:g}, {kind}"
            yield Case(truth=truth, means=means, noise=noise, key=key, stated=stated, agents=2, scale=scale)
    ranged = {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"}
    for mean, scatter in ((0.5, 0.5), (0.1, 0.3)):
        guess = {"noise": {"guess": scatter}}
        truth = f"a range, scatter {scatter:g}"
        yield Case(truth=truth, means=(mean * 1.5, mean, mean / 2), noise=ranged, key="guess", stated=guess)
    for gap in (0.5, 0.1):
        known, budget = {"kind": "gaussian", "scale": 1.0}, {"max_samples": 20_000}
        yield Case(truth=f"gap {gap:g}", means=(gap, 0.0), noise=known, key="max_samples", stated=budget)


def _played() -> Iterator[Case]:
    for rates, largest in (((0.003, 0.001, 0.001), 0.02), ((0.03, 0.02, 0.02), 0.02), ((0.5, 0.4, 0.3), 0.25)):
        truth = f"rates {', '.join(f'{rate:g}' for rate in rates)}"
        given: Mapping[str, Mapping[str, Any]] = {
            "rate": {"noise": {"rate": rates[1]}},
            "largest_gap": {"largest_gap": largest},
        }
        for key, stated in given.items():
            yield Case(truth=truth, means=rates, noise={"kind": "binary"}, key=key, stated=stated, horizon=10**6)
    for gap in (0.5, 0.1):
        noise, widest = {"kind": "gaussian", "scale": 1.0}, {"largest_gap": 1.25 * gap}
        truth = f"gap {gap:g}"
        yield Case(truth=truth, means=(gap, 0.0), noise=noise, key="largest_gap", stated=widest, horizon=10**6)


def stated(runs: int, workers: int) -> bool:
    """Measure and rewrite the table; returns whether no key costs over 5 % by more than three standard errors."""
    grid = list(cases())
    found = dict(in_parallel(_ratio, [(case, runs) for case in grid], workers))
    rows, good = [], True
    for case in grid:
        ratio, error = found[case, runs]
        good &= ratio - 3 * error <= MOST
        what = "identification" if case.horizon is None else "play"
        rows.append([case.truth, f"{case.agents}", what, f"`{case.key}`", f"{ratio:.2f} ± {error:.2f}"])
    fill(PAGE, "stated", table(["truth", "M", "in", "stated", "mean with it / without"], rows))
    return good


def _ratio(task: tuple[Case, int]) -> tuple[float, float]:
    case, runs = task
    return case.ratio(runs)
