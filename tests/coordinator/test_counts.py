"""A live study of counts: over HTTP from plan to certificate; what no counts can be is refused, the absurd is held, and
over-dispersion is told."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.coordinator.support import study_message

from parley.coordinator.record.audit import verify_stored
from parley.errors import CoordinatorError, Unreachable
from parley.rewards import sampling
from parley.totals import Totals

STUDY = study_message(agents=2, arms=2, policy="evidence", noise={"kind": "count", "mean": 1.0})
MEANS = np.array([[1.6, 1.8], [0.8, 0.9]])


def answer(plan, place, draw, seed):
    drawn = draw(np.random.default_rng([seed, plan.phase, place]), np.array(plan.draws)[:, None])
    return plan.report(Totals(counts=drawn.counts[:, 0], sums=drawn.sums[:, 0], squares=drawn.squares[:, 0]))


def whole_study(house, law, seed=1):
    """Every plan answered until the study is over."""
    agents = house.create(STUDY)
    for _ in range(30):
        status = house.admin.status("trial")
        if status["stage"] != "running":
            return status
        for place, name in enumerate(STUDY.agents):
            plan = agents[place].plan("trial", name)
            agents[place].send(answer(plan, place, law(MEANS[:, [place]]), seed))
    raise AssertionError(status)


def test_a_whole_study_over_http(house, storage):
    assert whole_study(house, sampling.poisson)["stage"] == "finished"
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert certificate["answers"] == {"agent 1": ["arm 1"], "agent 2": ["arm 1"]}
    assert "warnings" not in certificate
    assert verify_stored(storage, "trial").sound


def test_overdispersion_is_told_in_the_status_and_the_certificate(sqlite_house):
    whole_study(sqlite_house, lambda means: sampling.negative_binomial(means, 3.0))
    certificate = sqlite_house.admin.request("GET", "studies", "trial", "certificate")
    (first, *_) = certificate["warnings"]
    assert first.startswith("all rewards vary by about")
    assert 'kind = "gaussian" with an unknown scale allows any ratio' in first


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sums": (-1.0, 3.0)}, "a whole number of at least 0"),
        ({"sums": (2.5, 3.0)}, "a whole number of at least 0"),
        ({"squares": (0.0, 0.0)}, "with the sum"),
    ],
)
def test_what_no_counts_can_be_is_refused(sqlite_house, change, says):
    agents = sqlite_house.create(STUDY)
    report = answer(agents[0].plan("trial", "agent 1"), 0, sampling.poisson(MEANS[:, :1]), 1)
    with pytest.raises(CoordinatorError, match=says) as caught:
        agents[0].send(replace(report, **change))
    assert caught.value.problem["type"].endswith("impossible-report")


def test_an_absurd_count_is_held(sqlite_house):
    agents = sqlite_house.create(STUDY)
    report = answer(agents[0].plan("trial", "agent 1"), 0, sampling.poisson(MEANS[:, :1]), 1)
    count, huge = report.counts[0], 10.0**9
    far = replace(report, sums=(count * huge, report.sums[1]), squares=(count * huge**2, report.squares[1]))
    with pytest.raises(Unreachable, match="the mean 1e\\+09 of arm 1"):
        agents[0].send(far)
