"""Promise 7: tampering shows."""

import shutil
import sqlite3

import pytest
from msgspec.structs import replace
from sqlalchemy import create_engine, text
from tests.coordinator.support import House, report_of, study_message
from tests.support import first_quick

from parley.agent.client import Client
from parley.coordinator.record import open_for_reading, open_storage, parse_url
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.backup import backup
from parley.errors import Conflict, Unreachable
from parley.protocol import Receipt, read_log, verify_log
from parley.testing.forgeries import receipts_of, rewritten, tampered


@pytest.fixture(scope="module")
def ended(prepared_sqlite, tmp_path_factory):
    """A database with a finished study, its log and an administrator's token: made once, only copies are changed."""
    path = shutil.copy(prepared_sqlite, tmp_path_factory.mktemp("ended") / "parley.db")
    storage = open_storage(str(path))
    house, message = House(storage), study_message(policy="uniform")
    house.run(message, house.create(message))
    log = list(house.admin.export("trial"))
    house.close()
    storage.close()
    return path, log, house.token


@pytest.fixture
def finished(ended):
    """A finished study's log, and a receipt of its last phase."""
    return list(read_log(ended[1]))


@pytest.fixture
def ended_house(ended, tmp_path):
    """A running coordinator over a copy."""
    storage = open_storage(str(shutil.copy(ended[0], tmp_path / "parley.db")))
    house = House(storage, admin=ended[2])
    yield house
    house.close()
    storage.close()


def test_the_log_as_it_is_is_sound_and_so_are_the_tables_of_a_copy(finished, ended_house):
    assert verify_log(finished, receipts_of(finished)).sound
    assert verify_stored(ended_house.storage, "trial", receipts_of(finished)).sound


@pytest.mark.simulations
def test_any_record_changed_deleted_or_moved_is_found(finished):
    """The forgeries are those of `parley qualify`; without receipts all show but a log that is cut or rewritten."""
    tried = 0
    for what, forged in tampered(finished):
        if not what.startswith(("cut", "rewritten")):
            assert not verify_log(forged).sound, what
            tried += 1
    assert tried == 7 * len(finished) - 2


def test_a_cut_log_is_found_by_the_receipts_that_agents_hold(finished):
    held = receipts_of(finished)
    cut = [forged for what, forged in tampered(finished) if what.startswith("cut")]
    assert len(cut) == max(receipt.sequence for receipt in held) - 1
    for forged in cut:
        found = verify_log(forged, held)
        assert not found.sound, f"cut after {len(forged)}"
    assert "ends before it" in found.problem


def test_a_log_rewritten_from_some_record_on_is_found(finished):
    """A consistent chain with other content, as an operator could write it: the receipts do not fit."""
    assert not verify_log(rewritten(finished), receipts_of(finished)).sound


@pytest.mark.simulations
def test_a_log_that_holds_another_report_than_the_agent_sent_is_found(sqlite_house):
    """The operator logs other numbers in the agent's name and tells it the true place and hash of that record."""
    message = study_message(policy="uniform")
    agents = sqlite_house.create(message)
    sent = report_of(agents[0].plan("trial", "agent 1"), 0)
    logged = agents[0].send(replace(sent, sums=tuple(total / 2 for total in sent.sums)))
    sqlite_house.run(message, agents)
    log = list(read_log(sqlite_house.admin.export("trial")))
    assert verify_log(log, [logged]).sound
    assert verify_log(log, [(logged.sequence, logged.head)]).sound, "the place alone cannot show it"

    told = Receipt.of(sent, sequence=logged.sequence, head=logged.head)
    for found in (verify_log(log, [told]), verify_stored(sqlite_house.storage, "trial", [told])):
        assert not found.sound, "a receipt for another report was taken as proof"
        assert "does not hold that report" in found.problem
    for change in ({"study": "other"}, {"phase": 2}, {"agent": "agent 2"}, {"sequence": 1, "head": log[0].hash}):
        assert not verify_log(log, [replace(logged, **change)]).sound, f"a receipt with another {', '.join(change)}"


def test_an_amended_report_leaves_both_receipts_good(sqlite_house):
    agents = sqlite_house.create(study_message(policy="uniform"))
    sent = report_of(agents[0].plan("trial", "agent 1"), 0)
    first = agents[0].send(sent)
    other = replace(sent, sums=tuple(total / 2 for total in sent.sums))
    address = ("studies", "trial", "phases", 1, "reports", "agent 1")
    sqlite_house.admin.request("POST", *address, "amend", json={"reason": "a slip", "report": other.to_json()})
    second = Receipt.from_json(sqlite_house.admin.request("GET", *address)["receipt"])
    assert second.proves(other)
    assert verify_stored(sqlite_house.storage, "trial", [first, second]).receipts == 2


@pytest.mark.parametrize(
    "statement",
    first_quick(
        "UPDATE studies SET head = 'x'",
        "UPDATE documents SET body = replace(body, 'arm 1', 'arm 9')",
        "UPDATE states SET state = replace(state, 'true', 'false')",
        "UPDATE reports SET body = replace(body, '.1', '.2')",
        "UPDATE studies SET samples = samples, phase = phase + 1",
        "UPDATE studies SET stage = 'running'",
        "UPDATE studies SET closed_early = NOT closed_early",
        quick=4,
    ),
)
def test_tables_that_do_not_say_what_the_log_says_are_found(ended_house, statement):
    address = ended_house.storage.url
    engine = create_engine(parse_url(address))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
    storage = open_for_reading(address)
    found = verify_stored(storage, "trial")
    storage.close()
    assert found is not None
    assert not found.sound


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("actor = 'nobody'", "record 2 was changed"),
        (
            'payload = \'{"schema":"x",\' || substr(payload, 2)',
            "record 2 is not stored as it was written",
        ),  # a key twice
    ],
)
def test_a_record_changed_in_the_file_behind_the_triggers_is_found(ended_house, change, problem):
    with sqlite3.connect(ended_house.storage.path) as connection:
        connection.execute("DROP TRIGGER log_no_update")
        connection.execute(f"UPDATE log SET {change} WHERE sequence = 2")
    connection.close()
    found = ended_house.admin.request("POST", "studies", "trial", "verify")
    assert not found["sound"]
    assert problem in found["problem"]


@pytest.mark.parametrize(
    "damage",
    first_quick("stage = 'asleep'", "name = x'00ff'", "phase = 'one'", "samples = NULL", "arms = 2.5", quick=2),
)
def test_one_damaged_row_does_not_hide_the_other_studies(sqlite_house, damage):
    for name in ("a", "damaged", "z"):
        sqlite_house.create(study_message(policy="uniform"), study_id=name)
    with sqlite3.connect(sqlite_house.storage.path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        schema = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'studies'").fetchone()[0]
        connection.execute("PRAGMA writable_schema = ON")
        loose = (schema.replace(" NOT NULL", ""),)
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'studies'", loose)
    connection.close()
    with sqlite3.connect(sqlite_house.storage.path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE studies SET {damage} WHERE id = 'damaged'")
    connection.close()
    admin = sqlite_house.admin
    found = admin.request("GET", "studies")
    assert ([line["id"] for line in found["studies"]], found["damaged"]) == (["a", "z"], ["damaged"])
    page = admin.request("GET", "studies", params={"limit": 2})
    assert (page["next"], page["damaged"]) == ("damaged", ["damaged"])
    assert [line["id"] for line in admin.request("GET", "studies", params={"after": page["next"]})["studies"]] == ["z"]
    assert admin.status("a")["stage"] == "running"
    with pytest.raises(Unreachable):
        admin.status("damaged")


def test_an_old_backup_is_noticed_by_the_first_agent_and_pauses_the_study(sqlite_house, tmp_path):
    message = study_message(policy="uniform")
    agents = sqlite_house.create(message)
    old = tmp_path / "old.db"
    first = agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    backup(sqlite_house.storage.url, old)
    second = agents[1].send(report_of(agents[1].plan("trial", "agent 2"), 1), receipt=None)
    third = agents[2].send(report_of(agents[2].plan("trial", "agent 3"), 2))
    plan = agents[1].plan("trial", "agent 2")
    assert plan.phase == 2

    storage = open_storage(str(old))
    restored = House(storage, admin=sqlite_house.token)
    agent = Client(restored.url, sqlite_house.tokens["trial", "agent 2"])
    report = report_of(agent.plan("trial", "agent 2"), 1)
    with pytest.raises(Conflict) as refused:
        agent.send(report, receipt=third)
    assert refused.value.problem["type"] == "urn:parley:problem:receipt-unknown"
    status = restored.admin.status("trial")
    assert status["stage"] == "paused"
    assert "old backup" in status["reason"]
    log = restored.admin.request("GET", "studies", "trial", "log", params={"kind": "disputed"})["records"]
    assert len(log) == 1
    with pytest.raises(Conflict):
        agent.send(report, receipt=second)
    assert len(restored.admin.request("GET", "studies", "trial", "log", params={"kind": "disputed"})["records"]) == 1
    restored.admin.request("POST", "studies", "trial", "resume", json={"reason": "we know"})
    assert agent.send(report, receipt=first).sequence > first.sequence, "the receipts that it has still hold"
    agent.close()
    restored.close()
    storage.close()
