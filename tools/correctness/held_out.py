"""The value of the planning options of `binary` and `bounded`, on instances that were not used for tuning.

An instance has 3 to 10 arms, 1 to 5 agents, random column-stochastic weights, rates around a base of 1 to 50 % (drawn
on a log scale), arms up to 60 % of the base apart, and a smallest gap of at least 4 % of it. `largest_gap` and `rate`
are the base; `guess` is the standard deviation at the base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import Binary, BoundedVariance, RewardModel, make_model
from parley.simulation import simulate

SEED = 20_261_115  # for these instances only
DELTA = 0.1
COLUMNS = (
    "rewards", "samples, over planning as if boosted", "rounds", "rounds, as if boosted",
    "samples, over half the range", "wrong answers",
)  # fmt: skip


class PlainBinary(Binary):
    """0/1 rewards, planned like boosted Gaussian rewards."""

    optimism: ClassVar[float] = 1.0
    caution: ClassVar[float] = 1.0


class PlainSpread(BoundedVariance):
    """Rewards in a range, planned like boosted Gaussian rewards."""

    optimism: ClassVar[float] = 1.0
    caution: ClassVar[float] = 1.0


def half(_base: float) -> RewardModel:
    return make_model(kind="bounded", low=0.0, high=1.0, method="hoeffding")


def _binary(kind: type[Binary]) -> Model:
    return lambda base: kind(rate=base)


def _spread(kind: type[BoundedVariance]) -> Model:
    return lambda base: kind(low=0.0, high=1.0, guess=math.sqrt(base * (1 - base)))


Model = Callable[[float], RewardModel]
MODELS: Mapping[str, tuple[Model, Model]] = {
    "binary": (_binary(Binary), _binary(PlainBinary)),
    "bounded, variance": (_spread(BoundedVariance), _spread(PlainSpread)),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One random instance, by number."""

    number: int
    replications: int

    def instance(self, model: Model) -> Instance:
        rng = np.random.default_rng((SEED, self.number))
        while True:
            arms, agents = int(rng.integers(3, 11)), int(rng.integers(1, 6))
            weights = rng.dirichlet(np.full(agents, rng.choice([0.3, 1.0, 3.0])), size=agents).T
            base = float(np.exp(rng.uniform(np.log(0.01), np.log(0.5))))
            common, own = rng.uniform(-0.3, 0.3, (arms, 1)), rng.uniform(-0.3, 0.3, (arms, agents))
            problem = Problem(arms=arms, weights=weights, delta=DELTA, noise=model(base), largest_gap=base)
            instance = Instance(problem=problem, means=base * (1 + (common + own) / 2))
            if instance.smallest_gap >= 0.04 * base:
                return instance

    def run(self, model: Model) -> dict[str, float]:
        instance = self.instance(model)
        done = simulate(
            make_policy("evidence", instance.problem), instance, replications=self.replications, seed=self.number
        )
        means = {"samples": float(done.costs.mean()), "rounds": float(done.rounds.mean())}
        return means | {"wrong": float(done.mistaken.sum())}


def row(name: str, instances: int, replications: int) -> list[str]:
    """The cost of a model relative to its plain version, as a geometric mean over the instances."""
    cases = [Case(number=number, replications=replications) for number in range(instances)]
    tuned, plain, wide = ([case.run(model) for case in cases] for model in (*MODELS[name], half))

    def over(others: list[dict[str, Any]]) -> float:
        pairs = zip(tuned, others, strict=True)
        return float(np.exp(np.mean([np.log(mine["samples"] / other["samples"]) for mine, other in pairs])))

    rounds, plain_rounds = (float(np.mean([each["rounds"] for each in found])) for found in (tuned, plain))
    wrong = sum(each["wrong"] for each in tuned) / (instances * replications)
    return [name, f"{over(plain):.3f}", f"{rounds:.2f}", f"{plain_rounds:.2f}", f"{over(wide):.2f}", f"{wrong:.4f}"]
