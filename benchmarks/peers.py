"""Evidence racing and other algorithms on the same instances; `python -m benchmarks.peers` rewrites docs/appendix.

Sections may be named on the command line. The instances are: one agent with ten arms, rates of 0.5 and of 0.2 to 0.34,
and its Gaussian version, also at a tiny delta; the paper's instance with three agents; and clients of a server that
look for their own best arms and for the best on average, or share some of the arms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from tools.correctness.rewards import TEN

from benchmarks.common import ROOT, Section, rewrite
from benchmarks.peer_federated import Federated, fed_elim, het_ts
from benchmarks.peer_races import Batches, batched, elimination, every_draw, geometric, kl_lucb
from benchmarks.peer_rules import (
    Bernoulli,
    Family,
    Floats,
    Normal,
    Peer,
    Threshold,
    likelihood_ratios,
    optimal_shares,
    track_and_stop,
)
from parley.experiments.forecasts.comparison import compare
from parley.experiments.forecasts.plan_page import designs_table
from parley.experiments.forecasts.planning import Planner
from parley.experiments.forecasts.power import operating_scenarios
from parley.experiments.forecasts.scenarios import usual_gaps
from parley.experiments.forecasts.selection import DroppingTrial, Selection, bechhofer, bechhofer_draws, kn
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.study import Study, load_study, parse_study

PAGE = ROOT / "docs" / "appendix" / "peers.md"
SEED = 1606
MEANS = np.array(TEN)[:, 0]
TRACKED, SLOW, QUICK = 200, 100, 2_000  # replications
DELTAS = (0.1, 0.01)
SELECTIONS, PROVEN = 300, 0.95
PLANNED = 400  # studies per truth of a whole plan
# The textbook trial: one hospital, usual care and a treatment, 0/1 outcomes.
TWO_ARMS = {
    "arms": ["usual care", "A"],
    "agents": ["Paris"],
    "delta": 0.05,
    "tolerance": 0.05,
    "control": "usual care",
    "noise": {"kind": "binary", "rate": 0.25, "inference": "normal"},
}
SELECTED = ((0.0,) * 2, (0.0,) * 4, (0.0,) * 8, (0.2, 0.0, 0.0, 0.0), (0.3, 0.0, 0.0, 0.0), (0.5, *[0.0] * 9))
SELECTED_RATES = ((0.25, 0.25, 0.25), (0.3, 0.25, 0.25), (0.35, 0.25, 0.25))
TINY = (1e-5, 1e-20, 1e-100)
CLIENTS = np.array([[0.9, 0.3, 0.2], [0.4, 0.8, 0.3], [0.1, 0.2, 0.9], [0.5, 0.6, 0.7]])  # (arm, client)
# Four arms shared by three clients, and four others shared by two: a column per client.
SHARED = np.array(
    [[0.9, 0.4, 0.8, 0.2, 0.6], [0.4, 0.5, 0.3, 0.9, 0.7], [0.3, 0.2, 0.1, 0.5, 0.5], [0.1, 0.5, 0.0, 0.1, 0.3]]
)
TALKING = ("delta", "rule", "replications", "samples ± standard error", "of the busiest client", "rounds")
TALKING += ("numbers sent", "wrong", "guarantee")
COLUMNS = ("delta", "rule", "replications", "samples ± standard error", "rounds", "wrong", "guarantee")


def row(delta: float, label: str, peer: Peer, guarantee: str) -> list[str]:
    runs = len(peer.samples)
    error = peer.samples.std() / math.sqrt(runs)
    return [
        f"{delta:g}",
        label,
        f"{runs:,}",
        f"{peer.samples.mean():,.0f} ± {error:,.0f}",
        f"{peer.rounds.mean():,.1f}",
        f"{peer.wrong.mean():.4f}",
        guarantee,
    ]


def ours(instance: Instance, policy: str, runs: int = QUICK, **options: object) -> Peer:
    made = make_policy(policy, instance.problem, options, instance)
    outcome = simulate(made, instance, replications=runs, seed=SEED)
    return Peer(outcome.costs.astype(np.float64), outcome.rounds.astype(np.float64), outcome.mistaken.astype(float))


def thresholds(family: Family, delta: float) -> dict[str, tuple[Threshold, str]]:
    """Thresholds of Chernoff's stopping rule, the sharpest proven one first, and whether each is proven."""
    arms = len(MEANS)
    lines: dict[str, tuple[Threshold, str]] = {}
    if isinstance(family, Bernoulli):
        lines["log(2 t (K - 1) / delta)"] = lambda total, _one, _two: np.log(2 * total * (arms - 1) / delta), "yes"
    lines["Kaufmann and Koolen 2021"] = family.threshold(arms, delta), "yes"
    lines["log((1 + log t) / delta)"] = lambda total, _one, _two: np.log((1 + np.log(total)) / delta), "none"
    return lines


def alone(family: Family, noise: dict[str, object], title: str) -> Section:
    """The section for one agent with ten arms."""
    lines = {(delta, name): line for delta in DELTAS for name, line in thresholds(family, delta).items()}
    tracked = track_and_stop(family, MEANS, {key: line for key, (line, _) in lines.items()}, TRACKED, SEED)
    rows = []
    for delta in DELTAS:
        problem = Problem(arms=len(MEANS), weights=np.eye(1), noise=make_model(**noise), delta=delta)
        instance = Instance(problem=problem, means=MEANS[:, None])
        rows += [
            row(delta, f"**`evidence`**{extra}", ours(instance, "evidence", **options), "yes")
            for extra, options in (("", {}), (", `caution = 1`", {"caution": 1.0}), (", `rounds = 4`", {"rounds": 4}))
        ]
        rows += [
            row(delta, f"Track-and-Stop, {name}", tracked[delta, name], said)
            for (at, name), (_, said) in lines.items()
            if at == delta
        ]
        rows.append(row(delta, "KL-LUCB", kl_lucb(family, MEANS, delta, SLOW, SEED), "yes"))
        races = {
            "successive elimination": every_draw(),
            "batched elimination, doubling": geometric(20, 2),
            "batched elimination, fourfold": geometric(20, 4),
        }
        for name, looks in races.items():
            runs = SLOW if name == "successive elimination" else QUICK
            rows.append(row(delta, name, elimination(family, MEANS, delta, looks, runs, SEED), "yes"))
        rows.append(row(delta, "`wcpe`", ours(instance, "wcpe", 200), "yes"))
    return Section(title=f"Ten arms, {title}", words=f"Seed {SEED}.", columns=COLUMNS, rows=rows)


def together() -> Section:
    rows = []
    study = load_study(ROOT / "examples" / "paper.toml").require_truth()
    for delta in DELTAS:
        problem = study.problem.with_(delta=delta)
        instance = Instance(problem=problem, means=study.means)
        for label, policy, options in (
            ("**`evidence`**", "evidence", {}),
            ("**`evidence`**, `rounds = 4`", "evidence", {"rounds": 4}),
            ("`wcpe` (W-CPE-BAI)", "wcpe", {}),
            ("`pf-ucb-bai` (PF-UCB-BAI)", "pf-ucb-bai", {}),
        ):
            rows.append(row(delta, label, ours(instance, policy, 1_000, **options), "yes"))
    return Section(title="Three agents, the paper's instance", words=f"Seed {SEED}.", columns=COLUMNS, rows=rows)


def by_batches() -> Section:
    """The section for one agent with ten Gaussian arms and three batches, as delta goes to 0."""
    rows, family, arms = [], Normal(0.5), len(MEANS)
    for delta in TINY:
        problem = Problem(arms=arms, weights=np.eye(1), noise=make_model(kind="gaussian", scale=0.5), delta=delta)
        instance = Instance(problem=problem, means=MEANS[:, None])
        for extra, options in (("", {}), (", `rounds = 3`", {"rounds": 3})):
            rows.append(row(delta, f"**`evidence`**{extra}", ours(instance, "evidence", 500, **options), "yes"))
        proven = Batches.as_proven(delta, arms)
        for extra, constants in (("as in its theorem", proven), ("first batch of 400, no bounds", proven.kinder(400))):
            for name, eliminating in (("Tri-BBAI", False), ("Opt-BBAI", True)):
                peer = batched(family, MEANS, delta, constants, QUICK, SEED, eliminating=eliminating)
                rows.append(row(delta, f"{name}, {extra}", peer, "as delta goes to 0"))
    shares, _ = optimal_shares(family, MEANS[None])
    hardness = 1 / likelihood_ratios(family, shares, shares * MEANS)[1].min()
    words = f"Seed {SEED}. T* is {hardness:.0f}."
    return Section(title="Three batches, ten arms", words=words, columns=COLUMNS, rows=rows)


def federated(title: str, weights: Floats, means: Floats, rules: Mapping[str, Callable[[float], Federated]]) -> Section:
    """The section for clients of a server with Gaussian rewards of scale 1; an agent without weight only asks."""
    rows, clients = [], int((weights.sum(axis=1) > 0).sum())
    for delta in DELTAS:
        problem = Problem(arms=len(means), weights=weights, noise=make_model(kind="gaussian", scale=1.0), delta=delta)
        instance = Instance(problem=problem, means=means)
        for extra, options in (("", {}), (", `rounds = 4`", {"rounds": 4})):
            outcome = simulate(make_policy("evidence", problem, options), instance, replications=1_000, seed=SEED)
            rounds, wrong = outcome.rounds.astype(np.float64), outcome.mistaken.astype(np.float64)
            busiest = np.full(1, outcome.draws.sum(axis=0).max())  # by mean draws
            peer = Federated(outcome.costs.astype(np.float64), rounds, wrong, rounds * len(means) * clients, busiest)
            rows.append(talked(delta, f"**`evidence`**{extra}", peer, "at most "))
        rows += [talked(delta, name, rule(delta), "") for name, rule in rules.items()]
    return Section(title=title, words=f"Seed {SEED}.", columns=TALKING, rows=rows)


def talked(delta: float, label: str, peer: Federated, bound: str) -> list[str]:
    plain = row(delta, label, peer, "yes")
    return [*plain[:4], f"{peer.time.mean():,.0f}", plain[4], f"{bound}{peer.numbers.mean():,.0f}", *plain[5:]]


def own_and_common() -> Section:
    """FedElim's setting: every client's best arm, and the best arm on average, for which a fourth agent asks."""
    weights = np.zeros((4, 4))
    weights[:3] = np.hstack([np.eye(3), np.full((3, 1), 1 / 3)])
    rules = {
        "FedElim": lambda delta: fed_elim(CLIENTS, delta, SLOW, SEED),
        "FedElim, talking after every draw": lambda delta: fed_elim(CLIENTS, delta, SLOW, SEED, sparsely=False),
    }
    means = np.hstack([CLIENTS, np.zeros((4, 1))])
    return federated("Three clients, their best arms and that of all", weights, means, rules)


def shared_arms() -> Section:
    """Heterogeneous clients: three share four arms, two share four others; an arm's value is its mean over them."""
    weights, groups = np.zeros((5, 5)), (slice(0, 3), slice(3, 5))
    access, means = np.zeros((8, 5), dtype=np.bool_), np.zeros((8, 5))
    for place, group in enumerate(groups):
        weights[group, group] = 1 / (group.stop - group.start)
        access[4 * place : 4 * place + 4, group] = True
        means[4 * place : 4 * place + 4, group] = SHARED[:, group]

    def talking(step: float) -> Callable[[float], Federated]:
        return lambda delta: het_ts(means, access, delta, step, 50, SEED)

    rules = {f"Het-TS, talks at times {1 + step:g}^r": talking(step) for step in (0.01, 1.0)}
    return federated("Five clients, who share arms with some", weights, SHARED, rules)


def selected(instance: Instance, found: Selection, label: str) -> list[str]:
    error = found.samples.std() / math.sqrt(len(found.samples))
    means = instance.means[:, 0].tolist()
    return [
        ", ".join(f"{mean:g}" for mean in means) if len(set(means)) > 1 else f"{len(means)} arms at {means[0]:g}",
        label,
        f"{found.samples.mean():,.0f} ± {error:,.0f}",
        f"{found.rounds.mean():,.1f}",
        f"{found.bad(instance).mean():.4f}",
    ]


def as_selection(instance: Instance, runs: int) -> Selection:
    """The results of evidence racing in the format of selection procedures; -1 without an answer."""
    found = simulate(make_policy("evidence", instance.problem), instance, replications=runs, seed=SEED)
    return Selection(
        samples=found.costs.astype(np.int64), rounds=found.rounds.astype(np.int64), chosen=found.chosen[:, 0]
    )


def largest_trial(instance: Instance) -> int:
    """Draws per arm with which a trial of five looks reaches a proven answer in 95 % of ties of all arms."""
    tie = Instance(problem=instance.problem, means=np.full_like(instance.means, instance.means.max()))
    size, trial = bechhofer_draws([tie], instance.problem.tolerance), DroppingTrial.of(tie, seed=SEED, runs=QUICK)
    while trial.run(size).power(tie).mean() < PROVEN:
        size = math.ceil(1.05 * size)
    return size


def selection() -> Section:
    """Ranking and selection: find an arm within the tolerance of the best; for Gaussian rewards, then for rates."""
    rows: list[list[str]] = []
    for means in SELECTED:
        largest = max(1.0, float(np.ptp(means)))
        noise = make_model(kind="gaussian", scale=1.0)
        problem = Problem(arms=len(means), weights=np.eye(1), noise=noise, tolerance=0.1, largest_gap=largest)
        truth = Instance(problem=problem, means=np.array(means)[:, None])
        peers = {"**`evidence`**": as_selection(truth, SELECTIONS)} | fixed_and_dropping(truth)
        peers |= {
            "KN, scale known": kn(truth, 0.1, runs=SLOW, seed=SEED),
            "KN, scale known, five looks": kn(truth, 0.1, looks=5, runs=SELECTIONS, seed=SEED),
            "KN, scale from ten draws": kn(truth, 0.1, estimated=True, runs=SLOW, seed=SEED),
        }
        rows += [selected(truth, found, label) for label, found in peers.items()]
    for means in SELECTED_RATES:
        for inference in ("exact", "normal"):
            noise = make_model(kind="binary", inference=inference)
            problem = Problem(arms=3, weights=np.eye(1), noise=noise, tolerance=0.05, delta=0.05)
            truth = Instance(problem=problem, means=np.array(means)[:, None])
            rows.append(selected(truth, as_selection(truth, SELECTIONS), f"**`evidence`**, {inference}"))
        rows += [selected(truth, found, label) for label, found in fixed_and_dropping(truth).items()]
    return Section(
        title="Ranking and selection",
        words=f"One agent. First Gaussian rewards of scale 1, tolerance and delta 0.1; then rates of three arms, both "
        f"0.05. {SELECTIONS} replications, {SLOW} of KN after every draw. The trial of five looks may be as large as "
        f"proves {PROVEN:.0%} of ties. Bad: worse than the best by more than the tolerance.",
        columns=("means", "procedure", "samples ± standard error", "rounds", "bad"),
        rows=rows,
    )


def fixed_and_dropping(truth: Instance) -> dict[str, Selection]:
    draws = bechhofer_draws([truth], truth.problem.tolerance)
    return {
        "Bechhofer, fixed size": bechhofer(truth, draws, runs=SELECTIONS, seed=SEED),
        "five looks, losers dropped": DroppingTrial.of(truth, seed=SEED, runs=SELECTIONS).run(largest_trial(truth)),
    }


def designs(study: Study, title: str) -> Section:
    """A whole study compared with the designs of `parley plan`, under the truths of its operating table."""
    planner = Planner(policy="evidence", options={}, replications=PLANNED, seed=SEED)
    problem = study.problem.with_(max_samples=None)
    truths = list(operating_scenarios(problem, usual_gaps(problem)).values())
    found = compare(planner, problem, [(truth, planner.estimate(truth, problem)) for truth in truths])
    shown = designs_table("", found)
    words = (
        f"{PLANNED} studies of every truth, seed {SEED}; `study over design` is by the inference that is recommended. "
    )
    words += " ".join(sentence for sentence in found.sentences if sentence.startswith("Recommended"))
    return Section(title=title, words=words, columns=shown.head, rows=[list(map(str, row)) for row in shown.rows])


SECTIONS: dict[str, Callable[[], Section]] = {
    "binary": lambda: alone(Bernoulli(), {"kind": "binary"}, "yes or no"),
    "gaussian": lambda: alone(Normal(0.5), {"kind": "gaussian", "scale": 0.5}, "Gaussian of scale 0.5"),
    "batches": by_batches,
    "together": together,
    "own": own_and_common,
    "shared": shared_arms,
    "selection": selection,
    "hospitals": lambda: designs(load_study(ROOT / "examples" / "four-hospitals.toml"), "Four hospitals"),
    "two-arms": lambda: designs(parse_study(TWO_ARMS), "A trial of two arms"),
}


if __name__ == "__main__":
    rewrite(PAGE, SECTIONS)
