"""Promise 13: the tests bite. Each mutant of the coordinator is caught by the check that stands for it."""

import pytest
from tests.coordinator.support import House, report_of, study_message

from parley.coordinator import guard
from parley.coordinator.storage import ledger, open_storage, sqlite, studies
from parley.errors import NotAllowed
from parley.protocol import chain, read_log, verify_log


def test_acknowledging_before_the_commit_is_caught(sqlite_house, monkeypatch):
    """The mutant answers when the work is done and commits later; a crash in between loses what was acknowledged."""

    def too_early(self, group):
        with self._writer.connect() as connection:
            transaction = connection.begin()
            for work, done in group:
                done.set_result(work(connection))
            transaction.rollback()  # the crash: nothing of it reaches the disk

    message = study_message(agents=2, arms=3)
    agents = sqlite_house.create(message)
    plan = agents[0].plan("trial", "agent 1")
    monkeypatch.setattr(sqlite.SqliteStorage, "_commit", too_early)
    receipt = agents[0].send(report_of(plan, 0))
    monkeypatch.undo()
    records = list(read_log(sqlite_house.admin.export("trial")))
    found = verify_log(records, [(receipt.sequence, receipt.head)])
    assert not found.sound, "the receipt is not in the log: this is what promise 2 checks after every kill"


def test_taking_no_lock_is_caught(postgres, monkeypatch):
    """Two servers without the row lock: reports are lost from the count, or the chain forks and one is refused."""
    from tests.coordinator.test_promise_05_one_advance import check

    postgres.psql("CREATE DATABASE mutant TEMPLATE parley_template")
    address = postgres.get_uri().replace("/postgres?", "/mutant?")
    storages = [open_storage(address), open_storage(address)]
    houses = [House(storages[0])]
    houses.append(House(storages[1], admin=houses[0].token))
    monkeypatch.setattr(studies, "lock", studies.get)
    message = study_message(agents=6, arms=3, policy="uniform")
    try:
        houses[0].create(message)

        def storm():
            import threading

            failures = []

            def send(house, place, name):
                client = house.client(houses[0].tokens["trial", name])
                try:
                    for _ in range(3):
                        plan = client.plan("trial", name)
                        if plan.due:
                            client.send(report_of(plan, place))
                except Exception as error:  # a forked chain: the primary key refused the second record
                    failures.append(error)

            threads = [
                threading.Thread(target=send, args=(house, place, name))
                for house in houses
                for place, name in enumerate(message.agents)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures, failures
            check(houses[0], "trial")

        with pytest.raises(AssertionError):
            storm()
    finally:
        for house in houses:
            house.close()
        for storage in storages:
            storage.close()
        postgres.psql("DROP DATABASE mutant WITH (FORCE)")


def test_leaving_a_digest_unchecked_is_caught(sqlite_house, monkeypatch):
    """Without the hash check a changed record passes: the tampering tests would fail."""
    from dataclasses import replace

    message = study_message(agents=2, arms=3)
    sqlite_house.create(message)
    records = list(read_log(sqlite_house.admin.export("trial")))
    forged = [replace(records[0], actor="somebody else")]
    assert not verify_log(forged).sound
    monkeypatch.setattr(chain.Record, "computed", property(lambda self: self.hash))
    assert verify_log(forged).sound, "the mutant lives without the check, so the check is what catches it"


def test_skipping_the_scope_of_a_token_is_caught(sqlite_house, monkeypatch):
    message = study_message(agents=2, arms=3)
    first = sqlite_house.create(message)[0]
    with pytest.raises(NotAllowed):
        first.plan("trial", "agent 2")
    monkeypatch.setattr(guard, "authorize", lambda *_: None)
    assert first.plan("trial", "agent 2").due, "the mutant lets it pass, so the matrix of promise 9 would fail"


def test_taking_a_report_without_looking_for_an_earlier_one_is_caught(sqlite_house, monkeypatch):
    from parley.coordinator.storage import reports

    message = study_message(agents=2, arms=3)
    agents = sqlite_house.create(message)
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    first = agents[0].send(report)
    monkeypatch.setattr(reports, "revisions", lambda *_: [])
    with pytest.raises(Exception, match="database does not answer"):
        assert agents[0].send(report) == first  # the primary key is the second line of defence
    monkeypatch.undo()
    assert agents[0].send(report) == first


def test_forgetting_the_receipts_is_caught(sqlite_house, monkeypatch):
    from parley.errors import Conflict
    from parley.protocol import Receipt

    message = study_message(agents=2, arms=3)
    agents = sqlite_house.create(message)
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    unknown = Receipt(study="trial", phase=1, agent="agent 1", report="0" * 64, sequence=99, head="0" * 64)
    monkeypatch.setattr(ledger, "has", lambda *_: True)
    assert agents[0].send(report, receipt=unknown)
    monkeypatch.undo()
    with pytest.raises(Conflict, match="does not contain the receipt"):
        agents[0].send(report, receipt=unknown)
