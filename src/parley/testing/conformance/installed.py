"""The suites over everything that installed packages offer: `pytest --pyargs parley.testing.conformance.installed`.

A model is made from its kind alone. If it needs keys, write a `RewardModelSuite` of your own.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from parley.policies import POLICIES, policy_names
from parley.rewards import KINDS, RewardModel, model_kinds, study_model
from parley.testing.conformance import PolicySuite, RewardModelSuite

__all__ = ["TestModels", "TestPolicies"]


class TestPolicies(PolicySuite):
    """Policies of other packages."""

    names: ClassVar[Sequence[str]] = [name for name in policy_names() if name not in POLICIES]


class TestModels(RewardModelSuite):
    """Reward models of other packages."""

    models: ClassVar[Mapping[str, RewardModel]] = {
        kind: study_model({"kind": kind}) for kind in model_kinds() if kind not in KINDS
    }
