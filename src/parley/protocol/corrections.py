"""What the recorded phases would show with corrected reports. The answers themselves do not change.

The policy is replayed over all decided phases twice: with the reports that were decided on, and with every corrected
report in place of its original. Each phase keeps the counts of its reports; nothing is planned again. The difference
between the two replays is what the corrections would have changed.

Why a correction changes no decision: the person who corrects a report has seen the answers, and chooses which reports
to check again. If later decisions used the corrected totals, that choice would be part of the data, and no error
probability could be stated. The replay with corrections has the policy's guarantee only under a condition that nobody
can check; `meaning` states it, and docs/changes.md explains it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import numpy as np

from parley.errors import InvalidInput
from parley.policies import State
from parley.protocol.codec import Digest, Message, Phase, described
from parley.protocol.events import ReportCorrected
from parley.protocol.lost_sites import folded, not_reweighable
from parley.protocol.messages import Report
from parley.protocol.state_machine import admit
from parley.protocol.trial import Trial
from parley.system.once import once
from parley.text.translation import Translatable, joined
from parley.totals import Totals

STANDS = (
    "what the recorded phases would show with the corrected numbers in place of the original ones, and with the same "
    "plans; the decisions and answers themselves do not change"
)
WITHOUT_ERROR = STANDS + ". No error probability can be stated for this: "


class OtherPhase(Message, tag="parley/other-phase/1"):
    """An arm for which the corrections would change when, or whether, an agent drops it."""

    agent: str
    arm: str
    dropped_in: Annotated[int, described("The phase that ruled it out or set it aside, else 0.")]
    with_corrections: Annotated[int, described("The same, with the corrected reports.")]


class OtherVerdict(Message, tag="parley/other-verdict/1"):
    """An arm on which a guardrail would have reached another verdict with the corrections."""

    guardrail: str
    arm: str
    verdict: Annotated[str, described('By the decided phases: "alarm", "cleared" or "not cleared yet".')]
    with_corrections: Annotated[str, described("The same, with the corrected reports.")]

    @property
    def words(self) -> str:
        """The difference between the two verdicts, as a sentence."""
        values = {"guardrail": self.guardrail, "arm": self.arm}
        if self.with_corrections == "alarm":
            return Translatable("the guardrail {guardrail} would have raised an alarm about {arm}", **values)
        if self.verdict == "alarm":
            return Translatable("the guardrail {guardrail} would have raised no alarm about {arm}", **values)
        if self.with_corrections == "cleared":
            return Translatable("the guardrail {guardrail} would have cleared {arm}", **values)
        return Translatable("the guardrail {guardrail} would not have cleared {arm} yet", **values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """Two replays of a trial's decided phases: as they were decided, and with all corrections."""

    trial: Trial
    phases: tuple[Totals, ...]  # totals of the decided phases, corrected
    before: State  # the policy's last state as decided
    after: State  # the policy's last state with all corrections
    outcomes: tuple[tuple[Totals, ...], ...] = ()  # the phases of every further outcome, corrected

    @once
    def other_verdicts(self) -> tuple[OtherVerdict, ...]:
        """The arms on which a guardrail's verdict would differ with the corrections, including stopped arms."""
        trial, found = self.trial, []
        names = [outcome.name for outcome in trial.study.problem.outcomes]
        for guard in trial.guardrails if self.outcomes else ():
            place = names.index(guard.outcome.name)
            said = []
            for phases in (trial.outcomes_past, self.outcomes):
                state = guard.fold(phase[place] for phase in phases)
                words = np.where(state.alarmed, "alarm", np.where(state.cleared, "cleared", "not cleared yet"))
                said.append(words.tolist())
            found += [
                OtherVerdict(guardrail=guard.outcome.name, arm=arm, verdict=was, with_corrections=now)
                for arm, was, now in zip(trial.study.arms, *said, strict=True)
                if was != now
            ]
        return tuple(found)

    @property
    def would_change(self) -> dict[str, str]:
        """Agent -> whether its answer would change with the corrections: "yes", "undecided" or "no".

        "yes" means another answer, or an answer where there was none. "undecided" means that the answer would be lost.
        """
        study, top = self.trial.study, self.trial.study.problem.top
        had, has = (state.active.sum(axis=0) <= top for state in (self.before, self.after))
        same = (self.before.active == self.after.active).all(axis=0)
        words = np.where(had & ~has, "undecided", np.where(has & ~(had & same), "yes", "no"))
        found = zip(study.agents, words.tolist(), study.problem.asks, strict=True)
        return {agent: word for agent, word, asks in found if asks}

    @property
    def other_phases(self) -> tuple[OtherPhase, ...]:
        """The arms for which the corrections would change when, or whether, an agent drops them."""
        study, before, after = self.trial.study, self.before.dropped_in, self.after.dropped_in
        return tuple(
            OtherPhase(
                agent=study.agents[agent],
                arm=study.arms[arm],
                dropped_in=int(before[arm, agent]),
                with_corrections=int(after[arm, agent]),
            )
            for agent, arm in np.argwhere((before != after).T)
            if study.problem.asks[agent]
        )

    @once
    def answers(self) -> dict[str, list[str]]:
        """Agent -> the arms that would be its answer with the corrections; an empty list for agents that left."""
        study, left = self.trial.study, self.trial.leaves & self.trial.frozen
        return {
            agent: [arm for arm, kept in zip(study.arms, column, strict=True) if kept and agent not in left]
            for agent, column in zip(study.agents, np.asarray(self.after.answers).T, strict=True)
            if agent in study.problem.askers
        }

    @property
    def meaning(self) -> str:
        """A sentence on what the replay with corrections shows, and under which condition it can be trusted."""
        if (why := not_reweighable(self.trial.study)) is not None:
            return Translatable(WITHOUT_ERROR) + why
        return Translatable(STANDS) + Translatable(
            ". The result has the error probability of the study if the corrected numbers are the rewards that were "
            "drawn, and if the choice of the reports to check again did not depend on the rewards; the certificate "
            "does not claim that these conditions hold"
        )


def read_anew(trial: Trial, phases: Sequence[Totals] | None = None) -> Reading:
    """Replay the decided phases with and without the trial's corrections; `phases` are by default `trial.past`."""
    decided = tuple(trial.past or () if phases is None else phases)
    corrected, agents = list(decided), trial.study.agents
    for report in (event.report for event in trial.corrections):
        totals, place = corrected[report.phase - 1], agents.index(report.agent)
        columns = [report.totals if m == place else totals[:, m] for m in range(len(agents))]
        corrected[report.phase - 1] = Totals.columns(columns, len(trial.study.arms))
    before, after = (folded(trial.policy, some)[-1] for some in (decided, corrected))
    return Reading(
        trial=trial, phases=tuple(corrected), before=before, after=after, outcomes=_corrected_outcomes(trial)
    )


def _corrected_outcomes(trial: Trial) -> tuple[tuple[Totals, ...], ...]:
    phases = [list(phase) for phase in trial.outcomes_past]
    for report in (event.report for event in trial.corrections if phases):
        place = trial.study.agents.index(report.agent)
        for number, totals in enumerate(phases[report.phase - 1]):
            corrected = report.outcome_totals(number)
            columns = [corrected if m == place else totals[:, m] for m in range(len(trial.study.agents))]
            phases[report.phase - 1][number] = Totals.columns(columns, len(trial.study.arms))
    return tuple(tuple(phase) for phase in phases)


class CorrectedCell(Message, tag="parley/corrected-cell/1"):
    """An arm whose numbers a correction changes: count, sum and sum of squares, each before and after."""

    arm: str
    counts: tuple[int, int]
    sums: tuple[float, float]
    squares: tuple[float, float]


class CorrectionPreview(Message, tag="parley/correction-preview/1"):
    """What the study would show with a corrected report of a decided phase, without changing any decision."""

    study: str
    phase: Phase
    agent: str
    replaces: Annotated[
        Digest, described("Digest of the correction before it, or else of the report that was decided on.")
    ]
    report: Annotated[Digest, described("Digest of the corrected report.")]
    cells: Annotated[tuple[CorrectedCell, ...], described("The arms that it changes.")]
    would_change: Annotated[
        dict[str, str],
        described(
            'Agent -> whether its answer would change, with all corrections: "yes" (another one, or one where there is '
            'none), "undecided" (none any more) or "no".'
        ),
    ]
    other_phases: Annotated[tuple[OtherPhase, ...], described("Arms that would have been dropped at another time.")]
    effect: str
    guarantee: str
    guardrails: Annotated[
        tuple[OtherVerdict, ...], described("Arms on which a guardrail would have found something else.")
    ] = ()


def with_cells(
    now: Report, cells: Mapping[int, Sequence[float]], asked: Sequence[int], *, zero_one: bool, counts_reason: str = ""
) -> Report:
    """Copy a report with other numbers for some arms, given by index: count, sum, and sum of squares.

    For 0/1 rewards the sum of squares equals the sum, and need not be given. `asked` are the planned draws; if the
    counts differ from them, the report needs a reason, as any report does.

    >>> report = Report(study="s", phase=1, agent="x", plan="ab", counts=(2, 3), sums=(1, 1), squares=(1, 1))
    >>> with_cells(report, {1: (3, 2)}, (2, 3), zero_one=True).sums
    (1, 2)
    """
    counts, sums, squares = list(now.counts), list(now.sums), list(now.squares)
    for arm, (count, total, *rest) in cells.items():
        if squares and not rest and not zero_one:
            raise InvalidInput("squares", found="none", allowed="the sum of the squares of the arm's rewards")
        counts[arm], sums[arm] = int(count), total
        squares[arm : arm + 1] = rest or [total] if squares else []
    planned = tuple(counts) == tuple(asked)
    return msgspec.structs.replace(
        now,
        counts=tuple(counts),
        sums=tuple(sums),
        squares=tuple(squares),
        reason="" if planned else counts_reason or now.reason,
        final=not planned and any(count < wanted for count, wanted in zip(counts, asked, strict=True)),
    )


def correction_of(trial: Trial, report: Report) -> ReportCorrected:
    """Make the event in which `report` replaces the report that counts now; `admit` has not checked it yet.

    The event's reason is still empty.
    """
    probe = ReportCorrected(report=report, replaces="", reason="", consequences="")
    counted = trial.before(probe).counted
    return probe if counted is None else msgspec.structs.replace(probe, replaces=counted.digest)


def correction_preview(trial: Trial, report: Report) -> CorrectionPreview:
    """Preview the correction of a report of a decided phase."""
    event = correction_of(trial, report)
    admit(trial.before(event), event)
    assert trial.past is not None, "a correction without the recorded phases was not admitted"
    earlier = trial.corrected(report.phase, report.agent)
    place = trial.study.agents.index(report.agent)
    was = trial.past[report.phase - 1][:, place] if earlier is None else earlier.totals
    # `everybody` includes people assigned before the phase: the correction may concern their outcomes.
    was, now = was.everybody, report.totals.everybody
    found = read_anew(replace(trial, corrections=(*trial.corrections, event)))
    return CorrectionPreview(
        study=trial.id,
        phase=report.phase,
        agent=report.agent,
        replaces=event.replaces,
        report=report.digest,
        cells=tuple(
            CorrectedCell(arm=arm, counts=counts, sums=sums, squares=squares)
            for arm, counts, sums, squares in zip(
                trial.study.arms,
                zip(was.counts.tolist(), now.counts.tolist(), strict=True),
                zip(was.sums.tolist(), now.sums.tolist(), strict=True),
                zip(was.require_squares().tolist(), now.require_squares().tolist(), strict=True),
                strict=True,
            )
            if len({*counts}) + len({*sums}) + len({*squares}) > 3
        ),
        would_change=found.would_change,
        other_phases=found.other_phases,
        effect=joined("; ", [_would_change(found.would_change), *(one.words for one in found.other_verdicts)]),
        guardrails=found.other_verdicts,
        guarantee=Translatable(
            "{0}: this is unchanged, and is about the numbers before the corrections. With the corrections: {1}",
            trial.guarantee,
            found.meaning,
        ),
    )


def _would_change(found: Mapping[str, str]) -> str:
    """A sentence that names the agents whose answers would change with the corrections."""
    other, none = ([agent for agent, word in found.items() if word == kind] for kind in ("yes", "undecided"))
    words = Translatable("decisions and answers do not change, and both reports are kept")
    if not other and not none:
        return words + Translatable(". With the corrections, no answer would change")
    parts = [Translatable("{0} would have a different answer", ", ".join(other))] if other else []
    parts += [Translatable("{0} would have no answer yet", ", ".join(none))] if none else []
    return words + Translatable(". With the corrections, {0}", joined(Translatable(", and "), parts))
