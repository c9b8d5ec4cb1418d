"""Regret of simulated play: what is counted is what was drawn."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from tests.support import first_quick, paper_study

from parley.cli.main import main
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.problem import Instance
from parley.simulation import phases, simulate
from parley.simulation.outcome import draw_losses
from parley.study import parse_study


def played(horizon=3_000, name="evidence-regret", **changes):
    instance = paper_study(0.5).instance
    problem = instance.problem.with_(horizon=horizon, **changes)
    instance = Instance(problem=problem, means=instance.means)
    return make_policy(name, problem), instance


def test_regret_is_draws_times_what_they_cost_and_curves_end_there():
    policy, instance = played()
    outcome = simulate(policy, instance, replications=300, seed=4)
    regret = outcome.regret
    assert regret.pseudo.shape == regret.realised.shape == (300, 3)
    assert regret.pseudo.mean(axis=0) == pytest.approx((outcome.draws * draw_losses(instance)).sum(axis=0))
    assert regret.curves[:, -1] == pytest.approx(regret.totals)
    assert regret.times[-1] == 3_000
    assert (np.diff(regret.curves, axis=1) >= -1e-9).all()
    # The luck of the draws has mean 0 and, for every agent, the variance of its 3,000 rewards.
    luck = regret.realised - regret.pseudo
    assert np.abs(luck.mean(axis=0)).max() <= 4 * np.sqrt(3_000 / 300)
    assert luck.std(axis=0) == pytest.approx(np.sqrt(3_000), rel=0.2)


def test_the_curve_of_a_run_goes_through_the_ends_of_its_phases():
    policy, instance = played(horizon=2_000)
    outcome = simulate(policy, instance, replications=1, seed=9)
    losses, knots = draw_losses(instance), [(0, 0.0)]
    for phase in phases(policy, instance, seed=9):
        counts = phase.after.counts
        knots.append((int(counts.sum(axis=0)[0]), float((counts * losses).sum())))
    times, values = zip(*knots, strict=True)
    assert outcome.rounds[0] == len(knots) - 2, "the last report changes nothing"
    assert outcome.regret.curves[0] == pytest.approx(np.interp(outcome.regret.times, times, values))


@pytest.mark.simulations
def test_chunks_change_no_number():
    policy, instance = played()
    whole = simulate(policy, instance, replications=260, seed=1).regret
    parts = simulate(policy, instance, replications=260, seed=1, chunk=256).regret
    assert (whole.totals == parts.totals).all()
    assert (whole.curves == parts.curves).all()


def test_an_open_study_is_simulated_up_to_a_budget_only():
    policy, instance = played(horizon="open")
    with pytest.raises(InvalidInput, match='horizon: found open; allowed: "open" with max_samples'):
        simulate(policy, instance, replications=2, seed=1)
    policy, instance = played(horizon="open", max_samples=9_000)
    outcome = simulate(policy, instance, replications=5, seed=1)
    assert (outcome.costs <= 9_000).all()
    assert outcome.regret.times[-1] == 3_000


def test_a_tie_may_be_played():
    policy, instance = played()
    tied = Instance(problem=instance.problem, means=np.zeros((6, 3)))
    outcome = simulate(policy, tied, replications=5, seed=1)
    assert (outcome.regret.totals == 0).all()


def test_the_command_prints_regret(tmp_path):
    study = tmp_path / "play.toml"
    study.write_text('arms = 6\nagents = 3\nhorizon = 5000\n[weights]\nkind = "personalized"\nalpha = 0.5\n'
                     '[truth]\ngenerate = "paper"\n', encoding="utf-8")  # fmt: skip
    result = CliRunner().invoke(main, ["simulate", str(study), "--replications", "50", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output)
    regret = figures["regret"]
    assert figures["policy"] == "evidence-regret"
    assert {"mean", "std", "lower_bound", "ratio"} <= set(regret)
    assert regret["ratio"] == pytest.approx(regret["mean"] / regret["lower_bound"])
    assert sum(regret["agents"]) == pytest.approx(regret["mean"])
    assert regret["curve"]["mean"][-1] == pytest.approx(regret["mean"])
    assert figures["rounds"]["mean"] > 1
    shown = CliRunner().invoke(main, ["simulate", str(study), "--replications", "50"])
    assert "over the lower bound" not in shown.output, "no reference at a given horizon"
    assert "mean regret over the reference" in shown.output
    assert regret["over_reference"] == pytest.approx(regret["mean"] / regret["reference"])
    assert regret["reference"] <= regret["lower_bound"] * (1 + 1e-5)
    assert "samples" not in shown.output


@pytest.mark.simulations
def test_the_demo_plays_and_compares(tmp_path):
    page = tmp_path / "demo.html"
    told = CliRunner().invoke(main, ["demo", "--regret", "--replications", "8", "--output", str(page), "--json"])
    assert told.exit_code == 0, told.output
    document = json.loads(told.output)
    assert document["lower_bound"] == pytest.approx(717, abs=1)
    assert "Regret over time" in page.read_text(encoding="utf-8")
    means = {result["policy"]: result["regret"]["mean"] for result in document["policies"]}
    assert set(means) == {"evidence-regret", "pf-ucb", "pf-ucb-enhanced", "explore-then-commit", "oracle-regret"}
    assert means["oracle-regret"] < means["evidence-regret"] < means["explore-then-commit"] < means["pf-ucb"]


NOISES = [
    {"kind": "gaussian", "scale": 0.5},
    {"kind": "gaussian", "scale": [0.3, 0.6]},
    {"kind": "gaussian", "scale": "unknown per cell"},
    {"kind": "subgaussian", "scale": 0.5},
    {"kind": "bounded", "low": 0, "high": 1},
    {"kind": "binary"},
]


@pytest.mark.parametrize(
    "noise", first_quick(*NOISES, quick=2), ids=lambda noise: f"{noise['kind']} {noise.get('scale', '')}".strip()
)
def test_every_reward_model_is_played_for_less_than_by_committing(noise):
    truth = {"means": [[0.5, 0.3], [0.3, 0.52], [0.2, 0.2]]}
    truth |= {"scale": 0.5} if "unknown" in str(noise.get("scale")) else {}
    weights = {"kind": "matrix", "matrix": [[0.7, 0.2], [0.3, 0.8]]}
    document = {"arms": 3, "agents": 2, "horizon": 5_000, "weights": weights, "noise": noise, "truth": truth}
    study = parse_study(document)
    lost = {}
    for name in ("evidence-regret", "explore-then-commit"):
        policy = make_policy(name, study.problem, {}, study.instance)
        outcome = simulate(policy, study.instance, replications=40, seed=1)
        assert (outcome.costs == 10_000).all()
        lost[name] = outcome.regret.totals.mean()
    assert lost["evidence-regret"] < 0.6 * lost["explore-then-commit"]


@pytest.mark.simulations
def test_a_plan_of_play_is_in_regret(tmp_path):
    study = tmp_path / "play.toml"
    study.write_text("arms = 3\nagents = 2\nhorizon = 2000\n[noise]\nscale = 1.0\n", encoding="utf-8")
    arguments = ["plan", str(study), "--replications", "2", "--instances", "2", "--output", str(tmp_path / "p.html")]
    told = CliRunner().invoke(main, [*arguments, "--json"])
    assert told.exit_code == 0, told.output
    document = json.loads(told.output)
    assert document["scenarios"][0]["regret"]["mean"] > 0
    assert [line["horizon"] for line in document["by_horizon"]] == [200, 2_000, 20_000], "no error level to vary"
    assert "regret, mean" in (tmp_path / "p.html").read_text(encoding="utf-8")
