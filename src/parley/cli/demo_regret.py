"""`parley demo --regret`: one game followed phase by phase, then the policies that play side by side."""

from __future__ import annotations

import math
from typing import Any

from parley.bounds import regret
from parley.cli.console import print_json, progress_bar, screen, table, write_page
from parley.cli.simulate import summary
from parley.errors import InvalidInput
from parley.policies import POLICIES, make_policy
from parley.policies.playing import Playing
from parley.problem import Instance
from parley.simulation import phases, simulate
from parley.study import Study

__all__ = ["show_regret"]

STEPS = ("phase", "draws so far", "explored in it", "regret so far, estimated", "arms left")
HEAD = ("policy", "regret, mean ± sd", "/ C* log T", "rounds", "a best arm ruled out")


def show_regret(study: Study, *, replications: int, seed: int, output: str, command: str, as_json: bool) -> None:
    """Play one study, compare the policies, and write the page."""
    instance = study.require_truth()
    instance.require_distinct()
    policy = make_policy(study.policy, study.problem, study.options, instance)
    horizon = study.problem.horizon
    if not isinstance(policy, Playing) or not isinstance(horizon, int):
        raise InvalidInput("horizon", found=horizon or "none", allowed="a number of draws per agent, with --regret")
    course = _course(policy, instance, seed)
    least = regret(instance, accuracy=1e-6).proven * math.log(horizon)
    results = _compare(study, instance, replications, seed, least, quiet=as_json)
    rows = [
        [
            result["policy"],
            f"{lost['mean']:,.0f} ± {lost['std']:,.0f}",
            f"{lost['ratio']:.2f}",
            f"{result['rounds']['mean']:.2f}",
            f"{result['error_rate'] * result['replications']:,.0f} of {result['replications']:,}",
        ]
        for result, lost in ((result, result["regret"]) for result in results)
    ]
    from parley.experiments.look.regret_page import regret_page  # brings the drawing library along

    made = regret_page(
        title=f"Parley plays: {study.name}",
        problem=study.problem,
        guarantee=policy.guarantee,
        course=(STEPS, course),
        comparison=(HEAD, rows),
        results=results,
        least=least,
        command=command,
    )
    path = write_page(output, made)
    if as_json:
        told: dict[str, Any] = {"study": study.name, "horizon": horizon, "lower_bound": least}
        print_json(told | {"policies": results, "report": str(path)})
        return
    for title, head, lines in (
        (f"{study.name}: {policy.name}, one game", STEPS, course),
        (f"{replications:,} games each; C* log T is {least:,.0f}", HEAD, rows),
    ):
        shown = table(title, *head)
        for line in lines:
            shown.add_row(*line)
        screen.print(shown)
    screen.print(f"Regret over time: {path.resolve()} (open it in a browser)", soft_wrap=True)
    screen.print("Next: copy examples/play.toml, put in your own arms, agents, weights and horizon, and run it again.")


def _course(policy: Playing, instance: Instance, seed: int) -> list[list[str]]:
    """A row per phase of one game."""
    rows = []
    for phase in phases(policy, instance, seed=seed):
        standing = policy.standing(phase.after)
        leading = policy.leaders(phase.before)
        explored = int((phase.quotas * ~leading).sum() if phase.number > 1 else phase.quotas.sum())
        error = 2 * float(standing.error)
        rows.append(
            [
                str(phase.number),
                f"{int(phase.after.counts.sum()):,}",
                f"{explored:,} of {int(phase.quotas.sum()):,}",
                f"{float(standing.regret.sum()):,.0f} ± {error:,.0f}",
                ", ".join(str(int(left)) for left in phase.after.active.sum(axis=0)),
            ]
        )
    return rows


def _compare(
    study: Study, instance: Instance, replications: int, seed: int, least: float, *, quiet: bool
) -> list[dict[str, Any]]:
    made = []
    for name, kind in POLICIES.items():
        if not issubclass(kind, Playing):
            continue
        try:
            options = study.options if name == study.policy else {}
            made.append(make_policy(name, study.problem, options, instance))
        except InvalidInput:
            continue  # a policy that this problem is not for: PF-UCB beyond personalized weights
    results = []
    with progress_bar("comparing policies", replications * len(made), hidden=quiet) as advance:
        for policy in made:
            outcome = simulate(policy, instance, replications=replications, seed=seed, progress=advance)
            results.append(summary(outcome, {"regret": least}))
    return results
