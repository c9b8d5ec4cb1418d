"""`parley bounds`: every lower bound of a study's instance, with its certificate."""

from __future__ import annotations

from typing import Any

import click

from parley.bounds import Bound, Bounds, Guarantee, expected_samples, lower_bounds
from parley.bounds.prices import priced_bounds
from parley.cli.console import json_option, print_json, say, screen, show_table, study_argument
from parley.errors import InvalidInput
from parley.formatting import plural, size_text
from parley.policies import option_names
from parley.problem import Instance
from parley.study import load_study

TITLES = {
    "bai": "identification, T* (N* for a top N)",
    "bai_relaxed": "identification, relaxed",
    "regret": "regret, C*",
    "regret_relaxed": "regret, relaxed",
}
PRICED = {
    "cost": "identification, money",
    "time": "identification, days",
    "time_and_money": "identification, days times day_cost, and money",
    "regret_and_money": "regret and money",
}


@click.command()
@study_argument
@click.option("--accuracy", default=1e-9, show_default=True, help="Largest relative gap between bound and proof.")
@click.option("--allocation", is_flag=True, help="Show the optimal allocation of the identification bound too.")
@json_option
def bounds_command(study: str, accuracy: float, allocation: bool, as_json: bool) -> None:
    """Compute every lower bound of STUDY, each with a proven gap.

    Identification: no algorithm with error at most delta can expect to draw fewer than value * log(1 / (2.4 delta))
    samples. Regret: over long horizons T, none that is uniformly efficient has a regret below value * log(T). With
    prices and rates, the same of money and days. The study needs a [truth].
    """
    loaded = load_study(study)
    option_names(loaded.policy)  # bounds need no policy, but a study that names one that does not exist is wrong
    instance = loaded.require_truth()
    bounds = lower_bounds(instance, accuracy=accuracy)
    priced = priced_bounds(instance, accuracy=accuracy)
    guarantee = _guarantee(instance, bounds.bai)
    if as_json:
        print_json(_document(loaded.name, instance, bounds, priced, guarantee))
        return
    problem = instance.problem
    rows = []
    for key, name in TITLES.items():
        bound: Bound | None = getattr(bounds, key)
        rows.append((name, "infinite", "tie for a best arm") if bound is None else (name, *_value_and_proof(bound)))
    rows += [(PRICED[key], *_value_and_proof(bound)) for key, bound in priced.items()]
    size = f"{size_text(problem.shape)}, top {problem.top}, smallest gap {instance.smallest_gap:.4g}"
    show_table(f"{loaded.name}: {size}", ("lower bound", "value", "proven gap"), rows)
    least = expected_samples(bounds.bai, problem.delta)
    screen.print(f"At delta = {problem.delta:g} no algorithm can expect to draw fewer than {least:,.0f} samples.")
    for key, words in (("cost", "to pay less than {:,.0f}"), ("time", "to be done in less than {:,.1f} days")):
        if key in priced:
            screen.print(f"None can expect {words.format(expected_samples(priced[key], problem.delta))}.")
    if problem.noise.bound_note:
        say(f"These bounds are {problem.noise.bound_note}.")
    if guarantee:
        screen.print(
            f"W-CPE is proven to need at most {plural(guarantee.rounds, 'round')} and {guarantee.samples:,.0f} samples "
            f"(with probability {1 - problem.delta:g}); in practice far fewer: try `parley simulate {study}`."
        )
    if allocation:
        cells = [
            (name, *(f"{value:,.2f}" for value in row))
            for name, row in zip(problem.arms, bounds.bai.allocation, strict=True)
        ]
        show_table("Optimal allocation, per unit of log(1 / (2.4 delta))", ("arm", *problem.agents), cells)


def _guarantee(instance: Instance, bound: Bound) -> Guarantee | None:
    """What is proven for W-CPE; None where it has no intervals, for nobody stated a scale."""
    try:
        instance.problem.noise.require_scale("W-CPE")
    except InvalidInput:
        return None
    return Guarantee.of(instance, bound)


def _value_and_proof(bound: Bound) -> tuple[str, str]:
    return f"{bound.value:,.5f}", f"{bound.gap:.0e}" if bound.gap >= 1e-15 else "below 1e-15"


def _plain(bound: Bound) -> dict[str, Any]:
    return {"value": bound.value, "gap": bound.gap, "allocation": bound.allocation.tolist()}


def _document(
    name: str, instance: Instance, bounds: Bounds, priced: dict[str, Bound], guarantee: Guarantee | None
) -> dict[str, Any]:
    problem = instance.problem
    document: dict[str, Any] = {
        "study": name,
        "top": problem.top,
        "delta": problem.delta,
        "smallest_gap": instance.smallest_gap,
    }
    for key in TITLES:
        bound: Bound | None = getattr(bounds, key)
        document[key] = bound and _plain(bound)
    document |= {key: _plain(bound) for key, bound in priced.items()}
    document["lower_bound"] = expected_samples(bounds.bai, problem.delta)
    document["wcpe_guarantee"] = guarantee and vars(guarantee)
    return document
