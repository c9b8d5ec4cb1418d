"""What people read comes from the tables: whatever is changed in them by hand, in any phase, `verify` names."""

import shutil
import sqlite3
from hashlib import sha256

import pytest
from msgspec.structs import replace
from tests.coordinator.support import House, report_of, study_message
from tests.support import first_quick

from parley.coordinator.record import initialise, open_for_reading, open_storage
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.backup import backup
from parley.errors import Conflict, StorageUnavailable


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A study in its third phase, with a report in quarantine that then amended the first, and a frozen agent."""
    folder = tmp_path_factory.mktemp("audit")
    address = str(folder / "parley.db")
    initialise(address)
    storage = open_storage(address)
    house = House(storage)
    # Agents 1 and 2 go on without agent 3.
    weights = ((0.75, 0.25, 0.25), (0.25, 0.75, 0.25), (0.0, 0.0, 0.5))
    message = study_message(policy="uniform", weights=weights)
    agents = house.create(message)

    def answer(*places):
        for place in places:
            agents[place].send(report_of(agents[place].plan("trial", message.agents[place]), place))

    first = report_of(agents[0].plan("trial", "agent 1"), 0)
    answer(0)
    other = replace(first, squares=tuple(value + 1 for value in first.squares))
    with pytest.raises(Conflict):
        agents[0].send(other)
    amendment = {"reason": "typing error", "report": other.to_json()}
    house.admin.request("POST", "studies", "trial", "phases", 1, "reports", "agent 1", "amend", json=amendment)
    answer(1, 2)
    shown = house.admin.request("GET", "studies", "trial", "agents", "agent 3", "freeze")
    frozen = {"reason": "site closed", "preview": shown["digest"]}
    house.admin.request("POST", "studies", "trial", "agents", "agent 3", "freeze", json=frozen)
    answer(0, 1)
    answer(0)
    house.admin.request("POST", "studies", "trial", "pause", json={"reason": "holiday"})
    assert house.admin.status("trial")["phase"] == 3
    backup(address, folder / "kept.db")
    house.close()
    storage.close()
    return folder / "kept.db"


def verified(path):
    storage = open_for_reading(str(path))
    try:
        return verify_stored(storage, "trial")
    finally:
        storage.close()


def test_untouched_it_is_sound(kept):
    found = verified(kept)
    assert found.sound, found.problem
    assert found.exact


CHANGES = {
    "studies.samples": "UPDATE studies SET samples = samples + 1",
    "studies.name": "UPDATE studies SET name = 'another'",
    "studies.policy": "UPDATE studies SET policy = 'wcpe'",
    "studies.reason": "UPDATE studies SET reason = 'no reason'",
    "studies.opened_at": "UPDATE studies SET opened_at = created_at",
    "documents (kind study): body": "UPDATE documents SET body = replace(body, 'arm 1', 'arm 9')",
    "documents (kind certificate): not in the log": "INSERT INTO documents VALUES ('trial', 'certificate', '{}')",
    "states (phase 0): missing": "DELETE FROM states WHERE phase = 0",
    "states (phase 1): state": "UPDATE states SET state = state || ' ' WHERE phase = 1",
    "phases (phase 1): plan": "UPDATE phases SET plan = replace(plan, '1', '2') WHERE phase = 1",
    "phases (phase 2): plan_digest": "UPDATE phases SET plan_digest = 'x' WHERE phase = 2",
    "phases (phase 1): decision": "UPDATE phases SET decision = replace(decision, 'false', 'true') WHERE phase = 1",
    "phases (phase 3): decision": "UPDATE phases SET decision = '{}' WHERE phase = 3",
    "phases (phase 2): closed_at": "UPDATE phases SET closed_at = opened_at || 'x' WHERE phase = 2",
    "assignments (phase 1, agent agent 2): draws": "UPDATE assignments SET draws = '[1,1,1,1]' WHERE phase = 1",
    "assignments (phase 2, agent agent 1): missing": "DELETE FROM assignments WHERE phase = 2",
    "assignments (phase 3, agent agent 3): not in": "INSERT INTO assignments VALUES ('trial', 3, 'agent 3', '[1]')",
    "reports (phase 1, agent agent 1, revision 0): body": "UPDATE reports SET body = body || ' ' WHERE revision = 0",
    "reports (phase 1, agent agent 1, revision 1): body": "UPDATE reports SET body = '{}' WHERE revision = 1",
    "reports (phase 2, agent agent 2, revision 0): digest": "UPDATE reports SET digest = 'x' WHERE phase = 2",
    "reports (phase 1, agent agent 3, revision 0): sequence": "UPDATE reports SET sequence = 9 WHERE phase = 1",
    "reports (phase 2, agent agent 1, revision 0): head": "UPDATE reports SET head = 'x' WHERE phase = 2",
    "reports (phase 3, agent agent 1, revision 0): at": "UPDATE reports SET at = 'x' WHERE phase = 3",
    "reports (phase 1, agent agent 1, revision 1): missing": "DELETE FROM reports WHERE revision = 1",
    "quarantine (phase 1": "UPDATE quarantine SET stands = 'x'",
    "): body": "UPDATE quarantine SET body = '{}'",
    "): missing": "DELETE FROM quarantine",
    "frozen (agent agent 3): reason": "UPDATE frozen SET reason = 'x'",
    "frozen (agent agent 3): phase": "UPDATE frozen SET phase = 1",
    "frozen (agent agent 3): missing": "DELETE FROM frozen",
}


@pytest.mark.parametrize(("named", "statement"), first_quick(*CHANGES.items(), quick=12), ids=list(CHANGES))
def test_every_change_by_hand_is_named(kept, tmp_path, named, statement):
    path = shutil.copy(kept, tmp_path / "changed.db")
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()
    found = verified(path)
    assert not found.sound
    assert "the log is sound, but the database says otherwise" in found.problem
    assert named in found.problem


def test_a_state_that_is_only_its_digest_is_named(kept, tmp_path):
    path = shutil.copy(kept, tmp_path / "changed.db")
    connection = sqlite3.connect(path)
    (text,) = connection.execute("SELECT state FROM states WHERE phase = 2").fetchone()
    with connection:
        connection.execute("UPDATE states SET state = ? WHERE phase = 2", (sha256(text.encode()).hexdigest(),))
    connection.close()
    assert "states (phase 2): state" in verified(path).problem


def test_a_stage_that_does_not_exist_is_named_too(kept, tmp_path):
    path = shutil.copy(kept, tmp_path / "changed.db")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE studies SET stage = 'done'")
    connection.close()
    with pytest.raises(StorageUnavailable, match="stage 'done': damaged data"):
        verified(path)
