"""Promise 2 for what administrators do, and for reports that are held: killed at any statement, it happened or not."""

import os
import signal
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from msgspec import structs
from tests.coordinator import test_guardrails as guarded
from tests.coordinator.support import House, eventually, far_off, report_of, study_message
from tests.coordinator.test_lost_sites import STUDY as SIX
from tests.coordinator.test_lost_sites import phase
from tools.chaos.findings import FLAWS
from tools.chaos.harness import free_port, launcher, retried, run

from parley.agent.client import Client
from parley.coordinator.record import initialise, open_for_reading, open_storage, studies
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.writer import ACTS, AFTER, ALARMS, POINTS
from parley.coordinator.studies.phases import load_trial
from parley.errors import Unreachable


def test_every_point_has_a_name_that_the_tests_know():
    named = {point for points in AFTER.values() for point in points.values()}
    # The first two are in test_flexible.py.
    assert named - set(POINTS) - set(ACTS) == {"early-close-logged", "early-close-counted", *ALARMS}


class Deaths:
    """Acts of an administrator or an agent, each on a server that dies on the way."""

    def __init__(self, database, study=SIX, phase=phase):
        self.database, self.port = database, free_port()
        self.url, self.reached = f"http://127.0.0.1:{self.port}", []
        self.study = study
        with self.house() as house:
            self.token, agents = house.token, house.create(study)
            self.tokens = [house.tokens["trial", name] for name in study.agents]
            phase(agents)

    @contextmanager
    def house(self, **options):
        """A server that lives; the database is its own for so long."""
        storage = open_storage(self.database)
        house = House(storage, **options)
        try:
            yield house
        finally:
            house.close()
            storage.close()

    def trial(self):
        storage = open_for_reading(self.database)
        found = verify_stored(storage, "trial")
        stored = storage.read(lambda c: load_trial(c, studies.get(c, "trial")))
        storage.close()
        assert found.sound, found.problem
        assert found.exact
        assert stored.state.to_json() == found.trial.state.to_json()
        assert (stored.study, stored.frozen, stored.awaited) == (
            found.trial.study, found.trial.frozen, found.trial.awaited)  # fmt: skip
        return found

    def die(self, point, act, token=None):
        pid = launcher().start(self.database, self.port, point)
        with Client(self.url, token or self.token) as client:
            retried(partial(client.request, "GET", "whoami"))
            with pytest.raises(Unreachable):
                act(client)
        assert os.WTERMSIG(launcher().wait(pid)) == signal.SIGKILL, point
        self.reached.append(point)

    def through(self, prefix, act, token=None, commits=1):
        """Not at all, at every point of an act; then as a whole, after the last of its commits, though nobody knew."""
        before = self.trial()
        for point in (point for point in ACTS if point.startswith(prefix)):
            self.die(point, act, token)
            assert self.done(self.trial()) == self.done(before), point
        self.die(f"after-commit:{commits}", act, token)
        after = self.trial()
        assert self.done(after) > self.done(before)
        return after.trial

    def done(self, found):
        """How many records there are but for those of looks: the preview of an act is one, also of one that fails."""
        return found.records - len(found.reads)

    def go_on(self):
        """Reports to the end, or until it stalls."""
        with self.house(admin=self.token) as house:
            return house.run(self.study, [house.client(token) for token in self.tokens])


def corrected(known, deaths):
    """Another report in the place of one that was decided on."""
    with deaths.house(admin=deaths.token) as house:
        found = house.admin.report("trial", known.phase, known.agent)
    return structs.replace(found, sums=(found.sums[0] + 0.01, *found.sums[1:])).to_json()


def confirmed(method, preview, path, **body):
    """Two commits: the record of the preview, which is a look at unblinded results, and the act."""

    def act(client):
        shown = client.request(method, "studies", "trial", *preview, **({"json": body} if method == "POST" else {}))
        client.request("POST", "studies", "trial", *path, json={"reason": "why", "preview": shown["digest"], **body})

    return act


@pytest.mark.kills
def test_an_act_happens_as_a_whole_or_not_at_all(database):
    deaths = Deaths(database)
    far = []

    def hold(client):
        far[:] = [far_off(report_of(client.plan("trial", "agent 1"), 0))]
        client.send(far[0])

    def refuse(client):
        where = ("studies", "trial", "phases", far[0].phase, "reports", "agent 1", "refuse")
        client.request("POST", *where, json={"reason": "a slip", "report": far[0].digest})

    deaths.through("hold", hold, deaths.tokens[0])
    deaths.through("refuse", refuse)
    lost = ("agents", "agent 6", "freeze")
    assert deaths.through("freeze", confirmed("GET", lost, lost), commits=2).frozen == {"agent 6"}
    assert deaths.go_on()["stage"] == "stalled"
    trial = deaths.through("reweigh", confirmed("POST", ("reweigh", "preview"), ("reweigh",), columns={}), commits=2)
    assert trial.leaves == {"agent 6"}
    back = ("agents", "agent 6", "thaw")
    assert deaths.through("thaw", confirmed("GET", back, back), commits=2).frozen == frozenset()
    assert deaths.go_on()["stage"] == "finished"
    right = corrected(far[0], deaths)
    place = ("phases", right["phase"], "reports", "agent 1", "correct")
    trial = deaths.through("correct", confirmed("POST", (*place, "preview"), place, report=right), commits=2)
    assert len(trial.corrections) == 1
    assert {point for point in ACTS if "-arm-" not in point} <= set(deaths.reached)
    deaths.trial()


@pytest.mark.kills
def test_an_arm_is_opened_or_withdrawn_as_a_whole_or_not_at_all(database):
    """Of a stalled study, so that its certificate goes and a phase is opened. Agent 1 asks about itself alone."""
    weights = ((1.0, 0.0, 0.0), (0.0, 0.5, 0.5), (0.0, 0.5, 0.5))
    study = study_message(agents=3, arms=3, policy="evidence", weights=weights, dormant=("arm 3",))
    deaths = Deaths(database, study, partial(phase, only=range(3), study=study))
    lost, new, gone = ("agents", "agent 3", "freeze"), ("arms", "arm 3", "open"), ("arms", "arm 3", "withdraw")
    deaths.through("freeze", confirmed("GET", lost, lost), commits=2)
    assert deaths.go_on()["stage"] == "stalled"
    trial = deaths.through("open-arm", confirmed("GET", new, new), commits=2)
    assert (trial.stage, trial.study.problem.dormant) == ("running", ())
    assert deaths.go_on()["stage"] == "stalled"
    trial = deaths.through("withdraw-arm", confirmed("GET", gone, gone), commits=2)
    assert trial.study.problem.dormant == ("arm 3",)
    deaths.go_on()
    assert {point for point in ACTS if "-arm-" in point} <= set(deaths.reached)
    deaths.trial()


@pytest.mark.kills
def test_a_server_that_dies_while_a_guardrail_stops_an_arm_stops_it_when_it_is_back(database):
    """Two sites are in mid-phase. What is due follows from the reports: whoever starts next finds it."""
    deaths = Deaths(database, guarded.STUDY, partial(guarded.phase, only=(0,)))
    points = ("stop-arm-logged", "stop-arm-question-stored", "stop-arm-states-stored", "stop-arm-counted")
    assert set(points) <= set(ALARMS)
    for point in points:
        pid = launcher().start(database, deaths.port, point)
        with Client(deaths.url, deaths.tokens[1]) as agent, suppress(Unreachable):
            plan = retried(partial(agent.plan, "trial", "agent 2"))
            if plan.due:
                agent.send(guarded.report(plan, 1))
        assert os.WTERMSIG(launcher().wait(pid)) == signal.SIGKILL, point
        found = deaths.trial().trial
        assert not found.arms_withdrawn, point
        assert found.finding.verdict == "stopped"
    with deaths.house(admin=deaths.token) as house:
        eventually(lambda: house.admin.status("trial")["closed_arms"] == ["arm 3"])
        assert house.admin.status("trial")["stage"] == "running"
        guarded.run(house, [house.client(token) for token in deaths.tokens])
    found = deaths.trial()
    assert found.stage == "finished"
    assert [one.arm for one in found.trial.verdicts if one.verdict == "stopped"] == ["arm 3"]


@pytest.mark.kills
def test_killed_while_studies_are_frozen_re_weighed_and_thawed(tmp_path):
    """The studies of `make chaos`, where this goes on for long and on both databases."""
    database = str(tmp_path / "parley.db")
    initialise(database)
    message = study_message(agents=3, arms=3, policy="uniform")
    places = ["freeze-counted", "reweigh-states-stored", "thaw-place-opened", "refuse-noted"]
    places += ["open-arm-plan-stored", "withdraw-arm-certificate-removed", "correct-certificate-removed"]
    books = run(database, kills=2, seed=5, lanes=1, places=places, message=message)
    assert books.receipts
    assert books.flaws == dict.fromkeys(FLAWS, 0)
