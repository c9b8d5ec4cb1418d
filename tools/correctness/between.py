"""People who are assigned between phases: error rates, days saved, and the cost in samples.

`python -m tools.correctness between` (make between) rewrites the figures of docs/appendix. Errors are counted at ties
of the two best arms: how often the first is ruled out. For comparison there is a similar but wrong rule, which counts
people between phases as the next phase's first draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tools import pages
from tools.correctness.common import APPENDIX, DOCS, SEED, in_parallel
from tools.pages import fill, table

from parley.covariates import CovariateTruth
from parley.outcomes import Outcome
from parley.policies import EvidenceRacing, State, make_policy
from parley.policies.guardrails import guardrails
from parley.problem import Drift, Instance, Problem
from parley.rewards import make_model
from parley.simulation import simulate
from parley.study import load_study
from parley.totals import Totals

PAGE = APPENDIX / "between.md"
DELTA = 0.05
HAIR = 1e-9  # lead of the first arm: in effect a tie, but with a known right answer
TREND = 0.5  # rise of all arms from phase to phase, in standard deviations
DELAYS = (14, 30, 90)
SHARES = (0.25, 0.5, 1.0)
DAYS_RUNS = 1_000
COLUMNS = ("at a tie", "no trend", "a trend", "pooled, no trend", "pooled, a trend")
WEIGHTS = ((0.7, 0.4), (0.3, 0.6))


@dataclass(frozen=True, kw_only=True)
class Pooled(EvidenceRacing):
    """A wrong rule: counts people between phases as the next phase's first draws."""

    def _update_by_strata(self, state: State, early: Totals, own: Totals) -> State:
        return self.update(state, early + own)


# Name -> the reward model, the level at which two arms tie (others are below), the scale, and settings.
TIES = {
    "known scale, 2 arms": ({"scale": 1.0}, (0.0, 0.0), 1, {"price": [[1.0], [4.0]]}),
    "known scale, 3 arms": ({"scale": 1.0}, (0.0, 0.0, -0.3), 1, {}),
    "known scale, 3 arms, 2 sites": ({"scale": 1.0}, (0.0, 0.0, -0.3), 2, {}),
    "unknown scale, 3 arms": ({"scale": "unknown"}, (0.0, 0.0, -0.3), 1, {}),
    "yes or no, 2 arms": ({"kind": "binary"}, (0.3, 0.3), 1, {"price": [[1.0], [4.0]]}),
    "a tolerance of 0.1, 3 arms": ({"scale": 1.0}, (0.0, -0.1, -0.4), 1, {"tolerance": 0.1}),
    "a covariate, 3 arms": ({"scale": "unknown"}, (0.0, 0.0, -0.3), 1, {"covariate": "age"}),
}
AGE = CovariateTruth(correlation=np.array(0.7), drift=0.5)  # the mean of the covariate moves too


def tie(name: str, trend: float) -> Instance:
    """One of `TIES`, in which only the first arm is a right answer."""
    noise, levels, sites, settings = TIES[name]
    problem = Problem(
        arms=len(levels),
        weights=WEIGHTS if sites == 2 else [[1.0]],
        delta=DELTA,
        noise=make_model(**noise),
        between="assign",
        most_between=1.0,
        max_rounds=6,
        answers="each",
        **settings,
    )
    means = np.outer(levels, np.ones(sites))
    means[0] += HAIR
    spread = float(np.sqrt(problem.noise.true_variances(means, 1.0)).max()) if "kind" in noise else 1.0
    return Instance(
        problem=problem,
        means=means,
        scale=1.0 if "scale" in noise else None,
        drift=_trend(trend * spread),
        covariate=AGE if "covariate" in settings else None,
    )


def _trend(step: float) -> Drift | None:
    return Drift(given=(step, -step) * 3) if step else None


def errors(task: tuple[str, float, bool, int]) -> float:
    """The share of studies that rule the first arm out."""
    name, trend, pooled, runs = task
    instance = tie(name, trend)
    policy = (Pooled if pooled else EvidenceRacing)(problem=instance.problem)
    return simulate(policy, instance, replications=runs, seed=SEED).error_rate


def forced(trend: float, *, pooled: bool, runs: int) -> float:
    """The error rate if arms are assigned 2 : 1 between phases and 1 : 2 within them."""
    problem = Problem(arms=2, weights=[[1.0]], delta=DELTA, between="assign")
    policy, generator = EvidenceRacing(problem=problem), np.random.default_rng(SEED)

    def drawn(counts: tuple[int, ...], mean: float) -> Totals:
        cells = np.broadcast_to(np.array(counts)[:, None], (runs, 2, 1))
        sums = mean * cells + np.sqrt(cells) * generator.normal(size=cells.shape)
        return Totals(counts=cells, sums=sums, squares=cells * (1 + mean**2))

    first = tuple(policy.plan(policy.start())[:, 0].tolist())
    state = policy.update(policy.start((runs,)), drawn(first, 0.0))
    early, late = drawn((800, 400), 0.0), drawn((400, 800), trend)
    after = policy.update(state, early + late if pooled else replace(late, between=early))
    return float((~after.active[:, 0, 0]).mean())


def false_alarms(trend: float, *, pooled: bool, runs: int) -> float:
    """For an arm exactly at a guardrail's margin, the share of studies that stop it."""
    margin = 0.1
    harm = Outcome(name="harm", noise=make_model(), better="lower", role="guardrail", margin=margin, delta=DELTA)
    (guard,) = guardrails(Problem(arms=["control", "arm"], weights=[[1.0]], control="control", outcomes=(harm,)))
    generator = np.random.default_rng(SEED)

    def drawn(counts: tuple[int, ...], mean: float) -> Totals:
        cells = np.broadcast_to(np.array(counts)[:, None], (runs, 2, 1))
        means = mean + np.array([[0.0], [margin]])
        sums = means * cells + np.sqrt(cells) * generator.normal(size=cells.shape)
        return Totals(counts=cells, sums=sums, squares=cells * (1 + np.square(means)))

    state = guard.update(guard.start((runs,)), drawn((100, 100), 0.0))
    early, late = drawn((800, 400), 0.0), drawn((400, 800), trend)
    after = guard.update(state, early + late if pooled else replace(late, between=early))
    return float(after.alarmed[:, 1].mean())


def hospitals(task: tuple[int, float | None]) -> tuple[float, float, float, float]:
    """For four hospitals with delayed outcomes: samples, rounds, days, and the share of wrong studies."""
    delay, share = task
    truth = load_study(DOCS.parent / "examples" / "four-hospitals.toml").require_truth()
    assigns = {} if share is None else {"between": "assign", "most_between": share}
    instance = replace(truth, problem=truth.problem.with_(delay=float(delay), **assigns))
    found = simulate(make_policy("evidence", instance.problem), instance, replications=DAYS_RUNS, seed=SEED)
    assert found.days is not None
    return float(found.costs.mean()), float(found.rounds.mean()), float(found.days.mean()), found.error_rate


def between(runs: int, workers: int, only: str | None = None) -> bool:
    """Rewrite the tables of the page; returns whether error rates are as promised."""
    rows = {"known scale, 2 : 1, then 1 : 2": forced, "a guardrail at its margin, 2 : 1, then 1 : 2": false_alarms}
    shown = [
        (name, *(f"{found(trend, pooled=pooled, runs=runs):.4f}" for pooled in (False, True) for trend in (0.0, TREND)))
        for name, found in rows.items()
    ]
    fill(PAGE, "forced", table(COLUMNS, shown))
    if only == "forced":
        return True
    names = list(TIES) if only is None else [only]
    tasks = [(name, trend, pooled, runs) for name in names for trend in (0.0, TREND) for pooled in (False, True)]
    wrong = dict(in_parallel(errors, tasks, workers))
    told = _rows("errors") | {
        name: [name, *(f"{wrong[name, trend, pooled, runs]:.4f}" for pooled in (False, True) for trend in (0.0, TREND))]
        for name in names
    }
    fill(PAGE, "errors", table(COLUMNS, [told[name] for name in TIES if name in told]))
    chance = 3 * np.sqrt(DELTA * (1 - DELTA) / runs)
    sound = all(share <= DELTA + chance for (_, _, pooled, _), share in wrong.items() if not pooled)
    if only is not None:
        return sound
    tried = [(delay, share) for delay in DELAYS for share in (None, *SHARES)]
    found = dict(in_parallel(hospitals, tried, workers))
    columns = ("delay", "`between`", "samples", "rounds", "days", "days saved", "more samples", "wrong")
    lines = []
    for delay, share in tried:
        (samples, rounds, days, lost), usual = found[delay, share], found[delay, None]
        named = "`outside`" if share is None else f"`assign`, at most {share:g}"
        saved = "" if share is None else f"{100 * (1 - days / usual[2]):.0f} %"
        more = "" if share is None else f"{100 * (samples / usual[0] - 1):.0f} %"
        lines.append(
            (f"{delay} days", named, f"{samples:,.0f}", f"{rounds:.2f}", f"{days:.0f}", saved, more, f"{lost:.3f}")
        )
    fill(PAGE, "days", table(columns, lines))
    return sound


def _rows(name: str) -> dict[str, list[str]]:
    """The rows of a table on the page, by their first column."""
    return {row[0]: row for row in pages.cells(pages.part(PAGE, name))[1:]}
