"""Studies with guardrails in the simulator: stops, what follows, and outcomes that go together."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from tests.support import first_quick

from parley import InvalidInput, make_policy, parse_study
from parley.cli.main import main
from parley.simulation.guarded import excess_harm, outcome_totals, simulate_guarded
from parley.totals import Totals

HARM = {"name": "harm", "kind": "binary", "role": "guardrail", "better": "lower", "margin": 0.05, "delta": 0.05}


def study(harm=0.4, *, correlation=0.0, noise=None, outcome=HARM, sites=None, **truth):
    means = {
        "means": [[0.4, 0.4], [0.5, 0.5], [0.6, 0.6]],
        "outcomes": {"harm": [[0.1, 0.1], [0.1, 0.1], [harm, harm]]},
    }
    return parse_study(
        {
            "arms": ["c", "a", "b"],
            "agents": 2,
            "control": "c",
            "weights": {"kind": "personalized", "alpha": 0.5},
            "noise": noise or {"kind": "binary"},
            "outcomes": [outcome],
            "sites": sites or {},
            "truth": means | {"correlation": correlation} | truth,
        }
    )


def run(made, replications=40, seed=1):
    policy = make_policy(made.policy, made.problem, made.options)
    return simulate_guarded(policy, made.instance, replications=replications, seed=seed)


@pytest.mark.simulations
def test_a_harmful_best_arm_is_stopped_and_the_best_of_the_others_is_found():
    found = run(study(0.6))
    assert found.stopped[:, 2].mean() > 0.9
    assert not found.stopped[:, :2].any()
    assert found.correct.mean() > 0.9, "among the arms that were left"
    assert (found.drawn[found.stopped[:, 2], 0, 2] > 0).all()
    document = found.document()["harm"]
    assert document["alarms"] == found.stopped[:, 2].mean()
    assert document["wrongly"] <= 0.05


FOUR_SITES = {
    "arms": ["c", "a"],
    "agents": 4,
    "control": "c",
    "delta": 0.05,
    "tolerance": 0.02,
    "noise": {"kind": "binary"},
    "outcomes": [HARM | {"margin": 0.02}],
    "truth": {"means": [[0.3] * 4, [0.35] * 4], "outcomes": {"harm": [[0.06] * 4, [0.2] * 4]}},
}


@pytest.mark.parametrize(
    "weights",
    first_quick(
        {"kind": "personalized", "alpha": 0.5}, {"kind": "population", "shares": [1, 1, 1, 1]}, {"kind": "identity"}
    ),
)
def test_a_large_harm_is_found_in_the_first_phase(weights):
    """Whatever the mixes: 6 % of the control and 20 % of the arm, within 250 people with it, in nine of ten studies."""
    made = parse_study(FOUR_SITES | {"weights": weights})
    policy = make_policy(made.policy, made.problem, made.options)
    assert 200 < policy.first_phase[1].sum() <= 250
    found = run(made, replications=1000)
    assert ((found.alarmed_in[:, 0, 1] > 0) & (found.drawn[:, 0, 1] <= 250)).mean() >= 0.9


def test_a_first_phase_for_guardrails_stays_a_small_part_of_the_study():
    def first(**more):
        stated = {key: value for key, value in FOUR_SITES.items() if key != "truth"}
        made = parse_study(stated | {"weights": {"kind": "identity"}} | more)
        return make_policy(made.policy, made.problem, made.options).first_phase.sum()

    plain = first(outcomes=[])
    assert first(max_samples=2000) <= 200 + 8
    assert first(policy={"precision": 0.1}) < first(), "who states a precision gets it"
    assert first(tolerance=0.0) == first(tolerance=0.0, outcomes=[]), "nothing says how long the study may be"
    assert plain < first()
    secondary = {key: value for key, value in HARM.items() if key not in ("margin", "delta")} | {"role": "secondary"}
    assert first(outcomes=[secondary]) == plain


def test_an_alarm_that_is_only_proposed_stops_nothing():
    found = run(study(0.6, outcome=HARM | {"on_alarm": "propose"}))
    assert not found.stopped.any()
    assert (found.alarmed_in[:, 0, 2] > 0).mean() > 0.9


@pytest.mark.simulations
def test_the_same_seed_gives_the_same_studies():
    one, other = run(study(0.3)), run(study(0.3))
    assert np.array_equal(one.alarmed_in, other.alarmed_in)
    assert np.array_equal(one.samples, other.samples)
    assert not np.array_equal(one.samples, run(study(0.3), seed=2).samples)


@pytest.mark.parametrize(
    ("noise", "outcome"),
    [
        ({"kind": "binary"}, HARM),
        ({"kind": "gaussian", "scale": 0.5}, HARM | {"kind": "gaussian", "scale": 0.2}),
    ],
)
def test_outcomes_go_together_as_stated(noise, outcome):
    made = study(0.4, correlation=0.3, noise=noise, outcome=outcome)
    instance, counts = made.instance, np.full((20_000, 3, 2), 30)
    draw = next(iter(instance.problem.noise.samplers(instance.means).values()))()
    primary = draw(np.random.default_rng(1), counts)
    harm = outcome_totals(instance, instance.problem.outcomes[0], np.random.default_rng(2), primary)
    for arm in range(3):
        assert np.corrcoef(primary.sums[:, arm, 0], harm.sums[:, arm, 0])[0, 1] == pytest.approx(0.3, abs=0.03)
    np.testing.assert_allclose(harm.means.mean(axis=0), instance.outcomes["harm"], atol=0.005)
    variance = instance.problem.outcomes[0].noise.true_variances(np.asarray(instance.outcomes["harm"]))
    np.testing.assert_allclose(harm.means.var(axis=0) * 30, variance, rtol=0.05)


def test_correlated_harm_and_benefit():
    found = run(study(0.6, correlation=0.25))
    assert found.stopped[:, 2].mean() > 0.9
    assert found.correct.mean() > 0.9


def test_what_cannot_be_simulated_is_named():
    with pytest.raises(InvalidInput, match=r"truth\.correlation"):
        run(study(0.4, correlation=0.9))
    with pytest.raises(InvalidInput, match=r"truth\.correlation"):
        run(study(0.4, correlation=0.1, outcome=HARM | {"kind": "count"}))
    with pytest.raises(InvalidInput, match=r"outcome in truth\.outcomes"):
        study(0.4, outcomes={"pain": 0.1})
    with pytest.raises(InvalidInput, match=r"truth\.outcomes\.harm"):
        study(0.4, outcomes={"harm": [0.1, 0.2, 0.3]})
    with pytest.raises(InvalidInput, match=r"truth\.outcomes\.harm"):
        run(study(0.4, outcomes={}))


def test_excess_harm_of_limits_and_of_what_should_be_high():
    made = study(0.4, outcome={key: HARM[key] for key in HARM if key != "margin"} | {"limit": 0.2})
    np.testing.assert_allclose(excess_harm(made.instance, made.problem.outcomes[0])[:, 0], [-0.1, -0.1, 0.2])
    high = study(0.02, outcome=HARM | {"better": "higher"})
    np.testing.assert_allclose(excess_harm(high.instance, high.problem.outcomes[0])[:, 0], [-0.05, -0.05, 0.03])


def test_parley_simulate_tells_of_guardrails(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        """
        arms = ["c", "a"]
        agents = 2
        control = "c"
        [noise]
        kind = "binary"
        [[outcomes]]
        name = "harm"
        kind = "binary"
        role = "guardrail"
        better = "lower"
        margin = 0.05
        delta = 0.05
        [truth]
        means = [[0.3, 0.3], [0.6, 0.6]]
        outcomes = { harm = [[0.1, 0.1], [0.6, 0.6]] }
        """
    )
    result = CliRunner().invoke(main, ["simulate", str(path), "--replications", "40", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["guardrails"]["harm"].keys() == {"alarms", "cleared", "wrongly"}
    assert document["guardrails"]["harm"]["alarms"] > 0.5
    assert document["error_rate"] <= 0.1, "of the studies without guardrails, as ever"
    plain = CliRunner().invoke(main, ["simulate", str(path), "--replications", "20"])
    assert "guardrail harm: studies with an alarm" in plain.output


def test_totals_without_some_arms():
    totals = Totals(counts=np.array([[1], [2]]), sums=np.array([[1.0], [2.0]]))
    assert totals.without(np.array([False, True])).counts.tolist() == [[1], [0]]


def test_people_between_phases_are_watched_by_guardrails_and_counted():
    made = study(0.6, sites={"between": "assign", "most_between": 1.0})
    found = run(made)
    assert found.stopped[:, 2].mean() > 0.9
    assert not found.stopped[:, :2].any()
    assert found.correct.mean() > 0.9
    policy = make_policy("evidence", made.problem)
    first = policy.plan(policy.start()).sum()
    one = found.rounds == 1
    assert (found.samples[one] == 2 * first).all(), "who was assigned for a phase that never came is a draw too"
    assert (found.samples > first).all()
