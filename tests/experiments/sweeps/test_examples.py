"""Every example of a model and of a sweep runs, and the pages that tell of experiments are true."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from tests.support import first_quick

from parley.cli.main import COMMANDS
from parley.experiments.sweeps.engines import engines
from parley.experiments.sweeps.sweep import AXES, KEYS, load_sweep, parse_sweep, run_cell
from parley.hooks import commands_of_edges
from parley.policies import make_policy
from parley.simulation import simulate
from parley.study import load_study

ROOT = Path(__file__).parents[3]
MODELS = sorted((ROOT / "examples" / "models").glob("*.toml"))
SWEEPS = sorted((ROOT / "examples" / "sweeps").glob("*.toml"))


@pytest.mark.parametrize("path", first_quick(*MODELS, quick=2), ids=lambda path: path.stem)
def test_models_are_solved(path):
    study = load_study(path)
    policy = make_policy(study.policy, study.problem, study.options, study.instance)
    outcome = simulate(policy, study.require_truth(), replications=40, seed=0)
    assert outcome.finished.all()
    assert outcome.error_rate <= 0.1


@pytest.mark.parametrize("path", first_quick(*SWEEPS, quick=2), ids=lambda path: path.stem)
def test_sweeps_are_valid_and_their_last_cell_runs(path):
    sweep = load_sweep(path)
    document = {key: value for key, value in sweep.document.items() if value is not None}
    last = parse_sweep({**document, "replications": 3}).cells[-1]
    assert run_cell(last).finished.all()


@pytest.mark.parametrize("path", [*MODELS, *SWEEPS], ids=lambda path: path.stem)
def test_examples_name_commands_that_exist(path):
    lines = re.findall(r"^# +(parley .*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[1] in {*COMMANDS, *commands_of_edges()}
        assert all((ROOT / word).exists() for word in words if word.endswith(".toml"))


def test_the_page_on_experiments_names_every_axis_engine_and_key():
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    for name in (*AXES, *engines(), "environment", "max_samples"):
        assert f"`{name}`" in page
    block = re.search(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    document = tomllib.loads(block[1])
    assert set(document) <= set(KEYS)
    assert len(parse_sweep(document, folder=ROOT / "examples" / "sweeps").cells) == 9
