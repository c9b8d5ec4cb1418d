"""Agent, site and numeric commands with all taken away that Windows lacks, in real processes.

It stands in for Windows where there is none: see `without_posix` for what is taken away, and docs/install.md for what
this cannot show.
"""

import json
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest
from tests.agent.test_network import clean
from tests.coordinator.support import server_process

from parley.agent import Client
from parley.coordinator.access.tokens import prepare
from parley.protocol import StudyMessage
from parley.study import load_study

pytestmark = pytest.mark.servers
ROOT = Path(__file__).parents[2]
STUDY = """
name = "aux"
arms = ["A: usual", "B"]
agents = ["con", "Lyon: north?"]
delta = 0.2
[weights]
kind = "personalized"
alpha = 0.5
[noise]
kind = "binary"
[truth]
means = [[0.95, 0.9], [0.05, 0.1]]
"""


def start(folder, *arguments, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.agent.without_posix", *map(str, arguments)],
        cwd=ROOT,
        env=clean(PARLEY_OUTBOX=str(folder / "outbox"), **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def parley(folder, *arguments, status=0, **variables):
    running = start(folder, *arguments, **variables)
    out, err = running.communicate(timeout=180)
    assert running.returncode == status, out + err
    assert "Traceback" not in err
    return out


@pytest.fixture
def study(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path / "study.toml"


@contextmanager
def service(folder, **variables):
    running = start(folder, "site", "--port", "0", "--study", "aux", **variables)
    try:
        yield running, re.search(r"at (http\S+)", running.stdout.readline())[1]
    finally:
        running.terminate()
        running.communicate(timeout=30)


def ask(address, path, **body):
    request = urllib.request.Request(
        f"{address}/v1{path}", json.dumps(body).encode() if body else None, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_numeric_commands(study, tmp_path):
    bound = json.loads(parley(tmp_path, "bounds", study, "--json"))
    assert bound
    assert json.loads(parley(tmp_path, "simulate", study, "--replications", "2", "--json"))


def test_what_is_taken_away_is_gone():
    """What the other tests rely on."""
    words = """
        import os, signal, tests.agent.without_posix as without
        without.take_away()
        assert not hasattr(os, "pread") and not hasattr(signal, "SIGKILL")
        for module in ("fcntl", "resource", "pwd"):
            try:
                __import__(module)
            except ModuleNotFoundError:
                print(module)
        for name in ("a:b", "nul.txt", "a."):
            try:
                open(name, "w")
            except OSError:
                print(name)
    """
    command = [sys.executable, "-c", dedent(words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["fcntl", "resource", "pwd", "a:b", "nul.txt", "a."]


def test_a_whole_study_between_an_agent_and_a_site(study, tmp_path):
    """Names that Windows cannot have as files: of the study, of the agent, with a colon."""
    database = str(tmp_path / "parley.db")
    root = prepare(database, at="2026-01-01T00:00:00.000Z", name="root", new_token=False)[2]
    message = StudyMessage.of(load_study(study))
    with server_process(database) as (_, server), Client(server, root) as admin:
        admin.request("POST", "studies", json={"id": "aux", "study": message.to_json()})
        tokens = [
            admin.request("POST", "tokens", json={"role": "agent", "study": "aux", "agent": name})["token"]
            for name in message.agents
        ]
        own = {"PARLEY_SERVER": server, "PARLEY_TOKEN": tokens[0]}
        agent = start(tmp_path, "agent", "--study", "aux", "--source", f"simulate:{study}", **own)
        try:
            with service(tmp_path, PARLEY_SERVER=server, PARLEY_TOKEN=tokens[1]) as (running, address):
                number = 0
                while (status := ask(address, "/status"))["stage"] in ("running", "closing"):
                    if not status["to_assign"]:
                        time.sleep(0.1)  # for the next plan
                        continue
                    number += 1
                    given = ask(address, "/assignments", participant=f"p-{number}")
                    if given["counted"]:
                        # The second process takes its turns at the journal that the service holds.
                        words = ["site", "--study", "aux", "--agent", message.agents[1], "outcome", f"p-{number}"]
                        reward = int(given["arm"] == message.arms[0])
                        if number == 1:
                            parley(tmp_path, *words, reward)
                        else:
                            ask(address, "/outcomes", participant=f"p-{number}", reward=reward)
                assert status["stage"] == "finished"
                assert running.poll() is None
            out, err = agent.communicate(timeout=60)
            assert agent.returncode == 0, out + err
        finally:
            agent.kill()
        assert "is finished" in out
        told = parley(tmp_path, "verify", "aux", "--receipts", tmp_path / "outbox", **own | {"PARLEY_TOKEN": root})
        assert told.startswith("Sound.")
    folders = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "outbox").glob("*/*"))
    assert [name.rpartition("-")[0] for name in folders] == ["outbox/aux_/Lyon-north", "outbox/aux_/con"]
