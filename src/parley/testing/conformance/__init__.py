"""Conformance suites, for packages that provide their own policies or reward models. Requires pytest.

A suite is a class of tests. Subclass it in your tests, name the policies or models to test, and pytest runs the tests:

    from parley.testing.conformance import PolicySuite, RewardModelSuite

    class TestDoubling(PolicySuite):
        names = ("doubling",)

    class TestCoin(RewardModelSuite):
        models = {"coin": make_model(kind="coin", scale=0.5)}

`pytest --pyargs parley.testing.conformance.installed` runs both suites on policies and models of installed packages.
"""

import pytest

# pytest must rewrite these modules before they are imported, so that a failed assertion prints the compared values.
pytest.register_assert_rewrite("parley.testing.conformance.policies", "parley.testing.conformance.rewards")

from parley.testing.conformance.instances import random_instance, random_weights  # noqa: E402
from parley.testing.conformance.policies import PolicySuite  # noqa: E402
from parley.testing.conformance.rewards import RewardModelSuite  # noqa: E402

__all__ = ["PolicySuite", "RewardModelSuite", "random_instance", "random_weights"]
