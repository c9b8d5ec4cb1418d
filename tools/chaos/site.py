"""A site's service under kill -9: people arrive, outcomes are entered and corrected, and the service is killed.

Nobody may get two arms, every answer of the service must be in the journal, no outcome may be lost or counted twice,
and the coordinator's reports must equal the sums of the journal.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx2
from tests.coordinator.support import House, study_message
from tools.chaos.forks import Forks
from tools.chaos.harness import free_port

from parley.agent.journal import Assigned, Journal
from parley.agent.outbox import agent_folder
from parley.agent.outcomes import DrawnOutcome
from parley.agent.people import People
from parley.coordinator.record import open_storage
from parley.coordinator.record.audit import verify_stored
from parley.covariates import adjusted_rewards
from parley.protocol.messages import BetweenTotals, OutcomeTotals
from parley.totals import Totals

POINTS = (
    "journal-before-write",
    "journal-half-written",
    "journal-written",
    "journal-synced",
    "site-before-answer",
    "site-phase-closed",
    "report-kept",
    "report-sent",
)
FLAWS = ("lost", "duplicated", "mismatched", "broken_chains")
A_STUDY = 25  # kills per study; then a new study with a new journal begins
RARE = ("site-phase-closed", "report-kept", "report-sent")  # reached once per phase
PATIENCE = 180.0
LATE = 2.0  # seconds for a named point to be reached


@dataclass
class Ledger:
    """What people at the site were told, and what they entered, whether or not it was acknowledged."""

    arms: dict = field(default_factory=dict)  # key -> the answer that was given first
    # Keys below: a person's key and the name of an outcome, which is empty for the reward.
    said: dict = field(default_factory=dict)  # -> the last acknowledged value
    unsure: dict = field(default_factory=dict)  # -> later values that got no answer
    refused: set = field(default_factory=set)  # nothing acknowledged, and the phase is already reported
    voided: set = field(default_factory=set)  # people whose assignment was voided
    wrong: Counter = field(default_factory=Counter)
    answers: int = 0


class Crowd:
    """People who arrive and whose outcomes follow; every answer is compared with the one before."""

    def __init__(self, url, chance, ledger, *, exact, outcomes=(), covariate=False, phases=0):
        self.url, self.chance, self.ledger, self.exact, self.number = url, chance, ledger, exact, 0
        self.covariate, self.phases = covariate, phases  # phases to start before the study ends
        self.outcomes = ("", *outcomes)
        self.unheard = []  # people whose assignment got no answer; it is requested again
        self.voiding = []  # people whose voiding got no answer; it is sent again
        self.line = httpx2.Client(base_url=url, timeout=10, trust_env=False)

    def close(self):
        self.line.close()

    def act(self):
        """Do one thing that happens at a site; False if the service did not answer."""
        if self.unheard:
            return self.assign(self.unheard.pop())
        if self.voiding:
            return self.void(self.voiding.pop())
        counted = self.slots()
        waiting = [slot for slot in counted if slot not in self.ledger.said]
        draw = self.chance.random()
        if draw < 0.15 and self.ledger.arms:
            return self.assign(self.chance.choice(list(self.ledger.arms)))
        fresh = [key for key, name in waiting if not name and not self._heard_of(key)]
        if fresh and (draw < 0.25 or not self.ledger.voided):
            return self.void(self.chance.choice(fresh))
        if waiting and (draw < 0.6 or not self._needed()):
            return self.outcome(*self.chance.choice(waiting))
        if counted and draw < 0.7:
            return self.outcome(*self.chance.choice(counted[-12:]))  # a correction, if it is still possible
        self.number += 1
        return self.assign(f"p-{self.number:05}")

    def slots(self):
        """All outcomes to enter for people who count, as (key, name of the outcome)."""
        gone = {*self.ledger.voided, *self.voiding}
        told = [key for key, told in self.ledger.arms.items() if told["counted"] and key not in gone]
        return [(key, name) for key in told for name in self.outcomes]

    def _heard_of(self, key):
        """Whether any outcome of a person was sent, acknowledged or not."""
        slots = [(key, name) for name in self.outcomes]
        return any(slot in self.ledger.said or slot in self.ledger.unsure for slot in slots)

    def void(self, key):
        answer = self._post("/v1/voids", participant=key, reason="the wrong person", who="a nurse")
        if answer is None:
            self.voiding.append(key)
            return False
        if answer.is_success:
            self.ledger.voided.add(key)
        return True  # else the person's phase is already reported, with nobody in reserve

    def _needed(self):
        try:
            standing = self.line.get("/v1/status").json()
            return standing["to_assign"] > 0 or standing["takes_ahead"]
        except httpx2.TransportError:
            return False

    def assign(self, key):
        known = {"covariate": age(key)} if self.covariate else {}
        answer = self._post("/v1/assignments", participant=key, **known)
        if answer is None:
            self.unheard.append(key)
            return False
        if answer.status_code == 409:  # no plan yet
            return True
        told = answer.json()
        before = self.ledger.arms.setdefault(key, told)
        self.ledger.wrong["duplicated"] += (before["arm"], before["counted"]) != (told["arm"], told["counted"])
        return True

    def outcome(self, key, name=""):
        slot, named = (key, name), {"outcome": name} if name else {}
        gone = self.chance.random() < 0.03
        reward = None if gone else float(self.chance.random() < 0.5)
        answer = self._post("/v1/missing", participant=key, **named) if gone else self._post(
            "/v1/outcomes", participant=key, reward=reward, **named
        )  # fmt: skip
        if answer is None:
            self.ledger.unsure.setdefault(slot, set()).add(reward)
            return False
        if answer.status_code == 409:  # the person's phase is reported: the last value stays
            # With exact counts a phase does not wait for people in reserve; `examine` checks that every slot was
            # reported.
            if slot not in self.ledger.said and not self.ledger.unsure.get(slot) and not self.exact:
                self.ledger.wrong["lost"] += 1
            return True
        assert answer.is_success, answer.text
        self.ledger.said[slot] = reward
        self.ledger.unsure.pop(slot, None)
        return True

    def _post(self, path, **body):
        try:
            answer = self.line.post(path, json=body)
        except httpx2.TransportError:
            return None
        self.ledger.answers += 1
        return answer


def age(key):
    """The age of a person, which is known before the arm and never changes."""
    return 20.0 + 7 * int(key[2:]) % 60


def reading(folder, study, agent):
    """Read the journal from disk: its state, and how often each person was assigned."""
    people, times = People(), Counter()

    def take(entry, at):
        if isinstance(entry, Assigned):
            times[entry.participant] += 1
        people.take(entry, at)

    journal = Journal(agent_folder(folder, study=study, agent=agent) / "journal", take)
    with journal.turn():
        pass
    journal.close()
    return people, times


def _totals(people, book):
    """The totals of the people in a book, adjusted like the phase to which they were assigned."""
    rewards, xs = people.pairs(book)
    theta, x0 = book.plan.theta, book.plan.x0
    return Totals.of(rewards if theta is None else adjusted_rewards(rewards, xs, theta, x0))


def examine(house, folder, study, agent, ledger, *, exact):
    """Compare the journal with what people were told, and the coordinator's reports with the journal."""
    flaws = Counter(dict.fromkeys(FLAWS, 0)) + ledger.wrong
    people, times = reading(folder, study, agent)
    flaws["duplicated"] += sum(count - 1 for count in times.values())
    for key, told in ledger.arms.items():
        person = people.persons.get(key)
        arm = None if person is None or person.arm is None else people.phases[person.phase].plan.arms[person.arm]
        counted = told["counted"] and key not in ledger.voided
        flaws["lost"] += person is None or (arm, person.counted) != (told["arm"], counted)
    for (key, name), reward in ledger.said.items():
        flaws["lost"] += people[key].value(name) not in {reward} | ledger.unsure.get((key, name), set())
    # With exact counts a phase does not wait for people in reserve, so they may have no outcome.
    for key, name in ledger.refused:
        known, unsure = people[key].value(name), ledger.unsure.get((key, name), set())
        flaws["lost"] += known not in (unsure | {None} if exact or not unsure else unsure)
    for phase, book in people.phases.items():
        given = Counter(people[key].arm for key in book.keys)
        flaws["mismatched"] += [given[arm] for arm in range(len(book.plan.arms))] != book.assigned
        if book.reported is None:
            continue
        gone = [one for one in people.persons.values() if one.phase == phase and one.voided]
        flaws["mismatched"] += book.reported.voided != len(gone)
        flaws["lost"] += exact and list(book.reported.counts) != list(book.plan.draws)
        report = house.admin.report(study, phase, agent)
        theta, x0 = book.plan.theta, book.plan.x0
        totals = _totals(people, book)
        flaws["mismatched"] += tuple(totals.counts.tolist()) != book.reported.counts
        flaws["mismatched"] += report is not None and (report.theta, report.x0) != (theta, x0)
        if theta is not None:  # it must follow from earlier phases, whenever it is computed
            flaws["lost"] += any(people[key].x != age(key) for key in book.keys)
            flaws["mismatched"] += phase > 1 and (theta, x0) == (0.0, None)
        flaws["mismatched"] += tuple(totals.sums.tolist()) != book.reported.sums
        flaws["mismatched"] += report is not None and (report.counts, report.sums, report.outcomes) != (
            book.reported.counts, book.reported.sums, book.reported.outcomes,
        )  # fmt: skip
        flaws["mismatched"] += book.reported.ahead != (tuple(book.ahead.assigned) if book.ahead.keys else ())
        early = None
        if book.between is not None:
            kept = _totals(people, book.between)
            drawn = [DrawnOutcome.of(one.name, people.others(book.between, one.name)) for one in book.reported.outcomes]
            others = tuple(OutcomeTotals.of(one.name, one.totals, one.missing) for one in drawn)
            early = BetweenTotals.of(kept, tuple(book.between.missing), others)
            flaws["lost"] += sum(kept.counts) + sum(book.between.missing) != len(book.between.keys)
        flaws["mismatched"] += book.reported.between != early
        flaws["mismatched"] += report is not None and (report.ahead, report.between) != (book.reported.ahead, early)
        for one in book.reported.outcomes:
            drawn = DrawnOutcome.of(one.name, people.others(book, one.name))
            flaws["mismatched"] += OutcomeTotals.of(one.name, drawn.totals, drawn.missing) != one
    found = verify_stored(house.storage, study)
    flaws["broken_chains"] += found is None or not found.sound
    reported = [book for book in people.phases.values() if book.reported is not None]
    return flaws, len(reported), sum(len(book.between.keys) for book in reported if book.between)


# Two further outcomes, one of them a guardrail.
OUTCOMES = (
    {"name": "harm", "role": "guardrail", "better": "lower", "kind": "binary", "limit": 0.99, "delta": 0.001},
    {"name": "pain", "role": "secondary", "better": "lower", "kind": "bounded", "low": 0.0, "high": 1.0},
)
AGE = {"covariate": "age", "covariate_range": (20.0, 80.0)}


def run(
    db,
    folder,
    *,
    kills,
    seed,
    places=(*POINTS, "at random", "at random"),
    outcomes=(),
    covariate=False,
    between="outside",
):
    """Kill the service `kills` times; returns counts, including flaws.

    `outcomes` are those of the study file. With a `covariate`, rewards are adjusted for people's ages by a slope that
    the site learns. `between` is the study's setting.
    """
    chance = random.Random(seed)
    storage = open_storage(db)
    house, launcher = House(storage), Forks("tools.chaos.site_launcher")
    total, by_place, number = Counter(), Counter(), 0
    names = [one["name"] for one in outcomes]
    try:
        while sum(by_place.values()) < kills:
            number += 1
            exact = {"site_counts": "exact"} if number % 2 else {}
            message = study_message(
                agents=1, arms=3, policy="evidence", noise={"kind": "bounded", "low": 0.0, "high": 1.0},
                largest_gap=4.0, outcomes=outcomes, between=between, **exact, **(AGE if covariate else {}),
            )  # fmt: skip
            study, agent, ledger = f"site-{number}", "agent 1", Ledger()
            house.create(message, study)
            order = {
                "server": house.url, "token": house.tokens[study, agent], "study": study, "agent": agent,
                "folder": str(folder), "port": free_port(),
            }  # fmt: skip
            crowd = Crowd(
                f"http://127.0.0.1:{order['port']}", chance, ledger, exact=bool(exact), outcomes=names,
                covariate=covariate, phases=3 if between == "assign" else 0,
            )  # fmt: skip
            most = min(A_STUDY, kills - sum(by_place.values()))
            for _ in range(most):
                by_place[_one_life(launcher, order, crowd, chance, places)] += 1
            _last_life(launcher, order, crowd)
            crowd.close()
            flaws, phases, ahead = examine(house, folder, study, agent, ledger, exact=bool(exact))
            total += flaws
            total["acknowledged"] += ledger.answers
            total["people"] += len(ledger.arms)
            total["voided"] += len(ledger.voided)
            total["phases_reported"] += phases
            total["between"] += ahead
    finally:
        launcher.close()
        house.close()
        storage.close()
    counts = ("acknowledged", "people", "voided", "phases_reported", "between")
    return {
        "kills": sum(by_place.values()),
        "kills_by_place": dict(sorted(by_place.items())),
        **{name: total[name] for name in (*counts, *FLAWS)},
    }


def _one_life(launcher, order, crowd, chance, places):
    """Run the service from a start to a kill; returns where it died."""
    place = chance.choice(places)
    kill_at = "" if place == "at random" else f"{place}:{1 if place in RARE else chance.randint(1, 8)}"
    pid = launcher.ask(**order, kill_at=kill_at)["pid"]
    # If a named point is not reached in time, kill the service at a random moment instead of waiting.
    late = threading.Timer(chance.uniform(0.1, 0.5) if not kill_at else LATE, _kill, (pid,))
    late.start()
    over = threading.Event()
    working = threading.Thread(target=_work, args=(crowd, over))
    working.start()
    begun = time.monotonic()
    status = launcher.wait(pid)
    random_end = bool(kill_at) and time.monotonic() - begun > LATE - 0.1
    over.set()
    working.join()
    late.cancel()
    assert os.WIFSIGNALED(status), f"the service ended by itself with {status}"
    return "at random" if random_end else place


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):  # it has just died at its named point
        os.kill(pid, signal.SIGKILL)


def _work(crowd, over):
    while not over.is_set():
        if not crowd.act():
            time.sleep(0.01)


def _last_life(launcher, order, crowd):
    """Run the service without a kill until pending outcomes are entered and complete phases reported."""
    pid = launcher.ask(**order, kill_at="")["pid"]
    until, standing = time.monotonic() + PATIENCE, "no answer"
    try:
        while True:
            assert time.monotonic() < until, f"the phase is not reported: {standing}"
            try:
                standing = crowd.line.get("/v1/status").json()
            except httpx2.TransportError:
                time.sleep(0.02)
                continue
            if crowd.unheard or crowd.voiding:
                crowd.act()
                continue
            heard = crowd.ledger.said.keys() | crowd.ledger.refused
            waiting = [slot for slot in crowd.slots() if slot not in heard]
            if crowd.phases and standing["takes_ahead"]:
                crowd.number += 1
                crowd.assign(f"p-{crowd.number:05}")
            elif waiting:
                crowd.outcome(*waiting[0])
                until = time.monotonic() + PATIENCE
                if waiting[0] not in crowd.ledger.said:  # refused: its phase was reported, but that answer was lost
                    crowd.ledger.refused.add(waiting[0])
            elif standing["phase"] < crowd.phases and standing["coordinator"] == "connected":
                crowd.act()
            elif standing["coordinator"] == "connected" and not (
                standing["to_assign"] == 0 and not standing["reported"]
            ):
                return
            else:
                time.sleep(0.02)
    finally:
        os.kill(pid, signal.SIGKILL)
        launcher.wait(pid)
