"""The API's answers about studies: the list, the status, what agents are asked to draw and what they reported.

The results of studies are in `progress`.

Only readers who may see the data anyway get the log's heads, sequence numbers and exact times; an agent also gets them
for its own reports. Other readers get times to the minute, and an opaque version instead of a sequence number:
otherwise these values would reveal when reports came, or confirm a guess of their content.
`tests/coordinator/test_commitments.py` takes two studies that differ in one report, and checks that a viewer, and an
agent that did not send the report, get the same answers for both.
"""

import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from sqlalchemy import func, select

from parley.coordinator import answers
from parley.coordinator.clock import to_the_minute
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import end_of, latest_phase
from parley.coordinator.record import Transaction, ledger, phases, studies, tables
from parley.coordinator.record.studies import StudyRow
from parley.protocol import Certificate, Held, Report, Stage
from parley.protocol.codec import canonical, read_json
from parley.protocol.lost_sites import extent_of, guarantee_under
from parley.protocol.verify import Signature
from parley.text.status import OutcomeStatus
from parley.text.translation import Translatable

PAGE = 4 * 1024 * 1024  # most characters of records in one answer, unless a single record is larger


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """What a reader may see.

    If `whole`, the reader sees heads, sequences and exact times. If `agent` is given, the reader is that agent, and
    sees exact times only of its own reports.
    """

    whole: bool
    agent: str | None = None

    def time(self, at: str, agent: str | None = None) -> str:
        """The time of an event, as precisely as this reader may know it; `agent` is the agent that caused the event."""
        mine = agent is not None and agent == self.agent
        return at if self.whole or mine else to_the_minute(at)


class ETags:
    """Opaque versions of resources. A version changes only with its resource, and reveals nothing about it.

    >>> etags = ETags()
    >>> etags.of("trial", 3) == etags.of("trial", 3) != etags.of("trial", 4)
    True
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, *parts: object) -> str:
        """ETag of a resource, from the parts that determine it."""
        return hashlib.blake2b(repr(parts).encode(), key=self._key, digest_size=8).hexdigest()


def summary(row: StudyRow, visibility: Visibility, etags: ETags) -> answers.StudyLine:
    """A study's line in the list of studies, as far as the reader may see it."""
    shown = {name: getattr(row, name) for name in answers.StudyLine.__struct_fields__ if name != "version"}
    shown |= {"stage": str(row.stage), "version": etags.of(row.id, row.sequence)}
    shown |= {name: visibility.time(shown[name]) for name in ("created_at", "opened_at")}
    return answers.StudyLine(**shown | ({} if visibility.whole else {"sequence": None, "head": None}))


def listed(
    transaction: Transaction, visibility: Visibility, etags: ETags, *, only: str | None, limit: int, **which: Any
) -> answers.Studies:
    """List studies by id, as far as the reader may see them; `only` and `which` select them as in `studies.find`."""
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
    """A `LogPage` as JSON text, joined from records that are encoded already."""
    found = ledger.lines(transaction, stream, limit=limit, size=PAGE, **which)
    more = len(found) == limit or sum(len(line) for _, line in found) > PAGE
    following = found[-1][0] if more else None
    return f'{{"records":[{",".join(line for _, line in found)}],"next":{canonical(following)}}}'


def _awaited(
    transaction: Transaction, row: StudyRow, agent: str, visibility: Visibility, held: str | None
) -> answers.Awaited:
    said = transaction.cache.said.get((row.id, agent, row.phase))
    recruited, observed, objection, unmasked = said or (None, None, "", None)
    return answers.Awaited(
        agent=agent,
        since=visibility.time(row.opened_at),
        recruited=recruited,
        observed=observed,
        held=held if visibility.whole or visibility.agent == agent else None,
        objection=objection or None,
        unmasked=unmasked,
    )


def held_now(transaction: Transaction, row: StudyRow) -> dict[str, Held]:
    """Agent -> its report that waits for an administrator in the phase in progress."""
    if row.stage not in (Stage.RUNNING, Stage.PAUSED) or not row.awaited:
        return {}
    waits = {one.agent: one for one in phases.held(transaction, row.id, row.phase) if one.refused is None}
    taken = phases.reported_agents(transaction, row.id, row.phase) if waits else {}
    gone = {*taken, *studies.frozen_agents(transaction, row.id)} if waits else set()
    return {agent: Held(one.digest, one.why) for agent, one in waits.items() if agent not in gone}


def pulse(transaction: Transaction, only: str | None) -> tuple[int, int]:
    """The number of studies, and a counter that grows when any of them changes; `only` selects one study."""
    query = select(func.count(), func.coalesce(func.sum(tables.studies.c.sequence), 0))
    found = transaction.execute(query if only is None else query.where(tables.studies.c.id == only)).one()
    return int(found[0]), int(found[1])


def status(transaction: Transaction, row: StudyRow, visibility: Visibility, etags: ETags) -> answers.StudyStatus:
    """The status of a study: its stage, its settings, which reports it waits for, and since when."""
    study, claim = studies.message(transaction, row), studies.claim(transaction, row)
    asked = phases.asked_agents(transaction, row.id, row.phase)
    reported = phases.reported_agents(transaction, row.id, row.phase)
    frozen = studies.frozen_agents(transaction, row.id)
    question, anew = studies.question(transaction, row.id), studies.asked_anew(transaction, row.id)
    reweighed = anew.pop("", None)
    alarms = studies.alarms(transaction, row.id) if anew else {}
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
        descriptions=claim.problem.descriptions(),  # as created: `changed_arms` has the arms opened or withdrawn since
        guarantee=guarantee_under(claim, study.weights, *((question.opened, question.withdrawn) if question else ())),
        extent=extent_of(study, anew=question is not None),
        together=study.make_policy().together,
        rates=study.problem.noise.means_are_rates,
        warnings=list(phases.warnings(transaction, row, study, latest_phase(row))) if visibility.whole else [],
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
        outcomes=[outcome.name for outcome in study.problem.outcomes],
        changed_arms=[
            answers.ChangedArm(
                arm=arm,
                open=found.kind == "arm-opened",
                phase=found.phase,
                reason=alarms[found.reason] if found.kind == "arm-stopped" else found.reason,
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
    """The row of a study, and an agent's planned draws in the current phase."""
    row = studies.require(transaction, study)
    message = studies.message(transaction, row)
    if agent not in message.problem.sites:
        raise Refusal("not-found", Translatable("there is no agent {0!r} in {1!r}", agent, study))
    place = phases.look_up(transaction, row, agent)
    frozen = place is not None and place.frozen is not None
    early = phases.between(transaction, row, row.phase, agent)
    return row, answers.AgentAssignment(
        study=study,
        agent=agent,
        stage=str(row.stage),
        reason=row.reason,
        phase=row.phase,
        plan=None if place is None else place.plan_digest,
        arms=list(message.arms),
        draws=None if place is None or frozen or place.draws is None else read_json(place.draws),
        reported=place is not None and place.reported is not None,
        frozen=frozen,
        rho=message.problem.rho,
        closed_arms=list(message.problem.dormant),
        between=list(early.between) or None,
        most_ahead=early.most_ahead,
        answer=_answer(transaction, row, agent) if message.problem.show_answer else None,
    )


def _answer(transaction: Transaction, row: StudyRow, agent: str) -> list[str] | None:
    """A finished study's answer for an agent; None if the study is not finished or the agent has no answer."""
    text = studies.certificate_of(transaction, row.id) if row.stage is Stage.FINISHED else None
    if text is None:
        return None
    found = Certificate.read(text)
    if agent not in found.answers:  # an agent that asks nothing has no answer
        return None
    answered = found.complete if found.ends is None else OutcomeStatus(found.ends[agent]).answered
    return found.answers[agent] if answered else None


def report_of_agent(
    transaction: Transaction, row: StudyRow, *, phase: int, agent: str, salted: bool
) -> answers.ReportOfAgent:
    """An agent's report that counts, with earlier revisions and corrections; `salted` adds the salts of the records."""
    found = phases.revisions(transaction, row.id, phase, agent)
    if not found:
        raise Refusal("not-found", f"no report of {agent!r} in phase {phase}")
    shown = [
        msgspec.structs.asdict(taken)
        | {"salt": ledger.salt_of(transaction, row.id, taken.receipt.sequence) if salted else None}
        for taken in found
    ]
    corrections = [
        answers.CorrectedReport(report=one.event.report, reason=one.event.reason, sequence=one.sequence, at=one.at)
        for one in phases.corrections(transaction, row.id)
        if (one.event.report.phase, one.event.report.agent) == (phase, agent)
    ]
    earlier = [answers.SaltedReport(**taken) for taken in shown[:-1]]
    return answers.ReportOfAgent(**shown[-1], earlier=earlier, corrections=corrections)


def reports_of_phase(transaction: Transaction, row: StudyRow, *, phase: int) -> answers.Reports:
    """All reports that count in a phase."""
    found = sorted(phases.reports_of(transaction, row.id, phase).items())
    return answers.Reports(study=row.id, phase=phase, reports=[taken for _, taken in found])


def signatures(transaction: Transaction, row: StudyRow, visibility: Visibility) -> answers.Signatures:
    """The signatures of a study, as far as the reader may see them."""
    found = [Signature.of(record) for record in ledger.of_kind(transaction, row.id, "signed")]
    if not visibility.whole:
        found = [replace(one, at=visibility.time(one.at), sequence=None) for one in found]
    return answers.Signatures(study=row.id, signatures=found)


def quarantined(
    transaction: Transaction, row: StudyRow, *, after: int, limit: int, newest_first: bool, held: bool, beside: bool
) -> answers.Quarantine:
    """Quarantined reports, including reports that are or were held; filtered as in `QuarantineQuery`."""
    waits = {one.digest for one in held_now(transaction, row).values()}
    asides = {one.digest for one in phases.asides(transaction, row.id)}
    only = (waits if held else set()) | (asides if beside else set()) if held or beside else None
    found, following = phases.quarantined(
        transaction, row.id, after=after, limit=limit, newest_first=newest_first, size=PAGE, only=only
    )
    kept = ("digest", "stands", "why", "refused", "at", "sequence")
    shown = [
        answers.Aside(
            report=Report.read(one.body),
            held=one.digest in waits,
            beside=one.digest in asides,
            **{name: getattr(one, name) for name in kept},
        )
        for one in found
    ]
    return answers.Quarantine(study=row.id, quarantine=shown, next=following)
