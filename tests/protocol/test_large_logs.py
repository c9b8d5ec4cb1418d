"""The log of a large study: its certificate is made again and compared as text, and read where the texts differ."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.support import first_quick

from parley.protocol import Record, StudyMessage, apply, create, issue_certificate, read_log, verify, verify_log
from parley.protocol.codec import LARGE, canonical
from parley.protocol.events import Cancelled, Certified, ReportAccepted, StudyCreated, Unread, kind_of
from parley.protocol.messages import MOST_AGENTS, MOST_CELLS, Report
from parley.protocol.report_checks import added_scatter, scale_warnings
from parley.study import parse_study

SHAPES = {"square": (316, 316), "most agents": (MOST_CELLS // MOST_AGENTS, MOST_AGENTS)}  # arms, agents
MOST_MEMORY = 500_000_000


def large_log(arms, agents):
    """The lines of a study that was cancelled after its first phase."""
    study = StudyMessage.of(parse_study({"arms": arms, "agents": agents, "weights": {"kind": "identity"}}))
    trial, last, random = create("large", study), None, np.random.default_rng(1)

    def line(event):
        nonlocal last
        body = {"stream": "large", "at": "2026-01-01T00:00:00Z", "actor": "x", "kind": kind_of(event)}
        last = Record.after(last, **body, payload=event.to_json())
        return last.text

    yield line(StudyCreated(study_id="large", study=study, plan=trial.plan))
    for place, agent in enumerate(study.agents):
        counts = trial.plan.draws(place)
        sums = tuple(0.97 * hits for hits in random.binomial(counts, random.uniform(0.3, 0.7, arms)).tolist())
        squares = tuple(0.97 * value for value in sums)
        plan = trial.plan.digest
        report = Report(study="large", phase=1, agent=agent, plan=plan, counts=counts, sums=sums, squares=squares)
        event = ReportAccepted(report=report)
        yield line(event)
        trial = apply(trial, event)
    warnings, step = scale_warnings(study, added_scatter(trial.totals, None)), trial.step()
    yield line(step.event)
    trial = trial.close(step)
    event = Cancelled(reason="enough")
    yield line(event)
    known = {"data": [step.decision.data], "decisions": [step.decision], "warnings": warnings}
    ended = {"sequence": last.sequence, "head": last.hash, "version": "0.0.1"}
    yield line(Certified(certificate=issue_certificate(apply(trial, event), **known, **ended)))


@pytest.fixture(scope="module")
def lines():
    return list(large_log(20, 20))


def last_read_as(lines, payload_text):
    """The log with another certificate, whose hash fits."""
    last = json.loads(lines[-1])
    shell = {name: last[name] for name in ("stream", "at", "actor", "kind", "salt")}
    record = Record.linked(
        last["sequence"] - 1, last["previous"], **shell, payload=json.loads(payload_text), payload_text=payload_text
    )
    return [*lines[:-1], record.line(payload_text)]


def payload_text(lines):
    return Record.read(lines[-1]).payload_text


def test_a_certificate_that_is_made_again_to_the_last_bit_is_never_read(lines, monkeypatch):
    assert len(lines[-1]) > LARGE
    monkeypatch.setattr(Unread, "__iter__", lambda _: pytest.fail("it was read"))
    found = verify_log(read_log(lines))
    assert found.sound, found.problem
    assert found.certificate == Certified.from_json(json.loads(payload_text(lines))).certificate.digest


def test_rounding_of_another_machine_is_read_and_believed(lines):
    text = payload_text(lines)
    mean = json.loads(text)["certificate"]["evidence"]["agents"][0]["arms"][0]["mixed_mean"]
    other = text.replace(f'"mixed_mean":{mean!r}', f'"mixed_mean":{float(np.nextafter(mean, 1))!r}', 1)
    assert other != text
    found = verify_log(read_log(last_read_as(lines, other)))
    assert found.sound, found.problem


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    first_quick(
        ('"mixed_mean":0', '"mixed_mean":-0', "another evidence"),
        ('"complete":false', '"complete":true,"complete":false', "a payload that its event does not write"),
        (',"schema":"parley/event/certified/1"', ',"more":1,"schema":"parley/event/certified/1"', "unknown keys: more"),
        ('"complete":false', '"complete":true', "another complete"),
        ('"complete":false', '"complete": false', "a payload that its event does not write"),
        quick=3,
    ),
)
def test_another_large_certificate_is_refused_though_its_hash_fits(lines, old, new, problem):
    text = payload_text(lines)
    assert old in text
    found = verify_log(read_log(last_read_as(lines, text.replace(old, new, 1))))
    assert not found.sound
    assert problem in found.problem


def test_a_large_certificate_that_was_changed_has_another_hash(lines):
    changed = lines[-1].replace('"complete":false', '"complete":true', 1)
    assert "its hash does not fit" in verify_log(read_log([*lines[:-1], changed])).problem


def test_a_certificate_under_another_kind_is_none(lines):
    first = [Record.read(line) for line in lines[:-1]]
    body = {"stream": "large", "at": "", "actor": "x", "kind": "resumed"}
    record = Record.after(first[-1], **body, payload=Record.read(lines[-1]).payload)
    assert not verify_log([*first, record.unread(record.payload_text)]).sound


def test_weights_of_one_value_are_one_object_in_a_study_that_is_read():
    study = StudyMessage.of(parse_study({"arms": 2, "agents": 30, "weights": {"kind": "personalized", "alpha": 0.5}}))
    read = StudyMessage.read(study.text)
    assert read.weights == study.weights
    assert len({id(value) for row in read.weights for value in row}) == 2


def test_a_large_first_record_is_decoded_without_its_document(monkeypatch):
    lines = list(large_log(2, 400))
    assert len(lines[0]) > LARGE
    monkeypatch.setattr(Unread, "__iter__", lambda _: pytest.fail("it was read"))
    assert verify_log(read_log(lines[:1])).stage == "running"


def test_a_large_first_record_with_a_key_too_many_is_refused_though_its_hash_fits():
    first = json.loads(next(large_log(2, 400)))
    text = canonical(first["payload"]).replace('"policy":', '"more":1,"policy":', 1)
    shell = {name: first[name] for name in ("stream", "at", "actor", "kind", "salt")}
    record = Record.linked(0, first["previous"], **shell, payload=json.loads(text), payload_text=text)
    found = verify_log(read_log([record.line(text)]))
    assert "unknown keys: more" in found.problem


def test_lines_are_not_kept_while_their_records_are_looked_at():
    kept = bytearray(b"line")
    assert verify._taken(kept) == b"line"
    assert not kept


@pytest.mark.servers
@pytest.mark.parametrize(("arms", "agents"), SHAPES.values(), ids=SHAPES)
def test_the_largest_study_is_verified_in_bounded_memory(tmp_path, arms, agents):
    """A process of its own reads the export, and says how much memory it had at most.

    The kernel says so of its memory alone; `ru_maxrss` begins with what the parent had, which made the log.
    """
    path = tmp_path / "log.ndjson"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in large_log(arms, agents))
    program = (
        "import re, sys; from pathlib import Path; from parley.cli.verify import verify_command;"
        "verify_command([sys.argv[1]], standalone_mode=False);"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert 1024 * int(done.stdout.split()[-1]) < MOST_MEMORY
