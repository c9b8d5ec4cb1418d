"""Tests of what callers require of every reward model: its document, samples, checks of reports, and fair payoffs.

The problem has two agents and three arms, of which the first two tie for both agents. A model is tested at means that
it allows: between its ends if it has two, up to about its usual mean if it has one, and between 0 and 1 otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from parley.errors import InvalidInput
from parley.problem import Instance, Problem
from parley.rewards import Bets, RewardModel, make_model, section_keys
from parley.rewards.bets import NOTHING, contrast_variance
from parley.testing.conformance.instances import named
from parley.totals import Totals
from parley.validation.checks import FloatArray, IntArray

WEIGHTS = np.array([[0.7, 0.2], [0.3, 0.8]])
SHARES = np.array([[0.5, 0.3], [0.5, 0.3], [0.2, 0.6]])  # of the range, or of twice the usual mean
RUNS = 4000
SCALE = 0.7  # a true scale other than the stated scale
ABSURD = 1e12  # factor on the expected mean: a report with such a mean must not be accepted


def means_for(model: RewardModel) -> FloatArray:
    """`(arm, agent)`: true means that the model allows."""
    if model.low is not None and model.high is not None:
        return model.low + (model.high - model.low) * SHARES
    return model.usual_mean * 2 * SHARES if model.low is not None or model.high is not None else SHARES


def sampled(model: RewardModel, counts: IntArray, seed: int = 0) -> Totals:
    """The totals of `counts` draws by the model's usual sampler."""
    draw = next(iter(model.samplers(means_for(model)).values()))()
    return draw(np.random.default_rng(seed), counts)


def step_of(model: RewardModel) -> float:
    """A difference of means that is large but possible: 0.3 times the range, or 0.3 standard deviations."""
    low, high = model.ends
    return (
        (high - low) * 0.3 if model.in_range else 0.3 * math.sqrt(float(model.true_variances(means_for(model)).max()))
    )


def tied_bets(model: RewardModel, shift: float) -> Bets:
    """The bets of both agents on "the first arm beats the second", in RUNS runs in which the two arms tie.

    `shift` is the tolerance by which the bet raises the contrast.
    """
    problem = Problem(arms=named(3), weights=WEIGHTS, noise=model)
    past, fresh = (sampled(model, np.full((RUNS, 3, 2), size), seed) for size, seed in ((60, 2), (80, 3)))
    run, agent = (part.ravel() for part in np.meshgrid(np.arange(RUNS), [0, 1], indexing="ij"))
    first, step = np.zeros(2 * RUNS, dtype=np.int64), step_of(model)
    mixed = problem.mixed(fresh.means)
    bets = Bets(
        estimate=np.full(2 * RUNS, step / 2 + shift),
        error=np.full(2 * RUNS, step / 6),
        missing=np.full(2 * RUNS, math.log(20)),
        contrast=mixed[run, 0, agent] - mixed[run, 1, agent] + shift,
        shift=shift,
        variance=np.ones(2 * RUNS),
        replication=(run,),
        opponent=first,
        arm=first + 1,
        agent=agent,
        weights=WEIGHTS,
        past=past,
        fresh=fresh,
    )
    return replace(bets, variance=contrast_variance(bets, model.cell_variances(past)))


class RewardModelSuite:
    """The tests of reward models; `models` are the models to test, each under a name for pytest.

    >>> from parley.rewards import Gaussian
    >>> suite = RewardModelSuite()
    >>> suite.test_its_document_gives_it_back_and_its_keys_are_documented(Gaussian())
    """

    models: ClassVar[Mapping[str, RewardModel]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run every test for every model, but the tests of fairness only for models with exact evidence."""
        if "model" in metafunc.fixturenames:
            metafunc.parametrize("model", self.models.values(), ids=self.models)
        if "exact_model" in metafunc.fixturenames:
            exact = {name: model for name, model in self.models.items() if not model.guarantee_note}
            metafunc.parametrize("exact_model", exact.values(), ids=exact)

    def test_its_document_gives_it_back_and_its_keys_are_documented(self, model: RewardModel) -> None:
        document = model.document()
        assert make_model(**document) == model
        assert set(document) <= set(section_keys(document))

    def test_its_ends_are_a_range_or_none(self, model: RewardModel) -> None:
        low, high = model.ends
        assert low < high
        for end in (low, high):
            if math.isfinite(end):
                outside = means_for(model)
                outside[0, 0] = end + (1.0 if end == high else -1.0)
                with pytest.raises(InvalidInput, match="means"):
                    model.check_means(outside)
        model.check_means(np.full((3, 2), model.usual_mean))
        assert not model.private_form or model.in_range, "the noise of private reports needs a range"

    def test_what_it_samples_is_what_a_report_may_hold(self, model: RewardModel) -> None:
        totals = sampled(model, np.full((20, 3, 2), 25))
        squares = totals.require_squares()
        for count, total, square in zip(totals.counts.flat, totals.sums.flat, squares.flat, strict=True):
            assert model.flaw(int(count), float(total), float(square)) is None
        assert all(low < high for low, high in zip(model.values, model.values[1:], strict=False))
        model.check_means(means_for(model))

    def test_it_asks_for_plausible_means_exactly_where_nothing_bounds_them(self, model: RewardModel) -> None:
        first = sampled(model, np.full((3, 2), 40))
        past = model.past(first, first, 1)
        assert (past is None) == model.in_range, (
            "variance_ceiling() is None exactly where rewards have two ends: one end alone bounds no mean"
        )
        if past is not None:
            again = sampled(model, np.full((3, 2), 40), seed=1)
            column = again.counts[:, 0].tolist(), again.sums[:, 0].tolist()
            assert model.implausible_mean(*column, past, 0, 1.0) is None

    def test_an_absurd_report_is_refused_or_held(self, model: RewardModel) -> None:
        """Under every model, a report whose mean is a trillion times the expected mean must not lead to a decision."""
        first = sampled(model, np.full((3, 2), 40))
        mean = ABSURD * max(abs(model.usual_mean), math.sqrt(float(np.max(model.first_variance))), 1.0)
        counts, sums = [40] * 3, [40 * float(round(mean)), *first.sums[1:, 0].tolist()]
        if model.flaw(40, sums[0], sums[0] ** 2 / 40) is None:
            past = model.past(first, first, 1)
            assert past is not None, "neither refused nor held: rewards without a range need a variance_ceiling()"
            assert model.implausible_mean(counts, sums, past, 0, 1.0) is not None

    def test_its_true_variances_are_those_of_its_samples(self, model: RewardModel) -> None:
        means = means_for(model)
        sums = sampled(model, np.full((RUNS, 3, 2), 10)).sums
        assert sums.var(axis=0) / 10 == pytest.approx(model.true_variances(means), rel=0.12)
        if model.free_scale:  # `parley plan --report` tries other true scales
            draw = next(iter(model.samplers(means, SCALE).values()))()
            found = draw(np.random.default_rng(0), np.full((RUNS, 3, 2), 10)).sums.var(axis=0) / 10
            assert found == pytest.approx(np.full((3, 2), SCALE**2), rel=0.12), "samplers() draws with the true scale"
            assert model.true_variances(means, SCALE) == pytest.approx(np.full((3, 2), SCALE**2)), "bound_variances()"

    @pytest.mark.parametrize(("draws", "scales"), [(12, 0.2), (1, 1.5)])  # one draw shows the law, many its sums
    def test_a_tilt_is_an_exponential_change_of_measure(self, model: RewardModel, draws: int, scales: float) -> None:
        """For a sum S, E exp(tilt S) is exp(cumulant), and the slope of the cumulant is the mean of tilted sums."""
        means = means_for(model)
        law, counts = model.tilted_law(means), np.full((RUNS, 3, 2), draws)
        tilt = np.zeros((RUNS, 3, 2))
        tilt[:, 0, 1] = scales / math.sqrt(model.true_variances(means)[0, 1])
        plain = sampled(model, counts).sums[:, 0, 1]
        weights = np.exp(tilt[0, 0, 1] * plain)
        error = weights.std() / math.sqrt(RUNS)
        assert abs(weights.mean() - math.exp(law.cumulant(counts, tilt)[0])) < 5 * error, "not the law of samplers()"
        slope = (law.cumulant(counts, tilt + (tilt > 0) * 1e-6) - law.cumulant(counts, tilt)) / 1e-6
        found = law.draw(np.random.default_rng(1), counts, tilt).sums[:, 0, 1]
        assert abs(found.mean() - slope[0]) < 5 * found.std() / math.sqrt(RUNS) + 1e-3

    def test_its_payoffs_are_fair_at_a_tie_once_capped(self, exact_model: RewardModel) -> None:
        bets = tied_bets(exact_model, 0.0)
        for paid in (exact_model.payoff(bets), exact_model.final_payoff(bets)):
            if paid is not None:
                assert np.isfinite(paid).all()
                won = np.exp(np.minimum(paid, bets.missing))
                assert won.mean() <= 1 + 4 * won.std() / math.sqrt(RUNS)
                assert won.std() > 0, "a bet that never pays proves nothing"

    def test_a_shift_makes_a_tie_worth_betting_on(self, model: RewardModel) -> None:
        """With a tolerance, a tie no longer satisfies the null hypothesis, so that the shifted bet wins."""
        plain, shifted = tied_bets(model, 0.0), tied_bets(model, step_of(model))
        assert model.payoff(shifted).mean() > model.payoff(plain).mean() + 0.1
        last, first = model.final_payoff(shifted), model.final_payoff(plain)
        assert last is None or first is None or (last > NOTHING).mean() > (first > NOTHING).mean()

    def test_an_interval_holds_the_truth_and_a_state_keeps_what_evidence_needs(self, model: RewardModel) -> None:
        truth = Instance(
            problem=Problem(arms=named(3), weights=WEIGHTS, noise=model), means=means_for(model)
        ).mixed_means
        fresh = sampled(model, np.full((400, 3, 2), 60))
        kept = fresh if model.needs_squares else Totals(counts=fresh.counts, sums=fresh.sums)
        shown: Any = model.summary(Totals.zero(fresh.counts.shape), kept, WEIGHTS)
        stacked = type(shown)(**{name: part[None] for name, part in vars(shown).items()})
        low, high = model.interval(stacked, math.log(20))
        assert ((low <= truth) & (truth <= high)).mean() >= 0.95
        assert np.isfinite(high - low).all()
