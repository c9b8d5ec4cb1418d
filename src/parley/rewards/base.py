"""The contract of reward models: everything that depends on how rewards are distributed.

A model defines its keys in a study file, the possible rewards, how uncertain a mean is, what a bet pays, intervals,
what a report may contain, and how to simulate rewards. Policies, bounds, the protocol and the simulator ask the model;
none of them looks at its kind.

The contract has seven parts, one class each: the keys of the study file (`StudyKeys`), the possible rewards
(`PossibleRewards`), expectations before a study (`Expectations`), which reports are accepted (`Reports`), what rules
arms out (`Evidence`), what people are told (`Estimates`) and how rewards are simulated (`Simulation`). Abstract methods
must be written; all others have a default that is valid for every model. If rewards are sub-Gaussian with a variance
known beforehand, `KnownVariance` provides most of the rest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import InvalidInput, UnknownName
from parley.rewards import intervals, plausibility, sampling
from parley.rewards.bets import Bets, at_bets, contrast_payoff, stake_that_crosses
from parley.rewards.divergences import Divergence
from parley.rewards.intervals import Bound, ContrastSummary, Interval, PhaseContrasts
from parley.rewards.plausibility import Flaw, ImplausibleMean, Past, implausible_mean
from parley.rewards.sampling import Sampler, TiltedLaw
from parley.rewards.scales import Scale, in_lists
from parley.settings import Key
from parley.text.translation import Translatable
from parley.totals import Totals
from parley.validation.checks import FloatArray

NOT_KEYS = ("rho", "outcome", "first_left")  # fields that are not keys of [noise]
GRID_BITS = 20  # private sums are rounded to multiples of range / 2**20, about a millionth of a reward


@dataclass(frozen=True, kw_only=True)
class StudyKeys(ABC):
    """The keys of a study file's [noise], which are the model's fields."""

    kind: ClassVar[str]
    description: ClassVar[str]  # describes the kind in the docs of the study file
    keys: ClassVar[Mapping[str, Key]]  # all keys of [noise] for this kind, except `kind` itself
    observed: ClassVar[str] = ""  # what is observed about a person, for study protocols; the description unless given
    study_defaults: ClassVar[Mapping[str, Any]] = {}  # values that assume least, for keys a study file may omit
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # key that chooses among the models of a kind -> its values
    chosen: ClassVar[Mapping[str, str]] = {}  # the values that choose this model; empty for the usual model

    # These are not keys of [noise]: a `Problem` sets them from its [privacy] and [covariate].
    rho: float | None = field(default=None, repr=False)
    outcome: RewardModel | None = field(default=None, repr=False)  # model of the rewards before sites adjust them

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        """Whether the keys of a [noise] describe this model rather than another of the same kind."""
        return all(keys.get(key) == word for key, word in cls.chosen.items())

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:
        """The model with the keys of a study's [noise], without the kind."""
        known = (*cls._stated(), *cls.choices)
        for key, value in keys.items():
            if key not in known:
                raise UnknownName(f"key in [noise] with kind {cls.kind!r}", key, ("kind", *known))
            if value not in cls.choices.get(key, (value,)):
                raise UnknownName(f"noise.{key}", value, cls.choices[key])
        return cls(**{key: value for key, value in keys.items() if key not in cls.choices})

    def document(self) -> dict[str, Any]:
        """The keys of [noise], ready to be stored; `make_model(**document)` restores the model."""
        if self.outcome is not None:
            return self.outcome.document()
        stated = {name: getattr(self, name) for name in self._stated()}
        keys = {name: in_lists(value) for name, value in stated.items() if value is not None}
        return {"kind": self.kind} | keys | dict(self.chosen)

    @classmethod
    def _stated(cls) -> list[str]:
        """The fields that are keys of [noise]."""
        return [field.name for field in fields(cls) if field.name not in NOT_KEYS]

    def check_shape(self, shape: tuple[int, int]) -> None:  # noqa: B027
        """Raise unless the model fits a problem of this shape."""


class PossibleRewards(StudyKeys):
    """The values that rewards can take and, for rewards in a range, the noise of private reports."""

    low: ClassVar[float | None] = None  # smallest possible reward, if there is one
    high: ClassVar[float | None] = None  # largest possible reward, if there is one
    values: ClassVar[tuple[float, ...]] = ()  # the only possible rewards, if there are few
    whole: ClassVar[bool] = False  # rewards are whole numbers
    means_are_rates: ClassVar[bool] = False  # a mean is a proportion, shown in per cent
    # The keys with which a study file asks for private reports and exact evidence, if the model allows both.
    private_form: ClassVar[str] = ""
    # Which model in `parley.rewards.adjusted` describes its rewards after sites adjust them for a covariate; empty if
    # none does.
    adjusted_form: ClassVar[str] = ""

    @property
    def in_range(self) -> bool:
        """Whether rewards are bounded on both sides. A bound on one side limits neither the mean nor the variance."""
        return self.low is not None and self.high is not None

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and largest possible reward; infinite without a bound."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    def check_means(self, means: FloatArray) -> None:
        """Raise unless these can be true means."""
        low, high = self.ends
        outside = (means < low) | (means > high)
        if outside.any():
            allowed = f"means between noise.low = {low:g} and noise.high = {high:g}"
            if not self.in_range:
                allowed = f"means of at least {low:g}" if self.high is None else f"means of at most {high:g}"
            raise InvalidInput("means", found=f"{means[outside][0]:.9g}", allowed=allowed)

    def private(self, rho: float | None) -> Self:
        """The model of private reports with privacy loss `rho`, or of exact ones if None; raise if there is none."""
        if rho is not None and not self.private_form:
            found = f"{rho:g} with {', '.join(f'{key} = {value!r}' for key, value in self.document().items())}"
            forms = [model.private_form for model in _every_model(PossibleRewards) if model.private_form]
            hint = "An unknown scale and a learned variance need sums of squares, which a private report does not hold"
            raise InvalidInput("privacy.rho", found=found, allowed=" or ".join(dict.fromkeys(forms)), hint=hint)
        return self if rho == self.rho else replace(self, rho=rho)

    @property
    def grid(self) -> float:
        """The step of private sums and their noise: 1 for whole rewards, else about a millionth of the range."""
        if self.low is None or self.high is None:
            raise InvalidInput("noise", found=f"kind {self.kind!r} without a range", allowed="rewards in a range")
        if self.values:
            return float(np.diff(self.values).min())
        return math.ldexp(1.0, math.frexp(self.high - self.low)[1] - 1 - GRID_BITS)

    @property
    def sensitivity(self) -> int:
        """The largest change of a sum that one person's outcome can make, in steps of the grid."""
        assert self.low is not None
        assert self.high is not None
        return math.ceil((Fraction(self.high) - Fraction(self.low)) / Fraction(self.grid))  # never rounded down

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in every sum: sensitivity^2 / (2 rho); 0 unless reports are private."""
        return 0.0 if self.rho is None else (self.sensitivity * self.grid) ** 2 / (2 * self.rho)


def _every_model(model: type[PossibleRewards]) -> Iterator[type[PossibleRewards]]:
    """All model classes, including those of other packages that have been imported."""
    yield model
    for special in model.__subclasses__():
        yield from _every_model(special)


class Expectations(PossibleRewards):
    """Expectations before a study. No guarantee depends on them; they size first phases and the truths of a plan."""

    @property
    @abstractmethod
    def first_variance(self) -> FloatArray | float:
        """The variance that sizes the first phase: one number, or `(arm, agent)`."""

    def first_sizes(self, largest_gap: float, gap: float) -> tuple[FloatArray | float, float]:  # noqa: ARG002
        """The variances and the gap that size the first phase, if no gap exceeds `largest_gap`.

        Standard errors after the phase will be a share of that gap, which is `gap` unless the model has a better one.
        """
        return self.first_variance, gap

    @property
    def usual_gap(self) -> float:
        """The largest gap to assume if the study states none."""
        return 1.0 if self.low is None or self.high is None else self.high - self.low

    def usual_gaps(self, largest_gap: float) -> list[float]:
        """The gaps for a plan to try if the user names none: a half, a quarter and an eighth of the largest."""
        return [largest_gap / 2, largest_gap / 4, largest_gap / 8]

    def usual_spread(self, largest_gap: float) -> float:
        """How far apart the means of arms are in the truths that a plan tries."""
        return largest_gap

    @property
    def usual_mean(self) -> float:
        """The mean at which scenarios without a known truth are placed."""
        return 0.0 if self.low is None or self.high is None else (self.low + self.high) / 2

    def expecting(self, mean: float) -> Self:  # noqa: ARG002
        """This model with `mean` as the mean it expects, if it uses one and none is stated; otherwise unchanged.

        Stakes and sizes use it; no guarantee depends on it.
        """
        return self

    def scenario(self, gap: float) -> tuple[str, float]:
        """The name of a truth with this gap, and the mean of all arms but the best."""
        return Translatable("gap {0:g}", gap), self.usual_mean - gap / 2

    def other_guesses(self) -> list[tuple[str, str, Self]]:
        """Alternatives to a stated guess, for a plan to try: name, change, and the model with the other guess."""
        return []


class Reports(Expectations):
    """Which reports are accepted, and which assumptions the data can contradict."""

    shared_axes: ClassVar[tuple[int, ...]] = ()  # axes of (arm, agent) that share an unknown scale
    assumes_gaussian: ClassVar[bool] = False  # skewed rewards break the guarantee
    variance_is_mean: ClassVar[bool] = False  # a variance larger than the mean breaks the guarantee

    @property
    def stated_variance(self) -> FloatArray | float | None:
        """The stated variance, which data can contradict; None if no scale is stated."""
        return None

    @property
    def watched(self) -> bool:
        """Whether data can contradict an assumption, so that people are warned."""
        return self.stated_variance is not None or self.assumes_gaussian or self.variance_is_mean

    def flaw(self, count: int, total: float, square: float) -> Flaw | None:
        """What is impossible about a cell of a report, given its `count`; None if nothing is."""
        return plausibility.flaw(count, total, square, self.low, self.high)

    @abstractmethod
    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray | None:
        """`(arm, agent)`: upper bounds on variances, at a share of `plausibility.LEVEL`; inf if unknown.

        Return None only for rewards in a range, where `flaw` bounds means on both sides: with None, no report is held
        because of its means.
        """

    def past(self, totals: Totals, latest: Totals, phases: int) -> Past | None:
        """Statistics of the decided phases for checks of means; None for rewards in a range."""
        ceiling = self.variance_ceiling(totals, phases)
        return None if ceiling is None else Past(latest=latest, ceiling=ceiling, phases=phases)

    def implausible_mean(
        self, counts: Sequence[int], sums: Sequence[float], past: Past, agent: int, largest_gap: float
    ) -> ImplausibleMean | None:
        """The first arm of an agent's report whose mean is implausible under the model; None if there is none."""
        most = self.first_variance
        guess = math.sqrt(most if isinstance(most, float) else np.max(most))
        return implausible_mean(counts, sums, past, agent, guess=guess, largest_gap=largest_gap)


class Evidence(Reports):
    """What rules arms out. The guarantee depends on `payoff` and `gap_bound` only; the rest is for planning."""

    boosted: ClassVar[bool] = False  # payoffs are capped at the line and boosted in advance
    needs_squares: ClassVar[bool] = False  # evidence needs sums of squares, so a state keeps them
    guarantee_note: ClassVar[str] = ""  # added to the guarantee if the evidence is only approximate
    least_draws: ClassVar[int] = 1  # least draws of every cell in a plan
    bet_draws: ClassVar[int] = 1  # draws that every betting cell should have: with fewer, bets are less sharp
    optimism: ClassVar[float] = 1.0  # factor on the policy's optimism, for unboosted bets, which gain in smaller steps
    caution: ClassVar[float] = 1.0
    knows_scale: ClassVar[bool] = False  # whether `variance` is known before the first draw

    @property
    def variance(self) -> FloatArray | float:
        """The square of the sub-Gaussian scale: one number, or broadcastable to `(arm, agent)`. Raise if unknown."""
        self.require_scale("this policy")
        raise AssertionError  # never reached

    @property
    def largest_scale(self) -> float:
        """The largest sub-Gaussian scale, a standard deviation."""
        return float(np.sqrt(np.max(self.variance)))

    def require_scale(self, who: str) -> None:
        """Raise if the scale is unknown; `who` needs it."""
        if not self.knows_scale:
            raise InvalidInput(
                "noise.kind",
                found=repr(self.kind),
                allowed=f"rewards whose largest scale is known: {who} has intervals of known width",
                hint='Use the policy "evidence"',
            )

    def kept_squares(self, past: Totals, fresh: Totals) -> FloatArray:
        """`(..., arm, agent)`: the sums of squares that a state keeps after a phase, for later plans and stakes.

        By default the sums over all draws; a model may rescale them if later rewards will vary differently.
        """
        return past.require_squares() + fresh.require_squares()

    @abstractmethod
    def cell_variances(self, past: Totals) -> FloatArray | float:
        """The variance of a reward, known or estimated from the past: `(..., arm, agent)` or one number."""

    @abstractmethod
    def payoff(self, bets: Bets) -> FloatArray:
        """The log payoff of every bet; from `bets.missing` on, the bet's slot reaches the line.

        It must be fair: under the null, the expected payoff, capped at what is missing, is at most 1.
        """

    def final_payoff(self, bets: Bets) -> FloatArray | None:  # noqa: ARG002
        """The log payoff of every bet in a last look, which wins all that is missing or loses.

        None if the model has no exact test for a fixed number of draws; the usual payoff is used then.
        """
        return None

    @abstractmethod
    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        """Signal and information after a phase, and the lower bound on every gap, `(..., arm, agent)`."""

    def stake(self, missing: FloatArray, margin: FloatArray) -> FloatArray:
        """The ratio of gap to standard deviation at which a phase wins the missing wealth; for planning only."""
        return stake_that_crosses(missing, margin, boosted=self.boosted)

    def enough_draws(self, draws: FloatArray, stake: FloatArray) -> FloatArray:  # noqa: ARG002
        """`(batch, arm, agent)`: whole draws with which bets win as much as planned for `draws`; for planning only.

        `stake (batch,)` is the largest planned stake. Bets in small cells are less sharp, so these need more draws.
        """
        return np.where(draws > 0, np.maximum(np.ceil(draws), self.least_draws), 0.0)

    def mixed_rounding(self, fresh: Totals, weights: FloatArray) -> FloatArray | None:
        """`(..., arm, agent)`: upper bound on the error of a mixed mean due to rounded sums; None if sums are exact.

        A private sum is rounded to its grid by up to half a step, and the site's addition may lose as much again.
        """
        if self.needs_squares:
            return fresh.mixed_rounding(weights)
        if self.rho is None or self.values:
            return None
        return np.asarray((self.grid / np.maximum(fresh.counts, 1)) @ weights)

    def rounded_down(self, phase: PhaseContrasts) -> PhaseContrasts:
        """Contrasts lowered by their rounding error, so that none exceeds its exact value."""
        lost = self.mixed_rounding(phase.fresh, phase.weights)
        return phase if lost is None else replace(phase, contrast=phase.contrast - phase.both(lost))


class Estimates(Evidence):
    """What people are told about means and differences, valid at all phases at once."""

    def summary(self, past: Totals, fresh: Totals, weights: FloatArray) -> ContrastSummary:
        """A phase's estimates of all mixed means `(..., arm, agent)`; weights depend on the past and counts alone."""
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

    @abstractmethod
    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        """Intervals for contrasts from all phases of the summary; `line` is log(1 / level)."""

    def difference_interval(self, summary: ContrastSummary, line: float) -> Interval:
        """Intervals for differences of two arms, which are assumed to stay the same from phase to phase."""
        return intervals.lasting_interval(self.interval, summary, line)

    def estimated_scale(self, past: Totals) -> FloatArray | None:  # noqa: ARG002
        """`(..., arm, agent)`: the scale estimated from the past, if it is not stated; else None."""
        return None


class Simulation(Estimates):
    """How simulations draw rewards, and what lower bounds assume."""

    divergence: ClassVar[Divergence | None] = None  # for exact bounds, if the mean determines the distribution

    @property
    def free_scale(self) -> bool:
        """Whether a truth may state the scale of rewards; otherwise their means determine it."""
        return not self.in_range

    @abstractmethod
    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        """Ways to simulate rewards with true `means (arm, agent)`, by name, the usual one first.

        `scale` is the true standard deviation if it differs from the stated one, as in a truth or a variant of a plan.
        A model with a free scale uses it; one whose variance follows from the means may refuse it (`no_scale`).
        """

    @abstractmethod
    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        """The sampler for a forecast, in which means and scale `(..., arm, agent)` are guesses."""

    @abstractmethod
    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        """The usual sampler's distribution, exponentially tilted, to estimate errors too rare to count."""

    @abstractmethod
    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:
        """The variances that lower bounds use, for these true means and a true scale if given."""

    @property
    @abstractmethod
    def bound_note(self) -> str:
        """A note on the rewards that the lower bounds assume, if they differ from the study's; else empty."""

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        """`(arm, agent)`: variances of rewards with these true means, as the usual sampler draws them."""
        return np.broadcast_to(self.bound_variances(means, scale), means.shape)


@dataclass(frozen=True, kw_only=True)
class RewardModel(Simulation):
    """A reward model with all seven parts. `parley.testing.conformance` tests them together.

    >>> from parley.rewards import Binary
    >>> isinstance(Binary(), RewardModel), Binary().kind, Binary().ends
    (True, 'binary', (0.0, 1.0))
    """


@dataclass(frozen=True, kw_only=True)
class KnownVariance(RewardModel):
    """Base of models of sub-Gaussian rewards whose variance is known before the first draw.

    A subclass needs only `variance`, its keys and its samplers: contrasts have known variances, bets and intervals have
    closed forms, and lower bounds are those of Gaussian rewards. If rewards have a range, simulated rewards lie at its
    ends, where the variance is largest.
    """

    knows_scale: ClassVar[bool] = True

    @property
    @abstractmethod
    def variance(self) -> FloatArray | float:
        """The square of the sub-Gaussian scale: one number, or an array that broadcasts to `(arm, agent)`."""

    @property
    def first_variance(self) -> FloatArray | float:
        return self.variance

    def cell_variances(self, past: Totals) -> FloatArray | float:  # noqa: ARG002
        return self.variance

    def payoff(self, bets: Bets) -> FloatArray:
        lost = self.mixed_rounding(bets.fresh, bets.weights)
        if lost is not None:
            bets = replace(bets, contrast=bets.contrast - sum(at_bets(bets, lost, lost)))
        return contrast_payoff(bets, boosted=self.boosted)

    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        phase = self.rounded_down(phase)
        widest = phase.variance.max(axis=-3)
        signal = signal + np.where(phase.observed, phase.contrast.min(axis=-3) / widest, 0.0)
        information = information + np.where(phase.observed, 1 / widest, 0.0)
        return signal, information, gap_lower_bound(signal, information, line=phase.line, scale=phase.scale)

    def interval(self, summary: ContrastSummary, line: float) -> Interval:
        return intervals.gaussian_interval(summary, line)

    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray | None:  # noqa: ARG002
        return None if self.in_range else np.broadcast_to(self.variance, past.counts.shape)

    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:  # noqa: ARG002
        return self.variance

    @property
    def bound_note(self) -> str:
        return f"for Gaussian rewards of scale {self.largest_scale:g}; others can be easier"

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        """The variances of rewards at the ends of the range; without a range, those of the bounds."""
        if self.low is None or self.high is None:
            return super().true_variances(means, scale)
        return np.asarray((means - self.low) * (self.high - means))

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        return sampling.gaussian(means, scale)

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        """The tilted law of Gaussian samplers, or of two-valued ones in a range; models with others override it."""
        if self.low is None or self.high is None:
            return sampling.tilted_gaussian(means, self.true_variances(means, scale))
        return sampling.tilted_two_valued(means, self.low, self.high)


def gap_lower_bound(signal: FloatArray, information: FloatArray, *, line: float, scale: float) -> FloatArray:
    """An anytime-valid lower bound on a gap from `signal` = sum Y / V and `information` = sum 1 / V over phases.

    exp(lam (signal - s information) - lam^2 information / 2) is a supermartingale if the gap is s; so is its mixture
    over |N(0, scale^2)|. Inverting Ville's inequality for it at level exp(-line) gives the bound in closed form. It is
    -inf without information.

    >>> gap_lower_bound(np.array([500.0, 0.0]), np.array([1000.0, 0.0]), line=3.0, scale=0.2).round(3).tolist()
    [0.4, -inf]
    """
    weight = scale**2 * information
    height = np.sqrt(2 * line + np.log1p(weight))
    lower = signal - height * np.sqrt(1 + weight) / scale
    return np.asarray(np.divide(lower, information, out=np.full(lower.shape, -np.inf), where=information > 0))
