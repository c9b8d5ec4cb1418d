"""Three outcomes beside the primary one, by page, upload, API and database: a harmful arm is stopped in mid-phase.

Real processes: a coordinator, three services of sites and an agent that asks a database. The coordinator is killed just
after the report that proves the harm, and a site while its people wait for their outcomes.
"""

import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from tests.browser.live import Server
from tests.browser.ward import Ward

from parley.protocol import Report

pytestmark = pytest.mark.kills

STUDY = """
name = "Three doses"
arms = ["placebo", "good", "harmful"]
agents = ["Page", "Upload", "Api", "Database"]
control = "placebo"
tolerance = 0.1
delta = 0.2

[weights]
kind = "identity"

[noise]
kind = "binary"

[[outcomes]]
name = "bleeding"
question = "Did the participant bleed?"
kind = "binary"
role = "guardrail"
better = "lower"
margin = 0.1
delta = 0.1
delay = 7

[[outcomes]]
name = "alive"
kind = "binary"
role = "secondary"
better = "higher"

[[outcomes]]
name = "pain"
kind = "bounded"
low = 0
high = 10
role = "secondary"
better = "lower"
"""
NAMES = ("bleeding", "alive", "pain")
RATES = {"placebo": 0.1, "good": 0.95, "harmful": 0.9}
BLEEDS = {"placebo": 0.02, "good": 0.03, "harmful": 0.95}
ROWS = 4_000
OURS = {"Sec-Fetch-Site": "same-origin"}


def draw(chance, arm, place):
    """A reward and the other outcomes; of every tenth person one of them is missing."""
    pain = None if place % 10 == 0 else round(10 * chance.random(), 1)
    return [float(chance.random() < RATES[arm]), float(chance.random() < BLEEDS[arm]), 1.0, pain]


class Desk:
    """A site where people come, and whoever enters their outcomes, each in their own way."""

    def __init__(self, server, folder, study, name, chance):
        self.ward = Ward(server, folder / name, study=study, agent=name)
        self.name, self.chance, self.waiting, self.number = name, chance, {}, 0

    def enrol(self, most=10_000):
        """As many as the phase needs, or fewer; returns the arms that were given."""
        given = []
        for _ in range(min(most, self.ward.status()["to_assign"])):
            self.number += 1
            told = self.ward.assign(f"p-{self.number}")
            self.waiting[told["participant"]] = told["arm"]
            given.append(told["arm"])
        return given

    def enter(self):
        """The outcomes of all who wait for theirs."""
        people = {key: draw(self.chance, arm, place) for place, (key, arm) in enumerate(self.waiting.items())}
        if people:
            getattr(self, self.name.lower())(people)
        self.waiting = {}

    def page(self, people):
        for key, values in people.items():
            for name, value in zip(("", *NAMES), values, strict=True):
                typed = {"do": "outcome", "participant": key, "outcome": name}
                typed["reward"] = "missing" if value is None else f"{value:g}"
                self.posted(typed)

    def upload(self, people):
        lines = [
            ";".join([key, *("missing" if one is None else f"{one:g}" for one in row)]) for key, row in people.items()
        ]
        shown = self.posted({"do": "take", "table": "\n".join(["participant;reward;bleeding;alive;pain", *lines])})
        assert "The table was saved." in shown

    def posted(self, fields):
        answer = self.ward.line.post("/", data=fields, headers=OURS)
        assert answer.status_code == 200, answer.text
        return answer.text

    def api(self, people):
        rows = [
            {"participant": key, "outcome": name} | ({"missing": True} if value is None else {"reward": value})
            for key, values in people.items()
            for name, value in zip(("", *NAMES), values, strict=True)
        ]
        answer = self.ward.post("/v1/outcomes/bulk", outcomes=rows)
        assert answer.json()["refused"] == 0, answer.text


def database(folder, chance):
    """Rows of people as they came, arms at random; what is not known is said to be missing."""
    with sqlite3.connect(folder / "house.db") as house:
        house.execute("CREATE TABLE people (id INTEGER, arm TEXT, reward REAL, bled REAL, alive REAL, pain)")
        rows = []
        for place in range(ROWS):
            arm = chance.choice(list(RATES))
            reward, bled, alive, pain = draw(chance, arm, place)
            rows.append((place, arm, reward, bled, alive, "missing" if pain is None else pain))
        house.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    house.close()
    query = "SELECT id, arm, reward, bled, alive, pain FROM people ORDER BY id"
    (folder / "house.toml").write_text(f"url = 'sqlite:///{folder / 'house.db'}'\nquery = '{query}'\n")
    return f"sql:{folder / 'house.toml'}"


def agent(server, folder, study, source):
    token = folder / "token"
    token.write_text(server.issue("agent", study=study, agent="Database"))
    words = ["agent", "--server", server.url, "--study", study, "--token-file", str(token), "--source", source]
    words += ["--column", "bleeding", "bled", "--outbox", str(folder / "box")]
    with (folder / "agent.log").open("a") as log:
        return subprocess.Popen([sys.executable, "-m", "parley", *words], stdout=log, stderr=log)


def eventually(found, seconds=90):
    until = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return value


def test_a_harmful_arm_is_stopped_while_sites_are_in_mid_phase_and_the_server_is_killed(tmp_path):
    chance = random.Random(5)
    server = Server(tmp_path)
    study = server.create(STUDY, "doses")
    desks = [Desk(server, tmp_path, study, name, chance) for name in ("Page", "Upload", "Api")]
    asking = None
    try:
        for desk in desks:
            desk.ward.wait(lambda found: found["to_assign"] > 0)
        given = [arm for desk in desks[:2] for arm in desk.enrol(20)]
        assert given.count("harmful") > 2, "of two sites that are in mid-phase"
        asking = agent(server, tmp_path, study, database(tmp_path, chance))
        eventually(lambda: [one["agent"] for one in server.call("GET", f"studies/{study}")["reported"]])
        server.stop(signal.SIGKILL)
        server.start()
        stopped = eventually(lambda: server.call("GET", f"studies/{study}")["closed_arms"])
        assert stopped == ["harmful"], "by itself, after one report of four"
        for desk in desks:
            desk.ward.wait(lambda found: found["closed_arms"] == ["harmful"])
        desks[1].ward.stop(signal.SIGKILL)
        desks[1].ward.start()
        while server.call("GET", f"studies/{study}")["stage"] in ("running", "closing"):
            for desk in desks:
                assert "harmful" not in desk.enrol(), "nobody is given it any more"
                desk.enter()
        assert asking.wait(timeout=90) == 0, (tmp_path / "agent.log").read_text()[-2000:]
    finally:
        for desk in desks:
            desk.ward.stop()
        if asking is not None and asking.poll() is None:
            asking.kill()
            asking.wait()
    try:
        certificate = server.call("GET", f"studies/{study}/certificate")
        assert certificate["answers"] == {key: ["good"] for key in ("Page", "Upload", "Api", "Database")}
        bleeding, alive, pain = certificate["outcomes"]
        assert {row["arm"]: row["status"] for row in bleeding["arms"]}["harmful"] == "stopped"
        assert (alive["role"], pain["arms"]) == ("secondary", [])
        reports = server.call("GET", f"studies/{study}/phases/1/reports")["reports"]
        first = {one["report"]["agent"]: Report.from_json(one["report"]) for one in reports}
        for name in ("Page", "Upload"):
            report = first[name]
            assert report.counts[2] > 0, "who had it before the stop keeps the outcomes"
            for one in report.outcomes:
                assert [a + b for a, b in zip(one.counts, one.missing or (0, 0, 0), strict=True)] == list(report.counts)
        assert any(one.missing for one in first["Upload"].outcomes if one.name == "pain")
        log = tmp_path / "doses.ndjson"
        log.write_bytes(
            server.line.get(f"/v1/studies/{study}/export", headers={"Authorization": f"Bearer {server.token}"}).content
        )
        told = subprocess.run(
            [sys.executable, "-m", "parley", "verify", str(log)], capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stdout + told.stderr
    finally:
        server.stop()
