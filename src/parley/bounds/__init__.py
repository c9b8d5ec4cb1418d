"""Lower bounds on samples, regret, money and days, each with a certificate; and the paper's guarantee for W-CPE."""

from parley.bounds.paper import (
    Bound,
    Bounds,
    Guarantee,
    RegretUntil,
    bai,
    bai_relaxed,
    bounds_are_exact,
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
    "RegretUntil",
    "bai",
    "bai_relaxed",
    "bounds_are_exact",
    "expected_samples",
    "identification",
    "lower_bounds",
    "oracle",
    "regret",
    "regret_relaxed",
]
