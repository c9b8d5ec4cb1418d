"""Uniform phases: W-CPE without its oracle, everyone draws an arm equally often. Shows what the oracle saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.policies.wcpe import Wcpe
from parley.problem import FloatArray

__all__ = ["Uniform"]


@dataclass(frozen=True, kw_only=True)
class Uniform(Wcpe):
    """Options as for `wcpe`; `accuracy` is not used: equal counts have a closed form."""

    name: ClassVar[str] = "uniform"

    @property
    def _by_arm(self) -> bool:
        """Earlier editions of the rules took the first arm's scatter for every arm's: stored studies go on so."""
        return super()._by_arm and self.problem.rules >= 3

    def _solve(self, proxies: FloatArray) -> FloatArray:
        # With equal counts x, sum_n w_nm^2 / x <= proxy^2 for every agent asks for the largest ratio.
        variance = self.problem.noise.variance
        if isinstance(variance, float):
            variances = variance * self.problem.squared_weights.sum(axis=0)
        else:
            variances = self.problem.mixed_variances(np.ones(self.problem.shape, dtype=np.int64))
        needed = (variances / np.square(proxies)).max(axis=-1, keepdims=True)
        weighed = self.problem.squared_weights.any(axis=1)  # nobody asks for draws that nobody's mix holds
        return np.asarray(needed * weighed)
