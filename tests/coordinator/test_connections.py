"""What a connection may do before anybody knows who it is, and what it may leave unread: none stops the server."""

import json
import select
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.coordinator.support import House, report_of, study_message

from parley.coordinator.record import initialise, open_storage
from parley.web.connections import ConnectionLimits

pytestmark = pytest.mark.servers


@pytest.fixture
def strict(tmp_path, request):
    """A coordinator whose patience with connections is a test's."""
    initialise(str(tmp_path / "parley.db"))
    storage = open_storage(str(tmp_path / "parley.db"))
    usual = ConnectionLimits(head_seconds=0.6, body_seconds=0.8, read_seconds=1.0, connections=40, unread=2**21)
    house = House(storage, limits=getattr(request, "param", usual))
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
        assert time.monotonic() - started < ConnectionLimits().head_seconds
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


def memory():
    """Bytes that this process, the server's, holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


CHUNKED = "Host: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/healthz", "/v1/tokens", "/sign-in", "/nowhere"])
def test_a_body_that_does_not_state_its_length_gets_411_and_the_connection_ends(strict, method, path):
    """Whoever sends it and whatever for: nothing of it is parsed, and no request behind it is answered."""
    behind = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = f"{method} {path} HTTP/1.1\r\n{CHUNKED}Authorization: Bearer {strict.token}\r\n\r\n"
    with connect(strict) as connection:
        connection.sendall(head.encode() + b"2\r\n{}\r\n0\r\n\r\n" + behind)
        told, _, body = ended(connection).partition(b"\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 411")
    assert b"connection: close" in told.lower()
    if method == "HEAD":
        assert body == b""
    else:
        assert json.loads(body)["type"] == "urn:parley:problem:length-required"
    assert well(strict)


def test_an_encoding_that_nobody_knows_gets_411_as_well(strict):
    with connect(strict) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\n{CHUNKED}\r\n".replace("chunked", "gzip, chunked").encode())
        assert ended(connection).startswith(b"HTTP/1.1 411")


CHUNKS = f"POST /v1/tokens HTTP/1.1\r\n{CHUNKED}\r\n".encode()
LINES = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X:y\r\n" * 40_000 + b"\r\n"
SMALL = {  # begin, and what is sent again and again
    "chunks of a byte": (CHUNKS, b"1\r\n.\r\n" * 10_000),
    "chunks of a byte, by GET": (CHUNKS.replace(b"POST", b"GET"), b"1\r\n.\r\n" * 10_000),
    "trailers": (CHUNKS + b"2\r\n{}\r\n0\r\n", b"X: y\r\n" * 10_000),
    "a chunk's length": (CHUNKS + b"1", b"0" * 60_000),
    "a chunk's extension": (CHUNKS + b"1;x=", b"y" * 60_000),
    "short header lines": (b"", LINES),
    "short header lines behind a request": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", LINES),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_pieces_cost_little_and_are_cut_off(sqlite_house, name):
    """The attack: 6.8 MB in chunks of a byte, without a token, and nobody else was answered for 17 seconds."""
    begin, more = SMALL[name]
    sqlite_house.url  # noqa: B018  # started before anything is measured
    before, begun, sent, most = memory(), time.process_time(), 0, 16 * 2**20
    with connect(sqlite_house) as connection, suppress(ConnectionError):
        connection.sendall(begin)
        while sent < most:
            connection.sendall(more)
            sent += len(more)
    assert time.process_time() - begun < 2.0
    assert sent < most, "it is cut off"
    assert memory() - before < most
    assert well(sqlite_house)


@pytest.mark.parametrize("size", [1, 7])
def test_tiny_segments_cost_no_more_than_their_number(strict, size):
    """A request in pieces of a byte is read as one in a piece: what came before is not read again."""
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + b"X: y\r\n" * 90 + b"\r\n"
    with connect(strict) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.process_time()
        for place in range(0, len(head), size):
            connection.sendall(head[place : place + size])
        assert ended(connection).startswith(b"HTTP/1.1 200")
        assert time.process_time() - begun < 2.0


def test_pipelined_requests_are_answered_in_turn_with_those_of_others(sqlite_house):
    """Counted in answers, not in seconds: what a client needs to set itself up has nothing to do with the server."""
    request, many, mark = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 2_000, b"HTTP/1.1 200"
    with connect(sqlite_house) as other, connect(sqlite_house) as connection:
        other.sendall(request)
        assert other.recv(65536).startswith(mark), "accepted before the race"
        connection.sendall(request * many)
        answers = connection.recv(65536)
        assert answers.count(mark) < many
        other.sendall(request)
        while other not in select.select([other, connection], [], [])[0]:
            answers += connection.recv(65536)
        before = answers.count(mark)
        while answers.count(mark) < many:
            answers += connection.recv(65536)
        assert before < many / 2, "behind 2,000 others it would wait for all of them"


def test_a_pipelined_request_whose_body_does_not_come_is_not_waited_for(strict):
    """Its head comes with the request before it: nothing more is ever received, and its time runs all the same."""
    head = f"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {strict.token}\r\n"
    head += "Content-Type: application/json\r\n"
    with connect(strict) as connection:
        connection.settimeout(20)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + f"{head}Content-Length: 100\r\n\r\n".encode())
        assert ended(connection).count(b"HTTP/1.1") == 1
    assert well(strict)


@pytest.mark.parametrize("strict", [ConnectionLimits(connections=40)], indirect=True, ids=["40 connections"])
def test_those_who_hold_connections_open_lock_nobody_out(strict):
    """As many as are taken leave room for one more: what runs out is the descriptors of the process."""
    with ExitStack() as stack:
        for _ in range(80):  # twice as many as are taken
            connection = stack.enter_context(connect(strict))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX:")
        assert well(strict)
        held = len(strict.server.server_state.connections)
        assert held <= 41, f"{held} are held open"


UNREAD = {"in time": ConnectionLimits(read_seconds=1.0), "in memory": ConnectionLimits(unread=2**17)}


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
