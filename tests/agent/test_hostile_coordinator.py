"""What answers instead of a coordinator, or a coordinator that wants harm: an agent neither draws nor obeys."""

import os
import resource
import subprocess
import sys
import time
import zlib

import pytest
from tests.agent.test_client import house  # noqa: F401
from tests.agent.test_worker import Coordinator, Source, plan
from tests.coordinator.support import study_message
from tests.served import Served, Silent

from parley.agent import Client
from parley.agent.outbox import Outbox
from parley.agent.worker import Worker
from parley.errors import InvalidInput, Unreachable, WrongPlan


class _Answering(Silent):
    """Every request gets the server's `answer`."""

    def do_GET(self):
        self.send_response(200)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for part in self.server.answer:
                self.wfile.write(part)
        except ConnectionError:
            self.server.cut_off = True


@pytest.fixture
def answering():
    with Served(_Answering) as served:
        served.server.url, served.server.cut_off = served.url, False
        yield served.server


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def ask(url):
    with Client(url, "t") as client:
        client.plan("s", "a")


def gzip_bomb():
    """400 KB that become 400 MB of spaces: one block, packed once, stands there 400 times."""
    pack, spaces, crc = zlib.compressobj(9, wbits=-zlib.MAX_WBITS), b" " * 2**20, 0
    block = pack.compress(spaces) + pack.flush(zlib.Z_FULL_FLUSH)
    for _ in range(400):
        crc = zlib.crc32(spaces, crc)
    size = 400 * len(spaces)
    head, tail = b"\x1f\x8b\x08" + bytes(6) + b"\xff", crc.to_bytes(4, "little") + size.to_bytes(4, "little")
    return head + 400 * block + pack.flush() + tail


def test_a_gzip_bomb_is_not_unpacked(answering):
    bomb = gzip_bomb()
    answering.headers, answering.answer = {"Content-Encoding": "gzip", "Content-Length": str(len(bomb))}, [bomb]
    before = peak()
    with pytest.raises(Unreachable, match="compressed as 'gzip'"):
        ask(answering.url)
    assert peak() - before < 200 * 2**20


def test_an_endless_answer_is_not_kept(answering, monkeypatch):
    monkeypatch.setattr("parley.agent.client.LONGEST_ANSWER", 2**20)
    answering.headers, answering.answer = {}, (b" " * 2**16 for _ in range(10**9))
    with pytest.raises(Unreachable, match="longer than"):
        ask(answering.url)


def test_a_plan_of_phase_0_is_no_plan():
    with pytest.raises(InvalidInput, match="a phase from 1"):
        plan(phase=0)
    assert plan(phase=0, draws=None, stage="finished").over, "of a study that ended before it began"


def test_a_plan_of_more_draws_than_a_machine_holds_is_not_drawn(tmp_path):
    class Greedy(Coordinator):
        def plan(self, study, agent, *, after=0, wait=0):
            return plan(draws=(10**15, 1))

    source = Source()
    with Outbox(tmp_path, study="s", agent="a") as box:
        with pytest.raises(WrongPlan, match=r"1,000,000,000,000,001 rewards.*--most-draws"):
            Worker(Greedy(), box, source).step()
        assert source.calls == []
        Worker(Coordinator(), box, source, most_draws=3).step()  # its plan asks for 3
        assert source.calls == [1]


@pytest.mark.servers
def test_an_agent_without_a_file_descriptor_for_a_while_loses_nothing(house, tmp_path):  # noqa: F811
    """It ended, and what it had drawn was lost: the next start refused to draw again."""
    house.create(study_message(agents=1, arms=2, policy="uniform"))
    (tmp_path / "token").write_text(house.tokens["trial", "agent 1"])
    (tmp_path / "slow.py").write_text(
        "import os, time\n"
        "def draw(arm, count):\n"
        "    os.mkdir('drawing') if not os.path.exists('drawing') else None\n"
        "    while not os.path.exists('go'):\n"
        "        time.sleep(0.05)\n"
        "    return [1.0] * count\n"
    )
    words = [
        "agent",
        "--server",
        house.url,
        "--study",
        "trial",
        "--token-file",
        "token",
        "--source",
        "python:slow:draw",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "parley", *words],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "drawing").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (4, hard))
        (tmp_path / "go").touch()
        time.sleep(3)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, hard))
        while house.admin.status("trial")["phase"] < 2 and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert process.poll() is None, process.stdout.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
