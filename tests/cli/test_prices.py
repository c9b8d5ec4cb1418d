"""What the commands print where prices and rates are stated; the names are relied on."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from parley.cli.main import main

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "prices.toml")
PLAIN = str(Path(__file__).parents[2] / "examples" / "paper.toml")


def told(*arguments: str) -> dict:
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_bounds_have_money_and_time_with_their_proofs():
    found = told("bounds", EXAMPLE)
    for key in ("cost", "time", "time_and_money", "regret_and_money"):
        assert found[key]["value"] > 0
        assert found[key]["gap"] <= 1e-9
        assert len(found[key]["allocation"]) == 4
    assert "time" not in told("bounds", PLAIN)


def test_simulations_tell_samples_money_and_days():
    found = told("simulate", EXAMPLE, "--replications", "20")
    for key in ("cost", "samples", "days"):
        assert found[key]["p10"] <= found[key]["mean"] <= found[key]["max"]
        assert found[key]["ratio"] == pytest.approx(found[key]["mean"] / found[key]["lower_bound"])
        assert found[key]["ratio"] > 1
    assert found["cost"]["mean"] > found["samples"]["mean"]
    assert found["lower_bound"] == found["cost"]["lower_bound"]
    shown = CliRunner().invoke(main, ["simulate", EXAMPLE, "--replications", "5"]).output
    for words in ("money, 10% to 90%", "days, 10% to 90%", "lower bound on the expected days"):
        assert words in shown


def test_nothing_stated_is_told_as_before():
    found = told("simulate", PLAIN, "--replications", "20")
    assert not {"samples", "days"} & set(found)
    assert found["cost"]["mean"] == pytest.approx(sum(map(sum, found["draws"])))


def test_a_rate_of_0_that_somebody_needs_is_refused(tmp_path):
    text = Path(EXAMPLE).read_text(encoding="utf-8").replace("rate = [2, 6, 80]", "rate = [2, 0, 80]")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["bounds", str(tmp_path / "study.toml")])
    assert "sampling.rate" in str(result.exception)
    assert "0 for clinic, whose rewards have weight in some mix" in str(result.exception)


@pytest.mark.simulations
def test_the_demo_compares_policies_in_money_and_days_too(tmp_path):
    arguments = ["demo", "--study", EXAMPLE, "--replications", "3", "--output", str(tmp_path / "demo.html")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert "money, mean" in page
    assert "days, mean" in page
