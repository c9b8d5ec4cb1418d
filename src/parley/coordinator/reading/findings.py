"""What a study has found so far: estimates from the reports of all decided phases, at any phase of a study."""

from __future__ import annotations

import numpy as np

from parley.coordinator.answers import AgentFound, ArmFound, Findings, Measured
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import Columns, latest_phase, policy_of, state_at
from parley.coordinator.record import Transaction, phases, reports, studies
from parley.coordinator.record.studies import StudyRow
from parley.estimates import WORDS, Estimates, estimates, fixed_quantile, leading
from parley.policies import State
from parley.protocol import StudyMessage
from parley.protocol.state_machine import CONCLUDED
from parley.protocol.trial import ends_at
from parley.status import OutcomeStatus
from parley.totals import Totals

__all__ = ["findings"]


def findings(transaction: Transaction, row: StudyRow, *, columns: Columns, phase: int | None) -> Findings:
    """Of some agents, after a decided phase, or after the latest."""
    study = studies.message(transaction, row)
    state, last = state_at(transaction, row, latest_phase(row)), phases.decided(transaction, row.id)
    if phase is not None and phase > last:
        raise Refusal("not-found", f"phase {phase} is not decided yet: {last} are")
    now = phase is None or phase == last
    state, told = (state, last) if phase is None else (state_at(transaction, row, phase), phase)
    ends = ends_at(policy_of(transaction, row), state, row.stage) if now else [OutcomeStatus.OPEN] * len(study.agents)
    return Findings(
        study=row.id,
        stage=str(row.stage),
        phase=told,
        phases=last,
        level=1 - study.problem.delta,
        control=study.problem.control,
        rates=study.problem.noise.means_are_rates,
        words=WORDS,
        first=columns.first,
        agent_count=len(study.agents),
        agents=_agents(transaction, row, study, state, told, ends, columns, over=now and row.stage in CONCLUDED),
    )


def _agents(
    transaction: Transaction,
    row: StudyRow,
    study: StudyMessage,
    state: State,
    last: int,
    ends: list[OutcomeStatus],
    columns: Columns,
    *,
    over: bool,
) -> list[AgentFound]:
    if not last:  # nothing is decided, and nobody is told what single reports say
        return [
            AgentFound(agent=name, end=OutcomeStatus.OPEN, leader=None, arms=[]) for name in study.agents[columns.slice]
        ]
    found = _estimated(transaction, row, study, state, last, columns)
    quantile, control = fixed_quantile(study.problem), found.control
    answered = np.array([end.answered for end in ends], dtype=np.bool_) & over
    some, answers = columns.slice, np.asarray(state.answers)
    told = []
    for place, name in enumerate(study.agents[some]):
        agent = columns.first + place
        arms = [
            ArmFound(
                arm=arm,
                candidate=bool(state.active[k, agent]),
                chosen=bool(answers[k, agent] and answered[agent]),
                ruled_out_in=int(state.eliminated_in[k, agent]),
                draws=int(state.counts[k, agent]),
                mean=Measured(**found.mean.cell(k, place, quantile)),
                to_leader=Measured(**found.lead.cell(k, place, quantile)),
                to_control=None if control is None else Measured(**control.cell(k, place, quantile)),
            )
            for k, arm in enumerate(study.arms)
        ]
        leader = study.arms[int(found.leader[place])]
        told.append(AgentFound(agent=name, end=ends[agent].value, leader=leader, arms=arms))
    return told


def _estimated(
    transaction: Transaction, row: StudyRow, study: StudyMessage, state: State, last: int, columns: Columns
) -> Estimates:
    """From the fresh draws of every phase up to the `last`; the differences are to the leader among the answers.

    A re-weighed study may have had its answers before the last of its phases: all of them count, as in a certificate.
    """
    cache = transaction.cache

    def drawn(phase: int) -> Totals:
        def made() -> Totals:
            taken = reports.of_phase(transaction, row.id, phase)
            parts = [taken[name].report.totals if name in taken else None for name in study.agents]
            return Totals.columns(parts, len(study.arms))

        return cache.totals.get_or_compute((row.id, row.digest, phase), made)

    def made() -> Estimates:
        leader = leading(study.problem, state.totals, np.asarray(state.answers))
        return estimates(study.problem, [drawn(phase) for phase in range(1, last + 1)], leader, columns.slice)

    return cache.estimates.get_or_compute((row.id, row.digest, last, columns.first, columns.limit), made)
