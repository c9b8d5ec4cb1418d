"""A real `parley site` under attack, and under the faults of its machine: none stops it, and it says how it is."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.agent.test_client import house  # noqa: F401
from tests.coordinator.support import study_message

from parley.agent.site import Site

pytestmark = pytest.mark.servers
CODE = "open-sesame-42"
MOST = 48 * 2**20  # bytes that an attacker sends


class Service:
    """A `parley site` process on a journal of its own, and its coordinator if there is one."""

    def __init__(self, folder, *options, server="http://127.0.0.1:9", study="s"):
        (folder / "token").write_text("nothing")
        words = ["site", "--server", server, "--study", study, "--outbox", str(folder / "box"), "--port", "0", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "parley", *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PARLEY_TOKEN_FILE": str(folder / "token")} | self.secret(folder),
        )
        self.url = self.process.stdout.readline().rsplit(" at ", 1)[1].strip()
        self.port = int(self.url.rsplit(":", 1)[1])

    @staticmethod
    def secret(folder):
        return {"PARLEY_TOKEN_FILE": str(found)} if (found := folder / "real-token").exists() else {}

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def get(self, path, **headers):
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as line:
            return line.get(path, headers=headers)

    @property
    def memory(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    @property
    def computed(self):
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    @property
    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.process.stdout.close()


@pytest.fixture
def service(tmp_path):
    """Whose coordinator does not answer, and which asks for a code."""
    with Site(tmp_path / "box", study="s", agent="a") as site:
        site.begin(phase=1, plan="b" * 64, arms=("x", "y"), draws=(5, 5))
    (tmp_path / "code").write_text(CODE)
    made = Service(tmp_path, "--code-file", str(tmp_path / "code"))
    yield made
    made.end()


def well(service):
    return service.get("/v1/status", Authorization=f"Bearer {CODE}").status_code == 200


CHUNKED = b"POST /v1/missing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED += b"Transfer-Encoding: chunked\r\n"
ENDLESS = {
    "headers": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X: " + b"y" * 1000 + b"\r\n"),
    "a header": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"y" * 1000),
    "an address": (b"GET /", b"y" * 1000),
    "short header lines": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X:y\r\n" * 200),
    "trailers": (CHUNKED + b"\r\n2\r\n{}\r\n0\r\n", b"X: " + b"y" * 1000 + b"\r\n"),
    "a body": (CHUNKED + f"Authorization: Bearer {CODE}\r\n\r\n".encode(), b"3e8\r\n" + b"y" * 1000 + b"\r\n"),
    "chunks of a byte": (CHUNKED + b"\r\n", b"1\r\n.\r\n" * 200),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_ends_is_cut_off_and_takes_no_memory(service, name):
    begin, more = ENDLESS[name]
    before, used, sent = service.memory, service.computed, 0
    with service.connect() as connection:
        connection.sendall(begin)
        with suppress(ConnectionError):
            while sent < MOST:
                connection.sendall(more * 64)
                sent += len(more) * 64
    assert sent < MOST / 4, "it is cut off"
    assert service.computed - used < 2.0, "it is not parsed"
    assert service.memory - before < MOST / 2
    assert well(service)


def test_a_body_that_does_not_state_its_length_gets_411(service):
    with service.connect() as connection:
        connection.sendall(CHUNKED + b"\r\n2\r\n{}\r\n0\r\n\r\n")
        said = b""
        while part := connection.recv(65536):
            said += part
    assert said.startswith(b"HTTP/1.1 411")
    assert json.loads(said.partition(b"\r\n\r\n")[2])["title"] == "The request must state the length of its body"
    assert well(service)


def test_those_who_hold_connections_open_lock_nobody_out(service):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with ExitStack() as held:
        for number in range(1200):
            connection = held.enter_context(service.connect())
            connection.sendall(b"" if number % 2 else b"GET / HTTP/1.1\r\nX: ")
        assert well(service)
        assert service.descriptors < 700, "most of 1,200 idle connections are closed"


def test_a_request_that_does_not_come_is_not_waited_for(service):
    with service.connect() as connection:
        connection.sendall(b"GET /st")
        connection.settimeout(20)
        assert connection.recv(100) == b"", "within 10 s"


def test_whoever_guesses_the_code_is_locked_out(service):
    """224 guesses a second were answered: eight digits within days."""
    with httpx.Client(base_url=service.url, trust_env=False, timeout=30) as line:
        tries = [line.get("/v1/status", headers={"Authorization": f"Bearer {n:08}"}).status_code for n in range(200)]
        assert tries.count(401) <= 11
        assert set(tries) == {401, 429}
        right = line.get("/v1/status", headers={"Authorization": f"Bearer {CODE}"})
        assert right.status_code == 429, "otherwise guessing goes on"
        assert 1 <= int(right.headers["retry-after"]) <= 60
        entered = line.post("/enter", data={"code": CODE}, headers={"Sec-Fetch-Site": "same-origin"})
        assert entered.status_code == 429, "nor is the form a way round"


def test_a_site_without_a_file_descriptor_for_a_while_reports_afterwards(house, tmp_path):  # noqa: F811
    """It was silent for good, while its page said that it was connected."""
    house.create(study_message(agents=2, arms=2, policy="uniform"))
    (tmp_path / "real-token").write_text(house.tokens["trial", "agent 1"])
    service = Service(tmp_path, server=house.url, study="trial")
    try:
        until = time.monotonic() + 60
        while service.get("/healthz").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as line:
            asked = line.get("/v1/status").json()["asked"]
            _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (4, hard))  # fewer than it holds
            time.sleep(18)
            resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (1024, hard))
            for number in range(asked):
                key = {"participant": f"p-{number}"}
                assert line.post("/v1/assignments", json=key).status_code == 201
                assert line.post("/v1/outcomes", json={**key, "reward": 0.5}).status_code == 200
            until = time.monotonic() + 60
            while not (found := line.get("/v1/status").json())["reported"] or found["coordinator"] != "connected":
                assert time.monotonic() < until, found
                time.sleep(0.2)
            assert line.get("/healthz").json()["seconds_since_contact"] < 30
    finally:
        service.end()


def test_health_says_that_the_coordinator_does_not_answer(service):
    found = service.get("/healthz")
    assert found.status_code == 503, "no code is asked for"
    assert json.loads(found.text) == {"status": "silent", "seconds_since_contact": None}
