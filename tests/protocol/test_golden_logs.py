"""Logs that were sound when they were written stay sound: what is asked of a report may grow, what was taken stands."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.protocol.support import study_message
from tests.protocol.test_minimum_cell import logged

from parley.protocol import Record, Report, Stage, apply, create, kind_of, read_log, verify_log
from parley.protocol.certificates import issue_certificate
from parley.protocol.events import Certified, PhaseClosed, ReportAccepted, StudyCreated
from parley.totals import Totals

GOLDEN = Path(__file__).parents[1] / "golden" / "protocol"
STUDIES = {
    "gaussian": study_message(2, 2, "wcpe"),
    "bounded": study_message(2, 2, "evidence", noise={"kind": "bounded", "low": -0.3, "high": 0.9}),
    "salted": study_message(2, 3, "evidence", noise={"kind": "bounded", "low": 0.0, "high": 1.0}),
    "constant": study_message(2, 2, "uniform"),  # every reward of an arm is the same: the squares are at their least
}


@pytest.mark.parametrize("name", STUDIES)
def test_golden_logs_stay_sound(name):
    """To add one: `make generated`, which never rewrites one that is there."""
    found = verify_log(read_log((GOLDEN / f"log-{name}.ndjson").read_text(encoding="utf-8").splitlines()))
    assert found.sound, found.problem
    assert found.stage == "finished"
    assert found.certificate is not None


def test_a_salt_that_was_changed_or_taken_away_shows():
    records = list(read_log((GOLDEN / "log-salted.ndjson").read_text(encoding="utf-8").splitlines()))
    assert all(record.salt is not None for record in records)
    for change in ("f" * 32, None):
        wrong = [*records[:2], replace(records[2], salt=change), *records[3:]]
        assert "record 3 was changed" in verify_log(wrong).problem


def test_squares_that_no_rewards_have_are_found_in_a_log():
    message = STUDIES["bounded"]
    trial = create("s", message)
    draws = trial.plan.draws(0)
    sums, squares = tuple(0.0 for _ in draws), tuple(0.8 * count for count in draws)  # at most 0.27 a draw
    report = Report(study="s", phase=1, agent=message.agents[0], plan=trial.plan.digest, counts=draws, sums=sums,
                    squares=squares)  # fmt: skip
    events = [StudyCreated(study_id="s", study=message, plan=trial.plan), ReportAccepted(report=report)]
    assert "squares[0]" in verify_log(salted(events)).problem


def rewards(name, generator, count, arm):
    if name == "constant":
        return [0.7 - 0.6 * arm] * count
    if name == "salted":
        return (generator.random(count) < 0.9 - 0.4 * arm).astype(float).tolist()
    if name == "bounded":
        return np.where(generator.random(count) < 0.8 - 0.5 * arm, 0.9, -0.3).tolist()
    return (0.9 - 0.8 * arm + generator.standard_normal(count)).tolist()


def written(name):
    """The records of a whole study with real rewards."""
    message, generator = STUDIES[name], np.random.default_rng(1)
    trial = create("s", message)
    events = [StudyCreated(study_id="s", study=message, plan=trial.plan)]
    while trial.stage is not Stage.FINISHED:
        for agent in trial.awaited:
            draws = trial.plan.draws(message.agents.index(agent))
            totals = Totals.of([rewards(name, generator, count, arm) for arm, count in enumerate(draws)])
            report = Report.of(totals, study="s", phase=trial.phase, agent=agent, plan=trial.plan.digest)
            events.append(ReportAccepted(report=report))
            trial = apply(trial, events[-1])
        step = trial.step()
        events.append(step.event)
        trial = trial.close(step)
    data = [event.decision.data for event in events if isinstance(event, PhaseClosed)]
    chain = salted if name == "salted" else logged
    last = chain(events)[-1]
    certificate = issue_certificate(trial, data=data, sequence=last.sequence, head=last.hash, version="0.1.0")
    return chain([*events, Certified(certificate=certificate)])


def salted(events):
    """As a coordinator writes them; its salts are random."""
    records = []
    for number, event in enumerate(events):
        record = {"stream": "s", "at": "now", "actor": "test", "kind": kind_of(event), "payload": event.to_json()}
        records.append(Record.after(records[-1] if records else None, **record, salt=f"{number:032x}"))
    return records


def golden_files():
    """What `make generated` writes where it is missing."""
    return {GOLDEN / f"log-{name}.ndjson": lambda name=name: text_of(written(name)) for name in STUDIES}


def text_of(records):
    return "".join(record.text + "\n" for record in records)
