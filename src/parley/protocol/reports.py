"""What makes a report believable: it follows the plan, and its sums can be those of rewards; the model says which."""

from __future__ import annotations

from collections.abc import Callable

from parley.errors import ImpossibleReport
from parley.protocol.deviations import check_counts
from parley.protocol.messages import Report
from parley.rewards import Flaw, RewardModel

__all__ = ["check_exactly", "check_rewards"]


def check_rewards(report: Report, draws: tuple[int, ...], noise: RewardModel, least: int | None = None) -> None:
    """Raise `ImpossibleReport` unless the counts are the planned `draws` and the sums fit the model.

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
    _check_cells(report, noise.flaw)


def check_exactly(report: Report, noise: RewardModel) -> None:
    """Raise `ImpossibleReport` unless every cell's totals are those of some rewards of this model.

    >>> from parley.rewards import Gaussian
    >>> no = Report(study="s", phase=1, agent="x", plan="ab", counts=(1,), sums=(2.0,), squares=(1e6,))
    >>> check_exactly(no, Gaussian())
    Traceback (most recent call last):
    parley.errors.ImpossibleReport: squares[0]: found 1000000.0; allowed: at most 4, with the sum 2 of 1
    """
    _check_cells(report, noise.flaw)


def _check_cells(report: Report, flaw: Callable[[int, float, float], Flaw | None]) -> None:
    for arm, cell in enumerate(zip(report.counts, report.sums, report.squares, strict=True)):
        found = flaw(*cell)
        if found is not None:
            wrong, possible = found
            raise ImpossibleReport(f"{wrong}[{arm}]", found=cell[1 if wrong == "sums" else 2], allowed=possible)
