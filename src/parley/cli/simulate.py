"""`parley simulate`: one policy, many replications, against the lower bound."""

from __future__ import annotations

import math
from typing import Any

import click

from parley.bounds import bai, expected_samples
from parley.cli.console import json_option, policy_option, print_json, progress_bar, screen, study_argument, table
from parley.policies import make_policy
from parley.simulation import ENVIRONMENTS, Outcome, simulate
from parley.study import load_study

__all__ = ["command", "summary"]


@click.command()
@study_argument
@policy_option
@click.option("--replications", default=1000, show_default=True, help="Independent runs.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same numbers.")
@click.option("--max-samples", type=int, help="Stop a run before the phase that would exceed this many samples.")
@click.option("--environment", metavar="NAME", help=f"One of {', '.join(ENVIRONMENTS)}; default: as the noise says.")
@click.option(
    "--chunk",
    type=int,
    help="Replications held in memory at once, rounded up to whole blocks of 256; changes no number.",
)
@json_option
def command(
    study: str,
    policy: str | None,
    replications: int,
    seed: int,
    max_samples: int | None,
    environment: str | None,
    chunk: int | None,
    as_json: bool,
) -> None:
    """Run a policy on STUDY many times: samples, rounds, errors, and the ratio to the lower bound.

    The study needs a [truth]. Options of the policy stand in its [policy] section and count when --policy is left out
    or names the same policy.
    """
    loaded = load_study(study)
    instance = loaded.require_truth()
    name = policy or loaded.policy
    options = loaded.options if name == loaded.policy else {}
    chosen = make_policy(name, loaded.problem, options, instance)
    with progress_bar(f"{name} on {loaded.name}", replications, hidden=as_json) as advance:
        outcome = simulate(
            chosen,
            instance,
            replications=replications,
            seed=seed,
            environment=environment,
            max_samples=max_samples,
            chunk=chunk,
            progress=advance,
        )
    least = None if instance.tied else expected_samples(bai(instance, accuracy=1e-6), loaded.problem.delta)
    document = (
        loaded.problem.terms()
        | summary(outcome, least)
        | {
            "study": loaded.name,
            "guarantee": chosen.guarantee,
        }
    )
    if as_json:
        print_json(document)
        return
    shown = table(f"{loaded.name}: {name}, {replications:,} replications, seed {seed}", "quantity", "value")
    cost, rounds = document["cost"], document["rounds"]
    for key, words in loaded.problem.told().items():
        shown.add_row(key, words)
    shown.add_row("samples, mean ± standard deviation", f"{cost['mean']:,.0f} ± {cost['std']:,.0f}")
    shown.add_row("samples, smallest to largest", f"{cost['min']:,} to {cost['max']:,}")
    shown.add_row("rounds, mean", f"{rounds['mean']:.2f}")
    shown.add_row(f"wrong answers (at most {loaded.problem.delta:g} allowed)", f"{document['error_rate']:.5f}")
    if document["unfinished"]:
        shown.add_row("stopped by the sample cap", f"{document['unfinished']:,} of {replications:,}")
    if least is not None:
        whose = "" if loaded.problem.noise.kind == "gaussian" else " (for Gaussian rewards of that scale)"
        shown.add_row(f"lower bound on the expected samples{whose}", f"{least:,.0f}")
        if document["ratio"] is not None:
            shown.add_row("mean samples over the lower bound", f"{document['ratio']:.1f}")
    shown.add_row("replications per second", f"{replications / outcome.seconds:,.0f}")
    screen.print(shown)
    screen.print(f"Guarantee: {chosen.guarantee}.")


def summary(outcome: Outcome, lower_bound: float | None) -> dict[str, Any]:
    """The figures of an outcome under the keys of `parley simulate --json`."""
    costs, rounds = outcome.costs, outcome.rounds
    count = len(costs)
    mean = float(costs.mean())
    return {
        "policy": outcome.policy,
        "replications": count,
        "seed": outcome.seed,
        "cost": {
            "mean": mean,
            "std": float(costs.std()),
            "standard_error": float(costs.std() / math.sqrt(count)),
            "min": int(costs.min()),
            "max": int(costs.max()),
        },
        "rounds": {"mean": float(rounds.mean()), "std": float(rounds.std()), "max": int(rounds.max())},
        "error_rate": outcome.error_rate,
        "unfinished": int((~outcome.finished).sum()),
        "lower_bound": lower_bound,
        "ratio": mean / lower_bound if lower_bound else None,
        "draws": outcome.draws.tolist(),
        "seconds": outcome.seconds,
    }
