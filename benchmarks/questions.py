"""Time for further questions about the same draws: lower bounds, and the slowest phase of a study."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from benchmarks.common import Section, best_of
from parley.bounds import lower_bounds
from parley.policies import make_policy
from parley.problem import Instance
from parley.simulation import phases
from parley.study import parse_study

SITES, ARMS, SEED = 10, 6, 2026


def asked(questions: int) -> Instance:
    """A study of ten sites with `questions` questions: those of the sites, and random mixes."""
    generator = np.random.default_rng(SEED)
    sites = [f"site {place}" for place in range(SITES)]
    means = generator.normal(0, 0.3, (ARMS, SITES)) + np.linspace(0.9, 0.0, ARMS)[:, None]
    mixes = generator.dirichlet(np.ones(SITES), questions - SITES)
    further = [
        {"name": f"question {place}", "weights": dict(zip(sites, mix.tolist(), strict=True))}
        for place, mix in enumerate(mixes)
    ]
    document = {"arms": ARMS, "agents": sites, "questions": further, "largest_gap": 4.0}
    document |= {"weights": {"kind": "personalized", "alpha": 0.5}, "noise": {"kind": "gaussian", "scale": 1.0}}
    return parse_study(document | {"truth": {"means": means.tolist()}}).require_truth()


def slowest_phase(instance: Instance) -> float:
    """Seconds of the slowest step of a study, which is a decision and the next plan."""
    times, begun = [], perf_counter()
    for _ in phases(make_policy("evidence", instance.problem), instance, seed=SEED):
        times.append(perf_counter() - begun)
        begun = perf_counter()
    return max(times)


def sections() -> list[Section]:
    rows, first = [], (0.0, 0.0)
    for questions in (SITES, 40, 100):
        instance = asked(questions)
        found = best_of(lambda one=instance: lower_bounds(one)), min(slowest_phase(instance) for _ in range(3))  # type: ignore[misc]
        first = first if any(first) else found
        ratios = [f"{one / other:.1f} x" for one, other in zip(found, first, strict=True)]
        rows.append([str(questions), f"{found[0]:.3f}", ratios[0], f"{found[1]:.3f}", ratios[1]])
    return [
        Section(
            title="Questions of ten sites",
            words="Six arms, the paper's kind of mix for the sites and random mixes for further questions: all four "
            "bounds, and the slowest phase of a study (decision and next plan), beside the sites' questions alone.",
            columns=("questions", "bounds, s", "ratio", "slowest phase, s", "ratio"),
            rows=rows,
        )
    ]
