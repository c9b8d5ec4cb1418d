"""The dossier of a protocol as a page that prints well, or as Markdown to be pasted: one content, two renderings.

The words stand in `templates/dossier.md`, in those of the study's audience; here are its tables and pictures. Pictures
are on the page alone: tables say the same.
"""

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from matplotlib.figure import Figure

from parley import __version__
from parley.experiments.forecasts.designs import LOOKS, DesignSize
from parley.experiments.forecasts.dossier import Dossier, Watched
from parley.experiments.forecasts.plan_page import mean_text, operating_figure, operating_table, right_text, wrong_text
from parley.experiments.forecasts.planning import ScenarioCost
from parley.experiments.forecasts.scenarios import CONFIDENCE, upper_bound
from parley.experiments.report_kit.charts import canvas, elimination_timeline, sample_axis
from parley.experiments.report_kit.pages import picture, render, render_text
from parley.experiments.report_kit.prose import Blocks, html_sections, markdown_text, token, words_of_reader
from parley.experiments.report_kit.tables import Table
from parley.formatting import DASH, number, real, share_text
from parley.policies.evidence.racing import EvidenceRacing
from parley.protocol import StudyMessage
from parley.simulation import Phase
from parley.translation import reading, retold

MOST_COLUMNS = 8  # agents that a table has beside each other
MOST_NAMED = 12
OBSERVED = {
    "binary": "yes or no (1 or 0)",
    "bounded": "a number in a known range",
    "gaussian": "a number, with Gaussian errors",
    "subgaussian": "a number, with errors whose tails are no heavier than a Gaussian's",
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
        samples = planned.summary()["samples"]
        said = (retold(text) for key, text in problem.descriptions().items() if key != "audience")
        text = render_text(
            "dossier",
            filters={"retold": retold, "number": number, "listed": _listed},
            dossier=dossier,
            words=words,
            block=token,
            evidence=isinstance(dossier.policy, EvidenceRacing),
            observed=_observed(dossier),
            truth=_truth_text(dossier),
            planned={
                "power": right_text(planned),
                "samples": mean_text(samples),
                "rounds": f"{planned.rounds.mean():.1f}",
                "p90": number(samples["p90"]),
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
            examples=[
                {"seed": dossier.planner.seed + place, "left": _left(dossier, run)}
                for place, run in enumerate(dossier.examples)
            ],
            digest=StudyMessage.of(dossier.study).digest,
            versions=f"Parley {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, SciPy "
            f"{scipy.__version__}",
            commands=_commands(dossier, command),
        )
    return text, blocks


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
    return "; ".join(f"{agent}: {_listed([problem.arms[arm] for arm in arms], 4)}" for agent, arms in left)


def _pictures(dossier: Dossier) -> Blocks:
    known, first = [dossier.planned, *dossier.operating], dossier.examples[0]
    drawn = {
        "operating_figure": picture(
            lambda theme: operating_figure(known, theme=theme), "Power, wrong answers and samples by truth"
        ),
        "timeline": picture(
            lambda theme: elimination_timeline(first, dossier.problem, theme=theme), "The first example, look by look"
        ),
    }
    if dossier.by_weights:
        label = "Mean samples and power by the weights"
        drawn["weights_figure"] = picture(lambda theme: weights_figure(dossier, theme=theme), label)
    return {(name, 0): shown for name, shown in drawn.items()}


def weights_figure(dossier: Dossier, *, theme: str = "light") -> Figure:
    """Mean samples and power by the weights."""
    with canvas(theme, 9, 3.4) as (figure, style):
        values, studies = zip(*dossier.by_weights, strict=True)
        cost, power = figure.subplots(1, 2)
        look: dict[str, Any] = {"fmt": "o-", "color": style.colour(0)}
        errors = [study.standard_error(study.samples) for study in studies]
        cost.errorbar(values, [study.samples.mean() for study in studies], yerr=errors, **look)
        cost.set(ylim=(0, None), title="What it costs", ylabel="samples in all, mean")
        sample_axis(cost)
        errors = [100 * study.standard_error(study.correct) for study in studies]
        power.errorbar(values, [100 * study.power for study in studies], yerr=errors, **look)
        power.set(ylim=(-4, 104), title="Power", ylabel="studies, %")
        for panel in (cost, power):
            panel.set_xlabel(dossier.weights_axis)
    return figure


def _tables(dossier: Dossier, words: dict[str, str]) -> Blocks:
    problem, known = dossier.problem, [dossier.planned, *dossier.operating]
    days = problem.rate is not None
    moved = ("power", "wrong", f"{words['draws']}, mean", "looks", *(("days, mean",) if days else ()))
    what_if = [("as planned", DASH, *_row(dossier.planned.study, days=days))]
    what_if += [(what, value, *_row(cost, days=days)) for what, value, cost in dossier.what_if]
    by_weights = [(f"{value:g}", *_row(cost, days=days)) for value, cost in dossier.by_weights]
    best = [
        (one.agent, "; ".join(f"{', '.join(arms)} from {low:g} to {high:g}" for low, high, arms in one.stretches[:8]))
        for one in dossier.best_along[:40]
    ]
    single = {
        "weights": _weights_table(dossier, words),
        "operating": operating_table("", known, designs=False),
        "tilted": _tilted_table(dossier, words),
        "what_if": Table.of_text("", ("what is otherwise", "by", *moved), what_if),
        "best_along": Table.of_text("", (words["agent"], f"best {words['arm']}"), best),
        "by_weights": Table.of_text("", (dossier.weights_axis, *moved), by_weights),
        "designs": _designs_table(dossier, words),
    }
    found: Blocks = {(name, 0): table for name, table in single.items()}
    for place, one in enumerate(dossier.watched):
        found["selected", place] = _selected_table(dossier, one, words)
        found["estimates", place] = _estimates_table(one)
    for place, run in enumerate(dossier.examples):
        found["example", place] = _example_table(dossier, run, words)
    return found


def _row(study: ScenarioCost, *, days: bool) -> list[str]:
    costs = study.summary()
    shown = [right_text(study), wrong_text(study), mean_text(costs["samples"]), f"{study.rounds.mean():.1f}"]
    return [*shown, *([mean_text(costs["days"])] if days else [])]


def _weights_table(dossier: Dossier, words: dict[str, str]) -> Table:
    """The matrix; of many agents each one's own weight alone."""
    agents, weights = dossier.problem.agents, dossier.problem.weights
    if len(agents) <= MOST_COLUMNS:
        rows = [(name, *(f"{value:.3g}" for value in row)) for name, row in zip(agents, weights, strict=True)]
        return Table.of_text("", (words["agent"], *agents), rows)
    own = [(name, f"{weights[place, place]:.3g}") for place, name in enumerate(agents[:40])]
    return Table.of_text("", (words["agent"], "its own weight"), own)


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
    return Table.of_text("", ("tie", words["agent"], "ruled out", "± standard error", "of delta"), rows)


def _selected_table(dossier: Dossier, one: Watched, words: dict[str, str]) -> Table:
    agents = dossier.problem.agents[:MOST_COLUMNS]
    named = [*zip(dossier.problem.arms, one.selected, strict=True), ("no answer", one.unanswered)]
    rows = [(name, *(f"{100 * share:.1f} %" for share in shares[: len(agents)])) for name, shares in named]
    return Table.of_text("", (words["arm"], *agents), rows)


def _estimates_table(one: Watched) -> Table:
    rows = [
        (
            row.what,
            f"{real(row.bias, 4)} ± {row.bias_error:.4f}",
            f"{row.rmse:.4f}",
            f"{100 * row.usual:.1f} %",
            f"{100 * row.joint:.1f} %",
        )
        for row in one.estimates
    ]
    return Table.of_text("", ("estimate", "bias", "root mean squared error", "usual holds", "ours holds"), rows)


def _example_table(dossier: Dossier, run: Sequence[Phase], words: dict[str, str]) -> Table:
    problem, rows, total = dossier.problem, [], 0
    for phase in run:
        drawn = int(phase.quotas.sum())
        total += drawn
        gone = [
            f"{problem.arms[k]} ({problem.agents[m]})"
            for k, m in np.argwhere(phase.before.active & ~phase.after.active)
        ]
        rows.append((str(phase.number), number(drawn), number(total), _listed(gone, 6) or DASH))
    return Table.of_text("", ("look", words["draws"], "in all", "ruled out or set aside (for)"), rows)


def _designs_table(dossier: Dossier, words: dict[str, str]) -> Table:
    rows, size = [], dossier.policy.largest_size
    for one in (dossier.planned, *dossier.operating):
        name, study = retold(one.study.scenario), one.study
        rows.append((name, "this study", number(size), number(float(study.samples.mean())), right_text(study)))
        rows += [
            (name, what, *_size(other)) for what, other in (("fixed", one.fixed), (f"{LOOKS} looks", one.sequential))
        ]
    draws = words["draws"]
    return Table.of_text("", ("truth", "design", f"{draws}, at most", f"{draws}, mean", "power"), rows)


def _size(size: DesignSize | None) -> tuple[str, str, str]:
    if size is None:
        return DASH, DASH, "no size has it"
    return number(size.samples), number(size.mean), share_text(size.power, size.power_error)


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
