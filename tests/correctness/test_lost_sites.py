"""A re-weighing keeps the error below delta, also of somebody who tries every question on the rewards first."""

import pytest
from tools.correctness.lost_sites import CELLS, HOWS, lose
from tools.correctness.near_ties import allowance

pytestmark = pytest.mark.simulations


@pytest.mark.parametrize("name", ["one question", "the lost site disagreed"])
def test_a_lost_site_and_a_re_weighing_keep_the_error_below_delta(name):
    loss, size = CELLS[name][0], 1200
    assert lose(loss, "re-weighed", replications=size, seed=5) <= allowance(loss.delta, size)


def test_going_on_from_the_old_state_is_found_out():
    loss, size = CELLS["the lost site disagreed"][0], 120
    assert lose(loss, "from the old state", replications=size, seed=5) > allowance(loss.delta, size, deviations=6)


def test_trying_every_set_of_six_sites_on_the_rewards_keeps_the_error_below_delta():
    """With all of delta for each, a fifth of these studies have a set of sites that gives a wrong answer."""
    loss, size = CELLS["six sites, one question"][0], 400
    honest, flawed = (lose(loss, how, replications=size, seed=5) for how in HOWS[2:])
    assert honest <= loss.delta
    assert flawed > allowance(loss.delta, size, deviations=6)
