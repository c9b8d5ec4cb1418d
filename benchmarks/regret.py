"""Figures of regret for docs/appendix: `python -m benchmarks.regret [SECTION ...]` measures and rewrites them."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import process_time

import numpy as np

from benchmarks.common import ROOT, Section, rewrite
from parley.bounds import RegretUntil, regret
from parley.bounds.prices import regret_and_money
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import Outcome, simulate
from parley.simulation.outcome import draw_losses
from parley.study import load_study
from parley.totals import Totals
from parley.weights import personalized

PAGE = ROOT / "docs" / "appendix" / "regret.md"
SEED = 31_180  # for rewards and random instances; not used for tuning
HELD_OUT = 100
WITHOUT = {"worth": 1e12}  # everything is worth exploring
NASTY = 20
RARE_RUNS = 2_000


def played(instance: Instance, horizon: int, policy: str, runs: int, **options: object) -> Outcome:
    """Run a policy on an instance until a horizon."""
    problem = instance.problem.with_(horizon=horizon)
    truth = Instance(problem=problem, means=instance.means)
    return simulate(make_policy(policy, problem, options, truth), truth, replications=runs, seed=SEED)


def paper_instance() -> Instance:
    return load_study(ROOT / "examples" / "play.toml").require_truth()


def line(instance: Instance, horizon: int, label: str, policy: str, runs: int, **options: object) -> list[str]:
    outcome = played(instance, horizon, policy, runs, **options)
    totals, least = outcome.regret.totals, RegretUntil.of(instance, horizon)
    error = totals.std() / math.sqrt(runs)
    return [
        f"10^{round(math.log10(horizon))}",
        label,
        f"{totals.mean():,.0f} ± {error:,.0f}",
        f"{totals.mean() / least.log_bound:.2f}",
        f"{totals.mean() / least.value:.2f}",
        f"{outcome.rounds.mean():.2f}",
        f"{outcome.error_rate:.4f}",
    ]


COLUMNS = ("T", "policy", "regret ± standard error", "/ C* log T", "/ reference", "rounds", "a best arm ruled out")
CAST: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("`evidence-regret`", "evidence-regret", {}),
    ("`evidence-regret`, all explored", "evidence-regret", WITHOUT),
    ("`evidence-regret`, `rounds = 5`", "evidence-regret", {"rounds": 5}),
    ("`pf-ucb`", "pf-ucb", {}),
    ("`pf-ucb`, released radius", "pf-ucb", {"radius": "released"}),
    ("`explore-then-commit`", "explore-then-commit", {}),
)


def paper() -> Section:
    instance = paper_instance()
    rows = [
        line(instance, horizon, label, policy, 1_000, **options)
        for horizon in (10**4, 10**5, 10**6)
        for label, policy, options in CAST
    ]
    return Section(
        title="The paper's instance",
        words="alpha 0.5, Gaussian rewards, 1,000 replications (`examples/play.toml` with other horizons).",
        columns=COLUMNS,
        rows=rows,
    )


def growth() -> Section:
    """Regret at horizons from 10^3 to 10^7, and its slope in log T."""
    instance, runs = paper_instance(), 6_000
    least = regret(instance, accuracy=1e-6).value
    rows, before, slope = [], None, ""
    for power in range(3, 8):
        outcome = played(instance, 10**power, "evidence-regret", runs)
        mean, error = float(outcome.regret.totals.mean()), float(outcome.regret.totals.std()) / math.sqrt(runs)
        if before is not None:
            gained, spread = mean - before[0], math.hypot(error, before[1])
            slope = f"{gained / math.log(10) / least:.2f} ± {spread / math.log(10) / least:.2f}"
        rows.append(
            [
                f"10^{power}",
                f"{mean:,.0f}",
                f"{mean / (least * power * math.log(10)):.2f}",
                slope,
                f"{outcome.rounds.mean():.2f}",
            ]
        )
        before = mean, error
    return Section(
        title="Growth with the horizon",
        words=f"The same instance, {runs:,} replications. The slope is regret gained per unit of log T since the line "
        "before, over C*: 1 is what long horizons allow nobody to stay below.",
        columns=("T", "regret", "/ C* log T", "slope / C*", "rounds"),
        rows=rows,
    )


def tie() -> Section:
    """One agent's arms tie, and telling them apart costs the others: with the rule `worth`, and without."""
    only_the_other = Problem(arms=2, weights=[[0.0, 0.5], [1.0, 0.5]])
    ties = {
        "two agents": Instance(problem=only_the_other, means=[[2.0, 0.0], [0.0, 0.0]]),
        "three agents": Instance(
            problem=Problem(arms=2, weights=personalized(3, 0.5)), means=[[-2 / 3, 4 / 3, 4 / 3], [0.0, 0.0, 0.0]]
        ),
    }
    rows = []
    for label, instance in ties.items():
        for power in range(4, 8):
            rule, plain = (
                played(instance, 10**power, "evidence-regret", runs, **options)
                for runs, options in ((1_000, {}), (200, WITHOUT))
            )
            totals = rule.regret.totals
            rows.append(
                [
                    label,
                    f"10^{power}",
                    f"{totals.mean():,.0f} ± {totals.std() / math.sqrt(len(totals)):,.0f}",
                    f"{totals.mean() / 10 ** (2 * power / 3):.2f}",
                    f"{totals.max():,.0f}",
                    f"{plain.regret.totals.mean():,.0f}",
                    f"{rule.rounds.mean():.2f}",
                ]
            )
    return Section(
        title="Ties",
        words="Gaussian rewards, two arms, 1,000 replications (200 with everything explored). *Two agents*: the first "
        "one's arms tie, only the second one's draws tell, and cost it 1 each (weights [[0, 0.5], [1, 0.5]], means "
        "[[2, 0], [0, 0]]). *Three agents*: personalized weights, alpha 0.5, gaps 0, 1, 1.",
        columns=("tie of", "T", "regret ± standard error", "/ T^(2/3)", "largest", "all explored", "rounds"),
        rows=rows,
    )


def lost() -> Section:
    """How often the worse arm is played to the end, for one agent with two arms and small gaps."""
    rows, runs = [], 2_000
    for gap, horizon in ((0.01, 10**6), (0.03, 10**6), (0.1, 10**6), (0.1, 10**5)):
        instance = Instance(problem=Problem(arms=2, weights=[[1.0]]), means=[[gap], [0.0]])
        for label, options in (("rule", {}), ("all explored", WITHOUT)):
            totals = played(instance, horizon, "evidence-regret", runs, **options).regret.totals
            rows.append(
                [
                    f"{gap:g}",
                    f"10^{round(math.log10(horizon))}",
                    label,
                    f"{totals.mean():,.0f} ± {totals.std() / math.sqrt(runs):,.0f}",
                    f"{totals.max():,.0f}",
                    f"{int((totals > gap * horizon / 2).sum())} of {runs:,}",
                ]
            )
    return Section(
        title="Runs that lose the horizon",
        words=f"One agent, two arms, {runs:,} replications. A run has lost the horizon if it plays the worse arm more "
        "than half of the time.",
        columns=("gap", "T", "", "regret ± standard error", "largest", "lost the horizon"),
        rows=rows,
    )


def nasty_instance(rng: np.random.Generator, kind: str) -> Instance:
    """A random instance that is hard for a rule that saves exploration."""
    arms, agents = (20, 4) if kind == "many arms within 0.05" else (int(rng.integers(3, 7)), int(rng.integers(2, 6)))
    weights = rng.dirichlet(np.full(agents, 0.5), size=agents).T
    if kind == "nobody's own rewards count":
        np.fill_diagonal(weights, 0.0)
    if kind == "nearly everything is another's":
        weights = 0.05 * weights + 0.95 * np.roll(np.eye(agents), 1, axis=0)
    weights = (weights + 1e-3) / (weights + 1e-3).sum(axis=0)
    spread = 0.05 if kind == "many arms within 0.05" else 1.0
    means = spread * rng.uniform(0, 1, (arms, agents))
    if kind in ("one agent's best arms tie", "near ties of 0.001 to 0.02"):
        # Move one arm's means so that its mixed mean equals that of another, or is just below, for the first agent.
        mixed = means @ weights
        first, second = np.argsort(-mixed[:, 0])[:2]
        below = 0.0 if kind == "one agent's best arms tie" else rng.uniform(0.001, 0.02)
        means[second] += (mixed[first, 0] - mixed[second, 0] - below) / weights[:, 0].sum()
    return Instance(problem=Problem(arms=arms, weights=weights), means=means)


def nasty() -> Section:
    kinds = (
        "one agent's best arms tie",
        "near ties of 0.001 to 0.02",
        "many arms within 0.05",
        "nobody's own rewards count",
        "nearly everything is another's",
    )
    rng, horizon, runs, rows, every = np.random.default_rng(SEED), 10**5, 200, [], []
    for kind in kinds:
        ratios = []
        for _ in range(NASTY // len(kinds)):
            instance = nasty_instance(rng, kind)
            rule, plain = (
                played(instance, horizon, "evidence-regret", runs, **options).regret.totals.mean()
                for options in ({}, WITHOUT)
            )
            ratios.append(rule / plain)
        every += ratios
        rows.append([kind, f"{np.exp(np.log(ratios).mean()):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"])
    return Section(
        title="Nasty instances",
        words=f"{NASTY} random instances that were not used for tuning, T = 10^5, {runs} replications each. Regret is "
        f"{np.exp(np.log(every).mean()):.2f} of what it is with everything explored, in geometric mean, and "
        f"{max(every):.2f} at worst.",
        columns=("kind", "regret over that with everything explored", "range"),
        rows=rows,
    )


def random_instance(rng: np.random.Generator) -> Instance:
    """A random instance with 3 to 15 arms, 2 to 8 agents, general weights and a smallest gap of at least 0.02."""
    while True:
        arms, agents = int(rng.integers(3, 16)), int(rng.integers(2, 9))
        weights = rng.dirichlet(np.full(agents, 0.7), size=agents).T
        weights[np.arange(agents), np.arange(agents)] += 0.05
        problem = Problem(
            arms=arms, weights=weights / weights.sum(axis=0), noise=make_model(kind="gaussian", scale=1.0)
        )
        instance = Instance(problem=problem, means=rng.uniform(0, 1, (arms, agents)))
        if instance.smallest_gap >= 0.02:
            return instance


def held_out() -> Section:
    rng, horizon, runs = np.random.default_rng(SEED), 10**5, 20
    ours, commit, alone, ratios = [], [], [], []
    for _ in range(HELD_OUT):
        instance = random_instance(rng)
        losses = draw_losses(instance)
        mine = played(instance, horizon, "evidence-regret", runs)
        ours.append(mine.regret.totals.mean())
        ratios.append(ours[-1] / RegretUntil.of(instance, horizon, accuracy=1e-4).value)
        commit.append(played(instance, horizon, "explore-then-commit", runs).regret.totals.mean())
        single = Instance(
            problem=instance.problem.with_(weights=np.eye(instance.problem.agent_count)), means=instance.means
        )
        alone.append(float((played(single, horizon, "evidence-regret", runs).draws * losses).sum()))
    first, second, third = map(np.array, (ours, commit, alone))

    def row(label: str, other: np.ndarray) -> list[str]:
        return [label, f"{int((first < other).sum())} of {HELD_OUT}", f"{np.exp(np.log(other / first).mean()):.1f}"]

    both = int(((first < second) & (first < third)).sum())
    return Section(
        title="Random instances",
        words=f"{HELD_OUT} instances that were not used for tuning (3 to 15 arms, 2 to 8 agents, general weights, "
        f"smallest gap at least 0.02), T = 10^5, {runs} replications each. Alone, agents go by their own rewards. "
        f"Regret is {np.exp(np.log(ratios).mean()):.2f} times the reference in geometric mean, {min(ratios):.2f} to "
        f"{max(ratios):.2f}. Less than both: {both} of {HELD_OUT}.",
        columns=("against", "less regret on", "times as much regret, geometric mean"),
        rows=[row("`explore-then-commit`", second), row("every agent alone", third)],
    )


def binary() -> Section:
    """Regret for click rates of 2 to 6 %, six arms and three agents."""
    rng = np.random.default_rng(SEED)
    noise = make_model(kind="binary")
    problem = Problem(arms=6, weights=personalized(3, 0.5), noise=noise, largest_gap=0.04)
    while True:
        instance = Instance(problem=problem, means=rng.uniform(0.02, 0.06, (6, 3)))
        if instance.smallest_gap >= 0.002:
            break
    cast = [entry for entry in CAST if entry[1] != "pf-ucb" or not entry[2]]
    rows = [
        line(instance, horizon, label, policy, 300, **options)
        for horizon in (10**4, 10**5, 10**6)
        for label, policy, options in cast
    ]
    return Section(
        title="Yes or no, at rates of 2 to 6 %",
        words="Six arms, three agents, alpha 0.5, `noise = binary`, `largest_gap = 0.04`, smallest gap "
        f"{instance.smallest_gap:.4f}, 300 replications. C* is that of 0/1 rewards. `pf-ucb` takes rewards "
        "for what is known before any data, a scale of 1/2.",
        columns=COLUMNS,
        rows=rows,
    )


def rare() -> Section:
    """Regret for rates of a few in a thousand: after n draws without success, the rate may still be 1 / n."""
    rates, rows = (0.003, 0.001, 0.001), []
    stated: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
        "`evidence-regret`": ("evidence-regret", {}, {}),
        "`evidence-regret`, `rate = 0.001` stated": ("evidence-regret", {"rate": 0.001}, {}),
        "`evidence-regret`, `largest_gap = 0.02` stated": ("evidence-regret", {}, {"largest_gap": 0.02}),
        "`explore-then-commit`": ("explore-then-commit", {}, {}),
    }
    for horizon in (10**6, 10**7):
        for label, (policy, keys, settings) in stated.items():
            problem = Problem(arms=3, weights=[[1.0]], noise=make_model(kind="binary", **keys), **settings)
            instance = Instance(problem=problem, means=[[rate] for rate in rates])
            outcome = played(instance, horizon, policy, RARE_RUNS)
            totals = outcome.regret.totals
            lost = int((totals > (rates[0] - rates[1]) * horizon / 2).sum())
            rows.append(
                [
                    f"10^{round(math.log10(horizon))}",
                    label,
                    f"{totals.mean():,.0f} ± {totals.std() / math.sqrt(RARE_RUNS):,.1f}",
                    f"{totals.max():,.0f}",
                    f"{lost} of {RARE_RUNS:,}",
                    f"{outcome.rounds.mean():.1f}",
                ]
            )
    return Section(
        title="Rare rates",
        words=f"One agent, rates 0.003, 0.001 and 0.001, {RARE_RUNS:,} replications. *Lost* as above.",
        columns=("T", "policy", "regret ± standard error", "largest", "lost the horizon", "rounds"),
        rows=rows,
    )


def explored_draws(instance: Instance, horizon: int, runs: int) -> tuple[np.ndarray, np.ndarray, float]:
    """`(arm, agent)`: mean draws, and mean draws of arms that did not lead at the time; and the mean rounds."""
    truth = Instance(problem=instance.problem.with_(horizon=horizon), means=instance.means)
    policy = make_policy("evidence-regret", truth.problem)
    rng, state, explored = np.random.default_rng(SEED), policy.start((runs,)), np.zeros(truth.problem.shape)
    while not state.finished.all():
        quotas = policy.plan(state)
        leading = policy.leaders(state) & (state.phase > 0)[:, None, None]
        explored += np.where(leading, 0, quotas).sum(axis=0)
        sums = quotas * truth.means + np.sqrt(quotas) * rng.standard_normal(quotas.shape)
        state = policy.update(state, Totals(counts=quotas, sums=sums))
    return state.counts.mean(axis=0), explored / runs, float(policy.rounds_of(state).mean())


def prices() -> Section:
    """Regret if draws also cost money, more at some sites than at others."""
    instance, runs, horizon, rows = paper_instance(), 1_000, 10**5, []
    for stated in ([0.05, 0.5, 5.0], [5.0, 0.5, 0.05]):
        priced = Instance(problem=instance.problem.with_(price=stated), means=instance.means)
        least = regret_and_money(priced, accuracy=1e-6).value * math.log(horizon)
        for label, asked in (("without prices", instance), ("with them", priced)):
            draws, explored, rounds = explored_draws(asked, horizon, runs)
            cost = float((draws * draw_losses(instance)).sum() + (explored * np.array(stated)).sum())
            each = ", ".join(f"{one:,.0f}" for one in explored.sum(axis=0))
            told = ", ".join(f"{one:g}" for one in stated)
            rows.append([told, label, f"{cost:,.0f}", f"{cost / least:.2f}", each, f"{rounds:.2f}"])
    return Section(
        title="Prices beside gaps",
        words=f"The paper's instance, T = 10^5, {runs:,} replications. Every draw costs its gap. One that explores, of "
        "an arm that does not lead, also costs its price, which differs by agent. The bound is that of "
        "`regret_and_money`, times log T.",
        columns=("price by agent", "planned", "regret and prices", "/ bound", "draws explored by each", "rounds"),
        rows=rows,
    )


def speed() -> Section:
    instance, rows = paper_instance(), []
    for horizon in (10**4, 10**6, 10**8):
        played(instance, horizon, "evidence-regret", 256)
        begun = process_time()
        played(instance, horizon, "evidence-regret", 4_096)
        rows.append([f"10^{round(math.log10(horizon))}", f"{4_096 / (process_time() - begun):,.0f}"])
    return Section(
        title="Speed",
        words="`evidence-regret`, paper's instance, runs a second of processor time. Phases cost, draws do not.",
        columns=("T", "runs a second"),
        rows=rows,
    )


SECTIONS: dict[str, Callable[[], Section]] = {
    "paper": paper,
    "growth": growth,
    "tie": tie,
    "lost": lost,
    "nasty": nasty,
    "held_out": held_out,
    "binary": binary,
    "rare": rare,
    "prices": prices,
    "speed": speed,
}


if __name__ == "__main__":
    rewrite(PAGE, SECTIONS)
