"""Plausible truths, to try a study by simulation before anything is known about the real truth.

A *scenario* is a set of plausible instances. A gap scenario is the hardest instance with a given gap: every arm outside
the top N is worse by exactly that gap, for every agent. A prior scenario draws local means at random: each arm has a
level common to all agents, and each agent deviates from it; `heterogeneity` is the deviations' share of the spread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaincinv

from parley.covariates import CovariateTruth
from parley.errors import InvalidInput
from parley.problem import BoolArray, Drift, FloatArray, Instance, IntArray, Problem
from parley.rewards.history import History
from parley.settings import why_largest_gap
from parley.text.translation import Translatable
from parley.validation import checks
from parley.validation.checks import LARGEST_COUNT, above_zero, whole
from parley.weights import alphas_of, personalized

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # weights on an agent's own reward, for `along_weights`
CONFIDENCE = 0.975  # of upper bounds, one-sided
MAX_DRAWS = 10_000  # attempts to draw an instance whose smallest gap is large enough


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Plausible truths under one name: local means `(instance, arm, agent)`."""

    name: str
    means: FloatArray
    scale: Any = None  # the true scale of rewards; None: the problem's
    drift: Drift | None = None  # how the means move between phases
    history: History | None = None  # past rows to resample, moved to the means
    covariate: CovariateTruth | None = None  # relation of covariate and outcome; None: as the problem assumes

    def instances(self, problem: Problem) -> list[Instance]:
        """The scenario's instances for a problem, whose delta and weights may differ from the study's."""
        like: dict[str, Any] = {"scale": self.scale, "drift": self.drift, "history": self.history}
        like |= {"covariate": self.covariate}
        return [Instance(problem=problem, means=means, **like) for means in self.means]

    def shaped(self, truth: Instance | None) -> Scenario:
        """The scenario with rewards resampled from the past rows of `truth`, so that they have its skew and tails.

        The scenario is unchanged if there is no truth, or if the truth has no rows.
        """
        if truth is None or truth.history is None:
            return self
        return replace(self, scale=truth.scale, history=truth.history, covariate=truth.covariate)


def standard_error(values: BoolArray | IntArray | FloatArray, truths: int) -> float:
    """The Monte Carlo standard error of a mean over simulated studies, with equally many studies per truth.

    Studies of one truth are dependent, so with several truths the error is computed from the means per truth.

    >>> standard_error(np.array([True, True, False, False]), 1), standard_error(np.array([1.0, 1.0, 3.0, 3.0]), 2)
    (0.25, 1.0)
    """
    if truths == 1:
        return float(values.std() / np.sqrt(len(values)))
    return float(values.reshape(truths, -1).mean(axis=1).std(ddof=1) / np.sqrt(truths))


def upper_bound(count: int, studies: int) -> float:
    """Clopper and Pearson's upper confidence bound on a share, one-sided at `CONFIDENCE`.

    >>> round(upper_bound(0, 1000), 5), upper_bound(5, 5)
    (0.00368, 1.0)
    """
    return 1.0 if count >= studies else float(betaincinv(count + 1, studies - count, CONFIDENCE))


def tie_scenario(problem: Problem, level: float | None = None) -> Scenario:
    """The scenario in which all arms tie, at the mean `level` or at the reward model's usual mean.

    >>> tie_scenario(Problem(arms=2, weights=np.eye(1))).means.tolist()
    [[[0.0], [0.0]]]
    """
    mean = problem.noise.usual_mean if level is None else level
    return Scenario(name=Translatable("all arms tie"), means=np.full((1, *problem.shape), mean))


def gap_scenario(problem: Problem, gap: float) -> Scenario:
    """The scenario in which every arm outside the top N is worse by `gap`, for all agents; so is the control, if any.

    >>> gap_scenario(Problem(arms=3, weights=np.eye(1)), 0.2).means.round(1).tolist()
    [[[0.1], [-0.1], [-0.1]]]
    >>> gap_scenario(Problem(arms=3, weights=np.eye(1), control="arm 1"), 0.2).means.round(1).tolist()
    [[[-0.1], [0.1], [-0.1]]]
    """
    if not 0 < gap <= problem.largest_gap:
        allowed = f"above 0 and at most largest_gap = {problem.largest_gap:g}"
        raise InvalidInput("gap", found=gap, allowed=allowed, hint=why_largest_gap(gap) if gap > 0 else None)
    name, level = problem.noise.scenario(gap)
    means = np.full((1, *problem.shape), level)
    best = [place for place, arm in enumerate(problem.arms) if arm != problem.control][: problem.top]
    means[:, best] += gap
    return Scenario(name=name, means=means)


def prior_scenario(
    problem: Problem, *, spread: float, heterogeneity: float, min_gap: float, instances: int, seed: int
) -> Scenario:
    """Random instances, in which each mean mixes a level that all agents share with one that belongs to a single agent.

    `heterogeneity` is the weight of the agent's level. Levels are uniform over `spread`. An instance whose smallest gap
    is below `min_gap` is drawn again, since no study can be planned for a tie.
    """
    above_zero("spread", spread)
    checks.within("heterogeneity", heterogeneity, 0, 1)
    above_zero("min_gap", min_gap)
    whole("instances", instances, 1, LARGEST_COUNT)
    (low, high), centre = problem.noise.ends, problem.noise.usual_mean
    room = 2 * min(centre - low, high - centre)
    if spread > room:
        within = f"at most {room:g}: means lie between {low:g} and {high:g}"
        raise InvalidInput("spread", found=f"{spread:g} around {centre:g}", allowed=within)
    generator = np.random.default_rng(seed)
    kept = [_draw(problem, generator, spread, heterogeneity, min_gap) for _ in range(instances)]
    return Scenario(name=f"prior, spread {spread:g}", means=np.stack(kept))


def _draw(
    problem: Problem, generator: np.random.Generator, spread: float, heterogeneity: float, min_gap: float
) -> FloatArray:
    half = spread / 2
    for _ in range(MAX_DRAWS):
        common = generator.uniform(-half, half, (problem.arm_count, 1)) * (1 - heterogeneity)
        own = generator.uniform(-half, half, (problem.arm_count, len(problem.sites))) * heterogeneity
        own = own[:, problem.from_sites]
        means: FloatArray = problem.noise.usual_mean + common + own
        if Instance(problem=problem, means=means).smallest_gap >= min_gap:
            return means
    raise InvalidInput(
        "min_gap",
        found=f"{min_gap:g}, which no draw of {MAX_DRAWS:,} from the prior reached",
        allowed="a smaller gap",
    )


def with_weights(problem: Problem, weights: FloatArray) -> Problem:
    """The problem with other weights.

    A site that did not draw before has no rate: if it now has weight, it gets the rate of the slowest other site.
    """
    if problem.rate is None or problem.rate.all():
        return problem.with_(weights=weights)
    rates = np.where(problem.rate > 0, problem.rate, problem.rate[problem.rate > 0].min())
    return problem.with_(weights=weights, rate=np.where(weights.any(axis=1), rates, 0.0))


def along_weights(problem: Problem) -> tuple[str, list[tuple[float, Problem]]]:
    """Variants of the problem with less and less collaboration, down to none.

    Returns the name of the parameter that varies, and its values with the resulting problems. The parameter is alpha if
    weights are personalized, else the share of an agent's own reward added to its mix. At 1 every agent is alone.
    """
    agents, weights = problem.agent_count, problem.weights
    alphas = alphas_of(weights)
    if agents == 1 or (alphas is not None and np.ptp(alphas) < 1e-9):
        return "alpha", [(share, with_weights(problem, personalized(agents, share))) for share in SHARES]
    return Translatable("extra share of an agent's own reward in its mix"), [
        (share, with_weights(problem, share * problem.alone + (1 - share) * weights)) for share in SHARES
    ]


def usual_gaps(problem: Problem) -> list[float]:
    """The gaps that a plan tries by default, in units of the reward.

    >>> usual_gaps(Problem(arms=2, weights=np.eye(1), largest_gap=0.8))
    [0.4, 0.2, 0.1]
    """
    return problem.noise.usual_gaps(problem.largest_gap)
