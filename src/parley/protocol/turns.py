"""Whether a report may come, wait, be replaced or be refused: the judge's part about one agent's place.

A report with a mean that the stated model rules out (`rewards.plausibility`) is held: kept, not counted, and its place
stays open until an administrator takes it (an amendment of nothing) or refuses it: then the agent is asked for another.
"""

from __future__ import annotations

from dataclasses import replace

from parley.protocol.events import ReportAccepted, ReportAmended, ReportQuarantined, ReportRefused, kind_of
from parley.protocol.messages import Report, StudyMessage
from parley.protocol.reports import check_rewards
from parley.protocol.situation import Situation
from parley.protocol.stages import Stage, illegal, require
from parley.rewards import Past
from parley.totals import Totals

__all__ = ["judge_report", "past_of", "settled"]


def past_of(study: StudyMessage, totals: Totals, phases: int) -> Past | None:
    """What so many decided phases say against a report; None where none is held: bounded rewards."""
    return study.problem.noise.past(totals, phases)


def judge_report(
    here: Situation, event: ReportAccepted | ReportAmended | ReportQuarantined | ReportRefused
) -> Situation:
    """Where the study is once a report is taken, held, put in another's place or refused; raises what `admit` does."""
    kind = kind_of(event)
    match event:
        case ReportAccepted(report=report):
            _check_turn(here, report, kind)
            _check_numbers(here, report, kind)
            if (why := _implausible(here, report)) is not None:
                raise illegal(here.stage, kind, why, "report-doubtful")
            return settled(replace(here, missing=here.missing - 1))
        case ReportQuarantined(report=report):
            _check_turn(here, report, kind)
            _check_numbers(here, report, kind)
            if _implausible(here, report) is None:
                raise illegal(here.stage, kind, "nothing stands against it, so there is no reason to hold it")
            return here
        case ReportRefused(phase=phase, report=digest):
            _check_held(here, phase, kind, digest)
            return here
        case ReportAmended(report=report, replaces="") if here.place is not None and here.place.held is not None:
            if report.study != here.id:
                raise illegal(here.stage, kind, f"it is of {report.study!r}, not of {here.id!r}")
            _check_held(here, report.phase, kind)
            _check_numbers(here, report, kind)
            return settled(replace(here, missing=here.missing - 1))
        case ReportAmended(report=report, replaces=replaces):
            require(here.stage, kind)
            _check_standing(here, report, replaces, kind)
            _check_numbers(here, report, kind)
            return here


def settled(here: Situation) -> Situation:
    """Running or closing, whichever the reports say; a paused study stays paused."""
    if here.stage is Stage.PAUSED:
        return here
    return replace(here, stage=Stage.RUNNING if here.awaited else Stage.CLOSING)


def _check_turn(here: Situation, report: Report, kind: str) -> None:
    """Refuse a report that is not awaited, for the reason that helps the agent most."""

    def refused(reason: str, words: str) -> Exception:
        return illegal(here.stage, kind, words, reason)

    if report.study != here.id:
        raise refused("illegal-move", f"it is of {report.study!r}, not of {here.id!r}")
    if report.phase > here.phase:
        raise refused("phase-future", f"the study is in phase {here.phase}")
    if report.phase < here.phase or here.stage in (Stage.FINISHED, Stage.STALLED, Stage.CLOSING):
        raise refused("phase-closed", f"the study is {here.stage} in phase {here.phase}")
    if here.stage is Stage.PAUSED:
        raise refused("study-paused", "it takes no report until it is resumed")
    require(here.stage, kind)
    if report.agent not in here.study.agents:
        raise refused("not-found", f"no agent {report.agent!r} in {here.id!r}")
    if here.place is None or here.place.draws is None:
        raise refused("nothing-asked", f"phase {report.phase} asks nothing of {report.agent!r}")
    if here.place.frozen:
        raise refused("agent-frozen", f"{report.agent!r} is asked for nothing more")
    if here.place.standing is not None:
        raise refused("report-conflict", f"a report of {report.agent!r} stands")
    if report.digest in here.place.refused:
        raise refused("report-refused", f"an administrator did not take this report of {report.agent!r}")
    if here.place.held is not None:
        which = "it waits" if here.place.held.digest == report.digest else "another report waits in its place"
        raise refused("report-held", f"{which} until an administrator takes or refuses it: {here.place.held.why}")


def _implausible(here: Situation, report: Report) -> str | None:
    """What a report holds that the stated model rules out, in words; None if nothing."""
    if here.against is None:
        return None
    study = here.study
    found = study.problem.noise.implausible_mean(
        report.counts, report.sums, here.against, study.agents.index(report.agent), study.problem.largest_gap
    )
    return None if found is None else found.sentence(study.arms)


def _check_held(here: Situation, phase: int, kind: str, digest: str | None = None) -> None:
    """Refuse to decide on what is not held in the phase in progress, or not any more."""
    require(here.stage, kind)
    if phase != here.phase or not here.awaited or here.stage is Stage.CLOSING:
        raise illegal(here.stage, kind, f"phase {phase} waits for nobody any more", "phase-closed")
    held = here.place.held if here.place is not None and here.place.awaited else None
    if held is None or digest not in (None, held.digest):
        raise illegal(here.stage, kind, "no such report is held, nor is there one to amend", "not-found")


def _check_standing(here: Situation, report: Report, replaces: str, kind: str) -> None:
    """Refuse to amend what is not in the phase in progress, or does not stand."""
    if (report.study, report.phase) != (here.id, here.phase):
        words = f"phase {report.phase} is not in progress: a decision made on a report is not unmade by another"
        raise illegal(here.stage, kind, words, "phase-closed")
    standing = None if here.place is None else here.place.standing
    if standing is None:
        words = f"no report of {report.agent!r} in phase {report.phase} to amend"
        raise illegal(here.stage, kind, words, "not-found")
    if standing.digest != replaces:
        raise illegal(here.stage, kind, f"the report of {report.agent!r} that it replaces does not stand")


def _check_numbers(here: Situation, report: Report, kind: str) -> None:
    """Refuse a report on another plan than the one in force, and one that cannot be true."""
    assert here.place is not None
    if report.plan != here.place.plan:
        raise illegal(here.stage, kind, "the report names another plan than the one in force", "wrong-plan")
    problem = here.study.problem
    least = problem.minimum_cell if here.study.flexible else None
    check_rewards(report, here.place.draws or (), problem.noise, least)
