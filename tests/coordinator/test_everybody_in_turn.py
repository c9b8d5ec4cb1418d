"""However much one token asks for, the others have their turn: agents at once, readers after one of its answers."""

import gc
import json
import socket
import threading
import time
import weakref
from contextlib import contextmanager, suppress

import anyio
import httpx2 as httpx
import pytest
from tests.coordinator.support import OWN_PAGE, report_of, study_message
from tests.support import awaited

from parley.coordinator.http.app import ANSWERS
from parley.coordinator.http.context import Pool
from parley.coordinator.http.routes import studies as routes
from parley.dashboard.render import render
from parley.errors import Conflict, Rejected, Unreachable
from parley.protocol import Receipt, codec

PATIENCE = 60  # seconds


@contextmanager
def held_up(monkeypatch):
    """Whoever asks where a study is, is answered only at the end; how many are being answered meanwhile, at most."""
    go_on, inside, seen, real = threading.Event(), threading.Semaphore(0), [0, 0], routes.status
    count = threading.Lock()

    def slow(connection, row, *rest):
        with count:
            seen[0] += 1
            seen[1] = max(seen)
        if row.id == "trial":
            inside.release()
            go_on.wait(PATIENCE)
        with count:
            seen[0] -= 1
        return real(connection, row, *rest)

    monkeypatch.setattr(routes, "status", slow)
    try:
        yield inside, seen
    finally:
        go_on.set()


def test_one_token_reads_one_thing_at_a_time_and_agents_wait_for_none(house, monkeypatch):
    """The attack: as many large answers at once as there are connections to the database, so that none was left."""
    agents = house.create(study_message(agents=2, arms=2, policy="uniform"))
    house.create(study_message(agents=2, arms=2, policy="uniform"), "second")
    greedy, other = house.issue("analyst", name="x"), house.issue("analyst", name="y")
    with held_up(monkeypatch) as (inside, seen):
        asking = [threading.Thread(target=greedy.status, args=("trial",)) for _ in range(20)]
        for thread in asking:
            thread.start()
        assert inside.acquire(timeout=PATIENCE)
        report = report_of(agents[0].plan("trial", "agent 1"), 0)
        assert agents[0].send(report).sequence == 2
        assert other.status("second")["stage"] == "running"
        assert seen[1] <= 2, "one of the first token, and the other's"
    for thread in asking:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_all_together_read_a_few_things_at_a_time(house, monkeypatch):
    house.create(study_message(agents=2, arms=2, policy="uniform"))
    readers = [house.issue("analyst", name=f"reader {number}") for number in range(2 * ANSWERS["at_once"])]
    with held_up(monkeypatch) as (inside, seen):
        asking = [threading.Thread(target=reader.status, args=("trial",)) for reader in readers]
        for thread in asking:
            thread.start()
        for _ in range(ANSWERS["at_once"]):
            assert inside.acquire(timeout=PATIENCE)
        assert not inside.acquire(timeout=0.3)
        assert seen[1] == ANSWERS["at_once"]
    for thread in asking:
        thread.join(PATIENCE)


def test_one_token_has_one_change_at_a_time(house, monkeypatch):
    """The attack: large studies, made and cancelled as fast as that is allowed, all of them before others' reports."""
    house.create(study_message(agents=2, arms=2, policy="uniform"))
    count, open_ones, most, real = threading.Lock(), [0], [0], house.storage.submit

    def counted(work, **lane):
        with count:
            open_ones[0] += 1
            most[0] = max(most[0], open_ones[0])
        done = real(work, **lane)
        done.add_done_callback(over)
        return done

    def over(_):
        with count:
            open_ones[0] -= 1

    def act(what):
        with suppress(Conflict):
            house.admin.request("POST", "studies", "trial", what, json={"reason": "x"}, timeout=PATIENCE)

    monkeypatch.setattr(house.storage, "submit", counted)
    asking = [threading.Thread(target=act, args=(what,)) for what in ("pause", "resume") * 8]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(PATIENCE)
    assert most == [1]


def test_places_are_given_back_and_lanes_forgotten():
    async def scenario():
        pool = Pool(at_once=1, of_one=2, waiting=3, words="things")
        order = []

        async def work(key):
            async with pool.turn(key):
                order.append(key)
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as tasks:
            for key in ("a", "a", "b"):
                tasks.start_soon(work, key)
        assert order == ["a", "b", "a"], "a token's second waits for its first, and then behind the others"
        with pytest.raises(RuntimeError, match="broken"):
            async with pool.turn("a"):
                raise RuntimeError("broken")
        assert pool._queues == {}
        assert pool._waiting == 0
        assert await pool.run("a", lambda: 7) == 7

    awaited(scenario())


def test_one_large_study_of_a_token_is_read_at_a_time(sqlite_house):
    """Two of 30 MB at once were 280 MB in memory."""
    house = sqlite_house
    head = (
        f"POST /v1/studies HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {house.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 20000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(house.url.rsplit(":", 1)[1])), timeout=PATIENCE) as first:
        first.sendall(head.encode() + b'{"study": ')
        until = time.monotonic() + PATIENCE
        while not house.app.state.context.uploads._taken and time.monotonic() < until:
            time.sleep(0.01)
        body = json.dumps({"study": {"x": [0.5] * 500_000}}).encode()
        with pytest.raises(Unreachable, match="1 studies to send"):
            house.admin.request("POST", "studies", content=body, headers={"Content-Type": "application/json"})


def _lists_of(length):
    return sum(type(found) is list and len(found) == length for found in gc.get_objects())


def test_what_was_refused_is_let_go_at_once(sqlite_house):
    """A failure's trace held on to the study that was sent, and the next ones came on top of it."""
    body = json.dumps({"study": {"rows": [[0.5] * 123_457]}}).encode()
    admin = sqlite_house.client(sqlite_house.token, connected=True)  # as a server holds it
    gc.disable()
    try:
        with pytest.raises(Rejected, match="unknown keys"):
            admin.request("POST", "studies", content=body, headers={"Content-Type": "application/json"})
        until = time.monotonic() + PATIENCE  # the server's thread may be about to: it answered before it let go
        while (kept := _lists_of(123_457)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not kept
    finally:
        gc.enable()


def test_what_follows_a_refusal_is_not_read_to_the_end(sqlite_house):
    """A body of 30 MB that was refused by its size was still taken, at the speed of the network."""
    head = b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
    port, sent = int(sqlite_house.url.rsplit(":", 1)[1]), 0
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection, suppress(ConnectionError):
        connection.sendall(head)
        while sent < 200_000_000:
            sent += connection.send(b"x" * 1_000_000)
    assert sent < 100_000_000
    assert httpx.get(f"{sqlite_house.url}/healthz", timeout=PATIENCE).status_code == 200


def test_the_answer_to_a_body_that_is_too_large_is_heard(sqlite_house):
    """Up to the usual limit a refused body is read, so that nobody is cut off before the refusal arrives."""
    answer = httpx.post(f"{sqlite_house.url}/v1/tokens", content=b"x" * 900_000, timeout=PATIENCE)
    assert answer.status_code == 401


def test_what_a_page_was_made_of_is_let_go_at_once():
    """Jinja's macros hold on to all that a page was given: a hundred megabytes after a large one."""

    class Detail(str):
        __slots__ = ("__weakref__",)

    given = Detail("x")
    gone = weakref.ref(given)
    gc.disable()
    try:
        assert "x" in render("error.html", title="a", detail=given, retry=False, status=404, who=None)
        del given
        assert gone() is None
    finally:
        gc.enable()


def test_a_file_in_a_form_has_a_limit_of_its_own(sqlite_house):
    """A form is taken apart in one go, during which nobody else is answered."""
    options = {"timeout": PATIENCE, "follow_redirects": True, "headers": OWN_PAGE}
    with httpx.Client(base_url=sqlite_house.url, **options) as browser:
        browser.post("/sign-in", data={"token": sqlite_house.token})
        small = browser.post("/new", data={"study": "arms = 2\nagents = 2", "do": "check"})
        assert small.status_code == 200
        large = browser.post("/new", data={"study": "x" * 2**22, "do": "check"})
        assert large.status_code == 413
        assert "4194304 bytes" in large.text


def test_no_report_waits_for_the_text_of_a_large_certificate(house, monkeypatch):
    """The attack: verifications of a large study. While its certificate was written, nothing else was."""
    agent = house.create(study_message(agents=2, arms=2, policy="uniform"))[0]
    report = report_of(agent.plan("trial", "agent 1"), 0)
    begun, go_on, real = threading.Event(), threading.Event(), codec.canonical

    def slow(document):
        if document["schema"] == Receipt.schema:
            begun.set()
            go_on.wait(PATIENCE)
        return real(document)

    receipt = Receipt(study="x", phase=1, agent="x", report="x", sequence=1, head="x")
    monkeypatch.setattr(codec, "canonical", slow)
    threads = [threading.Thread(target=lambda: receipt.text), threading.Thread(target=agent.send, args=(report,))]
    threads[0].start()
    try:
        assert begun.wait(PATIENCE)
        threads[1].start()
        threads[1].join(5)
        assert not threads[1].is_alive(), "a report waits for another's text"
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
