"""No request stops the server: each attack of a hostile trial, small. At length: `python -m tests.chaos attacks`."""

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack, suppress

import httpx2 as httpx
import pytest
from tests.coordinator.support import House, report_of, study_message

from parley.coordinator.http import heavy
from parley.coordinator.http.gate import Allowance
from parley.coordinator.http.limits import Throttle
from parley.coordinator.problems import Refusal
from parley.coordinator.record import initialise, open_storage
from parley.dashboard.upload import uploaded_study
from parley.errors import InvalidInput, Rejected, Unreachable
from parley.study import load_study


@pytest.fixture
def strict(tmp_path, request):
    """A coordinator whose patience with connections is a test's."""
    initialise(str(tmp_path / "parley.db"))
    storage = open_storage(str(tmp_path / "parley.db"))
    usual = Allowance(head_seconds=0.6, body_seconds=0.8, read_seconds=1.0, connections=40, unread=2**21)
    house = House(storage, allowance=getattr(request, "param", usual))
    yield house
    house.close()
    storage.close()


def connect(house):
    return socket.create_connection(("127.0.0.1", int(house.url.rsplit(":", 1)[1])), timeout=60)


def ended(connection):
    """What the server still said before it closed the connection."""
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionError:
        pass
    return said


def well(house):
    return httpx.get(f"{house.url}/healthz", timeout=60).status_code == 200


@pytest.mark.parametrize(
    "begin",
    [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10],
    ids=["nothing", "half a line", "half a header", "no end of headers"],
)
def test_a_request_that_does_not_come_is_not_waited_for(strict, begin):
    with connect(strict) as connection:
        connection.sendall(begin)
        started = time.monotonic()
        assert ended(connection) == b""
        assert time.monotonic() - started < Allowance().head_seconds
    assert well(strict)


def test_nor_is_a_body_that_does_not_come_and_slow_drops_do_not_help(strict):
    head = f"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {strict.token}\r\nContent-Length: 100\r\n\r\n"
    with connect(strict) as connection:
        connection.sendall(head.encode())
        started = time.monotonic()
        try:
            while time.monotonic() - started < 30:
                connection.sendall(b" ")
                time.sleep(0.1)
        except ConnectionError:
            pass
        assert time.monotonic() - started < 30
    assert well(strict)


def test_nothing_is_read_of_a_body_that_its_sender_may_not_send(strict):
    """The attack of the trial: a viewer's study was read, and made, before it was refused."""
    strict.issue("viewer", name="v")
    head = f"POST /v1/studies HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {strict.tokens[None, None]}\r\n"
    with connect(strict) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 403"), "by its role, before a byte of it is read"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 200_000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /healthz?" + b"q=1&" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["a long address", "a long header", "many headers", "two hundred headers", "a long query"],
)
def test_lines_and_headers_have_limits(strict, head):
    with connect(strict) as connection:
        with suppress(ConnectionError):  # it was cut off before it was through
            connection.sendall(head)
        assert not ended(connection).startswith(b"HTTP/1.1 200")
    assert well(strict)


def test_a_head_and_a_large_body_in_one_piece_are_taken(house):
    """The limit is for the head alone, however the pieces fall."""
    agents = house.create(study_message(agents=2, arms=2))
    body = json.dumps(report_of(agents[0].plan("trial", "agent 1"), 0).to_json()).encode() + b" " * 12_000
    token = house.tokens["trial", "agent 1"]
    head = f"PUT /v1/studies/trial/phases/1/reports/agent%201 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with connect(house) as connection:
        connection.sendall(head.encode() + body)
        assert ended(connection).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize("strict", [Allowance(connections=40)], indirect=True, ids=["40 connections"])
def test_those_who_hold_connections_open_lock_nobody_out(strict):
    """As many as are taken leave room for one more: what runs out is the descriptors of the process."""
    with ExitStack() as stack:
        for _ in range(80):  # twice as many as are taken
            connection = stack.enter_context(connect(strict))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX:")
        assert well(strict)
        held = len(strict.server.server_state.connections)
        assert held <= 41, f"{held} are held open"


UNREAD = {"in time": Allowance(read_seconds=1.0, ahead=64), "in memory": Allowance(unread=2**17, ahead=64)}


@pytest.mark.parametrize("strict", UNREAD.values(), ids=UNREAD, indirect=True)
def test_an_answer_that_nobody_reads_is_not_kept_for_ever(strict):
    """Nor are many kept for as long as one may take; what is sent ahead of answers is not what is cut off here."""
    message = study_message(agents=60, arms=100, policy="uniform", name="large")
    strict.admin.request("POST", "studies", json={"id": "large", "study": message.to_json()}, timeout=60)
    request = f"GET /v1/studies/large/log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {strict.token}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(6):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the kernel keeps little for it
            connection.connect(("127.0.0.1", int(strict.url.rsplit(":", 1)[1])))
            connection.sendall(request.encode() * 60)
        assert well(strict)
        until = time.monotonic() + 30
        while len(strict.server.server_state.connections) > 4 and time.monotonic() < until:
            time.sleep(0.1)
        still = len(strict.server.server_state.connections)
        assert still <= 4, f"{still} are not cut off"


def refused(client, document):
    """Sent as a report; how the refusal reads, how long it is, and how long this process, the server's, computed."""
    path = "/v1/studies/trial/phases/1/reports/agent%201"
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    begun = time.process_time()
    answer = client._http.put(path, content=content, headers={"Content-Type": "application/json"})
    return answer, time.process_time() - begun


HOSTILE = {
    "wrong values": lambda good: good | {"counts": ["x"] * 90_000},
    "wrong numbers": lambda good: good | {"sums": [None] * 90_000, "squares": ["y"] * 50_000},
    "unknown keys": lambda good: good | {f"k{number}": 1 for number in range(60_000)},
    "a deep list": lambda _: b"[" * 500_000,
    "a deep object": lambda _: b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    "a long number": lambda _: b'{"counts": [' + b"1" * 5_000 + b"]}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_shortly_and_at_once(house, name):
    agents = house.create(study_message(agents=2, arms=2))
    good = report_of(agents[0].plan("trial", "agent 1"), 0).to_json()
    answer, seconds = refused(agents[0], HOSTILE[name](good))
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 4_000
    assert seconds < 5


SHAPES = {
    "unknown keys": "up to 2500 keys",
    "a deep list": "up to 2500 lists and objects",
    "a deep object": "nested more than 32 deep",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_body_of_another_shape_than_any_is_not_read(sqlite_house, name):
    """Also where nothing else says how long it may be."""
    made = HOSTILE[name]({})
    content = made if isinstance(made, bytes) else json.dumps(made)
    with pytest.raises(Rejected, match=SHAPES[name]):
        sqlite_house.admin.request("POST", "tokens", content=content, headers={"Content-Type": "application/json"})


def test_large_requests_take_more_of_the_allowed_rate():
    pace = Throttle(rate=1, burst=20, timer=lambda: 0.0)
    assert pace.wait("a", 10) == pace.wait("a", 10) == 0
    assert pace.wait("a", 1) == 1
    assert pace.wait("b", 1e9) == 0, "what is allowed at all is possible"


def test_heavy_work_of_one_token_leaves_room_for_others(house):
    """The attack of the trial: 70 verifications at once took every thread."""
    message = study_message(agents=2, arms=2, policy="uniform")
    house.run(message, house.create(message))
    analyst, other = house.issue("analyst", name="x"), house.issue("analyst", name="y")
    kinds, done = [], threading.Barrier(41)

    def verify():
        done.wait(120)
        try:
            kinds.append(analyst.request("POST", "studies", "trial", "verify", timeout=60)["sound"])
        except Unreachable as error:
            kinds.append(error.problem["type"].rsplit(":", 1)[-1])

    threads = [threading.Thread(target=verify) for _ in range(40)]
    for thread in threads:
        thread.start()
    done.wait(120)
    begun = time.monotonic()
    assert other.status("trial")["stage"] == "finished"
    assert time.monotonic() - begun < 60  # at length, and to the tenth of a second: tests/chaos/attacks.py
    assert other.request("POST", "studies", "trial", "verify", timeout=60)["sound"], "others have their turn"
    for thread in threads:
        thread.join()
    assert kinds.count(True) >= heavy.OF_ONE
    assert kinds.count("too-fast") + kinds.count("too-busy") > 0
    assert len(kinds) == 40


def test_heavy_work_of_one_token_is_bounded_and_leaves_a_place_for_others():
    """The same without a race: works that last until they are told to end."""
    bounded, told = heavy.Heavy(), threading.Event()

    async def ask(key):
        return await bounded.run(key, lambda: told.wait(30))

    async def many():
        asked = [asyncio.ensure_future(ask("a")) for _ in range(heavy.OF_ONE)]
        await asyncio.sleep(0)
        try:
            with pytest.raises(Refusal, match="in progress"):
                await asyncio.wait_for(ask("a"), 2)
            asked.append(asyncio.ensure_future(ask("b")))
            await asyncio.sleep(0)
        finally:
            told.set()
        assert await asyncio.gather(*asked) == [True] * (heavy.OF_ONE + 1)

    asyncio.run(many())


def test_one_token_follows_so_many_streams_and_no_more(sqlite_house):
    sqlite_house.create(study_message(agents=2, arms=2))
    client = sqlite_house.issue("viewer", name="v")
    with ExitStack() as stack:
        codes, lines = [], []
        for _ in range(40):
            response = stack.enter_context(client._http.stream("GET", "/v1/studies/trial/events", timeout=60))
            codes.append(response.status_code)
            if response.status_code == 200:
                lines.append(response.iter_lines())
                next(lines[-1])
    assert codes.count(200) == 32
    assert codes.count(429) == 8


TEXTS = {
    "many agents": ("arms = 2\nagents = 6000", "agents"),
    "many cells": ("arms = 90000\nagents = 1999", "cells"),
    "many dots": ("a" + ".a" * 20_000 + " = 1", "dots"),
    "many dots in a table": ("x = {b = 1, a" + ".a" * 20_000 + " = 1}", "dots"),
    "many dots in a header": ("[a" + ".a" * 20_000 + "]", "dots"),
    "a long number": ("arms = " + "1" * 5_000, "valid TOML"),
    "a deep list": ("arms = " + "[" * 5_000, "valid TOML"),
    "a deep table": ("arms = " + "{a=" * 5_000, "valid TOML"),
    "a huge number": ("arms = 2\nagents = 1" + "0" * 300, "agents"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_study_file_is_refused_at_once(name, tmp_path):
    text, words = TEXTS[name]
    begun = time.process_time()
    with pytest.raises(InvalidInput, match=words):
        uploaded_study(text)
    assert time.process_time() - begun < 3
    if "TOML" in words or words == "dots":  # a file of one's own may have more agents
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(InvalidInput, match=words):
            load_study(tmp_path / "study.toml")


def test_dots_that_are_no_keys_are_many_as_they_like():
    row = ", ".join(["0.5"] * 2)
    names = ", ".join(f'"Dr. J. R. R. {letter}."' for letter in "ab")
    study = (
        f'arms = [{names}]\nagents = 2\nname = "{". " * 30}x"\n[weights]\nkind = "matrix"\nmatrix = [[{row}], [{row}]]'
    )
    assert uploaded_study(study).agents


def test_a_report_that_is_too_long_for_its_study_is_refused_before_it_is_looked_at(house):
    agents = house.create(study_message(agents=2, arms=2))
    good = report_of(agents[0].plan("trial", "agent 1"), 0).to_json()
    for many, words in ((500, "500 counts.*2 of each"), (40_000, "bytes: allowed are 2 of each")):
        long = good | {"counts": [1] * many, "sums": [0.0] * many, "squares": [0.0] * many}
        with pytest.raises(Rejected, match=words):
            agents[0].request("PUT", "studies", "trial", "phases", 1, "reports", "agent 1", json=long)
