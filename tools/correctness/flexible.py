"""Error rates at near-ties if counts differ from the plan, by chance or because a site chooses by the rewards.

`python -m tools.correctness flexible` runs every cell and rewrites the table in docs/appendix/site.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tools.correctness.common import APPENDIX, SEED
from tools.correctness.near_ties import Cell, allowance
from tools.pages import fill, table

from parley.policies import make_policy
from parley.problem import IntArray
from parley.simulation import make_environment
from parley.simulation.simulate import Environment
from parley.totals import Totals

PHASES = 12
LOOKS = 20  # how often a peeking site looks at its data within a phase
HIDDEN = 20  # of this many outcomes of the first arm, the best one is marked as missing
SINGLES = 2**22  # single rewards in memory at once
HONEST = ("as planned", "50 to 150 %", "missing, cut")
Site = Callable[[np.random.Generator, Environment, IntArray], Totals]


def as_planned(generator: np.random.Generator, draw: Environment, quotas: IntArray) -> Totals:
    """Honest sites: exactly the plan."""
    return draw(generator, quotas)


def half_to_more(generator: np.random.Generator, draw: Environment, quotas: IntArray) -> Totals:
    """Honest sites: every cell has 50 to 150 % of its plan, at random."""
    return draw(generator, np.rint(quotas * generator.uniform(0.5, 1.5, quotas.shape)).astype(np.int64))


def some_missing(generator: np.random.Generator, draw: Environment, quotas: IntArray) -> Totals:
    """Honest sites: 3 % of outcomes never come, and one phase in five is closed without an agent's report."""
    counts = generator.binomial(quotas, 0.97)
    present = generator.random((*quotas.shape[:-2], 1, quotas.shape[-1])) < 0.8
    return draw(generator, counts * present)


def stops_at_a_lead(generator: np.random.Generator, draw: Environment, quotas: IntArray) -> Totals:
    """A mutant: looks at its data twenty times, up to 150 % of the plan, and stops if arm 2 leads by 1.5 errors."""
    part = -(-3 * quotas // (2 * LOOKS))
    counts, sums, squares = np.zeros_like(quotas), np.zeros(quotas.shape), np.zeros(quotas.shape)
    going = np.ones(quotas.shape[:-2], dtype=bool)
    for _ in range(LOOKS):
        more = draw(generator, part * going[..., None, None])
        counts, sums, squares = counts + more.counts, sums + more.sums, squares + more.require_squares()
        drawn = np.maximum(counts, 1)
        lead = (sums / drawn)[..., 1, :] - (sums / drawn)[..., 0, :]
        error = np.sqrt(1 / drawn[..., 0, :] + 1 / drawn[..., 1, :])
        going = going & ~(lead > 1.5 * error).any(axis=-1)
    return Totals(counts=counts, sums=sums, squares=squares)


def drops_phases(generator: np.random.Generator, draw: Environment, quotas: IntArray) -> Totals:
    """A mutant: an agent reports a phase only if the second arm leads in it."""
    found = draw(generator, quotas)
    means = found.sums / np.maximum(found.counts, 1)
    kept = (means[..., 1, :] > means[..., 0, :])[..., None, :]
    return Totals(counts=found.counts * kept, sums=found.sums * kept, squares=found.require_squares() * kept)


def hides_the_best(generator: np.random.Generator, draw: Environment, quotas: IntArray) -> Totals:
    """A mutant: in every phase, the best twentieth of the first arm's outcomes is marked as missing."""
    found, longest = draw(generator, quotas), max(int(quotas[:, 0].max()), 1)
    counts, sums, squares = found.counts.copy(), found.sums.copy(), found.require_squares().copy()
    at_once = max(1, SINGLES // (longest * quotas[0].size))
    rank = np.arange(longest)[:, None, None]
    for first in range(0, len(quotas), at_once):
        some, asked = slice(first, first + at_once), quotas[first : first + at_once, 0]
        single = draw(generator, np.ones((longest, *quotas[some].shape), dtype=np.int64)).sums[:, :, 0]
        single = -np.sort(-np.where(rank < asked, single, -np.inf), axis=0)  # the best first
        single = np.where((rank >= asked // HIDDEN) & (rank < asked), single, 0.0)
        counts[some, 0] -= asked // HIDDEN
        sums[some, 0], squares[some, 0] = single.sum(axis=0), (single**2).sum(axis=0)
    return Totals(counts=counts, sums=sums, squares=squares)


SITES: dict[str, tuple[Site, str]] = {
    "as planned": (as_planned, "exactly the plan"),
    "50 to 150 %": (half_to_more, "every cell at random between half and one and a half of its plan"),
    "missing, cut": (some_missing, "3 % of outcomes missing, and every fifth agent not waited for"),
    "stops at a lead": (stops_at_a_lead, "looks at the outcomes and stops when the second arm leads"),
    "drops phases": (drops_phases, "reports nothing of a phase unless the second arm leads in it"),
    "hides the best": (hides_the_best, "marks the best twentieth of the first arm's outcomes as missing"),
}


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result for one policy, near-tie and way of delivering counts."""

    error_rate: float
    samples: float

    def kept(self, delta: float, replications: int) -> bool:
        return self.error_rate <= allowance(delta, replications)


def deliver(cell: Cell, how: str, *, policy: str = "evidence", replications: int, seed: int) -> Found:
    """Run a policy on a near-tie for some phases with counts delivered as `how`; how often a true top arm was lost."""
    instance = cell.instance
    made, draw = make_policy(policy, instance.problem), make_environment(instance)
    state, generator = made.start((replications,)), np.random.default_rng([seed, len(how)])
    for _ in range(PHASES):
        state = made.update(state, SITES[how][0](generator, draw, made.plan(state)))
    top = made.answers(state)[:, : cell.top, :] if hasattr(made, "answers") else state.active[:, : cell.top, :]
    return Found(error_rate=float((~top).any(axis=(1, 2)).mean()), samples=float(state.counts.sum(axis=(1, 2)).mean()))


# policy, near-tie, replications at full size
CELLS = (
    ("evidence", Cell(arms=2, agents=1), 20_000),
    ("evidence", Cell(arms=5, agents=3, mixed=True), 2_000),
    ("evidence", Cell(arms=2, agents=3, noise="binary 0.1", mixed=True), 2_000),
    ("wcpe", Cell(arms=2, agents=1), 20_000),
)
MOST_SINGLE = 200  # replications, if single outcomes are drawn
PAGE = APPENDIX / "site.md"


def flexible(share: float = 1.0) -> bool:
    """Run every cell and rewrite the page; returns whether honest sites stay below delta and mutants do not."""
    lines, good, caught = [], True, False
    for policy, cell, full in CELLS:
        replications = max(200, round(full * share))
        row = [policy, cell.noise, f"{cell.arms} x {cell.agents}", f"{replications:,}"]
        for how in SITES:
            runs = min(replications, MOST_SINGLE) if how == "hides the best" else replications
            found = deliver(cell, how, policy=policy, replications=runs, seed=SEED)
            row.append(f"{found.error_rate:.4f}")
            if how in HONEST:
                good &= found.kept(cell.delta, replications)
            else:
                caught |= not found.kept(cell.delta, replications)
        lines.append(row)
        print(" | ".join(row), flush=True)
    shown = table(("policy", "rewards", "arms x agents", "replications", *SITES), lines)
    fill(PAGE, "flexible", shown)
    return good and caught
