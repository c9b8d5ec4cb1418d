"""The Python client against a real coordinator: ten lines, sync and async, typed errors."""

import shutil
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec.structs import replace
from tests.coordinator.support import House, report_of, study_message
from tests.served import Served

import parley.agent
from parley.agent import Client
from parley.agent.client import read_token
from parley.coordinator.record import open_storage
from parley.coordinator.studies import phases
from parley.errors import Conflict, InvalidInput, NotAllowed, NotThere, Unreachable, WrongReceipt
from parley.protocol import Receipt
from parley.totals import Totals


@pytest.fixture
def house(prepared_sqlite, tmp_path):
    storage = open_storage(str(shutil.copy(prepared_sqlite, tmp_path / "parley.db")))
    made = House(storage)
    yield made
    made.close()
    storage.close()


def test_ten_lines(house):
    message = study_message(agents=1, arms=2, policy="uniform")
    house.create(message)
    with Client(house.url, house.tokens["trial", "agent 1"]) as client:
        plan, receipt = client.plan("trial", "agent 1"), None
        while not plan.over:
            rewards = [[0.9 - 0.8 * arm] * count for arm, count in enumerate(plan.draws)]
            receipt = client.send(plan.report(Totals.of(rewards)), receipt=receipt)
            plan = client.plan("trial", "agent 1", after=plan.phase, wait=5)
    assert plan.stage == "finished"


def test_a_receipt_for_another_report_is_refused(house, monkeypatch):
    """The coordinator acknowledges other numbers than it was sent."""
    house.create(study_message(agents=2, arms=2))

    class Lying:
        @staticmethod
        def of(report, **where):
            return replace(Receipt.of(report, **where), report="0" * 64)

    monkeypatch.setattr(phases, "Receipt", Lying)
    with Client(house.url, house.tokens["trial", "agent 1"]) as client:
        report = report_of(client.plan("trial", "agent 1"), 0)
        with pytest.raises(WrongReceipt, match="did not acknowledge"):
            client.send(report)


def test_an_agent_reads_its_own_report_and_no_other(house):
    agents = house.create(study_message(agents=2, arms=2))
    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    assert agents[0].report("trial", 1, "agent 1") is None
    agents[0].send(report)
    assert agents[0].report("trial", 1, "agent 1") == report
    with pytest.raises(NotAllowed):
        agents[1].report("trial", 1, "agent 1")


def test_not_found_is_only_believed_from_a_coordinator():
    """A proxy that knows nothing says 404 too; that is not to say that there was no report."""
    with Served(SimpleHTTPRequestHandler) as proxy, Client(proxy.url, "token") as client, pytest.raises(Unreachable):
        client.report("trial", 1, "agent 1")


def test_errors_have_types(house):
    message = study_message(agents=2, arms=2)
    agents = house.create(message)
    with pytest.raises(NotThere, match="no study"):
        house.admin.status("none")
    with pytest.raises(NotAllowed):
        agents[0].request("POST", "studies", json={"study": {}})
    with pytest.raises(Conflict) as refused:
        house.create(message)
    assert refused.value.problem["type"].endswith("already-exists")
    assert not refused.value.retry
    with Client("http://127.0.0.1:9", "x") as nobody, pytest.raises(Unreachable) as silent:
        nobody.status("trial")
    assert silent.value.retry


def test_tokens_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_TOKEN", "from-environment")
    assert read_token() == "from-environment"
    (tmp_path / "token").write_text("from-file\n")
    assert read_token(tmp_path / "token") == "from-file"
    monkeypatch.delenv("PARLEY_TOKEN")
    for bad in (None, tmp_path / "none"):
        with pytest.raises(InvalidInput):
            read_token(bad)
    (tmp_path / "token").write_text("two words")
    with pytest.raises(InvalidInput):
        read_token(tmp_path / "token")


def test_no_command_takes_a_token_as_an_argument():
    import parley.cli

    for path in Path(parley.cli.__file__).parent.glob("*.py"):
        assert '"--token"' not in path.read_text(encoding="utf-8"), path.name


def test_an_address_without_a_scheme_is_refused():
    with pytest.raises(InvalidInput, match="https://"):
        Client("localhost:8642", "x")


def test_the_example_of_the_package_runs(house):
    house.create(study_message(agents=2, arms=2))
    example = parley.agent.__doc__.split("\n\n", 1)[1].rsplit("\n\n", 1)[0]
    example = dedent(example).replace("https://coordinator.example", house.url).replace("Lyon", "agent 1")
    known = {"token": house.tokens["trial", "agent 1"], "draw": lambda arm, count: [float(len(arm))] * count}
    exec(compile(example, "parley.agent", "exec"), known)
    assert known["receipt"].proves(known["plan"].report(Totals.of(known["rewards"])))
