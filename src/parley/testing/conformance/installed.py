"""Run the suites on all policies and reward models of other installed packages.

The command is `pytest --pyargs parley.testing.conformance.installed`. Models are made from their kind alone. If a model
requires keys, write a `RewardModelSuite` of your own.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from parley.policies import POLICIES, policy_names
from parley.rewards import KINDS, RewardModel, model_kinds, study_model
from parley.testing.conformance import PolicySuite, RewardModelSuite

__all__ = ["TestModels", "TestPolicies"]


class TestPolicies(PolicySuite):
    """The tests of policies, for the policies of other packages."""

    names: ClassVar[Sequence[str]] = [name for name in policy_names() if name not in POLICIES]


class TestModels(RewardModelSuite):
    """The tests of reward models, for the models of other packages."""

    models: ClassVar[Mapping[str, RewardModel]] = {
        kind: study_model({"kind": kind}) for kind in model_kinds() if kind not in KINDS
    }
