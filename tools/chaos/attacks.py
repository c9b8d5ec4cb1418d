"""Denial-of-service attacks from the hostile trials, at the rate allowed to one token, and their effect on others.

Each attack runs for a while against a real server process with its usual limits. Meanwhile the agent of another study
asks for its plan and resends its report, and a client asks for `/healthz` on a new connection each time. Late answers
and a growing server are failures. Delays caused by the machine are not the server's fault: a bare process is asked at
the same time, and all limits are raised by its longest answer.
"""

import itertools
import json
import multiprocessing
import re
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
from tests.coordinator.support import report_of, server_process, study_message
from tests.served import Meanwhile
from tools.pages import table

from parley.agent.client import Client
from parley.coordinator.access.tokens import prepare

AGENT, HEALTH, GROWTH = 1.0, 0.5, 200  # limits: seconds, seconds, megabytes
EXCUSED = 0.25  # largest delay in seconds that the machine may add
TRIES = 3  # attempts of an attack, if the machine adds a longer delay
RATE, BURST = 50, 200  # requests per second, and at once, allowed to a token; without a token, a proxy sets limits
USUAL = {"PARLEY_RATE": RATE, "PARLEY_BURST": BURST}
LANES = 8  # threads of an attack


def memory(process):
    """Resident memory of a process, in megabytes."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


class Site:
    """A server with four studies and a token of every role. Prepared once; every attack gets a fresh process."""

    def __init__(self, url, token):
        self.clients, self.tokens = {}, {"administrator": token}
        self.at(url)
        admin = self.client(token)
        for study in ("target", "victim"):
            message = study_message(agents=2, arms=2, policy="uniform")
            admin.request("POST", "studies", json={"id": study, "study": message.to_json()})
            self.tokens[study] = self._issue("agent", study=study, agent="agent 1")
        large = study_message(agents=100, arms=200, policy="uniform", name="large")
        self.large = large.to_json()
        for study in ("large", "over"):
            admin.request("POST", "studies", json={"id": study, "study": self.large}, timeout=60)
        self._decide(large)
        admin.request("POST", "studies", "over", "cancel", json={"reason": "to have a certificate"}, timeout=60)
        for role in ("viewer", "analyst", "auditor"):
            self.tokens[role] = self._issue(role, name=role)
        client = self.client(self.tokens["target"])
        self.report = report_of(client.plan("target", "agent 1"), 0)
        client.send(self.report)

    def _decide(self, study):
        """Decide the first phase of a large study, so that its pages have content."""
        for name in ("large", "over"):
            for place, agent in enumerate(study.agents):
                with Client(self.url, self._issue("agent", study=name, agent=agent)) as client:
                    client.send(report_of(client.plan(name, agent), place))
            while self.client(self.tokens["administrator"]).status(name)["phase"] == 1:
                time.sleep(0.1)

    def _issue(self, role, **fields):
        admin = self.client(self.tokens["administrator"])
        return admin.request("POST", "tokens", json={"role": role, **fields})["token"]

    def at(self, url):
        """Use the server at this address from now on."""
        self.close()
        self.url = url
        self.host, self.port = re.fullmatch(r"http://([^:]+):(\d+)", url).groups()

    def client(self, token):
        return self.clients.setdefault(token, Client(self.url, token))

    def browser(self, role):
        """A signed-in client that sends the same headers with forms as a browser does."""
        headers = {"Sec-Fetch-Site": "same-origin"}
        browser = httpx.Client(base_url=self.url, timeout=30, follow_redirects=True, headers=headers)
        browser.post("/sign-in", data={"token": self.tokens[role]})
        return browser

    def connection(self):
        return socket.create_connection((self.host, int(self.port)), timeout=5)

    def close(self):
        while self.clients:
            self.clients.popitem()[1].close()


def form(role, text):
    """An attack that submits a study file in the form for new studies."""

    def prepared(site):
        browser = site.browser(role)
        return lambda: browser.post("/new", data={"study": text, "do": "check"})

    return prepared


def large_form(site):
    """An attack that submits the largest allowed form; its content is built once."""
    browser = site.browser("administrator")
    content = b"do=check&study=x+%3D+%27" + b"y" * 30_000_000 + b"%27"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return lambda: browser.post("/new", content=content, headers=headers)


def report(change, token="target"):
    """An attack that sends a report with a hostile change."""

    def prepared(site):
        client, good = site.client(site.tokens[token]), site.report.to_json()
        made = change(good)
        content = made if isinstance(made, bytes) else json.dumps(made).encode()
        path, headers = "/v1/studies/target/phases/1/reports/agent%201", {"Content-Type": "application/json"}
        return lambda: client._http.put(path, content=content, headers=headers)

    return prepared


def call(role, method, path, body=None):
    def prepared(site):
        client, headers = site.client(site.tokens[role]), {"Content-Type": "application/json"}
        return lambda: client._http.request(method, path, content=body, headers=headers, timeout=30)

    return prepared


def visit(role, *pages):
    """An attack that loads pages in a browser, one after the other."""

    def prepared(site):
        browser, turns = site.browser(role), itertools.count()
        return lambda: browser.get(pages[next(turns) % len(pages)])

    return prepared


def made_and_cancelled(site):
    """An attack that creates and cancels large studies, each with a plan, a state and a certificate to compute."""
    client, turns = site.client(site.tokens["administrator"]), itertools.count()

    def strike():
        name = f"study-{time.time_ns()}-{next(turns)}"
        client.request("POST", "studies", json={"id": name, "study": site.large}, timeout=30)
        client.request("POST", "studies", name, "cancel", json={"reason": "x"}, timeout=30)

    return strike


def raw(*parts, pause=0.0, hold=0):
    """An attack that sends raw bytes on new connections; `hold` of them are kept open in silence at a time."""

    def prepared(site):
        held = []

        def send():
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
CHUNKED = b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = [b"1\r\n.\r\n" * 10_000] * 110  # 6.6 MB
LINES = HEAD + b"X:y\r\n" * 40_000 + b"\r\n"
LOG = b"GET /v1/studies/large/log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n"
JUNK = b'{"study": {"rows": [' + b",".join([b"[" + b"0.12345678901234567," * 999 + b"1]"] * 1_500) + b"]}}"
FORMS = {  # refused before the database is asked for anything but the identity
    "a viewer's form for 6,000 agents": form("viewer", "arms = 2\nagents = 6000"),
    "an administrator's form for 6,000 agents": form("administrator", "arms = 2\nagents = 6000"),
    "a key with 20,000 dots": form("administrator", "a" + ".a" * 20_000 + " = 1"),
    "a number of 5,000 digits": form("administrator", "arms = " + "1" * 5_000),
    "a list 5,000 deep": form("administrator", "arms = " + "[" * 5_000),
    "wrong values": report(lambda good: good | {"counts": ["x"] * 180_000}),
    "unknown keys": report(lambda good: good | {f"k{number}": 1 for number in range(60_000)}),
    "half a million lists": report(lambda _: b"[" + b"[]," * 340_000 + b"1]"),
    "a form of 30 MB": large_form,
    "30 MB that are no study": call("administrator", "POST", "/v1/studies", JUNK),
}
NAMELESS = {  # without a token, so that no rate limit per token applies
    "endless headers": raw(HEAD, *[b"X: " + b"y" * 1000 + b"\r\n"] * 2_000),
    "endless addresses": raw(b"GET /", *[b"a" * 100_000] * 20),
    "chunks of a byte": raw(CHUNKED, *CHUNKS),
    "chunks of a byte, by GET": raw(CHUNKED.replace(b"POST", b"GET"), *CHUNKS),
    "40,000 short headers at once": raw(*[LINES] * 20),
    "headers one by one": raw(HEAD, *[b"X: y\r\n"] * 2_000),
    "segments of a byte": raw(*(bytes([byte]) for byte in LINES[:5_000])),
    "pipelined requests": raw(*[(HEAD + b"\r\n") * 1_000] * 10),
    "half-sent requests": raw(HEAD, hold=300),
    "nothing sent at all": raw(hold=300),
}
DEEP = {  # requests that need work by the database
    "conflicts of 40,000 counts": report(long_lists),
    "verifications": call("analyst", "POST", "/v1/studies/large/verify"),
    "previews of a freeze": call("analyst", "GET", "/v1/studies/large/agents/agent%201/freeze"),
    "large answers": call("analyst", "GET", "/v1/studies/large/history?explain=true"),
    "findings": call("analyst", "GET", "/v1/studies/large/findings"),
    "unread answers": raw(LOG, hold=200),
    "large pages": visit("auditor", *(f"/studies/over{page}" for page in ("", "/answer", "/report", "/audit"))),
    "large studies made and cancelled": made_and_cancelled,
}
ATTACKS = FORMS | NAMELESS | DEEP


class Watcher(Meanwhile):
    """Sends its requests in turn, again and again, and records the longest response time."""

    def __init__(self, *questions):
        self.questions, self.longest, self.asked, self.troubles = itertools.cycle(questions), 0.0, 0, []
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            begun = time.monotonic()
            try:
                next(self.questions)()
            except Exception as error:  # counted and reported
                self.troubles.append(f"{type(error).__name__}: {error}"[:150])
            self.longest, self.asked = max(self.longest, time.monotonic() - begun), self.asked + 1

    def stop(self):
        self.over.set()


class Allowed:
    """Limits attacks to the rate of a token: a burst, then so many per second. Without a token there is no burst."""

    def __init__(self, burst):
        self.left, self.since, self.lock = float(burst), time.monotonic(), threading.Lock()

    def wait(self):
        while True:
            with self.lock:
                now = time.monotonic()
                self.left, self.since = self.left + (now - self.since) * RATE, now
                if self.left >= 1:
                    self.left -= 1
                    return
            time.sleep(0.01)


def assault(site, attack, seconds, burst, told):
    """Run the attackers; in a separate process, so that they do not delay the watchers."""
    site.clients = {}  # connections are not shared with the parent
    strike, strikes, until = attack(site), [0] * LANES, time.monotonic() + seconds
    allowed = Allowed(burst)

    def lane(number):
        while time.monotonic() < until:
            allowed.wait()
            with suppress(Exception):  # refusals and resets are expected; only the effect on others counts
                strike()
            strikes[number] += 1

    lanes = [threading.Thread(target=lane, args=(number,), daemon=True) for number in range(LANES)]
    for thread in lanes:
        thread.start()
    time.sleep(seconds)
    told.put(sum(strikes))


OK = b"HTTP/1.1 200 OK\r\n\r\n"


def bare(listening):
    """A server that answers at once; any delay is due to the machine."""
    while True:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(1000)
            connection.sendall(OK)


def healthy(connection):
    """Ask for `/healthz` on a connection."""
    with connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        if b" 200 " not in connection.recv(100):
            raise RuntimeError("no 200")


def endure(site, process, attack, seconds, burst=BURST):
    """Run an attack; returns its effect on others, and the delay that the machine itself added."""
    client = site.client(site.tokens["victim"])
    plan = client.plan("victim", "agent 1")
    mine = report_of(plan, 0)

    def asks():
        client.plan("victim", "agent 1")

    def reports():
        client.send(mine)

    before = peak = memory(process)
    told = multiprocessing.get_context("fork").Queue()
    attackers = multiprocessing.get_context("fork").Process(target=assault, args=(site, attack, seconds, burst, told))
    attackers.start()
    listening = socket.create_server(("127.0.0.1", 0))
    control = multiprocessing.get_context("fork").Process(target=bare, args=(listening,), daemon=True)
    control.start()

    def machine():
        healthy(socket.create_connection(listening.getsockname(), timeout=5))

    watchers = Watcher(asks, reports), Watcher(lambda: healthy(site.connection())), Watcher(machine)
    with watchers[0] as answered, watchers[1] as well, watchers[2] as paused:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            peak = max(peak, memory(process))
            time.sleep(0.1)
    strikes = told.get(timeout=120)
    attackers.kill()  # no more answers are needed
    attackers.join()
    control.kill()
    listening.close()
    return {
        "strikes": strikes, "agent": answered.longest, "health": well.longest, "grown": peak - before,
        "machine": paused.longest, "troubles": answered.troubles + well.troubles + paused.troubles,
    }  # fmt: skip


def run(seconds, databases, attacks=None):
    """Run every attack for `seconds` on every database; returns a line for each, and the failures."""
    lines = []
    for database, address in databases.items():
        token = prepare(address, at="2026-01-01T00:00:00.000Z")[2]
        with server_process(address) as (_, url):
            site = Site(url, token)
        for name, attack in (attacks or ATTACKS).items():
            for _ in range(TRIES):
                with server_process(address, **USUAL) as (process, url):
                    site.at(url)
                    found = endure(site, process, attack, seconds, 1 if name in NAMELESS else BURST)
                    site.close()
                line = _line(name, database, round(seconds), found)
                if not line["wrong"] or found["machine"] <= EXCUSED:
                    break
            lines.append(line)
            print("  " + told(lines[-1]), file=sys.stderr, flush=True)
    return {
        "seconds": int(seconds),
        "attacks": len({line["attack"] for line in lines}),
        "longest_wait_of_an_agent_in_ms": max(line["agent_ms"] for line in lines),
        "longest_wait_for_healthz_in_ms": max(line["healthz_ms"] for line in lines),
        "largest_growth_in_MB": max(line["grown_MB"] for line in lines),
        "lines": lines,
        "failures": [f"{line['attack']} ({line['database']}): {line['wrong']}" for line in lines if line["wrong"]],
    }


def _line(name, database, seconds, found):
    excused = min(found["machine"], EXCUSED)
    most = {"agent": AGENT + excused, "health": HEALTH + excused, "grown": GROWTH}
    wrong = [f"{what} {found[what]:.2f}, at most {most[what]:.2f}" for what in most if found[what] > most[what]]
    wrong += found["troubles"][:2]
    return {
        "attack": name, "database": database, "seconds": seconds, "requests": found["strikes"],
        "agent_ms": round(1000 * found["agent"]), "healthz_ms": round(1000 * found["health"]),
        "machine_ms": round(1000 * found["machine"]), "grown_MB": round(found["grown"]), "wrong": "; ".join(wrong),
    }  # fmt: skip


def told(line):
    verdict = f"NO: {line['wrong']}" if line["wrong"] else "as promised"
    return (
        f"{line['attack']:40s} {line['database']:10s} {line['seconds']:3d} s {line['requests']:6,} requests; an agent "
        f"waited {line['agent_ms']:5,} ms, /healthz {line['healthz_ms']:4,} ms, a bare process {line['machine_ms']:3,} "
        f"ms; {line['grown_MB']:+4d} MB; {verdict}"
    )


def lines_table(lines):
    """The lines as a Markdown table."""
    head = ("attack", "database", "s", "requests", "agent, ms", "/healthz, ms", "bare process, ms", "MB", "as promised")
    rows = []
    for line in lines:
        numbers = [
            f"{line[key]:,}" for key in ("seconds", "requests", "agent_ms", "healthz_ms", "machine_ms", "grown_MB")
        ]
        verdict = f"**no**: {line['wrong']}" if line["wrong"] else "yes"
        rows.append([line["attack"], line["database"], *numbers, verdict])
    return table(head, rows)
