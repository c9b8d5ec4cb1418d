"""Logs that were sound when they were written stay sound."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.protocol.support import study_message
from tests.protocol.test_minimum_cell import logged
from tests.support import first_quick

from parley.protocol import Receipt, Report, Stage, apply, create, read_log, verify_log
from parley.protocol.certificate import issue_certificate
from parley.protocol.events import Certified, PhaseClosed, ReportAccepted, StudyCreated
from parley.protocol.report_checks import added_scatter, scale_warnings
from parley.totals import Totals

GOLDEN = Path(__file__).parents[1] / "golden" / "protocol"
SCRIPT = Path(__file__).parents[2] / "examples" / "recompute_chain.mjs"
STUDIES = {
    "gaussian": study_message(2, 2, "wcpe"),
    "bounded": study_message(2, 2, "evidence", noise={"kind": "bounded", "low": -0.3, "high": 0.9}),
    "binary": study_message(2, 3, "evidence", noise={"kind": "bounded", "low": 0.0, "high": 1.0}),
    "constant": study_message(2, 2, "uniform"),  # every reward of an arm is the same: the squares are at their least
}


@pytest.mark.parametrize("name", STUDIES)
def test_golden_logs_stay_sound(name):
    """To add one: `make generated`, which never rewrites one that is there."""
    records = list(read_log((GOLDEN / f"log-{name}.ndjson").read_text(encoding="utf-8").splitlines()))
    found = verify_log(records)
    assert found.sound, found.problem
    assert found.stage == "finished"
    assert found.certificate is not None
    assert records[-1].payload["certificate"]["drift"] == STUDIES[name].make_policy().drift


def test_a_salt_that_was_changed_shows():
    records = list(read_log((GOLDEN / "log-binary.ndjson").read_text(encoding="utf-8").splitlines()))
    wrong = [*records[:2], replace(records[2], salt="f" * 32), *records[3:]]
    assert "record 3 was changed" in verify_log(wrong).problem


def test_totals_that_no_rewards_have_show():
    message = STUDIES["bounded"]
    trial = create("s", message)
    draws = trial.plan.draws(0)
    sums, squares = tuple(0.0 for _ in draws), tuple(0.8 * count for count in draws)  # at most 0.27 a draw
    report = Report(study="s", phase=1, agent=message.agents[0], plan=trial.plan.digest, counts=draws, sums=sums,
                    squares=squares)  # fmt: skip
    events = [StudyCreated(study_id="s", study=message, plan=trial.plan), ReportAccepted(report=report)]
    assert "squares[0]" in verify_log(logged(events)).problem


def rewards(name, generator, count, arm):
    if name == "constant":
        return [0.7 - 0.6 * arm] * count
    if name == "binary":
        return (generator.random(count) < 0.9 - 0.4 * arm).astype(float).tolist()
    if name == "bounded":
        return np.where(generator.random(count) < 0.8 - 0.5 * arm, 0.9, -0.3).tolist()
    return (0.9 - 0.8 * arm + generator.standard_normal(count)).tolist()


def written(name):
    """The records of a whole study with real rewards."""
    message, generator = STUDIES[name], np.random.default_rng(1)
    trial, scatter = create("s", message), None
    events = [StudyCreated(study_id="s", study=message, plan=trial.plan)]
    while trial.stage is not Stage.FINISHED:
        for agent in trial.awaited:
            draws = trial.plan.draws(message.agents.index(agent))
            totals = Totals.of([rewards(name, generator, count, arm) for arm, count in enumerate(draws)])
            report = Report.of(totals, study="s", phase=trial.phase, agent=agent, plan=trial.plan.digest)
            events.append(ReportAccepted(report=report))
            trial = apply(trial, events[-1])
        scatter = added_scatter(trial.totals, scatter)
        step = trial.step()
        events.append(step.event)
        trial = trial.close(step)
    data = [event.decision.data for event in events if isinstance(event, PhaseClosed)]
    last = logged(events)[-1]
    claims = {"sequence": last.sequence, "head": last.hash, "version": "0.1.0"}
    warnings = scale_warnings(message, scatter)
    certificate = issue_certificate(trial, data=data, **claims, warnings=warnings)
    return logged([*events, Certified(certificate=certificate)])


@pytest.mark.parametrize("path", first_quick(*sorted(GOLDEN.glob("log-*.ndjson")), quick=3), ids=lambda path: path.stem)
def test_another_language_recomputes_the_chain_in_thirty_lines(path):
    """Node is on every machine that runs these tests; without it the promise of the docs is untested."""
    node = shutil.which("node")
    assert node, "install Node 18 or newer: examples/recompute_chain.mjs is run by it"
    done = subprocess.run([node, SCRIPT, path], capture_output=True, text=True, check=False, timeout=60)
    head = list(read_log(path.read_text(encoding="utf-8").splitlines()))[-1].hash
    assert f"the head is {head}" in done.stdout, done.stderr


def test_another_language_finds_what_was_changed_and_checks_receipts(tmp_path):
    node = shutil.which("node")
    assert node, "install Node 18 or newer: examples/recompute_chain.mjs is run by it"
    records = list(read_log((GOLDEN / "log-gaussian.ndjson").read_text(encoding="utf-8").splitlines()))
    first = ReportAccepted.from_json(records[1].payload).report
    receipt = Receipt.of(first, sequence=2, head=records[1].hash)
    log, paper = tmp_path / "log.ndjson", tmp_path / "receipt.json"
    for kept, held, sound in (
        (records, receipt, True),
        ([records[0], *records[2:]], receipt, False),
        ([records[0], replace(records[1], actor="me"), *records[2:]], receipt, False),
        (records, replace(receipt, report="0" * 64), False),
    ):
        log.write_text(text_of(kept), encoding="utf-8")
        paper.write_text(held.text, encoding="utf-8")
        done = subprocess.run([node, SCRIPT, log, paper], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode == 0) is sound, done.stdout + done.stderr


def golden_files():
    """What `make generated` writes where it is missing."""
    return {GOLDEN / f"log-{name}.ndjson": lambda name=name: text_of(written(name)) for name in STUDIES}


def text_of(records):
    return "".join(record.text + "\n" for record in records)
