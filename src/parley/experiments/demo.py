"""Output of `parley demo`: tables, figures, and sentences on why arms are out, how a run ended and what is proven."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from parley.experiments.report_kit.charts import DASHES, MARKERS, canvas
from parley.experiments.report_kit.tables import Table
from parley.policies import Policy
from parley.policies.playing import Playing
from parley.problem import Problem
from parley.simulation import Phase
from parley.text.formatting import real
from parley.text.status import ArmStatus, OutcomeStatus

Results = Sequence[Mapping[str, Any]]  # a document of `parley simulate --json` for every policy


def eliminations(policy: Policy, phase: Phase) -> Iterator[str]:
    """Yield one sentence for every arm that the phase ruled out or set aside."""
    problem, agents = policy.problem, policy.certificate(phase.after)["agents"]
    for arm, agent in np.argwhere(phase.before.active & ~phase.after.active & problem.asks):
        entries = {entry["arm"]: entry for entry in agents[agent]["arms"]}
        out, kept = entries[problem.arms[arm]], _kept(agents[agent])
        if out["status"] == ArmStatus.SET_ASIDE:
            yield (
                f"{out['arm']} is set aside for {problem.agents[agent]}, which accepts "
                f"{' and '.join(kept)}: nothing is better by {problem.tolerance:g} or more."
            )
            continue
        rivals = out.get("opponents") or kept  # the arms that beat it, according to the certificate
        against = " and ".join(f"{real(entries[rival]['mixed_mean'])} of {rival}" for rival in rivals)
        yield (
            f"{out['arm']} is out for {problem.agents[agent]}, mixed mean {real(out['mixed_mean'])} against {against}."
        )


def _kept(agent: Mapping[str, Any]) -> list[str]:
    """The arms in an agent's part of a certificate that were chosen or are still open."""
    return [arm["arm"] for arm in agent["arms"] if arm["status"] in (ArmStatus.CHOSEN, ArmStatus.OPEN)]


def ending(problem: Problem, ends: Sequence[OutcomeStatus], *, right: bool) -> str:
    """A sentence on how the run ended and whether its answers are right, since the demo knows the truth."""
    kind = f"within {problem.tolerance:g} of the best" if problem.tolerance else "right"
    found = f"all are {kind}" if right else "at least one is WRONG"
    ends = [end for end in ends if end is not OutcomeStatus.UNASKED]
    left = [end for end in ends if not end.answered]
    if not left:
        return f"Every {'question' if problem.asks_only else 'agent'} has its answer, and {found}"
    if len(left) == len(ends):
        return f"No agent has its answer ({left[0].description}); what is listed are candidates"
    return f"{len(ends) - len(left)} of {len(ends)} agents have their answer, and {found}; the others have candidates"


def answer_sentences(certificate: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence per agent: its answer and, if the policy bounds gaps, its proven gaps to the other arms."""
    for agent in certificate["agents"]:
        if all(arm["status"] in (ArmStatus.LEFT, ArmStatus.CLOSED) for arm in agent["arms"]):
            continue  # the agent has no question
        answer = f"{agent['agent']}: {'' if agent['chosen'] else 'candidates '}{', '.join(_kept(agent))}"
        out = [arm for arm in agent["arms"] if arm["dropped_in"] and "gap_at_least" in arm]
        beaten = [arm for arm in out if arm["status"] == ArmStatus.RULED_OUT]
        much = [f"{arm['arm']} by {arm['gap_at_least']:.2f}" for arm in beaten if arm["gap_at_least"] >= 0.005]
        rest = [arm["arm"] for arm in beaten if arm["gap_at_least"] < 0.005]
        parts = [f"than {', '.join(much)} at least"] if much else []
        parts += [f"than {', '.join(rest)}"] if rest else []
        yield f"{answer}, proven better {', and '.join(parts)}" if parts else answer


def comparison_table(title: str, results: Results) -> Table:
    """A table with a row per policy: samples, rounds, errors; if known, also money, days and the ratio to the bound."""
    drawn = [result.get("samples", result["cost"]) for result in results]
    columns = {
        "policy": [result["policy"] for result in results],
        "samples, mean ± sd": [_mean_and_deviation(samples) for samples in drawn],
        "rounds": [f"{result['rounds']['mean']:.2f}" for result in results],
        "wrong answers": [_errors(result) for result in results],
    }
    if all(samples["ratio"] is not None for samples in drawn):
        columns["over the lower bound"] = [f"{samples['ratio']:.1f} x" for samples in drawn]
    for key, unit in (("cost", "money"), ("days", "days")):
        if key in results[0] and (key == "days" or "samples" in results[0]):
            columns[f"{unit}, mean"] = [f"{result[key]['mean']:,.0f}" for result in results]
    return Table.of_text(title, list(columns), zip(*columns.values(), strict=True))


def regret_comparison_table(title: str, results: Results) -> Table:
    """A table with a row per policy: regret at the horizon, its ratio to the reference, rounds and errors."""
    columns = {
        "policy": [result["policy"] for result in results],
        "regret, mean ± sd": [_mean_and_deviation(result["regret"]) for result in results],
        "/ reference": [f"{result['regret']['over_reference']:.2f}" for result in results],
        "rounds": [f"{result['rounds']['mean']:.2f}" for result in results],
        "a best arm ruled out": [_errors(result) for result in results],
    }
    return Table.of_text(title, list(columns), zip(*columns.values(), strict=True))


def _mean_and_deviation(figures: Mapping[str, float]) -> str:
    return f"{figures['mean']:,.0f} ± {figures['std']:,.0f}"


def _errors(result: Mapping[str, Any]) -> str:
    return f"{result['error_rate'] * result['replications']:,.0f} of {result['replications']:,}"


def regret_phase_table(title: str, policy: Playing, run: Sequence[Phase]) -> Table:
    """A table with a row per phase of one run with a horizon: draws, exploration, estimated regret, remaining arms."""
    rows = []
    for phase in run:
        standing = policy.standing(phase.after)
        leading = policy.leaders(phase.before)
        explored = int((phase.quotas * ~leading).sum() if phase.number > 1 else phase.quotas.sum())
        rows.append(
            (
                str(phase.number),
                f"{int(phase.after.counts.sum()):,}",
                f"{explored:,} of {int(phase.quotas.sum()):,}",
                f"{float(standing.regret.sum()):,.0f} ± {2 * float(standing.error):,.0f}",
                ", ".join(str(int(left)) for left in phase.after.active.sum(axis=0)),
            )
        )
    head = ("phase", "draws so far", "explored in it", "regret so far, estimated ± two standard errors", "arms left")
    return Table.of_text(title, head, rows)


def regret_figure(results: Results, lower_bound: float, *, theme: str = "light") -> Figure:
    """Plot the mean regret of all agents together over time, with a band between the 10 % and 90 % quantiles."""
    floor, curves = lower_bound / 100, [result["regret"]["curve"] for result in results]
    with canvas(theme, 8.5, 4.6) as (figure, style):
        panel = figure.subplots()
        for place, (result, curve) in enumerate(zip(results, curves, strict=True)):
            panel.plot(
                curve["times"],
                curve["mean"],
                color=style.colour(place),
                label=result["policy"],
                linestyle=DASHES[place % 3],  # the fourth, dotted, is the lower bound
                marker=MARKERS[place % len(MARKERS)],
                markevery=(2 + place, 8),  # staggered, so that curves that coincide stay visible
            )
            panel.fill_between(curve["times"], curve["p10"], curve["p90"], color=style.colour(place), alpha=0.18, lw=0)
        panel.axhline(lower_bound, color=style.ink, linestyle=":", label="C* log T at the horizon")
        panel.set(xscale="log", yscale="log", xlabel="draws per agent", ylabel="regret of all agents together")
        panel.set_ylim(bottom=max(floor, 1e-9))
        # Start the axis where the first curve rises above the figure's floor: before that, the panel would be empty.
        seen = [
            time for curve in curves for time, mean in zip(curve["times"], curve["mean"], strict=True) if mean > floor
        ]
        panel.set_xlim(left=max(min(seen, default=1.0), 1.0))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        panel.legend(loc="upper left")
    return figure
