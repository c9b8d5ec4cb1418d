"""Errors that cannot be counted, and those that can: tilted and counted agree."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from tests.support import random_weights

from parley import Instance, InvalidInput, Noise, Problem, make_policy, simulate
from parley.cli.main import main
from parley.policies.evidence.racing import EvidenceRacing
from parley.problem import Drift
from parley.simulation.rare import hardest_ties, ruled_out_probability

pytestmark = pytest.mark.simulations

CAP = 20_000  # both are stopped here: what is compared is the same event


def counted(policy, instance, top, agent, runs):
    """The share of plain runs in which one of the true top N (the first arms) was ruled out before the cap."""
    outcome = simulate(policy, instance, replications=runs, seed=11)
    kept = (np.sort(outcome.chosen[:, :, agent], axis=-1) == np.arange(top)).all(axis=-1)
    return ((outcome.chosen[:, 0, agent] >= 0) & ~kept).mean()


@pytest.mark.parametrize(
    ("settings", "means", "arm", "drift"),
    [
        ({"arms": 2, "weights": [[1.0]], "delta": 0.1}, [[0.0], [0.0]], 0, 0.0),
        ({"arms": 3, "weights": [[1.0]], "delta": 0.2, "top": 2}, [[1.0], [0.4], [0.4]], 1, 0.0),
        ({"arms": 2, "weights": [[1.0]], "delta": 0.1, "noise": Noise(kind="binary", rate=0.2)}, [[0.2], [0.2]], 0, 0),
        ({"arms": 2, "weights": [[1.0]], "delta": 0.1, "noise": Noise(kind="subgaussian")}, [[0.0], [0.0]], 0, 0.0),
        ({"arms": 3, "weights": [[1.0]], "delta": 0.2}, [[0.0], [0.0], [-1.0]], 0, 2.0),
        ({"arms": 3, "weights": [[1.0]], "delta": 0.2, "noise": Noise(kind="binary")}, [[0.5], [0.5], [0.3]], 0, 0.1),
    ],
)
def test_tilted_and_counted_agree(settings, means, arm, drift):
    problem = Problem(**settings, max_samples=CAP)
    instance = Instance(problem=problem, means=means, drift=Drift(step=drift) if drift else None)
    policy = make_policy("evidence", problem)
    runs = 4000
    plain = counted(policy, instance, problem.top, 0, runs)
    tilted = ruled_out_probability(policy, instance, arm=arm, agent=0, replications=1500, seed=5).require_believable()
    error = np.hypot(np.sqrt(plain * (1 - plain) / runs), tilted.standard_error)
    assert abs(tilted.probability - plain) <= 3.5 * error
    assert tilted.probability <= problem.delta


@pytest.mark.parametrize("top", [1, 2, 3])
@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_the_promise_is_kept_where_nobody_can_count_and_hardly_less_is_risked(delta, top):
    """For every N at its least favourable tie, two arms equal and the others clearly better: the line pays for one."""
    tie = hardest_ties(Problem(arms=top + 1, weights=[[1.0]], delta=delta, top=top))[0]
    policy = make_policy("evidence", tie.instance.problem)
    found = ruled_out_probability(policy, tie.instance, arm=tie.arm, agent=0, replications=1500, seed=2)
    assert 0.4 * delta < found.probability < delta + 3 * found.standard_error
    assert found.standard_error < 0.05 * found.probability, "tilted to where a boosted bet crosses, not beyond"
    assert found.believable


class LineTooLow(EvidenceRacing):
    """The line forgets a factor of three."""

    @property
    def line(self):
        return super().line - np.log(3)


@pytest.mark.parametrize("top", [1, 2])
def test_a_line_that_is_too_low_is_caught_at_a_delta_of_1e_10(top):
    tie = hardest_ties(Problem(arms=top + 1, weights=[[1.0]], delta=1e-10, top=top))[0]
    policy = LineTooLow(problem=tie.instance.problem)
    found = ruled_out_probability(policy, tie.instance, arm=tie.arm, agent=0, replications=1500, seed=2)
    assert found.probability > 1e-10 + 3 * found.standard_error


def test_the_tilt_is_about_one_agent_of_many_with_general_weights():
    problem = Problem(arms=3, weights=random_weights(np.random.default_rng(1), 3), delta=1e-6)
    tie = hardest_ties(problem)[0]
    policy = make_policy("evidence", problem)
    for agent in range(3):
        found = ruled_out_probability(policy, tie.instance, arm=0, agent=agent, replications=600, seed=1)
        assert found.probability < problem.delta / 3 + 3 * found.standard_error


def test_what_cannot_be_measured_is_refused():
    problem = Problem(arms=2, weights=[[1.0]])
    instance = Instance(problem=problem, means=[[0.5], [0.0]])
    with pytest.raises(InvalidInput, match="true top N"):
        ruled_out_probability(make_policy("evidence", problem), instance, arm=1, agent=0, replications=5, seed=0)
    with pytest.raises(InvalidInput, match="evidence"):
        ruled_out_probability(make_policy("wcpe", problem), instance, arm=0, agent=0, replications=5, seed=0)
    tie = Instance(problem=problem.with_(delta=1e-9), means=[[0.0], [0.0]])
    few = ruled_out_probability(make_policy("evidence", tie.problem), tie, arm=0, agent=0, replications=4, seed=0)
    with pytest.raises(InvalidInput, match="contribute to the estimate"):
        few.require_believable()


def test_the_command_tells_every_cell_and_the_worst(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text('arms = 2\nagents = ["a", "b"]\ndelta = 1e-3\n[noise]\nkind = "gaussian"\nscale = 1.0\n'
                     '[weights]\nkind = "matrix"\nmatrix = [[0.9, 0.3], [0.1, 0.7]]\n')  # fmt: skip
    ran = CliRunner().invoke(main, ["audit-policy", str(study), "--replications", "1600", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.output)
    assert [cell["agent"] for cell in found["cells"]] == ["a", "b"]
    assert found["worst"]["error"] == max(cell["error"] for cell in found["cells"])
    assert sum(cell["error"] for cell in found["cells"]) < 1.3e-3
    assert {"arm", "agent", "delta", "error", "standard_error"} <= set(found["worst"])
