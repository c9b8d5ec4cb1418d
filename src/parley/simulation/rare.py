"""Importance sampling of rare errors: the probability that a true top arm is ruled out, down to 1e-20.

Each bet is a mixture of stakes lam_i with shares p_i. Before a phase, stake i is drawn with probability p_i, and the
rewards that decide the bet are tilted by exp(lam_i Y), where Y is the contrast "opponent minus arm". The noise of a
private report is tilted in the same way. Under these tilts errors are common. With psi_i = log E exp(lam_i Y) under the
truth,

    P(the arm is ruled out) = E_tilted[ L 1{ruled out} ],   L = prod over phases of 1 / sum_i p_i exp(lam_i Y - psi_i),

exactly, whatever the policy does with the rewards; L is the likelihood ratio. If sets of N arms are tested
(`policies.evidence.wealth`), the bets are those against the true top N, and an error means that any arm of the true
top N is ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtri_exp

from parley.covariates import Pairs, Slopes
from parley.errors import InvalidInput
from parley.policies.base import State
from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.evidence.wealth import Contrasts, Wealth, slot_of
from parley.problem import Instance, Problem
from parley.rewards import RewardModel
from parley.rewards.bets import LOG_SHARES, POINTS, boldness
from parley.rewards.privacy import with_noise
from parley.rewards.sampling import TiltedLaw
from parley.simulation.pairs import TiltedPairs, drifted_x, tilted_pairs
from parley.simulation.simulate import drifted
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray, IntArray

STRETCH = 400  # a run counts as open after this many times the first phase's samples, as in docs/appendix
FEWEST_EFFECTIVE = 16.0  # effective runs; with fewer, the standard error exceeds a quarter of the estimate
CHUNK = 20_000  # cells of all runs in memory at once
# Largest tilt of one reward over its whole range. It multiplies odds by about 150, and matters if drift takes rates
# close to 0 or 1.
LARGEST_TILT = 5.0


@dataclass(frozen=True, kw_only=True)
class RareError:
    """An estimate of the probability that an arm is ruled out for an agent."""

    probability: float
    standard_error: float
    effective: float  # (sum of weights)^2 / sum of squared weights, over the runs in which the arm was ruled out
    largest_share: float  # largest share of the estimate that comes from a single run
    unresolved: float  # mean weight of open runs, in which the arm was neither ruled out nor safe
    replications: int

    @property
    def believable(self) -> bool:
        """Whether enough runs contribute to the estimate for its standard error to be reliable."""
        return self.effective >= FEWEST_EFFECTIVE

    def require_believable(self) -> RareError:
        """Return the estimate itself; raise if too few runs contribute to it."""
        if not self.believable:
            raise InvalidInput(
                "replications",
                found=f"{self.replications:,}, of which {self.effective:.1f} contribute to the estimate",
                allowed=f"so many that at least {FEWEST_EFFECTIVE:.0f} contribute",
                hint="Try ten times as many, or a larger delta",
            )
        return self


def ruled_out_probability(
    policy: EvidenceRacing,
    instance: Instance,
    *,
    arm: int,
    agent: int,
    replications: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> RareError:
    """Estimate the probability that `arm`, one of the true top N, is ruled out for `agent` under `instance`.

    If N > 1, estimate the probability that `arm` or any of the N - 1 best other arms is ruled out. A run is stopped,
    and counts as `unresolved`, if it has drawn more than 400 times the samples of the first phase without an answer.
    """
    if not isinstance(policy, EvidenceRacing):
        raise InvalidInput("policy", found=policy.name, allowed="evidence: only its bets allow importance sampling")
    if policy.problem.between == "assign":
        allowed = '"outside" or "leading": errors with people who are assigned between phases are counted, never tilted'
        raise InvalidInput("sites.between", found='"assign"', allowed=allowed)
    if replications < 1:
        raise InvalidInput("replications", found=replications, allowed="at least 1")
    if not instance.best[arm, agent]:
        found = f"{instance.problem.arms[arm]!r} of {instance.problem.agents[agent]!r}"
        raise InvalidInput("arm", found=found, allowed="an arm of the agent's true top N (ties included)")
    out, open_ = np.zeros(replications), 0.0
    generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(arm, agent))))
    size = max(CHUNK // instance.means.size, 1)
    for first in range(0, replications, size):
        some = slice(first, min(first + size, replications))
        moved = partial(drifted, instance, some.stop - some.start, seed=seed, block=first)
        moved_x = partial(drifted_x, instance, some.stop - some.start, seed=seed, block=first)
        weights, lost = _run(policy, instance, arm, agent, some.stop - some.start, generator, moved, moved_x)
        out[some] = weights
        open_ += lost
        if progress:
            progress(some.stop - some.start)
    total, squares = float(out.sum()), float(np.square(out).sum())
    return RareError(
        probability=total / replications,
        standard_error=float(out.std() / math.sqrt(replications)),
        effective=total**2 / squares if squares > 0 else 0.0,
        largest_share=float(out.max()) / total if total > 0 else 0.0,
        unresolved=open_ / replications,
        replications=replications,
    )


def _run(
    policy: EvidenceRacing,
    instance: Instance,
    arm: int,
    agent: int,
    count: int,
    generator: np.random.Generator,
    moved: Callable[..., FloatArray | None],
    moved_x: Callable[..., FloatArray],
) -> tuple[FloatArray, float]:
    """Simulate tilted runs; `moved` and `moved_x` give the drift of outcomes and of the covariate in a phase.

    Returns the likelihood ratios `(run,)` of runs in which the arm was ruled out (0 for other runs), and the sum of the
    likelihood ratios of open runs.
    """
    result, runs, log_weight = np.zeros(count), np.arange(count), np.zeros(count)
    left_open, first, noise, phase = 0.0, 0, instance.problem.noise, 0
    members = _members(policy, instance, arm, agent)
    state: State = policy.start((count,))
    slopes = Slopes.none((count, instance.problem.agent_count))
    while True:
        quotas = policy.plan(state)
        assert isinstance(state, Wealth)
        shifts = moved(phase=phase)
        means, phase = instance.means if shifts is None else instance.means + shifts[runs], phase + 1
        rule = instance.problem.adjustment
        law: TiltedLaw | TiltedPairs
        if rule is None:
            law, variances = noise.tilted_law(means, instance.scale), noise.true_variances(means, instance.scale)
        else:
            at = moved_x(phase=phase - 1)[runs]
            law = tilted_pairs(instance, np.broadcast_to(means, quotas.shape), at, *rule.fixed(slopes))
            variances = law.variances
        bet = _bet(policy, instance, state, quotas, members, agent, variances, law.width)
        chosen = (generator.random(len(runs))[:, None] > np.cumsum(bet.shares)[:-1]).sum(axis=-1)
        lam = np.take_along_axis(bet.stakes, chosen[:, None], axis=-1)[:, 0]
        drawn = law.draw(generator, quotas, lam[:, None, None] * bet.direction)
        if isinstance(drawn, Pairs):
            assert rule is not None
            fresh, slopes = rule.reported(slopes, drawn)
        else:
            fresh = drawn
        observed = (bet.direction * fresh.sums).sum(axis=(-2, -1))
        psi = np.stack([law.cumulant(quotas, s[:, None, None] * bet.direction) for s in bet.stakes.T], axis=-1)
        reported, of_noise = _reported(fresh, generator, noise, bet, chosen)
        terms = np.log(bet.shares) + bet.stakes * observed[:, None] - psi + of_noise
        log_weight = log_weight - np.logaddexp.reduce(terms, axis=-1)
        state = policy.update(state, reported)
        out = ~state.active[:, members, agent].all(axis=-1)
        result[runs[out]] = np.exp(log_weight[out])
        over = out | (state.active[:, :, agent].sum(axis=-1) <= instance.problem.top) | state.finished
        first = first or int(quotas[0].sum())
        endless = ~over & (state.counts.sum(axis=(-2, -1)) > STRETCH * first)
        left_open += float(np.exp(log_weight[endless]).sum())
        on = ~(over | endless)
        runs, log_weight, state, slopes = runs[on], log_weight[on], state.take(on), slopes.take(on)
        if not runs.size:
            break
    return result, left_open


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bet:
    """The tilt of a phase's rewards in every run, as a mixture of stakes."""

    direction: FloatArray  # (run, arm, agent): the coefficient of one reward in the contrast Y
    stakes: FloatArray  # (run, mixture): lam; 0 where nothing is staked
    shares: FloatArray  # (mixture,): probability of each stake


def _reported(
    fresh: Totals, generator: np.random.Generator, model: RewardModel, bet: _Bet, chosen: IntArray
) -> tuple[Totals, FloatArray]:
    """The totals that a phase's reports contain, and the log likelihood ratios `(run, mixture)` of their tilted noise.

    To tilt the noise, it is shifted by whole steps of its grid, so that its distribution is known exactly.
    """
    if model.rho is None:
        return fresh, np.zeros(bet.stakes.shape)
    variance = model.noise_variance / model.grid**2
    moves = np.round(bet.stakes[:, :, None, None] * bet.direction[:, None] * variance * model.grid)
    reported = with_noise(fresh, generator, model, moves[np.arange(len(chosen)), chosen])
    noise = reported.sums / model.grid - np.round(fresh.sums / model.grid)
    return reported, np.asarray((moves * (noise[:, None] - moves / 2)).sum(axis=(-2, -1)) / variance)


def _members(policy: EvidenceRacing, instance: Instance, arm: int, agent: int) -> IntArray:
    """The arms that must not be ruled out: `arm` and, if sets are tested, the N - 1 best others."""
    if policy.problem.top == 1:
        return np.array([arm])
    order = np.argsort(-instance.mixed_means[:, agent], kind="stable")
    return np.concatenate([[arm], order[order != arm][: policy.problem.top - 1]])


def _bet(
    policy: EvidenceRacing,
    instance: Instance,
    state: Wealth,
    quotas: IntArray,
    members: IntArray,
    agent: int,
    variances: FloatArray,
    width: float,
) -> _Bet:
    """The tilt that makes an error likely, derived from the policy's own bet against the arm.

    `variances (..., arm, agent)` are the true variances of rewards; `width`, the range of rewards, limits tilts.
    """
    contrasts, weights = policy.contrasts(state), instance.problem.weights[:, agent]
    runs = np.arange(len(quotas))
    slot, arm = _slot(instance, contrasts, members, agent)

    def of_slot(values: FloatArray | BoolArray | IntArray) -> FloatArray:
        return np.asarray(values[runs, slot, arm, agent])

    opponent = of_slot(contrasts.opponents).astype(np.int64)
    direction = np.zeros(quotas.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        direction[runs, opponent] = weights / quotas[runs, opponent]
        direction[runs, arm] = -weights / quotas[runs, arm]
        seen = np.isfinite(np.where(weights > 0, direction[runs, opponent] + direction[runs, arm], 0.0)).all(axis=-1)
    live = of_slot(contrasts.live).astype(bool) & seen & (state.phase > 0)
    direction = np.where(live[:, None, None] & np.isfinite(direction), direction, 0.0)
    private = instance.problem.noise_variance
    variance = np.asarray((np.square(direction) * (quotas * variances + private)).sum(axis=(-2, -1)))  # the contrast's
    gaps = np.maximum(of_slot(contrasts.gap)[:, None] + of_slot(contrasts.error)[:, None] * POINTS, 0.0)
    variance = np.where(variance > 0, variance, 1.0)[:, None]
    stakes = np.where(live[:, None], gaps / variance, 0.0)
    noise = instance.problem.noise
    if noise.boosted:
        missing = of_slot(contrasts.missing)
        stakes *= boldness(gaps[:, 1] / np.sqrt(variance[:, 0]), missing)[:, None]
        # A boosted bet reaches the line at about the normal quantile of the missing wealth, whatever its stake. A tilt
        # beyond that score would waste weight.
        score = np.maximum(-ndtri_exp(-np.maximum(missing, 1e-9)), 0.5)
        stakes = np.minimum(stakes, score[:, None] / np.sqrt(variance))
    if width:
        steepest = np.abs(direction).max(axis=(-2, -1)) * width
        stakes = np.minimum(stakes, LARGEST_TILT / np.maximum(steepest, 1e-300)[:, None])
    return _Bet(direction=direction, stakes=stakes, shares=np.exp(LOG_SHARES) / np.exp(LOG_SHARES).sum())


def _slot(instance: Instance, contrasts: Contrasts, members: IntArray, agent: int) -> tuple[IntArray, IntArray]:
    """The slot of the bet to tilt, and the arm that the bet is against, `(run,)` each.

    If sets are tested, this is the bet against the set `members`. Otherwise it is the bet on the opponent with the
    lowest true mean.
    """
    if contrasts.ranks is None:
        rivals = contrasts.opponents[:, :, members[0], agent]
        return np.argmin(instance.mixed_means[rivals, agent], axis=-1), np.full(len(rivals), members[0])
    return slot_of(contrasts.ranks[..., agent], contrasts.opponents[..., agent], contrasts.wealth[..., agent], members)


@dataclass(frozen=True, kw_only=True)
class Tie:
    """A truth in which `arm` is in every agent's top N, tied with another arm at the boundary."""

    words: str  # description of the truth
    instance: Instance
    arm: int  # index of the tied arm


def hardest_ties(problem: Problem) -> list[Tie]:
    """Truths with N - 1 clearly better arms, two arms tied at the boundary, and all others clearly worse or tied too.

    >>> [tie.words for tie in hardest_ties(Problem(arms=3, weights=[[1.0]]))]
    ['two arms are tied', 'all arms below the top are tied']
    """
    model, top = problem.noise, problem.top
    centre, step = model.usual_mean, problem.largest_gap / 2
    low, high = model.ends
    step = min(step, (centre - low) / 2, (high - centre) / 2)
    levels = np.full(problem.arm_count, centre - step)
    levels[: top - 1], levels[top - 1 : top + 1] = centre + step, centre
    kinds = {Translatable("two arms are tied"): levels}
    if problem.arm_count > top + 1:
        kinds[Translatable("all arms below the top are tied")] = np.maximum(levels, centre)
    agents = np.ones(problem.agent_count)
    return [
        Tie(words=words, instance=Instance(problem=problem, means=np.outer(means, agents)), arm=top - 1)
        for words, means in kinds.items()
    ]
