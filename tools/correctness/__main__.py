"""Long measurements: `python -m tools.correctness ties` (make correctness), `... savings` (make savings), `... prices`,
`... flexible`, `... concealment`, `... lost-sites`, `... coverage` (make estimates), `... tolerance`, `... settings`,
`... together`, `... normal`, `... planning`, `... privacy`, `... laws` (make laws), `... counts` (make counts),
`... guardrails` (make guardrails), `... forecasts` (make forecasts), `... theorem` (make theorem), `... arms`,
`... drift` (make drift), `... stated`, `... normal-drift`, `... strata`, `... powers`, `... closed` (make closed),
`... covariates` (make covariates), `... between` (make between), `... skewed` and `... analyses` (make tables),
`... questions` (make questions).

Each prints a table and rewrites a page of docs/. The exit code is 1 if a promise is not kept.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable

import numpy as np
from tools.correctness.arms import arms
from tools.correctness.between import TIES, between
from tools.correctness.closed import closed
from tools.correctness.concealment import concealment
from tools.correctness.counts import counts
from tools.correctness.covariates import covariates
from tools.correctness.coverage import coverage
from tools.correctness.drift import drift
from tools.correctness.flexible import flexible
from tools.correctness.forecasts import forecasts
from tools.correctness.full_savings import savings
from tools.correctness.full_ties import ties
from tools.correctness.guardrails import guardrails
from tools.correctness.laws import laws
from tools.correctness.lost_sites import lost_sites
from tools.correctness.near_ties import NOISES
from tools.correctness.normal import normal
from tools.correctness.normal_drift import normal_drift
from tools.correctness.planning import planning, powers
from tools.correctness.prices import prices
from tools.correctness.privacy import privacy
from tools.correctness.questions import questions
from tools.correctness.rewards import page as rewards
from tools.correctness.settings import settings
from tools.correctness.stated import stated
from tools.correctness.strata import strata
from tools.correctness.tables import analyses, skewed
from tools.correctness.theorem import theorem
from tools.correctness.together import together
from tools.correctness.tolerance import tolerance


def main() -> int:
    arguments = _parser().parse_args()
    np.seterr(all="raise", under="ignore")
    return 0 if _run(arguments) else 1


def _parser() -> argparse.ArgumentParser:  # noqa: PLR0915
    """The argument parser, with a line per command."""
    parser = argparse.ArgumentParser(prog="python -m tools.correctness", description=__doc__)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    work = parser.add_subparsers(dest="what", required=True)
    long = work.add_parser("ties", help="error rates at ties, counted and tilted; goes on where it stopped")
    long.add_argument("--replications", type=int, default=100_000, help="of every counted row")
    long.add_argument("--noise", action="append", choices=sorted(NOISES), help="only rows with these rewards")
    long.add_argument("--top", action="append", type=int, help="only rows with this N")
    long.add_argument("--anew", action="store_true", help="every row again, also those that stand")
    approximate = work.add_parser("normal", help="errors of the normal approximation of rates, at ties")
    approximate.add_argument("--replications", type=int, default=20_000, help="of every counted row")
    drifting = work.add_parser("normal-drift", help="errors of the normal approximation where rates move")
    drifting.add_argument("--replications", type=int, default=20_000, help="of every row")
    work.add_parser("planning", help="the tables of docs/appendix/planning.md")
    promised = work.add_parser("powers", help="powers that a plan promised, by other studies; part of docs/appendix")
    promised.add_argument("--replications", type=int, default=20_000, help="other studies of every kind")
    noisy = work.add_parser(
        "privacy", help="what private reports cost, and errors at ties; the tables of docs/appendix/privacy.md"
    )
    noisy.add_argument("--replications", type=int, default=4000, help="of every row")
    events = work.add_parser(
        "counts", help="errors, cost and over-dispersion of counts; rewrites part of docs/appendix/rewards.md"
    )
    events.add_argument("--replications", type=int, default=100_000, help="of every tie that is counted")
    guards = work.add_parser("guardrails", help="false alarms, and how soon harm is found; rewrites docs/outcomes.md")
    guards.add_argument("--replications", type=int, default=100_000, help="of every cell that is counted")
    skew = work.add_parser("laws", help="errors where rewards are not Gaussian; rewrites part of docs/appendix")
    skew.add_argument("--replications", type=int, default=5000, help="of every cell")
    money = work.add_parser("skewed", help="errors on skewed money and many zeros; rewrites part of docs/appendix")
    money.add_argument("--replications", type=int, default=2000, help="of every study")
    finished = work.add_parser("analyses", help="how often intervals of an analysis hold; part of docs/analysis.md")
    finished.add_argument("--replications", type=int, default=2000, help="tables of every law and size")
    moving = work.add_parser("drift", help="errors when means move between phases; rewrites part of docs/appendix")
    moving.add_argument("--replications", type=int, default=100_000, help="of every tie that is counted")
    moving.add_argument("--only", choices=("policies", "ties"))
    waiting = work.add_parser("between", help="people assigned between phases: errors, days saved; docs/appendix")
    waiting.add_argument("--replications", type=int, default=20_000, help="of every tie")
    waiting.add_argument("--only", choices=("forced", *TIES), help="one table, or one row of the errors at ties")
    late = work.add_parser("arms", help="late arms, and errors when arms come and go; rewrites part of docs/appendix")
    late.add_argument("--replications", type=int, default=5000, help="of every tie")
    short = work.add_parser("savings", help="samples against W-CPE")
    short.add_argument("--replications", type=int, default=20, help="of each policy on each instance")
    priced = work.add_parser("prices", help="days and money against the plan with the fewest draws")
    priced.add_argument("--replications", type=int, default=20, help="of each plan on each random instance")
    models = work.add_parser("rewards", help="what every reward model costs")
    models.add_argument("--replications", type=int, default=2000, help="of every row")
    sites = work.add_parser("flexible", help="error rates when sites deliver other counts than planned")
    sites.add_argument("--share", type=float, default=1.0, help="of the full size")
    ahead = work.add_parser("forecasts", help="how often the forecast of a study in progress holds")
    ahead.add_argument("--replications", type=int, default=200, help="studies of every kind")
    work.add_parser("strata", help="balance and concealment in the strata of a site, and of its kits")
    guesses = work.add_parser("concealment", help="how well the next arm of a site can be guessed")
    guesses.add_argument("--replications", type=int, default=400, help="phases of every row")
    lost = work.add_parser("lost-sites", help="error rates when a site is lost and the others are re-weighed")
    lost.add_argument("--share", type=float, default=1.0, help="of the full size")
    held = work.add_parser("coverage", help="how often the intervals of estimates hold, and how wide they are")
    held.add_argument("--replications", type=int, default=1000, help="of every reward model in every cell")
    held.add_argument("--only", choices=("held", "widths"))
    near = work.add_parser("tolerance", help="what a tolerance saves, and how often an answer is bad")
    near.add_argument("--replications", type=int, default=100_000, help="of every cell")
    near.add_argument("--seconds", type=float, default=math.inf, help="stop after a block, once so many have passed")
    near.add_argument("--first", action="store_true", help="the figures of the paper's instance and the mutants again")
    near.add_argument("--top", type=int, choices=(1, 2), help="only cells that ask for so many arms")
    known = work.add_parser("covariates", help="what a covariate saves, errors at ties; goes on where it stopped")
    known.add_argument("--replications", type=int, default=100_000, help="of every tie; a part of it where x is skewed")
    ended = work.add_parser("closed", help="closed studies beside the usual designs; goes on where it stopped")
    ended.add_argument("--replications", type=int, default=1000, help="of every row, with each of two seeds")
    asked = work.add_parser("questions", help="errors of questions and of maps of weights in doubt, and what they cost")
    asked.add_argument("--replications", type=int, default=20_000, help="of every row; fewer of those with finer steps")
    asked.add_argument("--anew", action="store_true", help="every row again, also those that stand")
    tried = work.add_parser("settings", help="what was tried and not taken; rewrites part of docs/appendix")
    tried.add_argument("--replications", type=int, default=2000, help="on the paper's instance")
    true = work.add_parser("stated", help="what stating a true key costs; rewrites part of docs/appendix")
    true.add_argument("--replications", type=int, default=2000, help="of every case, with and without the key")
    least = work.add_parser("theorem", help="samples over the lower bound as delta goes to 0")
    least.add_argument("--replications", type=int, default=1000, help="on the paper's instance")
    joint = work.add_parser("together", help="what a joint answer saves; rewrites part of docs/appendix")
    joint.add_argument(
        "--replications", type=int, default=1000, help="on each random instance, 10 times that on the paper's"
    )
    return parser


def _run(arguments: argparse.Namespace) -> bool:
    """Run a command; returns whether all promises are kept."""
    runs, workers = getattr(arguments, "replications", 0), arguments.workers
    work: dict[str, Callable[[], bool]] = {
        "lost-sites": lambda: lost_sites(arguments.share),
        "tolerance": lambda: tolerance(runs, arguments.seconds, first=arguments.first, top=arguments.top),
        "closed": lambda: closed(runs),
        "covariates": lambda: covariates(runs, workers),
        "questions": lambda: questions(runs, workers, anew=arguments.anew),
        "coverage": lambda: coverage(runs, arguments.only),
        "concealment": lambda: concealment(runs),
        "strata": strata,
        "forecasts": lambda: forecasts(runs, workers),
        "flexible": lambda: flexible(arguments.share),
        "normal": lambda: normal(runs, workers),
        "normal-drift": lambda: normal_drift(runs, workers),
        "planning": planning,
        "powers": lambda: powers(runs),
        "privacy": lambda: privacy(runs),
        "laws": lambda: laws(runs, workers),
        "counts": lambda: counts(runs, workers),
        "guardrails": lambda: guardrails(runs, workers),
        "skewed": lambda: skewed(runs, workers),
        "analyses": lambda: analyses(runs, workers),
        "between": lambda: between(runs, workers, arguments.only),
        "drift": lambda: drift(runs, workers, arguments.only),
        "arms": lambda: arms(runs, workers),
        "rewards": lambda: rewards(runs, workers),
        "prices": lambda: prices(runs, workers),
        "settings": lambda: settings(runs),
        "together": lambda: together(runs),
        "stated": lambda: stated(runs, workers),
        "savings": lambda: savings(runs, workers),
        "theorem": lambda: theorem(runs, workers),
        "ties": lambda: _ties(arguments),
    }
    return work[arguments.what]()


def _ties(arguments: argparse.Namespace) -> bool:
    noises, tops = arguments.noise or list(NOISES), arguments.top or [1, 2, 3]
    return ties(
        arguments.replications,
        arguments.workers,
        anew=arguments.anew,
        chosen=lambda row: row.tie.noise in noises and row.tie.top in tops,
    )


if __name__ == "__main__":
    sys.exit(main())
