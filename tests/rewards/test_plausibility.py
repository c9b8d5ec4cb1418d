"""Means that the stated model rules out are noticed, and hardly ever others."""

import numpy as np
import pytest
from tests.rewards.models import IN_RANGE
from tests.support import first_quick

from parley.rewards import make_model
from parley.rewards.plausibility import LEVEL, largest_variance
from parley.totals import Totals

ARMS = ("placebo", "drug", "both")
MEANS = np.array([0.5, 0.2, 0.0])
MODELS = {
    "known": {"scale": 5.0},
    "by agent": {"scale": [5.0, 1.0]},
    "subgaussian": {"kind": "subgaussian", "scale": 5.0},
    "unknown": {"scale": "unknown", "guess": 5.0},
    "per agent": {"scale": "unknown per agent", "guess": 5.0},
    "shared": {"scale": "unknown, shared", "guess": 5.0},
}


def drawn(generator, count, means=MEANS, scale=5.0):
    return Totals.of([mean + scale * generator.standard_normal(count) for mean in means])


def sentence_about(model, report, past, phases):
    found = model.implausible_mean(report.counts.tolist(), report.sums.tolist(), model.past(past, past, phases), 0, 1.0)
    return None if found is None else found.sentence(ARMS)


@pytest.mark.parametrize("keys", MODELS.values(), ids=MODELS)
def test_seventeen_placebo_draws_with_a_sum_of_1_7e12_are_doubted_and_sound_ones_are_not(keys):
    model, generator = make_model(**keys), np.random.default_rng(1)
    nothing, first = Totals.zero((3, 2)), drawn(generator, 17)
    far = np.array([1.7e12, 0, 0])
    off = Totals(counts=first.counts, sums=first.sums + far, squares=first.squares + far * 1e11)
    assert "the mean 1e+11 of placebo" in sentence_about(model, off, nothing, 0)
    past = Totals.columns([drawn(generator, 400), drawn(generator, 400)], 3)
    moved = drawn(generator, 400, MEANS + np.array([0, 12.0, 0]))
    assert "of drug differs from the mean that it had before" in sentence_about(model, moved, past, 1)
    assert "of placebo differs from the mean that it had before" in sentence_about(model, off, past, 1), (
        "not from another arm's"
    )
    for phase in range(200):
        assert (
            sentence_about(model, drawn(generator, 17 + phase), nothing if phase % 2 else past, 1 - phase % 2) is None
        )


@pytest.mark.parametrize("keys", MODELS.values(), ids=MODELS)
def test_what_moves_all_arms_alike_holds_nothing_and_one_arm_alone_does(keys):
    """All arms of a site two scales higher than in the phase before: a season. One of them: a slip of the pen."""
    model, generator = make_model(**keys), np.random.default_rng(5)
    past = Totals.columns([drawn(generator, 400), drawn(generator, 400)], 3)
    for step in (-12.0, 12.0):
        assert sentence_about(model, drawn(generator, 400, MEANS + step), past, 1) is None
        alone = sentence_about(model, drawn(generator, 400, MEANS + step * np.array([0, 1, 0])), past, 1)
        assert "of drug differs from the mean that it had before" in alone
        still = sentence_about(model, drawn(generator, 400, MEANS + step * np.array([1, 0, 1])), past, 1)
        assert "of drug differs from the mean that it had before" in still
    assert "it had before" in sentence_about(model, drawn(generator, 400, MEANS + 2e3), past, 1)


def test_rewards_with_bounds_are_refused_elsewhere():
    for model in IN_RANGE.values():
        assert model.past(Totals.zero((3, 2)), Totals.zero((3, 2)), 0) is None


@pytest.mark.parametrize("keys", MODELS.values(), ids=MODELS)
def test_the_unit_of_the_rewards_does_not_matter(keys):
    """All numbers times a million: the same answer, at the brink too."""
    generator = np.random.default_rng(2)
    past = Totals.columns([drawn(generator, 40), drawn(generator, 40)], 3)
    known = not isinstance(keys["scale"], str)
    big = {**keys, "scale": (np.array(keys["scale"]) * 1e6).tolist()} if known else {**keys, "guess": 5e6}
    for off in np.linspace(0, 20, 21):
        report = drawn(generator, 40, MEANS + np.array([0, 0, off]))
        found = []
        for unit, model in ((1.0, make_model(**keys)), (1e6, make_model(**big))):
            before = Totals(counts=past.counts, sums=past.sums * unit, squares=past.squares * unit**2)
            sums = (report.sums * unit).tolist()
            found.append(
                model.implausible_mean(report.counts.tolist(), sums, model.past(before, before, 1), 0, unit) is None
            )
        assert found[0] == found[1]


def test_a_scale_is_bounded_from_above_at_its_level():
    """However the phases are cut: the pooled scatter with a degree of freedom less per phase is no smaller."""
    generator, level, high = np.random.default_rng(3), 0.05, 0
    for _ in range(400):
        x = generator.standard_normal(600)
        ends = np.cumsum(generator.integers(2, 40, 20))
        mosts = [
            largest_variance(np.array(np.var(x[:n]) * n), np.array(float(n - phase)), level)
            for phase, n in enumerate(ends, start=1)
        ]
        high += min(mosts) < 1.0
    assert high <= 400 * level
    assert LEVEL == 1e-6


@pytest.mark.parametrize("step", first_quick(2.0, 0.0))
def test_the_level_holds_where_it_can_be_counted_with_drift_and_without(monkeypatch, step):
    """At a level that shows in a few hundred studies, and without the room for arms that change by themselves."""
    monkeypatch.setattr("parley.rewards.plausibility.LEVEL", 0.2)
    monkeypatch.setattr("parley.rewards.plausibility.DRIFT", 0.0)
    model, generator, held = make_model(scale=1.0), np.random.default_rng(4), 0
    for _ in range(300):
        past, latest, any_held = Totals.zero((2, 1)), Totals.zero((2, 1)), False
        for phase in range(12):
            mean = step * phase
            report = drawn(generator, 2 + int(abs(past.sums.sum())) % 7, (mean, mean), 1.0)  # counts follow the past
            found = model.implausible_mean(
                report.counts.tolist(), report.sums.tolist(), model.past(past, latest, phase), 0, 1.0
            )
            any_held |= found is not None
            latest = report[:, None]
            past = past + latest
        held += any_held
    assert held <= 300 * 0.2
