"""The tables of docs/appendix/privacy.md: the cost of privacy noise, and error rates at the hardest ties with noise.

`python -m tools.correctness privacy` rewrites them in a few minutes on one core.
"""

import math

from tools.correctness.common import APPENDIX, DOCS
from tools.pages import fill, table

from parley.policies import make_policy
from parley.policies.evidence.racing import EvidenceRacing
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.rewards.privacy import epsilon
from parley.simulation import simulate
from parley.simulation.rare import hardest_ties, ruled_out_probability
from parley.study import load_study

PAGE = APPENDIX / "privacy.md"
STUDIES = {"four hospitals": "private-hospitals.toml", "web study": "web-study.toml"}
RHOS = (0.5, 0.05, 0.005)
MODELS = {
    "binary": {"kind": "binary", "rate": 0.25},
    "binary, normal": {"kind": "binary", "rate": 0.25, "inference": "normal"},
    "bounded": {"kind": "bounded", "low": 0.0, "high": 1.0},
    "gaussian, clipped": {"scale": 0.2, "clip": [0.0, 1.0]},
}
LEVEL, RARE_LEVEL = 0.05, 1e-5
LONGEST = 60  # limit on samples of a tie, in first phases
NEXT_TO_NOTHING = 1e-9  # lead of the first arm at a tie, so that there is one right answer
COUNTED = 5  # factor on the number of studies, for counted errors
SEED = 28


def privacy(replications: int = 4000, runs: int = 4000) -> bool:
    """Rewrite both tables; returns whether no error rate is above delta by more than chance."""
    rows = [row for name, file in STUDIES.items() for row in costs(name, file, replications)]
    head = ["study", "rho", "epsilon", "samples, mean", "more than exact", "rounds", "wrong, %"]
    fill(PAGE, "costs", table(head, rows))
    found = [errors(name, rho, COUNTED * replications, runs) for name in MODELS for rho in RHOS]
    head = ["rewards", "rho", f"counted at {LEVEL:g}", f"tilted at {RARE_LEVEL:g}, over delta"]
    fill(PAGE, "errors", table(head, [row for row, _ in found]))
    return all(fine for _, fine in found)


def costs(name: str, file: str, replications: int) -> list[list[str]]:
    """A study's samples without noise and with more and more noise."""
    study, rows, exact = load_study(DOCS.parent / "examples" / file), [], 0.0
    for rho in (None, *RHOS):
        problem = study.problem.with_(rho=rho)
        instance = Instance(problem=problem, means=study.require_truth().means)
        run = simulate(make_policy("evidence", problem), instance, replications=replications, seed=SEED)
        mean, error = float(run.costs.mean()), float(run.costs.std()) / math.sqrt(replications)
        exact = exact or mean
        more = "" if rho is None else f"{100 * (mean / exact - 1):+.1f} ± {100 * math.sqrt(2) * error / exact:.1f} %"
        shown = ["exact", ""] if rho is None else [f"{rho:g}", f"{epsilon(rho):.2f}"]
        rows.append([name, *shown, f"{mean:,.0f} ± {error:,.0f}", more, f"{run.rounds.mean():.1f}"])
        rows[-1].append(f"{100 * run.error_rate:.2f}")
        print(rows[-1], flush=True)
    return rows


def errors(name: str, rho: float, replications: int, runs: int) -> tuple[list[str], bool]:
    """Error rates for two tied arms of one agent: counted, and at a tiny delta by tilted runs."""
    model = make_model(**MODELS[name])
    problem = Problem(arms=2, weights=[[1.0]], noise=model, rho=rho, delta=LEVEL)
    tie = Instance(problem=problem, means=[[0.25 + NEXT_TO_NOTHING], [0.25]])
    policy = make_policy("evidence", problem)
    first = int(policy.plan(policy.start()).sum())
    run = simulate(policy, tie, replications=replications, seed=SEED, max_samples=LONGEST * first)
    lost = float(run.mistaken.mean())
    error = math.sqrt(max(lost * (1 - lost), 1 / replications) / replications)
    rare = problem.with_(delta=RARE_LEVEL)
    race, hardest = make_policy("evidence", rare), hardest_ties(rare)[0]
    assert isinstance(race, EvidenceRacing)
    tilted = ruled_out_probability(race, hardest.instance, arm=hardest.arm, agent=0, replications=runs, seed=SEED)
    share, spread = tilted.probability / RARE_LEVEL, tilted.standard_error / RARE_LEVEL
    row = [name, f"{rho:g}", f"{lost:.4f} ± {error:.4f}", f"{share:.3f} ± {spread:.3f}"]
    print(row, flush=True)
    allowed = bool(model.guarantee_note)  # an approximation may err a little more often, and its note says so
    return row, allowed or (lost <= LEVEL + 3 * error and share <= 1 + 3 * spread)
