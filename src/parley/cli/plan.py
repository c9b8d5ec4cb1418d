"""`parley plan`: estimate what a study will cost, before it is launched."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
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
from parley.experiments.forecasts.comparison import Comparison, compare, compared_studies
from parley.experiments.forecasts.harms import harm_chances
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
    enough,
    operating_document,
    operating_scenarios,
    operating_studies,
    powered_budget,
)
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario, prior_scenario, tie_scenario, usual_gaps
from parley.hooks import edges as all_edges
from parley.policies import Policy, make_policy
from parley.problem import Problem
from parley.study import Study, load_study

USUAL = 20  # simulated studies per truth
CONTROL = "control"  # the value of `--versus` that means the study's own control; others are names of arms
ABOUT = 0.05  # relative accuracy of the budget that a warning names


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A call of `parley plan`, which an edge may handle instead."""

    planner: Planner
    study: Study  # after changing the settings for which options were given
    file: str
    gaps: tuple[float, ...]
    changed: Mapping[str, float]  # option -> value, for options that replace a setting of the file
    replications: int | None  # None if not given
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
    help="Also compute operating characteristics: power, samples and rounds by gap, compared with a fixed-size design "
    "and with every agent alone; power by budget.",
)
@click.option(
    "--power",
    type=float,
    help="Only find the smallest max_samples with this power: under every --gap (0: all arms tie), else "
    "under the study's [truth], else under the default gaps.",
)
@click.option(
    "--versus",
    metavar="ARM",
    help="Also ask for superiority over this arm, or over the study's `control`: how often it is proven worse than the "
    "best arm. With --power, the power to show that.",
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
    versus: str | None,
    output: str,
    as_json: bool,
    edges: Mapping[str, Any],
) -> None:
    """Estimate what STUDY will cost before it is launched: samples per agent, rounds, chance of error.

    The truth is not known yet, so the command simulates plausible truths: for each --gap the hardest truth with that
    gap, and truths drawn from a prior. It also shows what the agents save by collaborating, compares other designs with
    the same guarantee, recommends one, and shows how the cost depends on delta and on the weights.
    """
    checked_output(output)
    loaded = load_study(study)
    changed = {key: value for key, value in {"delay": delay, "dropout": dropout}.items() if value is not None}
    problem, name = loaded.problem.with_(**changed), policy or loaded.policy
    problem = _with_control(problem, versus)
    if name == "oracle":
        raise InvalidInput("policy", found=name, allowed="a policy that can run without knowing the truth")
    options = loaded.options if name == loaded.policy else {}
    chosen = make_policy(name, problem, options)
    count = replications if replications is not None else USUAL
    planner = Planner(
        policy=name, options=dict(options), replications=count, seed=seed, versus_control=versus is not None
    )
    asked = PlanRequest(
        planner=planner,
        study=replace(loaded, problem=problem),
        file=study,
        gaps=gaps,
        changed=changed,
        replications=replications,
        as_json=as_json,
    )
    # An edge whose own option was given may handle the request itself; then no plan is made here.
    if any(edge.instead_of_plan(asked, edges) for edge in all_edges()):
        return
    if power is not None:
        _answer_power(planner, replace(loaded, problem=problem), gaps, power, as_json=as_json)
        return
    wide = spread if spread is not None else problem.noise.usual_spread(problem.largest_gap)
    least = min_gap if min_gap is not None else wide / 20
    wanted = gaps or usual_gaps(problem)
    own, prior = _past(loaded, problem), {"spread": wide, "heterogeneity": heterogeneity, "min_gap": least}
    drawn = prior_scenario(problem, **prior, instances=instances, seed=seed)
    scenarios = [truth.shaped(loaded.instance) for truth in (*(gap_scenario(problem, gap) for gap in wanted), drawn)]
    truths: dict[float | None, Scenario] = {}
    if operating:
        truths = {gap: truth.shaped(loaded.instance) for gap, truth in operating_scenarios(problem, wanted).items()}
        truths = {gap: truth for gap, truth in own if gap not in truths} | truths | {None: scenarios[-1]}
    scenarios = [*(truth for _, truth in own), *scenarios]
    few = replications is not None and not operating
    made = _run(planner, problem, scenarios, truths, few=few, quiet=as_json)
    command = (
        f"parley plan {study} --policy {name} {' '.join(f'--gap {gap:g}' for gap in wanted)} --spread {wide:g} "
        f"--heterogeneity {heterogeneity:g} --min-gap {least:g} --instances {instances} --replications {count} "
        f"--seed {seed}"
        + "".join(f" --{key} {value:g}" for key, value in changed.items())
        + (" --operating" if operating else "")
        + (f" --versus {shlex.quote(versus)}" if versus else "")
    )
    truth = loaded.instance
    # Take the middle gap: with the largest one, a study would end before anything is known about harm.
    usual = gap_scenario(problem, sorted(wanted)[len(wanted) // 2]).shaped(truth)
    harms = harm_chances(planner, problem, usual, truth.outcomes if truth else {})
    page = plan_page.plan_page(
        made.plan,
        title=f"Plan: {loaded.name}",
        command=command,
        problem=problem,
        policy=name,
        guarantee=chosen.guarantee,
        extent=chosen.extent,
        timed=made.timed,
        characteristics=made.known,
        comparison=made.beside,
        warning=made.warning,
        history=truth.history if truth else None,
        harms=harms,
    )
    path = write_page(output, page)
    if as_json:
        document = problem.settings() | _document(made)
        document |= {"guardrails": [asdict(one) for one in harms]} if harms else {}
        document |= {"versus": problem.control if versus else None}
        document |= {"largest_size": chosen.largest_size, "planned_looks": chosen.planned_looks}
        document |= {"warning": made.warning} | _history_document(loaded)
        print_json(document | {"study": loaded.name, "policy": name, "seed": seed, "report": str(path)})
        return
    heading = ", ".join([f"{loaded.name}: {name}", f"delta {problem.delta:g}", *problem.descriptions().values()])
    _show(made, heading, chosen)
    if harms:
        screen.print(plan_page.harms_table(f"Guardrails: an arm that harms, in studies with {harms[0].truth}", harms))
    if truth is not None and truth.history is not None:
        screen.print(plan_page.shapes_table(f"Rows of {truth.history.source}", problem, truth.history))
    screen.print(f"Draws per agent and a picture: {path.resolve()}", soft_wrap=True)


def _past(study: Study, problem: Problem) -> list[tuple[float, Scenario]]:
    """The truth of a study with a table of past draws, as a list of one pair: its smallest gap, and its scenario.

    The list is empty if there is no such table, or if arms tie so that the study would never end.
    """
    truth = study.instance
    if truth is None or truth.history is None or (truth.tied and problem.asks_exactly):
        return []
    named = Scenario(name=f"the rows of {Path(truth.history.source).name}", means=truth.means[None], drift=truth.drift)
    return [(truth.smallest_gap, named.shaped(truth))]


def _history_document(study: Study) -> dict[str, Any]:
    """The shapes of the distributions that are resampled, for JSON; empty without a table of past draws."""
    if study.instance is None or study.instance.history is None:
        return {}
    history, problem = study.instance.history, study.problem
    shapes = [
        {"agent": problem.agents[agent], "arm": None if arm is None else problem.arms[arm]} | shape.document()
        for arm, agent, shape in history.shapes()
    ]
    return {"history": {"source": history.source, "shapes": shapes}}


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The results of all simulations of a plan."""

    plan: CostPlan
    timed: Logistics | None
    known: list[Characteristic]  # operating characteristics; empty without `--operating`
    beside: Comparison | None  # comparison with other designs; None with a horizon
    warning: str  # about a budget that is too small; empty if there is nothing to warn of


def _show(made: Simulated, heading: str, policy: Policy) -> None:
    """Print the tables of a plan."""
    screen.print(plan_page.cost_table(heading, made.plan))
    if made.known:
        screen.print(plan_page.operating_table("Operating characteristics", made.known))
        say(plan_page.largest_fixed_size(made.known))
        screen.print(plan_page.budget_table("Power by budget", made.known))
    if made.beside:
        screen.print(plan_page.beside_table("Beside other designs (all of them on the page)", made.beside))
        for sentence in made.beside.sentences:
            screen.print(sentence, highlight=False)
        if claiming := made.beside.claiming:
            screen.print(plan_page.versus_table(f"Superiority over {made.beside.control}", claiming))
    money_and_days = plan_page.money_and_days_table("Money and days", made.plan)
    if money_and_days.rows:
        screen.print(money_and_days)
    reference = made.plan.scenarios[-1].scenario
    if made.timed and made.timed.trade_off:
        screen.print(plan_page.trade_off_table(f"Days against money ({reference})", made.timed))
    screen.print(plan_page.sensitivity_table(f"What moves the cost ({reference})", made.plan))
    if policy.extent:
        say(f"{policy.extent[:1].upper()}{policy.extent[1:]}.")
    if made.warning:
        warn(made.warning)


def _with_control(problem: Problem, versus: str | None) -> Problem:
    """The problem with the control arm `versus`; "control" is the study's control, unless an arm has that name."""
    if versus is None:
        return problem
    if problem.horizon is not None:
        raise InvalidInput("--versus", found="a horizon", allowed="a study that ends with answers")
    if versus in problem.arms:
        return problem.with_(control=versus)
    named = ", ".join(problem.arms[:20])
    if versus != CONTROL:
        raise InvalidInput("--versus", found=repr(versus), allowed=f"`{CONTROL}`, or one of {named}")
    if problem.control is None:
        hint = 'Or write control = "ARM" in the study file'
        raise InvalidInput("--versus", found="a study without a control", allowed=f"one of {named}", hint=hint)
    return problem


def _run(
    planner: Planner,
    problem: Problem,
    scenarios: list[Scenario],
    truths: dict[float | None, Scenario],
    *,
    few: bool,
    quiet: bool,
) -> Simulated:
    """Run all simulations under one progress bar. With `few`, simulate no more studies than were requested."""
    named = [truth.name for truth in truths.values()]
    studies = plan_studies(planner, problem, scenarios, named) + operating_studies(planner, truths)
    studies += trade_off_studies(planner, problem, scenarios[-1])
    judged = [(truth, planner if few else enough(planner, truth)) for truth in list(truths.values()) or scenarios]
    if problem.horizon is None:
        each = [one.replications * len(truth.means) for truth, one in judged]
        studies += compared_studies(planner, problem, each) + (0 if truths else sum(each))
    with progress_bar("simulating studies", studies, hidden=quiet) as advance:
        counted = replace(planner, progress=advance, announced=advance.announce)
        known = characteristics(counted, problem, truths)
        pairs = {one.study.scenario: (one.study, one.alone) for one in known}
        beside = None
        if problem.horizon is None:
            own = [one.study for one in known]
            for truth, one in () if known else judged:
                counted.announce(truth.name)
                own.append(replace(one, progress=advance).estimate(truth, problem))
            beside = compare(counted, problem, [(truth, study) for (truth, _), study in zip(judged, own, strict=True)])
        plan, timed = make_plan(counted, problem, scenarios, pairs), logistics(counted, problem, scenarios[-1])
        advance.announce("a budget that decides")
        found = zip(scenarios, plan.scenarios, strict=True)
        warning = budget_warning(planner, problem, found, accuracy=ABOUT)
        return Simulated(plan=plan, timed=timed, known=known, beside=beside, warning=warning)


POWER_STUDIES = 1000  # the least per truth and budget: the Monte Carlo error of a power of 0.9 is then at most 0.01


def _answer_power(planner: Planner, study: Study, gaps: tuple[float, ...], power: float, *, as_json: bool) -> None:
    """Print the smallest budget with this power under each truth, and the largest of these budgets."""
    problem = study.problem
    if problem.horizon is not None:
        raise InvalidInput("--power", found="a horizon", allowed="a study that ends with answers")
    if study.instance is not None and not gaps:
        truth = Scenario(name="the study's truth", means=study.instance.means[None], scale=study.instance.scale)
        truths = [truth.shaped(study.instance)]
    else:
        plain = [gap_scenario(problem, gap) if gap else tie_scenario(problem) for gap in gaps or usual_gaps(problem)]
        truths = [truth.shaped(study.instance) for truth in plain]
    if planner.versus_control:
        _require_better(problem, truths)
    planner = replace(planner, replications=max(planner.replications, POWER_STUDIES))
    steps = SEARCH_STEPS * planner.replications * len(truths)
    with progress_bar("simulating studies", steps, hidden=as_json) as advance:
        counted = replace(planner, progress=advance, announced=advance.announce)
        found = [powered_budget(counted, problem, truth, power) for truth in truths]
    largest = max(found, key=lambda one: one.max_samples)
    if as_json:
        asked = {"wanted": power, "versus": problem.control if planner.versus_control else None}
        answer = asked | largest.document() | {"truths": [one.document() for one in found]}
        named = {"study": study.name, "policy": planner.policy, "seed": planner.seed}
        print_json(problem.settings() | {"power": answer} | named)
        return
    title = f"{study.name}: the smallest budget with a power of {100 * power:g} %"
    title += f" to show superiority over {problem.control}" if planner.versus_control else ""
    screen.print(plan_page.power_table(title, found))
    say(f"Write max_samples = {largest.max_samples} in the study file.")


def _require_better(problem: Problem, truths: Sequence[Scenario]) -> None:
    """Raise if there is a truth in which no agent has an arm that is better than the control."""
    for truth in truths:
        control = [problem.arms.index(str(problem.control))]
        if all(instance.best[control].all() for instance in truth.instances(problem)):
            found = f"{problem.control}, which no arm beats under {truth.name}"
            raise InvalidInput("--versus", found=found, allowed="a truth in which some arm is better than the control")


def _document(made: Simulated) -> dict[str, Any]:
    plan = made.plan
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
    if plan.without_doubt:
        document["without_doubt"] = _figures(plan.without_doubt)
    if made.timed:  # from the cheapest study to the fastest, whose `day_cost` is null
        document["trade"] = [
            {"day_cost": None if math.isinf(point.day_cost) else point.day_cost} | point.study.summary()
            for point in made.timed.trade_off
        ]
    if made.known:
        document["operating"] = operating_document(made.known)
    if made.beside:
        document["comparison"] = made.beside.document()
    return document


def _figures(estimate: ScenarioCost) -> dict[str, Any]:
    costs = estimate.summary()
    money = costs.pop("money", None)  # a cost is in money if prices are stated, else in samples
    beside = costs if money else {name: costs[name] for name in ("days", "regret") if name in costs}
    return beside | estimate.figures() | {"cost": money or costs["samples"]}
