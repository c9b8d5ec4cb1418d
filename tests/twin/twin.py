"""A second, slow evidence racing: plain loops, one study at a time, written from the docs and not from the code.

It takes the totals of a study phase by phase and says what follows from them: orders, opponents, the wealth of every
slot or pair, bounds on gaps, and who is out, answered or blocked. Sets are enumerated and multipliers searched, so it
shares no shortcut with the policy. What a phase should draw is not its business.

It follows docs/evidence-racing.md, rewards.md, tolerance.md and changes.md. Where twin and policy differ, one of
them or the docs is wrong: change the twin only together with the docs.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri, stdtr, stdtrit

ON_THE_LINE = 1e-9  # what rounding may take of a wealth that is capped at the line
SHARES = (1 / 6, 2 / 3, 1 / 6)
BEYOND = 0.1  # how far the horizon of a pair that may tie lies beyond the quantile
OWN = "own"  # the slot of the leaders' own set
Rows = list[list[float]]


def normal(x: float) -> float:
    """Phi."""
    return math.erfc(-x / math.sqrt(2)) / 2


def log(x: float) -> float:
    """The logarithm; of nothing too."""
    return math.log(x) if x > 0 else -math.inf


def log_sum(values: Sequence[float]) -> float:
    """The logarithm of a sum of exponentials."""
    top = max(values)
    return top if math.isinf(top) else top + math.log(sum(math.exp(value - top) for value in values))


def log_mixture(z: float, stakes: Sequence[float]) -> float:
    """log f(z) = log sum_i share_i exp(u_i z - u_i^2 / 2)."""
    return log_sum([math.log(share) + u * z - u * u / 2 for share, u in zip(SHARES, stakes, strict=True)])


def log_multiplier(stakes: Sequence[float], missing: float) -> float:
    """The largest log b with E min(b f(z), cap) <= 1 for z ~ N(0, 1), found by where b f meets the cap."""
    largest = max(stakes)
    if largest == 0:
        return 0.0

    def excess(c: float) -> float:
        below = log_sum([math.log(share) + float(log_ndtr(c - u)) for share, u in zip(SHARES, stakes, strict=True)])
        return math.exp(missing) * (math.exp(below - log_mixture(c, stakes)) + normal(-c)) - 1

    far = (missing + math.log(6)) / largest + largest / 2  # here f without b is at the cap, or above it
    meeting = brentq(excess, -40.0, far, xtol=1e-13) if excess(far) < 0 else far
    return max(missing - log_mixture(meeting, stakes), 0.0)


def log_conditional_error(
    z: float, missing: float, tau: float, now: float | None = None, floored: bool = False, least: float = 0.0
) -> float:
    """What a test of level a = 1 / missing that ends at a horizon has left after the share tau of it, over a.

    It rejects `now` by a score of so much, by default that of a tau. A floored one is constant for z <= 0. Who loses
    keeps the `least`, and a higher quantile at the horizon pays for it, found in two steps.
    """
    level, root, rest = math.exp(-missing), math.sqrt(tau), math.sqrt(1 - tau)
    now = -float(ndtri(level * tau)) if now is None else now
    now = max(now, 0.0) if floored else now
    if z >= now:
        return missing

    def log_later(c: float, until: float) -> float:
        later = quad(lambda x: math.exp(-x * x / 2) * normal((root * x - c) / rest), -12.0, until, epsabs=0, limit=200)
        return math.log(max(later[0], 1e-300) / math.sqrt(2 * math.pi))

    def solved(goal: float) -> float:
        far = -float(ndtri(math.exp(goal))) + 1e-6
        return float(brentq(lambda c: log_later(c, now) - goal, -12.0, far, xtol=1e-10))

    spent = normal(-now) / level
    if least:
        keeps = min(least, 0.9 * (1 - spent))
        horizon = -float(ndtri(level * (1 - spent - keeps)))
        for _ in range(2):
            below = min((horizon + rest * float(ndtri(level * keeps))) / root, now)
            cost = keeps * normal(below) - math.exp(log_later(horizon, below)) / level
            horizon = solved(math.log(level * (1 - spent - min(max(cost, 0.0), keeps))))
    else:
        horizon = solved(math.log(level - normal(-now)))
    if floored and z <= 0:
        return min(missing + math.log(2) + log_later(horizon, 0.0), missing)
    return min(max(missing + math.log(max(normal((root * z - horizon) / rest), 1e-300)), log(least)), missing)


def largest_mean(weights: dict[tuple[int, int], float], among: Sequence[int]) -> float:
    """Of all cycles of these arms, one by one."""
    cycles = (cycle for size in range(2, len(among) + 1) for cycle in permutations(among, size))
    means = [sum(weights[cycle[i - 1], cycle[i]] for i in range(len(cycle))) / len(cycle) for cycle in cycles]
    return max(means, default=-math.inf)


SPREADS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


class Spreads:
    """Means that are normal with an unknown spread: how likely each spread is, and what it makes of every mean."""

    def __init__(self, x: Sequence[float], v: Sequence[float], tolerance: float, odds: float) -> None:
        logs, self.means, self.variances = [], [], []
        for spread in SPREADS:
            prior = (spread * tolerance) ** 2
            total = sum(1 / (prior + one) for one in v)
            center = sum(a / (prior + b) for a, b in zip(x, v, strict=True)) / total
            fits = [math.log(prior + b) + (a - center) ** 2 / (prior + b) for a, b in zip(x, v, strict=True)]
            logs.append(-(sum(fits) + math.log(total)) / 2 + (0.0 if spread else math.log(odds)))
            shares = [prior / (prior + b) for b in v]
            self.means.append([center + share * (a - center) for share, a in zip(shares, x, strict=True)])
            self.variances.append([s * b + (1 - s) ** 2 / total for s, b in zip(shares, v, strict=True)])
        self.chances = [math.exp(one - log_sum(logs)) for one in logs]
        self.x, self.v = x, v

    def expected(self) -> list[float]:
        """Of every mean."""
        return [sum(p * mean[k] for p, mean in zip(self.chances, self.means, strict=True)) for k in range(len(self.x))]

    def leads(self, closing: float) -> list[float]:
        """How likely an arm has the best estimate in the end; arms that are alike are equally likely."""
        alike, apart = sum(self.chances[:2]), self.chances[2:]
        last, error = [], []
        for k, (x, v) in enumerate(zip(self.x, self.v, strict=True)):
            mean = sum(p * one[k] for p, one in zip(apart, self.means[2:], strict=True)) / max(sum(apart), 1e-300)
            parts = zip(apart, self.means[2:], self.variances[2:], strict=True)
            variance = sum(p * (w[k] + (one[k] - mean) ** 2) for p, one, w in parts) / max(sum(apart), 1e-300)
            seen = min(closing / v, 1.0)
            last.append(seen * x + (1 - seen) * mean)
            error.append(math.sqrt((1 - seen) ** 2 * variance + (1 - seen) * closing + 1e-6 * closing))
        found = []
        for k in range(len(last)):
            chance = 0.0
            for node, weight in zip(*np.polynomial.hermite_e.hermegauss(8), strict=True):
                at = last[k] + error[k] * node
                others = [normal((at - last[j]) / error[j]) for j in range(len(last)) if j != k]
                chance += weight / math.sqrt(2 * math.pi) * math.prod(others)
            found.append(alike / len(last) + (1 - alike) * chance)
        return found


class Cells:
    """Counts, sums and squares of every arm at every agent."""

    def __init__(self, counts: Any, sums: Any, squares: Any = None) -> None:
        self.counts = [[int(value) for value in row] for row in counts]
        self.sums = [[float(value) for value in row] for row in sums]
        self.squares = None if squares is None else [[float(value) for value in row] for row in squares]

    def mean(self, k: int, n: int) -> float:
        """0 without a draw."""
        return self.sums[k][n] / self.counts[k][n] if self.counts[k][n] else 0.0

    def scatter(self, k: int, n: int) -> float:
        """The sum of squares around the cell's mean."""
        assert self.squares is not None
        return max(self.squares[k][n] - self.sums[k][n] ** 2 / self.counts[k][n], 0.0) if self.counts[k][n] > 1 else 0.0

    def undrawn(self, k: int) -> bool:
        """Whether nobody has drawn the arm: it is new, or closed."""
        return not any(self.counts[k])

    def plus(self, other: Cells) -> Cells:
        """Both together."""

        def added(ours: Any, theirs: Any) -> Any:
            return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(ours, theirs, strict=True)]

        squares = None if None in (self.squares, other.squares) else added(self.squares, other.squares)
        return Cells(added(self.counts, other.counts), added(self.sums, other.sums), squares)


class End:
    """What a pair of a closed study knows of the end: where it lies, if both are contenders, and if this look is it."""

    def __init__(self, horizon: float | None, level: float, closes: bool, late: float, least: float) -> None:
        self.horizon, self.level, self.closes, self.late, self.least = horizon, level, closes, late, least


class Contrast:
    """Opponent j against arm k for agent m: what past and fresh draws say of theta."""

    def __init__(self, twin: Twin, j: int, k: int, m: int, past: Cells, fresh: Cells) -> None:
        self.twin, self.j, self.k, self.m, self.past, self.fresh = twin, j, k, m, past, fresh
        self.weighed = [(n, twin.weights[n][m]) for n in range(twin.agents) if twin.weights[n][m] > 0]
        self.sides = ((j, 1.0), (k, -1.0))
        self.end: End | None = None

    def cells(self) -> list[tuple[int, int, float]]:
        """Arm, agent and weight of every cell that it needs."""
        return [(arm, n, w) for arm, _ in self.sides for n, w in self.weighed]

    def value(self, cells: Cells) -> float:
        """Y, from these draws."""
        return sum(sign * w * cells.mean(arm, n) for arm, sign in self.sides for n, w in self.weighed)

    def drawn(self, cells: Cells) -> bool:
        """Whether nothing that the contrast needs is missing."""
        return all(cells.counts[arm][n] > 0 for arm, n, _ in self.cells())

    def variance(self, cells: Cells, each: Rows) -> float:
        """V with these counts, where single rewards have these variances; no draw counts as one, of 0."""
        return sum(w * w * each[arm][n] / max(cells.counts[arm][n], 1) for arm, n, w in self.cells())


class Model(ABC):
    """What a phase pays. Subclasses know their rewards."""

    boosted = False
    kept = 0.02  # of its level, by a pair that loses its last look

    def __init__(self, noise: Any, arms: int, agents: int) -> None:
        self.noise, self.arms, self.agents = noise, arms, agents

    @abstractmethod
    def past_variances(self, past: Cells) -> Rows:
        """Variances of single rewards, as they are known before a phase."""

    def gaps(self, bet: Contrast, shift: float) -> list[float]:
        """Three points of a rough posterior of the gap; negative ones are no bet."""
        estimate = bet.value(bet.past) + shift
        error = math.sqrt(bet.variance(bet.past, self.past_variances(bet.past)))
        return [max(estimate + side * math.sqrt(3) * error, 0.0) for side in (-1, 0, 1)]

    def bold_stakes(
        self, bet: Contrast, root: float, missing: float, shift: float, nu: float | None = None
    ) -> list[float]:
        """Of boosted bets: 1.2 times the log-optimal ones where the line is within one standard deviation.

        Of Student's t with nu degrees of freedom, the scores that it is about to become.
        """
        plain = [gap / root for gap in self.gaps(bet, shift)]
        if nu is not None:
            plain = [math.sqrt(nu * math.log(1 + t * t / nu)) * (8 * nu + 1) / (8 * nu + 3) for t in plain]
        bold = 1.2 if plain[1] + 1 >= math.sqrt(2 * missing) else 1.0
        return [min(bold * stake, 40.0) for stake in plain]

    @abstractmethod
    def log_payoff(self, bet: Contrast, missing: float, shift: float, last: bool) -> float:
        """The logarithm of what a slot's wealth is multiplied by."""

    def gaussian(self, bet: Contrast, z: float, missing: float, shift: float) -> float:
        """A boosted and capped mixture; for pairs that may tie the conditional error of a test that ends."""
        variance = bet.variance(bet.fresh, self.past_variances(bet.past))
        if bet.end is not None and bet.end.horizon is not None:
            return log_conditional_error(z, missing, *self.planned(bet, missing, shift), least=bet.end.least)
        if bet.end is None and shift and bet.value(bet.past) + shift < 1.5 * shift:
            quantile = max(-float(ndtri(math.exp(-missing))), 0.0) + BEYOND
            return log_conditional_error(z, missing, min(max((shift / quantile) ** 2 / variance, 1e-3), 0.6))
        stakes = self.bold_stakes(bet, math.sqrt(variance), missing, shift)
        return min(log_mixture(z, stakes) + log_multiplier(stakes, missing), missing)

    def planned(self, bet: Contrast, missing: float, shift: float) -> tuple[float, float]:
        """Of a pair of contenders: the share of the phase until the horizon, and the score that rejects now."""
        assert bet.end is not None
        assert bet.end.horizon is not None
        each = self.past_variances(bet.past)
        past, phase = 1 / bet.variance(bet.past, each), 1 / bet.variance(bet.fresh, each)
        t = min((past + phase) / (past + max(1 / bet.end.horizon, phase)), 1.0)
        boundary = -float(ndtri(bet.end.level * t**bet.end.late))
        needed = (boundary * math.sqrt(past + phase) - (bet.value(bet.past) + shift) * past) / math.sqrt(phase)
        least = -float(ndtri(0.3 * (1 - bet.end.least) * math.exp(-missing)))
        most = 0.6 if missing < math.log(2) else 0.9
        return min(max(bet.end.horizon * phase, 1e-3), most), max(min(needed, 8.0), least)

    def last_look(self, bet: Contrast, over: bool) -> tuple[bool, float]:
        """Whether it is one, and what is kept of the level: nothing where nothing follows."""
        closes = bet.end is not None and bet.end.closes
        return over or closes, self.kept if closes and not over else 0.0

    def gap_bound(self, bound: GapBound, bets: Sequence[Contrast], line: float) -> float:
        """A lower bound on an arm's gap by the inverted mixture, from contrasts with its N opponents."""
        each, tau = self.past_variances(bets[0].past), bound.tau
        variance = max(bet.variance(bet.fresh, each) for bet in bets)
        bound.signal += min(bet.value(bet.fresh) for bet in bets) / variance
        bound.information += 1 / variance
        spread = 1 + tau**2 * bound.information
        height = math.sqrt(2 * line + math.log(spread))
        return (bound.signal - math.sqrt(spread) / tau * height) / bound.information

    def range_bound(self, bound: GapBound, bets: Sequence[Contrast], line: float, around: Rows, width: float) -> float:
        """The same for rewards in a range; `around` is the sum of (x - r)^2 of every cell."""
        each, fresh = self.past_variances(bets[0].past), bets[0].fresh
        reach = max(width * sum((w / fresh.counts[arm][n]) ** 8 for arm, n, w in bet.cells()) ** 0.125 for bet in bets)
        wished = math.sqrt(2 * line / max(bet.variance(fresh, each) for bet in bets))
        stake = wished / (1 + wished * reach)
        logs = []
        for bet in bets:
            penalty = sum((w / fresh.counts[arm][n]) ** 2 * around[arm][n] for arm, n, w in bet.cells())
            logs.append(stake * bet.value(fresh) - stake**2 * penalty / (2 * (1 - stake * reach)))
        bound.signal += min(logs)
        bound.information += stake
        return (bound.signal - line) / bound.information


class KnownScale(Model):
    """`gaussian` and `subgaussian` of stated scale; `bounded` by Hoeffding has half the range for the scale."""

    kept = 0.005

    def __init__(self, noise: Any, arms: int, agents: int) -> None:
        super().__init__(noise, arms, agents)
        name = type(noise).__name__
        self.boosted = name == "Gaussian"
        scale = (noise.high - noise.low) / 2 if name == "Bounded" else noise.scale
        self.each = []
        for k in range(arms):
            row = scale[k] if isinstance(scale, tuple) and isinstance(scale[0], tuple) else scale
            self.each.append([float(row[n] if isinstance(row, tuple) else row) ** 2 for n in range(agents)])

    def past_variances(self, past: Cells) -> Rows:
        """As stated."""
        return self.each

    def log_payoff(self, bet: Contrast, missing: float, shift: float, last: bool) -> float:
        """A mixture of three stakes. Where rewards are Gaussian: boosted, capped, and all in if it is the last."""
        root = math.sqrt(bet.variance(bet.fresh, self.each))
        z = (bet.value(bet.fresh) + shift) / root
        final, kept = self.last_look(bet, last)
        if final and self.boosted:
            return missing if z >= -float(ndtri((1 - kept) * math.exp(-missing))) else log(kept)
        if self.boosted:
            return self.gaussian(bet, z, missing, shift)
        return log_mixture(z, [min(gap / root, 40.0) for gap in self.gaps(bet, shift)])


class UnknownScale(Model):
    """`gaussian` of a scale that nobody knows: shared by all cells, by an agent's, or by none."""

    boosted = True

    def _groups(self) -> list[list[tuple[int, int]]]:
        cells = [(k, n) for k in range(self.arms) for n in range(self.agents)]
        if self.noise.scale == "unknown, shared":
            return [cells]
        if self.noise.scale == "unknown per agent":
            return [[(k, n) for k in range(self.arms)] for n in range(self.agents)]
        return [[cell] for cell in cells]

    def pooled(self, cells: Cells) -> tuple[Rows, Rows]:
        """Variances and their degrees of freedom."""
        assert cells.squares is not None
        variances, freedom = ([[0.0] * self.agents for _ in range(self.arms)] for _ in range(2))
        for group in self._groups():
            nu = sum(max(cells.counts[k][n] - 1, 0) for k, n in group)
            scatter = sum(cells.scatter(k, n) for k, n in group)
            lost = sum((cells.counts[k][n] + 16) * 2.0**-51 * cells.squares[k][n] for k, n in group)
            for k, n in group:
                variances[k][n] = (scatter + lost) / nu if scatter > lost else math.inf  # all of it may be rounding
                freedom[k][n] = nu
        return variances, freedom

    def past_variances(self, past: Cells) -> Rows:
        """Those of the groups, each with 4 degrees of freedom of the next wider one."""
        wider, arms, agents = self.noise.guess**2, range(self.arms), range(self.agents)

        def drawn_to(cells: list[tuple[int, int]], prior: float, value: float) -> float:
            nu = sum(max(past.counts[k][n] - 1, 0) for k, n in cells)
            return (sum(past.scatter(k, n) for k, n in cells) + prior * value) / (nu + prior)

        wider = drawn_to([(k, n) for k in arms for n in agents], 1e-9, wider)
        if self.noise.scale == "unknown, shared":
            return [[wider] * self.agents for _ in arms]
        columns = [drawn_to([(k, n) for k in arms], 4.0, wider) for n in agents]
        if self.noise.scale == "unknown per agent":
            return [columns for _ in arms]
        return [[drawn_to([(k, n)], 4.0, columns[n]) for n in agents] for k in arms]

    def log_payoff(self, bet: Contrast, missing: float, shift: float, last: bool) -> float:
        """The mixture of the normal score of T above 0, its average below; boosted and capped."""
        each, freedom = self.pooled(bet.fresh)
        estimated = bet.variance(bet.fresh, each)
        nu = min(freedom[arm][n] for arm, n, _ in bet.cells())
        if nu == 0:
            return 0.0
        t = (bet.value(bet.fresh) + shift) / math.sqrt(estimated)
        final, kept = self.last_look(bet, last)
        if final:
            return missing if t > 0 and t >= -float(stdtrit(nu, (1 - kept) * math.exp(-missing))) else log(kept)
        if bet.end is not None and bet.end.horizon is not None:
            z = -float(ndtri(stdtr(nu, -t))) if t > 0 else 0.0
            return log_conditional_error(z, missing, *self.planned(bet, missing, shift), floored=True)
        root = math.sqrt(bet.variance(bet.fresh, self.past_variances(bet.past)))
        stakes = self.bold_stakes(bet, root, missing, shift, nu) if root else [0.0] * 3
        if t > 0:
            log_f = log_mixture(-float(ndtri(stdtr(nu, -t))), stakes)
        else:
            log_f = math.log(2 * sum(share * normal(-u) for share, u in zip(SHARES, stakes, strict=True)))
        multiplier = min(log_multiplier(stakes, missing), missing - log_mixture(0.0, stakes))
        return min(log_f + multiplier, missing)

    def gap_bound(self, bound: GapBound, bets: Sequence[Contrast], line: float) -> float:
        """The interval of the t-th phase by itself, at the share 6 / (pi t)^2 of the level."""
        fresh = bets[0].fresh
        each, freedom = self.pooled(fresh)
        nu = min(freedom[arm][n] for bet in bets for arm, n, _ in bet.cells())
        if nu == 0:
            return -math.inf
        level = 6 / (math.pi * bound.phases) ** 2 * math.exp(-line)
        c = math.sqrt(nu * ((2 * level) ** (-2 / nu) - 1))
        return min(bet.value(fresh) for bet in bets) - c * math.sqrt(max(bet.variance(fresh, each) for bet in bets))


def faster(mine: list[float], expected: float, y: float, gaps: Sequence[float], wide: float) -> float:
    """The mixture of these log payoffs, or of sub-Gaussian ones where those are expected to grow by more."""
    if gaps[1] ** 2 / (2 * wide) > expected:
        mine = [gap / wide * y - gap * gap / wide / 2 for gap in gaps]
    return log_sum([math.log(share) + one for share, one in zip(SHARES, mine, strict=True)])


def largest_stake(cells: Sequence[tuple[float, float]]) -> float:
    """Of cells (a, r): 0.9 of the stake at which a factor could vanish."""
    return 0.9 / max(a * r if a > 0 else -a * (1 - r) for a, r in cells)


def likeliest(cells: Sequence[tuple[float, float, float]], shift: float) -> list[float]:
    """The likeliest rates without a gap, of cells (n, w, q) with signed weights: of all kappas the one that ends it."""

    def rate(q: float, c: float) -> float:
        if q == 0:  # the likelihood (1 - r)^n pulled up, if by enough
            return 1 + 1 / c if c < -1 else 0.0
        if q == 1:
            return 1 / c if c > 1 else 1.0
        return float(brentq(lambda r: q - r - c * r * (1 - r), 0.0, 1.0, xtol=1e-15))

    def gap(kappa: float) -> float:
        return sum(w * rate(q, kappa * w / n) for n, w, q in cells) + shift

    if gap(0.0) <= 0:
        return [q for _, _, q in cells]
    far = 1.0
    while gap(far) > 0:
        far *= 2
    kappa = float(brentq(gap, 0.0, far, xtol=1e-12))
    return [rate(q, kappa * w / n) for n, w, q in cells]


def nearest(cells: Sequence[tuple[float, float, float]], shift: float) -> tuple[float, list[float]]:
    """The rates nearest to q without a gap, of cells (d, a, q), and the multiplier that leads there in two steps."""

    def moved(q: float, step: float) -> tuple[float, float]:
        root = math.sqrt(max((1 + step) ** 2 - 4 * step * q, 1e-12))
        return 2 * q / max(1 + step + root, 1e-12), root

    gap = sum(d * a * q for d, a, q in cells) + shift
    most = largest_stake([(a, q) for _, a, q in cells])
    multiplier = min(max(gap / sum(d * a * a * q * (1 - q) for d, a, q in cells), 0.0), most)
    if gap > 0:
        for _ in range(2):
            left, slope = shift, 0.0
            for d, a, q in cells:
                r, root = moved(q, multiplier * a)
                left += d * a * r
                slope += d * a * a * r * (1 - r) / root
            multiplier = min(max(multiplier + left / slope, 0.0), most)
    return multiplier, [min(max(moved(q, multiplier * a)[0], 1e-9), 1 - 1e-9) for _, a, q in cells]


class Binary(Model):
    """Zeros and ones: a likelihood ratio against the nearest rates without a gap."""

    def rates(self, past: Cells) -> Rows:
        """Each with draws of the rate over all: two, or what holds one of the rarer kind; it has half of one stated."""
        usual = 0.5 if self.noise.rate is None else self.noise.rate
        stated = 0.5 / min(usual, 1 - usual)
        overall = (sum(map(sum, past.sums)) + stated * usual) / (sum(map(sum, past.counts)) + stated)
        more = max(2.0, 1 / min(overall, 1 - overall))
        return [
            [min(max((s + more * overall) / (d + more), 1e-9), 1 - 1e-9) for s, d in zip(sums, counts, strict=True)]
            for sums, counts in zip(past.sums, past.counts, strict=True)
        ]

    def past_variances(self, past: Cells) -> Rows:
        """By the rates."""
        return [[rate * (1 - rate) for rate in row] for row in self.rates(past)]

    def log_payoff(self, bet: Contrast, missing: float, shift: float, last: bool) -> float:
        """There is no all or nothing for zeros and ones."""
        return self.exact(bet, shift)

    def exact(self, bet: Contrast, shift: float) -> float:
        """The product of its factors, by cells of d draws with s ones, coefficient a and past rate q."""
        rates, gaps, fresh = self.rates(bet.past), self.gaps(bet, shift), bet.fresh
        cells = [
            (fresh.counts[arm][n], fresh.sums[arm][n], sign * w / fresh.counts[arm][n], rates[arm][n])
            for arm, sign in bet.sides
            for n, w in bet.weighed
        ]

        variance = sum(d * a * a * q * (1 - q) for d, _, a, q in cells)
        multiplier, reference = nearest([(d, a, q) for d, _, a, q in cells], shift)
        per_gap = multiplier / gaps[1] if multiplier > 0 and gaps[1] > 0 else 1 / variance
        limit = largest_stake([(a, r) for (_, _, a, _), r in zip(cells, reference, strict=True)])
        paid, hoped = [], []
        for stake in (min(gap * per_gap, limit) for gap in gaps):
            start = stake * (sum(d * a * r for (d, _, a, _), r in zip(cells, reference, strict=True)) + shift)
            came = hope = start
            for (d, ones, a, q), r in zip(cells, reference, strict=True):
                up, down = math.log(1 + stake * a * (1 - r)), math.log(1 - stake * a * r)
                came += ones * up + (d - ones) * down
                hope += d * q * up + d * (1 - q) * down
            paid.append(came)
            hoped.append(hope)
        wide = sum(d * a * a for d, _, a, _ in cells) / 4
        if gaps[1] == 0:
            hoped[1] = -1.0  # neither is expected to grow: the sub-Gaussian payoff is taken
        return faster(paid, hoped[1], bet.value(fresh) + shift, gaps, wide)

    def gap_bound(self, bound: GapBound, bets: Sequence[Contrast], line: float) -> float:
        """In the range from 0 to 1, around the rates of the past; x^2 = x."""
        rates, fresh = self.rates(bets[0].past), bets[0].fresh
        around = [
            [s * (1 - 2 * r) + d * r * r for s, d, r in zip(*rows, strict=True)]
            for rows in zip(fresh.sums, fresh.counts, rates, strict=True)
        ]
        return self.range_bound(bound, bets, line, around, 1.0)


class BinaryNormal(Binary):
    """Zeros and ones by the normal approximation, where variances are known well enough."""

    boosted, kept = True, 0.005

    def known(self, bet: Contrast, missing: float) -> bool:
        """By the counts of the phase and the rates of the past: how far the estimated variance will scatter."""
        rates, noise, variance = self.rates(bet.past), 0.0, 0.0
        for arm, _ in bet.sides:
            for n, w in bet.weighed:
                q, d = rates[arm][n], bet.fresh.counts[arm][n]
                variance += w * w / d * q * (1 - q)
                noise += (w * w / d * (1 - 2 * q)) ** 2 * q * (1 - q) / d
        quantile = max(-float(ndtri(math.exp(-missing))), 0.0)
        return quantile**4 * noise / variance**2 / 8 <= 0.2

    def log_payoff(self, bet: Contrast, missing: float, shift: float, last: bool) -> float:
        """As Gaussian, with the variance at the likeliest rates without the gap, by the phase alone."""
        if not self.known(bet, missing):
            least = bet.end.least if bet.end else 0.0
            return min(log_sum([log(least), math.log(1 - least) + self.exact(bet, shift)]), missing)
        fresh = bet.fresh
        cells = [
            (fresh.counts[arm][n], sign * w, fresh.sums[arm][n] / fresh.counts[arm][n])
            for arm, sign in bet.sides
            for n, w in bet.weighed
        ]
        variance = third = 0.0
        for (count, w, _), r in zip(cells, likeliest(cells, shift), strict=True):
            each = r * (1 - r) * count / max(count - 1, 1)
            variance += w * w / count * each
            third += w**3 / count**2 * each * (1 - 2 * r)
        variance = max(variance, 1e-100)
        z, skewness = max((bet.value(fresh) + shift) / math.sqrt(variance), -40.0), third / variance**1.5
        if z > 0 and skewness > 1e-6:
            z = min(z, 6 / skewness * ((1 + skewness * z / 2) ** (1 / 3) - 1) + skewness / 6)
        final, kept = self.last_look(bet, last)
        if final:
            return missing if z >= -float(ndtri((1 - kept) * math.exp(-missing))) else log(kept)
        return self.gaussian(bet, z, missing, shift)


class BoundedVariance(Model):
    """Numbers in a range, by the variance there is."""

    @property
    def width(self) -> float:
        """Of the range."""
        return float(self.noise.high - self.noise.low)

    def past_variances(self, past: Cells) -> Rows:
        """Each cell's with three degrees of freedom of that over all, which has one of the largest possible."""
        cells = [(k, n) for k in range(self.arms) for n in range(self.agents)]
        nu = sum(max(past.counts[k][n] - 1, 0) for k, n in cells)
        overall = (sum(past.scatter(k, n) for k, n in cells) + self.width**2 / 4) / (nu + 1)
        return [
            [
                max((past.scatter(k, n) + 3 * overall) / (max(past.counts[k][n] - 1, 0) + 3), 1e-8 * self.width**2)
                for n in range(self.agents)
            ]
            for k in range(self.arms)
        ]

    def around(self, bet: Contrast) -> tuple[Rows, Rows]:
        """References: past means with one draw of the middle of the range; and sums of (x - r)^2 of the phase."""
        fresh, middle = bet.fresh, (self.noise.low + self.noise.high) / 2
        assert fresh.squares is not None
        reference, around = ([[0.0] * self.agents for _ in range(self.arms)] for _ in range(2))
        for k in range(self.arms):
            for n in range(self.agents):
                r = reference[k][n] = (bet.past.sums[k][n] + middle) / (bet.past.counts[k][n] + 1)
                around[k][n] = max(fresh.squares[k][n] - 2 * r * fresh.sums[k][n] + fresh.counts[k][n] * r * r, 0.0)
        return reference, around

    def gap_bound(self, bound: GapBound, bets: Sequence[Contrast], line: float) -> float:
        """Around the references."""
        return self.range_bound(bound, bets, line, self.around(bets[0])[1], self.width)

    def log_payoff(self, bet: Contrast, missing: float, shift: float, last: bool) -> float:
        """In units of the range."""
        width, low, fresh = self.width, self.noise.low, bet.fresh
        each, gaps = self.past_variances(bet.past), [gap / width for gap in self.gaps(bet, shift)]
        reference, around = self.around(bet)
        cells = []  # |a|, the reach c, sum (x - r)^2 and what is expected of it
        variance = wide = 0.0
        for arm, sign in bet.sides:
            for n, w in bet.weighed:
                d, short = fresh.counts[arm][n], (reference[arm][n] - low) / width
                c = max(short if sign > 0 else 1 - short, 1e-6)
                cells.append((w / d, c, around[arm][n] / width**2, d * each[arm][n] / width**2))
                variance += w * w / d * each[arm][n] / width**2
                wide += w * w / d / 4
        y, most = (bet.value(fresh) + shift) / width, max(a * c for a, c, _, _ in cells)
        stakes = [min(gap / (variance + gap * most), 0.95 / most) for gap in gaps]

        def psi(value: float) -> float:
            return -math.log1p(-value) - value

        paid = [u * y - sum(psi(u * a * c) / c**2 * around for a, c, around, _ in cells) for u in stakes]
        u = stakes[1]
        expected = u * gaps[1] - sum(psi(u * a * c) / c**2 * hoped for a, c, _, hoped in cells)
        return faster(paid, expected, y, gaps, wide)


class Count(Model):
    """Poisson counts of events: powers of 1 + lam a, with as many factors as events came."""

    def past_variances(self, past: Cells) -> Rows:
        """Means, each with two draws of the mean over all, which has one of the stated mean."""
        usual = 1.0 if self.noise.mean is None else self.noise.mean
        overall = (sum(map(sum, past.sums)) + usual) / (sum(map(sum, past.counts)) + 1)
        return [
            [max((s + 2 * overall) / (d + 2), 1e-9) for s, d in zip(sums, counts, strict=True)]
            for sums, counts in zip(past.sums, past.counts, strict=True)
        ]

    def log_payoff(self, bet: Contrast, missing: float, shift: float, last: bool) -> float:
        """By cells with s events, coefficient a and d q events expected; there is no all or nothing for counts."""
        means, gaps, fresh = self.past_variances(bet.past), self.gaps(bet, shift), bet.fresh
        cells = [
            (fresh.sums[arm][n], sign * w / fresh.counts[arm][n], fresh.counts[arm][n] * means[arm][n])
            for arm, sign in bet.sides
            for n, w in bet.weighed
        ]
        limit = 0.9 / max(-a for _, a, _ in cells)

        best = 0.0
        for _ in range(5):  # of Newton's method: the first ends at gap over variance
            slope = shift + sum(hoped * a / (1 + best * a) for _, a, hoped in cells)
            steep = sum(hoped * (a / (1 + best * a)) ** 2 for _, a, hoped in cells)
            best = min(max(best + slope / steep, 0.0), limit)
        per_gap = best / gaps[1] if best > 0 and gaps[1] > 0 else 1 / sum(hoped * a * a for _, a, hoped in cells)
        paid = []
        for stake in (min(gap * per_gap, limit) for gap in gaps):
            paid.append(stake * shift + sum(events * math.log1p(stake * a) for events, a, _ in cells))
        return log_sum([math.log(share) + one for share, one in zip(SHARES, paid, strict=True)])

    def gap_bound(self, bound: GapBound, bets: Sequence[Contrast], line: float) -> float:
        """As in a range around 0, with an event for a reward of 1."""
        return self.range_bound(bound, bets, line, bets[0].fresh.sums, 1.0)


MODELS: dict[str, type[Model]] = {
    "Gaussian": KnownScale,
    "SubGaussian": KnownScale,
    "Bounded": KnownScale,
    "UnknownScale": UnknownScale,
    "Binary": Binary,
    "BinaryNormal": BinaryNormal,
    "BoundedVariance": BoundedVariance,
    "Count": Count,
}


class GapBound:
    """How much worse an arm is, at least, than the N-th best of its agent."""

    def __init__(self, tau: float) -> None:
        self.tau, self.phases, self.signal, self.information, self.at_least = tau, 0, 0.0, 0.0, 0.0


class Question(ABC):
    """What agent m asks: who is still a candidate, and how much worse the others are, at least."""

    status = "decided"

    def __init__(self, twin: Twin, m: int) -> None:
        self.twin, self.m, self.top, self.line = twin, m, twin.top, twin.line
        self.aims: dict[Any, float] = {}  # by slot, where slots have lines of their own
        self.active = [arm for arm in range(twin.arms) if arm not in twin.closed]
        self.dropped_in = [0] * twin.arms
        self.bounds = [GapBound(twin.tau) for _ in range(twin.arms)]
        self.bounded = twin.arms - twin.top  # how many bounds the union over them pays for, per agent

    @property
    def decided(self) -> bool:
        """N arms are left."""
        return len(self.active) <= self.top

    def on_the_line(self, wealth: float) -> bool:
        """Rejected."""
        return wealth >= self.line - ON_THE_LINE

    def ranked(self, cells: Cells) -> list[int]:
        """All arms, the best estimate first, and at the end those of which there is none."""

        def key(arm: int) -> tuple[bool, float, int]:
            return cells.undrawn(arm), -self.twin.mixed_mean(cells, arm, self.m), arm

        return sorted(range(self.twin.arms), key=key)

    @abstractmethod
    def begin(self, first: Cells) -> None:
        """What the first phase, which is no evidence, decides."""

    @abstractmethod
    def prepare(self, past: Cells) -> list[int]:
        """What is fixed before a phase, by all data so far; all arms, the leaders first."""

    @abstractmethod
    def settle(self, past: Cells, fresh: Cells, last: bool) -> None:
        """What follows from the fresh draws of a phase; `last` if none may follow."""

    def contrast(self, j: int, k: int, past: Cells, fresh: Cells) -> Contrast:
        """ "j beats k"."""
        return Contrast(self.twin, j, k, self.m, past, fresh)

    def close(self, past: Cells, fresh: Cells) -> None:  # noqa: B027
        """Who is out, where that hangs on all agents."""

    def bound(self, past: Cells, fresh: Cells) -> None:
        """What a phase after the first says of gaps, also of arms and agents that are done."""
        candidates = [arm for arm in self.prepare(past) if arm in self.active]
        for k, bound in enumerate(self.bounds):
            opponents = [arm for arm in candidates if arm != k][: self.top]
            bets = [self.contrast(j, k, past, fresh) for j in opponents]
            bound.phases += 1
            if len(bets) == self.top and all(bet.drawn(fresh) for bet in bets):
                line = math.log(self.bounded * self.twin.agents / self.twin.problem.delta)
                bound.at_least = max(bound.at_least, self.twin.model.gap_bound(bound, bets, line))

    def log_payoff(self, bet: Contrast, missing: float, last: bool, shift: float = 0.0) -> float:
        """0 where something that the contrast needs was not drawn."""
        return self.twin.model.log_payoff(bet, missing, shift, last) if bet.drawn(bet.fresh) else 0.0

    def keep(self, stay: Sequence[int]) -> None:
        """The others are out."""
        for arm in self.active:
            if arm not in stay:
                self.dropped_in[arm] = self.twin.phase
        self.active = [arm for arm in self.active if arm in stay]


class Sets(Question):
    """Without a tolerance: sets of N arms, and the slots that they bet in."""

    def __init__(self, twin: Twin, m: int) -> None:
        super().__init__(twin, m)
        self.order: list[int] = []
        self.wealth: dict[Any, float] = {}  # by slot: (arm, opponent), or OWN
        self.own_bet = (-1, -1)
        self.share = [1.0] * twin.arms
        self.leaving: list[int] = []

    def begin(self, first: Cells) -> None:
        """Every set starts with 1. Its share in joint answers is the largest of its arms'."""
        ranked = [arm for arm in self.ranked(first) if arm in self.active]
        likely = 1 / (1 + sum(first.undrawn(arm) for arm in ranked))  # that a new arm wins, or the best of the others
        for arm in ranked:
            wins = likely * (1.0 if first.undrawn(arm) else 1 - self.chance_of_losing(first, arm, ranked))
            loses = min(max(1 - wins, 1e-3), 1 - 1e-3)
            self.share[arm] = (loses / (1 - loses)) ** 0.7

    def sets(self) -> list[frozenset[int]]:
        """Every set of N candidates."""
        return [frozenset(chosen) for chosen in combinations(self.active, self.top)]

    def slot(self, members: frozenset[int], order: list[int]) -> Any:
        """The last member against the first outsider; the leaders' own set has a slot by itself."""
        if members == frozenset(order[: self.top]):
            return OWN
        last = [arm for arm in order if arm in members][-1]
        first = next(arm for arm in order if arm not in members)
        return last, first

    def prepare(self, past: Cells) -> list[int]:
        """The order, what every slot starts with, and the leaders' own bet."""
        everyone = self.ranked(past)
        if self.decided:
            return everyone
        ranked = [arm for arm in everyone if arm in self.active]
        leaders, before = ranked[: self.top], self.order
        if not before:
            self.order = ranked
            self.wealth = {self.slot(members, ranked): 0.0 for members in self.sets()}
        elif set(leaders) == set(before[: self.top]):
            self.order = [arm for arm in before if arm in self.active]
        else:
            stay = [arm for arm in before[: self.top] if arm in leaders]
            new = [arm for arm in leaders if arm not in stay]
            former = [arm for arm in ranked if arm in before[: self.top] and arm not in leaders]
            losers = [arm for arm in before[self.top :] if arm in self.active and arm not in leaders]
            self.order = stay + new + former + losers
            start: dict[Any, float] = {}
            for members in self.sets():
                place, had = self.slot(members, self.order), self.wealth[self.slot(members, before)]
                start[place] = min(start.get(place, math.inf if self.twin.together else self.line), had)
            self.wealth = start
        self.own_bet = (ranked[self.top - 1], ranked[self.top])
        return everyone

    def settle(self, past: Cells, fresh: Cells, last: bool) -> None:
        """Every slot below what it aims at bets."""
        for place, had in self.wealth.items():
            aim, bet = self.aims.get(place, self.line), self.slot_contrast(place, past, fresh)
            if had < aim - ON_THE_LINE / 2 and not (past.undrawn(bet.k) or past.undrawn(bet.j)):
                self.wealth[place] = had + self.log_payoff(bet, aim - had, last)

    def slot_contrast(self, place: Any, past: Cells, fresh: Cells) -> Contrast:
        """What a slot bets on."""
        k, j = self.own_bet if place == OWN else place
        return self.contrast(j, k, past, fresh)

    def close(self, past: Cells, fresh: Cells) -> None:
        """An arm goes when all sets that have it are rejected: with answers together, whatever other agents' sets."""
        others = self.twin.shares_beside(self.m, [question.widest() for question in self.twin.questions])

        def rejected(members: frozenset[int]) -> bool:
            place = self.slot(members, self.order)
            if not self.twin.together:
                return self.on_the_line(self.wealth[place])
            k = self.own_bet[0] if place == OWN else place[0]
            return self.wealth[place] >= self.line + math.log1p(others / self.share[k]) - ON_THE_LINE / 2

        open_sets = [one for one in self.sets() if not rejected(one)]
        stay = [arm for arm in self.active if any(arm in members for members in open_sets)]
        if len(stay) < self.top:
            stay = [arm for arm in self.ranked(past.plus(fresh)) if arm in self.active][: self.top]
        self.leaving = stay

    def widest(self) -> float:
        """The largest share of a set that has not reached 1 / delta by itself; of N >= 2 arms, at most so much."""
        if not self.twin.together:
            return 0.0
        if not self.wealth or (self.decided and self.top > 1):
            return max(self.share[arm] for arm in self.active)
        open_ = [place for place, had in self.wealth.items() if had < self.line]
        if self.top == 1:
            arms = [self.order[0] if place == OWN else place[0] for place in open_]
        else:
            arms = self.active if any(place != OWN for place in open_) else self.order[: self.top]
        return max((self.share[arm] for arm in arms if arm in self.active), default=0.0)

    def lead(self) -> float:
        """The share of the leaders' set."""
        return max(self.share[arm] for arm in (self.order if not self.decided else self.active)[: self.top])

    def doubt(self, past: Cells) -> float:
        """What bets take for the share of the leaders: more, by the chance that the next arm takes the place."""
        lead = self.lead()
        if self.decided:
            return lead
        ranked = [arm for arm in self.ranked(past) if arm in self.active]
        chance = max(self.chance_of_losing(past, arm, ranked) for arm in ranked[: self.top])
        return max(lead, lead + chance * (self.share[ranked[self.top]] - lead))

    def chance_of_losing(self, cells: Cells, arm: int, ranked: list[int]) -> float:
        """That an arm is not among the N best: inside against the best outside, outside against the last inside."""
        rival = ranked[self.top] if arm in ranked[: self.top] else ranked[self.top - 1]
        if cells.undrawn(rival) and not cells.undrawn(arm):
            return 0.0
        contrast = self.contrast(rival, arm, cells, cells)
        return normal(
            contrast.value(cells) / math.sqrt(contrast.variance(cells, self.twin.model.past_variances(cells)))
        )

    def needed(self, others: float, place: Any) -> float:
        """The line of a slot, if the others hold so much."""
        share = self.lead() if place == OWN else self.share[place[0]]
        return self.line + math.log1p(others / share)

    def losing(self, others: float) -> list[Any]:
        """Slots of losers that are below what they need."""
        if self.decided:
            return []
        known = [place for place in self.wealth if place != OWN and not any(map(self.twin.past.undrawn, place))]
        losers = [(place, self.wealth[place]) for place in known]
        return [place for place, had in losers if had < self.needed(others, place) - ON_THE_LINE / 2]


class Pairs(Question):
    """With a tolerance: ordered pairs (l, j), which bet on "j is not better than l by the tolerance or more"."""

    status = "accepted"

    def __init__(self, twin: Twin, m: int) -> None:
        super().__init__(twin, m)
        self.wealth: dict[tuple[int, int], float] = {}
        self.bounded = twin.arms

    def begin(self, first: Cells) -> None:
        """The first phase divides the error probability."""
        arms, top, closed = range(self.twin.arms), self.top, self.twin.closed
        each = self.twin.model.past_variances(first)

        def estimate(arm: int) -> float:
            return -math.inf if arm in closed else self.twin.mixed_mean(first, arm, self.m)

        def score(arm: int, other: int) -> float:
            if arm in closed or other in closed:
                return -math.inf if arm in closed else math.inf
            contrast = self.contrast(arm, other, first, first)
            return contrast.value(first) / math.sqrt(contrast.variance(first, each))

        def at(place: int) -> int:
            """The arm of this estimate; of several, the first."""
            return min(arm for arm in arms if estimate(arm) == means[place])

        means = sorted(map(estimate, arms), reverse=True)
        inside = [max(normal(score(arm, at(top - 1))), 1e-4) for arm in arms]
        outside = [max(normal(score(at(top), arm)), 1e-4) for arm in arms]
        edge = [max(one * other, 1e-4) for one, other in zip(inside, outside, strict=True)]

        def largest(count: int, without: int | None = None) -> float:
            return sum(sorted((edge[arm] for arm in arms if arm != without), reverse=True)[:count])

        for j in arms:
            for arm in (arm for arm in arms if arm != j):
                if top == 1:
                    share = inside[arm] / sum(inside[i] for i in arms if i != j)
                else:
                    share = edge[arm] / largest(len(arms) - top) * edge[j] / largest(top, without=arm)
                self.wealth[arm, j] = math.log(0.9 * share + 0.1 / ((len(arms) - top) * top))

    def prepare(self, past: Cells) -> list[int]:
        """Who leads: those that stand best."""
        return sorted(range(self.twin.arms), key=lambda arm: (past.undrawn(arm), -self.standing(arm, past), arm))

    def standing(self, arm: int, past: Cells) -> float:
        """By the estimate, and by up to half the tolerance for how far an arm's pairs have come."""
        pairs = sorted(had for (row, j), had in self.wealth.items() if row == arm and j not in self.twin.closed)
        ahead = max(min(pairs[self.top - 1] / self.line, 1.0), -1.0)
        return self.twin.mixed_mean(past, arm, self.m) + self.twin.problem.tolerance / 2 * ahead

    def unknown(self, arm: int, past: Cells) -> bool:
        """Closed, or opened since and not drawn yet: nothing is bet on it."""
        return arm in self.twin.closed or past.undrawn(arm)

    def ends(self, past: Cells, fresh: Cells, last: bool) -> dict[tuple[int, int], End]:
        """What pairs know of the end of the study: whether this look gives an answer whatever it draws."""
        known = [arm for arm in self.active if not self.unknown(arm, past)]
        if not self.twin.sure or not self.ending(known, past, fresh):
            return {}
        return {pair: End(None, 0.0, True) for pair in self.wealth if set(pair) <= set(known)}

    def ending(self, among: Sequence[int], past: Cells, fresh: Cells) -> bool:
        """Whether one of these arms wins against all the others, by the levels of the pairs and the counts."""
        each, heights = self.twin.model.past_variances(past), {}
        for (row, j), had in self.wealth.items():
            won, bet = had >= self.line, self.contrast(row, j, past, fresh)
            root = math.sqrt(bet.variance(fresh, each)) if bet.drawn(fresh) else math.inf
            heights[row, j] = -math.inf if won else self.quantile(had) * root if math.isfinite(root) else 1e9
        return largest_mean(heights, among) <= self.twin.problem.tolerance

    def quantile(self, had: float) -> float:
        """What a score must reach in a last look."""
        return -float(ndtri((1 - self.twin.model.kept) * math.exp(had - self.line)))

    def held(self, had: float) -> float:
        """The part of its wealth that a pair stakes in no look but its last."""
        short = math.log(self.reserve) - had
        return math.exp(min(short, math.log(0.999))) if short <= math.log(2) else 0.0

    @property
    def reserve(self) -> float:
        """What a pair has at least."""
        return 0.01 / (self.twin.arms - 1) if self.twin.sure else 1e-300

    def settle(self, past: Cells, fresh: Cells, last: bool) -> None:
        """Every pair below the line bets; N arms on the line against all others are an answer."""
        tolerance, closed, now = self.twin.problem.tolerance, self.twin.closed, past.plus(fresh)
        arms = [arm for arm in range(self.twin.arms) if arm not in closed]
        ends = self.ends(past, fresh, last)
        for (row, j), had in self.wealth.items():
            if self.unknown(row, past) or self.unknown(j, past):
                continue
            bet = self.contrast(row, j, past, fresh)
            bet.end = ends.get((row, j))
            error = math.sqrt(bet.variance(past, self.twin.model.past_variances(past)))
            final, _ = self.twin.model.last_look(bet, last)
            hopeless = bet.value(past) + tolerance + 2 * error <= 0 and not final
            if not self.on_the_line(had) and not hopeless and bet.drawn(fresh):
                at_first = bet.end is not None and bet.end.least > 0
                held = self.held(had) if self.twin.sure and not final and not at_first else 0.0
                staked = had + math.log1p(-held)
                after = staked + self.log_payoff(bet, self.line - staked, last, tolerance)
                if held and not self.on_the_line(after):
                    after = log_sum([after, had + math.log(held)])
                self.wealth[row, j] = after

        def covers(row: int) -> set[int]:
            return {j for j in arms if j != row and self.on_the_line(self.wealth[row, j])}

        best = sorted(arms, key=lambda arm: (-len(covers(arm)), -self.twin.mixed_mean(now, arm, self.m), arm))
        chosen = best[: self.top]
        missing = [j for j in arms if any(j not in covers(row) for row in chosen) and j not in chosen]
        if last or not missing:
            self.keep([*chosen, *missing])


class Manner(NamedTuple):
    """What depends on the number of arms."""

    kept: float
    near: float
    sure: float
    seen: float
    dearer: float

    @staticmethod
    def of(arms: int) -> Manner:
        if arms > 4:
            return Manner(0.5, 1.5, 1.2, 0.3, 1.7)
        return Manner(0.33, 1.2, 1.05, 0.6, 1.25 if arms == 4 else 1.3)


class ClosedPairs(Pairs):
    """One answer, few arms, boosted bets: even shares that move, and a planned end."""

    def __init__(self, twin: Twin, m: int) -> None:
        super().__init__(twin, m)
        arms = range(twin.arms)
        self.bounded = 2 * twin.arms  # half of them for the first phase
        self.shares = {(row, j): 1 / (twin.arms - 1) for row in arms for j in arms if row != j}
        self.wealth = {pair: math.log(share) for pair, share in self.shares.items()}

    def begin(self, first: Cells) -> None:
        """The first phase is evidence: before it nothing was drawn, and every arm is known as well as any other."""
        past, arms = self.twin.past, range(self.twin.arms)
        self.settle(past, first, self.twin.exhausted(first))
        line = math.log(self.bounded * self.twin.agents * (self.twin.arms - 1) / self.twin.problem.delta)
        for j, k in ((j, k) for j in arms for k in arms if j != k):
            bet, alone = self.contrast(j, k, past, first), GapBound(self.twin.tau)
            alone.phases = 1
            if bet.drawn(first):
                found = self.twin.model.gap_bound(alone, [bet], line)
                self.bounds[k].at_least = max(self.bounds[k].at_least, found)

    def unknown(self, arm: int, past: Cells) -> bool:
        """In the first phase all arms are drawn for the first time."""
        return arm in self.twin.closed or (self.twin.phase > 1 and past.undrawn(arm))

    def error(self, one: int, other: int, past: Cells) -> float:
        """The standard error of the difference of two arms' estimates."""
        each = self.twin.model.past_variances(past)
        return math.sqrt(self.contrast(one, other, past, past).variance(past, each))

    def contenders(self, past: Cells) -> list[int]:
        """As many of the arms that stand best as make the study cheapest, by what their means must be known to."""
        known = [arm for arm in self.active if not self.unknown(arm, past)]
        if len(self.active) < 2 or not known:
            return []
        tolerance, manner = self.twin.problem.tolerance, Manner.of(self.twin.arms)
        sure = manner.sure if self.twin.problem.max_rounds is None else 2.0
        ranked = sorted(known, key=lambda arm: (-self.standing(arm, past), arm))
        open_ = {pair: had for pair, had in self.wealth.items() if set(pair) <= set(known) and had < self.line}
        u = {pair: self.quantile(had) for pair, had in open_.items()}

        def allowed(row: int, j: int) -> float:
            gap = self.contrast(row, j, past, past).value(past) + tolerance
            return (max(gap - 2 * self.error(row, j, past), tolerance) / max(u[row, j] + sure, 0.1)) ** 2

        safe = {pair: allowed(*pair) for pair in u}

        def alone() -> float:
            variances = [safe[ranked[0], j] for j in ranked if (ranked[0], j) in safe]
            hardest = min(variances, default=1.0)
            parts = [share * hardest for share in (0.25, 0.4, 0.55)]
            cost = min(1 / part + sum(1 / (variance - part) for variance in variances) for part in parts)
            whole = max(largest_mean({pair: u.get(pair, -math.inf) for pair in permutations(known, 2)}, known), 0.3)
            seen = min((1 / self.error(ranked[0], j, past) ** 2 for j in ranked if (ranked[0], j) in safe), default=0.0)
            return manner.dearer * cost if seen >= manner.seen * (whole / tolerance) ** 2 else cost

        def together(count: int) -> float:
            inside, outside = ranked[:count], ranked[count:]
            cycles = {(row, j): u.get((row, j), -math.inf) for row in inside for j in inside if row != j}
            own = (tolerance / max(largest_mean(cycles, inside), 0.3)) ** 2 / 2
            rooms = [
                min(safe[row, j] for row in inside if (row, j) in safe) - own
                for j in outside
                if any((row, j) in safe for row in inside)
            ]
            if any(room < own / 2 for room in rooms):
                return math.inf
            return count / own + sum(1 / room for room in rooms)

        costs = [alone(), *(together(count) for count in range(2, len(ranked) + 1))]
        return ranked[: 1 + costs.index(min(costs))]

    def ends(self, past: Cells, fresh: Cells, last: bool) -> dict[tuple[int, int], End]:
        """By the levels of the pairs and the counts of the phase."""
        contenders = self.contenders(past)
        known = [arm for arm in self.active if not self.unknown(arm, past)]
        quantiles = {pair: -math.inf if had >= self.line else self.quantile(had) for pair, had in self.wealth.items()}
        tolerance, found = self.twin.problem.tolerance, {}
        horizon = (tolerance / max(largest_mean(quantiles, contenders if len(contenders) > 1 else known), 0.3)) ** 2
        closes = set(contenders) if self.ending(contenders, past, fresh) else set()
        if self.twin.sure and self.ending(known, past, fresh):
            closes = set(known)
        manner, expected = Manner.of(self.twin.arms), {}
        late = 1.0 if not self.twin.tight else 1.5 if self.twin.phase <= 1 else 1.75
        arms = [arm for arm in range(self.twin.arms) if not self.unknown(arm, past)]
        if arms:
            expected = dict(zip(arms, self.spreads(arms, past).expected(), strict=True))
        for (row, j), share in self.shares.items():
            inside, level = {row, j} <= set(contenders), max(share, 1e-4) * math.exp(-self.line)
            gap = self.contrast(row, j, past, past).value(past)
            if self.twin.arms > 4 and {row, j} <= set(expected):
                gap = expected[row] - expected[j]
            tied = manner.near * tolerance
            if self.twin.tight:
                tied = min(tied + 1.2 * self.error(row, j, past), 4 * tolerance)
            near = gap + tolerance < tied
            near = (near and (inside or self.twin.sure)) or (inside and self.twin.problem.max_rounds is not None)
            end = {row, j} <= closes
            keeps = self.twin.sure and self.twin.phase <= 1 and self.twin.arms > 2 and not end and not last
            found[row, j] = End(horizon if near else None, level, end, late, manner.kept if keeps else 0.0)
        return found

    def settle(self, past: Cells, fresh: Cells, last: bool) -> None:
        """As all pairs; then shares move."""
        super().settle(past, fresh, last)
        self.move(past.plus(fresh))

    def spreads(self, arms: Sequence[int], now: Cells) -> Spreads:
        """How far apart these arms are."""
        each = self.twin.model.past_variances(now)
        x = [self.twin.mixed_mean(now, arm, self.m) for arm in arms]
        v = [self.contrast(arm, arm, now, now).variance(now, each) / 2 for arm in arms]
        return Spreads(x, v, self.twin.problem.tolerance, 15.0 if self.twin.arms <= 4 else 50.0)

    def possible(self, known: Sequence[int], now: Cells) -> dict[int, float]:
        """How plausible an arm is as an answer, by how far it is behind the best estimate."""
        means = {arm: self.twin.mixed_mean(now, arm, self.m) for arm in known}
        best = min(arm for arm in known if means[arm] == max(means.values()))
        found = {}
        for arm in known:
            short = min(means[arm] - means[best] + self.twin.problem.tolerance, 0.0)
            found[arm] = normal(4 * (1.65 + short / self.error(arm, best, now)))
        return found

    def move(self, now: Cells) -> None:
        """Towards arms that may be answers: a pair gives what is too much of its share, as far as it still has it."""
        arms = range(self.twin.arms)
        known = [arm for arm in arms if arm not in self.twin.closed]
        closing = (self.twin.problem.tolerance / self.quantile(-math.log(self.twin.arms - 1))) ** 2 / 2
        found = dict(zip(known, self.spreads(known, now).leads(closing), strict=True))
        if self.twin.arms <= 4:
            found = self.possible(known, now)
        chances = [max(found.get(arm, 0.0), 1e-4) for arm in arms]
        for j in arms:
            rows = [arm for arm in arms if arm != j]
            gives, wants = {}, {}
            for row in rows:
                share, had, on = self.shares[row, j], self.wealth[row, j], self.on_the_line(self.wealth[row, j])
                wish = 0.0 if on else 0.9 * chances[row] / sum(chances[i] for i in rows) + 0.1 / len(rows)
                most = min(0.999 * math.exp(had), max(math.exp(had) - self.reserve, 0.0))
                gives[row] = min(max(share - wish, 0.0), share if on else most)
                wants[row] = max(wish - share, 0.0)
            moved = min(sum(gives.values()), sum(wants.values()))
            if moved <= 0:
                continue
            for row in rows:
                change = moved * (wants[row] / sum(wants.values()) - gives[row] / sum(gives.values()))
                self.shares[row, j] += change
                if not self.on_the_line(self.wealth[row, j]):
                    self.wealth[row, j] = min(math.log(math.exp(self.wealth[row, j]) + change), self.line)


class Twin:
    """One study, driven by what its phases brought."""

    def __init__(
        self, problem: Any, *, largest: int | None = None, gap_scale: float = 0.2, tight: bool = False
    ) -> None:
        if problem.rho is not None:
            raise ValueError("the twin knows exact sums only: tests/rewards/test_private.py judges private ones")
        self.problem, self.largest = problem, largest  # the most samples, by a budget or by the tolerance
        self.tight = tight  # whether a budget may be too small for a look that closes
        self.weights = [[float(value) for value in row] for row in problem.weights]
        self.arms, self.agents, self.top = problem.arm_count, problem.agent_count, problem.top
        self.model = MODELS[type(problem.noise).__name__](problem.noise, self.arms, self.agents)
        columns = {tuple(row[m] for row in self.weights) for m in range(self.agents)}
        joint = problem.answers == "together" and not problem.tolerance
        self.together = joint and len(columns) > 1
        self.line = math.log((1 if self.together else len(columns)) / problem.delta)
        self.tau = gap_scale * problem.largest_gap
        self.closed = [arm for arm, name in enumerate(problem.arms) if name in problem.dormant]
        self.phase, self.finished = 0, self.arms - len(self.closed) <= self.top
        self.idle: tuple[int, ...] = ()  # who draws no more
        self.left: tuple[int, ...] = ()  # of them, whose question is no longer asked
        blank = [[0] * self.agents for _ in range(self.arms)]
        self.past = Cells(blank, blank, blank)
        boosted = type(problem.noise).__name__ in ("Gaussian", "UnknownScale", "BinaryNormal")
        closed = self.top == 1 and 1 < self.arms <= 16 and boosted
        self.sure = (
            self.top == 1 and 1 < self.arms <= 16 and type(problem.noise).__name__ in ("Gaussian", "BinaryNormal")
        )
        pairs = ClosedPairs if closed else Pairs
        self.questions: list[Any] = [(pairs if problem.tolerance else Sets)(self, m) for m in range(self.agents)]

    def mixed_mean(self, cells: Cells, arm: int, m: int) -> float:
        """The estimate of an arm's mixed mean."""
        return sum(self.weights[n][m] * cells.mean(arm, n) for n in range(self.agents))

    def exhausted(self, now: Cells) -> bool:
        """Whether the budget of samples or rounds is used up."""
        left = math.inf if self.largest is None else self.largest - sum(map(sum, now.counts))
        rounds = math.inf if self.problem.max_rounds is None else self.problem.max_rounds
        return left < self.problem.minimum_cell or self.phase >= rounds

    def take(self, fresh: Cells) -> None:
        """What follows from a phase."""
        if self.finished:
            return
        self.phase += 1
        now = self.past.plus(fresh)
        over = self.exhausted(now)
        if self.phase == 1:
            for question in self.questions:
                question.begin(now)
        else:
            self._bet(fresh, over)
        self.past = now
        asked = [question for question in self.questions if question.m not in self.left]
        self.finished = over or all(question.decided for question in asked)

    def _bet(self, fresh: Cells, over: bool) -> None:
        """A phase after the first."""
        widest = [question.widest() for question in self.questions] if self.together else []
        for question in self.questions:
            question.bound(self.past, fresh)
        if self.together:
            self._aim(fresh, widest)
        racing = [question for question in self.questions if not question.decided]
        for question in racing:
            question.settle(self.past, fresh, over)
        for question in racing:
            question.close(self.past, fresh)
        for question in racing:
            if isinstance(question, Sets):
                question.keep(question.leaving)

    def _aim(self, fresh: Cells, widest: list[float]) -> None:
        """Lines by the leaders; who cannot be settled in this phase, for something was not drawn, has its widest."""
        undrawn = set()
        for question in self.questions:
            others = self.shares_beside(question.m, [one.lead() for one in self.questions])
            bets = [question.slot_contrast(place, self.past, fresh) for place in question.losing(others)]
            if not all(bet.drawn(fresh) for bet in bets):
                undrawn.add(question.m)
        held = [widest[one.m] if one.m in undrawn else one.doubt(self.past) for one in self.questions]
        for question in self.questions:
            others = self.shares_beside(question.m, held)
            question.aims = {place: question.needed(others, place) for place in question.wealth}

    def shares_beside(self, m: int, held: Sequence[float]) -> float:
        """What the other questions hold; agents with the same column ask the same question."""
        columns = [tuple(row[n] for row in self.weights) for n in range(self.agents)]
        return sum(held[n] for n in range(self.agents) if columns[n] != columns[m] and columns.index(columns[n]) == n)

    def settled(self, m: int) -> bool:
        """Whether nothing is left to draw for an agent without an answer, as long as nobody's leaders change."""
        if not self.together or self.finished or self.phase == 0 or self.questions[m].decided:
            return False
        questions = copy.deepcopy(self.questions)
        for question in questions:
            question.prepare(self.past)
        if any(self.past.undrawn(arm) for arm in self.questions[m].active):
            return False
        stuck = [n in self.left or any(self.weights[i][n] > 0 for i in self.idle) for n in range(self.agents)]
        held = [self.questions[one.m].widest() if stuck[one.m] else one.lead() for one in questions]
        return not questions[m].losing(self.shares_beside(m, held))

    def blocked(self, m: int) -> bool:
        """Undecided, and the mix weighs somebody who draws no more."""
        undecided = not self.questions[m].decided and not self.settled(m)
        return undecided and any(self.weights[n][m] > 0 for n in self.idle)

    def status(self, m: int) -> str:
        """How the study ended for an agent."""
        if self.questions[m].decided:
            return str(self.questions[m].status)
        if m in self.left or self.finished:
            return "left" if m in self.left else "exhausted"
        return "settled" if self.settled(m) else "open"
