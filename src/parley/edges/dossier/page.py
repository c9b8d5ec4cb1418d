"""A protocol's dossier as a printable page or as Markdown: the same content, rendered in two ways.

The text is in `templates`, as messages that are translated and use the words of the study's audience. Tables and charts
are made here. Only the page has charts; tables have the same numbers.
"""

import math
import platform
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from textwrap import shorten
from typing import Any

import numpy as np
import scipy
from matplotlib.figure import Figure

from parley import __version__
from parley.costs import phase_days
from parley.edges.dossier.dossier import DESIGN_RUNS, MISSING, Dossier
from parley.experiments.forecasts.designs import LOOKS, DesignSize
from parley.experiments.forecasts.plan_page import mean_text, operating_figure, right_text, wrong_text
from parley.experiments.forecasts.planning import ScenarioCost
from parley.experiments.forecasts.power import Characteristic
from parley.experiments.forecasts.scenarios import CONFIDENCE, upper_bound
from parley.experiments.forecasts.selection import MOST_LOOKS
from parley.experiments.report_kit.charts import (
    canvas,
    elimination_timeline,
    legend_below,
    localized_axis,
    sample_axis,
)
from parley.experiments.report_kit.pages import picture, render, render_text
from parley.experiments.report_kit.prose import (
    FIGURE,
    SECTION,
    TABLE,
    Blocks,
    as_text,
    html_sections,
    markdown_text,
    token,
)
from parley.outcomes import Outcome
from parley.policies.evidence.racing import EvidenceRacing
from parley.problem import Problem
from parley.protocol import StudyMessage
from parley.rewards.base import RewardModel
from parley.simulation import Phase
from parley.text.formatting import DASH, number, real, share_text
from parley.text.status import ArmStatus
from parley.text.translation import Translatable, fixed, gettext, localized, reading, translated
from parley.text.translation import language as spoken
from parley.weights import alphas_of

PACKAGE = "parley.edges.dossier"  # the package that has the templates
MOST_COLUMNS = 8  # agents side by side in a table
MOST_NAMED = 12  # names in a list, before "and 3 more"
# The part for the decision must fit on two pages, whatever the study file contains: limits on the letters in a list of
# names, on the letters in the reason for the weights, and on the rows in the table of truths.
MOST_LETTERS, MOST_REASON, MOST_ROWS = 120, 240, 6
WIDE_RANGE = 20  # ratio of the most to the fewest draws; beyond it, the axis is logarithmic, to show the fewest
PROTOCOL, END = Translatable("the protocol"), Translatable("the end of the study")  # where open items are answered
# Items of the ACE checklist: number, question, the dossier's sections that answer it, and what else has to answer it.
CHECKLIST = (
    ("1a", Translatable("Identified as a randomised trial in the title"), "", PROTOCOL),
    ("1b", Translatable("Structured summary that identifies the design as adaptive"), "", PROTOCOL),
    ("2a", Translatable("Background and rationale"), "", PROTOCOL),
    ("2b", Translatable("Objectives and hypotheses"), "2", PROTOCOL),
    ("3a", Translatable("Design and allocation ratio"), "2, 6, 13", ""),
    ("3b", Translatable("Type of adaptive design, planned adaptations and what informs them"), "2, 13", ""),
    ("3c", Translatable("Important changes after the start"), "", END),
    ("4a", Translatable("Eligibility"), "", PROTOCOL),
    ("4b", Translatable("Settings and locations"), "", PROTOCOL),
    ("5", Translatable("Interventions"), "", PROTOCOL),
    ("6a", Translatable("Outcomes, including those that inform adaptations"), "2", PROTOCOL),
    ("6b", Translatable("Unplanned changes to outcomes"), "", END),
    ("7a", Translatable("Size and operating characteristics"), "4, 5, 6, 9, 10, 11", PROTOCOL),
    ("7b", Translatable("Criteria for interim decisions; timing and frequency of looks"), "2, 4, 8, 13", END),
    ("8a", Translatable("How the random sequence is generated"), "2", ""),
    ("8b", Translatable("Type of randomisation, restrictions, updates of the allocation"), "2, 8, 13", ""),
    ("9", Translatable("Concealment"), "2", ""),
    ("10", Translatable("Who generates the sequence, enrols and assigns"), "2", PROTOCOL),
    ("11a", Translatable("Who is blinded"), "", PROTOCOL),
    ("11b", Translatable("Similarity of interventions"), "", PROTOCOL),
    ("11c", Translatable("Confidentiality of interim results"), "2", PROTOCOL),
    ("12a", Translatable("Statistical methods to compare groups"), "13", ""),
    ("12b", Translatable("Estimates and inference, given the adaptations"), "7, 13", ""),
    ("12c", Translatable("Additional analyses"), "10", PROTOCOL),
    ("13a", Translatable("Flow: numbers assigned, treated and analysed"), "", END),
    ("13b", Translatable("Losses and exclusions"), "", END),
    ("14a", Translatable("Dates of recruitment and follow-up"), "", END),
    ("14b", Translatable("Why the trial ended"), "", END),
    ("14c", Translatable("Adaptation decisions that were made"), "", END),
    ("15a", Translatable("Baseline data"), "", PROTOCOL),
    ("15b", Translatable("Similarity of the populations across stages"), "9", END),
    ("16", Translatable("Numbers analysed"), "2", END),
    ("17a", Translatable("Results, effects and precision"), "7", END),
    ("17b", Translatable("Absolute and relative effects"), "", END),
    ("17c", Translatable("Interim results that informed decisions"), "", END),
    ("18", Translatable("Other analyses"), "", PROTOCOL),
    ("19", Translatable("Harms"), "2", END),
    ("20", Translatable("Limitations: bias, imprecision, multiplicity"), "5, 7, 13", END),
    ("21", Translatable("Generalisability"), "3, 5", PROTOCOL),
    ("22", Translatable("Interpretation"), "", END),
    ("23", Translatable("Registration"), "", PROTOCOL),
    ("24a", Translatable("Where the protocol can be accessed"), "", PROTOCOL),
    ("24b", Translatable("Analysis plan and simulation report"), "14, 15", PROTOCOL),
    ("25", Translatable("Funding"), "", PROTOCOL),
)
# The literature is cited in the same form in every language.
LITERATURE = (
    "Ville 1939, Étude critique de la notion de collectif. Shafer, J. R. Stat. Soc. A 2021;184:407. "
    "Ramdas et al., Stat. Sci. 2023;38:576. Waudby-Smith & Ramdas, J. R. Stat. Soc. B 2024;86:1. "
    "Fischer & Ramdas 2024, arXiv 2410.16076. Müller & Schäfer, Biometrics 2001;57:886. "
    "Farrington & Manning, Stat. Med. 1990;9:1447. Wilson & Hilferty, PNAS 1931;17:684. "
    "Réda, Vakili & Kaufmann, NeurIPS 2022. Clopper & Pearson, Biometrika 1934;26:404. "
    "O'Brien & Fleming, Biometrics 1979;35:549. Jennison & Turnbull 2000, Group Sequential Methods."
)


def dossier_html(dossier: Dossier, command: str, language: str = "en") -> str:
    """Render the dossier as an HTML page: two printed pages for the decision, and the appendix."""
    decision, appendix, blocks = _content(dossier, command, language, pictures=True)
    with reading(dossier.problem.audience, language):
        return render(
            "dossier",
            package=PACKAGE,
            title=_title(dossier),
            command=command,
            decision=html_sections(decision, blocks),
            sections=html_sections(appendix, blocks),
            made=f"Parley {__version__}, {_today()}",
        )


def dossier_markdown(dossier: Dossier, command: str, language: str = "en") -> str:
    """Render the dossier as Markdown, without charts."""
    decision, text, blocks = _content(dossier, command, language, pictures=False)
    contents = "".join(f"{place}. {name}\n" for place, name in enumerate(SECTION.findall(text), start=1))
    with reading(dossier.problem.audience, language):
        appendix = markdown_text(gettext("Appendix"), f"{contents}\n{text}", blocks)
        title = f"# {_title(dossier)}"
    # Move the appendix's headings one level down: the appendix is a sibling of the sections for the decision.
    appendix = re.sub("^(?=##? )", "#", appendix, flags=re.MULTILINE)
    return f"{title}\n\n" + re.sub(r"\n{3,}", "\n\n", decision).strip() + f"\n\n{appendix}"


# Suffix of the file -> function that renders the dossier.
FORMATS: dict[str, Callable[[Dossier, str, str], str]] = {".html": dossier_html, ".md": dossier_markdown}


def _title(dossier: Dossier) -> str:
    return gettext("Statistical design: %(study)s", study=dossier.study.name)


def _content(dossier: Dossier, command: str, language: str, *, pictures: bool) -> tuple[str, str, Blocks]:
    """Texts of the decision's pages and of the appendix, with tokens for pictures, and the picture of each token."""
    counts, audience, blocks = Counter[str](), dossier.problem.audience, Blocks()

    def caption(title: str, kind: str = TABLE) -> str:
        counts[str(kind)] += 1
        return f"**{translated(kind)} {counts[str(kind)]}.** {title}"

    def figure(name: str, title: str) -> str:
        return f"{caption(title, kind=FIGURE)}\n\n{token(name)}" if (name, 0) in blocks else ""

    with reading(audience, language):
        blocks |= _pictures(dossier) if pictures else {}
        known = _values(dossier, command) | {"caption": caption, "figure": figure}
        # Keep this order, since tables and figures are numbered as they are rendered.
        decision, appendix = (
            render_text(name, package=PACKAGE, filters=FILTERS, **known) for name in ("decision", "dossier")
        )
    return decision, appendix, blocks


def _values(dossier: Dossier, command: str) -> dict[str, Any]:
    """The values that the templates use, translated for the reader."""
    problem, policy = dossier.problem, dossier.policy
    alphas, temper = alphas_of(problem.weights), policy.temper if isinstance(policy, EvidenceRacing) else None
    known, size = [dossier.planned, *dossier.operating], policy.largest_size
    looks = math.log((size or 1) / int(dossier.examples[0][2][0].quotas.sum()))
    return dict[str, Any](
        dossier=dossier,
        known=known,
        comparison=dossier.comparison,
        design_runs=DESIGN_RUNS,
        most_looks_of_kn=MOST_LOOKS,
        instance=dossier.truth.instances(problem)[0],
        zip=zip,
        upper_bound=upper_bound,
        quantiles=lambda values: np.quantile(values, (0.05, 0.95), axis=0),
        design_days=lambda design: _design_days(problem, design),
        evidence=isinstance(policy, EvidenceRacing),
        guardrails=[_guardrail(dossier, one) for one in problem.outcomes if one.guards],
        secondary=[one.name for one in problem.outcomes if not one.guards],
        outcomes=[_outcome_text(one) for one in problem.outcomes],
        proven=policy.bounds_errors,
        missing=_missing_text(dossier),
        alone=known[0].alone.largest_size,
        worst=max(dossier.errors, key=lambda one: one.outcome.mistaken.mean(), default=None),
        tilted=_most_tilted(dossier),
        approximate=problem.noise.document().get("inference") == "normal",
        observed=_observed(dossier),
        truth=_truth_text(dossier),
        confidence=localized(f"{100 * CONFIDENCE:g}"),
        level=localized(f"{100 * (1 - problem.delta):g}"),
        looks=LOOKS,
        against_control=[one for one in dossier.errors if one.truth.startswith(f"{problem.control} best")],
        checklist=_checklist(dossier),
        literature=LITERATURE,
        temper=temper,
        most_looks=1 + math.ceil(looks / math.log(temper.smallest_growth)) if size and temper else None,
        alpha=None if alphas is None or np.ptp(alphas) > 1e-9 else float(alphas[0]),
        examples=[_example(dossier, *one) for one in dossier.examples],
        date=_today(),
        digest=StudyMessage.of(dossier.study).digest,
        versions=f"Parley {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, SciPy "
        f"{scipy.__version__}",
        commands=_commands(dossier, command),
        kind=_kind(problem.noise),
        anew=localized(f"{300 * problem.delta:g} %"),
        reason=shorten(dossier.study.reason or "", MOST_REASON, placeholder=" …"),
        shown=_decision_rows(dossier),
        undecided=max(one.study.unfinished / len(one.study.samples) for one in _decision_rows(dossier)),
    )


def _decision_rows(dossier: Dossier) -> list[Characteristic]:
    """The truths on the decision's two pages: the planned truth, and as many others as fit."""
    rows = {one.study.scenario: one for one in reversed([dossier.planned, *dossier.operating])}
    return list(reversed(rows.values()))[:MOST_ROWS]


def _today() -> str:
    today = datetime.now(UTC).date()
    if spoken() == "en":
        return today.isoformat()
    from babel.dates import format_date

    return format_date(today, "long", locale=spoken())


def _checklist(dossier: Dossier) -> list[tuple[str, str, str, str]]:
    """The rows of the ACE checklist: item, question, sections that answer it, and what else has to answer it."""
    more = {"19": "2, 4" if dossier.harms else "2", "14a": "4, 9" if dossier.problem.rate is not None else ""}
    return [
        (item, translated(question), more.get(item, sections), translated(needed))
        for item, question, sections, needed in CHECKLIST
    ]


def _design_days(problem: Problem, design: DesignSize) -> float:
    """Mean days that another design takes, if each of its looks is a phase."""
    cell = design.mean / design.rounds / math.prod(problem.shape)
    return float(phase_days(problem, np.full(problem.shape, math.ceil(cell)))) * design.rounds


def _listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    shown = ", ".join(names[:most])
    if len(names) <= most:
        return shown
    return gettext("%(names)s and %(count)s more", names=shown, count=number(len(names) - most))


def _brief(names: Sequence[str]) -> str:
    """List names for the decision's two pages: as many as fit into a line or two.

    >>> _brief(["a", "b"]), _brief(["x" * 70] * 5)[70:]
    ('a, b', ' and 4 more')
    """
    room = [place for place in range(1, 1 + len(names)) if len(", ".join(names[:place])) <= MOST_LETTERS]
    return as_text(_listed(names, max(room, default=1)))


FILTERS: dict[str, Callable[..., str]] = {
    "translated": translated,
    "number": number,
    "listed": _listed,
    "brief": _brief,
    "cell": as_text,
    "right": right_text,
    "wrong": wrong_text,
    "mean": mean_text,
    "share": share_text,
    "real": lambda value: real(value, 4),
    "fixed": fixed,
    "span": lambda ends, form="%g": span(ends[0], ends[1], form),
    "percent": lambda share, digits=1: localized(f"{100 * share:.{digits}f} %"),
    "localized": localized,
}


def _missing_text(dossier: Dossier) -> str:
    """Describe how missing outcomes change the power, as in "lower with 10 % missing"."""
    said = []
    for value, cost in ((value, cost) for what, value, cost in dossier.what_if if what == MISSING):
        changes = {
            "higher": gettext("higher with %(share)s missing", share=translated(value)),
            "lower": gettext("lower with %(share)s missing", share=translated(value)),
            "about the same": gettext("about the same with %(share)s missing", share=translated(value)),
        }
        said.append(changes[direction(cost, dossier.planned.study)])
    return ", ".join(said)


def direction(one: ScenarioCost, other: ScenarioCost) -> str:
    """Say whether the power of `one` is higher or lower than that of `other`, or the same up to Monte Carlo errors."""
    error = math.hypot(*(cost.standard_error(cost.correct) for cost in (one, other)))
    if abs(one.power - other.power) <= 2 * error:
        return "about the same"
    return "higher" if one.power > other.power else "lower"


def _most_tilted(dossier: Dossier) -> float:
    """Upper bound on the probability that a tied best arm is ruled out for any agent, in the worst tie.

    For each tie, the bound is the sum of the probabilities of all agents.
    """
    sums = defaultdict[str, float](float)
    for one in dossier.tilted:
        sums[one.tie.words] += one.found.probability
    return max(sums.values(), default=0.0)


def span(low: float, high: float, form: str = "%g") -> str:
    """Format a range of numbers, or a single number if both ends look the same.

    >>> span(14, 14), span(3, 14.5)
    ('14', '3 to 14.5')
    """
    first, last = localized(form % low), localized(form % high)
    return first if first == last else gettext("%(low)s to %(high)s", low=first, high=last)


def _kind(noise: RewardModel) -> str:
    """Describe what is observed of each person."""
    return translated(Translatable(noise.observed)) if noise.observed else noise.description


def _observed(dossier: Dossier) -> str:
    """Describe the rewards: their kind, and the keys of the study file that state them."""
    noise = dossier.problem.noise
    return f"{_kind(noise)} ({', '.join(f'`{key} = {value}`' for key, value in noise.document().items())})"


def _outcome_text(outcome: Outcome) -> str:
    parts = Translatable(noise.observed) if (noise := outcome.noise).observed else noise.description
    better = Translatable("lower is better") if outcome.better == "lower" else Translatable("higher is better")
    role = Translatable("guardrail") if outcome.guards else Translatable("secondary")
    return f"{as_text(outcome.name)} ({'; '.join(map(translated, (parts, better, role)))})"


def _guardrail(dossier: Dossier, outcome: Outcome) -> dict[str, Any]:
    """A guardrail's allowed range, the evidence for an alarm, what an alarm does, and how often harm was found."""
    problem = dossier.problem
    beyond = (one for one in dossier.harms if one.guardrail == outcome.name and one.margins > 1)
    arms = problem.arm_count - (outcome.limit is None)
    assert outcome.delta is not None
    if outcome.limit is None:
        margin = localized(f"{outcome.margin:g}")
        allowed = gettext("worse than %(arm)s by up to %(margin)s", arm=problem.control, margin=margin)
    else:
        limit = localized(f"{outcome.limit:g}")
        low = gettext("at most %(limit)s", limit=limit)
        allowed = low if outcome.better == "lower" else gettext("at least %(limit)s", limit=limit)
    return {
        "name": outcome.name,
        "allowed": allowed,
        "delta": localized(f"{outcome.delta:g}"),
        "alarm": arms / outcome.delta,
        "pair": arms * problem.question_count / outcome.delta,
        "stops": outcome.on_alarm == "stop",
        "beyond": next(beyond, None),
    }


def _truth_text(dossier: Dossier) -> str:
    rates, shown = dossier.problem.noise.means_are_rates, []
    for arm, row in zip(dossier.problem.arms, dossier.truth.means[0], strict=True):
        ends = (f"{100 * end:.3g} %" if rates else f"{end:.3g}" for end in (float(row.min()), float(row.max())))
        low, high = map(localized, ends)
        shown.append(
            f"{arm} {low}" if low == high else gettext("%(arm)s %(low)s to %(high)s", arm=arm, low=low, high=high)
        )
    return "; ".join(shown)


def _example(dossier: Dossier, truth: str, seed: int, run: Sequence[Phase]) -> dict[str, Any]:
    """Describe an example run phase by phase: its draws, and which arms were ruled out or set aside."""
    problem, total, shown = dossier.problem, 0, []
    for phase in run:
        total += int(phase.quotas.sum())
        gone = phase.before.active & ~phase.after.active
        worse = dossier.policy.arm_statuses(phase.after) == ArmStatus.RULED_OUT.value
        left = [
            _listed([f"{problem.arms[k]} ({problem.agents[m]})" for k, m in np.argwhere(gone & how)], 6) or DASH
            for how in (worse, ~worse)
        ]
        shown.append(
            {"number": phase.number, "quotas": phase.quotas, "total": total, "worse": left[0], "aside": left[1]}
        )
    ended = (np.flatnonzero(run[-1].after.active[:, place]) for place in range(problem.agent_count)[:MOST_COLUMNS])
    left = []
    for agent, arms in zip(problem.agents, ended, strict=False):
        names = _listed([problem.arms[arm] for arm in arms], 4)
        if len(arms) > problem.top:
            names = gettext("%(names)s (undecided)", names=names)
        left.append(f"{agent}: {names}")
    return {"truth": truth, "seed": seed, "phases": shown, "left": "; ".join(left)}


def _pictures(dossier: Dossier) -> Blocks:
    takes, rows = gettext("Draws under each truth, compared with other designs"), _decision_rows(dossier)
    known, first = [dossier.planned, *dossier.operating], dossier.examples[0][2]
    operating = gettext("Power, wrong answers and sizes by truth; sizes on a logarithmic axis")
    looked = gettext("The first example, look by look")
    drawn = {
        "decision_figure": picture(takes, decision_figure, rows, dossier.policy.largest_size),
        "operating_figure": picture(operating, operating_figure, known),
        "timeline": picture(looked, elimination_timeline, first, dossier.problem),
    }
    if dossier.by_weights:
        weighed = gettext("Mean size and power by weights; bars are Monte Carlo standard errors")
        drawn["weights_figure"] = picture(weighed, weights_figure, dossier)
    return {(name, 0): shown for name, shown in drawn.items()}


def decision_figure(found: Sequence[Characteristic], size: int | None, *, theme: str = "light") -> Figure:
    """Draw the sizes of this study and of other designs, with a row per truth."""
    places = np.arange(len(found))
    with canvas(theme, 9, 1.2 + 0.28 * len(found)) as (figure, style):
        panel = figure.subplots()
        means = np.array([one.study.samples.mean() for one in found])
        beyond = np.maximum([np.quantile(one.study.samples, 0.9) - one.study.samples.mean() for one in found], 0)
        bars = [np.zeros(len(found)), beyond]
        look: dict[str, Any] = {"fmt": "o", "color": style.colour(0), "capsize": 4}
        panel.errorbar(means, places, xerr=bars, label=gettext("this study: mean and 90th percentile"), **look)
        others = {
            gettext("fixed size"): ([one.fixed and one.fixed.samples for one in found], "D", 2),
            gettext("every agent alone"): ([one.alone.samples.mean() for one in found], "s", 1),
        }
        for label, (values, marker, colour) in others.items():
            drawn = [(value, place) for value, place in zip(values, places, strict=True) if value]
            if drawn:
                panel.plot(*zip(*drawn, strict=True), marker, color=style.colour(colour), label=label)
        if size is not None:
            panel.axvline(size, color=style.muted, linestyle="--", label=gettext("largest size of this study"))
        wide = max(value or 0 for values, *_ in others.values() for value in values) > WIDE_RANGE * means.min()
        panel.set(xscale="log") if wide else panel.set(xlim=(0, None))
        sample_axis(panel, "x")
        scale = gettext(" (logarithmic scale)") if wide else ""
        panel.set_xlabel(gettext("draws of all agents") + scale)
        panel.set_yticks(places, [translated(one.study.scenario) for one in found])
        panel.set_ylim(len(found) - 0.5, -0.5)
        legend_below(figure, panel)
    return figure


def weights_figure(dossier: Dossier, *, theme: str = "light") -> Figure:
    """Draw mean samples and power by the weights."""
    with canvas(theme, 9, 3.4) as (figure, style):
        values, studies = zip(*dossier.by_weights, strict=True)
        cost, power = figure.subplots(1, 2)
        look: dict[str, Any] = {"fmt": "o-", "color": style.colour(0)}
        errors = [study.standard_error(study.samples) for study in studies]
        cost.errorbar(values, [study.samples.mean() for study in studies], yerr=errors, **look)
        cost.set(ylim=(0, None), title=gettext("Size of the study"), ylabel=gettext("mean draws"))
        sample_axis(cost)
        errors = [100 * study.standard_error(study.correct) for study in studies]
        power.errorbar(values, [100 * study.power for study in studies], yerr=errors, **look)
        power.set(ylim=(-4, 104), title=gettext("Power"), ylabel=gettext("studies, %%"))
        alpha = gettext("alpha: 0 is the average of all agents, 1 is own rewards only")
        scale = alpha if dossier.weights_axis == "alpha" else gettext("-1: equal weights, 1: own rewards only")
        for panel in (cost, power):
            panel.set_xlabel(scale)
            localized_axis(panel, "x")
    return figure


def _commands(dossier: Dossier, command: str) -> list[str]:
    """The commands that reproduce this document and parts of its numbers."""
    planner, file = dossier.planner, command.split()[2]
    same, gaps = f"--policy {planner.policy} --seed {planner.seed}", [one.gap for one in dossier.operating if one.gap]
    tried = " ".join(f"--gap {gap:g}" for gap in gaps)
    section, this, numbers = (
        gettext("Section %(number)s", number=4),
        gettext("this document"),
        gettext("the numbers in this document"),
    )
    lines = [
        f"{command}   # {this}",
        f"{command} --json   # {numbers}",
        f"parley plan {file} --operating {tried} {same} --replications {planner.replications} --json   # {section}",
    ]
    if dossier.study.instance is not None:
        studies = len(dossier.planned.study.samples)
        lines.append(f"parley simulate {file} {same} --replications {studies} --json   # {section}")
    # `parley audit-policy` refuses unreliable estimates.
    if dossier.tilted and all(one.found.believable for one in dossier.tilted):
        runs = f"--seed {planner.seed} --replications {dossier.tilted[0].found.replications}"
        section = gettext("Section %(number)s", number=5)
        lines.append(f"parley audit-policy {file} {runs} --json   # {section}")
    return lines
