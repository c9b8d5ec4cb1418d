"""`parley simulate` compares many runs of a policy with the lower bound; `parley audit-policy` measures rare errors."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import click
import numpy as np

from parley.bounds import RegretUntil, bai, bounds_are_exact, expected_samples, regret
from parley.bounds.prices import priced_bounds
from parley.cli.console import (
    json_option,
    policy_option,
    print_json,
    progress_bar,
    screen,
    seed_option,
    show_table,
    study_argument,
)
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.policies.evidence.racing import EvidenceRacing
from parley.problem import FloatArray, Instance, IntArray
from parley.rewards.privacy import DELTA, epsilon
from parley.simulation import ENVIRONMENTS, Outcome, Regret, simulate
from parley.simulation.guarded import simulate_guarded
from parley.simulation.rare import hardest_ties, ruled_out_probability
from parley.study import load_study
from parley.text.formatting import plural
from parley.text.status import OutcomeStatus


@click.command()
@study_argument
@policy_option
@click.option("--replications", default=1000, show_default=True, help="Number of independent runs.")
@seed_option
@click.option("--max-samples", type=int, help="Stop a run before the phase that would exceed this many samples.")
@click.option("--environment", metavar="NAME", help=f"One of {', '.join(ENVIRONMENTS)}; default: as the noise says.")
@click.option(
    "--chunk",
    type=int,
    help="Replications held in memory at once, rounded up to whole blocks of 256; does not affect results.",
)
@json_option
def simulate_command(
    study: str,
    policy: str | None,
    replications: int,
    seed: int,
    max_samples: int | None,
    environment: str | None,
    chunk: int | None,
    as_json: bool,
) -> None:
    """Run a policy on STUDY many times, and show samples, rounds, errors, and the ratio to the lower bound.

    The study needs a [truth]. The policy's options come from the study's [policy] section; they apply if --policy is
    left out or names the same policy.
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
    document = loaded.problem.settings() | summary(outcome, least_of(instance))
    document |= {"study": loaded.name, "guarantee": chosen.guarantee, "drift": chosen.drift}
    if any(one.guards for one in loaded.problem.outcomes) and instance.outcomes:
        with progress_bar("the same with guardrails", replications, hidden=as_json) as advance:
            found = simulate_guarded(chosen, instance, replications=replications, seed=seed, progress=advance)
        document["guardrails"] = found.document()
    rho = loaded.problem.rho
    if rho is not None:
        document["privacy"] = {"rho": rho, "epsilon": epsilon(rho), "delta": DELTA}
    if as_json:
        print_json(document)
        return
    rows = [*loaded.problem.descriptions().items(), *_figure_rows(document, instance)]
    rows.append(("replications per second", f"{replications / outcome.seconds:,.0f}"))
    title = f"{loaded.name}: {name}, {plural(replications, 'replication')}, seed {seed}"
    show_table(title, ("quantity", "value"), rows)
    # If means drift, name the guarantee under drift first; for some policies the usual guarantee does not hold then.
    if instance.drift and not chosen.allows_drift:
        screen.print(f"Guarantee: {chosen.drift}. If they stayed: {chosen.guarantee}.")
    else:
        drift = f" Under drift: {chosen.drift}." if instance.drift else ""
        screen.print(f"Guarantee: {chosen.guarantee}.{drift}")


def _figure_rows(document: Mapping[str, Any], instance: Instance) -> Iterator[tuple[str, str]]:
    """Yield the rows of the printed table: what the runs cost, how long they took, and how they ended."""
    problem, lost = instance.problem, document.get("regret")
    about = " (for Gaussian rewards)" if problem.noise.bound_note and not bounds_are_exact(instance) else ""
    if instance.opens or instance.withdraws:
        about += " (first question)"
    if lost is None:  # with a horizon, the number of samples is fixed
        samples = document.get("samples", document["cost"])
        yield from _spread_rows(samples, "samples", about)
    if "samples" in document:
        yield from _spread_rows(document["cost"], "money", about)
    if "days" in document:
        yield from _spread_rows(document["days"], "days", about)
    if lost is not None:
        # C* log T bounds regret only as the horizon T grows. For this horizon, the reference is what it costs to
        # explore the arms that are worth exploring.
        yield from _spread_rows(lost | {"ratio": None}, "regret", ", for ever longer horizons (C* log T)")
        if lost["reference"]:
            yield "reference: what exploring costs where it pays until this horizon", f"{lost['reference']:,.0f}"
            yield "mean regret over the reference", f"{lost['over_reference']:.1f}"
        realised = lost["realised"]
        yield "as realised, mean ± standard deviation", f"{realised['mean']:,.0f} ± {realised['std']:,.0f}"
        yield "regret of each agent, mean", ", ".join(f"{value:,.0f}" for value in lost["agents"])
    yield "rounds, mean", f"{document['rounds']['mean']:.2f}"
    errors = f"wrong answers (at most {problem.delta:g} allowed)" if lost is None else "a best arm ruled out"
    yield errors, f"{document['error_rate']:.5f}"
    if lost is not None:  # a run ends with its horizon, whatever is proven by then: other endings mean nothing
        yield "all arms but one ruled out, for every agent", f"{document['ends']['decided']:.1%}"
        return
    for name, guard in document.get("guardrails", {}).items():
        yield f"guardrail {name}: studies with an alarm", f"{guard['alarms']:.1%}"
        yield f"guardrail {name}: studies with an arm that is cleared", f"{guard['cleared']:.1%}"
        yield f"guardrail {name}: studies with a false alarm or clearing", f"{guard['wrongly']:.2%}"
    for end, share in document["ends"].items():
        if share and document["ends"]["decided"] < 1:
            yield f"ended as {OutcomeStatus(end).description}", f"{share:.1%}"


def _spread_rows(figures: Mapping[str, Any], unit: str, about: str) -> Iterator[tuple[str, str]]:
    yield f"{unit}, mean ± standard deviation", f"{figures['mean']:,.0f} ± {figures['std']:,.0f}"
    yield f"{unit}, 10% to 90%", f"{figures['p10']:,.0f} to {figures['p90']:,.0f}"
    yield f"{unit}, smallest to largest", f"{figures['min']:,.0f} to {figures['max']:,.0f}"
    if figures["lower_bound"] is not None:
        yield f"lower bound on the expected {unit}{about}", f"{figures['lower_bound']:,.0f}"
    if figures["ratio"] is not None:
        yield f"mean {unit} over the lower bound", f"{figures['ratio']:.1f}"


def least_of(instance: Instance) -> dict[str, float]:
    """Name -> lower bound on any algorithm's expected samples and, if priced, money and days.

    Empty if arms tie, or if the question has a tolerance. With a horizon: the reference value for that horizon and,
    unless arms tie, the lower bound on regret.
    """
    horizon = instance.problem.horizon
    if isinstance(horizon, int):  # the number of draws is fixed, so regret is what counts
        known = {"reference": RegretUntil.of(instance, horizon).value}
        return (
            known if instance.tied else known | {"regret": regret(instance, accuracy=1e-6).proven * math.log(horizon)}
        )
    if instance.tied:
        return {}
    if not instance.problem.asks_exactly:
        return {}
    bounds = priced_bounds(instance, accuracy=1e-6) | {"samples": bai(instance, accuracy=1e-6)}
    return {key: expected_samples(bound, instance.problem.delta) for key, bound in bounds.items()}


def summary(outcome: Outcome, least: Mapping[str, float]) -> dict[str, Any]:
    """Summarise an outcome under the keys of `parley simulate --json`.

    `cost` is in money if prices are stated, and then `samples` has the number of draws. Without prices, `cost` is the
    number of draws. `days` exists if rates are stated.
    """
    rounds, samples = outcome.rounds, spread(outcome.costs, least.get("samples"))
    cost = spread(outcome.money, least.get("cost")) if outcome.priced else samples
    document = {
        "policy": outcome.policy,
        "replications": len(rounds),
        "seed": outcome.seed,
        "cost": cost,
        "rounds": {"mean": float(rounds.mean()), "std": float(rounds.std()), "max": int(rounds.max())},
        "error_rate": outcome.error_rate,
        "unfinished": int((~outcome.finished).sum()),
        "ends": outcome.status_shares,
        "lower_bound": cost["lower_bound"],
        "ratio": cost["ratio"],
        "draws": outcome.draws.tolist(),
        "seconds": outcome.seconds,
    }
    if outcome.priced:
        document["samples"] = samples
    if outcome.days is not None:
        document["days"] = spread(outcome.days, least.get("time"))
    if outcome.regret is not None:
        document["regret"] = _regret_figures(outcome.regret, least.get("regret"), least.get("reference"))
    return document


def _regret_figures(found: Regret, lower_bound: float | None, reference: float | None) -> dict[str, Any]:
    """Summarise regret: in total, by agent, as realised, and over time with a band that contains 80 % of the runs.

    `reference` is a value for this horizon, not a bound. `ratio` is the total divided by `lower_bound`, which holds
    only as horizons grow.
    """
    low, high = np.quantile(found.curves, (0.1, 0.9), axis=0)
    return spread(found.totals, lower_bound) | {
        "agents": found.pseudo.mean(axis=0).tolist(),
        "reference": reference,
        "over_reference": float(found.totals.mean()) / reference if reference else None,
        "realised": spread(found.realised.sum(axis=-1), None),
        "curve": {
            "times": found.times.tolist(),
            "mean": found.curves.mean(axis=0).tolist(),
            "p10": low.tolist(),
            "p90": high.tolist(),
        },
    }


def spread(values: IntArray | FloatArray, lower_bound: float | None) -> dict[str, Any]:
    """Summarise a quantity over the replications: its mean, its spread, and its ratio to the lower bound, if any."""
    mean, deviation = float(values.mean()), float(values.std())
    low, high = (float(value) for value in np.quantile(values, (0.1, 0.9)))
    return {
        "mean": mean,
        "std": deviation,
        "standard_error": deviation / math.sqrt(len(values)),
        "min": values.min().item(),
        "max": values.max().item(),
        "p10": low,
        "p90": high,
        "lower_bound": lower_bound,
        "ratio": mean / lower_bound if lower_bound else None,
    }


@click.command("audit-policy")
@study_argument
@click.option("--delta", type=float, help="Use this delta instead of the study's.")
@click.option("--agent", "only", metavar="NAME", help="One agent only.")
@click.option("--replications", default=4000, show_default=True, help="Tilted runs per cell.")
@seed_option
@json_option
def audit_policy_command(
    study: str, delta: float | None, only: str | None, replications: int, seed: int, as_json: bool
) -> None:
    """Measure how often STUDY's policy rules out a true top arm, at the ties that are hardest for it.

    At a delta such as 1e-5, errors are too rare to count. So runs are drawn from the measure that the policy's own bets
    describe, under which errors are common, and are weighted back exactly (importance sampling): a few thousand runs
    estimate a probability of 1e-10 to within a few per cent. A cell is one tie for one agent; the sum over the agents
    bounds the error of the whole study. An estimate that depends on too few runs is refused.
    """
    loaded = load_study(study)
    problem = loaded.problem if delta is None else loaded.problem.with_(delta=delta)
    policy = make_policy(loaded.policy, problem, loaded.options, loaded.instance)
    if not isinstance(policy, EvidenceRacing):
        raise InvalidInput("policy", found=policy.name, allowed="evidence: only its bets allow importance sampling")
    if only is not None and only not in problem.agents:
        raise InvalidInput("--agent", found=repr(only), allowed=f"one of {', '.join(problem.agents)}")
    # One agent per distinct column of weights: agents with equal columns make the same errors.
    distinct = np.sort(np.unique(problem.weights, axis=1, return_index=True)[1]).tolist()
    agents = distinct if only is None else [problem.agents.index(only)]
    ties = hardest_ties(problem)
    cells: list[dict[str, Any]] = []
    with progress_bar(f"audit of {loaded.name}", replications * len(ties) * len(agents), hidden=as_json) as advance:
        for tie in ties:
            for agent in agents:
                found = ruled_out_probability(
                    policy, tie.instance, arm=tie.arm, agent=agent, replications=replications, seed=seed,
                    progress=advance,
                ).require_believable()  # fmt: skip
                cells.append(
                    {
                        "tie": tie.words,
                        "arm": problem.arms[tie.arm],
                        "agent": problem.agents[agent],
                        "delta": problem.delta,
                        "error": found.probability,
                        "standard_error": found.standard_error,
                        "effective_runs": found.effective,
                        "largest_share": found.largest_share,
                        "unresolved": found.unresolved,
                    }
                )
    if as_json:
        named = {"study": loaded.name, "policy": policy.name, "delta": problem.delta}
        worst = max(cells, key=lambda cell: cell["error"])
        print_json(named | {"replications": replications, "seed": seed, "cells": cells, "worst": worst})
        return
    title = f"{loaded.name}: {policy.name} at delta {problem.delta:g}, {replications:,} tilted runs a cell, seed {seed}"
    head = ("tie", "agent", "arm", "ruled out with probability", "± standard error", "of delta")
    rows = []
    for cell in cells:
        error = (f"{cell['error']:.3g}", f"{cell['standard_error']:.1g}", f"{cell['error'] / problem.delta:.3f}")
        rows.append((cell["tie"], cell["agent"], cell["arm"], *error))
    show_table(title, head, rows)
    screen.print("An error of the study is one of these for some agent: their sum over the agents is at most delta.")
