"""One judge: what a few rows of the database tell of a study is what its replayed log tells, at every step of it."""

import pytest
from msgspec.structs import replace
from tests.coordinator.support import given, rewards, study_message

from parley.coordinator.problems import PROBLEMS, Refusal
from parley.coordinator.record import ledger, phases, studies
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.writer import situation, store_prepared
from parley.coordinator.studies import acts
from parley.coordinator.studies import phases as closing
from parley.coordinator.studies.phases import load_trial, take_report, take_step
from parley.errors import IllegalMove, ImpossibleReport
from parley.protocol import Report, Stage, apply, read_event, replay
from parley.protocol.acts import ACTS
from parley.protocol.events import ReportAccepted

WEIGHTS = ((0.75, 0.25, 0.25), (0.25, 0.75, 0.25), (0.0, 0.0, 0.5))  # agents 1 and 2 go on without agent 3
STUDY = study_message(agents=3, arms=3, policy="uniform", weights=WEIGHTS)


def told_alike(storage):
    """The situation as the rows tell it, as the stored trial tells it and as the log tells it: for every agent."""

    def look(connection):
        row = studies.get(connection, "trial")
        log = replay(read_event(record.kind, record.payload) for record in ledger.walk(connection, "trial"))
        trial = load_trial(connection, row)
        for agent in (None, *STUDY.agents):
            assert situation(connection, row, agent) == trial.situation(agent) == log.situation(agent)
        return log

    return storage.read(look)


def answer(trial, place, **changes):
    totals = rewards(trial.plan.draws(place), place, trial.phase)
    where = {"study": trial.id, "phase": trial.phase, "agent": STUDY.agents[place], "plan": trial.plan.digest}
    return replace(Report.of(totals, **where), **changes)


def taken(storage, report):
    return storage.change(lambda c: take_report(c, report, actor="test", at="now"))


def act(storage, name, **values):
    return storage.change(lambda c: acts.record_act(c, ACTS[name], given(**values), actor="test", at="now"))


def confirm(storage, name, **values):
    prepared = acts.propose(storage, ACTS[name], given(**values)).prepare(storage, "why", actor="test", at="now")
    storage.change(lambda c: store_prepared(c, prepared))


def amend(storage, report):
    act(storage, "amend", report=report, phase=report.phase, agent=report.agent, reason="a slip")


def freeze(storage, agent):
    confirm(storage, "freeze", agent=agent)


def test_who_is_frozen_after_the_report_was_not_awaited_any_more(storage):
    """Counted off twice, the others' phase would close without a report that is still due."""
    trial = acts.prepare_study("trial", STUDY)
    storage.change(lambda c: acts.create_study(c, trial, actor="test", at="now"))
    taken(storage, answer(told_alike(storage), 0))
    freeze(storage, "agent 1")
    assert told_alike(storage).awaited == ("agent 2", "agent 3")
    taken(storage, answer(told_alike(storage), 1))
    assert told_alike(storage).stage is Stage.RUNNING
    found = verify_stored(storage, "trial")
    assert found.sound, found.problem


def test_rows_stored_trial_and_log_tell_the_judge_the_same(storage):
    trial = acts.prepare_study("trial", STUDY)
    storage.change(lambda c: acts.create_study(c, trial, actor="test", at="now"))
    first = answer(told_alike(storage), 0)
    assert taken(storage, first).receipt.sequence == 2
    other = answer(told_alike(storage), 0, squares=tuple(value + 1 for value in first.squares))
    assert taken(storage, other).slug == "report-conflict"
    told_alike(storage)
    amend(storage, other)
    told_alike(storage)
    act(storage, "pause", reason="holiday")
    told_alike(storage)
    act(storage, "resume", reason="back")
    freeze(storage, "agent 3")
    assert told_alike(storage).awaited == ("agent 2",)
    taken(storage, answer(told_alike(storage), 1))
    assert told_alike(storage).stage is Stage.CLOSING
    take_step(storage, "trial", "now")
    assert told_alike(storage).phase == 2
    storage.change(lambda c: take_report(c, answer(trial, 0), actor="test", at="now", known=(1, "0" * 64)))
    assert told_alike(storage).stage is Stage.PAUSED
    confirm(storage, "cancel")
    assert told_alike(storage).stage is Stage.CANCELLED
    found = verify_stored(storage, "trial")
    assert found.sound, found.problem


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        ({"phase": 2}, "phase-future"),
        ({"plan": "0" * 64}, "wrong-plan"),
        ({"agent": "nobody"}, "not-found"),
        ({"sums": (9e9, 0.0, 0.0)}, "impossible-report"),
    ],
)
def test_what_the_replay_refuses_the_coordinator_refuses_for_the_same_reason(storage, changes, slug):
    trial = acts.prepare_study("trial", STUDY)
    storage.change(lambda c: acts.create_study(c, trial, actor="test", at="now"))
    wrong = answer(trial, 0, **changes)
    with pytest.raises(Refusal) as refusal:
        taken(storage, wrong)
    assert refusal.value.slug == slug
    with pytest.raises((IllegalMove, ImpossibleReport)) as illegal:
        apply(trial, ReportAccepted(report=wrong))
    assert getattr(illegal.value, "reason", "impossible-report") == slug
    assert slug in PROBLEMS
    assert told_alike(storage).reports == {}


def test_what_an_undone_change_has_read_is_read_again(storage, monkeypatch):
    """The step closes the phase and certifies the study in one transaction, which is then undone."""
    noise = {"kind": "gaussian", "scale": 1.0}
    study = study_message(agents=2, arms=2, policy="evidence", max_rounds=1, noise=noise)
    trial = acts.prepare_study("trial", study)
    storage.change(lambda c: acts.create_study(c, trial, actor="test", at="now"))
    first, last = answer(trial, 0), answer(trial, 1)
    other = replace(last, squares=tuple(value + 1 for value in last.squares))
    taken(storage, first)
    taken(storage, other)

    def store_and_undo(transaction, prepared):
        assert store_prepared(transaction, prepared).stage is Stage.FINISHED
        raise RuntimeError("undone")

    monkeypatch.setattr(closing, "store_prepared", store_and_undo)
    with pytest.raises(RuntimeError, match="undone"):
        take_step(storage, "trial", "now")
    monkeypatch.undo()
    amend(storage, last)
    assert take_step(storage, "trial", "now").stage is Stage.FINISHED

    def look(transaction):
        row = studies.require(transaction, "trial")
        study = studies.message(transaction, row)
        return phases.totals_of(transaction, row, study, 1).squares.tolist()

    assert storage.read(look) == [list(pair) for pair in zip(first.squares, last.squares, strict=True)]
    assert verify_stored(storage, "trial").sound
