"""What a reward model is: everything that depends on how rewards scatter.

A model owns its keys in a study file, what a reward may be, how uncertain a mean is, what a bet pays, its intervals,
what a report may hold, and how to simulate it. Policies, bounds, the protocol and the simulator ask the model; none of
them asks for its kind.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import InvalidInput, UnknownName
from parley.rewards import intervals, plausibility, sampling
from parley.rewards.bets import Bets, at_bets, contrast_payoff, stake_that_crosses
from parley.rewards.intervals import Bound, ContrastSummary, Interval, PhaseContrasts
from parley.rewards.plausibility import Flaw, ImplausibleMean, Past, implausible_mean
from parley.rewards.sampling import Sampler, TiltedLaw
from parley.settings import NUMBER, Key
from parley.totals import Totals
from parley.validation.checks import LARGEST_SCALE, FloatArray, positive

SCALE = Key(
    kinds=(int, float, list, str),
    meaning="the standard deviation: a number, a row per agent, or a matrix with a row per arm. Gaussian also "
    '`"unknown"` (one scale per arm and agent), `"unknown per agent"` or `"unknown, shared"`',
    default='gaussian: `"unknown"`; subgaussian: 1.0',
)
GUESS = Key(
    kinds=NUMBER,
    meaning="about the standard deviation, where it is not known; sizes the first phase only",
    default="gaussian: 1.0; bounded: a quarter of the range",
)

# A number, a row per agent, or a matrix (a row per arm), in tuples: a value that compares and hashes.
Scale = float | tuple[float, ...] | tuple[tuple[float, ...], ...]
ALLOWED = "a number, a row (one per agent) or a matrix (a row per arm), all above 0"
GRID_BITS = 20  # steps of private sums in the range: what rounding to them loses is a millionth of a reward a cell


def checked_scale(key: str, value: Any) -> Scale:
    """A scale that was stated, checked; as few numbers as say the same.

    >>> checked_scale("noise.scale", [[1, 2], [1, 2]])
    (1.0, 2.0)
    """
    if not isinstance(value, list | tuple | np.ndarray):
        return positive(key, value)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(key, found=repr(value)[:80], allowed=ALLOWED) from None
    if not (array.ndim in (1, 2) and array.size and ((array > 0) & (array <= LARGEST_SCALE)).all()):
        raise InvalidInput(key, found=repr(value)[:80], allowed=ALLOWED)
    while array.ndim and (array == array[0]).all():
        array = array[0]
    if array.ndim == 0:
        return float(array)
    return tuple(array.tolist()) if array.ndim == 1 else tuple(map(tuple, array.tolist()))


def in_lists(value: Any) -> Any:
    """A value with lists instead of tuples, ready for JSON."""
    return list(map(in_lists, value)) if isinstance(value, tuple) else value


def squared_scale(scale: Scale) -> FloatArray | float:
    """The variance: a float where there is one for all, else an array that broadcasts to `(arm, agent)`."""
    return scale**2 if isinstance(scale, float) else np.square(np.array(scale))


def fitting(key: str, scale: Scale, shape: tuple[int, int]) -> None:
    """Raise unless a scale has as many numbers as there are agents (and arms)."""
    found = np.shape(scale)
    if found not in ((), shape[1:], shape):
        sizes = " x ".join(map(str, found))
        allowed = f"a number, {shape[1]} in a row (one per agent), or {shape[0]} rows (arms) of {shape[1]}"
        raise InvalidInput(key, found=f"{sizes} numbers", allowed=allowed)


def no_scale(kind: str, scale: Scale | None) -> None:
    """Raise if a truth states a scale where the rewards need none."""
    if scale is not None:
        found = f"{in_lists(scale)} with rewards of kind {kind!r}"
        raise InvalidInput(
            "truth.scale", found=found, allowed="nothing: the scatter follows from the means and the range"
        )


@dataclass(frozen=True, kw_only=True)
class RewardModel(ABC):
    """How rewards scatter around their mean."""

    # What a study file says
    kind: ClassVar[str]
    description: ClassVar[str]  # of the kind, for the docs of the study file
    keys: ClassVar[Mapping[str, Key]]  # of [noise], all of the kind, the kind itself left out
    study_defaults: ClassVar[Mapping[str, Any]] = {}  # keys that a study file may leave out: what assumes least
    choices: ClassVar[
        Mapping[str, tuple[str, ...]]
    ] = {}  # keys that choose among the models of the kind -> their words
    chosen: ClassVar[Mapping[str, str]] = {}  # the words that this model is chosen by; none: it is the usual one

    # What a reward may be
    low: ClassVar[float | None] = None  # where all rewards lie, if they do
    high: ClassVar[float | None] = None
    values: ClassVar[tuple[float, ...]] = ()  # the only rewards there are, where they are few

    # Traits that others ask for
    boosted: ClassVar[bool] = False  # payoffs are capped at the line and multiplied beforehand
    needs_squares: ClassVar[bool] = False  # evidence needs sums of squares; then a state keeps them
    means_are_rates: ClassVar[bool] = False  # a mean is a share of rewards, shown in per cent
    rate_bounds: ClassVar[bool] = False  # lower bounds are those of 0/1 rewards (`bounds.bernoulli`)
    optimism: ClassVar[float] = 1.0  # times the policy's: what is not boosted gains more by planning in smaller steps
    caution: ClassVar[float] = 1.0
    knows_scale: ClassVar[bool] = True  # whether `variance` is known before the first draw
    shared_axes: ClassVar[tuple[int, ...]] = ()  # of (arm, agent): over which an unknown scale is assumed to be one
    assumes_gaussian: ClassVar[bool] = False  # so that skewed rewards break the guarantee
    least_draws: ClassVar[int] = 1  # of every cell that a plan needs
    bet_draws: ClassVar[int] = 1  # of every cell that bets, at least: with fewer, bets would be less sharp
    guarantee_note: ClassVar[str] = ""  # what a guarantee must add, where the evidence is only approximate
    takes_noise: ClassVar[bool] = False  # evidence stays exact where sums have the noise of private reports

    # No key of [noise]: a `Problem` sets it from its [privacy].
    rho: float | None = field(default=None, repr=False)

    # ---- the study file

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        """Whether the keys of a [noise] of this kind describe this model, and not another one of the same kind."""
        return all(keys.get(key) == word for key, word in cls.chosen.items())

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:
        """From the keys of a study's [noise], the kind left out."""
        known = (*cls._stated(), *cls.choices)
        for key, value in keys.items():
            if key not in known:
                raise UnknownName(f"key in [noise] with kind {cls.kind!r}", key, ("kind", *known))
            if value not in cls.choices.get(key, (value,)):
                raise UnknownName(f"noise.{key}", value, cls.choices[key])
        return cls(**{key: value for key, value in keys.items() if key not in cls.choices})

    def document(self) -> dict[str, Any]:
        """The keys of [noise], ready to be stored: `make_model(**document)` gives back the same model."""
        stated = {name: getattr(self, name) for name in self._stated()}
        keys = {name: in_lists(value) for name, value in stated.items() if value is not None}
        return {"kind": self.kind} | keys | dict(self.chosen)

    @classmethod
    def _stated(cls) -> list[str]:
        """The fields that are keys of [noise]."""
        return [field.name for field in fields(cls) if field.name != "rho"]

    def check_shape(self, shape: tuple[int, int]) -> None:  # noqa: B027
        """Raise unless the model fits a problem of this shape."""

    # ---- private reports

    def private(self, rho: float | None) -> Self:
        """The model of sums with the noise of private reports, or without for None; raise where there is none."""
        if rho is not None and not self.takes_noise:
            found = f"{rho:g} with {', '.join(f'{key} = {value!r}' for key, value in self.document().items())}"
            allowed = 'rewards of kind "binary", "bounded" with method "hoeffding", or "gaussian" with clip and a scale'
            hint = "An unknown scale and a learned variance need sums of squares, which a private report does not hold"
            raise InvalidInput("privacy.rho", found=found, allowed=allowed, hint=hint)
        return self if rho == self.rho else replace(self, rho=rho)

    @property
    def grid(self) -> float:
        """The step of noise and of private sums: a whole reward, or a power of two about a millionth of the range."""
        if self.low is None or self.high is None:
            raise InvalidInput("noise", found=f"kind {self.kind!r} without a range", allowed="rewards in a range")
        if self.values:
            return float(np.diff(self.values).min())
        return math.ldexp(1.0, math.frexp(self.high - self.low)[1] - 1 - GRID_BITS)

    @property
    def sensitivity(self) -> int:
        """How far another outcome of one person can move a sum at most, in steps of the grid."""
        assert self.low is not None
        assert self.high is not None
        return math.ceil((Fraction(self.high) - Fraction(self.low)) / Fraction(self.grid))  # never rounded down

    @property
    def noise_variance(self) -> float:
        """Of the noise in every sum: sensitivity^2 / (2 rho); 0 where reports are not private."""
        return 0.0 if self.rho is None else (self.sensitivity * self.grid) ** 2 / (2 * self.rho)

    # ---- variances

    @property
    @abstractmethod
    def variance(self) -> FloatArray | float:
        """One for all, or what broadcasts to `(arm, agent)`: the square of the sub-Gaussian scale."""

    @property
    @abstractmethod
    def largest_scale(self) -> float:
        """The largest sub-Gaussian scale, a standard deviation."""

    @property
    def stated_variance(self) -> FloatArray | float | None:
        """What the data can contradict: the square of a stated scale; None where none is stated."""
        return None

    def require_scale(self, who: str) -> None:  # noqa: B027
        """Raise where no scale is known that could serve `who`."""

    @property
    def first_variance(self) -> FloatArray | float:
        """One, or `(arm, agent)`: the variance by which the first phase is sized."""
        return self.variance

    def cell_variances(self, past: Totals) -> FloatArray | float:  # noqa: ARG002
        """`(..., arm, agent)` or one number: the variance of a reward, known or estimated from the past."""
        return self.variance

    def estimated_scale(self, past: Totals) -> FloatArray | None:  # noqa: ARG002
        """`(..., arm, agent)`: a scale that is not stated, estimated from the past; None where there is none."""
        return None

    # ---- what to expect before a study

    def first_gap(self, largest_gap: float) -> float:
        """The gap of which the first phase's standard errors are a share."""
        return largest_gap

    @property
    def usual_gap(self) -> float:
        """What no gap exceeds, if the study does not say."""
        return 1.0 if self.low is None or self.high is None else self.high - self.low

    def usual_gaps(self, largest_gap: float) -> list[float]:
        """The gaps to try a study on where nobody named any: a half, a quarter and an eighth of the largest."""
        return [largest_gap / 2, largest_gap / 4, largest_gap / 8]

    def usual_spread(self, largest_gap: float) -> float:
        """How far apart arms may be in truths to try a study on."""
        return largest_gap

    @property
    def usual_mean(self) -> float:
        """Where scenarios without a known truth are put."""
        return 0.0 if self.low is None or self.high is None else (self.low + self.high) / 2

    def scenario(self, gap: float) -> tuple[str, float]:
        """What a truth with this gap is called, and the mean of the arms that are not the best."""
        return f"gap {gap:g}", self.usual_mean - gap / 2

    # ---- evidence

    def payoff(self, bets: Bets) -> FloatArray:
        """The log of what every bet pays; at least `bets.missing` means that its slot reaches the line."""
        lost = self.mixed_rounding(bets.fresh, bets.weights)
        if lost is not None:
            bets = replace(bets, contrast=bets.contrast - sum(at_bets(bets, lost, lost)))
        return contrast_payoff(bets, boosted=self.boosted)

    def mixed_rounding(self, fresh: Totals, weights: FloatArray) -> FloatArray | None:
        """`(..., arm, agent)`: at most what a mixed mean is off because sums are rounded; None where they are not.

        A private sum is rounded to its grid: half a step, and as much again for whatever the site's addition lost.
        """
        if self.needs_squares:
            return fresh.mixed_rounding(weights)
        if self.rho is None or self.values:
            return None
        return np.asarray((self.grid / np.maximum(fresh.counts, 1)) @ weights)

    def final_payoff(self, bets: Bets) -> FloatArray | None:  # noqa: ARG002
        """The log of what every bet pays at a last look, all in: all that is missing, or nothing at all.

        None where the model has no exact test of a fixed size: there the usual payoff is as good.
        """
        return None

    def stake(self, missing: FloatArray, margin: FloatArray) -> FloatArray:
        """Gap over standard deviation at which a phase wins what is missing; only to plan by."""
        return stake_that_crosses(missing, margin, boosted=self.boosted)

    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        """Signal and information after a phase, and a lower bound on every gap that follows, `(..., arm, agent)`."""
        return intervals.known_variance_bound(self.rounded_down(phase), signal, information)

    def rounded_down(self, phase: PhaseContrasts) -> PhaseContrasts:
        """With contrasts no larger than those of sums that were never rounded."""
        lost = self.mixed_rounding(phase.fresh, phase.weights)
        return phase if lost is None else replace(phase, contrast=phase.contrast - phase.both(lost))

    # ---- intervals

    def summary(self, past: Totals, fresh: Totals, weights: FloatArray) -> ContrastSummary:
        """What a phase shows of every mixed mean, `(..., arm, agent)`; its weight is fixed by past and counts."""
        counts, nothing, squared = fresh.counts, np.zeros(fresh.counts.shape), np.square(weights)
        noise = self.noise_variance * (np.square(fresh.per_draw) @ squared) if self.rho else nothing
        every: dict[str, Any] = {field.name: nothing for field in fields(ContrastSummary)}
        known = {
            "contrast": fresh.means @ weights,
            "variance": (self.cell_variances(past) * fresh.per_draw) @ squared + noise,
            "noise": noise,
            "observed": (counts == 0).astype(np.float64) @ (weights > 0).astype(np.float64) == 0,
        }
        return ContrastSummary(**every | known)

    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        """Where contrasts lie, by all phases of the summary; `line` is the log of one over the level."""
        return intervals.gaussian_interval(summary, line)

    def difference_interval(self, summary: ContrastSummary, line: float) -> Interval:
        """The same for differences of two arms, which are supposed not to change from phase to phase."""
        return intervals.lasting_interval(self.interval, summary, line)

    # ---- what a report may hold

    def flaw(self, count: int, total: float, square: float) -> Flaw | None:
        """What a report's cell holds that no `count` rewards can have; None if all is well."""
        return plausibility.flaw(count, total, square, self.low, self.high)

    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray | None:  # noqa: ARG002
        """`(arm, agent)`: the largest variances, at a share of `plausibility.LEVEL`; inf: unknown, None: in a range."""
        return np.broadcast_to(self.variance, past.counts.shape) if self.low is None else None

    def past(self, totals: Totals, latest: Totals, phases: int) -> Past | None:
        """What the decided phases, and the latest of them, say of every cell; None for rewards in a range."""
        ceiling = self.variance_ceiling(totals, phases)
        return None if ceiling is None else Past(latest=latest, ceiling=ceiling, phases=phases)

    def implausible_mean(
        self, counts: Sequence[int], sums: Sequence[float], past: Past, agent: int, largest_gap: float
    ) -> ImplausibleMean | None:
        """A mean in an agent's report, arm by arm, that the model rules out; None if there is none."""
        most = self.first_variance
        guess = math.sqrt(most if isinstance(most, float) else np.max(most))
        return implausible_mean(counts, sums, past, agent, guess=guess, largest_gap=largest_gap)

    # ---- the truth, and simulated rewards

    def check_means(self, means: FloatArray) -> None:
        """Raise unless true means can be these."""
        if self.low is None or self.high is None:
            return
        outside = (means < self.low) | (means > self.high)
        if outside.any():
            raise InvalidInput(
                "means",
                found=f"{means[outside][0]:.9g}",
                allowed=f"means between noise.low = {self.low:g} and noise.high = {self.high:g}",
            )

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        """`(arm, agent)`: of rewards with these true means, as the usual sampler draws them."""
        if self.low is None or self.high is None:
            return np.broadcast_to(self.bound_variances(means, scale), means.shape)
        return np.asarray((means - self.low) * (self.high - means))

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        """What lower bounds use: of rewards with these true means, and a true scale where one is given."""
        return self.variance

    @property
    def bound_note(self) -> str:
        """Whose rewards the lower bounds are for, where not for the study's own."""
        return f"for Gaussian rewards of scale {self.largest_scale:g}; others can be easier"

    @abstractmethod
    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        """How to simulate rewards with true `means (arm, agent)`, by name, the usual one first.

        `scale` is the true standard deviation where it is not the stated one, as in a truth or a variation of a plan. A
        model without a range draws with it; one whose scatter follows from its range may refuse it (`no_scale`).
        """

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        """How a forecast draws rewards whose means and scale are guesses, `(..., arm, agent)`."""
        return sampling.gaussian(means, scale)

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        """Rewards of the usual sampler, tilted exponentially: what measures errors too rare to be counted.

        This is right for samplers that are Gaussian, or two-valued in a range; a model with another has its own.
        """
        if self.low is None or self.high is None:
            return sampling.tilted_gaussian(means, self.true_variances(means, scale))
        return sampling.tilted_two_valued(means, self.low, self.high)
