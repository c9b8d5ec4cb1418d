"""`parley demo`: one study followed phase by phase, then the policies side by side, then a page to look at."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from parley.cli.console import checked_output, print_json, progress_bar, screen, table, write_page
from parley.cli.demo_words import answers_told, eliminations, ending, sizes_told
from parley.cli.simulate import least_of, summary
from parley.ends import End
from parley.errors import InvalidInput
from parley.experiments.look.demo_page import demo_page
from parley.policies import POLICIES, Policy, make_policy
from parley.problem import Instance
from parley.simulation import Phase, phases, simulate
from parley.simulation.simulate import check_end
from parley.study import DEFAULT_POLICY, Study, load_study, parse_study

__all__ = ["command"]

EMBEDDED: dict[str, Any] = {
    "name": "the paper's instance",
    "arms": 6,
    "agents": 3,
    "delta": 0.1,
    "weights": {"kind": "personalized", "alpha": 0.5},
    "noise": {"kind": "gaussian", "scale": 1.0},
    "policy": {"name": DEFAULT_POLICY},
    "truth": {"generate": "paper", "seed": 0},
}
PLAYED: dict[str, Any] = {"horizon": 100_000, "policy": {}}  # with --regret


@click.command()
@click.option("--study", type=click.Path(dir_okay=False), help="Your own study file; default: the paper's instance.")
@click.option("--replications", default=1000, show_default=True, help="Runs per policy in the comparison.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--output",
    default="parley-demo.html",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="Where the page goes.",
)
@click.option("--live", is_flag=True, help="A real coordinator and one agent process each, on this machine.")
@click.option("--db", help="With --live: postgresql://...; default: an SQLite file, removed afterwards.")
@click.option("--regret", is_flag=True, help="Play while learning: regret instead of samples, over 100,000 draws each.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    study: str | None,
    replications: int,
    seed: int,
    output: str,
    live: bool,
    db: str | None,
    regret: bool,
    as_json: bool,
) -> None:
    """Watch one study being decided, then compare the policies against the lower bound.

    Rewards are simulated, on the instance of the paper's tables unless you name a study of your own. With --live the
    study is run by a real coordinator and agents that talk over HTTP; then its log is verified, and all is cleaned up.
    """
    if live:
        from parley.cli.live import show_live

        show_live(study, seed=seed, db=db, as_json=as_json)
        return
    if db is not None:
        raise InvalidInput("--db", found=db, allowed="only with --live")
    checked_output(output)
    if replications < 1:
        raise InvalidInput("--replications", found=replications, allowed="at least 1")
    loaded = load_study(study) if study else parse_study(EMBEDDED | PLAYED if regret else EMBEDDED)
    if regret or loaded.problem.horizon is not None:
        from parley.cli.demo_regret import show_regret

        show_regret(
            loaded,
            replications=replications,
            seed=seed,
            output=output,
            command=f"parley demo --regret{_named(study)} --replications {replications} --seed {seed}",
            as_json=as_json,
        )
        return
    instance = loaded.require_truth()
    check_end(loaded.problem, instance, None)
    policy = make_policy(loaded.policy, loaded.problem, loaded.options, instance)
    if not as_json:
        screen.print(f"{loaded.name}: {sizes_told(instance)}")
        screen.print(f"Policy {policy.name}: {policy.guarantee}.\n")
    course, reasons = [], []
    for phase in phases(policy, instance, seed=seed):
        course.append(phase)
        told = list(eliminations(policy, phase))
        reasons += told
        if not as_json:
            _show(phase, told)
    certificate = policy.certificate(course[-1].after)
    least = least_of(instance).get("samples")
    results = _compare(loaded, instance, replications, seed, least, quiet=as_json)
    head, rows = _side_by_side(results)
    page = demo_page(
        title=f"Parley: {loaded.name}",
        problem=loaded.problem,
        policy=policy.name,
        guarantee=policy.guarantee,
        course=course,
        certificate=certificate,
        reasons=reasons,
        comparison=(head, rows),
        lower_bound=least,
        command=f"parley demo{_named(study)} --replications {replications} --seed {seed}",
    )
    path = write_page(output, page)
    ends = [End(word) for word in policy.ends(course[-1].after).tolist()]
    answered = np.array([end.answered for end in ends])
    right = not (course[-1].after.answers & ~instance.good & answered).any()
    if as_json:
        answers = course[-1].after.answers.T
        chosen = {
            agent: [loaded.problem.arms[arm] for arm in np.flatnonzero(row)]
            for agent, row in zip(loaded.problem.agents, answers, strict=True)
        }
        samples = int(course[-1].after.counts.sum())
        print_json(
            {"study": loaded.name, "policy": policy.name, "answers": chosen, "correct": right, "samples": samples}
            | {"rounds": len(course), "lower_bound": least, "policies": results, "report": str(path)}
            | {"certificate": certificate}
        )
        return
    screen.print(f"\n{ending(loaded.problem, ends, right=right)}.")
    for line in answers_told(certificate):
        screen.print("  " + line)
    screen.print()
    bound = "" if least is None else f"; no algorithm can expect fewer than {least:,.0f} samples"
    shown = table(f"{replications:,} runs each{bound}", *head)
    for row in rows:
        shown.add_row(*row)
    screen.print(shown)
    screen.print(f"Report: {path.resolve()} (open it in a browser)", soft_wrap=True)
    screen.print(
        "Next: copy examples/paper.toml, put in your own arms, agents and weights, and run `parley demo --study`."
    )


def _side_by_side(results: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the comparison: samples, rounds, errors; the bound, money and days where there are such."""
    drawn = [result.get("samples", result["cost"]) for result in results]
    columns = {
        "policy": [result["policy"] for result in results],
        "samples, mean ± sd": [f"{found['mean']:,.0f} ± {found['std']:,.0f}" for found in drawn],
        "rounds": [f"{result['rounds']['mean']:.2f}" for result in results],
        "wrong answers": [
            f"{result['error_rate'] * result['replications']:,.0f} of {result['replications']:,}" for result in results
        ],
    }
    if all(found["ratio"] is not None for found in drawn):
        columns["over the lower bound"] = [f"{found['ratio']:.1f} x" for found in drawn]
    for key, unit in (("cost", "money"), ("days", "days")):
        if key in results[0] and (key == "days" or "samples" in results[0]):
            columns[f"{unit}, mean"] = [f"{result[key]['mean']:,.0f}" for result in results]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _named(study: str | None) -> str:
    return f" --study {study}" if study else ""


def _show(phase: Phase, told: list[str]) -> None:
    drawn, total = int(phase.quotas.sum()), int(phase.after.counts.sum())
    spread = ", ".join(f"{int(count):,}" for count in phase.quotas.sum(axis=0))
    screen.print(f"Phase {phase.number}: {drawn:,} samples (per agent {spread}), {total:,} so far")
    for sentence in told:
        screen.print("  " + sentence.partition(": ")[2])
    if not told:
        screen.print("  nobody ruled out yet")


def _compare(
    study: Study, instance: Instance, replications: int, seed: int, least: float | None, *, quiet: bool
) -> list[dict[str, Any]]:
    made: list[Policy] = []
    for name in POLICIES:
        options = study.options if name == study.policy else {}
        try:
            made.append(make_policy(name, study.problem, options, instance))
        except InvalidInput:
            continue  # a policy that this problem is not for: PF-UCB beyond personalized weights
    results = []
    with progress_bar("comparing policies", replications * len(made), hidden=quiet) as advance:
        for policy in made:
            outcome = simulate(policy, instance, replications=replications, seed=seed, progress=advance)
            results.append(summary(outcome, {} if least is None else {"samples": least}))
    return results
