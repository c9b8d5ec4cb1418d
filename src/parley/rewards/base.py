"""The contract of reward models: everything that depends on how rewards are distributed.

A model defines its keys in a study file, the possible rewards, how uncertain a mean is, what a bet pays, intervals,
what a report may contain, and how to simulate rewards. Policies, bounds, the protocol and the simulator call the model
and never branch on its kind.

The contract has seven parts, one class each: the keys of the study file (`StudyKeys`), the possible rewards
(`PossibleRewards`), expectations before a study (`Expectations`), the checks of reports (`Reports`), the evidence that
rules arms out (`Evidence`), the estimates that people read (`Estimates`) and simulated rewards (`Simulation`). A model
must implement the abstract methods; every other method has a default that is valid for all models. If rewards are
sub-Gaussian with a variance known beforehand, `KnownVariance` implements most of the contract.
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
GRID_BITS = 20  # private sums are rounded to multiples of about range / 2**20, a millionth of the range


@dataclass(frozen=True, kw_only=True)
class StudyKeys(ABC):
    """The keys of a study file's [noise] section; the model has one field per key."""

    kind: ClassVar[str]
    description: ClassVar[str]  # describes the kind in the docs of the study file
    keys: ClassVar[Mapping[str, Key]]  # all keys of [noise] for this kind, except `kind` itself
    label: ClassVar[str] = ""  # the kind in the form of a new study; empty: its name
    observed: ClassVar[str] = ""  # what is observed about a person, for study protocols; empty: use `description`
    study_defaults: ClassVar[Mapping[str, Any]] = {}  # values that assume least, for keys a study file may omit
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # key that selects a model within its kind -> allowed values
    chosen: ClassVar[Mapping[str, str]] = {}  # the values that select this model; empty for the kind's default model

    # These are not keys of [noise]: a `Problem` sets them from its [privacy] and [covariate].
    rho: float | None = field(default=None, repr=False)
    outcome: RewardModel | None = field(default=None, repr=False)  # model of the rewards before sites adjust them

    @classmethod
    def describes(cls, keys: Mapping[str, Any]) -> bool:
        """Whether the keys of a [noise] section describe this model rather than another of the same kind."""
        return all(keys.get(key) == word for key, word in cls.chosen.items())

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:
        """Build the model from the keys of a study's [noise], without `kind`; raise if a key or choice is unknown."""
        known = (*cls._stated(), *cls.choices)
        for key, value in keys.items():
            if key not in known:
                raise UnknownName(f"key in [noise] with kind {cls.kind!r}", key, ("kind", *known))
            if value not in cls.choices.get(key, (value,)):
                raise UnknownName(f"noise.{key}", value, cls.choices[key])
        return cls(**{key: value for key, value in keys.items() if key not in cls.choices})

    def document(self) -> dict[str, Any]:
        """The model's keys of [noise] as a dictionary to store; `make_model(**document)` restores the model."""
        # An adjusted model is stored as the model of its outcomes; the problem adjusts it again.
        if self.outcome is not None:
            return self.outcome.document()
        stated = {name: getattr(self, name) for name in self._stated()}
        keys = {name: in_lists(value) for name, value in stated.items() if value is not None}
        return {"kind": self.kind} | keys | dict(self.chosen)

    @classmethod
    def _stated(cls) -> list[str]:
        """The names of the fields that are keys of [noise]."""
        return [field.name for field in fields(cls) if field.name not in NOT_KEYS]

    def check_shape(self, shape: tuple[int, int]) -> None:  # noqa: B027
        """Raise unless the model fits a problem of `shape`, which is (number of arms, number of agents)."""


class PossibleRewards(StudyKeys):
    """The values that rewards can take and, for rewards in a range, the noise of private reports."""

    low: ClassVar[float | None] = None  # smallest possible reward; None if rewards have no lower bound
    high: ClassVar[float | None] = None  # largest possible reward; None if rewards have no upper bound
    values: ClassVar[tuple[float, ...]] = ()  # all possible rewards if they are few; empty otherwise
    whole: ClassVar[bool] = False  # rewards are whole numbers
    means_are_rates: ClassVar[bool] = False  # a mean is a proportion, displayed in per cent
    # The keys of [noise] that select a model with private reports and exact evidence, as error messages word them;
    # empty if the model does not allow private reports.
    private_form: ClassVar[str] = ""
    # Which model in `parley.rewards.adjusted` describes these rewards after sites adjust them for a covariate; empty if
    # no model does.
    adjusted_form: ClassVar[str] = ""

    @property
    def in_range(self) -> bool:
        """Whether rewards are bounded on both sides; a bound on one side limits neither the mean nor the variance."""
        return self.low is not None and self.high is not None

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and largest possible reward; infinite without a bound."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    def check_means(self, means: FloatArray) -> None:
        """Raise unless all `means` lie between the smallest and the largest possible reward."""
        low, high = self.ends
        outside = (means < low) | (means > high)
        if outside.any():
            allowed = f"means between noise.low = {low:g} and noise.high = {high:g}"
            if not self.in_range:
                allowed = f"means of at least {low:g}" if self.high is None else f"means of at most {high:g}"
            raise InvalidInput("means", found=f"{means[outside][0]:.9g}", allowed=allowed)

    def private(self, rho: float | None) -> Self:
        """The model for private reports with privacy loss `rho`, or for exact reports if `rho` is None.

        Raise if the model does not allow private reports.
        """
        if rho is not None and not self.private_form:
            found = f"{rho:g} with {', '.join(f'{key} = {value!r}' for key, value in self.document().items())}"
            forms = [model.private_form for model in _every_model(PossibleRewards) if model.private_form]
            hint = "An unknown scale and a learned variance need sums of squares, which a private report does not hold"
            raise InvalidInput("privacy.rho", found=found, allowed=" or ".join(dict.fromkeys(forms)), hint=hint)
        return self if rho == self.rho else replace(self, rho=rho)

    @property
    def grid(self) -> float:
        """The step of private sums and their noise: 1 for 0/1 rewards, else about a millionth of the range."""
        if self.low is None or self.high is None:
            raise InvalidInput("noise", found=f"kind {self.kind!r} without a range", allowed="rewards in a range")
        if self.values:
            return float(np.diff(self.values).min())
        return math.ldexp(1.0, math.frexp(self.high - self.low)[1] - 1 - GRID_BITS)

    @property
    def sensitivity(self) -> int:
        """The largest change that one person's outcome can make to a sum, in steps of the grid."""
        assert self.low is not None
        assert self.high is not None
        return math.ceil((Fraction(self.high) - Fraction(self.low)) / Fraction(self.grid))  # exact: never too small

    @property
    def noise_variance(self) -> float:
        """Variance of the privacy noise in every sum: sensitivity^2 / (2 rho); 0 unless reports are private."""
        return 0.0 if self.rho is None else (self.sensitivity * self.grid) ** 2 / (2 * self.rho)


def _every_model(model: type[PossibleRewards]) -> Iterator[type[PossibleRewards]]:
    """Yield the model class and all its subclasses, including those of other packages that have been imported."""
    yield model
    for special in model.__subclasses__():
        yield from _every_model(special)


class Expectations(PossibleRewards):
    """Expectations before a study. They size first phases and set a plan's truths; no guarantee depends on them."""

    @property
    @abstractmethod
    def first_variance(self) -> FloatArray | float:
        """The variance that sizes the first phase: one number, or `(arm, agent)`."""

    def first_sizes(self, largest_gap: float, gap: float) -> tuple[FloatArray | float, float]:  # noqa: ARG002
        """The variances and the gap that size the first phase, if no gap exceeds `largest_gap`.

        The phase is sized so that standard errors are a fixed share of the returned gap, which is `gap` itself unless
        the model knows a better value.
        """
        return self.first_variance, gap

    @property
    def usual_gap(self) -> float:
        """The largest gap to assume if the study states none."""
        return 1.0 if self.low is None or self.high is None else self.high - self.low

    def usual_gaps(self, largest_gap: float) -> list[float]:
        """The gaps that a plan tries if the user states none: a half, a quarter and an eighth of `largest_gap`."""
        return [largest_gap / 2, largest_gap / 4, largest_gap / 8]

    def usual_spread(self, largest_gap: float) -> float:
        """The distance between the largest and the smallest mean in the truths that a plan tries."""
        return largest_gap

    @property
    def usual_mean(self) -> float:
        """The mean that scenarios and guardrails assume if neither a truth nor data are known."""
        return 0.0 if self.low is None or self.high is None else (self.low + self.high) / 2

    def expecting(self, mean: float) -> Self:  # noqa: ARG002
        """The model with `mean` as its expected mean, if it uses such a mean and the study states none; else unchanged.

        The expected mean affects stakes and sizes; no guarantee depends on it.
        """
        return self

    def scenario(self, gap: float) -> tuple[str, float]:
        """A name for a truth in which the best arm leads by `gap`, and the mean of all other arms in that truth."""
        return Translatable("gap {0:g}", gap), self.usual_mean - gap / 2

    def other_guesses(self) -> list[tuple[str, str, Self]]:
        """Alternatives to a stated guess, for a plan to try, each as (name, change, model with the other guess)."""
        return []


class Reports(Expectations):
    """Checks of reports: which reports are accepted, and which assumptions the data can contradict."""

    shared_axes: ClassVar[tuple[int, ...]] = ()  # axes of (arm, agent) that share an unknown scale
    assumes_gaussian: ClassVar[bool] = False  # skewed rewards break the guarantee
    variance_is_mean: ClassVar[bool] = False  # a variance larger than the mean breaks the guarantee

    @property
    def stated_variance(self) -> FloatArray | float | None:
        """The variance that the study states and that data can contradict; None if it states no scale."""
        return None

    @property
    def watched(self) -> bool:
        """Whether the model makes an assumption that data can contradict; if they do, people are warned."""
        return self.stated_variance is not None or self.assumes_gaussian or self.variance_is_mean

    def flaw(self, count: int, total: float, square: float) -> Flaw | None:
        """Check one cell of a report.

        Returns what is impossible ("sums" or "squares") and what is allowed, or None if the cell is possible.
        """
        return plausibility.flaw(count, total, square, self.low, self.high)

    @abstractmethod
    def variance_ceiling(self, past: Totals, phases: int) -> FloatArray | None:
        """`(arm, agent)`: upper bounds on variances; inf if unknown.

        The probability that any of them fails is at most a share of `plausibility.LEVEL`.

        Return None only for rewards in a range, where `flaw` bounds means on both sides: None switches off the checks
        of means.
        """

    def past(self, totals: Totals, latest: Totals, phases: int) -> Past | None:
        """Statistics of the decided phases, for checks of reported means; None if means need no check.

        `totals` covers all decided phases, `latest` only the last decided phase.
        """
        ceiling = self.variance_ceiling(totals, phases)
        return None if ceiling is None else Past(latest=latest, ceiling=ceiling, phases=phases)

    def implausible_mean(
        self, counts: Sequence[int], sums: Sequence[float], past: Past, agent: int, largest_gap: float
    ) -> ImplausibleMean | None:
        """An arm of an agent's report whose mean is implausible under the model; None if all means are plausible."""
        most = self.first_variance
        guess = math.sqrt(most if isinstance(most, float) else np.max(most))
        return implausible_mean(counts, sums, past, agent, guess=guess, largest_gap=largest_gap)


class Evidence(Reports):
    """Evidence that rules arms out.

    The guarantee depends on `payoff`, `final_payoff` and `gap_bound` only; the other members are for planning.
    """

    boosted: ClassVar[bool] = False  # whether payoffs are enlarged, to make up for the cap at the line
    needs_squares: ClassVar[bool] = False  # whether evidence needs sums of squares, which a state then keeps
    guarantee_note: ClassVar[str] = ""  # added to the guarantee if the evidence is only approximate
    least_draws: ClassVar[int] = 1  # minimum number of draws in every cell that is drawn at all
    bet_draws: ClassVar[int] = 1  # draws that every betting cell should have: with fewer, bets are less sharp
    optimism: ClassVar[float] = 1.0  # factor on the policy's optimism: above 1 if wealth grows in smaller steps
    caution: ClassVar[float] = 1.0  # factor on the policy's caution
    knows_scale: ClassVar[bool] = False  # whether `variance` is known before the first draw

    @property
    def variance(self) -> FloatArray | float:
        """The square of the sub-Gaussian scale: a number, or an array that broadcasts to `(arm, agent)`.

        Raise if the scale is unknown.
        """
        self.require_scale("this policy")
        raise AssertionError  # never reached

    @property
    def largest_scale(self) -> float:
        """The largest sub-Gaussian scale, a standard deviation."""
        return float(np.sqrt(np.max(self.variance)))

    def require_scale(self, who: str) -> None:
        """Raise if the scale is unknown; `who` is the policy or method that needs it, for the message."""
        if not self.knows_scale:
            raise InvalidInput(
                "noise.kind",
                found=repr(self.kind),
                allowed=f"rewards whose largest scale is known: {who} has intervals of known width",
                hint='Use the policy "evidence"',
            )

    def kept_squares(self, past: Totals, fresh: Totals) -> FloatArray:
        """`(..., arm, agent)`: the sums of squares that a state keeps after a phase, for later plans and stakes.

        By default these are the sums over all draws. A model may rescale them if later rewards will vary differently.
        """
        return past.require_squares() + fresh.require_squares()

    @abstractmethod
    def cell_variances(self, past: Totals) -> FloatArray | float:
        """The variance of a single reward, known or estimated from the past: `(..., arm, agent)` or one number."""

    @abstractmethod
    def payoff(self, bets: Bets) -> FloatArray:
        """`(bet,)`: the log payoff of every bet; a slot reaches the line if its bet's log payoff is `bets.missing`.

        A payoff must be fair: under the null, its expectation is at most 1 after capping at the missing wealth.
        """

    def final_payoff(self, bets: Bets) -> FloatArray | None:  # noqa: ARG002
        """`(bet,)`: the log payoff of every bet in a last look: all the missing wealth, or a loss.

        Return None if the model has no exact test for a fixed number of draws; the caller then uses `payoff`.
        """
        return None

    @abstractmethod
    def gap_bound(self, phase: PhaseContrasts, signal: FloatArray, information: FloatArray) -> Bound:
        """Add a phase to the evidence about gaps. Returns the new signal, the new information and a lower bound.

        All three are `(..., arm, agent)`; the bound is -inf as long as nothing is known about the gap.
        """

    def stake(self, missing: FloatArray, margin: FloatArray) -> FloatArray:
        """The ratio of gap to standard deviation at which a phase wins the `missing` wealth; for planning only.

        The phase also wins if its score falls short of that ratio by up to `margin` standard deviations.
        """
        return stake_that_crosses(missing, margin, boosted=self.boosted)

    def enough_draws(self, draws: FloatArray, stake: FloatArray) -> FloatArray:  # noqa: ARG002
        """`(batch, arm, agent)`: integer draws with which bets win as much as planned for `draws`; for planning only.

        `stake (batch,)` is the largest planned stake. Bets in small cells are less sharp, so such cells get more draws.
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
        """The phase with its contrasts lowered by their rounding error, so that none exceeds its exact value."""
        lost = self.mixed_rounding(phase.fresh, phase.weights)
        return phase if lost is None else replace(phase, contrast=phase.contrast - phase.both(lost))


class Estimates(Evidence):
    """Estimates and intervals of means and differences, valid at all phases at once."""

    def summary(self, past: Totals, fresh: Totals, weights: FloatArray) -> ContrastSummary:
        """Estimates of all mixed means `(..., arm, agent)` from one phase.

        A phase is later weighted by the estimated variances, which therefore use only the past and the fresh counts.
        """
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
        """Intervals for contrasts from all phases of a stacked summary; `line` is log(1 / level)."""

    def difference_interval(self, summary: ContrastSummary, line: float) -> Interval:
        """Intervals for differences between two arms, assuming that a difference is the same in every phase."""
        return intervals.lasting_interval(self.interval, summary, line)

    def estimated_scale(self, past: Totals) -> FloatArray | None:  # noqa: ARG002
        """`(..., arm, agent)`: the scale estimated from the past; None if the study states the scale."""
        return None


class Simulation(Estimates):
    """Simulated rewards, and the rewards that lower bounds assume."""

    divergence: ClassVar[Divergence | None] = None  # for exact bounds, if the mean determines the distribution

    @property
    def free_scale(self) -> bool:
        """Whether a truth may state the scale of rewards; if not, the means determine the scale."""
        return not self.in_range

    @abstractmethod
    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        """Ways to simulate rewards with true `means (arm, agent)`, by name, starting with the usual one.

        `scale` is the true standard deviation if it differs from the stated one, as in a truth or a variant of a plan.
        A model with a free scale uses it; a model whose variance follows from the means may refuse it (`no_scale`).
        """

    @abstractmethod
    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        """The sampler for a forecast, in which means and scale `(..., arm, agent)` are guesses."""

    @abstractmethod
    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        """The exponentially tilted distribution of the usual sampler, to estimate the rate of very rare errors."""

    @abstractmethod
    def bound_variances(self, means: FloatArray, scale: Scale | None) -> FloatArray | float:
        """The variances of rewards that lower bounds assume, given true means and possibly a true scale."""

    @property
    @abstractmethod
    def bound_note(self) -> str:
        """A note on the rewards that lower bounds assume; empty if those are exactly the study's rewards."""

    def true_variances(self, means: FloatArray, scale: Scale | None = None) -> FloatArray:
        """`(arm, agent)`: variances of rewards with these true means, as the usual sampler draws them."""
        return np.broadcast_to(self.bound_variances(means, scale), means.shape)


@dataclass(frozen=True, kw_only=True)
class RewardModel(Simulation):
    """Base class of reward models, with all seven parts; `parley.testing.conformance` tests them together.

    >>> from parley.rewards import Binary
    >>> isinstance(Binary(), RewardModel), Binary().kind, Binary().ends
    (True, 'binary', (0.0, 1.0))
    """


@dataclass(frozen=True, kw_only=True)
class KnownVariance(RewardModel):
    """Base class of models of sub-Gaussian rewards whose variance is known before the first draw.

    A subclass needs only `variance`, its keys and its samplers: contrasts have known variances, bets and intervals have
    closed forms, and lower bounds are as for Gaussian rewards. If rewards have a range, simulated rewards lie at its
    ends, which gives the largest variance.
    """

    knows_scale: ClassVar[bool] = True

    @property
    @abstractmethod
    def variance(self) -> FloatArray | float:
        """The square of the sub-Gaussian scale: a number, or an array that broadcasts to `(arm, agent)`."""

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
        # The gap is at least s if every opponent is better by s, so the least favourable opponent counts.
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
        """`(arm, agent)`: variances of rewards at the two ends of the range; without a range, `bound_variances`."""
        if self.low is None or self.high is None:
            return super().true_variances(means, scale)
        return np.asarray((means - self.low) * (self.high - means))

    def forecast_sampler(self, means: FloatArray, scale: FloatArray | float) -> Sampler:
        return sampling.gaussian(means, scale)

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        """The tilted law of two-valued rewards if rewards have a range, else of Gaussian rewards.

        Models with other samplers override this method.
        """
        if self.low is None or self.high is None:
            return sampling.tilted_gaussian(means, self.true_variances(means, scale))
        return sampling.tilted_two_valued(means, self.low, self.high)


def gap_lower_bound(signal: FloatArray, information: FloatArray, *, line: float, scale: float) -> FloatArray:
    """An anytime-valid lower bound on a gap from `signal` = sum Y / V and `information` = sum 1 / V over phases.

    Y is the contrast of a phase, and V is its variance. If the gap is s, then exp(lam (signal - s information) - lam^2
    information / 2) is a supermartingale, and so is its mixture over lam ~ |N(0, scale^2)|. Ville's inequality for that
    mixture at level exp(-line), solved for s, gives the bound in closed form. The bound is -inf without information.

    >>> gap_lower_bound(np.array([500.0, 0.0]), np.array([1000.0, 0.0]), line=3.0, scale=0.2).round(3).tolist()
    [0.4, -inf]
    """
    weight = scale**2 * information
    height = np.sqrt(2 * line + np.log1p(weight))
    lower = signal - height * np.sqrt(1 + weight) / scale
    return np.asarray(np.divide(lower, information, out=np.full(lower.shape, -np.inf), where=information > 0))
