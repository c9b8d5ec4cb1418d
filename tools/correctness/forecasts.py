"""How often a forecast holds: `make forecasts` rewrites part of docs/dashboard.md.

Random studies with known truths run to their end. After each of the first phases the rest is forecast as the service
does it, and the actual end is compared with the range that should contain 8 of 10 ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from tools.correctness.common import DOCS, SEED, in_parallel
from tools.pages import fill, table

from parley.experiments.forecasts.forecast import forecast_document
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import Binary, Gaussian
from parley.simulation import phases
from parley.weights import personalized

AFTER = (1, 2, 3)  # phases; later forecasts are easier
ASKED = 0.8  # required share of ends within the range
PHASES = 60
# Kind, phase, quantity; whether the end was below the range, above it, and whether the range has no upper end.
Row = tuple[str, int, str, bool, bool, bool]
KINDS = ("effects of arms", "each agent its own", "zeros and ones", "a round takes 31 days")


def instance_of(kind: str, seed: int) -> Instance:
    """A random study: 3 to 6 arms, 1 to 5 agents, means spread over a tenth to all of the largest stated gap."""
    generator = np.random.default_rng([SEED, KINDS.index(kind), seed])
    arms, agents = int(generator.integers(3, 7)), int(generator.integers(1, 6))
    alpha = float(generator.uniform(0.2, 0.9))
    logistics = {"rate": 10.0, "round_days": 1.0, "delay": 30.0} if kind == "a round takes 31 days" else {}
    noise = Binary() if kind == "zeros and ones" else Gaussian(scale=1.0)
    problem = Problem(arms=arms, weights=personalized(agents, alpha), delta=0.1, noise=noise, **logistics)
    spread, own = math.exp(generator.uniform(math.log(0.1), 0.0)), 1.0 if kind == "each agent its own" else 0.3
    means = generator.random((arms, 1)) * (1 - own) + own * generator.random((arms, agents))
    return Instance(problem=problem, means=spread * means)


def measured(task: tuple[str, int]) -> list[Row]:
    """Every forecast of one study."""
    kind, seed = task
    instance = instance_of(kind, seed)
    policy = make_policy("evidence", instance.problem)
    run = []
    for phase in phases(policy, instance, seed=seed):
        run.append(phase)
        if len(run) == PHASES:
            break
    end, found = run[-1].after, []
    for after in AFTER:
        if after >= len(run):
            break
        forecast = forecast_document(policy, run[after - 1].after, (), over=False)
        unknown = 10 * forecast["unfinished"] > forecast["continuations"]  # no upper end: the page says "or more"
        for what, truth, ends in (
            ("samples", end.counts.sum(), forecast["total"]),
            ("rounds", end.phase, forecast["rounds"]),
        ):
            above = bool(truth > ends["p90"]) and not unknown
            found.append((kind, after, what, bool(truth < ends["p10"]), above, unknown))
    return found


def _rows(found: list[Row]) -> Iterator[tuple[str, ...]]:
    for kind in KINDS:
        for after in AFTER:
            cells = []
            for what in ("samples", "rounds"):
                ends = np.array([row[3:] for row in found if row[:3] == (kind, after, what)])
                below, above, unknown = ends.mean(axis=0)
                cells += [f"{1 - below - above:.2f}", f"{below:.2f}", f"{above:.2f}"]
            yield kind, str(after), str(len(ends)), f"{unknown:.2f}", *cells


def forecasts(studies: int, workers: int) -> bool:
    """Print and store the table; returns whether the ranges hold often enough over all studies."""
    tasks = [(kind, seed) for kind in KINDS for seed in range(studies)]
    found = [row for _, rows in in_parallel(measured, tasks, workers) for row in rows]
    columns = [f"{what}: {where}" for what in ("samples", "rounds") for where in ("in the range", "below", "above")]
    head = ["studies with", "after phase", "forecasts", "range open above", *columns]
    text = table(head, _rows(found))
    held = {
        what: np.mean([not (row[3] or row[4]) for row in found if row[2] == what]) for what in ("samples", "rounds")
    }
    last = ", ".join(f"{share:.1%} of all forecasts of {what} hold" for what, share in held.items())
    print(text, last, sep="\n")
    fill(DOCS / "dashboard.md", "forecasts", f"{text}\n\n{last}.")
    return all(share >= ASKED for share in held.values())
