"""A new policy is its file and its name in the registry; the conformance suite, the simulator and a study know it."""

import json

from tests.recipes.support import ROOT

DOUBLING = '''"""Every candidate is drawn equally often by everybody, twice as often in each phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.policies.base import Elimination, Explanation, State, nth_largest
from parley.problem import BoolArray, FloatArray, IntArray
from parley.policies.wcpe import make_threshold, radius

__all__ = ["Doubling"]


@dataclass(frozen=True, kw_only=True)
class Doubling(Elimination):
    """Rules an arm out once its interval lies below those of the top N; `first` is how often it is drawn at first."""

    name: ClassVar[str] = "doubling"
    needs_scale: ClassVar[bool] = True
    first: int = 50

    def wanted(self, state: State) -> IntArray:
        drawn = state.active.any(axis=-1, keepdims=True) & ~state.finished[..., None, None]
        each = self.first * 2 ** state.phase[..., None, None]
        weighed = self.problem.weights.any(axis=1)  # nobody's answer depends on the others
        return np.where(drawn, each, 0) * weighed

    def keep(self, before: State, after: State) -> BoolArray:
        mixed, half, bar = self._intervals(after, before.active)
        return np.asarray(mixed + half >= bar)

    def explain(self, state: State) -> Explanation:
        mixed, half, bar = self._intervals(state, state.active)
        score = np.where(state.phase[..., None, None] > 0, (bar - mixed) / half, 0.0)
        return Explanation(mixed_means=mixed, score=score, line=1.0, words="distance in half-widths")

    def _intervals(self, state: State, among: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        mixed = self.problem.mixed(state.means)
        half = radius(self.problem, state.counts, make_threshold("paper", self.problem))
        return mixed, half, nth_largest(mixed - half, self.problem.top, among)
'''


def test_a_policy_is_two_files(product):
    product.new("policies/doubling.py", DOUBLING)
    product.put(
        "policies/__init__.py",
        "from parley.policies.doubling import Doubling\n",
        before="from parley.policies.evidence.racing import",
    )
    product.put("policies/__init__.py", "Doubling, ", after="*(EvidenceRacing, ")
    assert len(product.touched) == 2

    summary = product.passes("tests/policies/test_conformance.py", "-k", "doubling")
    assert "passed" in summary
    assert int(summary.split()[0]) >= 10, "the conformance suite runs over it"
    study = str(ROOT / "examples" / "paper.toml")
    words = ("--policy", "doubling", "--replications", "20", "--seed", "1", "--json")
    found = json.loads(product.run("parley", "simulate", study, *words))
    assert found["policy"] == "doubling"
    assert found["error_rate"] <= 0.1
