"""The dossier of a protocol as a page that prints well, or as Markdown to be pasted: one content, two renderings.

The words stand in `templates/dossier.md`, in those of the study's audience; here are its tables and pictures. Pictures
are on the page alone: tables say the same.
"""

import math
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy
from matplotlib.figure import Figure

from parley import __version__
from parley.costs import phase_days
from parley.experiments.forecasts.designs import LOOKS
from parley.experiments.forecasts.dossier import OWN_BEST, Dossier, Watched
from parley.experiments.forecasts.plan_page import mean_text, operating_figure, right_text, wrong_text
from parley.experiments.forecasts.planning import ScenarioCost
from parley.experiments.forecasts.power import Characteristic
from parley.experiments.forecasts.scenarios import CONFIDENCE, standard_error, upper_bound
from parley.experiments.report_kit.charts import canvas, elimination_timeline, sample_axis
from parley.experiments.report_kit.pages import picture, render, render_text
from parley.experiments.report_kit.prose import (
    Blocks,
    html_sections,
    markdown_text,
    numbered,
    reference,
    token,
    words_of_reader,
)
from parley.experiments.report_kit.tables import Table
from parley.formatting import DASH, number, real, share_text
from parley.policies.evidence.racing import EvidenceRacing
from parley.problem import FloatArray
from parley.protocol import StudyMessage
from parley.simulation import Phase
from parley.status import ArmStatus
from parley.translation import reading, retold
from parley.weights import alphas_of

MOST_COLUMNS = 8  # agents that a table has beside each other
MOST_NAMED = 12
OBSERVED = {
    "binary": "yes or no (1 or 0)",
    "bounded": "a number in a known range",
    "gaussian": "a number, with Gaussian errors",
    "subgaussian": "a number, with errors whose tails are no heavier than a Gaussian's",
}
FIGURES = {
    "operating_figure": "Power, wrong answers and sizes by truth; sizes on a logarithmic axis",
    "timeline": "The first example, look by look",
    "weights_figure": "Mean size and power by the weights; bars are Monte Carlo errors",
}


def dossier_html(dossier: Dossier, command: str) -> str:
    """The page."""
    sections = html_sections(*_content(dossier, command, pictures=True))
    title = f"Statistical design: {dossier.study.name}"
    return render("dossier", title=title, command=command, sections=sections)


def dossier_markdown(dossier: Dossier, command: str) -> str:
    """The same in Markdown, without pictures."""
    return markdown_text(f"Statistical design: {dossier.study.name}", *_content(dossier, command, pictures=False))


FORMATS: dict[str, Callable[[Dossier, str], str]] = {".html": dossier_html, ".md": dossier_markdown}  # by suffix


def _content(dossier: Dossier, command: str, *, pictures: bool) -> tuple[str, Blocks]:
    """The text with tokens, and what stands at each."""
    problem, planned = dossier.problem, dossier.planned.study
    with reading(problem.audience):
        words = words_of_reader()
        blocks = _tables(dossier, words) | (_pictures(dossier) if pictures else {})
        tie = dossier.watched[1]
        samples, size, policy = planned.summary()["samples"], dossier.policy.largest_size, dossier.policy
        alphas, temper = alphas_of(problem.weights), policy.temper if isinstance(policy, EvidenceRacing) else None
        first = int(dossier.examples[0][2][0].quotas.sum())
        known = [dossier.planned, *dossier.operating]
        beside = [(retold(one.study.scenario), one.study, one.fixed) for one in known if one.fixed]
        said = (retold(text) for key, text in problem.descriptions().items() if key != "audience")
        text = render_text(
            "dossier",
            filters={"retold": retold, "number": number, "listed": _listed},
            dossier=dossier,
            words=words,
            block=token,
            ref=reference,
            evidence=isinstance(dossier.policy, EvidenceRacing),
            observed=_observed(dossier),
            truth=_truth_text(dossier),
            planned={
                "power": right_text(planned),
                "samples": mean_text(samples),
                "rounds": f"{planned.rounds.mean():.1f}",
                "most_rounds": int(planned.rounds.max()),
                "studies": number(len(planned.samples)),
                "at_cap": percent((planned.samples >= (size or np.inf)).mean()),
                "undecided": percent(planned.unfinished / len(planned.samples)),
            },
            tie={
                "ruled_out": tie.ruled_out,
                "studies": tie.studies,
                "at_most": f"{100 * upper_bound(tie.ruled_out, tie.studies):.2g} %",
            },
            confidence=f"{100 * CONFIDENCE:g}",
            level=f"{100 * (1 - problem.delta):g}",
            looks=LOOKS,
            stated=" ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in said),
            temper=temper,
            line=number(problem.question_count / problem.delta),
            most_looks=1 + math.ceil(math.log(size / first) / math.log(temper.smallest_growth))
            if size and temper
            else None,
            alpha=None if alphas is None or np.ptp(alphas) > 1e-9 else float(alphas[0]),
            approximate=problem.noise.document().get("inference") == "normal",
            delays=retold(f"{problem.delay.min():g} to {problem.delay.max():g}") if problem.delay.any() else "",
            superior=[None if one.superior is None else percent(one.superior) for one in dossier.watched],
            examples=[
                {"truth": truth, "seed": seed, "left": _left(dossier, run)} for truth, seed, run in dossier.examples
            ],
            sizes=[f"{low:,} to {high:,}" for low, high in dossier.sizes],
            source=dossier.source,
            larger=_listed([name for name, study, fixed in beside if study.samples.mean() > fixed.samples]),
            weaker=_listed(
                [
                    name
                    for name, study, fixed in beside
                    if fixed.power - study.power > 2 * (fixed.power_error + study.standard_error(study.correct))
                ]
            ),
            date=datetime.now(UTC).date().isoformat(),
            digest=StudyMessage.of(dossier.study).digest,
            versions=f"Parley {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, SciPy "
            f"{scipy.__version__}",
            commands=_commands(dossier, command),
        )
    return numbered(text, blocks, FIGURES), blocks


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.1f} %"


def _listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def _observed(dossier: Dossier) -> str:
    """The kind of rewards, and what the study file says of them."""
    document = dict(dossier.problem.noise.document())
    kind = str(document.pop("kind"))
    stated = ", ".join(f"{key} = {value}" for key, value in document.items())
    return f"{OBSERVED.get(kind, kind)}; `[noise]` states {stated}" if stated else OBSERVED.get(kind, kind)


def _truth_text(dossier: Dossier) -> str:
    rates, shown = dossier.problem.noise.means_are_rates, []
    for arm, row in zip(dossier.problem.arms, dossier.truth.means[0], strict=True):
        low, high = (f"{100 * end:.3g} %" if rates else f"{end:.3g}" for end in (float(row.min()), float(row.max())))
        shown.append(f"{arm} {low}" if low == high else f"{arm} {low} to {high}")
    return "; ".join(shown)


def _left(dossier: Dossier, run: Sequence[Phase]) -> str:
    problem, active = dossier.problem, run[-1].after.active
    left = ((agent, np.flatnonzero(active[:, place])) for place, agent in enumerate(problem.agents[:MOST_COLUMNS]))
    return "; ".join(
        f"{agent}: {_listed([problem.arms[arm] for arm in arms], 4)}{' (undecided)' * (len(arms) > problem.top)}"
        for agent, arms in left
    )


def _pictures(dossier: Dossier) -> Blocks:
    known, first = [dossier.planned, *dossier.operating], dossier.examples[0][2]
    drawn = {
        "operating_figure": picture("Power, wrong answers and samples by truth", operating_figure, known),
        "timeline": picture("The first example, look by look", elimination_timeline, first, dossier.problem),
    }
    if dossier.by_weights:
        drawn["weights_figure"] = picture("Mean samples and power by the weights", weights_figure, dossier)
    return {(name, 0): shown for name, shown in drawn.items()}


def weights_figure(dossier: Dossier, *, theme: str = "light") -> Figure:
    """Mean samples and power by the weights."""
    with canvas(theme, 9, 3.4) as (figure, style):
        values, studies = zip(*dossier.by_weights, strict=True)
        cost, power = figure.subplots(1, 2)
        look: dict[str, Any] = {"fmt": "o-", "color": style.colour(0)}
        errors = [study.standard_error(study.samples) for study in studies]
        cost.errorbar(values, [study.samples.mean() for study in studies], yerr=errors, **look)
        cost.set(ylim=(0, None), title="What it takes", ylabel=f"{words_of_reader()['draws']} in all, mean")
        sample_axis(cost)
        errors = [100 * study.standard_error(study.correct) for study in studies]
        power.errorbar(values, [100 * study.power for study in studies], yerr=errors, **look)
        power.set(ylim=(-4, 104), title="Power", ylabel="studies, %")
        for panel in (cost, power):
            panel.set_xlabel(dossier.weights_axis)
    return figure


def _tables(dossier: Dossier, words: dict[str, str]) -> Blocks:
    problem, known = dossier.problem, [dossier.planned, *dossier.operating]
    agents, truth = problem.agents[:MOST_COLUMNS], dossier.truth.instances(problem)[0]
    days = problem.rate is not None
    moved = ("power", "wrong", f"{words['draws']} with an outcome", "looks", *(("days, mean",) if days else ()))
    what_if = [("as planned", DASH, *_row(dossier.planned.study, days=days))]
    what_if += [(what, value, *_row(cost, days=days)) for what, value, cost in dossier.what_if]
    by_weights = [(f"{value:g}", *_row(cost, days=days)) for value, cost in dossier.by_weights]
    best = [
        (one.agent, "; ".join(f"{', '.join(arms)} from {low:g} to {high:g}" for low, high, arms in one.stretches[:8]))
        for one in dossier.best_along[:40]
    ]
    apart = [one for one in dossier.errors if one.truth.startswith((OWN_BEST[:8], problem.agents[-1]))]
    named = [dossier.watched[1], *(one for one in dossier.errors if one.truth.startswith(f"{problem.control} best"))]
    first = dossier.examples[0][2][0].quotas
    single = {
        "weights": _weights_table(dossier, words),
        "operating": _operating_table(known),
        "effort": _effort_table(known, words),
        "tilted": _tilted_table(dossier, words),
        "errors": _errors_table(dossier.errors),
        "own_best": _shares_table(
            f"Studies in which the answer of a {words['agent']} is not the best for its own patients",
            agents,
            [(one.truth, one.not_own_best) for one in (dossier.watched[0], *apart)],
        ),
        "what_if": Table.of_text("With one thing otherwise", ("what is otherwise", "by", *moved), what_if),
        "best_along": Table.of_text(
            f"Best {words['arm']} by the weights", (words["agent"], f"best {words['arm']}"), best
        ),
        "by_weights": Table.of_text("The study with other weights", (dossier.weights_axis, *moved), by_weights),
        "designs": _designs_table(dossier, words),
        "first_phase": Table.of_text(
            f"{words['draws'].capitalize()} of the first phase",
            (words["arm"], *agents),
            [(arm, *map(number, row[: len(agents)])) for arm, row in zip(problem.arms, first, strict=True)],
        ),
        "true_means": _means_table(dossier, f"True means at each {words['agent']}", truth.means, words),
        "mixed_means": _means_table(dossier, "The same, mixed by the weights", truth.mixed_means, words),
    }
    if problem.control is not None:
        control = problem.arms.index(problem.control)
        single["instead"] = _shares_table(
            f"Studies that name another {words['arm']} than {problem.control}",
            ("any", *agents),
            [
                (one.truth, [other.any(axis=1).mean(), *other.mean(axis=0)])
                for one in named
                for other in [one.named_instead(control)]
            ],
        )
    found: Blocks = {(name, 0): table for name, table in single.items()}
    for place, one in enumerate(dossier.watched):
        found["selected", place] = _selected_table(dossier, one, words)
        found["per_arm", place] = _per_arm_table(dossier, one, words)
        found["estimates", place] = _estimates_table(one)
    for place, (_, _, run) in enumerate(dossier.examples):
        found["example", place] = _example_table(dossier, run, words, place)
    return found


def _row(study: ScenarioCost, *, days: bool) -> list[str]:
    costs = study.summary()
    shown = [right_text(study), wrong_text(study), mean_text(costs["samples"]), f"{study.rounds.mean():.1f}"]
    return [*shown, *([mean_text(costs["days"])] if days else [])]


def _operating_table(known: Sequence[Characteristic]) -> Table:
    """What comes out, one row per truth."""
    rows = [
        (
            retold(one.study.scenario),
            right_text(one.study),
            percent(one.study.unfinished / len(one.study.samples)),
            wrong_text(one.study),
            right_text(one.alone),
        )
        for one in known
    ]
    return Table.of_text("Answers by truth", ("truth", "power", "undecided", "wrong", "power, alone"), rows)


def _effort_table(known: Sequence[Characteristic], words: dict[str, str]) -> Table:
    """What it takes, one row per truth."""
    timed, draws = known[0].study.study_costs.days is not None, words["draws"]
    rows = []
    for one in known:
        study, costs = one.study, one.study.summary()
        apart = f"{'at least ' * bool(one.alone.unfinished)}{mean_text(one.alone.summary()['samples'])}"
        rows.append(
            (
                retold(study.scenario),
                mean_text(costs["samples"]),
                number(costs["samples"]["p90"]),
                f"{study.rounds.mean():.1f}",
                number(int(study.rounds.max())),
                *((mean_text(costs["days"]), number(costs["days"]["p90"])) if timed else ()),
                apart,
            )
        )
    head = ("truth", f"{draws}, mean", "90 %", "looks, mean", "most", *(("days, mean", "90 %") if timed else ()))
    return Table.of_text(f"{draws.capitalize()}, looks and days by truth", (*head, f"{draws} alone, mean"), rows)


def _errors_table(found: Sequence[Watched]) -> Table:
    rows = []
    for one in found:
        count, studies = int(one.outcome.mistaken.sum()), one.studies
        right, open_ = one.outcome.correct, ~one.outcome.finished
        rows.append(
            (
                one.truth,
                number(studies),
                share_text(float(right.mean()), standard_error(right, 1)),
                percent(float(open_.mean())),
                f"{100 * count / studies:.2f} % (at most {100 * upper_bound(count, studies):.2f} %)",
                f"{100 * one.bad / studies:.2f} %",
            )
        )
    head = ("truth", "studies", "power", "undecided", "wrong", "of these: a bad one named")
    return Table.of_text("Errors where they can happen", head, rows)


def _shares_table(title: str, head: Sequence[str], found: Sequence[tuple[str, Sequence[float] | FloatArray]]) -> Table:
    rows = [(retold(name), *(percent(float(share)) for share in shares[: len(head)])) for name, shares in found]
    return Table.of_text(title, ("truth", *head), rows)


def _means_table(dossier: Dossier, title: str, means: FloatArray, words: dict[str, str]) -> Table:
    agents, rates = dossier.problem.agents[:MOST_COLUMNS], dossier.problem.noise.means_are_rates
    rows = [
        (arm, *(f"{100 * value:.4g} %" if rates else real(float(value), 4) for value in row[: len(agents)]))
        for arm, row in zip(dossier.problem.arms, means, strict=True)
    ]
    return Table.of_text(title, (words["arm"], *agents), rows)


def _per_arm_table(dossier: Dossier, one: Watched, words: dict[str, str]) -> Table:
    ends = np.quantile(one.counts, (0.05, 0.95), axis=0)
    rows = [
        (arm, number(float(mean)), f"{low:,.0f} to {high:,.0f}", percent(float(share)))
        for arm, mean, low, high, share in zip(
            dossier.problem.arms,
            one.counts.mean(axis=0),
            *ends,
            one.counts.sum(axis=0) / one.counts.sum(),
            strict=True,
        )
    ]
    title = f"{words['draws'].capitalize()} by {words['arm']}: {retold(one.truth)}"
    return Table.of_text(title, (words["arm"], "mean", "5 to 95 %", "of all"), rows)


def _weights_table(dossier: Dossier, words: dict[str, str]) -> Table:
    """The matrix; of many agents each one's own weight alone."""
    agents, weights = dossier.problem.agents, dossier.problem.weights
    if len(agents) <= MOST_COLUMNS:
        rows = [(name, *(f"{value:.3g}" for value in row)) for name, row in zip(agents, weights, strict=True)]
        return Table.of_text("Weights", (words["agent"], *agents), rows)
    own = [(name, f"{weights[place, place]:.3g}") for place, name in enumerate(agents[:40])]
    return Table.of_text("Weights", (words["agent"], "its own weight"), own)


def _tilted_table(dossier: Dossier, words: dict[str, str]) -> Table:
    rows = [
        (
            retold(one.tie.words),
            one.agent,
            f"{100 * one.found.probability:.3g} %",
            f"{100 * one.found.standard_error:.1g} %",
            f"{one.found.probability / dossier.problem.delta:.2f}{'' if one.found.believable else ', by too few runs'}",
        )
        for one in dossier.tilted
    ]
    title = f"A best {words['arm']} that ties is ruled out, by tilted runs"
    return Table.of_text(title, ("tie", words["agent"], "ruled out", "± standard error", "of delta"), rows)


def _selected_table(dossier: Dossier, one: Watched, words: dict[str, str]) -> Table:
    agents = dossier.problem.agents[:MOST_COLUMNS]
    named = [*zip(dossier.problem.arms, one.selected, strict=True), ("no answer", one.unanswered)]
    rows = [(name, *(percent(float(share)) for share in shares[: len(agents)])) for name, shares in named]
    return Table.of_text(f"Answers: {retold(one.truth)}", (words["arm"], *agents), rows)


def _estimates_table(one: Watched) -> Table:
    rows = [
        (
            row.what,
            number(row.studies),
            f"{real(row.bias, 4)} ± {row.bias_error:.4f}",
            f"{row.rmse:.4f} ± {row.rmse_error:.4f}",
            share_text(row.usual, row.usual_error),
            f"{row.usual_width:.3f}",
            share_text(row.joint, row.joint_error),
            f"{row.joint_width:.3f}",
        )
        for row in one.estimates
    ]
    head = ("estimate", "studies", "bias", "RMSE", "usual holds", "its width", "ours holds", "its width")
    return Table.of_text(f"Estimates: {retold(one.truth)}", head, rows)


def _example_table(dossier: Dossier, run: Sequence[Phase], words: dict[str, str], place: int) -> Table:
    """Numbers by arm, all agents together, and what left the race in each phase and how."""
    problem, rows, total = dossier.problem, [], 0
    arms = range(problem.arm_count) if problem.arm_count <= MOST_COLUMNS else ()
    for phase in run:
        drawn = phase.quotas.sum(axis=1)
        total += int(drawn.sum())
        gone = phase.before.active & ~phase.after.active
        worse = dossier.policy.arm_statuses(phase.after) == ArmStatus.RULED_OUT.value
        left = [
            _listed([f"{problem.arms[k]} ({problem.agents[m]})" for k, m in np.argwhere(gone & how)], 6) or DASH
            for how in (worse, ~worse)
        ]
        counts = [number(int(drawn[arm])) for arm in arms] or [number(int(drawn.sum()))]
        rows.append((str(phase.number), *counts, number(total), *left))
    heads = [problem.arms[arm] for arm in arms] or [words["draws"]]
    head = ("look", *heads, "in all, so far", "ruled out (for)", "set aside (for)")
    return Table.of_text(
        f"{words['draws'].capitalize()} of example {place + 1} by {words['arm']} and phase", head, rows
    )


def _designs_table(dossier: Dossier, words: dict[str, str]) -> Table:
    """This study and the two designs, each of one size, under every truth."""
    rows, most, problem = [], dossier.policy.largest_size, dossier.problem
    for one in (dossier.planned, *dossier.operating):
        name, study = retold(one.study.scenario), one.study
        costs = study.summary()
        timed = [number(costs["days"]["mean"])] if "days" in costs else []
        mean = number(float(study.samples.mean()))
        rows.append((name, "this study", number(most), mean, right_text(study), percent(study.error_rate), *timed))
        for what, size, looks in (("fixed size", one.fixed, 1), (f"{LOOKS} looks", one.sequential, LOOKS)):
            if size is None:
                rows.append((name, what, DASH, DASH, "no size has it", DASH, *([DASH] if timed else [])))
                continue
            power = share_text(size.power, size.power_error)
            if timed:
                each = phase_days(problem, np.full(problem.shape, math.ceil(size.per_cell / looks)))
                timed = [number(float(each) * looks * size.mean / size.samples)]
            rows.append((name, what, number(size.samples), number(size.mean), power, percent(size.wrong), *timed))
    draws = words["draws"]
    head = (
        "truth",
        "design",
        f"{draws}, at most",
        "mean",
        "power",
        "wrong",
        *(("days, mean",) if problem.rate is not None else ()),
    )
    return Table.of_text("This study beside designs of the textbook, each sized once", head, rows)


def _commands(dossier: Dossier, command: str) -> list[str]:
    """What makes the document, its numbers, and parts of them by themselves."""
    planner, file = dossier.planner, command.split()[2]
    same, gaps = f"--policy {planner.policy} --seed {planner.seed}", [one.gap for one in dossier.operating if one.gap]
    tried = " ".join(f"--gap {gap:g}" for gap in gaps)
    lines = [
        f"{command}   # this document",
        f"{command} --json   # its numbers",
        f"parley plan {file} --operating {tried} {same} --replications {planner.replications} --json   # Section 4",
    ]
    if dossier.study.instance is not None:
        studies = len(dossier.planned.study.samples)
        lines.append(f"parley simulate {file} {same} --replications {studies} --json   # the planned row of Section 4")
    if dossier.tilted and all(one.found.believable for one in dossier.tilted):  # the command refuses others
        runs = f"--seed {planner.seed} --replications {dossier.tilted[0].found.replications}"
        lines.append(f"parley audit-policy {file} {runs} --json   # the tilted errors of Section 5")
    return lines
