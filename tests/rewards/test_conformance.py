"""The suite of `parley.testing.conformance` over every reward model, and what it finds in models that bound nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest
from tests.rewards.models import MODELS

from parley import rewards
from parley.rewards import KINDS
from parley.rewards.gaussian import Scaled
from parley.rewards.plausibility import flaw
from parley.settings import Key
from parley.testing.conformance import RewardModelSuite


class TestEveryModel(RewardModelSuite):
    models = MODELS


def test_every_model_of_the_registry_is_tried():
    missing = set(rewards.MODELS) - {type(model) for model in MODELS.values()}
    assert not missing, f"no row in tests/rewards/models.py: {', '.join(sorted(kind.__name__ for kind in missing))}"


@dataclass(frozen=True, kw_only=True)
class OneEnd(Scaled):
    """Rewards that are at least 0, passed off as rewards in a range: no report of its would ever be held."""

    kind: ClassVar[str] = "one end"
    description: ClassVar[str] = "at least 0"
    keys: ClassVar[Mapping[str, Key]] = KINDS["subgaussian"].keys
    low: ClassVar[float] = 0.0
    usual_mean: ClassVar[float] = 1.0

    def flaw(self, count, total, square):
        return ("sums", "at least 0") if total < 0 else flaw(count, total, square, None, None)

    def variance_ceiling(self, past, phases):
        return None


@dataclass(frozen=True, kw_only=True)
class Unheld(OneEnd):
    """The same, with means that are plausible whatever they are."""

    def variance_ceiling(self, past, phases):
        return Scaled.variance_ceiling(self, past, phases)

    def implausible_mean(self, counts, sums, past, agent, largest_gap):
        return None


def test_one_end_is_no_range():
    model, suite = OneEnd(scale=1.0), RewardModelSuite()
    assert not model.in_range
    with pytest.raises(AssertionError, match="one end alone bounds no mean"):
        suite.test_it_asks_for_plausible_means_exactly_where_nothing_bounds_them(model)
    with pytest.raises(AssertionError, match="neither refused nor held"):
        suite.test_an_absurd_report_is_refused_or_held(model)


def test_a_model_that_holds_nothing_is_found():
    with pytest.raises(AssertionError):
        RewardModelSuite().test_an_absurd_report_is_refused_or_held(Unheld(scale=1.0))
