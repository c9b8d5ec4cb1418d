"""Checks of whether reports are credible, each report alone and all reports together.

Alone: the report follows the plan or says why not, and its sums are possible under the model, with the noise that a
private study adds (`check_report`). Together: all reports are compared with what the study assumes about its rewards
and further outcomes (`data_warnings`).

The guarantee needs counts that do not depend on the rewards of the same phase (docs/evidence-racing.md). So a report
with other counts than planned gives a reason from a list, and no reason on the list is about rewards. Nobody can check
the reason, but nobody can say later that the site was never asked. A report with fewer draws than planned says that it
is `final`, so that an incomplete report sent by mistake is refused.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from parley.covariates import LARGEST_X, LEFT
from parley.errors import ImpossibleReport
from parley.outcomes import Outcome
from parley.problem import Problem
from parley.protocol.messages import BetweenTotals, OutcomeTotals, Report, StudyMessage
from parley.rewards import RewardModel
from parley.rewards.plausibility import (
    log_evidence_of_overdispersion,
    log_evidence_of_ratio,
    log_evidence_of_scale,
    noisy_flaw,
    shared_draws,
    skew_product,
    skewed,
)
from parley.settings import StudySettings
from parley.text.translation import Translatable, numeral
from parley.totals import Totals
from parley.validation.checks import FloatArray

# The word in a report -> its meaning, as people read it.
REASONS: dict[str, str] = {
    "missing-outcomes": "some outcomes never came",
    "too-few-people": "fewer people came than planned",
    "more-people": "more people came than planned",
    "end-of-period": "a period fixed in advance has ended",
    "supply": "an arm was no longer available",
    "staff": "the site had to stop for reasons of its own",
}

# Reasons for a site to stop assigning people in a phase before its plan is full.
CLOSING_REASONS = {word: meaning for word, meaning in REASONS.items() if word != "more-people"}

# More than one void in twenty assignments should be questioned; one or two voids say nothing.
MANY_VOIDS, FEW_VOIDS = 0.05, 3
VOIDS = (
    "sites voided {0} of {1} assignments. Whoever voids an assignment already knows its arm, and the next person may "
    "get another arm: ask the sites for their reasons"
)

MOST_RELEASES = 1_000  # most releases of a person's cell: with more, no privacy would be left
LEVEL = 0.01  # probability of any warning in a whole study with a correct scale
MOST_WARNINGS = 12
SMALL = "which is too small, so the guarantee does not hold"
LARGE = "which is too large, so the study costs more than it must"
UNEQUAL = "{what} about {ratio:.3g} times as much as others that share their scale: {UNSOUND}"
SKEWED = "{what} (skewness about {skew:.2g}), and so are their means, but the study treats them as Gaussian: {UNSOUND}"
OVERDISPERSED = (
    "{what} {ratio:.3g} times their mean (variance over mean, which is 1 for Poisson counts): {UNSOUND}; kind = "
    '"gaussian" with an unknown scale allows any ratio'
)
UNSOUND = Translatable("the guarantee does not hold")
STATED = {verdict: f" {{0}} times the stated scale, {verdict}" for verdict in (SMALL, LARGE)}  # one scale per cell
STATED_ONE = {verdict: f" {{0}} times the stated scale of {{1}}, {verdict}" for verdict in (SMALL, LARGE)}
OF_OUTCOME = "{outcome}: {warning}"
# Templates that say what varies or is skewed; each audience has its own wording of them.
ALL_BY_ABOUT, REWARDS_BY_ABOUT = "all rewards vary by about", "the rewards of {agent} vary by about"
CELL_BY_ABOUT = "the rewards of {arm} at {agent} vary by about"
REWARDS_SCATTER, CELL_SCATTER = "the rewards of {agent} vary", "the rewards of {arm} at {agent} vary"
ALL_SKEWED, ARM_SKEWED = "all rewards are skewed", "the rewards of {arm} are skewed"
WARNED = (ALL_BY_ABOUT, REWARDS_BY_ABOUT, CELL_BY_ABOUT, REWARDS_SCATTER, CELL_SCATTER, ALL_SKEWED, ARM_SKEWED)

# Groups of cells examined together, with the axes to sum over: all cells, the cells of an agent, a single cell.
SCATTERING = (
    (ALL_BY_ABOUT, (0, 1)),
    (REWARDS_BY_ABOUT, (0,)),
    (CELL_BY_ABOUT, ()),
)


class Scatter(NamedTuple):
    """Sums over the reports of all phases, `(arm, agent)` each, from which the warnings are computed."""

    draws: FloatArray
    degrees: FloatArray  # degrees of freedom of the scatter
    scatter: FloatArray  # scatter of every phase's rewards around the mean of the phase
    sums: FloatArray
    leans: FloatArray  # sum of `skew_product` over the later phases: about skewness / sqrt(2) times `squares`
    squares: FloatArray  # sum of the squared scores of the means in these products
    turns: FloatArray  # how many products were added
    excess: FloatArray  # this and `spread`: sums of `shared_draws`, for counts of events
    spread: FloatArray


def check_report(
    report: Report,
    draws: tuple[int, ...],
    noise: RewardModel,
    flexible: StudySettings | None = None,
    outcomes: Sequence[Outcome] = (),
) -> None:
    """Raise `ImpossibleReport` unless the counts are the planned `draws` and the sums fit the model.

    `flexible` are the study's settings if other counts may be reported with a reason, else None. `outcomes` are the
    study's further outcomes: a report must have the totals of each.

    >>> good = Report(study="s", phase=1, agent="x", plan="ab", counts=(2,), sums=(1.5,), squares=(1.25,))
    >>> from parley.rewards import Gaussian
    >>> check_report(good, (2,), Gaussian())
    >>> check_report(good, (3,), Gaussian())
    Traceback (most recent call last):
    parley.errors.ImpossibleReport: counts: found [2]; allowed: the plan's, [3]
    """
    private = noise.rho is not None
    lengths = [len(report.counts), len(report.sums), len(report.squares)]
    if lengths != [len(draws), len(draws), 0 if private else len(draws)]:
        squares = "no squares, in a private study" if private else "squares"
        shown = f"{lengths[0]} counts, {lengths[1]} sums, {lengths[2]} squares"
        allowed = f"{len(draws)} counts and sums, one per arm, and {squares}"
        raise ImpossibleReport("report", found=shown, allowed=allowed)
    if report.releases is not None and not (private and 1 < report.releases <= MOST_RELEASES):
        allowed = f"2 to {MOST_RELEASES:,}, in a private study; or nothing"
        raise ImpossibleReport("releases", found=report.releases, allowed=allowed)
    _check_counts(report, draws, flexible)
    _check_cells("", report, noise)
    _check_outcomes("", report, outcomes)


def _check_outcomes(part: str, report: Report | BetweenTotals, outcomes: Sequence[Outcome]) -> None:
    """Raise unless a report, or its `between` part, has possible totals of exactly these outcomes.

    The totals of each outcome must cover all people of the report, including those whose outcome is missing.
    """
    names, found = [outcome.name for outcome in outcomes], [totals.name for totals in report.outcomes]
    if names != found:
        shown, allowed = ", ".join(found) or "none", ", ".join(names) or "none: the study has no further outcomes"
        raise ImpossibleReport(f"{part}outcomes", found=shown, allowed=allowed)
    none = (0,) * len(report.counts)
    people = [count + more for count, more in zip(report.counts, report.missing or none, strict=True)]
    for outcome, totals in zip(outcomes, report.outcomes, strict=True):
        where = f"{part}outcomes.{outcome.name}."
        sizes = [len(totals.counts), len(totals.sums), len(totals.squares), len(totals.missing or none)]
        private, arms = outcome.noise.rho is not None, len(none)
        if sizes != [arms, arms, 0 if private else arms, arms]:
            squares = "no squares, in a private study" if private else "squares"
            shown = f"{sizes[0]} counts, {sizes[1]} sums, {sizes[2]} squares, {len(totals.missing)} missing"
            raise ImpossibleReport(where[:-1], found=shown, allowed=f"{arms} each, one per arm, and {squares}")
        each = [count + more for count, more in zip(totals.counts, totals.missing or none, strict=True)]
        if each != people:
            allowed = f"those of the report together with its missing: {_some(tuple(people))}"
            found_people = f"{_some(tuple(each))} people, with those that are missing"
            raise ImpossibleReport(f"{where}counts", found=found_people, allowed=allowed)
        _check_cells(where, totals, outcome.noise)


def check_between(
    report: Report, between: tuple[int, ...], most: int, noise: RewardModel, outcomes: Sequence[Outcome] = ()
) -> None:
    """Raise `ImpossibleReport` unless the report's numbers of people assigned before a phase began are possible.

    The report must account for everybody assigned early to this phase: `between` has the planned number per arm. It may
    count at most `most` people as already assigned to the next phase.

    >>> sums = {"counts": (2,), "sums": (1.5,), "squares": (1.25,)}
    >>> from parley.rewards import Gaussian
    >>> check_between(Report(study="s", phase=1, agent="x", plan="ab", **sums, ahead=(3,)), (), 2, Gaussian())
    Traceback (most recent call last):
    parley.errors.ImpossibleReport: ahead: found [3]; allowed: nothing, or a count per arm, together at most 2
    """
    arms = len(report.counts)
    if report.ahead and (len(report.ahead) != arms or sum(report.ahead) > most or not any(report.ahead)):
        allowed = f"nothing, or a count per arm, together at most {most:,}"
        raise ImpossibleReport("ahead", found=_some(report.ahead), allowed=allowed)
    found = report.between
    if found is None or not between:
        if bool(between) != (found is not None):
            allowed = f"totals of the {sum(between):,} people who came before the phase" if between else "nothing"
            raise ImpossibleReport("between", found="nothing" if found is None else "totals", allowed=allowed)
        return
    gone = found.missing or (0,) * arms
    sizes = [len(found.counts), len(found.sums), len(found.squares), len(gone)]
    if sizes != [arms] * len(sizes):
        raise ImpossibleReport("between", found=f"{_some(tuple(sizes))} numbers", allowed=f"{arms} each, one per arm")
    people = tuple(count + more for count, more in zip(found.counts, gone, strict=True))
    if people != between or min(gone) < 0:
        allowed = f"those of the plan, {_some(between)}"
        raise ImpossibleReport("between.counts", found=f"{_some(people)}, with those missing", allowed=allowed)
    _check_cells("between.", found, noise)
    _check_outcomes("between.", found, outcomes)


def _check_cells(where: str, totals: Report | OutcomeTotals | BetweenTotals, noise: RewardModel) -> None:
    """Raise unless the sums of every arm are possible under the model, including the noise of a private study."""
    for arm, cell in enumerate(zip(totals.counts, totals.sums, totals.squares or totals.sums, strict=True)):
        if noise.rho is not None:
            assert noise.low is not None
            assert noise.high is not None
            found = noisy_flaw(*cell[:2], noise.low, noise.high, noise.grid, noise.noise_variance)
        else:
            found = noise.flaw(*cell)
        if found is not None:
            wrong, possible = found
            value = cell[1 if wrong == "sums" else 2]
            raise ImpossibleReport(f"{where}{wrong}[{arm}]", found=value, allowed=possible)


def _check_counts(report: Report, draws: tuple[int, ...], flexible: StudySettings | None) -> None:
    """Raise `ImpossibleReport` unless the counts are the planned `draws`, or may differ and the report says why.

    >>> short = Report(study="s", phase=1, agent="x", plan="ab", counts=(16,), sums=(1.5,), squares=(1.25,))
    >>> _check_counts(short, (17,), None)
    Traceback (most recent call last):
    parley.errors.ImpossibleReport: counts: found [16]; allowed: the plan's, [17]
    """
    if report.missing and (len(report.missing) != len(draws) or min(report.missing) < 0):
        raise ImpossibleReport("missing", found=_some(report.missing), allowed="a count per arm, or nothing")
    if report.counts == draws:
        if report.reason or report.final:
            raise ImpossibleReport("reason", found=repr(report.reason), allowed="none, with the counts of the plan")
        return
    if flexible is None or not report.reason:
        ways = f"Others are taken with a `reason` ({', '.join(REASONS)}) and, if they are fewer, `final`"
        allowed = f"the plan's, {_some(draws)}"
        raise ImpossibleReport("counts", found=_some(report.counts), allowed=allowed, hint=ways if flexible else None)
    if report.reason not in REASONS:
        raise ImpossibleReport("reason", found=repr(report.reason)[:60], allowed=", ".join(REASONS))
    for arm, (count, asked) in enumerate(zip(report.counts, draws, strict=True)):
        if count < asked and not report.final:
            allowed = "true: with fewer draws than planned, this agent's part of the phase is closed"
            raise ImpossibleReport("final", found="false", allowed=allowed)
        if count and not asked:
            raise ImpossibleReport(f"counts[{arm}]", found=count, allowed="0: the plan does not ask for this arm")
        if 0 < count < flexible.minimum_cell:
            allowed = f"0 or at least {flexible.minimum_cell}, the study's minimum cell"
            raise ImpossibleReport(f"counts[{arm}]", found=count, allowed=allowed)
        if count > (most := max(int(flexible.most_times_plan * asked), flexible.minimum_cell)):
            allowed = f"at most {most:,}: {flexible.most_times_plan:g} times the plan (sites.most_times_plan)"
            raise ImpossibleReport(f"counts[{arm}]", found=count, allowed=allowed)


def check_adjustment(report: Report, problem: Problem) -> None:
    """Raise `ImpossibleReport` unless the report says how its rewards were adjusted, within the study's limits.

    Also raises if the report counts unmasked people although the study does not mask arms.
    """
    if report.unmasked and not problem.kits:
        allowed = "nothing: the study has no kits, and its sites see every arm"
        raise ImpossibleReport("unmasked", found=report.unmasked, allowed=allowed)
    rule, theta, x0 = problem.adjustment, report.theta, report.x0
    if rule is None:
        for name in ("theta", "x0", "left", "missing_x"):
            if getattr(report, name) is not None:
                allowed = "nothing: the study has no covariate"
                raise ImpossibleReport(name, found=getattr(report, name), allowed=allowed)
        return
    if theta is None or not math.isfinite(theta):
        raise ImpossibleReport("theta", found=theta, allowed=f"a number: rewards are adjusted for {rule.name}")
    if rule.theta is not None:
        stated = float(rule.theta[problem.agents.index(report.agent)])
        if theta != stated:
            raise ImpossibleReport("theta", found=theta, allowed=f"{stated!r}, as the study states it")
    elif abs(theta) > rule.largest:
        raise ImpossibleReport("theta", found=theta, allowed=f"from {-rule.largest:g} to {rule.largest:g}")
    low, high = rule.range or (-LARGEST_X, LARGEST_X)
    if x0 is None and (theta or rule.first_x0 is not None):
        raise ImpossibleReport("x0", found="nothing", allowed="a number, with a theta that is not 0")
    if x0 is not None and (not low <= x0 <= high or rule.first_x0 not in (None, x0)):
        allowed = f"a number from {low:g} to {high:g}" if rule.first_x0 is None else f"{rule.first_x0:g}"
        raise ImpossibleReport("x0", found=x0, allowed=allowed)
    least, most = LEFT
    if report.left is not None and not (rule.learns and least <= report.left <= most):
        allowed = f"a number from {least:g} to {most:g}" if rule.learns else "nothing: the study states theta"
        raise ImpossibleReport("left", found=report.left, allowed=allowed)
    if (report.missing_x or 0) > report.people:
        allowed = f"at most {report.people:,}, the people of the report"
        raise ImpossibleReport("missing_x", found=report.missing_x, allowed=allowed)


def _some(numbers: tuple[int, ...]) -> str:
    """The first few of many numbers, as text.

    >>> _some((1, 2))
    '[1, 2]'
    """
    shown = ", ".join(map(str, numbers[:8]))
    return f"[{shown}]" if len(numbers) <= 8 else f"[{shown}, ... {len(numbers)} in all]"


def added_scatter(phase: Totals, before: Scatter | None = None, problem: Problem | None = None) -> Scatter:
    """Add the reports of a phase, `(arm, agent)`, to the scatter of the phases `before` (None: no phase).

    If sites learn how to adjust for a covariate, the phase is not compared with earlier phases, since each phase was
    adjusted differently.
    """
    blank = Scatter(*[np.zeros(phase.counts.shape)] * len(Scatter._fields))
    past = before or blank
    if phase.between is not None:
        return added_scatter(replace(phase, between=None), added_scatter(phase.between, before, problem), problem)
    learns = problem is not None and problem.adjustment is not None and problem.adjustment.learns
    known = blank if learns else past
    leaning = skew_product(phase, known.draws, known.sums, known.degrees, known.scatter)
    degrees = np.maximum(phase.counts - 1, 0)
    fresh = (phase.counts, degrees, phase.scatter, phase.sums, *leaning, *shared_draws(phase))
    return Scatter(*(part + more for part, more in zip(past, fresh, strict=True)))


def added_scatters(
    problem: Problem, phase: Totals, outcomes: Sequence[Totals], before: Sequence[Scatter] = ()
) -> tuple[Scatter, ...]:
    """Add a phase to the scatter of the primary outcome and of every further outcome, in this order.

    `before` is the scatter of the earlier phases; empty for the first phase.
    """
    past: Sequence[Scatter | None] = before or [None] * (1 + len(outcomes))
    first = added_scatter(phase, past[0], problem)
    return first, *(added_scatter(totals, one) for totals, one in zip(outcomes, past[1:], strict=True))


def data_warnings(study: StudyMessage, added: Sequence[Scatter]) -> tuple[str, ...]:
    """Sentences on assumptions that the data contradict, for every outcome: guardrails need correct models too."""
    if not added:
        return ()
    further = [
        Translatable(OF_OUTCOME, outcome=outcome.name, warning=warning)
        for outcome, scatter in zip(study.problem.outcomes, added[1:], strict=True)
        for warning in scale_warnings(study, scatter, outcome.noise)
    ]
    return (*scale_warnings(study, added[0]), *further)


def scale_warnings(study: StudyMessage, added: Scatter, noise: RewardModel | None = None) -> tuple[str, ...]:
    """Sentences on contradicted assumptions: a stated or shared scale, Gaussian rewards, Poisson counts.

    `noise` is the reward model of the outcome; the default is the model of the primary outcome.
    """
    checks = (_against_scale, _against_sharing, _against_symmetry, _against_counts)
    found = [warning for check in checks for warning in check(study, noise or study.problem.noise, added)]
    more = len(found) - MOST_WARNINGS
    return tuple(found[:MOST_WARNINGS]) + ((Translatable("and {0} more", more),) if more > 0 else ())


def _against_sharing(study: StudyMessage, noise: RewardModel, added: Scatter) -> list[str]:
    """Warnings about cells or agents whose rewards vary more or less than others with the same unknown scale."""
    shared = noise.shared_axes
    # Bonferroni: every cell and every agent is tested for too much and for too little variation.
    line = math.log(2 * (added.scatter.size + len(study.agents))) - math.log(LEVEL)
    found: list[str] = []
    # A group is compared with all others that share its scale. A scale of a single agent or cell has no others.
    for words, axes in ((REWARDS_SCATTER, (-2,)), (CELL_SCATTER, ())):
        if len(shared) <= len(axes):
            continue
        own, nu = (values.sum(axis=axes, keepdims=True) for values in (added.scatter, added.degrees))
        rest, others = (values.sum(axis=shared, keepdims=True) - values for values in (own, nu))
        for arm, agent in np.argwhere(log_evidence_of_ratio(own, nu, rest, others) >= line).tolist():
            ratio = math.sqrt(own[arm, agent] / nu[arm, agent] * others[arm, agent] / rest[arm, agent])
            what = Translatable(words, **_names(study, (arm, agent) if not axes else (agent,)))
            found.append(Translatable(UNEQUAL, what=what, ratio=ratio, UNSOUND=UNSOUND))
    return found


def _against_symmetry(study: StudyMessage, noise: RewardModel, added: Scatter) -> list[str]:
    """Warnings about arms, or all rewards, whose means and variances correlate over phases, as with skewed rewards."""
    if not noise.assumes_gaussian:
        return []
    found: list[str] = []
    for words, axes in ((ALL_SKEWED, (-2, -1)), (ARM_SKEWED, (-1,))):
        skew, alarmed = skewed(
            *(part.sum(axis=axes) for part in (added.leans, added.squares, added.turns, added.draws))
        )
        for arm in np.flatnonzero(alarmed).tolist():
            what = Translatable(words, arm=study.arms[arm])
            found.append(Translatable(SKEWED, what=what, skew=float(skew.flat[arm]), UNSOUND=UNSOUND))
    return found


def _against_counts(study: StudyMessage, noise: RewardModel, added: Scatter) -> list[str]:
    """Warnings about counts whose variance exceeds their mean, for example because people differ in their rates."""
    if not noise.variance_is_mean:
        return []
    # Bonferroni: every cell, every agent and all cells together are tested.
    line = math.log(added.scatter.size + len(study.agents) + 1) - math.log(LEVEL)
    expected = added.sums * added.degrees / np.maximum(added.draws, 1)
    found: list[str] = []
    for words, axes in SCATTERING:
        parts = (added.excess, added.spread, added.scatter, expected)
        excess, spread, scatter, mean = (np.asarray(part.sum(axis=axes)) for part in parts)
        for index in np.argwhere(log_evidence_of_overdispersion(excess, spread) >= line).tolist():
            at = tuple(index)
            what, ratio = Translatable(words, **_names(study, at)), float(scatter[at] / mean[at])
            found.append(Translatable(OVERDISPERSED, what=what, ratio=ratio, UNSOUND=UNSOUND))
    return found


def _against_scale(study: StudyMessage, noise: RewardModel, added: Scatter) -> list[str]:
    """Warnings about all rewards, agents or cells whose data contradict the stated scale."""
    draws, degrees, scatter, *_ = added
    stated = noise.stated_variance
    if stated is None:
        return []
    each = np.broadcast_to(stated, scatter.shape)
    tried = scatter.size + len(study.agents) + 1
    line = math.log(2 * tried) - math.log(LEVEL)
    units, nu = scatter / each, degrees if noise.boosted else draws
    found_wrong: list[str] = []
    for words, axes in SCATTERING:
        group, freedom, total = (np.asarray(values.sum(axis=axes)) for values in (units, nu, degrees))
        small, large = log_evidence_of_scale(group, freedom)
        against = np.argwhere((small >= line) | ((large >= line) & noise.boosted)).tolist()
        for index in against:
            at = tuple(index)
            names = _names(study, at)
            found = numeral(math.sqrt(group[at] / max(total[at], 1.0)), ".3g")
            verdict = SMALL if small[at] >= line else LARGE
            stated_as = Translatable(STATED[verdict], found)
            if np.ndim(stated) == 0:
                stated_as = Translatable(STATED_ONE[verdict], found, numeral(math.sqrt(float(each.flat[0])), ".3g"))
            found_wrong.append(Translatable(words, **names) + stated_as)
    return found_wrong


def _names(study: StudyMessage, at: tuple[int, ...]) -> dict[str, Any]:
    if len(at) == 1:
        return {"agent": study.agents[at[0]]}
    return {"arm": study.arms[at[0]], "agent": study.agents[at[1]]} if at else {}


def too_many_voids(voided: int, kept: int) -> bool:
    """Whether sites voided so many assignments that allocation concealment is in doubt.

    >>> too_many_voids(2, 3), too_many_voids(3, 50), too_many_voids(3, 57)
    (False, True, False)
    """
    return voided >= FEW_VOIDS and voided > MANY_VOIDS * (voided + kept)
