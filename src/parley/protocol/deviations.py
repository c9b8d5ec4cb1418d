"""Reports with other counts than the plan's: when they are taken, and the reasons that may be declared.

The guarantee needs counts that do not depend on the rewards of the same phase (docs/evidence-racing.md). So a report
that deviates says why, from a list in which the rewards do not occur; nobody can check it, but nobody can say later
that it was not asked. A report with fewer draws than planned says that it is `final`: a part sent by mistake is
refused.
"""

from __future__ import annotations

from parley.errors import ImpossibleReport
from parley.protocol.messages import Report

__all__ = ["REASONS", "check_counts"]

# The word in a report -> what it means to people.
REASONS: dict[str, str] = {
    "missing-outcomes": "outcomes that never came",
    "too-few-people": "fewer people came than were asked for",
    "more-people": "more people came than were asked for",
    "end-of-period": "a period that was fixed beforehand ended",
    "supply": "an arm could not be given any more",
    "staff": "the site could not go on, for reasons of its own",
}


def check_counts(report: Report, draws: tuple[int, ...], *, flexible: bool, minimum_cell: int) -> None:
    """Raise `ImpossibleReport` unless the counts are the planned `draws`, or may be others and say why.

    >>> short = Report(study="s", phase=1, agent="x", plan="ab", counts=(16,), sums=(1.5,), squares=(1.25,))
    >>> check_counts(short, (17,), flexible=False, minimum_cell=1)
    Traceback (most recent call last):
    parley.errors.ImpossibleReport: counts: found [16]; allowed: the plan's, [17]
    """
    if report.missing and (len(report.missing) != len(draws) or min(report.missing) < 0):
        raise ImpossibleReport("missing", found=some(report.missing), allowed="a count per arm, or nothing")
    if report.counts == draws:
        if report.reason or report.final:
            raise ImpossibleReport("reason", found=repr(report.reason), allowed="none, with the counts of the plan")
        return
    if not flexible or not report.reason:
        ways = f"Others are taken with a `reason` ({', '.join(REASONS)}) and, if they are fewer, `final`"
        allowed = f"the plan's, {some(draws)}"
        raise ImpossibleReport("counts", found=some(report.counts), allowed=allowed, hint=ways if flexible else None)
    if report.reason not in REASONS:
        raise ImpossibleReport("reason", found=repr(report.reason)[:60], allowed=", ".join(REASONS))
    for arm, (count, asked) in enumerate(zip(report.counts, draws, strict=True)):
        if count < asked and not report.final:
            allowed = "true: with fewer draws than planned, this agent's part of the phase is closed"
            raise ImpossibleReport("final", found="false", allowed=allowed)
        if count and not asked:
            raise ImpossibleReport(f"counts[{arm}]", found=count, allowed="0: the plan does not ask for this arm")
        if 0 < count < minimum_cell:
            allowed = f"0 or at least {minimum_cell}, the study's minimum cell"
            raise ImpossibleReport(f"counts[{arm}]", found=count, allowed=allowed)


def some(numbers: tuple[int, ...]) -> str:
    """The first few of many.

    >>> some((1, 2))
    '[1, 2]'
    """
    shown = ", ".join(map(str, numbers[:8]))
    return f"[{shown}]" if len(numbers) <= 8 else f"[{shown}, ... {len(numbers)} in all]"
