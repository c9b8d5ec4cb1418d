"""`parley demo`: one study followed phase by phase, then the policies side by side, then a page to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from parley.bounds import bai, expected_samples
from parley.cli.console import checked_output, print_json, progress_bar, screen, table, write_page
from parley.cli.simulate import summary
from parley.errors import InvalidInput
from parley.experiments.look.demo_page import demo_page
from parley.policies import POLICIES, Policy, make_policy
from parley.problem import Instance
from parley.simulation import Phase, phases, simulate
from parley.study import DEFAULT_POLICY, Study, load_study, parse_study
from parley.words import real

__all__ = ["command"]

HORIZON = 100_000  # of the embedded study, with --regret
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
    if regret:
        from parley.cli.demo_regret import show_regret

        show_regret(
            load_study(study) if study else parse_study(EMBEDDED | {"horizon": HORIZON, "policy": {}}),
            replications=replications,
            seed=seed,
            output=output,
            command=f"parley demo --regret{_named(study)} --replications {replications} --seed {seed}",
            as_json=as_json,
        )
        return
    loaded = load_study(study) if study else parse_study(EMBEDDED)
    instance = loaded.require_truth()
    instance.require_distinct()
    policy = make_policy(loaded.policy, loaded.problem, loaded.options, instance)
    if not as_json:
        screen.print(f"{loaded.name}: {_sizes(instance)}")
        screen.print(f"Policy {policy.name}: {policy.guarantee}.\n")
    course, reasons = [], []
    for phase in phases(policy, instance, seed=seed):
        course.append(phase)
        told = list(_eliminations(policy, phase))
        reasons += told
        if not as_json:
            _show(phase, told)
    certificate = policy.certificate(course[-1].after)
    least = expected_samples(bai(instance, accuracy=1e-6), loaded.problem.delta)
    results = _compare(loaded, instance, replications, seed, least, quiet=as_json)
    billed = {"cost": "money", "days": "days"} if "samples" in results[0] else {"days": "days"}
    billed = {key: f"{unit}, mean" for key, unit in billed.items() if key in results[0]}
    head = ("policy", "samples, mean ± sd", "rounds", "wrong answers", "over the lower bound", *billed.values())
    rows = [
        [
            result["policy"],
            f"{drawn['mean']:,.0f} ± {drawn['std']:,.0f}",
            f"{result['rounds']['mean']:.2f}",
            f"{result['error_rate'] * result['replications']:,.0f} of {result['replications']:,}",
            f"{drawn['ratio']:.1f} x" if drawn["ratio"] is not None else "-",
            *(f"{result[key]['mean']:,.0f}" for key in billed),
        ]
        for result, drawn in ((result, result.get("samples", result["cost"])) for result in results)
    ]
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
    right = bool((course[-1].after.answers == instance.best).all())
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
    screen.print(f"\nEvery agent has its answer, and {'all are right' if right else 'at least one is WRONG'}.")
    for line in _bounds(certificate):
        screen.print("  " + line)
    screen.print()
    shown = table(f"{replications:,} runs each; no algorithm can expect fewer than {least:,.0f} samples", *head)
    for row in rows:
        shown.add_row(*row)
    screen.print(shown)
    screen.print(f"Report: {path.resolve()} (open it in a browser)", soft_wrap=True)
    screen.print(
        "Next: copy examples/paper.toml, put in your own arms, agents and weights, and run `parley demo --study`."
    )


def _named(study: str | None) -> str:
    return f" --study {study}" if study else ""


def _bounds(certificate: dict[str, Any]) -> Iterator[str]:
    """For every agent its answer, and what is proven of the gaps where the policy bounds them."""
    for agent in certificate["agents"]:
        told = f"{agent['agent']}: {', '.join(agent['chosen'])}"
        proven = [
            f"{arm['arm']} by {arm['gap_at_least']:.2f}" for arm in agent["arms"] if arm.get("gap_at_least", 0) >= 0.005
        ]
        yield f"{told}, proven better than {', '.join(proven)} at least" if proven else told


def _sizes(instance: Instance) -> str:
    problem = instance.problem
    return (
        f"{problem.arm_count} arms, {problem.agent_count} agents, top {problem.top}, delta {problem.delta:g}, "
        f"smallest gap {instance.smallest_gap:.3f}"
    )


def _eliminations(policy: Policy, phase: Phase) -> Iterator[str]:
    """One sentence for every arm that this phase ruled out."""
    problem, told = policy.problem, policy.certificate(phase.after)["agents"]
    for arm, agent in np.argwhere(phase.before.active & ~phase.after.active):
        entries = {entry["arm"]: entry for entry in told[agent]["arms"]}
        out = entries[problem.arms[arm]]
        rivals = out.get("opponents") or told[agent]["chosen"]  # those that beat it, as the certificate has them
        against = " and ".join(f"{real(entries[rival]['mixed_mean'])} of {rival}" for rival in rivals)
        yield (
            f"Phase {phase.number}: {out['arm']} is out for {problem.agents[agent]}, mixed mean "
            f"{real(out['mixed_mean'])} against {against}."
        )


def _show(phase: Phase, told: list[str]) -> None:
    drawn, total = int(phase.quotas.sum()), int(phase.after.counts.sum())
    spread = ", ".join(f"{int(count):,}" for count in phase.quotas.sum(axis=0))
    screen.print(f"Phase {phase.number}: {drawn:,} samples (per agent {spread}), {total:,} so far")
    for sentence in told:
        screen.print("  " + sentence.partition(": ")[2])
    if not told:
        screen.print("  nobody ruled out yet")


def _compare(
    study: Study, instance: Instance, replications: int, seed: int, least: float, *, quiet: bool
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
            results.append(summary(outcome, {"samples": least}))
    return results
