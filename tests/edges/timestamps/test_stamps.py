"""Time stamps by a real authority (`openssl ts`): a log that is cut after its last receipt is noticed."""

import base64
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.coordinator.support import House, eventually, report_of, study_message
from tests.edges.timestamps.authority import Authority
from tests.served import endless_answers

from parley.cli.main import main
from parley.coordinator.record import ledger, open_storage
from parley.coordinator.record.backup import backup
from parley.edges.timestamps import service
from parley.errors import BrokenChain, Conflict, InvalidInput, NotAllowed, NotThere, ParleyError
from parley.protocol import Stamp

SCRIPT = Path(__file__).parents[3] / "examples" / "recompute_chain.py"


def run(*words):
    done = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    with Authority(tmp_path_factory.mktemp("authority") / "tsa") as made:
        yield made


def house_in(folder, prepared, **settings):
    (folder / "parley.db").write_bytes(prepared.read_bytes())
    return House(open_storage(str(folder / "parley.db")), **settings)


@pytest.fixture(scope="module")
def stamped(prepared_sqlite, tmp_path_factory, authority):
    """A study that was paused after its last report, then stamped; its house, and its log with the stamp."""
    folder = tmp_path_factory.mktemp("stamped")
    house = house_in(folder, prepared_sqlite)
    agents = house.create(study_message(agents=2, arms=2, policy="uniform"))
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    list(house.admin.export("trial"))  # a read of results, once a phase: the log has it before it is stamped
    house.admin.request("POST", "studies", "trial", "pause", json={"reason": "a harm is looked into"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARLEY_TOKEN", house.token)
        house.said = run("admin", "timestamp", "trial", "--server", house.url, "--authority", authority.url)
        house.file = folder / "kept.json"
        run("admin", "timestamp", "trial", "--server", house.url, "--authority", authority.url, "--output", house.file)
    house.lines = list(house.admin.export("trial"))
    house.log = folder / "trial.ndjson"
    house.log.write_text("\n".join(house.lines))
    yield house
    house.close()
    house.storage.close()


def test_a_stamp_is_kept_beside_the_log_and_checked(stamped, authority, tmp_path):
    assert stamped.said.startswith("127.0.0.1 stamped record 4 of trial at 2")
    *records, last = map(json.loads, stamped.lines)
    assert (last["schema"], last["head"]) == ("parley/stamp/1", records[-1]["hash"])
    said = run("verify", stamped.log, "--stamp-ca", authority.certificates)
    assert "1 time stamp checked, the last of 2" in said
    assert "No record came after the last one." in said
    assert "was not checked: give the authority's certificates, --stamp-ca FILE" in run("verify", stamped.log)
    whole = run("verify", stamped.log, "--stamp", stamped.file, "--stamp-ca", authority.certificates, "--json")
    assert [len(json.loads(whole)[key]) for key in ("stamps", "stamped_at")] == [2, 2]
    (tmp_path / "answer.tsr").write_bytes(base64.b64decode(last["response"]))  # as the docs say, without our code
    authority.openssl("ts", "-verify", "-in", tmp_path / "answer.tsr", "-digest", last["head"],
                      "-CAfile", authority.certificates)  # fmt: skip


def test_the_chain_of_a_log_with_stamps_is_recomputed_without_our_code(stamped):
    done = subprocess.run([sys.executable, SCRIPT, stamped.log], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("4 records and 0 receipts fit")


def test_a_log_that_was_cut_after_its_last_receipt_is_noticed(stamped, authority, tmp_path):
    """The pause is the last record, and no agent has a receipt for it: the stamp alone shows that it is gone."""
    *records, stamp = stamped.lines
    cut, alone = tmp_path / "cut.ndjson", tmp_path / "alone.ndjson"
    cut.write_text("\n".join([*records[:-1], stamp]))
    alone.write_text("\n".join(records[:-1]))
    ends = "a time stamp of 127.0.0.1 names record 4 with the hash .*, but the log ends before it"
    for words in ([cut], [alone, "--stamp", stamped.file], [alone, "--stamp", stamped.log]):
        with pytest.raises(BrokenChain, match=ends):
            run("verify", *words, "--stamp-ca", authority.certificates)
        with pytest.raises(BrokenChain, match=ends):
            run("verify", *words)
    assert "Sound." in run("verify", alone), "a chain alone cannot show it"


def test_a_log_that_goes_on_otherwise_is_noticed(stamped, prepared_sqlite, tmp_path):
    """Cut, and continued: by a restore of an old backup, after which others do other things."""
    house = house_in(tmp_path, prepared_sqlite)
    house.create(study_message(agents=2, arms=2, policy="uniform"))
    for act in ("pause", "resume", "pause"):
        house.admin.request("POST", "studies", "trial", act, json={"reason": "a restore"})
    try:
        with pytest.raises(BrokenChain, match=r"names record 4 .*, but the log has another record there"):
            run("verify", "trial", "--db", house.storage.path, "--stamp", stamped.file)
    finally:
        house.close()
        house.storage.close()


def test_a_stamp_that_does_not_hold_is_noticed(stamped, authority, tmp_path):
    with (
        Authority(tmp_path / "other") as other,
        pytest.raises(BrokenChain, match="the time stamp of record 4 does not"),
    ):
        run("verify", stamped.log, "--stamp-ca", other.certificates)
    forged, first = Stamp.read(stamped.lines[-1]), json.loads(stamped.lines[0])
    moved = tmp_path / "moved.json"
    moved.write_text(replace(forged, sequence=1, head=first["hash"]).text)
    with pytest.raises(BrokenChain, match="the time stamp of record 1 does not hold"):
        run("verify", stamped.log, "--stamp", moved, "--stamp-ca", authority.certificates)
    moved.write_text(replace(forged, study="another").text)
    with pytest.raises(InvalidInput, match="no time stamp of the study 'trial'"):
        run("verify", stamped.log, "--stamp", moved)
    with pytest.raises(InvalidInput, match=r"--stamp: found .*: line 1 is not a record"):
        run("verify", stamped.log, "--stamp", authority.certificates)
    with pytest.raises(InvalidInput, match="certificates: found none"):
        run("verify", stamped.log, "--stamp-ca", moved)


def test_what_is_handed_in_is_a_stamp_of_a_record_of_the_log(stamped):
    stamp, first = Stamp.read(stamped.lines[-1]), json.loads(stamped.lines[0])

    def hand_in(client=stamped.admin, **changes):
        client.request("POST", "studies", "trial", "stamps", json=replace(stamp, **changes).to_json())

    def added():
        log = stamped.admin.request("GET", "log", params={"newest_first": True})["records"]
        return [one["payload"]["sequence"] for one in log if one["kind"] == "stamp-added"]

    before = added()  # other tests of this server may have handed in theirs
    for error, changes in [
        (Conflict, {}),
        (NotThere, {"sequence": 2}),
        (ParleyError, {"sequence": 1, "head": first["hash"]}),
        (ParleyError, {"response": "AAAA"}),
        (ParleyError, {"study": "other"}),
    ]:
        with pytest.raises(error):
            hand_in(**changes)
    with pytest.raises(NotAllowed):
        hand_in(stamped.issue("auditor", name="eve"))
    assert added() == before
    assert set(before) == {4}


def test_stamps_of_other_authorities_stand_beside_and_count_for_nothing(stamped, authority, tmp_path, monkeypatch):
    """An administrator may hand in a stamp of any authority: all are kept, and those that are asked for decide."""
    monkeypatch.setenv("PARLEY_TOKEN", stamped.token)
    log = tmp_path / "log.ndjson"
    with Authority(tmp_path / "other") as other:
        run("admin", "timestamp", "trial", "--server", stamped.url, "--authority", other.url)
        log.write_text("\n".join(stamped.admin.export("trial")))
        for one in (authority, other):
            said = run("verify", log, "--stamp-ca", one.certificates)
            assert "1 time stamp of other authorities left out" in said
            assert "1 time stamp checked" in said
        found = json.loads(run("verify", log, "--stamp-ca", other.certificates, "--json"))
        assert [len(found[key]) for key in ("stamps", "stamped_at", "doubted")] == [1, 1, 1]
        # Beside the log it proves nothing, also not against the log; handed over as evidence it has to hold.
        forged = replace(Stamp.from_json(found["stamps"][0]), sequence=1)
        log.write_text("\n".join([*stamped.lines, forged.text]))
        assert "Sound." in run("verify", log, "--stamp-ca", authority.certificates)
        with pytest.raises(BrokenChain, match="has another record there"):
            run("verify", log)


def test_backups_have_the_stamps(stamped, authority, tmp_path):
    backup(str(stamped.storage.path), tmp_path / "backup.db")
    run("admin", "restore", tmp_path / "backup.db", "--db", tmp_path / "restored.db")
    words = ("--db", tmp_path / "restored.db", "--stamp-ca", authority.certificates)
    assert "1 time stamp checked" in run("verify", "trial", *words)


def test_a_stamp_that_was_handed_in_does_not_displace_that_of_the_operators_authority(
    prepared_sqlite, authority, tmp_path, monkeypatch
):
    monkeypatch.setattr(service, "PAUSE", 0.01)
    monkeypatch.setenv("PARLEY_TOKEN", "")
    authority.down = True
    house = house_in(tmp_path, prepared_sqlite, timestamp_authority=authority.url)
    try:
        (agent,) = house.create(study_message(agents=1, arms=2, policy="uniform", max_rounds=1))
        agent.send(report_of(agent.plan("trial", "agent 1"), 0))
        end = eventually(lambda: house.admin.status("trial")["stage"] == "finished" and house.admin.status("trial"))
        monkeypatch.setenv("PARLEY_TOKEN", house.token)
        with Authority(tmp_path / "other") as other:  # it says of itself what it likes: both are at 127.0.0.1
            run("admin", "timestamp", "trial", "--server", house.url, "--authority", other.url)
        authority.down = False

        def kept():
            texts = house.storage.read(lambda transaction: ledger.stamp_texts(transaction, "trial"))
            return [one for one in map(Stamp.read, texts) if one.sequence == end["sequence"]]

        assert len(eventually(lambda: kept() if len(kept()) > 1 else None)) == 2, "the operator's stands beside it"
        run("verify", "trial", "--db", house.storage.path, "--stamp-ca", authority.certificates)
    finally:
        authority.down = False
        house.close()
        house.storage.close()


@pytest.mark.servers
def test_logs_are_stamped_after_each_decided_phase_and_a_dead_authority_harms_nothing(storage, authority, monkeypatch):
    monkeypatch.setattr(service, "PAUSE", 0.01)
    authority.down, before = True, authority.asked
    house = House(storage, timestamp_authority=authority.url)
    try:
        message = study_message(agents=1, arms=2, policy="uniform", max_rounds=2)
        (agent,) = house.create(message)
        agent.send(report_of(agent.plan("trial", "agent 1"), 0))
        assert agent.send(report_of(eventually(lambda: due(agent)), 0)).phase == 2
        failed = house.app.state.context.service(service.Stamper)._attempts.labels("failed")
        assert eventually(lambda: failed.collect()[0].samples[0].value)
        authority.down = False
        end = eventually(lambda: house.admin.status("trial")["stage"] == "finished" and house.admin.status("trial"))
        kept = eventually(
            lambda: [
                one
                for one in map(
                    Stamp.read, house.storage.read(lambda transaction: ledger.stamp_texts(transaction, "trial"))
                )
                if one.sequence == end["sequence"]
            ]
        )
        assert kept[0].head == end["head"]
        asked = authority.asked
        time.sleep(0.1)
        assert before < asked == authority.asked, "nothing was decided since: nobody is asked"
        monkeypatch.setattr(service, "PAUSE", 60)  # nothing is read any more when the database is closed
        time.sleep(0.1)
    finally:
        authority.down = False
        house.close()


def due(agent):
    plan = agent.plan("trial", "agent 1")
    return plan if plan.due else None


def test_an_authority_that_is_none_is_told(stamped, tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_TOKEN", stamped.token)
    words = ("admin", "timestamp", "trial", "--server", stamped.url, "--output", tmp_path / "x", "--authority")
    for address, said in [
        ("ftp://example.org", "authority: found 'ftp://example.org'"),
        ("http://127.0.0.1:1/", "found no answer from 127.0.0.1"),
        (stamped.url, "found 40[45] and"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            run(*words, address)
    assert not Path(tmp_path / "x").exists()


def test_an_answer_that_does_not_end_is_not_read_to_the_end(stamped, tmp_path, monkeypatch):
    """Most authorities are asked by plain HTTP: anybody on the way may answer."""
    monkeypatch.setenv("PARLEY_TOKEN", stamped.token)
    words = ("admin", "timestamp", "trial", "--server", stamped.url, "--output", tmp_path / "x", "--authority")
    with endless_answers() as (address, cut):
        with pytest.raises(InvalidInput, match=r"found 200 and \d+ bytes or more from 127.0.0.1"):
            run(*words, address)
        assert eventually(lambda: cut)
