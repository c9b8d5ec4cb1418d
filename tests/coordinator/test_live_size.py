"""How large a live study may be, and that a log of a larger one is refused before it is read."""

import json

import pytest

from parley.coordinator.problems import Refusal
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies.acts import prepare_study
from parley.errors import BrokenChain, InvalidInput
from parley.protocol import GENESIS, Record, StudyMessage, create, read_log, verify, verify_log
from parley.protocol.events import StudyCreated
from parley.protocol.messages import MOST_AGENTS, MOST_CELLS, require_live_size
from parley.study import parse_study

TOO_LARGE = {"many agents": (2, MOST_AGENTS + 1), "many cells": (MOST_CELLS // 300 + 1, 300)}


def message(arms, agents):
    return StudyMessage.of(parse_study({"arms": arms, "agents": agents, "weights": {"kind": "identity"}}))


@pytest.mark.parametrize(("arms", "agents"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_live_study_has_a_largest_size(arms, agents):
    with pytest.raises(InvalidInput, match=r"up to 2,000 agents and 100,000 cells.*Simulations have no such limit"):
        require_live_size(arms, agents)


def test_whoever_creates_a_larger_study_hears_why():
    with pytest.raises(Refusal, match=r"334 arms x 300 agents .100,200 cells.*up to 2,000 agents and 100,000 cells"):
        prepare_study("trial", message(334, 300))


def test_a_server_may_allow_less_and_not_more():
    assert ServerSettings(max_agents=10).max_agents == 10
    with pytest.raises(InvalidInput, match="at most 100,000"):
        ServerSettings(max_cells=MOST_CELLS + 1)


def test_a_log_of_a_larger_study_is_refused_before_anything_is_made_of_it(monkeypatch):
    small = create("trial", message(2, 2))
    payload = StudyCreated(study_id="trial", study=small.study, plan=small.plan).to_json()
    payload["study"]["agents"] = [f"agent {number}" for number in range(MOST_AGENTS + 1)]
    record = Record.linked(0, GENESIS, stream="trial", at="now", actor="x", kind="study-created", payload=payload)
    monkeypatch.setattr(verify, "read_event", lambda *_: pytest.fail("it was read"))
    found = verify_log([record])
    assert not found.sound
    assert "up to 2,000 agents" in found.problem


def test_a_record_beyond_the_limits_is_refused_before_it_is_read(monkeypatch):
    """Also one that has no end: whoever sends it is not read to the end."""
    monkeypatch.setattr(verify, "LARGEST_RECORD", 1_000)
    sent = []

    def endless():
        yield b'{"a": "'
        while len(sent) < 100:
            sent.append(b"y" * 500)
            yield sent[-1]

    monkeypatch.setattr(verify, "read_json", lambda *_: pytest.fail("it was read"))
    with pytest.raises(BrokenChain, match="line 1 is not a record: it is longer than"):
        list(read_log(verify.lines_of(endless())))
    assert len(sent) < 5


def test_lines_are_found_however_they_come():
    text = "".join(json.dumps({"line": number}) + "\n" for number in range(20)).encode() + b"last"
    for size in (1, 2, 7, 1000):
        parts = [text[start : start + size] for start in range(0, len(text), size)]
        assert list(verify.lines_of(parts)) == text.split(b"\n")
