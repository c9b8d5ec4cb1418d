"""What stands between an agent and its coordinator, or pretends to be it: nothing is drawn, kept or believed for it."""

import json
import shutil
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner
from msgspec import structs
from tests.agent.test_worker import Coordinator, Source, plan
from tests.coordinator.support import House, report_of, study_message
from tests.served import Served, Silent
from tests.support import first_quick

from parley.agent import Client
from parley.agent.outbox import Outbox
from parley.agent.worker import Worker
from parley.cli.main import main
from parley.coordinator.record import open_storage
from parley.errors import CoordinatorError, Unreachable, WrongPlan, WrongReceipt
from parley.totals import Totals


@pytest.fixture
def house(prepared_sqlite, tmp_path):
    storage = open_storage(str(shutil.copy(prepared_sqlite, tmp_path / "parley.db")))
    made = House(storage)
    yield made
    made.close()
    storage.close()


class Decided(Source):
    """The first arm is the best: a study ends."""

    def __call__(self, asked):
        self.calls.append(asked.phase)
        return Totals.of([[0.9 - 0.8 * arm] * count for arm, count in enumerate(asked.draws)])


@contextmanager
def portal(house, answer, every=2):
    """In front of a coordinator; every other request (`every`=1: each) gets the portal's own answer, with success."""

    class Handler(Silent):
        seen = 0

        def do_GET(self):
            Handler.seen += 1
            status, kind, body = answer
            if Handler.seen % every != 0:
                length = int(self.headers.get("Content-Length", 0))
                headers = {"Authorization": self.headers["Authorization"], "Content-Type": "application/json"}
                content = self.rfile.read(length) if length else None
                asked = Request(house.url + self.path, data=content, headers=headers, method=self.command)
                with urlopen(asked) as reply:
                    status, kind, body = reply.status, reply.headers["Content-Type"], reply.read()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Location", "/login")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET  # noqa: N815

    with Served(Handler) as served:
        yield served.url


PAGES = {
    "a page": (200, "text/html", b"<html>Please sign in</html>"),
    "nothing": (200, "text/plain", b""),
    "other JSON": (200, "application/json", b'{"portal": true}'),
    "a list": (200, "application/json", b"[1, 2]"),
    "a deep list": (200, "application/json", b"[" * 100_000),
    "half a plan": (200, "application/json", json.dumps({**plan().to_json(), "draws": "many"}).encode()),
    "a proxy's 403": (403, "text/html", b"<html>Blocked by policy</html>"),
    "a proxy's 404": (404, "application/json", b'{"message": "no Route matched"}'),
    "a proxy's 407": (407, "text/html", b"<html>Sign in</html>"),
    "a proxy's 409": (409, "application/problem+json", b'{"type": "about:blank", "status": 409}'),
    "a redirect": (302, "text/html", b"<html>This way</html>"),
}


@pytest.mark.parametrize(
    "page", first_quick("half a plan", "a redirect", "a page", "other JSON", "a proxy's 403", "a proxy's 409", quick=2)
)
def test_a_captive_portal_is_waited_for(house, tmp_path, page):
    house.create(study_message(agents=1, arms=2, policy="uniform"))
    waits = []
    with (
        portal(house, PAGES[page]) as address,
        Client(address, house.tokens["trial", "agent 1"]) as client,
        Outbox(tmp_path / "box", study="trial", agent="agent 1") as box,
    ):
        source = Decided()
        last = Worker(client, box, source, sleep=waits.append, patience=0.2).run()
        assert last.stage == "finished"
        assert len(source.calls) == len(set(source.calls)) == len(box.receipts())
    assert waits


@pytest.mark.servers
def test_every_call_of_a_client_finds_a_portal_unreachable(house):
    house.create(study_message(agents=1, arms=2, policy="uniform"))
    with Client(house.url, house.tokens["trial", "agent 1"]) as client:
        report = report_of(client.plan("trial", "agent 1"), 0)
    calls = [
        lambda client: client.plan("trial", "agent 1"),
        lambda client: client.whole_plan("trial", 1),
        lambda client: client.report("trial", 1, "agent 1"),
        lambda client: client.send(report),
        lambda client: list(client.export("trial")),
        lambda client: client.whoami(),
    ]
    for page, answer in PAGES.items():
        with portal(house, answer, every=1) as address, Client(address, house.token) as client:
            for call in calls[:-1] if page == "half a plan" else calls:
                with pytest.raises(Unreachable):
                    call(client)


def test_the_command_says_so_and_tries_again(house, tmp_path, monkeypatch):
    house.create(study_message(agents=1, arms=2, policy="uniform"))
    monkeypatch.setenv("PARLEY_TOKEN", house.tokens["trial", "agent 1"])
    (tmp_path / "draw.py").write_text("def draw(arm, count):\n    return [float(arm == 'arm 1')] * count\n")
    monkeypatch.syspath_prepend(tmp_path)
    with portal(house, PAGES["a page"], every=3) as address:
        words = ["agent", "--server", address, "--study", "trial", "--source", "python:draw:draw"]
        done = CliRunner().invoke(main, [*words, "--outbox", str(tmp_path / "box")])
    assert done.exit_code == 0, done.output
    assert "not a coordinator's" in done.output
    assert "is finished" in done.output


@pytest.mark.parametrize("change", [{"study": "t"}, {"agent": "b"}])
def test_a_plan_for_somebody_else_is_not_drawn(tmp_path, change):
    class Confused(Coordinator):
        def plan(self, study, agent, *, after=0, wait=0):
            return structs.replace(super().plan(study, agent), **change)

    source = Source()
    with Outbox(tmp_path, study="s", agent="a") as box, pytest.raises(WrongPlan, match="Nothing is drawn"):
        Worker(Confused(), box, source).run()
    assert source.calls == []


@pytest.mark.parametrize("change", [{"study": "t"}, {"agent": "b"}])
def test_a_client_hears_that_a_plan_is_for_somebody_else(house, change):
    house.create(study_message(agents=1, arms=2))
    answer = (200, "application/json", json.dumps({**plan().to_json(), **change}).encode())
    with portal(house, answer, every=1) as address, Client(address, house.token) as client, pytest.raises(WrongPlan):
        client.plan("s", "a")


def test_a_report_of_somebody_else_is_not_taken_for_ones_own(house):
    agents = house.create(study_message(agents=2, arms=2))
    other = report_of(agents[1].plan("trial", "agent 2"), 1)
    answer = (200, "application/json", json.dumps({"report": other.to_json()}).encode())
    with portal(house, answer, every=1) as address, Client(address, house.token) as client:
        assert client.report("trial", 1, "agent 2") == other
        with pytest.raises(CoordinatorError, match="sent the report of 'agent 2'"):
            client.report("trial", 1, "agent 1")


@pytest.mark.parametrize(
    "change", [{"sequence": 0, "head": ""}, {"sequence": 1}, {"head": "a" * 63}, {"head": "A" * 64}]
)
def test_a_receipt_for_no_record_is_not_kept(tmp_path, change):
    class Lazy(Coordinator):
        def send(self, report, *, receipt=None):
            return structs.replace(super().send(report), **change)

    with Outbox(tmp_path, study="s", agent="a") as box:
        with pytest.raises(WrongReceipt, match="no log has such a record"):
            Worker(Lazy(), box, Source()).run()
        assert box.receipts() == []
        assert box.pending().phase == 1


STRAYS = ("notes.json", "1 (copy).json", "._1.json", "01.json", "0.json", "-1.json", "\u00b2.json", "1.json.part", "x")


def test_stray_files_in_the_outbox_are_let_be(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as box:
        folder = box.folder
    for kind in ("draws", "receipts", "drawing"):
        for name in STRAYS:
            (folder / kind / name).write_bytes(b"\xff not JSON")
        (folder / kind / "7.json").mkdir()
    with Outbox(tmp_path, study="s", agent="a") as box:
        source = Source()
        Worker(Coordinator(), box, source).run()
        assert source.calls == [1, 2, 3]
        assert [one.phase for one in box.receipts()] == [1, 2, 3]
    assert {path.name for path in (folder / "draws").iterdir()} >= set(STRAYS)


def test_what_an_outbox_holds_is_for_its_owner_alone(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as box:
        Worker(Coordinator(), box, Source()).run()
        files = [path for path in box.folder.rglob("*") if path.is_file()]
    assert files
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}


def test_an_agent_whose_place_was_reported_by_somebody_else_says_so(house, tmp_path):
    agents = house.create(study_message(agents=2, arms=2, policy="uniform"))
    warned = []
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))  # by whoever else holds the token
    with Outbox(tmp_path / "box", study="trial", agent="agent 1") as box:
        worker = Worker(agents[0], box, Source(), warn=warned.append, patience=0.1)
        for _ in range(3):
            worker.step()
    assert len(warned) == 1, "nobody was warned, or more than once"
    assert "another program holds this agent's token" in warned[0]


def test_an_agent_that_sent_its_report_itself_warns_of_nothing(tmp_path):
    class Slow(Coordinator):
        """Shows the reported phase a while longer, as a coordinator does that waits for others."""

        asked = 0

        def plan(self, study, agent, *, after=0, wait=0):
            self.asked += 1
            found = super().plan(study, agent)
            return plan(len(self.taken), reported=True) if self.taken and self.asked % 2 else found

    warned = []
    with Outbox(tmp_path, study="s", agent="a") as box:
        Worker(Slow(), box, Source(), warn=warned.append).run()
    assert warned == []


def test_a_warning_is_given_once_a_phase(tmp_path):
    class Taken(Coordinator):
        asked = 0

        def plan(self, study, agent, *, after=0, wait=0):
            self.asked += 1
            phase = 1 + self.asked // 4
            return plan(phase, reported=True) if phase < 3 else plan(3, None, stage="finished")

    warned = []
    with Outbox(tmp_path, study="s", agent="a") as box:
        Worker(Taken(), box, Source(), warn=warned.append).run()
    assert [words.split(":")[0] for words in warned] == ["phase 1", "phase 2"]
