"""What only evidence racing promises: its figures, options, slots and bets; the rest is in the conformance suite."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.policies.racing import after_first_phase, racing, tie
from tests.support import first_quick, paper_study, random_instance

from parley.errors import InvalidInput
from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.simulation import simulate
from parley.totals import Totals

COUNT, SEED = 600, 4
FIGURES = [  # alpha, delta, noise, samples at most, by the issue that asked for this policy
    (0.5, 0.1, "gaussian", 6_500),
    (0.5, 1e-5, "subgaussian", 22_000),
    (0.5, 0.01, "gaussian", 11_000),
    (0.5, 1e-5, "gaussian", 16_300),
    (0.4, 0.1, "gaussian", 14_092),
    (0.6, 0.1, "gaussian", 9_705),
    (0.7, 0.1, "gaussian", 9_640),
    (0.5, 0.1, "subgaussian", 10_000),
]


@pytest.mark.parametrize(("alpha", "delta", "noise", "most"), first_quick(*FIGURES, quick=2))
def test_the_papers_instance_costs_no_more_than_promised(alpha, delta, noise, most):
    study = paper_study(alpha, delta=delta, noise={"kind": noise, "scale": 1.0})  # as the paper has it
    outcome = simulate(racing(study.problem), study.instance, replications=COUNT, seed=SEED)
    assert outcome.costs.mean() <= most + 3 * outcome.costs.std() / math.sqrt(COUNT)
    assert outcome.rounds.mean() <= 5.3 + 3 * outcome.rounds.std() / math.sqrt(COUNT)
    assert outcome.finished.all()
    assert outcome.error_rate <= delta


@pytest.mark.simulations
def test_rounds_trade_for_samples():
    study = paper_study()
    outcomes = [
        simulate(racing(study.problem, rounds=rounds), study.instance, replications=300, seed=SEED)
        for rounds in range(3, 9)
    ]
    rounds = [outcome.rounds.mean() for outcome in outcomes]
    costs = [outcome.costs.mean() for outcome in outcomes]
    assert rounds == sorted(rounds)
    # Who states rounds gets no more of them; it may need fewer, for phases hurry where gaps look small.
    assert all(-1.6 <= found - wished <= 1.0 for found, wished in zip(rounds, range(3, 9), strict=True))
    assert costs[0] > 1.3 * costs[1] > 1.3 * 1.2 * costs[2]
    assert costs[2] > costs[5]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rounds": 2}, "policy.rounds: found 2; allowed: a whole number from 3 to 8"),
        ({"rounds": 9}, "policy.rounds: found 9"),
        ({"precision": 0.0}, "policy.precision: found 0.0; allowed: a finite number above 0"),
        ({"optimism": -1.0}, "policy.optimism: found -1.0"),
        ({"caution": math.nan}, "policy.caution: found nan"),
        ({"gap_scale": math.inf}, "policy.gap_scale: found inf"),
        ({"growth": 1.0}, "policy.growth: found smallest_growth 1.03, growth 1"),
        ({"smallest_growth": 1.0}, "1 < smallest_growth <= growth, finite"),
        ({"smallest_growth": 4.0}, "found smallest_growth 4, growth 3"),
        ({"growth": math.inf}, "growth inf"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(InvalidInput, match=says):
        racing(paper_study().problem, **options)


def test_own_options_come_before_those_that_rounds_stand_for():
    problem = paper_study().problem
    state = racing(problem).start()
    assert (
        racing(problem, rounds=3).plan(state).sum()
        > racing(problem).plan(state).sum()
        > racing(problem, rounds=8).plan(state).sum()
    )
    own = racing(problem, rounds=8, precision=0.11).plan(state)
    assert (own == racing(problem).plan(state)).all()


@pytest.mark.parametrize(
    ("answers", "wanted"), [("each", math.sqrt(math.log(30) / math.log(3 / 0.1))), ("together", math.sqrt(4 / 9))]
)
def test_the_first_phase_gives_every_mixed_mean_its_precision_and_draws_nothing_nobody_weighs(answers, wanted):
    weights = [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]]
    problem = Problem(arms=3, weights=weights, noise=Noise(scale=2.0), largest_gap=3.0, answers=answers)
    quotas = racing(problem).plan(racing(problem).start())
    assert (quotas[:, 2] == 0).all()
    used = quotas[:, :2].astype(float)
    variances = 4 * ((1 / used) @ problem.squared_weights[:2])
    assert variances.max() == pytest.approx((0.11 * 3) ** 2 * wanted, rel=0.02)


def test_an_arm_is_out_only_when_all_its_slots_are_on_the_line():
    policy = racing(tie(arms=4, top=2).problem)
    state = after_first_phase(policy, [0.9, 0.8, 0.7, 0.0])
    counts = np.full_like(state.counts, 400)
    # Arm 0 beats arm 3 by far in the fresh draws, arm 1 does not at all.
    only_one = policy.update(state, Totals(counts=counts, sums=400 * np.array([[0.9], [0.0], [0.0], [0.0]])))
    assert only_one.log_wealth[0, 3, 0] == policy.line
    assert only_one.log_wealth[1, 3, 0] < policy.line
    assert only_one.active[3, 0]
    both = policy.update(state, Totals(counts=counts, sums=400 * np.array([[0.9], [0.8], [0.0], [0.0]])))
    assert (both.log_wealth[:, 3, 0] == policy.line).all()
    assert not both.active[3, 0]
    assert both.dropped_in[3, 0] == 2


def test_a_slot_on_the_line_asks_for_no_more_draws():
    policy = racing(tie(arms=4, top=2).problem)
    state = after_first_phase(policy, [0.9, 0.8, 0.7, 0.0])
    opponents = policy.contrasts(state).opponents
    wealth = state.log_wealth.copy()
    wealth[0, 3, 0] = policy.line
    there = policy.contrasts(replace(state, log_wealth=wealth, opponents=opponents))
    assert there.live[:, 3, 0].tolist() == [False, True]


def test_the_first_phase_is_no_evidence():
    policy = racing(tie().problem)
    state = after_first_phase(policy, [1e6, 0.0, 0.0])
    assert (state.log_wealth == 0).all()
    assert state.active.all()
    assert (state.information == 0).all()


def test_bets_are_settled_by_fresh_draws_only():
    policy = racing(tie(arms=2).problem)
    one, other = after_first_phase(policy, [0.5, 0.0]), after_first_phase(policy, [0.5, 0.0])
    assert (policy.plan(one) == policy.plan(other)).all()
    # Half of what is needed in the past must not count again: fresh draws that say nothing move wealth down.
    silent = policy.update(one, Totals(counts=np.full((2, 1), 50), sums=np.zeros((2, 1))))
    assert silent.log_wealth[0, 1, 0] < 0


def test_an_arm_that_was_not_drawn_changes_no_wealth_however_small_the_noise():
    for scale in (1e-12, 1.0, 1e12):
        policy = racing(tie(arms=3, noise=Noise(scale=scale), largest_gap=scale).problem)
        state = after_first_phase(policy, [0.9 * scale, 0.5 * scale, 0.0])
        counts, sums = np.array([[50], [50], [0]]), scale * np.array([[45.0], [25.0], [0.0]])
        after = policy.update(state, Totals(counts=counts, sums=sums))
        assert after.log_wealth[0, 2, 0] == 0
        assert after.information[2, 0] == 0
        assert after.log_wealth[0, 1, 0] > 0


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_rewards_does_not_matter(scale):
    instance = random_instance(2, arms=4, agents=3, min_gap=0.1)
    problem = instance.problem.with_(noise=Noise(scale=scale), largest_gap=scale)
    scaled = Instance(problem=problem, means=scale * instance.means)
    before = simulate(racing(instance.problem), instance, replications=100, seed=1)
    after = simulate(racing(problem), scaled, replications=100, seed=1)
    assert (before.rounds == after.rounds).mean() >= 0.99  # a rounding may move a count by one
    assert after.costs.mean() == pytest.approx(before.costs.mean(), rel=0.01)


@pytest.mark.parametrize(
    ("noise", "top"),
    first_quick(
        *((Noise(), 2), (Noise(kind="subgaussian"), 3), (Noise.bounded(low=-1, high=3), 1)),
        *((Noise(), 1), (Noise(), 3), (Noise(kind="subgaussian"), 1), (Noise(kind="subgaussian"), 2)),
        *((Noise.bounded(low=-1, high=3), top) for top in (2, 3)),
        quick=3,
    ),
)
def test_general_weights_every_noise_and_every_top_end_with_the_right_answer(noise, top):
    drawn = (random_instance(seed, arms=5, agents=4, top=top, min_gap=0.1, delta=0.05) for seed in range(100))
    base = next(instance for instance in drawn if (instance.problem.weights == 0).any())
    instance = Instance(problem=base.problem.with_(noise=noise), means=base.means)
    outcome = simulate(racing(instance.problem), instance, replications=60, seed=SEED)
    assert outcome.finished.all()
    assert outcome.error_rate <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60)


def test_boosting_is_for_gaussian_noise_only():
    assert racing(tie().problem).problem.noise.boosted
    assert not racing(tie(noise=Noise(kind="subgaussian")).problem).problem.noise.boosted
    assert not racing(tie(noise=Noise.bounded(low=0, high=1)).problem).problem.noise.boosted


def test_the_line_pays_for_every_distinct_question_and_for_nothing_else():
    weights = [[0.5, 0.5, 0.2], [0.5, 0.5, 0.2], [0.0, 0.0, 0.6]]
    problem = Problem(arms=4, weights=weights, top=2, delta=0.01)
    assert racing(problem).line == pytest.approx(math.log(1 / 0.01))
    assert racing(problem.with_(answers="each")).line == pytest.approx(math.log(2 / 0.01))
    assert racing(problem.with_(tolerance=0.1)).line == pytest.approx(math.log(2 / 0.01))
