"""A masked study at two sites with two strata each, under kill -9: through the page and through the API.

Nobody may be in two strata or get two kits, no kit may be given twice, every answer of a service must be in a journal,
and the coordinator's reports must equal the sums of the journals. Kits must be balanced between arms as planned.
"""

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx2
from tests.coordinator.support import House, study_message
from tools.chaos.forks import Forks
from tools.chaos.harness import free_port
from tools.chaos.site import PATIENCE, POINTS, RARE, reading

from parley.agent.client import Client
from parley.agent.reporting import site_of
from parley.agent.strata import Strata
from parley.coordinator.record import open_storage
from parley.coordinator.record.audit import verify_stored
from parley.totals import Totals

PLACES = (*POINTS, "site-unmasked")
FLAWS = ("lost", "two_strata", "two_kits", "kit_twice", "wrong_arm", "mismatched", "broken_chains", "server_errors")
SITES = {"Leeds": ("Leeds, old", "Leeds, young"), "York": ("York, old", "York, young")}
STRATA = ("old", "young")
ARMS = ("arm 1", "arm 2")
OURS = {"Sec-Fetch-Site": "same-origin"}
KITS = 1000
LATE = 10.0  # seconds for a named point to be reached: two strata start slowly on a busy machine


@dataclass
class Ward:
    """A site: its address, what its people were told, and what they entered."""

    place: str
    order: dict
    chance: random.Random
    kits: dict = field(default_factory=dict)  # key -> the kit in the first answer
    strata: dict = field(default_factory=dict)  # key -> the stratum of the first attempt to enrol
    said: dict = field(default_factory=dict)  # key -> the last acknowledged outcome
    unsure: dict = field(default_factory=dict)  # key -> outcomes that got no answer
    closed: set = field(default_factory=set)  # keys whose phase is reported
    unheard: list = field(default_factory=list)
    wrong: Counter = field(default_factory=Counter)
    answers: int = 0
    number: int = 0

    def __post_init__(self):
        url = f"http://127.0.0.1:{self.order['port']}"
        self.line = httpx2.Client(base_url=url, timeout=10, trust_env=False, headers=OURS)

    def act(self):
        """Do one thing that happens at a site; False if the service did not answer."""
        draw = self.chance.random()
        if self.unheard:
            return self.enrol(self.unheard.pop())
        waiting = [key for key, kit in self.kits.items() if kit and key not in self.said and key not in self.closed]
        if waiting and draw < 0.45:
            return self.outcome(self.chance.choice(waiting))
        if self.kits and draw < 0.6:
            return self.enrol(self.chance.choice(list(self.kits)))
        if self.kits and draw < 0.65:
            return self.unmask(self.chance.choice([key for key, kit in self.kits.items() if kit] or [None]))
        self.number += 1
        return self.enrol(f"{self.place}-{self.number:05}")

    def enrol(self, key):
        """Enrol a person through the page or the API, sometimes in another stratum than before."""
        stratum = self.chance.choice(STRATA)
        first = self.strata.setdefault(key, stratum)
        if key not in self.kits:
            stratum = first
        page = self.chance.random() < 0.5
        typed = {"participant": key, "stratum": stratum}
        answer = self._post("/", data=typed | {"do": "assign"}) if page else self._post("/v1/assignments", json=typed)
        if answer is None:
            self.unheard += [key] if key not in self.kits else []
            return False
        if not answer.is_success:  # another stratum, or no plan yet
            self.wrong["two_strata"] += key in self.kits and stratum == first
            return True
        self.wrong["two_strata"] += stratum != first
        told = re.search(r"<small>Kit</small> (\S+)</p>", answer.text) if page else None
        kit = (told[1] if told else "") if page else answer.json().get("kit", "")
        self.wrong["two_kits"] += self.kits.setdefault(key, kit) != kit
        return True

    def outcome(self, key):
        reward = float(self.chance.random() < 0.5)
        answer = self._post("/v1/outcomes", json={"participant": key, "reward": reward})
        if answer is None:
            self.unsure.setdefault(key, set()).add(reward)
            return False
        if answer.status_code == 409:
            self.closed.add(key)
            self.wrong["lost"] += not self.unsure.get(key)
        else:
            self.said[key] = reward
        return True

    def unmask(self, key):
        return key is None or self._post("/v1/unmask", json={"participant": key, "by": "a ward"}) is not None

    def status(self):
        return [self.line.get("/v1/status", params={"stratum": name}).json() for name in STRATA]

    def _post(self, path, **body):
        try:
            answer = self.line.post(path, **body)
        except httpx2.TransportError:
            return None
        self.answers += 1
        # Counted, not raised: an exception would end this thread unnoticed.
        self.wrong["server_errors"] += answer.status_code >= 500
        return answer


def list_kits(house, folder, place):
    """Write the list of kits before the service starts, with numbers that reveal nothing about the arm."""
    numbers = random.Random(place).sample(range(KITS), KITS)
    text = "kit,arm\n" + "".join(f"K{number:05},{ARMS[n % 2]}\n" for n, number in enumerate(numbers))
    clients = [Client(house.url, house.tokens["trial", agent]) for agent in SITES[place]]
    made = Strata(
        site_of(folder, client, study="trial", agent=agent) for client, agent in zip(clients, SITES[place], strict=True)
    )
    made.list_kits(text.encode(), "kits.csv")
    made.close()
    for client in clients:
        client.close()
    return {f"K{number:05}": ARMS[n % 2] for n, number in enumerate(numbers)}


def examine(house, folder, ward, kits):
    """Compare a site's journals with what people were told, and the coordinator's reports with the journals."""
    flaws, phases, balance = Counter(ward.wrong), 0, []
    known, given = {}, Counter()
    for agent in SITES[ward.place]:
        people, times = reading(folder, "trial", agent)
        flaws["two_kits"] += sum(count - 1 for count in times.values())
        flaws["two_strata"] += len(known.keys() & people.persons.keys())
        known |= people.persons
        for person in people.persons.values():
            given[person.kit] += bool(person.kit)
            arm = None if person.arm is None else people.phases[person.phase].plan.arms[person.arm]
            flaws["wrong_arm"] += bool(person.kit) and kits[person.kit] != arm
        for phase, book in people.phases.items():
            if book.full:
                balance.append(max(abs(a - b) for a, b in zip(book.assigned, book.plan.draws, strict=True)))
            if book.reported is None:
                continue
            phases += 1
            totals, report = Totals.of(people.rewards(phase)), house.admin.report("trial", phase, agent)
            flaws["mismatched"] += tuple(totals.sums.tolist()) != book.reported.sums
            flaws["mismatched"] += report is not None and report.sums != book.reported.sums
    flaws["kit_twice"] += sum(count > 1 for count in given.values())
    for key, kit in ward.kits.items():
        flaws["lost"] += key not in known or known[key].kit != kit
    for key, reward in ward.said.items():
        flaws["lost"] += known[key].reward not in {reward} | ward.unsure.get(key, set())
    return flaws, phases, balance


def run(db, folder, *, kills, seed, places=PLACES):
    """Kill the two services in turn, `kills` times in all; returns counts, including flaws."""
    chance, total, by_place = random.Random(seed), Counter(), Counter()
    storage = open_storage(db)
    house, launcher = House(storage), Forks("tools.chaos.site_launcher")
    try:
        agents = [agent for each in SITES.values() for agent in each]
        study = {"agents": tuple(agents), "site_of": ("Leeds", "Leeds", "York", "York"), "stratum_of": STRATA * 2}
        message = study_message(
            agents=4, arms=2, policy="evidence", noise={"kind": "bounded", "low": 0.0, "high": 1.0}, largest_gap=4.0,
            kits=True,
        )  # fmt: skip
        house.create(type(message).from_json(message.to_json() | study | {"arms": ARMS}))
        wards, kits = [], {}
        for place, strata in SITES.items():
            tokens = {agent: house.tokens["trial", agent] for agent in strata}
            kits[place] = list_kits(house, folder / place, place)
            order = {"server": house.url, "study": "trial", "strata": tokens, "folder": str(folder / place)}
            wards.append(Ward(place, order | {"port": free_port()}, chance))
        for number in range(kills):
            by_place[_one_life(launcher, wards[number % 2], chance, places[number % len(places)])] += 1
        for ward in wards:
            _last_life(launcher, ward)
            flaws, phases, balance = examine(house, folder / ward.place, ward, kits[ward.place])
            total += flaws
            total["people"] += len(ward.kits)
            total["acknowledged"] += ward.answers
            total["phases_reported"] += phases
            total["blocks"] += len(balance)
            total["unbalanced"] += sum(map(bool, balance))
            ward.line.close()
        found = verify_stored(house.storage, "trial")
        total["broken_chains"] += found is None or not found.sound
    finally:
        launcher.close()
        house.close()
        storage.close()
    counts = ("people", "acknowledged", "phases_reported", "blocks", "unbalanced")
    return {
        "kills": sum(by_place.values()),
        "kills_by_place": dict(sorted(by_place.items())),
        **{name: total[name] for name in (*counts, *FLAWS)},
    }


def _one_life(launcher, ward, chance, place):
    """Run a service from a start to a kill at a named point, or later; returns where it died."""
    pid = launcher.ask(**ward.order, kill_at=f"{place}:{1 if place in RARE else chance.randint(1, 6)}")["pid"]
    late, over = threading.Timer(LATE, os.kill, (pid, signal.SIGKILL)), threading.Event()
    late.start()

    def work():
        while not over.is_set():
            if not ward.act():
                time.sleep(0.05)

    working, begun = threading.Thread(target=work), time.monotonic()
    working.start()
    status = launcher.wait(pid)
    at_random = time.monotonic() - begun > LATE - 0.1
    over.set()
    working.join()
    late.cancel()
    assert os.WIFSIGNALED(status), f"the service ended by itself with {status}"
    return "at random" if at_random else place


def _last_life(launcher, ward):
    """Run a service without a kill until lost requests are repeated, outcomes entered and phases reported."""
    pid = launcher.ask(**ward.order, kill_at="")["pid"]
    until = time.monotonic() + PATIENCE
    try:
        while True:
            assert time.monotonic() < until, "not settled"
            waiting = [key for key, kit in ward.kits.items() if kit and key not in ward.said and key not in ward.closed]
            if ward.unheard:
                settled = ward.enrol(ward.unheard.pop())
            elif waiting:
                settled = ward.outcome(waiting[0])
            else:
                try:
                    found = ward.status()
                except httpx2.TransportError:
                    found = [{"coordinator": "silent"}]
                if all(one["coordinator"] == "connected" and (one["reported"] or one["to_assign"]) for one in found):
                    return
                settled = False
            if not settled:
                time.sleep(0.02)
    finally:
        os.kill(pid, signal.SIGKILL)
        launcher.wait(pid)
