"""A new reward model is its file, its name in the registry and a row of the test list; all else asks the model."""

COIN = '''"""Rewards that lie a known distance above or below their mean, either as likely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.validation.checks import FloatArray
from parley.rewards import sampling
from parley.rewards.gaussian import Scaled
from parley.rewards.sampling import Sampler, TiltedLaw
from parley.rewards.scales import SCALE, Scale
from parley.settings import Key

__all__ = ["Coin"]


@dataclass(frozen=True, kw_only=True)
class Coin(Scaled):
    """A coin decides whether a reward is above or below its mean, by `scale`."""

    kind: ClassVar[str] = "coin"
    description: ClassVar[str] = "above or below the mean by that scale, either as likely"
    keys: ClassVar[Mapping[str, Key]] = {"scale": SCALE}

    def samplers(self, means: FloatArray, scale: Scale | None = None) -> Mapping[str, Callable[[], Sampler]]:
        true = np.array(self.scale if scale is None else scale)
        return {"coin": lambda: sampling.two_valued(means, means - true, means + true)}

    def tilted_law(self, means: FloatArray, scale: Scale | None = None) -> TiltedLaw:
        true = np.array(self.scale if scale is None else scale)
        return sampling.tilted_two_valued(means, means - true, means + true)
'''


def test_a_reward_model_is_three_files(product):
    product.new("rewards/coin.py", COIN)
    product.put(
        "rewards/__init__.py", "from parley.rewards.coin import Coin\n", before="from parley.rewards.gaussian import"
    )
    product.put("rewards/__init__.py", "Coin, ", after="MODELS: tuple[type[RewardModel], ...] = (")
    assert len(product.touched) == 2, "and a row of the test list, tests/rewards/models.py"
    plugin = ("-p", "tests.recipes.coin_row")
    assert "passed" in product.passes(*plugin, "tests/rewards/test_conformance.py", "-k", "coin or registry")
    product.run("tests.recipes.reward_model", str(product.folder))
