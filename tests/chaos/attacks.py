"""Requests that a hostile trial sent to stop the server, by one token at the allowed rate, and what others felt of it.

Each attack goes on for a while against a real server process with its usual limits. Meanwhile the agent of another
study asks for its plan and sends its report again, and somebody asks `/healthz` on a new connection each time. Who is
answered late, and a server that grows, are failures.
"""

import json
import multiprocessing
import re
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2 as httpx
from tests.coordinator.support import report_of, server_process, study_message

from parley.agent.client import Client
from parley.coordinator.access.bootstrap import prepare

AGENT, HEALTH, GROWTH = 1.0, 0.5, 200  # seconds, seconds, megabytes
RATE = 50  # requests a second, what a token is allowed; those without one are no faster here
USUAL = {"PARLEY_RATE": RATE, "PARLEY_BURST": 200}
LANES = 8  # threads of an attack


def memory(process):
    """Megabytes that a process holds."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


class Site:
    """A server with two studies, and a token of every role."""

    def __init__(self, url, token):
        self.url = url
        self.host, self.port = re.fullmatch(r"http://([^:]+):(\d+)", url).groups()
        self.clients, self.tokens = {}, {"administrator": token}
        self.admin = self.client(token)
        for study in ("target", "victim"):
            message = study_message(agents=2, arms=2, policy="uniform")
            self.admin.request("POST", "studies", json={"id": study, "study": message.to_json()})
            self.tokens[study] = self._issue("agent", study=study, agent="agent 1")
            self.tokens[f"{study} 2"] = self._issue("agent", study=study, agent="agent 2")
        large = study_message(agents=100, arms=200, policy="uniform", name="large")
        self.admin.request("POST", "studies", json={"id": "large", "study": large.to_json()}, timeout=60)
        for role in ("viewer", "analyst", "auditor"):
            self.tokens[role] = self._issue(role, name=role)
        plan = self.client(self.tokens["target"]).plan("target", "agent 1")
        self.report = report_of(plan, 0)
        self.client(self.tokens["target"]).send(self.report)

    def _issue(self, role, **fields):
        return self.admin.request("POST", "tokens", json={"role": role, **fields})["token"]

    def client(self, token):
        return self.clients.setdefault(token, Client(self.url, token))

    def browser(self, role):
        """Signed in: a client with its session, and what its forms must carry."""
        browser = httpx.Client(base_url=self.url, timeout=30, follow_redirects=True)
        token = re.search(r'name="csrf" value="([^"]+)"', browser.get("/sign-in").text)[1]
        browser.post("/sign-in", data={"csrf": token, "token": self.tokens[role]})
        return browser, re.search(r'name="csrf" value="([^"]+)"', browser.get("/").text)[1]

    def connection(self):
        return socket.create_connection((self.host, int(self.port)), timeout=5)

    def close(self):
        for client in self.clients.values():
            client.close()


def form(role, text):
    """A study file in the form for new studies, again and again."""

    def prepared(site):
        browser, token = site.browser(role)
        return lambda: browser.post("/new", data={"csrf": token, "study": text, "do": "check"})

    return prepared


def report(change, token="target"):
    """A report with something hostile in it."""

    def prepared(site):
        client, good = site.client(site.tokens[token]), site.report.to_json()
        made = change(good)
        content = made if isinstance(made, bytes) else json.dumps(made).encode()
        path, headers = "/v1/studies/target/phases/1/reports/agent%201", {"Content-Type": "application/json"}
        return lambda: client._http.put(path, content=content, headers=headers)

    return prepared


def call(role, method, path):
    def prepared(site):
        client = site.client(site.tokens[role])
        return lambda: client._http.request(method, path, timeout=30)

    return prepared


def raw(*parts, pause=0.0, hold=0):
    """Bytes on connections of their own; `hold` of them are kept open at a time, without another word."""

    def prepared(site):
        held = []

        def send():
            time.sleep(LANES / RATE)
            connection = site.connection()
            with suppress(OSError):
                for part in parts:
                    connection.sendall(part.replace(b"TOKEN", site.tokens["auditor"].encode()))
                    time.sleep(pause)
            held.append(connection)
            while len(held) > hold:
                with suppress(IndexError):
                    held.pop(0).close()

        return send

    return prepared


def long_lists(good):
    return good | {"counts": [1] * 40_000, "sums": [0.5] * 40_000, "squares": [0.5] * 40_000}


HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
ATTACKS = {
    "a viewer's form for 6,000 agents": form("viewer", "arms = 2\nagents = 6000"),
    "an administrator's form for 6,000 agents": form("administrator", "arms = 2\nagents = 6000"),
    "a key with 20,000 dots": form("administrator", "a" + ".a" * 20_000 + " = 1"),
    "a number of 5,000 digits": form("administrator", "arms = " + "1" * 5_000),
    "a list 5,000 deep": form("administrator", "arms = " + "[" * 5_000),
    "wrong values": report(lambda good: good | {"counts": ["x"] * 180_000}),
    "unknown keys": report(lambda good: good | {f"k{number}": 1 for number in range(60_000)}),
    "conflicts of 40,000 counts": report(long_lists),
    "verifications": call("analyst", "POST", "/v1/studies/large/verify"),
    "large answers": call("analyst", "GET", "/v1/studies/large/history?explain=true"),
    "endless headers": raw(HEAD, *[b"X: " + b"y" * 1000 + b"\r\n"] * 2_000),
    "endless addresses": raw(b"GET /", *[b"a" * 100_000] * 20),
    "half-sent requests": raw(HEAD, hold=300),
    "nothing sent at all": raw(hold=300),
    "unread answers": raw(
        b"GET /v1/studies/large/log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n", hold=200
    ),
}


class Watcher:
    """Asks again and again, and keeps how long the longest answer took."""

    def __init__(self, ask):
        self.ask, self.longest, self.asked, self.troubles = ask, 0.0, 0, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.wait(0.05):
            begun = time.monotonic()
            try:
                self.ask()
            except Exception as error:  # counted, and shown
                self.troubles.append(f"{type(error).__name__}: {error}"[:150])
            self.longest, self.asked = max(self.longest, time.monotonic() - begun), self.asked + 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def assault(site, attack, seconds, told):
    """The attackers, in a process of their own: nobody else shall wait for them here."""
    site.clients = {}  # connections are not shared with the parent
    strike, strikes, until = attack(site), [0] * LANES, time.monotonic() + seconds

    def lane(number):
        while time.monotonic() < until:
            with suppress(Exception):  # refused, cut off: what the others feel is what counts
                strike()
            strikes[number] += 1

    lanes = [threading.Thread(target=lane, args=(number,), daemon=True) for number in range(LANES)]
    for thread in lanes:
        thread.start()
    time.sleep(seconds)
    told.put(sum(strikes))


def endure(site, process, attack, seconds):
    """What the others felt while an attack went on."""
    client = site.client(site.tokens["victim"])
    plan = client.plan("victim", "agent 1")
    mine = report_of(plan, 0)

    def agent():
        client.plan("victim", "agent 1")
        client.send(mine)

    def health():
        with site.connection() as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if b" 200 " not in connection.recv(100):
                raise RuntimeError("no 200")

    before = peak = memory(process)
    told = multiprocessing.get_context("fork").Queue()
    attackers = multiprocessing.get_context("fork").Process(target=assault, args=(site, attack, seconds, told))
    attackers.start()
    with Watcher(agent) as answered, Watcher(health) as well:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            peak = max(peak, memory(process))
            time.sleep(0.1)
    strikes = told.get(timeout=120)
    attackers.join()
    return {
        "strikes": strikes, "agent": answered.longest / 2, "health": well.longest, "grown": peak - before,
        "troubles": answered.troubles + well.troubles,
    }  # fmt: skip


def run(seconds, attacks=None):
    """Every attack for so many seconds; the figures by attack, and the failures."""
    figures, failures = {}, []
    for name, attack in (attacks or ATTACKS).items():
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            address = str(Path(folder) / "parley.db")
            token = prepare(address)[2]
            process, url = stack.enter_context(server_process(address, **USUAL))
            site = Site(url, token)
            stack.callback(site.close)
            found = endure(site, process, attack, seconds)
        figures[name] = found
        print(f"  {name}: {found['strikes']:,} requests; an agent waited {found['agent']:.2f} s, /healthz "
              f"{found['health']:.2f} s; {found['grown']:+.0f} MB", file=sys.stderr, flush=True)  # fmt: skip
        for what, most in (("agent", AGENT), ("health", HEALTH), ("grown", GROWTH)):
            if found[what] > most:
                failures.append(f"{name}: {what} {found[what]:.2f}, at most {most}")
        failures += [f"{name}: {trouble}" for trouble in found["troubles"][:2]]
    return {
        "seconds": int(seconds),
        "attacks": len(figures),
        "longest_wait_of_an_agent_in_ms": round(1000 * max(found["agent"] for found in figures.values())),
        "longest_wait_for_healthz_in_ms": round(1000 * max(found["health"] for found in figures.values())),
        "largest_growth_in_MB": round(max(found["grown"] for found in figures.values())),
        "failures": failures,
    }
