"""What a subclass replaces is public: packages that bring a policy or a reward model rely on the same names."""

import importlib
import pkgutil

import pytest

import parley.policies
import parley.rewards
from parley.policies import Policy
from parley.rewards import RewardModel

for package in (parley.policies, parley.rewards):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def below(base):
    """All subclasses of the product, of any depth."""
    for one in base.__subclasses__():
        if one.__module__.startswith("parley."):
            yield one
        yield from below(one)


@pytest.mark.parametrize("base", [Policy, RewardModel])
def test_nothing_overrides_an_underscore_name_of_its_base(base):
    found = {
        f"{kind.__qualname__}.{name} overrides {above.__qualname__}.{name}"
        for kind in below(base)
        for name in vars(kind)
        if name.startswith("_") and not name.startswith(("__", "_abc_"))
        for above in kind.__mro__[1:]
        if name in vars(above)
    }
    assert not found
