"""A sweep of studies that play: its costs are regret, its bound is C* log T, whatever shows them."""

import math

import pytest
from tests.experiments.sweeps.test_prices import SWEEP, swept

from parley.bounds import regret
from parley.experiments.sweeps.figures import sweep_figures
from parley.experiments.sweeps.report import html_report
from parley.experiments.sweeps.results import compare, summary
from parley.study import parse_study

STUDY = {key: value for key, value in SWEEP["study"].items() if key != "sampling"} | {"horizon": 300}
AXES = {"horizon": [300, 2000], "policy": ["evidence-regret", "explore-then-commit"]}


@pytest.mark.parametrize("rows", ["replication", "cell"])
def test_what_is_played_is_told_in_regret(tmp_path, rows):
    results = swept(tmp_path / "out", study=STUDY, axes=AXES, replications=20, rows=rows)
    frame, made = results.pandas(), summary(results)
    assert (results.unit, results.other_costs) == ("regret", [])
    assert set(frame["cost"]) == {600, 4000}, "rows hold samples, as always"
    last = made[(made["horizon"] == 2000) & (made["policy"] == "evidence-regret")].iloc[0]
    mine = frame[(frame["horizon"] == 2000) & (frame["policy"] == "evidence-regret")]
    assert last["cost"] == pytest.approx(mine["regret"].mean())
    assert last["cost_low"] < last["cost"] < last["cost_high"]
    least = regret(parse_study(STUDY).instance, accuracy=1e-6).value * math.log(2000)
    assert last["ratio"] == pytest.approx(last["cost"] / least, rel=1e-4)
    page = html_report(results, made, command="parley report out")
    assert "Mean regret of all agents at the horizon" in page
    assert "Mean samples" not in page
    if rows == "replication":
        assert (compare(results)["difference"] > 0).all(), "committing costs more, which samples do not show"
        panel = sweep_figures(results, made)["cost-against-horizon"]().axes[0]
        assert (panel.get_xscale(), panel.get_ylabel()) == ("log", "mean regret (band: 95% interval)")
