"""Conformance suites for policies and reward models, for packages that bring their own. Needs pytest.

A suite is a class of tests. A subclass in your tests names what it runs over, and pytest does the rest:

    from parley.testing.conformance import PolicySuite, RewardModelSuite

    class TestDoubling(PolicySuite):
        names = ("doubling",)

    class TestCoin(RewardModelSuite):
        models = {"coin": make_model(kind="coin", scale=0.5)}

`pytest --pyargs parley.testing.conformance.installed` runs both over everything that the installed packages offer.
"""

import pytest

# Before they are imported, so that a failed assertion shows the values it compared.
pytest.register_assert_rewrite("parley.testing.conformance.policies", "parley.testing.conformance.rewards")

from parley.testing.conformance.instances import random_instance, random_weights  # noqa: E402
from parley.testing.conformance.policies import PolicySuite  # noqa: E402
from parley.testing.conformance.rewards import RewardModelSuite  # noqa: E402

__all__ = ["PolicySuite", "RewardModelSuite", "random_instance", "random_weights"]
