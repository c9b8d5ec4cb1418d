"""Being told: what webhooks send, to whom, in which order, and what keeps them from being sent elsewhere."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
import trustme
from msgspec.structs import replace
from tests.coordinator.support import House, eventually, far_off, report_of, server_process, study_message
from tests.coordinator.test_corrections import better, correct
from tests.dashboard.walks import Walk, message
from tests.edges.webhooks.receiver import Receiver

from parley.agent.client import Client
from parley.coordinator.access.tokens import prepare
from parley.coordinator.clock import later
from parley.coordinator.observability import Metrics
from parley.coordinator.problems import Refusal
from parley.coordinator.record import ledger, open_storage
from parley.coordinator.record.backup import backup
from parley.coordinator.settings import ServerSettings
from parley.edges.webhooks import notices
from parley.edges.webhooks import sender as sending
from parley.edges.webhooks import subscriptions as webhooks
from parley.edges.webhooks.hosts import AllowedHosts
from parley.edges.webhooks.messages import Telling
from parley.errors import InvalidInput, NotAllowed, ParleyError

ROOT = Path(__file__).parents[3]
LOOPBACK = {"webhook_allow": "127.0.0.1"}
EVERYTHING = [str(kind) for kind in Telling]


@pytest.fixture
def quick(monkeypatch):
    """Looks and retries that a test can wait for."""
    monkeypatch.setattr(sending, "MOMENT", 0.02)
    monkeypatch.setattr(webhooks, "RETRIES", (0.02,) * 9)


@pytest.fixture
def told(prepared_sqlite, tmp_path, quick):  # noqa: ARG001
    """A coordinator that may tell this machine, and a receiver of all that it has to say."""
    path = tmp_path / "parley.db"
    path.write_bytes(prepared_sqlite.read_bytes())
    storage = open_storage(str(path))
    with Receiver() as receiver:
        house = House(storage, public_url="https://parley.example.org/", **LOOPBACK)
        made = house.admin.request("POST", "webhooks", json={"url": receiver.url, "events": EVERYTHING})
        receiver.secret, receiver.webhook = made["secret"], made["id"]
        yield house, receiver
        house.close()
    storage.close()


def small_study():
    """Over after two phases."""
    return study_message(agents=2, arms=2, policy="evidence", max_rounds=2)


def sender_with(settings):
    """One that is not started."""
    return sending.Sender(SimpleNamespace(storage=None, session_clock=str, settings=settings, metrics=Metrics()))


def every_notice(house, study="trial", wanted=tuple(Telling)):
    """All that the log of a study has to tell."""

    def work(transaction):
        found, place = [], {"sequence": 0, "late": 0}
        while (notice := notices.next_notice(transaction, study, wanted, **place)) is not None:
            found.append(notice)
            place = {"sequence": notice.sequence, "late": notice.late}
        return found

    return house.storage.read(work)


def test_every_phase_and_the_end_are_told_once_and_in_order(told):
    house, receiver = told
    message = small_study()
    status = house.run(message, house.create(message))
    eventually(lambda: any(one["type"] == "study.ended" for one in receiver.taken))
    said = [(one["type"], one["said"]["data"]["phase"]) for one in receiver.taken]
    assert said == [
        *(("phase.decided", phase) for phase in range(1, status["phase"] + 1)),
        ("study.ended", said[-1][1]),
    ]
    assert len({one["id"] for one in receiver.taken}) == len(said)
    assert receiver.taken[-1]["said"]["data"] == {
        "study": "trial", "phase": status["phase"], "stage": "finished",
        "link": "https://parley.example.org/studies/trial",
    }  # fmt: skip
    assert not receiver.forged
    assert house.admin.request("GET", "webhooks")["webhooks"][0]["state"] == "live"


def test_what_is_refused_is_sent_again_with_the_same_id_and_what_comes_after_waits(told):
    house, receiver = told
    receiver.refusals = 2
    message = small_study()
    house.run(message, house.create(message))
    eventually(lambda: any(one["type"] == "study.ended" for one in receiver.taken))
    assert [one["id"] for one in receiver.refused] == [receiver.taken[0]["id"]] * 2
    assert receiver.taken[0]["said"]["data"]["phase"] == 1


def test_a_held_report_is_told_to_whoever_asked_for_it_and_to_nobody_else(told):
    house, receiver = told
    made = house.admin.request("POST", "webhooks", json={"url": receiver.url})
    assert made["events"] == ["arm.stopped", "phase.decided", "site.late", "study.ended"]
    message = small_study()
    agent, _ = house.create(message)
    with pytest.raises(ParleyError):
        agent.send(far_off(report_of(agent.plan("trial", "agent 1"), 0)))
    taken = eventually(lambda: list(receiver.taken))
    assert [(one["type"], one["said"]["data"]["agent"]) for one in taken] == [("report.held", "agent 1")]
    assert not receiver.forged, "the other webhook has another secret, and would be noticed"


@pytest.mark.simulations
def test_a_stopped_arm_is_told_and_a_proposed_stop_to_whoever_asked_but_no_clearing(sqlite_house):
    walk = Walk(sqlite_house, message("guarded", "trial"), seed=1)
    assert walk.run()
    records = sqlite_house.storage.read(lambda transaction: ledger.of_kind(transaction, walk.id, "guardrail-noted"))
    noted = [one.payload["verdict"] for one in records]
    assert "proposed" in noted
    found = every_notice(sqlite_house)
    assert [one.kind for one in found].count(Telling.STOPPED) == 1
    assert [one.kind for one in found].count(Telling.PROPOSED) == noted.count("proposed")
    for one in found:
        if one.kind in (Telling.STOPPED, Telling.PROPOSED):
            assert one.phase >= 1
            assert not {"high", "low", "bleeding"} & set(re.findall(r"\w+", one.body("https://x"))), "no arm is named"
    assert not Telling.STOPPED.hidden
    assert Telling.PROPOSED.hidden
    assert notices.READ.decode(b'{"verdict":"cleared"}').silent


def test_a_report_for_a_taken_place_is_not_held(sqlite_house):
    message = small_study()
    agent, _ = sqlite_house.create(message)
    report = report_of(agent.plan("trial", "agent 1"), 0)
    agent.send(report)
    with pytest.raises(ParleyError):
        agent.send(replace(report, sums=tuple(one + 0.5 for one in report.sums)))
    assert every_notice(sqlite_house) == []


def test_a_notice_says_no_more_than_a_viewer_may_know(sqlite_house):
    message = small_study()
    sqlite_house.run(message, sqlite_house.create(message))
    for notice in every_notice(sqlite_house):
        said = json.loads(notice.body(""))
        assert said.keys() == {"type", "timestamp", "data"}
        assert said["data"].keys() <= {"study", "phase", "agent", "stage", "link"}
        assert said["timestamp"].endswith(":00.000Z")
        assert notice.message_id("wh_1") != notice.message_id("wh_2")


@pytest.mark.servers
def test_only_what_happens_after_it_was_added_is_told(told):
    house, receiver = told
    message = small_study()
    house.run(message, house.create(message))
    eventually(lambda: any(one["type"] == "study.ended" for one in receiver.taken))
    before = len(receiver.taken)
    with Receiver() as other:
        other.secret = house.admin.request("POST", "webhooks", json={"url": other.url})["secret"]
        house.run(message, house.create(message, "second"), "second")
        eventually(lambda: any(one["type"] == "study.ended" for one in other.taken))
        assert {one["said"]["data"]["study"] for one in other.taken} == {"second"}
    assert len(receiver.taken) > before


def test_a_study_that_goes_on_after_it_stalled_ends_again(sqlite_house):
    """As told at the time, and the same when it is told again later."""
    house = sqlite_house
    message = study_message(agents=2, arms=2, policy="evidence", weights=((1.0, 0.0), (0.0, 1.0)))
    house.create(message)
    for agent in message.agents:
        shown = house.admin.request("GET", "studies", "trial", "agents", agent, "freeze")
        body = {"reason": "closed", "preview": shown["digest"]}
        house.admin.request("POST", "studies", "trial", "agents", agent, "freeze", json=body)
    ends = [one for one in every_notice(house) if one.kind is Telling.ENDED]
    assert [one.stage for one in ends] == ["stalled"]
    house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "enough"})
    again = [one for one in every_notice(house) if one.kind is Telling.ENDED]
    assert [one.stage for one in again] == ["stalled", "cancelled"]
    assert again[0].body("") == ends[0].body("")
    assert again[0].key == ends[0].key != again[1].key


def test_a_correction_after_the_end_is_no_second_end(sqlite_house):
    message = small_study()
    agents = sqlite_house.create(message)
    sqlite_house.run(message, agents)
    before = every_notice(sqlite_house)
    correct(sqlite_house, better(agents[1].report("trial", 1, "agent 2")))
    assert every_notice(sqlite_house) == before
    assert before[-1].stage == "finished"


# Addresses


def test_without_a_setting_nothing_is_allowed(sqlite_house):
    with pytest.raises(ParleyError, match="--webhook-allow"):
        sqlite_house.admin.request("POST", "webhooks", json={"url": "https://example.org/hook"})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://elsewhere.example/hook", "the host elsewhere.example"),
        ("https://example.org.evil.example/", "the host example.org.evil.example"),
        ("https://evil.example/example.org", "the host evil.example"),
        ("https://example.org@evil.example/", "another form"),
        ("https://example.org:secret@example.org/", "another form"),
        ("ftp://example.org/", "another form"),
        ("https:///hook", "another form"),
        ("https://example.org/#part", "another form"),
        ("https://example.org:port/", "cannot be read"),
        ("https://10.0.0.1/", "the host 10.0.0.1"),
        ("https://[::1]/", "the host ::1"),
        ("https://exämple.org/", "other characters"),
        ("https://example.org/a b", "other characters"),
        ("https://example.org\\@evil.example/", "other characters"),
        ("https://example.org/\r\nHost: x", "other characters"),
        ("https://example.org/" + "x" * 2000, "other characters"),
    ],
)
def test_an_address_that_the_operator_does_not_allow_is_refused(url, words):
    with pytest.raises(Refusal, match=words):
        webhooks.require_allowed(url, AllowedHosts.parse("example.org,127.0.0.0/8"))


PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "192.168.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "100.64.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "224.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "2002:a00:1::",
    "2001:0:a00:1::",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_reached_only_where_the_operator_says_so(address):
    found = ip_address(address)
    assert not AllowedHosts.parse("*.example.org,example.org").reaches(found)
    assert AllowedHosts.parse(address).reaches(found)
    assert AllowedHosts.parse("").reaches(ip_address("93.184.215.14"))


@pytest.mark.parametrize("allowed", ["https://example.org", "10.0.0.1/8", "exa mple.org", "*", "*.*.org", "-a.org"])
def test_a_typing_error_in_the_list_is_found_at_the_start(allowed):
    with pytest.raises(InvalidInput, match="webhook_allow"):
        ServerSettings.read(webhook_allow=allowed)


def checked(settings, url):
    sender = sender_with(ServerSettings.read(**settings))
    return asyncio.run(sender.check(url))


def test_a_name_that_leads_to_a_private_address_is_refused():
    with pytest.raises(Refusal, match=r"private address .*--webhook-allow"):
        checked({"webhook_allow": "localhost"}, "https://localhost/hook")
    checked({"webhook_allow": "localhost,127.0.0.0/8,::1"}, "https://localhost/hook")


def test_plain_http_goes_to_loopback_only():
    checked(LOOPBACK, "http://127.0.0.1:8000/hook")
    with pytest.raises(Refusal, match=r"http:// to 192\.0\.2\.1"):
        checked({"webhook_allow": "192.0.2.1"}, "http://192.0.2.1/hook")


@pytest.mark.parametrize(("name", "error"), [("localhost", ""), ("elsewhere.example", "certificate verify failed")])
def test_https_is_checked_by_the_name_though_the_connection_goes_to_the_number(tmp_path, monkeypatch, name, error):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    settings = ServerSettings.read(webhook_allow="localhost,127.0.0.0/8,::1")
    with Receiver(certificate=authority.issue_cert(name)) as receiver:
        receiver.secret = "whsec_" + "A" * 32
        row = SimpleNamespace(url=f"https://localhost:{receiver.port}/hook", secret=receiver.secret)
        sender = sender_with(settings)
        found = asyncio.run(sender._attempt(row, "msg_1", '{"type": "webhook.test"}')).error
    assert error in found
    assert bool(found) == bool(error)
    assert len(receiver.taken) == (not error)


def test_an_address_that_is_not_allowed_any_more_is_not_called(told):
    house, receiver = told
    house.app.state.context.service(sending.Sender)._allowed = AllowedHosts.parse("example.org")
    found = house.admin.request("POST", "webhooks", receiver.webhook, "test")
    assert not found["delivered"]
    assert "127.0.0.1" in found["error"]
    assert not receiver.taken


def test_a_redirect_is_a_failure_and_is_not_followed(told):
    house, receiver = told
    receiver.answer = 302
    found = house.admin.request("POST", "webhooks", receiver.webhook, "test")
    assert found == {"id": receiver.webhook, "delivered": False, "error": "302 Found"}
    assert len(receiver.taken) == 1, "asked once, and nobody else"


# Failing


@pytest.mark.servers
def test_a_webhook_that_fails_for_days_is_disabled_and_told_what_it_missed_when_a_test_arrives(told):
    house, receiver = told
    receiver.refusals = 10**6
    message = small_study()
    house.run(message, house.create(message))

    def line():
        return house.admin.request("GET", "webhooks")["webhooks"][0]

    eventually(lambda: line()["state"] == "disabled")
    found = line()
    assert (found["attempts"], found["error"]) == (10, "503 Service Unavailable")
    assert len(receiver.refused) == 10
    receiver.refusals = 0
    assert house.admin.request("POST", "webhooks", receiver.webhook, "test")["delivered"]
    eventually(lambda: any(one["type"] == "study.ended" for one in receiver.taken))
    assert [one["type"] for one in receiver.taken[:2]] == ["webhook.test", "phase.decided"]
    assert line()["state"] == "live"


@pytest.mark.servers
def test_whoever_says_gone_is_told_nothing_more(told):
    house, receiver = told
    receiver.answer = 410
    message = small_study()
    house.run(message, house.create(message))
    eventually(lambda: house.admin.request("GET", "webhooks")["webhooks"][0]["state"] == "disabled")
    assert len(receiver.taken) == 1


@pytest.mark.parametrize("answer", [410, 503])
def test_gone_is_a_status_and_not_an_error_that_begins_like_one(monkeypatch, answer):
    sender = sender_with(ServerSettings.read(**LOOPBACK))
    with Receiver(answer=answer) as receiver:
        receiver.secret = "whsec_" + "A" * 32
        row = SimpleNamespace(url=receiver.url, secret=receiver.secret)
        found = asyncio.run(sender._attempt(row, "msg_1", '{"type": "webhook.test"}'))
        assert (found.error[:3], found.gone) == (str(answer), answer == 410)

        async def failing(*_):
            raise OSError("410 is what a network may begin an error with")

        monkeypatch.setattr(sender, "_post", failing)
        assert not asyncio.run(sender._attempt(row, "msg_1", "{}")).gone


def add(storage, at="2026-01-01T00:00:00.000Z"):
    what = {"url": "https://example.org/", "events": [], "study": None}
    return storage.change(lambda transaction: webhooks.register(transaction, **what, by="test", at=at)[1])


def test_the_schedule_is_that_of_standard_webhooks(storage):
    row, now = add(storage), "2026-01-01T00:00:00.000Z"
    waits = []
    for _ in range(10):
        failed = {"webhook": row.id, "to": None, "error": "503", "gone": False, "at": now}
        over = storage.change(lambda transaction, failed=failed: webhooks.settle(transaction, **failed))
        row = storage.read(lambda transaction, row=row: webhooks.get(transaction, row.id))
        assert not webhooks.is_due(row, now)
        if not over:
            waits.append(row.due_at)
            assert webhooks.is_due(row, row.due_at)
            now = row.due_at
    assert row.disabled
    assert waits[0] == "2026-01-01T00:00:05.000Z"
    assert waits[-1] > "2026-01-04"
    assert row.failing_since == "2026-01-01T00:00:00.000Z"


def test_of_two_servers_one_sends(storage):
    row, now = add(storage), "2026-01-01T00:00:00.000Z"
    claims = [storage.change(lambda transaction: webhooks.claim(transaction, row, now)) for _ in range(2)]
    assert claims == [True, False]
    held = storage.read(lambda transaction: webhooks.get(transaction, row.id))
    assert not webhooks.is_due(held, now)
    assert webhooks.is_due(held, later(now, 1)), "whoever had it is gone: another may"


def test_a_time_that_a_wrong_clock_wrote_keeps_nobody_from_being_told(storage):
    row = add(storage)
    assert storage.change(lambda transaction: webhooks.claim(transaction, row, "2099-01-01T00:00:00.000Z"))
    held = storage.read(lambda transaction: webhooks.get(transaction, row.id))
    assert webhooks.is_due(held, "2026-01-01T00:00:00.000Z")


# Late


class Clock:
    def __init__(self):
        self.now = "2026-01-01T00:00:00.000Z"

    def __call__(self):
        return self.now

    def wait(self, hours):
        self.now = later(self.now, hours)


@pytest.fixture
def timed(prepared_sqlite, tmp_path):
    path = tmp_path / "parley.db"
    path.write_bytes(prepared_sqlite.read_bytes())
    storage, clock = open_storage(str(path)), Clock()
    house = House(storage, clock=clock)
    yield house, clock
    house.close()
    storage.close()


def late(house, clock):
    """Note who is late, and say who was found."""
    house.storage.change(lambda transaction: notices.note_late(transaction, "trial", clock()))
    return [one.agent for one in every_notice(house, wanted=[Telling.LATE])]


def test_an_agent_is_late_half_again_after_the_time_that_the_study_states(timed):
    house, clock = timed
    stated = {"rate": (1000.0, 1.0), "delay": (2.0, 0.0), "round_days": 1.0}
    message = study_message(agents=2, arms=2, policy="uniform", **stated)
    agents = house.create(message)
    draws = sum(agents[1].plan("trial", "agent 2").draws)
    first = 24 * (sum(agents[0].plan("trial", "agent 1").draws) / 1000 + 2 + 1)
    second = 24 * (draws / 1 + 1)
    assert first < second
    clock.wait(1.49 * first)
    assert late(house, clock) == []
    clock.wait(0.02 * first)
    assert late(house, clock) == ["agent 1"]
    assert late(house, clock) == ["agent 1"], "once a phase"
    clock.wait(1.5 * second)
    assert late(house, clock) == ["agent 1", "agent 2"]


def test_without_stated_rates_an_agents_own_past_says_when_it_is_late(timed):
    house, clock = timed
    message = small_study()
    agents = house.create(message)
    first = sum(agents[0].plan("trial", "agent 1").draws)
    clock.wait(1000)
    assert late(house, clock) == [], "of a first phase nothing is known"
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    clock.wait(1000)
    agents[1].send(report_of(agents[1].plan("trial", "agent 2"), 1))
    plans = [agent.plan("trial", name) for agent, name in zip(agents, message.agents, strict=True)]
    assert plans[0].phase == 2
    more = max(1, sum(plans[0].draws) / first)  # in proportion, where more is asked
    clock.wait(1.4 * 1000 * more)
    assert late(house, clock) == []
    clock.wait(0.2 * 1000 * more)
    assert late(house, clock) == ["agent 1"], "the other takes twice as long"


def test_who_reported_is_not_late_nor_is_anybody_after_a_pause(timed):
    """Whose report is held is: a viewer may not know that it is held, and would learn it from the silence."""
    house, clock = timed
    message = study_message(agents=3, arms=2, policy="uniform", rate=1000.0)
    agents = house.create(message)
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))
    with pytest.raises(ParleyError):
        agents[1].send(far_off(report_of(agents[1].plan("trial", "agent 2"), 1)))
    house.admin.request("POST", "studies", "trial", "pause", json={"reason": "holiday"})
    clock.wait(1000)
    assert late(house, clock) == []
    house.admin.request("POST", "studies", "trial", "resume", json={"reason": "back"})
    assert late(house, clock) == [], "there is time again"
    clock.wait(1000)
    assert late(house, clock) == ["agent 2", "agent 3"]


def test_nobody_is_late_in_the_first_minutes(timed):
    house, clock = timed
    message = study_message(agents=2, arms=2, policy="uniform", rate=1e9)
    house.create(message)
    clock.wait(0.2)
    assert late(house, clock) == []
    clock.wait(0.1)
    assert late(house, clock) == ["agent 1", "agent 2"]


# Who may, what is kept, what is measured


@pytest.mark.servers
def test_registering_and_removing_are_in_the_servers_log_without_secret_and_path(told):
    house, receiver = told
    house.admin.request("DELETE", "webhooks", receiver.webhook)
    records = house.admin.request("GET", "log")["records"]
    kinds = [one["kind"] for one in records if one["kind"].startswith("webhook")]
    assert kinds == ["webhook-added", "webhook-removed"]
    assert "whsec_" not in str(records)
    assert "to=me" not in str(records)
    assert house.admin.request("GET", "webhooks")["webhooks"] == []
    with pytest.raises(ParleyError, match="no webhook"):
        house.admin.request("POST", "webhooks", receiver.webhook, "test")


@pytest.mark.servers
def test_an_administrator_adds_webhooks_and_nobody_else(told):
    house, receiver = told
    with pytest.raises(NotAllowed):
        house.issue("auditor", name="a").request("POST", "webhooks", json={"url": receiver.url})


@pytest.mark.servers
def test_there_are_only_so_many(told):
    house, receiver = told
    for _ in range(webhooks.MOST - 1):
        house.admin.request("POST", "webhooks", json={"url": receiver.url, "events": ["study.ended"]})
    with pytest.raises(ParleyError, match="remove one"):
        house.admin.request("POST", "webhooks", json={"url": receiver.url})


def test_the_age_of_the_oldest_awaited_report_is_a_metric(timed):
    house, clock = timed

    def age():
        with httpx2.Client(transport=house.application, base_url="http://parley.test") as http:
            lines = http.get("/metrics").text.splitlines()
        return next(float(one.split()[1]) for one in lines if one.startswith("parley_oldest_awaited_report_seconds "))

    assert age() == 0
    message = small_study()
    agents = house.create(message)
    clock.wait(2)
    house.create(message, "later")
    assert age() == 7200
    house.run(message, agents)
    assert age() == 0, "the later study began when the clock stood there"


# Real processes


def receiver_process(port, secret, output, refusals):
    """A receiver as a process of its own; yields nothing before it listens."""
    command = [sys.executable, "-m", "tests.edges.webhooks.receiver", str(port), secret, output, str(refusals)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    process.stdout.readline()
    return process


def kept(path):
    """What a receiver has kept."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def parley(url, token_file, *arguments):
    """A command as a user gives it; what it printed."""
    command = [sys.executable, "-m", "parley", "admin", *arguments, "--server", url, "--token-file", str(token_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer_all(url, admin, message):
    """Every report of a study, until it is over."""
    tokens = [
        admin.request("POST", "tokens", json={"role": "agent", "study": "trial", "agent": name})["token"]
        for name in message.agents
    ]
    with ExitStack() as stack:
        agents = [stack.enter_context(Client(url, token)) for token in tokens]
        while admin.status("trial")["stage"] in ("running", "closing"):
            for place, agent in enumerate(agents):
                plan = agent.plan("trial", message.agents[place])
                if plan.due:
                    agent.send(report_of(plan, place))


EXPECTED = [("phase.decided", 1), ("phase.decided", 2), ("study.ended", 2)]


def of_agents(entries):
    """Without repetitions, in order."""
    once = {one["id"]: (one["type"], one["said"]["data"].get("phase")) for one in entries}
    return [found for found in once.values() if found[0] != "webhook.test"]


@pytest.mark.servers
def test_a_receiver_that_refuses_and_is_killed_is_told_everything_in_the_end(tmp_path, database):
    root, secret, output, port = tmp_path / "root.token", tmp_path / "secret", tmp_path / "kept", free_port()
    root.write_text(prepare(database, at="2026-01-01T00:00:00.000Z")[2], encoding="utf-8")
    message = small_study()
    with server_process(database, PARLEY_WEBHOOK_ALLOW="127.0.0.1") as (_, url):
        hook = f"http://127.0.0.1:{port}/hook"
        said = parley(url, root, "webhooks", "add", hook, "--output", str(secret))
        webhook = said.split()[0]
        receiver = receiver_process(port, str(secret), str(output), refusals=1)
        try:
            with Client(url, root.read_text(encoding="utf-8")) as admin:
                admin.request("POST", "studies", json={"id": "trial", "study": message.to_json()})
                answer_all(url, admin, message)
                eventually(lambda: kept(output), 60)  # after 5 s
                receiver.kill()
                receiver.wait()
                receiver.stdout.close()
                listed = parley(url, root, "webhooks", "list")
                assert "whsec_" not in listed
                receiver = receiver_process(port, str(secret), str(output), refusals=0)
                assert "Delivered." in parley(url, root, "webhooks", "test", webhook)
                eventually(lambda: of_agents(kept(output)) == EXPECTED, 60)
                assert f"Removed: {webhook}" in parley(url, root, "webhooks", "remove", webhook)
        finally:
            receiver.kill()
            receiver.wait()
            receiver.stdout.close()


@pytest.mark.kills
@pytest.mark.parametrize(("point", "sent"), [("webhook-due", 0), ("webhook-sent", 1)])
def test_a_server_killed_between_commit_and_delivery_delivers_when_it_is_back(database, point, sent):
    """Killed after the answer but before it is kept, it sends the same again, with the same id."""
    token = prepare(database, at="2026-01-01T00:00:00.000Z")[2]
    message = small_study()
    with Receiver() as receiver:
        with server_process(database, PARLEY_WEBHOOK_ALLOW="127.0.0.1", PARLEY_KILL_AT=point) as (process, url):
            with Client(url, token) as admin:
                receiver.secret = admin.request("POST", "webhooks", json={"url": receiver.url})["secret"]
                admin.request("POST", "studies", json={"id": "trial", "study": message.to_json()})
                with suppress(ParleyError):  # it dies while the study runs
                    answer_all(url, admin, message)
            assert process.wait(timeout=60) == -signal.SIGKILL
        assert len(receiver.taken) == sent
        with server_process(database, PARLEY_WEBHOOK_ALLOW="127.0.0.1") as (_, url):
            with Client(url, token) as admin:
                answer_all(url, admin, message)
            eventually(lambda: of_agents(receiver.taken) == EXPECTED, 120)  # on PostgreSQL once the lease is over
        assert not receiver.forged
        assert [one["id"] for one in receiver.taken].count(receiver.taken[0]["id"]) == 1 + sent


def test_a_commit_wakes_the_sender_if_there_is_anybody_to_tell(told, monkeypatch):
    house, receiver = told
    sender = house.app.state.context.service(sending.Sender)
    eventually(lambda: sender._any)
    monkeypatch.setattr(sending, "MOMENT", 3600.0)
    time.sleep(0.3)  # from now on it looks only when it is woken
    message = small_study()
    house.run(message, house.create(message))
    assert eventually(lambda: any(one["type"] == "study.ended" for one in receiver.taken))


def test_its_secret_and_address_are_in_no_backup_export_or_log(told, tmp_path):
    house, receiver = told
    message = small_study()
    house.run(message, house.create(message))
    copy = tmp_path / "copy.db"
    backup(str(tmp_path / "parley.db"), copy)
    shown = str(house.admin.request("GET", "log")) + "".join(house.admin.export("trial"))
    for secret in (receiver.secret.removeprefix("whsec_"), receiver.url.partition("//")[2].partition("/")[2]):
        assert secret.encode() not in copy.read_bytes()
        assert secret not in shown
    assert receiver.secret.encode() in (tmp_path / "parley.db").read_bytes() + wal(tmp_path), "where it signs"


def wal(folder):
    path = folder / "parley.db-wal"
    return path.read_bytes() if path.exists() else b""
