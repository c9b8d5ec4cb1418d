"""Money and days of a sweep: in the rows, in the summary, in the report; and no new column where nothing is stated."""

import numpy as np
import pytest
from click.testing import CliRunner

from parley.cli.main import main
from parley.experiments.sweeps.engines import Engine
from parley.experiments.sweeps.report import html_report
from parley.experiments.sweeps.results import load_results, summary
from parley.experiments.sweeps.runner import run_sweep
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import parse_sweep

SWEEP = {
    "name": "what a day is worth",
    "study": {
        "arms": 3,
        "agents": 2,
        "weights": {"kind": "personalized", "alpha": 0.5},
        "truth": {"means": [[0.9, 0.8], [0.3, 0.2], [0.1, 0.4]]},
        "sampling": {"price": [9, 1], "rate": [4, 1]},
    },
    "replications": 40,
    "axes": {"sampling.day_cost": [0.0, 10.0, 100.0]},
}


def swept(path, **changes):
    run_sweep(parse_sweep(SWEEP | changes), Folder(path=path), Engine(workers=1), command="parley sweep it.toml")
    return load_results(path)


def test_rows_summary_and_report_have_money_and_days(tmp_path):
    results = swept(tmp_path / "out")
    frame, made = results.pandas(), summary(results)
    first = frame[frame["sampling.day_cost"] == 0.0]
    assert made["money"].iloc[0] == pytest.approx(first["money"].mean())
    assert made["days_p90"].iloc[0] == pytest.approx(np.quantile(first["days"], 0.9))
    assert made["days"].iloc[-1] < made["days"].iloc[0]
    assert made["money"].iloc[-1] > made["money"].iloc[0]
    assert (made["money"] > made["cost"]).all()
    page = html_report(results, made, command="parley report out")
    assert "Mean days of a study" in page
    assert "money, mean" in page
    told = CliRunner().invoke(main, ["report", str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "days" in told.output


def test_a_row_per_cell_says_the_same(tmp_path):
    every, single = swept(tmp_path / "every"), swept(tmp_path / "single", rows="cell")
    rows, cells = summary(every), summary(single)
    for name in ("money", "money_low", "money_p10", "days", "days_high", "days_p90"):
        assert cells[name].to_numpy() == pytest.approx(rows[name].to_numpy()), name


def test_nothing_stated_nothing_added(tmp_path):
    study = {key: value for key, value in SWEEP["study"].items() if key != "sampling"}
    results = swept(tmp_path / "out", study=study, axes={"delta": [0.1, 0.2]})
    assert not {"money", "days"} & set(results.pandas().columns)
    assert not {"money", "days"} & set(summary(results).columns)
    assert "Mean days" not in html_report(results, summary(results), command="parley report out")


def test_a_site_that_cannot_recruit_leaves_the_bound_alone(tmp_path):
    sampling = {"price": 0, "rate": [4, 0], "day_cost": 1.0}
    weights = {"kind": "matrix", "matrix": [[1, 1], [0, 0]]}
    study = SWEEP["study"] | {"sampling": sampling, "weights": weights}
    results = swept(tmp_path / "out", study=study, axes={"delta": [0.1]})
    assert (results.pandas()["money"] == 0).all()
    assert np.isfinite(results.pandas()["days"]).all()
