"""`parley bounds`: compute every lower bound of a study's instance, with a proof of its accuracy."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from parley.bounds import Bound, Guarantee, RegretUntil, bai, expected_samples, lower_bounds
from parley.bounds.prices import priced_bounds
from parley.cli.console import json_option, print_json, say, screen, show_table, study_argument
from parley.errors import InvalidInput
from parley.policies import option_names
from parley.problem import Instance, Problem
from parley.study import load_study
from parley.text.formatting import plural, size_text
from parley.weight_map import stated_alone

TITLES = {
    "bai": "identification, T* (N* for a top N)",
    "bai_relaxed": "identification, relaxed",
    "regret": "regret, C*",
    "regret_relaxed": "regret, relaxed",
    "cost": "identification, money",
    "time": "identification, days",
    "time_and_money": "identification, days times day_cost, and money",
    "regret_and_money": "regret and money",
}
UNPRICED = list(TITLES)[:4]  # the others need prices or rates
REGRET_ACCURACY = 1e-6  # for regret until a horizon, which takes many solves and is only a reference value


@click.command()
@study_argument
@click.option("--accuracy", default=1e-9, show_default=True, help="Largest relative gap between bound and proof.")
@click.option("--allocation", is_flag=True, help="Show the optimal allocation of the identification bound too.")
@click.option(
    "--horizon",
    "horizons",
    type=click.IntRange(min=1),
    multiple=True,
    help="Horizon in draws per agent, for bounds on regret; may be repeated. Default: the study's horizon.",
)
@json_option
def bounds_command(study: str, accuracy: float, allocation: bool, horizons: tuple[int, ...], as_json: bool) -> None:
    """Compute every lower bound of STUDY, each with a proven limit on its error.

    Identification: no algorithm with error at most delta can expect to draw fewer than value * log(1 / (2.4 delta))
    samples. Regret: over long horizons T, no uniformly efficient algorithm has a regret below value * log(T). The
    relaxed value for regret is larger, so it is not a lower bound. With prices and rates, there are bounds for money
    and days too. The study needs a [truth].

    Up to a given horizon T, exploring everything may cost more than it saves. So compare a policy's regret with the
    smaller of C* log T (C* is the value of the regret bound) and the regret of not exploring. If only some arms are
    worth exploring, the right reference is even smaller. With a horizon, the command shows all three, even if arms tie
    and every other bound is infinite.
    """
    loaded = load_study(study)
    option_names(loaded.policy)  # bounds need no policy, but a study that names an unknown one is an error
    instance = _exact(loaded.require_truth())
    problem = instance.problem
    stated = problem.horizon
    asked = horizons or ((stated,) if isinstance(stated, int) else ())
    played = [RegretUntil.of(instance, horizon, accuracy=max(accuracy, REGRET_ACCURACY)) for horizon in asked]
    # Start with null for every bound: if arms tie, the bounds are infinite and stay null.
    document: dict[str, Any] = {"study": loaded.name, "arms": problem.arms, "agents": problem.agents}
    document |= {"top": problem.top, "delta": problem.delta, "smallest_gap": instance.smallest_gap}
    document |= dict.fromkeys((*UNPRICED, "lower_bound", "wcpe_guarantee"))
    until = [_until(one) for one in played]
    if played and instance.tied:
        if as_json:
            print_json(document | {"regret_until": until})
        else:
            _show_until(loaded.name, until)
        return
    found = lower_bounds(instance, accuracy=accuracy)
    bounds: dict[str, Bound | None] = {key: getattr(found, key) for key in UNPRICED}
    bounds |= priced_bounds(instance, accuracy=accuracy)
    least = {key: expected_samples(b, problem.delta) for key in ("bai", "cost", "time") if (b := bounds.get(key))}
    guarantee = _guarantee(instance, found.bai)
    certain = _without_doubt(instance, accuracy)
    document |= {} if certain is None else {"without_doubt": _plain(certain)}
    if as_json:
        document |= {key: bound and _plain(bound) for key, bound in bounds.items()}
        document |= {"lower_bound": least["bai"], "wcpe_guarantee": guarantee and vars(guarantee)}
        print_json(document | {"regret_until": until})
        return
    rows = []
    for key, bound in bounds.items():
        proof = "tie for a best arm" if bound is None else f"{bound.gap:.0e}" if bound.gap >= 1e-15 else "below 1e-15"
        rows.append((TITLES[key], "infinite" if bound is None else f"{bound.value:,.5f}", proof))
    size = size_text(problem.shape, len(problem.asks_only))
    size += f", top {problem.top}, smallest gap {instance.smallest_gap:.4g}"
    show_table(f"{loaded.name}: {size}", ("bound", "value", "proven gap"), rows)
    if played:
        _show_until(loaded.name, until)
    screen.print(
        f"At delta = {problem.delta:g} no algorithm can expect to draw fewer than {least['bai']:,.0f} samples."
    )
    for key, words in (("cost", "to pay less than {:,.0f}"), ("time", "to be done in less than {:,.1f} days")):
        if key in least:
            screen.print(f"None can expect {words.format(least[key])}.")
    for note in _notes(instance, found.bai, certain):
        say(note)
    if guarantee:
        screen.print(
            f"W-CPE is proven to need at most {plural(guarantee.rounds, 'round')} and {guarantee.samples:,.0f} samples "
            f"(with probability {1 - problem.delta:g}); in practice far fewer: try `parley simulate {study}`."
        )
    if allocation:
        _show_allocation(problem, found.bai)


def _show_allocation(problem: Problem, bound: Bound) -> None:
    cells = [
        (name, *(f"{value:,.2f}" for value in row))
        for name, row in zip(problem.arms, bound.allocation[:, problem.draws], strict=True)
    ]
    show_table("Optimal allocation, per unit of log(1 / (2.4 delta))", ("arm", *problem.sites), cells)


def _exact(instance: Instance) -> Instance:
    """The instance without the tolerance that weights in doubt require: bounds exist only for a tolerance of 0."""
    if not instance.problem.weight_steps:
        return instance
    return replace(instance, problem=instance.problem.with_(tolerance=0.0, weight_refine=0))


def _notes(instance: Instance, bound: Bound, certain: Bound | None) -> Iterator[str]:
    if certain is not None:
        yield (
            f"With the middle weights alone, T* is {certain.value:,.5f}: doubt about the weights costs "
            f"{bound.value / certain.value:.2f} times as much. These are bounds of the exact question, without a "
            "tolerance."
        )
    if note := instance.problem.noise.bound_note:
        yield f"These bounds are {note}."
    elif instance.history is not None and instance.problem.noise.free_scale:
        yield "These bounds are for Gaussian rewards with the means and the standard deviations of the rows."


def _without_doubt(instance: Instance, accuracy: float) -> Bound | None:
    """The bound T* for the middle weights alone; None if no weights are in doubt."""
    if not instance.problem.weight_steps:
        return None
    return bai(replace(instance, problem=stated_alone(instance.problem)), accuracy=accuracy)


def _guarantee(instance: Instance, bound: Bound) -> Guarantee | None:
    """The guarantee of W-CPE; None without a scale, or with a covariate, since W-CPE then has no intervals."""
    if instance.problem.covariate is not None:
        return None
    try:
        instance.problem.noise.require_scale("W-CPE")
    except InvalidInput:
        return None
    return Guarantee.of(instance, bound)


def _plain(bound: Bound) -> dict[str, Any]:
    return {"value": bound.value, "gap": bound.gap, "allocation": bound.allocation.tolist()}


def _until(one: RegretUntil) -> dict[str, Any]:
    return {
        "horizon": one.horizon,
        "log_bound": one.log_bound if math.isfinite(one.log_bound) else None,
        "not_exploring": one.not_exploring,
        "value": one.value,
        "explored": one.explored.tolist(),
    }


def _show_until(name: str, until: list[dict[str, Any]]) -> None:
    keys = ("log_bound", "not_exploring", "value")
    rows = [
        (f"{one['horizon']:,}", *("infinite" if one[key] is None else f"{one[key]:,.1f}" for key in keys))
        for one in until
    ]
    head = ("draws per agent", "C* log T", "nothing explored", "what pays")
    show_table(f"{name}: regret until a horizon", head, rows)
