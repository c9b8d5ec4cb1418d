"""A wrong scale is noticed, a right one hardly ever; and whoever verifies the log hears of it too."""

import numpy as np
import pytest
from tests.protocol.support import study_message
from tests.protocol.test_minimum_cell import logged
from tests.support import first_quick

from parley.protocol import Report, apply, create, verify_log
from parley.protocol.certificate import issue_certificate
from parley.protocol.events import Certified, PhaseClosed, ReportAccepted, StudyCreated
from parley.protocol.report_checks import LEVEL, added_scatter, scale_warnings
from parley.rewards.plausibility import log_evidence_of_ratio, log_evidence_of_scale, skew_product
from parley.rewards.sampling import gaussian
from parley.text.translation import reading, translated
from parley.totals import Totals

MEANS = np.array([[3.0, 2.0], [1.0, 0.5], [0.0, 0.0]])


def played(noise, true, *, seed=0, phases=3):
    """A study over some phases, with rewards of the `true` scale, and how they scatter."""
    study = study_message(agents=2, arms=3, policy="evidence", noise=noise, largest_gap=8.0)
    trial, generator, scatter = create("s", study), np.random.default_rng(seed), None
    events = [StudyCreated(study_id="s", study=study, plan=trial.plan)]
    draw = true if callable(true) else gaussian(MEANS, np.array(true, dtype=float))
    for _ in range(phases):
        if bool(trial.state.finished):
            break
        totals = draw(generator, trial.plan.array)
        for place, agent in enumerate(study.agents):
            if agent in trial.awaited:
                place_of = {"study": "s", "phase": trial.phase, "agent": agent, "plan": trial.plan.digest}
                events.append(ReportAccepted(report=Report.of(totals[:, place], **place_of)))
                trial = apply(trial, events[-1])
        scatter = added_scatter(trial.totals, scatter)
        step = trial.step()
        events.append(step.event)
        trial = trial.close(step)
    return trial, scatter, events


def told(noise, true, **course):
    trial, scatter, _ = played(noise, true, **course)
    return scale_warnings(trial.study, scatter)


def test_a_scale_that_is_half_the_true_one_is_noticed_over_all_and_for_every_agent():
    words = told({"kind": "gaussian", "scale": 5.0}, 10.0)
    assert words[0].startswith("all rewards vary by about ")
    assert "2" in words[0] or "1.9" in words[0]
    assert "too small, so the guarantee does not hold" in words[0]
    assert any("agent 1" in line for line in words)


def test_one_agent_that_scatters_more_is_named_and_one_that_scatters_less_is_told_too():
    words = told({"kind": "gaussian", "scale": 5.0}, [[5.0, 15.0]] * 3)
    assert any("agent 2" in line and "too small" in line for line in words)
    assert not any("rewards of agent 1" in line for line in words)
    words = told({"kind": "gaussian", "scale": [20.0, 5.0]}, [[5.0, 5.0]] * 3)
    assert any("agent 1" in line and "too large" in line for line in words)


def test_a_right_scale_an_unknown_one_and_a_subgaussian_that_scatters_less_are_no_news():
    assert told({"kind": "gaussian", "scale": 5.0}, 5.0) == ()
    assert told({"kind": "gaussian", "scale": "unknown", "guess": 5.0}, 50.0) == ()
    assert told({"kind": "subgaussian", "scale": 5.0}, 1.0) == ()
    assert told({"kind": "subgaussian", "scale": 5.0}, 15.0) != ()


def test_agents_that_do_not_share_a_scale_are_named_where_one_was_stated():
    uneven = [[5.0, 15.0]] * 3
    words = told({"kind": "gaussian", "scale": "unknown, shared", "guess": 5.0}, uneven)
    assert words[0].startswith("the rewards of agent 1 vary about 0.3")
    assert "the guarantee does not hold" in words[0]
    per_arm = [[5.0, 5.0], [5.0, 5.0], [15.0, 5.0]]
    cells = told({"scale": "unknown per agent", "guess": 5.0}, per_arm)
    assert any(line.startswith("the rewards of arm 3 at agent 1 vary") for line in cells)
    with reading("trial", "de"):
        assert any(translated(line).startswith("die Ergebnisse von arm 3 bei agent 1 streuen") for line in cells)
    for noise, true in (("unknown", uneven), ("unknown per agent", uneven), ("unknown, shared", 5.0)):
        assert told({"kind": "gaussian", "scale": noise, "guess": 5.0}, true) == ()


def revenue(generator, counts):
    """One in twenty buys, for a lognormal amount; drawn one by one."""
    values = [
        Totals.of([(generator.random(n) < 0.05) * generator.lognormal(2.0, 1.0, n) for n in column])
        for column in counts.T
    ]
    return Totals.columns(values, len(counts))


@pytest.mark.parametrize(
    "noise", first_quick({"scale": "unknown", "guess": 5.0}, {"kind": "gaussian", "scale": 4.7}), ids=str
)
def test_skewed_rewards_are_noticed_where_they_are_taken_as_gaussian(noise):
    noticed = [words for seed in range(6) for words in told(noise, revenue, seed=seed, phases=6) if "skewed" in words]
    assert len(noticed) >= 4
    assert noticed[0].startswith("all rewards are skewed (skewness about ")
    assert not any("skewed" in w for seed in range(8) for w in told(noise, 4.7, seed=seed, phases=6))
    assert told({"kind": "subgaussian", "scale": 50.0}, revenue, phases=6) == ()


def drifting(draw, step):
    """Rewards as `draw` draws them, from means that all arms of an agent move by `step` standard normals a phase."""
    shift = np.zeros((1, 2))

    def drawn(generator, counts):
        nonlocal shift
        still = draw(generator, counts)
        squares = still.require_squares() + 2 * shift * still.sums + counts * shift**2
        moved = Totals(counts=counts, sums=still.sums + counts * shift, squares=squares)
        shift = shift + step * generator.standard_normal(shift.shape)
        return moved

    return drawn


@pytest.mark.simulations
@pytest.mark.parametrize("step", [0.5, 2.0])
@pytest.mark.parametrize("noise", [{"scale": "unknown", "guess": 5.0}, {"kind": "gaussian", "scale": 4.7}], ids=str)
def test_drift_is_not_taken_for_skew_and_does_not_hide_it(noise, step):
    still = gaussian(MEANS, np.array(4.7))
    courses = [told(noise, drifting(still, 4.7 * step), seed=seed, phases=6) for seed in range(20)]
    assert not any("skewed" in words for found in courses for words in found)
    courses = [told(noise, drifting(revenue, 4.7 * step), seed=seed, phases=6) for seed in range(8)]
    assert sum(any("skewed" in words for words in found) for found in courses) >= 4


@pytest.mark.parametrize("moved", [0.0, 5.0])
def test_the_evidence_of_unequal_scales_and_of_skew_is_1_on_average_or_less_where_there_is_none(moved):
    generator, runs = np.random.default_rng(2), 100_000
    own, rest = generator.chisquare(9.0, runs), generator.chisquare(40.0, runs)
    assert np.exp(log_evidence_of_ratio(own, np.full(runs, 9.0), rest, np.full(runs, 40.0))).mean() <= 1.05
    past = gaussian(np.zeros((runs, 2, 1)), 3.0)(generator, np.full((runs, 2, 1), 40))
    means = np.repeat(moved * generator.standard_normal((runs, 1, 1)), 2, axis=1)
    fresh = gaussian(means, 3.0)(generator, np.full((runs, 2, 1), 90))
    products, squares, known = skew_product(fresh, past.counts, past.sums, past.counts - 1.0, past.scatter)
    assert known.all()
    assert abs(products.mean()) < 0.015
    assert products.std() == pytest.approx(np.sqrt(squares.mean()), abs=0.1)
    assert np.exp(0.4 * products - 0.08 * squares).mean() <= 1.01


def test_looking_after_every_phase_alarms_no_more_often_than_the_level_says():
    generator, alarms, runs = np.random.default_rng(7), 0, 4000
    line = np.log(2 / LEVEL)
    degrees = np.cumsum(np.full((runs, 12), 9.0), axis=1)
    scatter = np.cumsum(generator.chisquare(9.0, (runs, 12)), axis=1)
    small, large = log_evidence_of_scale(scatter, degrees)
    alarms = ((small >= line) | (large >= line)).any(axis=1).mean()
    assert alarms <= LEVEL + 3 * np.sqrt(LEVEL / runs)
    small, _ = log_evidence_of_scale(1.5 * scatter, degrees)
    assert (small >= line).any(axis=1).mean() > 0.3


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_the_expectation_under_the_stated_scale_is_1_or_less(factor):
    draws = factor * np.random.default_rng(1).chisquare(6.0, 200_000)
    small, _ = log_evidence_of_scale(draws, np.full(draws.shape, 6.0))
    assert np.exp(small).mean() <= 1.05


def test_the_certificate_says_it_and_verify_repeats_it():
    trial, scatter, events = played({"kind": "gaussian", "scale": 1.0}, 3.0, phases=40)
    assert bool(trial.state.finished)
    warnings = scale_warnings(trial.study, scatter)
    data = [event.decision.data for event in events if isinstance(event, PhaseClosed)]
    records = logged(events)
    claims = {"data": data, "sequence": len(records), "head": records[-1].hash, "version": "0.1.0"}
    certificate = issue_certificate(trial, **claims, warnings=warnings)
    assert certificate.to_json()["warnings"] == list(warnings)
    found = verify_log(logged([*events, Certified(certificate=certificate)]))
    assert found.sound, found.problem
    assert found.warnings == warnings
    for other in ((), ("nothing to see",)):
        wrong = issue_certificate(trial, **claims, warnings=other)
        assert not verify_log(logged([*events, Certified(certificate=wrong)])).sound
