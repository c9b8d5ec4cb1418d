"""The hash of a record tells nobody what is in it: with everything that a role can see, no guess can be tested."""

import contextlib
import itertools
import re

import pytest
from tests.coordinator.support import House, study_message
from tests.dashboard.site import OF_A_STUDY

from parley.coordinator.record import initialise, open_storage
from parley.coordinator.record.audit import verify_stored
from parley.errors import Unreachable
from parley.protocol import Record, Report, events, kind_of
from parley.protocol.events import ReportAccepted

pytestmark = pytest.mark.servers

HASH = re.compile(r"[0-9a-f]{64}")
BOUNDED = {"kind": "bounded", "low": 0.0, "high": 1.0}
AT = "2026-01-01T00:00:12.345Z"
BLIND = ("viewer", "other agent")


def message():
    return study_message(agents=2, arms=2, policy="uniform", noise=BOUNDED, delta=0.4)


def binary(plan, ones):
    """The report of 0/1 rewards with so many ones of each arm."""
    sums = tuple(float(count) for count in ones)
    return Report(study=plan.study, phase=plan.phase, agent=plan.agent, plan=plan.plan, counts=plan.draws, sums=sums,
                  squares=sums)  # fmt: skip


def everything(house, token):
    """All that a token gets from the API and the pages, as one text; versions, which say nothing, made alike."""
    client, told = house.client(token, connected=True), []
    session = None
    with contextlib.suppress(Exception):
        session = client.request("POST", "sessions")["session"]
    paths = [path for path, item in house.app.state.openapi()["paths"].items() if "get" in item]
    pages = [f"/studies/trial{page}" for page in OF_A_STUDY] if session else []
    for path in [*paths, *pages, "/studies"]:
        for agent in ("agent 1", "agent 2") if "{agent}" in path else ("",):
            address = path.format(study="trial", phase=1, agent=agent, arm="arm 1", kid="0")
            options = {"headers": {"Cookie": f"parley-session={session}"}} if path in pages else {}
            with client._http.stream("GET", address, timeout=30, **options) as response:
                body = next(response.iter_lines(), "") if "events" in path else response.read().decode()
            known = "/sign-in" not in response.headers.get("location", "")
            assert path not in pages or (response.status_code in (200, 303, 403, 404) and known), (path, response)
            told.append(f"{address} {agent} {response.status_code} {body if path != '/metrics' else ''}")
    whole = "\n".join(told)
    whole = re.sub(r'(version=?"?:?\s*"|id: )[0-9a-f]{16}', r"\1", whole)
    return re.sub(r'"kid":\s*"[^"]+"|\d+ \w+ ago', "", whole)


def prepared(storage):
    """A study in its first phase; its first agent, and clients' tokens by role."""
    house = House(storage, clock=lambda: AT)
    agents = house.create(message())
    house.issue("viewer", name="v")
    viewer = house.tokens[None, None]
    house.issue("analyst", name="x")
    return (
        house,
        agents[0],
        {
            "viewer": viewer,
            "other agent": house.tokens["trial", "agent 2"],
            "analyst": house.tokens[None, None],
            "itself": house.tokens["trial", "agent 1"],
        },
    )


@pytest.fixture
def seen(request, tmp_path):
    """role -> what it sees of two studies that differ in one report, on either database.

    Of the first also what it saw earlier, before there was a report, and the first plan, which follows from the study.
    """
    found = {}
    for number, ones in enumerate(((1, 0), (0, 1))):
        if request.param == "sqlite":
            address = str(tmp_path / f"{number}.db")
            initialise(address)
        else:
            server = request.getfixturevalue("postgres")
            server.psql(f"CREATE DATABASE commitments{number} TEMPLATE parley_template")
            address = server.get_uri().replace("/postgres?", f"/commitments{number}?")
        storage = open_storage(address)
        house, agent, tokens = prepared(storage)
        plan = agent.plan("trial", "agent 1")
        if number == 0:
            found["plan"] = plan
            found["earlier"] = {role: everything(house, tokens[role]) for role in BLIND}
        agent.send(binary(plan, ones))
        for role, token in tokens.items():
            found.setdefault(role, []).append(everything(house, token))
        house.close()
        storage.close()
        if request.param != "sqlite":
            server.psql(f"DROP DATABASE commitments{number} WITH (FORCE)")
    return found


@pytest.mark.parametrize("seen", ["sqlite", "postgres"], indirect=True)
def test_two_reports_look_the_same_to_whoever_may_not_see_them(seen):
    for role in BLIND:
        first, second = seen[role]
        assert "trial" in first
        for one, other in zip(first.splitlines(), second.splitlines(), strict=True):
            assert one == other, role
        assert AT not in first, "no exact time"
    for role in ("analyst", "itself"):
        assert seen[role][0] != seen[role][1], "the collector does see what there is to see"


@pytest.mark.parametrize("seen", ["sqlite"], indirect=True)
def test_no_guess_at_a_report_is_confirmed_by_a_hash(seen):
    """The attack of the trial: try possible reports against every hash that was ever shown, with the exact time."""
    plan = seen["plan"]
    for role in BLIND:
        hashes = set(HASH.findall(seen["earlier"][role] + seen[role][0])) | {"0" * 64}
        for ones in itertools.product(range(3), repeat=2):
            guess = binary(plan, ones)
            assert guess.digest not in hashes, f"a guess is confirmed to the {role}"
            event = ReportAccepted(report=guess)
            for previous in hashes:
                record = Record.linked(1, previous, stream="trial", at=AT, actor="agent:trial/agent 1",
                                       kind=kind_of(event), payload=event.to_json(), salt="0" * 32)  # fmt: skip
                assert record.hash not in hashes, f"a guess is confirmed to the {role}"


def test_with_its_salt_an_agent_computes_the_head_of_its_receipt_again(house):
    agents = house.create(message())
    plan = agents[0].plan("trial", "agent 1")
    receipt = agents[0].send(binary(plan, (1, 0)))
    mine = agents[0].request("GET", "studies", "trial", "phases", 1, "reports", "agent 1")
    log = house.admin.request("GET", "studies", "trial", "log")["records"]
    event = ReportAccepted(report=Report.from_json(mine["report"]))
    record = Record.linked(1, log[0]["hash"], stream="trial", at=mine["at"], actor="agent:trial/agent 1",
                           kind=kind_of(event), payload=event.to_json(), salt=mine["salt"])  # fmt: skip
    assert record.hash == receipt.head == log[1]["hash"]
    analyst = house.issue("analyst", name="x").request("GET", "studies", "trial", "phases", 1, "reports", "agent 1")
    assert analyst["salt"] is None


def test_salts_are_random(house):
    house.create(message())
    house.create(message(), "second")
    salts = [record["salt"] for study in ("trial", "second")
             for record in house.admin.request("GET", "studies", study, "log")["records"]]  # fmt: skip
    salts += [record["salt"] for record in house.admin.request("GET", "log")["records"]]
    assert len(set(salts)) == len(salts) > 4


def test_a_record_without_a_salt_is_not_written(storage, monkeypatch):
    house = House(storage)
    try:
        agents = house.create(message())
        with monkeypatch.context() as forged:
            forged.setattr(events, "new_salt", lambda: None)
            with pytest.raises(Unreachable):
                agents[0].send(report_of_binary(agents[0], "agent 1"))
        assert agents[0].send(report_of_binary(agents[0], "agent 1")).sequence == 2
        assert verify_stored(storage, "trial", []).sound
    finally:
        house.close()


def report_of_binary(client, agent):
    plan = client.plan("trial", agent)
    return binary(plan, [count // 2 for count in plan.draws])
