"""Evidence racing and others on the same instances: `python -m benchmarks.peers [SECTION ...]` rewrites docs/peers.md.

One agent: ten arms, 0.5 against 0.2 to 0.34, yes or no, and its Gaussian twin. Three agents: the paper's instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tools.correctness.rewards import TEN

from benchmarks.common import ROOT, Section, rewrite
from benchmarks.peer_races import elimination, every_draw, geometric, kl_lucb
from benchmarks.peer_rules import Bernoulli, Family, Normal, Peer, Threshold, track_and_stop
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.study import load_study

PAGE = ROOT / "docs" / "peers.md"
SEED = 1606
MEANS = np.array(TEN)[:, 0]
TRACKED, SLOW, QUICK = 200, 100, 2_000  # replications
DELTAS = (0.1, 0.01)
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
    """Lines of Chernoff's stopping rule, the sharpest that is proven first, and whether it is."""
    arms = len(MEANS)
    lines: dict[str, tuple[Threshold, str]] = {}
    if isinstance(family, Bernoulli):
        lines["log(2 t (K - 1) / delta)"] = lambda total, _one, _two: np.log(2 * total * (arms - 1) / delta), "yes"
    lines["Kaufmann and Koolen 2021"] = family.threshold(arms, delta), "yes"
    lines["log((1 + log t) / delta)"] = lambda total, _one, _two: np.log((1 + np.log(total)) / delta), "none"
    return lines


def alone(family: Family, noise: dict[str, object], title: str) -> Section:
    """One agent, ten arms."""
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


SECTIONS: dict[str, Callable[[], Section]] = {
    "binary": lambda: alone(Bernoulli(), {"kind": "binary"}, "yes or no"),
    "gaussian": lambda: alone(Normal(0.5), {"kind": "gaussian", "scale": 0.5}, "Gaussian of scale 0.5"),
    "together": together,
}


if __name__ == "__main__":
    rewrite(PAGE, SECTIONS)
