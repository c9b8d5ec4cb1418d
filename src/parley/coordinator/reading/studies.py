"""Studies for people and pages: a line of the list, where one is, what agents are asked and what they reported.

What the data of a study say is in `progress`.
"""

from dataclasses import replace
from typing import Any

import msgspec
from sqlalchemy import func, select

from parley.coordinator import answers
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import end_of, latest_phase
from parley.coordinator.reading.visibility import ETags, Visibility
from parley.coordinator.record import Transaction, ledger, phases, reports, studies, tables
from parley.coordinator.record.reports import warnings
from parley.coordinator.record.studies import StudyRow
from parley.protocol import Certificate, Held, Stage
from parley.protocol.codec import canonical
from parley.protocol.lost_sites import guarantee_under
from parley.protocol.verify import Signature
from parley.status import OutcomeStatus
from parley.translation import marked

PAGE = 4 * 1024 * 1024  # characters of records in one answer; a single one may be larger


def require_study(transaction: Transaction, study: str) -> StudyRow:
    """The row, or the refusal."""
    row = studies.get(transaction, study)
    if row is None:
        raise Refusal("not-found", f"no study {study!r}")
    return row


def summary(row: StudyRow, visibility: Visibility, etags: ETags) -> answers.StudyLine:
    """A line of the list of studies, as much of it as somebody may see."""
    return answers.StudyLine(
        id=row.id,
        name=row.name,
        policy=row.policy,
        arms=row.arms,
        agents=row.agents,
        stage=str(row.stage),
        reason=row.reason,
        phase=row.phase,
        awaited=row.awaited,
        samples=row.samples,
        created_at=visibility.time(row.created_at),
        opened_at=visibility.time(row.opened_at),
        version=etags.of(row.id, row.sequence),
        sequence=row.sequence if visibility.whole else None,
        head=row.head if visibility.whole else None,
        digest=row.digest,
    )


def listed(
    transaction: Transaction, visibility: Visibility, etags: ETags, *, only: str | None, limit: int, **which: Any
) -> answers.Studies:
    """Studies by id, as many of them as somebody may see: `only` one, or those that `which` finds."""
    found, damaged = studies.find(transaction, only=only, limit=limit, **which)
    asked, reported = phases.reports_due(transaction, [row.id for row in found])
    lines = [
        answers.ListedStudy(
            **msgspec.structs.asdict(summary(row, visibility, etags)),
            asked=asked.get(row.id, 0),
            reported=reported.get(row.id, 0),
        )
        for row in found
    ]
    following = max([*(line.id for line in lines), *damaged]) if len(lines) + len(damaged) == limit else None
    version = etags.of(only, *pulse(transaction, only))
    return answers.Studies(studies=lines, next=following, version=version, damaged=damaged)


def log_page(transaction: Transaction, stream: str, *, limit: int, **which: Any) -> str:
    """A `LogPage` as JSON, put together of lines that are written already."""
    found = ledger.lines(transaction, stream, limit=limit, size=PAGE, **which)
    more = len(found) == limit or sum(len(line) for _, line in found) > PAGE
    following = found[-1][0] if more else None
    return f'{{"records":[{",".join(line for _, line in found)}],"next":{canonical(following)}}}'


def _awaited(
    transaction: Transaction, row: StudyRow, agent: str, visibility: Visibility, held: str | None
) -> answers.Awaited:
    recruited, observed, objection = transaction.cache.said.get((row.id, agent, row.phase)) or (None, None, "")
    return answers.Awaited(
        agent=agent,
        since=visibility.time(row.opened_at),
        recruited=recruited,
        observed=observed,
        held=held if visibility.whole or visibility.agent == agent else None,
        objection=objection or None,
    )


def held_now(transaction: Transaction, row: StudyRow) -> dict[str, Held]:
    """agent -> its report that waits for an administrator, in the phase in progress."""
    if row.stage not in (Stage.RUNNING, Stage.PAUSED) or not row.awaited:
        return {}
    waits = {one.agent: one for one in reports.held(transaction, row.id, row.phase) if one.refused is None}
    taken = reports.reported_agents(transaction, row.id, row.phase) if waits else {}
    gone = {*taken, *studies.frozen_agents(transaction, row.id)} if waits else set()
    return {agent: Held(one.digest, one.why) for agent, one in waits.items() if agent not in gone}


def pulse(transaction: Transaction, only: str | None) -> tuple[int, int]:
    """How many studies there are, and a number that grows with every change of any of them; or of `only` one."""
    query = select(func.count(), func.coalesce(func.sum(tables.studies.c.sequence), 0))
    found = transaction.execute(query if only is None else query.where(tables.studies.c.id == only)).one()
    return int(found[0]), int(found[1])


def status(transaction: Transaction, row: StudyRow, visibility: Visibility, etags: ETags) -> answers.StudyStatus:
    """Where a study is, whom it waits for and since when."""
    study, claim = studies.message(transaction, row), studies.claim(transaction, row)
    asked = phases.asked_agents(transaction, row.id, row.phase)
    reported = reports.reported_agents(transaction, row.id, row.phase)
    frozen = studies.frozen_agents(transaction, row.id)
    question, anew = studies.question(transaction, row.id), studies.asked_anew(transaction, row.id)
    reweighed = anew.pop("", None)
    waits = held_now(transaction, row)
    waiting = row.awaited > 0
    missing = [
        name for name in study.agents if name in asked and name not in reported and name not in frozen and waiting
    ]
    return answers.StudyStatus(
        **msgspec.structs.asdict(summary(row, visibility, etags)),
        arm_names=list(study.arms),
        agent_names=list(study.agents),
        settings={name: value for name, value in claim.settings.items() if not isinstance(value, list)},
        descriptions=study.problem.descriptions(),
        guarantee=guarantee_under(claim, study.weights, *((question.opened, question.withdrawn) if question else ())),
        rates=study.problem.noise.means_are_rates,
        warnings=list(warnings(transaction, row, study, latest_phase(row))) if visibility.whole else [],
        asked=len(asked),
        reported=[
            answers.Reported(agent=name, at=visibility.time(reported[name], name))
            for name in study.agents
            if name in reported
        ],
        missing=[
            _awaited(transaction, row, name, visibility, waits[name].why if name in waits else None) for name in missing
        ],
        end=end_of(transaction, row).value,
        reweighed=answers.ReweighedStudy(phase=reweighed.phase, reason=reweighed.reason, left=list(question.left))
        if question and reweighed
        else None,
        closed_arms=list(study.problem.dormant),
        changed_arms=[
            answers.ChangedArm(
                arm=arm,
                open=found.kind == "arm-opened",
                phase=found.phase,
                reason=found.reason,
                at=visibility.time(found.at),
            )
            for arm, found in sorted(anew.items())
        ],
        frozen=[
            answers.FrozenAgent(agent=name, phase=found.phase, reason=found.reason, at=visibility.time(found.at))
            for name, found in sorted(frozen.items())
        ],
    )


def agent_assignment(transaction: Transaction, study: str, agent: str) -> tuple[StudyRow, answers.AgentAssignment]:
    """What an agent is asked to draw now."""
    turn = phases.assignment_of(transaction, study, agent)
    if turn is None:
        raise Refusal("not-found", f"no study {study!r}")
    row = turn.row
    message = studies.message(transaction, row)
    if agent not in message.agents:
        raise Refusal("not-found", marked("no agent {0!r} in {1!r}").format(agent, study))
    return row, answers.AgentAssignment(
        study=study,
        agent=agent,
        stage=str(row.stage),
        reason=row.reason,
        phase=row.phase,
        plan=turn.plan,
        arms=list(message.arms),
        draws=list(turn.draws) if turn.draws is not None and not turn.frozen else None,
        reported=turn.reported,
        frozen=turn.frozen,
        rho=message.problem.rho,
        closed_arms=list(message.problem.dormant),
        answer=_answer(transaction, row, agent) if message.problem.show_answer else None,
    )


def _answer(transaction: Transaction, row: StudyRow, agent: str) -> list[str] | None:
    """The arms that a finished study found for an agent; None if it found none."""
    text = studies.certificate_of(transaction, row.id) if row.stage is Stage.FINISHED else None
    if text is None:
        return None
    found = Certificate.read(text)
    answered = found.complete if found.ends is None else OutcomeStatus(found.ends[agent]).answered
    return found.answers[agent] if answered else None


def report_of_agent(
    transaction: Transaction, study: str, phase: int, agent: str, *, salted: bool
) -> answers.ReportOfAgent:
    """The report that counts and its earlier revisions; `salted`: with the salts of their records."""
    require_study(transaction, study)
    found = reports.revisions(transaction, study, phase, agent)
    if not found:
        raise Refusal("not-found", f"no report of {agent!r} in phase {phase}")
    shown = [
        vars(taken) | {"salt": ledger.salt_of(transaction, study, taken.receipt.sequence) if salted else None}
        for taken in found
    ]
    corrections = [
        answers.CorrectedReport(report=one.event.report, reason=one.event.reason, sequence=one.sequence, at=one.at)
        for one in reports.corrections(transaction, study)
        if (one.event.report.phase, one.event.report.agent) == (phase, agent)
    ]
    earlier = [answers.SaltedReport(**taken) for taken in shown[:-1]]
    return answers.ReportOfAgent(**shown[-1], earlier=earlier, corrections=corrections)


def reports_of_phase(transaction: Transaction, study: str, phase: int) -> answers.Reports:
    """Every report of a phase that counts."""
    require_study(transaction, study)
    found = sorted(reports.of_phase(transaction, study, phase).items())
    return answers.Reports(study=study, phase=phase, reports=[answers.TakenReport(**vars(taken)) for _, taken in found])


def signatures(transaction: Transaction, study: str, visibility: Visibility) -> answers.Signatures:
    """Who signed, as much of it as somebody may see."""
    require_study(transaction, study)
    found = [Signature.of(record) for record in ledger.of_kind(transaction, study, "signed")]
    if not visibility.whole:
        found = [replace(one, at=visibility.time(one.at), sequence=None) for one in found]
    return answers.Signatures(study=study, signatures=found)


def quarantined(transaction: Transaction, study: str, *, after: int, limit: int, held: bool) -> answers.Quarantine:
    """Reports that came for a taken place, and those that are or were held; `held`: only what waits."""
    waits = {one.digest for one in held_now(transaction, require_study(transaction, study)).values()}
    only = waits if held else None
    found, following = reports.quarantined(transaction, study, after=after, limit=limit, size=PAGE, only=only)
    shown = [
        answers.Aside(**vars(aside), digest=aside.report.digest, held=aside.report.digest in waits) for aside in found
    ]
    return answers.Quarantine(study=study, quarantine=shown, next=following)
