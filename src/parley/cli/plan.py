"""`parley plan`: before launch, what a study will cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from parley.cli.console import (
    checked_output,
    edge_options,
    json_option,
    output_option,
    policy_option,
    print_json,
    progress_bar,
    say,
    screen,
    seed_option,
    study_argument,
    warn,
    write_page,
)
from parley.errors import InvalidInput
from parley.experiments.forecasts import plan_page
from parley.experiments.forecasts.planning import (
    CostPlan,
    Logistics,
    Planner,
    ScenarioCost,
    logistics,
    make_plan,
    plan_studies,
    trade_off_studies,
)
from parley.experiments.forecasts.power import (
    SEARCH_STEPS,
    Characteristic,
    budget_warning,
    characteristics,
    operating_document,
    operating_scenarios,
    operating_studies,
    powered_budget,
)
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario, prior_scenario, tie_scenario, usual_gaps
from parley.hooks import edges as all_edges
from parley.policies import make_policy
from parley.problem import Problem
from parley.study import Study, load_study

USUAL = 20  # simulated studies per truth


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What `parley plan` was asked for, for an edge that makes something else of it."""

    planner: Planner
    study: Study  # with the settings that options changed
    file: str
    gaps: tuple[float, ...]
    changed: Mapping[str, float]  # option -> value, of what is not as in the file
    replications: int | None  # None: not said
    as_json: bool


@edge_options("plan")
@click.command()
@study_argument
@policy_option
@click.option(
    "--gap",
    "gaps",
    multiple=True,
    type=float,
    help="A gap scenario; may be repeated. Default: 1/2, 1/4 and 1/8 of largest_gap; with a noise.rate or counts, 40, "
    "20 and 10 % of the rate or noise.mean.",
)
@click.option(
    "--spread",
    type=float,
    help="Prior: how far apart arms can be. Default: largest_gap; with a noise.rate or counts, at most the "
    "rate or noise.mean.",
)
@click.option(
    "--heterogeneity", default=0.5, show_default=True, help="Prior: how much agents differ, from 0 (not at all) to 1."
)
@click.option(
    "--min-gap",
    type=float,
    help="Prior: truths with a smaller gap are drawn again. Default: a twentieth of the spread.",
)
@click.option("--instances", default=20, show_default=True, help="Prior: how many truths to draw.")
@click.option("--replications", type=int, help=f"Simulated studies per truth. Default: {USUAL}.")
@seed_option
@click.option("--delay", type=float, help="Days from a draw to its outcome. Default: the study's [sampling] delay.")
@click.option(
    "--dropout", type=float, help="Share of draws without an outcome. Default: the study's [sampling] dropout."
)
@click.option(
    "--operating",
    is_flag=True,
    help="Operating characteristics too: power, samples and rounds by gap, beside a fixed-size design and going alone; "
    "power by budget.",
)
@click.option(
    "--power",
    type=float,
    help="Only answer with the smallest max_samples that has this power: under every --gap (0: all arms tie), else "
    "under the study's [truth], else under the default gaps.",
)
@output_option("parley-plan.html")
@json_option
def plan_command(
    study: str,
    policy: str | None,
    gaps: tuple[float, ...],
    spread: float | None,
    heterogeneity: float,
    min_gap: float | None,
    instances: int,
    replications: int | None,
    seed: int,
    delay: float | None,
    dropout: float | None,
    operating: bool,
    power: float | None,
    output: str,
    as_json: bool,
    edges: Mapping[str, Any],
) -> None:
    """Estimate what STUDY will cost before it is launched: samples per agent, rounds, chance of error.

    Nothing is known of the truth yet, so plausible ones are simulated: for each --gap the hardest truth with that
    gap, and truths drawn from a prior. Also shown: what collaborating saves against every agent alone, and how the
    cost moves with delta and with the weights.
    """
    checked_output(output)
    loaded = load_study(study)
    changed = {key: value for key, value in {"delay": delay, "dropout": dropout}.items() if value is not None}
    problem, name = loaded.problem.with_(**changed), policy or loaded.policy
    if name == "oracle":
        raise InvalidInput("policy", found=name, allowed="a policy that can run without knowing the truth")
    options = loaded.options if name == loaded.policy else {}
    chosen = make_policy(name, problem, options)
    count = replications if replications is not None else USUAL
    planner = Planner(policy=name, options=dict(options), replications=count, seed=seed)
    asked = PlanRequest(
        planner=planner,
        study=replace(loaded, problem=problem),
        file=study,
        gaps=gaps,
        changed=changed,
        replications=replications,
        as_json=as_json,
    )
    if any(edge.instead_of_plan(asked, edges) for edge in all_edges()):
        return
    if power is not None:
        _answer_power(planner, replace(loaded, problem=problem), gaps, power, as_json=as_json)
        return
    wide = spread if spread is not None else problem.noise.usual_spread(problem.largest_gap)
    least = min_gap if min_gap is not None else wide / 20
    wanted = gaps or usual_gaps(problem)
    scenarios = [gap_scenario(problem, gap) for gap in wanted]
    prior = {"spread": wide, "heterogeneity": heterogeneity, "min_gap": least}
    scenarios.append(prior_scenario(problem, **prior, instances=instances, seed=seed))
    truths = operating_scenarios(problem, wanted) | {None: scenarios[-1]} if operating else {}
    plan, timed, known, warning = _run(planner, problem, scenarios, truths, quiet=as_json)
    command = (
        f"parley plan {study} --policy {name} {' '.join(f'--gap {gap:g}' for gap in wanted)} --spread {wide:g} "
        f"--heterogeneity {heterogeneity:g} --min-gap {least:g} --instances {instances} --replications {count} "
        f"--seed {seed}"
        + "".join(f" --{key} {value:g}" for key, value in changed.items())
        + (" --operating" if operating else "")
    )
    page = plan_page.plan_page(
        plan,
        title=f"Plan: {loaded.name}",
        command=command,
        problem=problem,
        policy=name,
        guarantee=chosen.guarantee,
        timed=timed,
        characteristics=known,
        warning=warning,
    )
    path = write_page(output, page)
    if as_json:
        document = problem.settings() | _document(plan, timed)
        if known:
            document["operating"] = operating_document(known)
        document |= {"largest_size": chosen.largest_size, "warning": warning}
        print_json(document | {"study": loaded.name, "policy": name, "seed": seed, "report": str(path)})
        return
    heading = ", ".join([f"{loaded.name}: {name}", f"delta {problem.delta:g}", *problem.descriptions().values()])
    screen.print(plan_page.cost_table(heading, plan))
    if known:
        screen.print(plan_page.operating_table("Operating characteristics", known))
        say(plan_page.largest_fixed_size(known))
        screen.print(plan_page.budget_table("Power by budget", known))
    money_and_days = plan_page.money_and_days_table("Money and days", plan)
    if money_and_days.rows:
        screen.print(money_and_days)
    reference = plan.scenarios[-1].scenario
    if timed and timed.trade_off:
        screen.print(plan_page.trade_off_table(f"Days against money ({reference})", timed))
    screen.print(plan_page.sensitivity_table(f"What moves the cost ({reference})", plan))
    if chosen.largest_size is not None:
        say(f"The study never takes more than {chosen.largest_size:,} samples, whatever the truth.")
    if warning:
        warn(warning)
    screen.print(f"Draws per agent and a picture: {path.resolve()}", soft_wrap=True)


def _run(
    planner: Planner, problem: Problem, scenarios: list[Scenario], truths: dict[float | None, Scenario], *, quiet: bool
) -> tuple[CostPlan, Logistics | None, list[Characteristic], str]:
    """All that is simulated, under one progress bar."""
    named = [truth.name for truth in truths.values()]
    studies = plan_studies(planner, problem, scenarios, named) + operating_studies(planner, truths)
    studies += trade_off_studies(planner, problem, scenarios[-1])
    with progress_bar("simulating studies", studies, hidden=quiet) as advance:
        counted = replace(planner, progress=advance)
        known = characteristics(counted, problem, truths)
        pairs = {one.study.scenario: (one.study, one.alone) for one in known}
        plan, timed = make_plan(counted, problem, scenarios, pairs), logistics(counted, problem, scenarios[-1])
        return plan, timed, known, budget_warning(planner, problem, zip(scenarios, plan.scenarios, strict=True))


POWER_STUDIES = 1000  # of every truth and budget, at least: the Monte Carlo error of a power of 0.9 is then 0.01


def _answer_power(planner: Planner, study: Study, gaps: tuple[float, ...], power: float, *, as_json: bool) -> None:
    """The smallest budget that has the power under each truth that is named, and so the largest of these."""
    problem = study.problem
    if problem.horizon is not None:
        raise InvalidInput("--power", found="a horizon", allowed="a study that ends with answers")
    if study.instance is not None and not gaps:
        truths = [Scenario(name="the study's truth", means=study.instance.means[None], scale=study.instance.scale)]
    else:
        truths = [gap_scenario(problem, gap) if gap else tie_scenario(problem) for gap in gaps or usual_gaps(problem)]
    planner = replace(planner, replications=max(planner.replications, POWER_STUDIES))
    steps = SEARCH_STEPS * planner.replications * len(truths)
    with progress_bar("simulating studies", steps, hidden=as_json) as advance:
        counted = replace(planner, progress=advance)
        found = [powered_budget(counted, problem, truth, power) for truth in truths]
    largest = max(found, key=lambda one: one.max_samples)
    if as_json:
        answer = {"wanted": power} | largest.document() | {"truths": [one.document() for one in found]}
        named = {"study": study.name, "policy": planner.policy, "seed": planner.seed}
        print_json(problem.settings() | {"power": answer} | named)
        return
    screen.print(plan_page.power_table(f"{study.name}: the smallest budget with a power of {100 * power:g} %", found))
    say(f"Write max_samples = {largest.max_samples} in the study file.")


def _document(plan: CostPlan, timed: Logistics | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "scenarios": [
            _figures(estimate) | {"alone": _figures(alone)}
            for estimate, alone in zip(plan.scenarios, plan.alone, strict=True)
        ],
        f"by_{plan.level_axis}": [{plan.level_axis: value} | _figures(estimate) for value, estimate in plan.by_level],
        "by_weights": [{plan.weights_axis: value} | _figures(estimate) for value, estimate in plan.by_weights],
    }
    if plan.by_rho:
        document["by_rho"] = [{"rho": rho} | _figures(estimate) for rho, estimate in plan.by_rho]
    if timed:  # from the cheapest study to the fastest, whose `day_cost` is null
        document["trade"] = [
            {"day_cost": None if math.isinf(point.day_cost) else point.day_cost} | point.study.summary()
            for point in timed.trade_off
        ]
    return document


def _figures(estimate: ScenarioCost) -> dict[str, Any]:
    costs = estimate.summary()
    money = costs.pop("money", None)  # a study costs money where prices are stated, and samples where not
    beside = costs if money else {name: costs[name] for name in ("days", "regret") if name in costs}
    return beside | estimate.figures() | {"cost": money or costs["samples"]}
