"""A plan whose truth is a table: its scenarios draw the rows, and its page names their shape."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from parley.cli.main import main

pytestmark = pytest.mark.simulations


def test_a_plan_draws_the_rows_of_its_table_and_names_their_shape(tmp_path):
    generator = np.random.default_rng(0)
    lines = [
        f"{site},{(generator.random() < 0.4) * generator.lognormal(0, 0.8):.3f}" for site in "PQ" for _ in range(200)
    ]
    (tmp_path / "past.csv").write_text("\n".join(["site,y", *lines]) + "\n", encoding="utf-8")
    study = tmp_path / "study.toml"
    head = 'arms = ["a", "b"]\nagents = ["P", "Q"]\ndelta = 0.1\nlargest_gap = 2\n'
    truth = '[truth]\ndata = "past.csv"\neffects = [0.0, 0.5]\n'
    study.write_text(head + truth, encoding="utf-8")
    page = tmp_path / "plan.html"
    options = [
        "--gap",
        "0.5",
        "--replications",
        "4",
        "--instances",
        "2",
        "--operating",
        "--output",
        str(page),
        "--json",
    ]
    done = CliRunner().invoke(main, ["plan", str(study), *options], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert [one["scenario"] for one in found["scenarios"]][:2] == ["the rows of past.csv", "gap 0.5"]
    shapes = found["history"]["shapes"]
    assert [shape["agent"] for shape in shapes] == ["P", "Q"]
    assert all("skewed to the right" in shape["words"] and "zeros" in shape["words"] for shape in shapes)
    text = page.read_text(encoding="utf-8")
    assert "The rows that were drawn again" in text
    assert shapes[0]["words"] in text
    assert "the rows of past.csv" in text
    # Without the table, the same gap costs what Gaussian rewards of the guessed scale cost.
    study.write_text(head, encoding="utf-8")
    plain = json.loads(CliRunner().invoke(main, ["plan", str(study), *options], catch_exceptions=False).stdout)
    assert "history" not in plain
    assert plain["scenarios"][0]["scenario"] == "gap 0.5"
    assert plain["scenarios"][0]["cost"] != found["scenarios"][1]["cost"]
