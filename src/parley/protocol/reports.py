"""What makes a report believable: it follows the plan, and its sums can be those of real rewards."""

from __future__ import annotations

import math

from parley.errors import ImpossibleReport
from parley.protocol.cells import flaw
from parley.protocol.deviations import check_counts
from parley.protocol.messages import Report
from parley.rewards import RewardModel

__all__ = ["check_exactly", "check_rewards"]

ROUNDING = 1e-9  # relative; sums of many rewards are rounded, in any order


def check_rewards(report: Report, draws: tuple[int, ...], noise: RewardModel, least: int | None = None) -> None:
    """Raise `ImpossibleReport` unless the counts are the planned `draws` and the sums fit the noise.

    `least` is the minimum cell where other counts may be reported with a reason, None where they may not.

    >>> good = Report(study="s", phase=1, agent="x", plan="ab", counts=(2,), sums=(1.5,), squares=(1.25,))
    >>> from parley.rewards import Gaussian
    >>> check_rewards(good, (2,), Gaussian())
    >>> check_rewards(good, (3,), Gaussian())
    Traceback (most recent call last):
    parley.errors.ImpossibleReport: counts: found [2]; allowed: the plan's, [3]
    """
    if len(report.counts) != len(draws) or len(report.sums) != len(draws) or len(report.squares) != len(draws):
        lengths = f"{len(report.counts)} counts, {len(report.sums)} sums, {len(report.squares)} squares"
        raise ImpossibleReport("report", found=lengths, allowed=f"{len(draws)} of each, one per arm")
    check_counts(report, draws, flexible=least is not None, minimum_cell=least or 1)
    for arm, (count, total, square) in enumerate(zip(report.counts, report.sums, report.squares, strict=True)):
        if count == 0:
            for name, value in (("sums", total), ("squares", square)):
                if value != 0:
                    raise ImpossibleReport(f"{name}[{arm}]", found=value, allowed="0 where nothing was drawn")
            continue
        if square < 0 or abs(total) > _largest_sum(count, square):
            raise ImpossibleReport(
                f"squares[{arm}]", found=square, allowed=f"at least sum^2 / count, with the sum {total:.9g} of {count}"
            )
        if noise.low is not None and noise.high is not None:
            _check_bounds(arm, count, total, square, noise.low, noise.high)


def check_exactly(report: Report, noise: RewardModel) -> None:
    """Raise `ImpossibleReport` unless every cell's totals are those of some rewards (`cells`).

    Stricter than `check_rewards`, by which the logs of before are judged: what was taken then stands. It is asked of
    every report that comes now, and of every record that has a salt.

    >>> from parley.rewards import Gaussian
    >>> no = Report(study="s", phase=1, agent="x", plan="ab", counts=(1,), sums=(2.0,), squares=(1e6,))
    >>> check_exactly(no, Gaussian())
    Traceback (most recent call last):
    parley.errors.ImpossibleReport: squares[0]: found 1000000.0; allowed: at most 4, with the sum 2 of 1
    """
    for arm, cell in enumerate(zip(report.counts, report.sums, report.squares, strict=True)):
        found = flaw(*cell, noise.low, noise.high)
        if found is not None:
            wrong, possible = found
            raise ImpossibleReport(f"{wrong}[{arm}]", found=cell[1 if wrong == "sums" else 2], allowed=possible)


def _largest_sum(count: int, square: float) -> float:
    """Cauchy-Schwarz, |sum x| <= sqrt(n) sqrt(sum x^2), with room for rounding. No finite square overflows it.

    >>> _largest_sum(100, 1e308) < 1e200
    True
    """
    return math.sqrt(count) * math.hypot(math.sqrt(square), math.sqrt(ROUNDING)) * (1 + ROUNDING)


def _check_bounds(arm: int, count: int, total: float, square: float, low: float, high: float) -> None:
    """Raise unless `count` rewards between `low` and `high` can have this sum and this sum of squares."""
    largest = max(abs(low), abs(high))
    slack = ROUNDING * count * largest
    allowed = f"{count} rewards between {low:g} and {high:g}"
    if not count * low - slack <= total <= count * high + slack:
        raise ImpossibleReport(f"sums[{arm}]", found=total, allowed=allowed)
    if square > (count * largest + slack) * largest:
        raise ImpossibleReport(f"squares[{arm}]", found=square, allowed=f"{allowed}, each squared")
