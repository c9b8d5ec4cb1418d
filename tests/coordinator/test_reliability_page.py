"""The books behind docs/appendix/reliability.md: flaws are seen, counted and shown."""

import pytest
from msgspec import structs
from tests.coordinator.support import report_of, study_message
from tools.chaos import page
from tools.chaos.__main__ import PARTS
from tools.chaos.findings import FLAWS, examine
from tools.pages import read

from parley.coordinator.record import ledger

CLEAN = dict.fromkeys(FLAWS, 0)


@pytest.mark.simulations
def test_the_examination_sees_what_is_lost_forged_doubled_or_unfinished(sqlite_house, monkeypatch):
    message = study_message(agents=2, arms=3, policy="uniform")
    agents = sqlite_house.create(message)
    receipts = {}
    while (plan := agents[0].plan("trial", "agent 1")).due:
        for place, name in enumerate(message.agents):
            report = report_of(structs.replace(plan, agent=name), place)
            receipts["trial", plan.phase, name] = agents[place].send(report)
    storage = sqlite_house.storage
    assert examine(storage, ["trial"], receipts) == CLEAN

    first = receipts["trial", 1, "agent 1"]
    lost = receipts | {("trial", 1, "agent 3"): first}
    assert examine(storage, ["trial"], lost) == CLEAN | {"lost": 1}
    forged = receipts | {("trial", 1, "agent 1"): structs.replace(first, head="0" * 64)}
    assert examine(storage, ["trial"], forged) == CLEAN | {"broken_chains": 1, "lost": 1}
    fewer = {key: receipt for key, receipt in receipts.items() if key[1] != 1}
    assert examine(storage, ["trial"], fewer) == CLEAN | {"unacknowledged": 2}
    sqlite_house.create(message, "begun")
    assert examine(storage, ["trial", "begun"], receipts) == CLEAN | {"unfinished": 1}

    twice = [record for record in storage.read(lambda c: list(ledger.walk(c, "trial"))) for _ in range(2)]
    monkeypatch.setattr("tools.chaos.findings.walk", lambda *_: twice)
    doubled = examine(storage, ["trial"], receipts)
    assert doubled["duplicated"] == len(receipts)
    assert doubled["double_advances"] == len(receipts) / 2


def test_a_share_is_called_a_share_and_a_flaw_a_flaw(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "DOCS", tmp_path)
    (tmp_path / "appendix").mkdir()
    part = PARTS["kills-sqlite"]
    good = {"kills": 100, "between_commit_and_answer": 9, "studies": 4, "acknowledged": 50, **CLEAN}
    assert page.kept(part, good)
    assert not page.kept(part, good | {"lost": 1})
    assert not page.kept(part, {"failures": ["a study is stuck"]})
    assert not page.kept(part, good | {"kills": 1000}), "a full run with too few kills before the answer"
    page.save({"kills-sqlite": page.entry(good, command="the command", runs=1)}, PARTS)
    text = read(tmp_path / "appendix" / "reliability.md")
    assert "100 of 1,000 kills (10%)" in text
    assert "Not run yet: kills-postgres, restarts" in text
    page.save({"kills-sqlite": page.entry(good | {"lost": 1}, command="the command", runs=1)}, PARTS)
    assert "| **no** |" in read(tmp_path / "appendix" / "reliability.md")
    assert page.load()["kills-sqlite"]["found"]["lost"] == 1


def test_runs_add_up():
    before = {"kills": 3, "kills_by_place": {"begun": 1}, "failures": ["a"]}
    after = {"kills": 2, "kills_by_place": {"begun": 1, "after-commit": 1}, "lost": 0}
    assert page.added(before, after) == {
        "kills": 5,
        "kills_by_place": {"begun": 2, "after-commit": 1},
        "failures": ["a"],
        "lost": 0,
    }
