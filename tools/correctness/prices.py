"""Savings from planning by time and money: `make prices` rewrites part of docs/appendix/prices.md.

The instances are the paper's, with rates 1 : 3 : 10 and with prices 1 : 10 : 100, and random ones with 3 to 15 arms, 2
to 8 agents and rates uniform in 1 to 10 draws a day. Each runs twice with the same seed: planned for the fewest draws,
and for time or money.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.support import paper_study, random_weights
from tools.correctness.common import APPENDIX, SEED, in_parallel
from tools.pages import fill, table

from parley.bounds import bai
from parley.bounds.prices import cost, time
from parley.costs import days_needed
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import Outcome, simulate

RATES, PRICES = [1.0, 3.0, 10.0], [1.0, 10.0, 100.0]
DELTA, LEAST_GAP = 0.1, 0.05
INSTANCES, PAPER_REPLICATIONS = 100, 2000
ASKED = {"days": 0.88, "money": 0.93, "random": 0.80}
BY_TIME = {"price": 0.0, "day_cost": 1.0}  # only days count


def with_terms(instance: Instance, **terms: object) -> Instance:
    return Instance(problem=instance.problem.with_(**terms), means=instance.means)


def run(instance: Instance, replications: int, seed: int) -> Outcome:
    return simulate(make_policy("evidence", instance.problem), instance, replications=replications, seed=seed)


@dataclass(frozen=True, kw_only=True)
class Trade:
    """One instance, planned both ways: its cost and rounds before and after, and the ratio of the lower bounds."""

    before: float
    after: float
    rounds_before: float
    rounds_after: float
    wrong: float
    bound: float  # ratio of the costs of the cheapest allocation and of that with the fewest draws

    @property
    def ratio(self) -> float:
        return self.after / self.before


def by_time(instance: Instance, rates: object, replications: int, seed: int) -> Trade:
    known = with_terms(instance, rate=rates)
    fewest, fastest = run(known, replications, seed), run(with_terms(known, **BY_TIME), replications, seed)
    least = days_needed(bai(known, accuracy=1e-4).allocation, known.problem.rate)
    return _trade(fewest, fastest, "days", time(known, accuracy=1e-4).value / float(least))


def by_money(instance: Instance, prices: list[float], replications: int, seed: int) -> Trade:
    fewest = run(instance, replications, seed)
    stated = with_terms(instance, price=prices)
    cheapest = run(stated, replications, seed)
    least = (bai(instance).allocation * stated.problem.price).sum()
    before = float((fewest.draws * stated.problem.price).sum())
    return Trade(
        before=before,
        after=float(cheapest.money.mean()),
        rounds_before=float(fewest.rounds.mean()),
        rounds_after=float(cheapest.rounds.mean()),
        wrong=cheapest.error_rate,
        bound=cost(stated).value / float(least),
    )


def _trade(before: Outcome, after: Outcome, what: str, bound: float) -> Trade:
    return Trade(
        before=float(getattr(before, what).mean()),
        after=float(getattr(after, what).mean()),
        rounds_before=float(before.rounds.mean()),
        rounds_after=float(after.rounds.mean()),
        wrong=after.error_rate,
        bound=bound,
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """One of the random instances, by number."""

    number: int
    seed: int
    replications: int

    @property
    def instance(self) -> tuple[Instance, np.ndarray]:
        rng = np.random.default_rng((self.seed, 18, self.number))
        while True:
            arms, agents = int(rng.integers(3, 16)), int(rng.integers(2, 9))
            problem = Problem(arms=arms, weights=random_weights(rng, agents), delta=DELTA)
            instance = Instance(problem=problem, means=rng.uniform(0, 1, problem.shape))
            if instance.smallest_gap >= LEAST_GAP:
                return instance, rng.uniform(1, 10, agents)

    def run(self) -> Trade:
        instance, rates = self.instance
        return by_time(instance, rates, self.replications, self.number)


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def prices(replications: int, workers: int) -> bool:
    instance = paper_study(delta=DELTA).instance
    papers = {
        "rates 1 : 3 : 10": ("days", by_time(instance, RATES, PAPER_REPLICATIONS, SEED)),
        "prices 1 : 10 : 100": ("money", by_money(instance, PRICES, PAPER_REPLICATIONS, SEED)),
    }
    rows = [
        (
            name, what, f"{trade.before:,.0f}", f"{trade.after:,.0f}", f"{trade.ratio:.3f}", f"{ASKED[what]:g}",
            f"{trade.bound:.3f}", f"{trade.rounds_before:.2f}", f"{trade.rounds_after:.2f}", f"{trade.wrong:.4f}",
        )
        for name, (what, trade) in papers.items()
    ]  # fmt: skip
    cases = [Case(number=number, seed=SEED, replications=replications) for number in range(INSTANCES)]
    found = [trade for _, trade in in_parallel(Case.run, cases, workers)]
    mean, bound = geometric_mean([trade.ratio for trade in found]), geometric_mean([trade.bound for trade in found])
    ratios = [trade.ratio for trade in found]
    kept = mean <= ASKED["random"] and all(
        trade.ratio <= ASKED[what] and trade.rounds_after <= trade.rounds_before for what, trade in papers.values()
    )
    columns = (
        "stated", "what", "fewest draws", "planned by it", "ratio", "asked: at most", "ratio of the bounds",
        "rounds before", "after", "wrong",
    )  # fmt: skip
    before, after = (np.mean([getattr(trade, f"rounds_{when}") for trade in found]) for when in ("before", "after"))
    part = f"""The paper's instance, delta {DELTA:g}, {PAPER_REPLICATIONS:,} replications, seed {SEED}: mean days or
money of the study with the fewest draws, and of the one that is planned by time alone (`price = 0`) or by prices.

{table(columns, rows)}

{INSTANCES} random instances (3 to 15 arms, 2 to 8 agents, rates uniform in 1 to 10 a day, smallest gap at least
{LEAST_GAP:g}), {replications} replications each: {mean:.3f} of the days in geometric mean ({ASKED["random"]:g} asked,
{bound:.3f} by the bounds; from {min(ratios):.2f} to {max(ratios):.2f}), in {after:.2f} rounds where the study with the
fewest draws takes {before:.2f}. As promised: {"yes" if kept else "NO"}."""
    fill(APPENDIX / "prices.md", "figures", part)
    print(part)
    return kept
