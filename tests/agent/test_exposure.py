"""Counts of events with a column `exposure`: a row of several units is as many draws."""

import numpy as np
import pytest
from tests.agent.test_worker import make, plan

from parley.agent.tables import per_unit, rewards_by_arm
from parley.errors import InvalidInput
from parley.rewards.plausibility import log_evidence_of_overdispersion, shared_draws
from parley.totals import Totals
from parley.validation.tables import read_table

ROWS = "arm,reward,exposure\nx,7,3\ny,2,2\nx,0,1\n"


def units(text):
    table = per_unit(read_table(text.encode(), "x.csv", needed=("arm", "reward")))
    return [(row.values["arm"], int(row.values["reward"])) for row in table.rows]


def test_a_row_is_divided_between_phases_and_nothing_is_lost(tmp_path):
    file = tmp_path / "events.csv"
    file.write_text(ROWS)
    source = make(f"csv:{file}", counts=True)
    first, second = source(plan()).totals, source(plan(2)).totals
    assert [*first.counts, *second.counts] == [2, 1, 2, 1], "four units of x, two of y"
    assert (first + second).sums.tolist() == [7.0, 2.0]
    assert source(plan()).totals == first, "the same split again"
    file.write_text(ROWS.replace("x,7,3", "x,6,3"))
    with pytest.raises(InvalidInput, match=r"line 2: found x, .* which was not there"):
        source(plan(3))


def test_without_counts_exposure_is_a_column_like_others(tmp_path):
    file = tmp_path / "rewards.csv"
    file.write_text("arm,reward,exposure\nx,0.5,3\ny,2,2\nx,0,1\n")
    assert make(f"csv:{file}")(plan()).totals == Totals.of([[0.5, 0.0], [2.0]])


def test_units_are_poisson_if_their_sums_are_and_scatter_of_people_is_found():
    generator = np.random.default_rng(1)
    exposures = generator.integers(1, 13, size=1500)
    same, unlike = 0.7 * np.ones(1500), 0.7 * generator.gamma(1.0, size=1500)
    evidence = []
    for rates in (same, unlike):
        events = generator.poisson(rates * exposures)
        text = "arm,reward,exposure\n" + "".join(f"x,{x},{e}\n" for x, e in zip(events, exposures, strict=True))
        found = np.array([reward for _, reward in units(text)], dtype=float)
        assert (len(found), found.sum()) == (exposures.sum(), events.sum())
        drawn = Totals(
            counts=np.array([[len(found)]]), sums=np.array([[found.sum()]]), squares=np.array([[found @ found]])
        )
        if rates is same:
            assert found.var() == pytest.approx(found.mean(), rel=0.05)
        evidence.append(float(log_evidence_of_overdispersion(*shared_draws(drawn)).max()))
    assert evidence[0] < 3.0, "at most a chance of 1 in 20"
    assert evidence[1] > 14.0, "the warning's line"


def test_an_empty_reward_has_its_exposure_and_a_correction_counts_units():
    assert per_unit(read_table(b"arm,reward,exposure\nx,,2\n", "x.csv", needed=("arm", "reward"))).rows[1].values == {
        "arm": "x",
        "reward": "",
        "exposure": "2",
    }
    corrected = rewards_by_arm(ROWS.encode(), "x.csv", ("x", "y"), counts=True)
    assert [(len(each), sum(each)) for each in corrected] == [(4, 7.0), (2, 2.0)]


@pytest.mark.parametrize(
    ("row", "column", "found"),
    [
        ("x,1,", "exposure", "''"),
        ("x,1,0", "exposure", "'0'"),
        ("x,1,2.5", "exposure", "'2.5'"),
        ("x,1,20000", "exposure", "'20000'"),
        ("x,1.5,2", "reward", "'1.5'"),
        ("x,-1,2", "reward", "'-1'"),
    ],
)
def test_units_and_events_are_whole_numbers(row, column, found):
    with pytest.raises(InvalidInput, match=rf"x.csv, line 2, column {column}: found {found}; allowed: a whole number"):
        units(f"arm,reward,exposure\n{row}\n")
