"""The checks of `parley qualify`. Each is a function that returns its result in words, or raises `Flaw`.

Numbers are compared with `references.json`, which was written once and is never updated. The module `live` has the
checks that need a server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from scipy.stats import binom

import parley
from parley.cli.demo import PAPER
from parley.cli.doctor import unmet
from parley.errors import ParleyError
from parley.harmonic import ArmPrograms, proven_gap, solve
from parley.policies import make_policy
from parley.policies.evidence.racing import EvidenceRacing
from parley.problem import Instance
from parley.protocol import (
    Plan,
    Record,
    Report,
    StudyMessage,
    apply,
    create,
    read_log,
    verify_log,
)
from parley.protocol.events import ReportAccepted
from parley.simulation import phases, simulate
from parley.simulation.rare import ruled_out_probability
from parley.study import parse_study, read_toml
from parley.testing.forgeries import receipts_of, tampered
from parley.text.formatting import plural
from parley.totals import Totals

FOLDER = files("parley.edges.qualification")
CLOSE = 1e-6  # relative tolerance of numbers: allows only for the rounding of another machine
SIMILAR = 0.01  # relative tolerance of simulated studies: allows for a plan that is rounded differently
CHANCE = 1e-6  # probability that a correct program fails the count of errors at ties
MIX = [[0.6, 0.1, 0.3], [0.3, 0.7, 0.2], [0.1, 0.2, 0.5]]  # weights; columns add up to 1
# The second instance of the references: asymmetric weights, and two best arms to find.
SECOND = {
    "arms": 4,
    "agents": 3,
    "top": 2,
    "delta": 0.05,
    "weights": {"kind": "matrix", "matrix": MIX},
    "noise": {"scale": 2.0},
    "truth": {"means": [[1.0, 0.2, 0.6], [0.1, 0.9, 0.3], [0.4, 0.1, 0.0], [0.0, 0.3, 0.2]]},
}
POLICIES = ("evidence", "wcpe", "uniform")


class Flaw(ParleyError):
    """Raised by a check if this installation breaks one of Parley's promises."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The resources of checks: how long they may run, where they may write, and which database they may use."""

    minutes: float
    folder: Path
    database: str | None = None  # an empty PostgreSQL database


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check: the claim, the function that tests the claim, and the keys of `promises.json` that it covers."""

    name: str
    claim: str
    covers: tuple[str, ...]
    run: Callable[[Bench], str]
    extras: tuple[str, ...] = ()
    postgres: bool = False


CHECKS: list[Check] = []


def check(name: str, claim: str, *covers: str, **needs: Any) -> Callable[[Callable[[Bench], str]], Any]:
    """Register the decorated function as a check, in `CHECKS`; `needs` are further fields of `Check`."""

    def noted(run: Callable[[Bench], str]) -> Callable[[Bench], str]:
        CHECKS.append(Check(name=name, claim=claim, covers=covers, run=run, **needs))
        return run

    return noted


def require(holds: object, wrong: str) -> None:
    """Raise a `Flaw` with the message `wrong` unless a condition holds."""
    if not holds:
        raise Flaw(wrong)


def stored(name: str) -> Any:
    """Read a JSON file that belongs to the qualification."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@check("installation", "all packages are installed in the required versions, and no file of Parley was changed")
def installation(_: Bench) -> str:
    """Check packages by their metadata, and Parley's files by the hashes in its wheel."""
    missing = list(unmet("parley", ""))
    require(not missing, f"missing or too old: {', '.join(missing)}")
    installed = metadata.distribution("parley")
    listed = [file for file in installed.files or () if file.hash and file.parts[0] == "parley"]
    if not listed:
        return f"packages are complete; a working copy in {Path(parley.__file__).parent}, without hashes to compare"
    place = Path(str(installed.locate_file("parley")))
    require(Path(parley.__file__).parent.samefile(place), f"another copy is imported: {parley.__file__}")
    changed = [str(file) for file in listed if file.hash and _sha256(file.read_binary()) != file.hash.value]
    require(not changed, f"changed since it was installed: {', '.join(changed)}")
    return f"packages are complete; {plural(len(listed), 'file')} as the wheel brought them"


def _sha256(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def references() -> dict[str, Any]:
    """Recompute all reference numbers, in the form of `references.json`."""
    return {part: {name: numbers(_instance(name)) for name in ("paper", "second")} for part, numbers in NUMBERS.items()}


def _instance(name: str) -> Instance:
    return parse_study(read_toml(PAPER) if name == "paper" else SECOND).require_truth()


def _bounds(instance: Instance) -> dict[str, float]:
    found = parley.lower_bounds(instance)
    return {
        name: bound.value
        for name in ("bai", "bai_relaxed", "regret", "regret_relaxed")
        if (bound := getattr(found, name)) is not None
    }


def _plans(instance: Instance) -> dict[str, Any]:
    """For each policy, the draws of the first phase by arm and agent, and the total draws of every phase."""
    found = {}
    for name in POLICIES:
        run = list(phases(make_policy(name, instance.problem), instance, seed=0))
        found[name] = {"first": run[0].quotas.tolist(), "draws": [int(phase.quotas.sum()) for phase in run]}
    return found


def _simulated(instance: Instance) -> dict[str, Any]:
    found = {}
    for name in POLICIES:
        outcome = simulate(make_policy(name, instance.problem), instance, replications=200, seed=0)
        found[name] = {"samples": float(outcome.costs.mean()), "rounds": float(outcome.rounds.mean())}
        require(outcome.error_rate <= instance.problem.delta, f"{name} errs in {outcome.error_rate:.3f} of the studies")
    return found


def _digests(instance: Instance) -> dict[str, str]:
    message = StudyMessage.of(parley.Study(name="qualification", problem=instance.problem))
    return {"study": message.digest, "plan": create("qualification", message).plan.digest}


NUMBERS: dict[str, Callable[[Instance], Any]] = {
    "bounds": _bounds,
    "plans": _plans,
    "simulated studies": _simulated,
    "digests": _digests,
}


def _compare(part: str, tolerance: float, _: Bench) -> str:
    """Compare a part of the references with recomputed numbers, on the paper's instance and on `SECOND`."""
    compared = 0
    for name, expected in stored("references.json")[part].items():
        found = NUMBERS[part](_instance(name))
        for place, (old, new) in _leaves(f"{name} instance", expected, found):
            same = (
                old == new
                if isinstance(old, str)
                # Numbers of draws may differ by 1, however small they are.
                else math.isclose(old, new, rel_tol=tolerance, abs_tol=1.0 * (tolerance > CLOSE))
            )
            require(same, f"{place}: {new} instead of {old}")
            compared += 1
    return f"{plural(compared, 'value')} as in the references"


def _leaves(place: str, old: Any, new: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(old, dict):
        for key in old:
            yield from _leaves(f"{place}, {key}", old[key], new.get(key) if isinstance(new, dict) else None)
    elif isinstance(old, list):
        require(isinstance(new, list) and len(new) == len(old), f"{place}: {new} instead of {old}")
        for place_in, (one, other) in enumerate(zip(old, new, strict=True), start=1):
            yield from _leaves(f"{place} {place_in}", one, other)
    else:
        yield place, (old, math.nan if new is None else new)


@check("solver", "every answer of the solver is feasible, and its gap is proven from scratch", "solver")
def solver(bench: Bench) -> str:
    """Solve random programs, and prove the gap of each answer. The proof does not depend on the solver's method."""
    generator, worst = np.random.default_rng(1), 0.0
    rounds = max(int(50 * bench.minutes), 10)
    for _ in range(rounds):
        weights = generator.dirichlet(np.ones(4), 4).T
        programs = ArmPrograms.of(np.square(weights), generator.uniform(0.01, 1.0, (20, 4)))
        solution = solve(programs)
        worst = max(worst, float(proven_gap(programs, solution.allocation, solution.dual).max()))
    require(
        worst < CLOSE, f"the largest proven gap is {worst:g}, and an infinite one is of an answer that is too small"
    )
    return f"{plural(20 * rounds, 'program')}, largest proven gap {worst:.1e}"


check("bounds", "lower bounds equal those of the references", "bounds")(partial(_compare, "bounds", CLOSE))
check(
    "plans", "policies ask for the same draws as in the references, phase by phase", "quotas", "thresholds", "evidence"
)(partial(_compare, "plans", SIMILAR))
check("simulated studies", "with the same seed, studies cost the same as in the references", "simulator", "evidence")(
    partial(_compare, "simulated studies", SIMILAR)
)
check("digests", "the digests of a study and of its plan are unchanged", "promise 6")(
    partial(_compare, "digests", CLOSE)
)


@check("ties, counted", "at a tie the answer is wrong in at most delta of the studies", "delta", "evidence", "rounding")
def ties_counted(bench: Bench) -> str:
    """Count errors at a near-tie of two arms, the worst case of the error probability."""
    tie = _tie(0.1, [[1e-9] * 3, [0.0] * 3, [-0.5] * 3])
    problem = tie.problem
    studies = max(int(10_000 * bench.minutes), 500)
    outcome = simulate(make_policy("evidence", problem), tie, replications=studies, seed=1, max_samples=200_000)
    wrong = round(outcome.error_rate * studies)
    # A correct program exceeds this number with probability `CHANCE` at most.
    most = int(binom.isf(CHANCE, studies, problem.delta))
    require(wrong <= most, f"{wrong:,} of {studies:,} answers are wrong, where delta {problem.delta} allows {most:,}")
    return f"{wrong:,} of {studies:,} wrong; delta {problem.delta} allows {studies * problem.delta:,.0f} on average"


@check("ties, tilted", "the same for a delta too small to count", "delta", "evidence")
def ties_tilted(bench: Bench) -> str:
    """Check by importance sampling that the error probability is at most delta, and above delta / 50.

    A smaller estimate would mean that nothing was measured.
    """
    found = []
    for delta in (1e-4, 1e-8):
        tie = _tie(delta, [[0.0] * 3, [0.0] * 3, [-0.5] * 3])
        policy = make_policy("evidence", tie.problem)
        assert isinstance(policy, EvidenceRacing)
        runs = max(int(4000 * bench.minutes), 300)
        error = ruled_out_probability(policy, tie, arm=0, agent=0, replications=runs, seed=0).require_believable()
        require(error.probability - 4 * error.standard_error <= delta, f"{error.probability:.2e} at delta {delta:g}")
        require(error.probability > delta / 50, f"{error.probability:.2e} at delta {delta:g}: nothing was measured")
        found.append(f"{error.probability:.2e} at delta {delta:g}")
    return ", ".join(found)


def _tie(delta: float, means: list[list[float]]) -> Instance:
    weights, noise = {"kind": "matrix", "matrix": MIX}, {"scale": 1.0}
    study = {"arms": 3, "agents": 3, "delta": delta, "answers": "each", "weights": weights, "noise": noise}
    return parse_study(study | {"truth": {"means": means}}).require_truth()


def _stored_log() -> list[Record]:
    return list(read_log((FOLDER / "log.ndjson").read_text(encoding="utf-8").splitlines()))


@check(
    "verify",
    "a sound log is found sound; changed, removed, moved and cut records are noticed",
    "promise 6",
    "promise 7",
    "chain",
)
def verify(_: Bench) -> str:
    """Check that the stored log is found sound, and that every forgery of it is noticed."""
    records = _stored_log()
    held = receipts_of(records)
    found = verify_log(records, held)
    require(found.sound, f"the stored log is not found sound: {found.problem}")
    noticed = 0
    for what, forged in tampered(records):
        require(not verify_log(forged, held).sound, f"not noticed: {what}")
        noticed += 1
    again = plural(found.phases, "decision")
    return f"{plural(len(records), 'record')} sound, {again} recomputed; {noticed} forgeries noticed"


@check(
    "reports",
    "reports that cannot be true are refused",
    "promise 1",
    "promise 10",
    "impossible reports are refused",
    "site",
)
def reports(_: Bench) -> str:
    """Check that a good report is accepted, and that reports with wrong numbers, plan, phase or agent are refused."""
    message = StudyMessage.from_json(_stored_log()[0].payload["study"])
    trial = create("qualification", message)
    counts = trial.plan.draws(0)
    good = _halves(message, trial.plan, counts)
    apply(trial, ReportAccepted(report=good))
    many = _halves(message, trial.plan, [100 * n for n in counts])
    wrong = {
        "more than all draws": replace(good, sums=tuple(n + 1.0 for n in counts)),
        "squares that no rewards have": replace(good, squares=tuple(n / 8 for n in counts)),
        "no number": replace(good, sums=(math.nan, *good.sums[1:])),
        "a hundred times the draws": replace(many, reason="more-people"),
        "other counts without a reason": many,
        "another plan": replace(good, plan="0" * 64),
        "another phase": replace(good, phase=2),
        "an unknown agent": replace(good, agent="nobody"),
    }
    for what, report in wrong.items():
        try:
            apply(trial, ReportAccepted(report=report))
        except (ParleyError, ValueError):
            continue
        raise Flaw(f"taken: {what}")
    return f"one taken, {len(wrong)} refused"


def _halves(message: StudyMessage, plan: Plan, counts: Sequence[int]) -> Report:
    """A report in which half of the rewards are 1."""
    totals = Totals(counts=np.array(counts), sums=np.array(counts) / 2, squares=np.array(counts) / 2)
    return Report.of(totals, study="qualification", phase=1, agent=message.agents[0], plan=plan.digest)
