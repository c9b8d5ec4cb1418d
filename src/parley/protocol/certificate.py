"""The certificate of a study: the coordinator issues it at the end, and verification recomputes it from the log."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from parley.estimates import estimates, leading
from parley.protocol.codec import digest
from parley.protocol.corrections import read_anew
from parley.protocol.messages import Certificate, Correction, Decision, Report, Rows, StudyMessage
from parley.protocol.outcome_findings import trial_outcomes
from parley.protocol.report_checks import VOIDS, too_many_voids
from parley.protocol.trial import Trial
from parley.rewards.privacy import DELTA, epsilon
from parley.text.status import OutcomeStatus, overall
from parley.text.translation import Translatable, joined, messages_of, numeral
from parley.totals import Totals
from parley.weight_map import weight_maps

ROUNDING = 1e-9
MOST_ARMS = 6  # most arms that a sentence names
REMAIN = "{0}{1}: the list shows the candidates that remain, not answers (the guarantee of answers: {2})"
WHY = {
    OutcomeStatus.CANCELLED: Translatable("stopped early"),
    OutcomeStatus.EXHAUSTED: Translatable("the budget was reached first"),
    OutcomeStatus.BLOCKED: Translatable("a lost site blocks the answer"),
    OutcomeStatus.OPEN: Translatable("not over yet"),
}
WITHOUT = " for {0}"
GONE = "; left without an answer: {0} (the others were re-weighed)"
CORRECTED = (
    "; {0} report was corrected after the decision, and the guarantee is about the numbers before the correction",
    "; {0} reports were corrected after the decision, and the guarantee is about the numbers before the corrections",
)
WITHDRAWN = (
    "withdrawn, because {0} are missing from the reports and the study allows at most {1:.3g} % of an arm to be "
    "missing; without missing outcomes the guarantee would have been: {2}"
)
IN_PART = Translatable(
    " are missing from the reports: the guarantee holds only if they are missing for reasons unrelated to their "
    "outcomes"
)
# What is missing: a share of the last arm, and of an arm that others follow, as in "12 % of A, 3 % of B".
SHARE, SHARE_AND = "{0} % of {1}", "{0} % of {1}, {2}"
ADJUSTED = (
    "{0}; outcomes are adjusted for {1}, and this is valid only if arms are assigned at random, independently of its "
    "value"
)


def issue_certificate(
    trial: Trial,
    *,
    data: Sequence[str],
    sequence: int,
    head: str,
    version: str,
    decisions: Sequence[Decision] = (),
    warnings: Sequence[str] = (),
    phases: Sequence[Totals] | None = None,
    outcome_phases: Sequence[Sequence[Totals]] | None = None,
    corrected_in: Sequence[int] = (),
    released: int = 1,
) -> Certificate:
    """Issue the certificate of a trial that is over; `data` has a digest of each phase's reports.

    `decisions` say how many people are missing and which draws were left out. `phases` are the totals of decided
    phases, by default `trial.past`. `corrected_in` are the numbers of the records that hold the trial's corrections.
    In a private study, `released` is the largest number of releases of any quarantined report.
    """
    policy, state, study = trial.policy, trial.state, trial.study
    phases = trial.past or () if phases is None else phases
    ends = {name: how for name, how in trial.ends.items() if how is not OutcomeStatus.UNASKED}
    end = overall(ends.values())
    guarantee, gone = trial.guarantee, [name for name, how in ends.items() if how is OutcomeStatus.LEFT]
    if not end.answered:
        without = [name for name, how in ends.items() if not how.answered and how is not OutcomeStatus.LEFT]
        who = "" if end is OutcomeStatus.CANCELLED else Translatable(WITHOUT, ", ".join(without))
        guarantee = Translatable(REMAIN, WHY[end], who, guarantee)
    for alarm in sorted(trial.verdicts):
        if alarm.verdict == "stopped":
            guarantee += Translatable(
                "; {0} was stopped by the guardrail {1}, and the answers are the best of the other arms",
                alarm.arm,
                alarm.guardrail,
            )
        elif alarm.verdict == "proposed" and alarm.arm not in study.problem.dormant:
            guarantee += Translatable(
                "; the guardrail {1} raised an alarm about {0}, and nobody withdrew the arm", alarm.arm, alarm.guardrail
            )
    if gone:
        guarantee += Translatable(GONE, ", ".join(gone))
    answered = [name in ends and ends[name].answered for name in study.agents]
    maps = tuple(one.to_json() for one in weight_maps(study.problem, np.asarray(state.answers), answered))
    corrected = [one.report for one in trial.corrections]
    missing, left_out = _added([one.missing for one in decisions]), _added([_left_out(one) for one in decisions])
    voided = sum(one.voided or 0 for one in decisions)
    if too_many_voids(voided, drawn := _drawn(trial, phases)):
        warnings = (*warnings, Translatable(VOIDS, voided, drawn + voided))
    guarantee = _as_far_as_complete(guarantee, trial, decisions, missing, left_out)
    if trial.corrections:
        count = len(trial.corrections)
        guarantee += Translatable(CORRECTED[count > 1], numeral(count, ","))
    if study.problem.covariate is not None:
        guarantee = Translatable(ADJUSTED, guarantee, study.problem.covariate)
    # The estimates, by far the largest part, need no `_finite`: they already have None where there is no number.
    evidence = _finite(policy.certificate(state)) | {"guarantee": trial.guarantee} | _estimated(trial, phases)
    reread = reading(trial, phases) if trial.corrections else None
    # All sentences of the certificate that readers may want in their own language.
    said = [guarantee, policy.drift, evidence["score"], *warnings, *([reread["meaning"]] if reread else [])]
    return Certificate(
        study=trial.id,
        problem=study.digest,
        created=None if trial.origin is None else trial.origin.digest,
        data=digest(list(data)),
        policy=study.policy,
        options=study.options,
        version=version,
        delta=trial.claim.problem.delta,
        guarantee=guarantee,
        drift=policy.drift,
        complete=end.answered,
        ends=None
        if end in (OutcomeStatus.DECIDED, OutcomeStatus.CANCELLED) and not gone
        else {name: how.value for name, how in ends.items()},
        answers={
            agent: [arm for arm, kept in zip(study.arms, column, strict=True) if kept and agent not in gone]
            for agent, column in zip(study.agents, np.asarray(state.answers).T, strict=True)
            if agent in ends
        },
        map=maps or None,
        phases=len(data),
        samples=_drawn(trial, phases),
        planned_looks=policy.planned_looks,
        largest_size=policy.largest_size,
        frozen=tuple(sorted(trial.frozen)),
        opened=dict(trial.arms_opened),
        withdrawn=dict(trial.arms_withdrawn),
        evidence=evidence,
        state=state.to_json(),
        sequence=sequence,
        head=head,
        missing=missing,
        left_out=left_out,
        voided=voided or None,
        empty_phases=_empty_phases(trial, decisions) or None,
        unmasked=_unmasked(decisions) or None,
        between=sum(int(np.sum(one.between or 0)) for one in decisions) or None,
        ahead=_never_counted(trial, decisions) or None,
        warnings=tuple(warnings),
        corrections=corrections_of(trial, corrected_in),
        with_corrections=reread,
        messages=messages_of(said),
        covariate=_covariate(study, decisions),
        outcomes=tuple(_finite(trial_outcomes(trial, outcome_phases))),
        privacy=_privacy(study.problem.rho, [*decisions, *trial.reports.values(), *corrected], released),
    )


def corrections_of(trial: Trial, corrected_in: Sequence[int]) -> tuple[Correction, ...]:
    """The corrections of a trial, with the numbers of the records that hold them."""
    return tuple(
        Correction(
            sequence=sequence,
            phase=one.report.phase,
            agent=one.report.agent,
            reason=one.reason,
            report=one.report.digest,
            replaces=one.replaces,
        )
        for sequence, one in zip(corrected_in, trial.corrections, strict=True)
    )


def reading(trial: Trial, phases: Sequence[Totals] | None = None) -> dict[str, Any]:
    """Make the section `with_corrections` of a certificate, which is also shown while a study is in progress."""
    found = read_anew(trial, phases)
    anew = replace(trial, state=found.after)
    evidence = _finite(trial.policy.certificate(found.after)) | _estimated(anew, found.phases)
    del evidence["guarantee"]  # `meaning` says what holds instead
    return {
        "meaning": found.meaning,
        "would_change": found.would_change,
        "answers": found.answers,
        "other_phases": [one.to_json() for one in found.other_phases],
        **({"guardrails": [one.to_json() for one in found.other_verdicts]} if trial.guardrails else {}),
        "evidence": evidence,
    }


def _covariate(study: StudyMessage, decisions: Sequence[Decision]) -> dict[str, Any] | None:
    """How the reports of decided phases were adjusted for the covariate; None if the study has no covariate."""
    if study.problem.covariate is None:
        return None
    each = {
        name: {agent: [getattr(one, name)[place] for one in decisions] for place, agent in enumerate(study.agents)}
        for name in ("theta", "x0")
    }
    return {"name": study.problem.covariate, **each, "missing": sum(one.missing_x or 0 for one in decisions)}


def _never_counted(trial: Trial, decisions: Sequence[Decision]) -> int:
    """Count the people assigned for a phase in which their agent did not report, because it was lost or not asked.

    People assigned for the phase after the last one are included, whether or not that last phase was decided.
    """
    found = 0
    for one, following in pairwise(decisions):
        parts = (following.counts, following.between, following.missing)
        reported = sum(np.array(part or 0).sum(axis=0) for part in parts)
        found += int((np.array(one.ahead or 0).sum(axis=0) * (reported == 0)).sum())
    if decisions and trial.phase == len(decisions):
        return found + int(np.sum(decisions[-1].ahead or 0))
    return found + sum(sum(report.ahead) for report in trial.reports.values())


def _unmasked(decisions: Sequence[Decision]) -> dict[str, int]:
    """Agent -> the number of people whose arm was unmasked at its site; agents with 0 are left out."""
    found = Counter[str]()
    for one in decisions:
        found.update(one.unmasked or {})
    return dict(sorted(found.items()))


def _privacy(rho: float | None, reported: Sequence[Decision | Report], released: int = 1) -> dict[str, float] | None:
    """Bound what the reports reveal about one person: k releases of a person's cell cost k times `rho`.

    All reports in the log count, including corrections, quarantined reports and the reports of an undecided phase.
    Returns None for a study without privacy.

    >>> round(_privacy(0.05, ())["epsilon"], 2), _privacy(None, ())
    (1.31, None)
    """
    if rho is None:
        return None
    releases = max((one.releases or 1 for one in reported), default=1)
    releases = max(releases, released)
    return {"rho": rho, "releases": releases, "epsilon": epsilon(releases * rho), "delta": DELTA}


def _drawn(trial: Trial, phases: Sequence[Totals]) -> int:
    """The number of draws in decided phases.

    If the question was changed, the phases are summed: the policy's state may lack the last phase.
    """
    if trial.origin is None or not phases:
        return int(trial.state.counts.sum())
    return int(sum(totals.everybody.counts.sum() for totals in phases))


def _estimated(trial: Trial, phases: Sequence[Totals]) -> dict[str, Any]:
    """The certificate's estimates, with differences from the best estimate among the answers; empty without phases."""
    if not phases:
        return {}
    problem, state = trial.study.problem, trial.state
    leader = leading(problem, state.totals, np.asarray(state.answers))
    return {"estimates": estimates(problem, phases, leader).document(trial.claim.problem.delta)}


def _left_out(decision: Decision) -> Rows:
    """Per arm and agent: planned draws that agents who reported did not make; empty if there are none."""
    if not decision.asked:
        return ()
    short = np.maximum(np.array(decision.asked) - np.array(decision.counts), 0)
    return tuple(map(tuple, short.tolist())) if short.any() else ()


def _empty_phases(trial: Trial, decisions: Sequence[Decision]) -> dict[str, int]:
    """Agent -> the number of phases in which it reported none of its planned draws; agents with 0 are left out."""
    found = np.zeros(len(trial.study.agents), dtype=np.int64)
    for decision in decisions:
        if decision.asked:
            planned, counted = np.sum(decision.asked, axis=0), np.sum(decision.counts, axis=0)
            found += (planned > 0) & (counted == 0)
    return {name: count for name, count in zip(trial.study.agents, found.tolist(), strict=True) if count}


def _as_far_as_complete(
    guarantee: str, trial: Trial, decisions: Sequence[Decision], missing: Rows, left_out: Rows
) -> str:
    """Add a condition to the guarantee if draws are missing; withdraw it if more are missing than the study allows.

    Nobody can check that missingness does not depend on the outcomes, but the certificate can say how much is missing.
    """
    if not (missing or left_out):
        return guarantee
    lost = np.maximum(*(np.array(rows or 0, dtype=np.int64) for rows in (missing, left_out)))
    kept = np.sum([np.minimum(one.counts, one.asked or one.counts) for one in decisions], axis=0)
    shares = lost.sum(axis=1) / np.maximum((lost + kept).sum(axis=1), 1)
    pairs = zip(shares, trial.study.arms, strict=True)
    worst = sorted(
        ((share, arm) for share, arm in pairs if share and arm not in trial.study.problem.dormant), reverse=True
    )
    if not worst:  # only draws of withdrawn arms are missing, and the guarantee does not cover these
        return guarantee
    shown = _shares(worst[:MOST_ARMS])
    more = len(worst) - MOST_ARMS
    if more == 1:
        shown += Translatable(" and part of the draws of 1 more arm")
    elif more > 1:
        shown += Translatable(" and part of the draws of {0} more arms", more)
    limit = trial.study.problem.most_missing
    if worst[0][0] > limit:
        return Translatable(WITHDRAWN, shown, 100 * limit, guarantee)
    return joined("; ", [guarantee, shown + IN_PART])


def _shares(worst: Sequence[tuple[float, str]]) -> str:
    """A list of arms, each with its share in per cent.

    >>> _shares([(0.125, "A"), (0.03, "B")])
    '12.5 % of A, 3 % of B'
    """
    (share, arm), *others = worst
    shown = numeral(100 * float(share), ".3g")
    return Translatable(SHARE_AND, shown, arm, _shares(others)) if others else Translatable(SHARE, shown, arm)


def _added(missing: Sequence[Rows]) -> Rows:
    """The sum of the rows of all phases, per arm and agent; empty if no phase has any."""
    phases = [np.array(rows, dtype=np.int64) for rows in missing if rows]
    return tuple(map(tuple, np.sum(phases, axis=0).tolist())) if phases else ()


def _finite(value: Any) -> Any:
    """Replace numbers that JSON cannot represent with None: an interval without data is infinite.

    Changes lists and dictionaries in place, because a copy may take tens of megabytes, so the caller must own them.
    """
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            value[key] = _finite(item)
        return value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def same_certificate(one: Certificate, other: Certificate) -> list[str]:
    """The names of the fields in which two certificates differ by more than rounding on another machine explains.

    A message of `one` may have plain English as a value where that of `other` has a message: certificates used to.
    """
    names = set(Certificate.known_keys()) - {"version", "messages"}
    found = [name for name in names if not _same(getattr(one, name), getattr(other, name))]
    return sorted(found + ([] if _same_messages(one.messages, other.messages) else ["messages"]))


def _same_messages(stored: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    return stored.keys() == made.keys() and all(_same_message(stored[text], made[text]) for text in made)


def _same_message(stored: Any, made: Mapping[str, Any]) -> bool:
    if not (isinstance(stored, dict) and stored.keys() == made.keys() and stored["message"] == made["message"]):
        return False
    found, values = stored["values"], made["values"]
    if not (isinstance(found, dict) and found.keys() == values.keys()):
        return False
    return all(_same_value(found[key], values[key]) for key in values)


def _same_value(stored: Any, made: Any) -> bool:
    if not isinstance(made, dict):
        return _same(stored, made)
    return stored == Translatable.from_json(made) if isinstance(stored, str) else _same_message(stored, made)


def _same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):  # a whole float is read back as an integer
        return abs(one - other) <= ROUNDING * max(1.0, abs(one), abs(other))
    return one == other
