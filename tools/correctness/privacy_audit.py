"""`python -m tools.correctness.privacy_audit`: how much do reports reveal about one person? A lower bound on epsilon.

The same cell is reported again and again, and so is a neighbour in which one person has another outcome. For every
event E, (epsilon, delta)-privacy means P(E | neighbour) <= exp(epsilon) P(E | cell) + delta, and the same with the two
swapped. So counts of E in many reports bound epsilon from below, by Clopper-Pearson limits for both probabilities at a
level that is split over all events. The events are "the sum is at least t" and "the sum is at most t".

The reports are made by the code of a site (`Disclosure`), but without the file that remembers noise, which would give
the same sums the same noise each time. Each report here has a thousand identical cells.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import beta
from tools.pages import table

from parley.agent.journal import RulesSeen
from parley.agent.plans import AgentPlan
from parley.agent.privacy import Disclosure, ReportNoise
from parley.rewards.privacy import DELTA, epsilon
from parley.totals import Totals

CELLS, PEOPLE, LEVEL = 1000, 10, 0.01


class Forgetful:
    """Replaces the outbox, so that every report has fresh noise."""

    def noisy(self, phase, exact, draw):
        return draw(1), 1


def reported(disclosure: Disclosure, ones: int, cells: int) -> np.ndarray:
    """The reported sums of `cells` cells, each with `ones` people whose outcome is 1."""
    drawn = Totals.of([[1.0] * ones + [0.0] * (PEOPLE - ones)] * CELLS)
    plan = AgentPlan(
        study="s", agent="a", stage="running", reason="", phase=1, plan="0" * 64, reported=False, frozen=False,
        arms=tuple(map(str, range(CELLS))), draws=(PEOPLE,) * CELLS, rho=1.0,
    )  # fmt: skip
    return np.concatenate([disclosure.report(plan, drawn, Forgetful()).sums for _ in range(cells // CELLS)])


def lower_bound(one: np.ndarray, other: np.ndarray) -> float:
    """A lower bound on epsilon with confidence 1 - LEVEL."""
    thresholds = np.unique(np.concatenate([one, other]))
    each = LEVEL / (8 * len(thresholds))  # two kinds of events, two directions, two limits
    found = 0.0
    for first, second in ((one, other), (other, one)):
        for sign in (1, -1):
            seen, against = (np.sort(sign * values) for values in (first, second))
            hits = len(seen) - np.searchsorted(seen, sign * thresholds)
            misses = len(against) - np.searchsorted(against, sign * thresholds)
            low = np.where(hits > 0, beta.ppf(each, np.maximum(hits, 1), len(seen) - hits + 1), 0.0)
            lost = len(against) - misses
            high = np.where(lost > 0, beta.ppf(1 - each, misses + 1, np.maximum(lost, 1)), 1.0)
            found = max(found, float(np.log(np.maximum(low - DELTA, 1e-300) / high).max()))
    return found


def audited(rho: float, cells: int, *, shrunk: float = 1.0) -> float:
    """The lower bound for a study with this rho, if the noise has only `shrunk` times its proper standard deviation."""
    study, noise = RulesSeen(rho=rho), ReportNoise(sensitivity=1, rho=rho / shrunk**2)
    disclosure = Disclosure(study, noise=noise)
    return lower_bound(reported(disclosure, PEOPLE // 2, cells), reported(disclosure, PEOPLE // 2 + 1, cells))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.correctness.privacy_audit", description=__doc__)
    parser.add_argument("--cells", type=int, default=500_000, help="reported of either of the two neighbours")
    parser.add_argument("--rho", type=float, action="append", help="of the study; default: 0.05")
    options = parser.parse_args()
    cells, rows, well = options.cells, [], True
    for rho in options.rho or [0.05]:
        stated, whole, half = epsilon(rho), audited(rho, cells), audited(rho, cells, shrunk=0.5)
        well &= whole <= stated < half
        rows.append([f"{rho:g}", f"{stated:.2f}", f"{whole:.2f}", f"{half:.2f}"])
    print(table(["rho", "epsilon, stated", "epsilon, at least", "at least, with half the noise"], rows))
    print(f"{2 * cells:,} cells a number, confidence {1 - LEVEL:g}, delta {DELTA:g}")
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
