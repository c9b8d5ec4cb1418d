"""What no policy can do without: samples, regret, money and days, each a program with its certificate."""

from parley.bounds.paper import (
    Bound,
    Bounds,
    Guarantee,
    bai,
    bai_relaxed,
    exact_rates,
    expected_samples,
    identification,
    lower_bounds,
    oracle,
    regret,
    regret_relaxed,
)

__all__ = [
    "Bound",
    "Bounds",
    "Guarantee",
    "bai",
    "bai_relaxed",
    "exact_rates",
    "expected_samples",
    "identification",
    "lower_bounds",
    "oracle",
    "regret",
    "regret_relaxed",
]
