"""The short version of `make rewards`."""

import pytest
from tools.correctness import held_out
from tools.correctness.rewards import FIGURES, WEB, Figure

from parley.study import load_study

pytestmark = pytest.mark.simulations

SHORT = [figure for figure in FIGURES if figure.most and figure.study != "web"]


@pytest.mark.parametrize("figure", SHORT, ids=lambda figure: f"{figure.study}-{figure.delta}")
def test_no_model_costs_more_than_was_asked(figure: Figure):
    outcome = figure.run(200, seed=3)
    error = outcome.costs.std() / 200**0.5
    assert outcome.costs.mean() <= figure.most + 2 * error
    assert outcome.error_rate <= figure.delta + 0.02


def test_the_web_study_takes_a_fifth_of_what_half_the_range_takes():
    figure = next(figure for figure in FIGURES if figure.study == "web")
    assert figure.run(12, seed=3).costs.mean() < 2_600_000  # about 9.6 million with method "hoeffding"


def test_the_example_is_the_study_of_the_figures():
    assert load_study("examples/web-study.toml").instance.means.tolist() == WEB


def test_smaller_steps_pay_on_instances_that_nobody_tuned_by():
    _, over_plain, _, _, over_half, _ = held_out.row("binary", 8, 6)
    assert float(over_plain) < 0.95
    assert float(over_half) < 0.5
