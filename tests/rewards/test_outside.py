"""Reward models of other packages: found by an entry point, imported when a study asks for one, refused in words."""

import importlib
import sys

import pytest
from tests.policies.test_outside import installed as package
from tests.policies.test_outside import run
from tests.recipes.test_reward_model import COIN
from tests.support import code_of_page

from parley.errors import InvalidInput, UnknownName
from parley.rewards import make_model
from parley.study import parse_study
from parley.system import extensions

LACKING = """
from parley import RewardModel

class Half(RewardModel):
    kind = "half"
    description = "nothing that could be evaluated"
    keys = {}
"""


def installed(folder, points, **words):
    return package(folder, points, group="parley.rewards", **words)


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder whose packages are found, and forgotten afterwards."""

    def forget():
        importlib.invalidate_caches()
        extensions.forget()
        sys.modules.pop("ours", None)

    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    forget()


def test_a_study_may_ask_for_the_model_of_an_installed_package(beside):
    installed(beside, "coin = ours:Coin", module=COIN)
    study = parse_study({"arms": 2, "agents": 1, "noise": {"kind": "coin", "scale": 0.5}})
    assert study.problem.noise.document() == {"kind": "coin", "scale": 0.5}
    with pytest.raises(UnknownName, match=r"key in \[noise\]: found 'low'; allowed: one of kind, scale"):
        parse_study({"arms": 2, "agents": 1, "noise": {"kind": "coin", "low": 0}})


@pytest.mark.servers
def test_the_conformance_suite_runs_over_it(tmp_path):
    """As a reader of the tutorial does it: the model and the test, both as the page has them."""
    beside = installed(tmp_path, "coin = ours:Coin", module=COIN)
    test = tmp_path / "test_coin.py"
    test.write_text(code_of_page("docs/tutorials/own-policy.md", "class TestCoin"), encoding="utf-8")
    for suite in (("--pyargs", "parley.testing.conformance.installed", "-k", "coin"), (str(test),)):
        done = run(beside, "pytest", *suite, "-q", "-p", "no:cacheprovider")
        assert done.returncode == 0, done.stdout
        assert "11 passed" in done.stdout


@pytest.mark.parametrize(
    ("points", "module", "kind", "says"),
    [
        ("gaussian = ours:Coin", COIN, "gaussian", "found gaussian of parley and of the package ours"),
        ("coin = ours:Nickel", COIN, "coin", r"\(ours:Nickel\), which cannot be imported"),
        ("nickel = ours:Coin", COIN, "nickel", "a subclass of parley.RewardModel with the kind nickel"),
        ("half = ours:Half", LACKING, "half", "which lacks bound_note, .*payoff, samplers.*all parts"),
        ("coin = ours:Coin", COIN, "con", "found 'con'; allowed: one of .*coin"),
    ],
)
def test_what_cannot_be_used_is_refused_in_plain_words(beside, points, module, kind, says):
    installed(beside, points, module=module)
    with pytest.raises(InvalidInput if kind != "con" else UnknownName, match=says):
        make_model(kind=kind)
