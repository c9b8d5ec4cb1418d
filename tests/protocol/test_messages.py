import json
from pathlib import Path

import pytest
from hypothesis import strategies as st

from parley.errors import InvalidInput
from parley.protocol import (
    Certificate,
    Decision,
    Plan,
    Receipt,
    Record,
    Report,
    StudyMessage,
    apply,
    create,
    issue_certificate,
)
from parley.protocol.codec import digest, read_json
from parley.protocol.events import ReportAccepted
from parley.study import parse_study

GOLDEN = Path(__file__).parents[1] / "golden" / "protocol"
numbers = st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def a_trial():
    study = StudyMessage.of(
        parse_study(
            {"name": "golden", "arms": 2, "agents": ["Paris", "Lyon"]}
            | {"noise": {"scale": 1.0}, "policy": {"name": "uniform"}}
        )
    )
    return create("golden", study)


def examples():
    """One message of every kind, made by the code of today."""
    trial = a_trial()
    for place, agent in enumerate(trial.study.agents):
        counts = trial.plan.draws(place)
        report = Report(
            study="golden",
            phase=1,
            agent=agent,
            plan=trial.plan.digest,
            counts=counts,
            sums=tuple(count * (1 - arm) * 1.0 for arm, count in enumerate(counts)),
            squares=tuple(count * 1.25 for count in counts),
        )
        trial = apply(trial, ReportAccepted(report=report))
    step = trial.step()
    receipt = Receipt(study="golden", phase=1, agent="Lyon", report=report.digest, sequence=3, head="a" * 64)
    record = Record.after(
        None, stream="golden", at="2026-01-01T00:00:00Z", actor="agent:golden/Lyon", kind="report-accepted",
        payload=ReportAccepted(report=report).to_json(), salt="0123456789abcdef" * 2,
    )  # fmt: skip
    over = trial.close(step)
    certificate = issue_certificate(over, data=[step.decision.data], sequence=4, head="b" * 64, version="0.1.0")
    return {
        "study": trial.study,
        "plan": trial.plan,
        "report": report,
        "receipt": receipt,
        "decision": step.decision,
        "record": record,
        "certificate": certificate,
    }


KINDS = {
    "study": StudyMessage,
    "plan": Plan,
    "report": Report,
    "receipt": Receipt,
    "decision": Decision,
    "record": Record,
    "certificate": Certificate,
}


@pytest.mark.parametrize("kind", KINDS)
def test_golden_files_are_read_and_written_to_the_byte(kind):
    """A stored or sent format is read for ever. To add one: `make generated`."""
    text = (GOLDEN / f"{kind}.json").read_text(encoding="utf-8").strip()
    message = KINDS[kind].read(text)
    assert message.text == text
    assert message.digest == digest(json.loads(text))
    if kind != "certificate":  # holds floats of the policy, whose last digits are the machine's
        assert examples()[kind].text == text


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "{", "[1e]", ""])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(InvalidInput):
        read_json(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "parley/report/9"}, "schema"),
        ({"counts": "x"}, "counts"),
        ({"counts": [1.5, 2]}, r"counts\[0\]"),
        ({"counts": [True, 2]}, r"counts\[0\]"),
        ({"counts": [10**20, 2]}, "huge"),
        ({"sums": [None, 1.0]}, r"sums\[0\]"),
        ({"agent": 3}, "agent"),
        ({"agent": "a\x00b"}, "NUL"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_message_of_the_wrong_form_says_where(change, words):
    document = {**examples()["report"].to_json(), **change}
    with pytest.raises(InvalidInput, match=words):
        Report.from_json(document)


def test_a_missing_key_is_named():
    document = examples()["report"].to_json()
    del document["sums"]
    with pytest.raises(InvalidInput, match="sums"):
        Report.from_json(document)


@pytest.mark.parametrize(
    "weights",
    [
        {"kind": "personalized", "alpha": 0.3},
        {"kind": "similarity", "matrix": [[1, 0.9, 0.2], [0.9, 1, 0.4], [0.2, 0.4, 1]]},
        {"kind": "population", "shares": [0.1, 0.2, 0.7]},
    ],
)
def test_a_study_that_was_stored_is_the_same_problem_to_the_last_bit(weights):
    study = parse_study({"arms": 3, "agents": 3, "weights": weights})
    message = StudyMessage.read(StudyMessage.of(study).text)
    assert message.problem.weights.tobytes() == study.problem.weights.tobytes()
    assert StudyMessage.read(message.text).digest == message.digest


def test_a_minimum_cell_is_written_only_where_it_is_asked_for():
    plain = examples()["study"]
    assert "minimum_cell" not in plain.to_json()
    assert StudyMessage.from_json({**plain.to_json(), "minimum_cell": 1}).digest == plain.digest
    asked = StudyMessage.read(StudyMessage.from_json({**plain.to_json(), "minimum_cell": 5}).text)
    assert asked.settings["minimum_cell"] == asked.problem.minimum_cell == asked.to_json()["minimum_cell"] == 5
    assert asked.digest != plain.digest
    study = parse_study({"arms": 2, "agents": 2, "privacy": {"minimum_cell": 7}})
    assert StudyMessage.of(study).problem.minimum_cell == 7


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "5", None, 10**7, 10**30])
def test_a_minimum_cell_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidInput, match=r"minimum_cell: found .*; allowed: "):
        StudyMessage.from_json({**examples()["study"].to_json(), "minimum_cell": wrong})


def golden_files():
    """What `make generated` writes where it is missing."""
    return {
        GOLDEN / f"{name}.json": lambda message=message: message.text + "\n" for name, message in examples().items()
    }
