"""A study driven over HTTP by hypothesis: reports, administrators' acts and crashes in any order.

The server is a separate process and a crash is SIGKILL, at rest or at a named point while it stores a report or changes
the study's question. Every status is below 500, and every refusal is a problem document. After every step that changed
the log, a replay of the log must agree with the tables, and the draws asked for are bounded.
"""

import os
import shutil
import signal
import tempfile
import time
from functools import cache
from pathlib import Path

import httpx2
from hypothesis import seed as seeded
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace
from tests.coordinator.support import bootstrap, rewards, study_message
from tools.chaos.harness import free_port, launcher

from parley.agent.plans import AgentPlan
from parley.coordinator.record import initialise, open_for_reading, open_storage, studies
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.writer import ACTS, POINTS
from parley.coordinator.studies.phases import load_trial
from parley.policies import policy_class
from parley.protocol import Receipt, Stage
from parley.protocol.codec import digest

AGENTS = st.integers(0, 2)
NOISE = st.integers(1, 3)
PATIENCE = 300.0
MOST = 30_000  # samples that any of these studies may ask for
REWEIGHING = (*(point for point in ACTS if point.startswith("reweigh")), "before-commit", "after-commit")
REPORT_REFUSED = ("phase-closed", "study-paused", "agent-frozen", "nothing-asked", "illegal-move", "report-conflict")


@cache
def workshop():
    """Shared by all cases: the process that forks servers, and a prepared database with its administrator's token."""
    folder = tempfile.TemporaryDirectory()
    address = Path(folder.name) / "parley.db"
    initialise(str(address))
    storage = open_storage(str(address))
    token = bootstrap(storage)
    storage.close()
    return launcher(), folder, address, token


def noisy(report, noise):
    """A different report that is just as plausible."""
    return replace(
        report, squares=tuple(v + noise * (n > 0) for n, v in zip(report.counts, report.squares, strict=True))
    )


def cases(size, steps, seed):
    """Run `size` cases of `steps` steps each; raises at the first failure."""
    chosen = settings(max_examples=size, stateful_step_count=steps, deadline=None, database=None)
    run_state_machine_as_test(seeded(seed)(Study), settings=chosen)
    return size


class Study(RuleBasedStateMachine):
    """One study, and what its agents know about it."""

    def __init__(self):
        super().__init__()
        self.launcher, _, prepared, self.admin = workshop()
        self.folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self.folder.name) / "parley.db")
        shutil.copy(prepared, self.address)
        self.storage = open_for_reading(self.address)
        self.receipts, self.amended, self.verified = {}, set(), None
        self.port, self.http, self.pid = free_port(), None, None
        self.start()

    def start(self, kill_at=""):
        """Start a server and wait until it answers; False if it died at its kill point before that.

        If the last server left a complete phase, the new one closes it at once and may reach a kill point while doing
        so.
        """
        self.pid = self.launcher.start(self.address, self.port, kill_at)
        self.http = httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE, trust_env=False, verify=False
        )
        until = time.monotonic() + PATIENCE
        while True:
            try:
                assert self.http.get("/readyz").status_code == 200
                return True
            except httpx2.TransportError:
                if kill_at and self.launcher.dead(self.pid):
                    return False
                assert time.monotonic() < until, "the server does not start"
                time.sleep(0.005)

    def kill(self):
        self.http.close()
        os.kill(self.pid, signal.SIGKILL)
        self.launcher.wait(self.pid)

    def ask(self, method, path, *, token=None, headers=None, **options):
        """Send a request; returns status and JSON after checking that such an answer is allowed."""
        headers = {"Authorization": f"Bearer {token or self.admin}", **(headers or {})}
        answer = self.http.request(method, f"/v1/{path}", headers=headers, **options)
        document = answer.json()
        assert answer.status_code < 500, document
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert document["status"] == answer.status_code
            document["slug"] = document["type"].rpartition(":")[2]
        return answer.status_code, document

    @initialize(
        policy=st.sampled_from(["uniform", "wcpe", "evidence", "evidence"]),
        limits=st.sampled_from([{}, {}, {"max_samples": 400}, {"max_rounds": 2}]),
        tied=st.booleans(),
    )
    def create(self, policy, limits, tied):
        # If arms tie, only a budget or a tolerance ends the study; `uniform` supports no tolerance.
        near = {"tolerance": 0.3} if policy != "uniform" and (tied or limits) else {}
        self.spread = 0.0 if tied and (near or limits) else 0.7
        self.message = study_message(agents=3, arms=3, policy=policy, **near, **limits)
        self.most = limits.get("max_samples", MOST)
        status, found = self.ask("POST", "studies", json={"id": "trial", "study": self.message.to_json()})
        assert status == 201, found
        self.tokens = []
        for name in self.message.agents:
            body = {"role": "agent", "study": "trial", "agent": name}
            self.tokens.append(self.ask("POST", "tokens", json=body)[1]["token"])

    def trial(self):
        return self.storage.read(lambda c: load_trial(c, studies.get(c, "trial")))

    def report(self, place, phase=None):
        trial = self.trial()
        draws = trial.plan.draws(place)
        plan = AgentPlan(
            study="trial", agent=self.message.agents[place], stage="running", reason="", phase=trial.phase,
            plan=trial.plan.digest, arms=self.message.arms, draws=draws, reported=False, frozen=False,
        )  # fmt: skip
        report = plan.report(rewards(draws, place, trial.phase, spread=self.spread))
        return replace(report, phase=phase) if phase else report

    def take(self, report, known=None):
        headers = {"Content-Type": "application/json"}
        if known is not None:
            headers["Parley-Receipt"] = f"{known['sequence']}:{known['head']}"
        token = self.tokens[self.message.agents.index(report.agent)]
        path = f"studies/trial/phases/{report.phase}/reports/{report.agent}"
        return self.ask("PUT", path, token=token, headers=headers, content=report.text.encode())

    def taken(self, report, receipt):
        assert self.receipts.setdefault((report.phase, report.agent), (report, receipt))[1] == receipt

    @rule(place=AGENTS)
    def send(self, place):
        report, before = self.report(place), self.trial()
        status, found = self.take(report)
        if status >= 400:
            assert found["slug"] in REPORT_REFUSED, found
            return
        assert status == (200 if report.agent in before.reports else 201)
        self.taken(report, found)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def send_again(self, data):
        report, receipt = self.some_receipt(data)
        assert self.take(report, known=receipt) == (200, receipt)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), noise=NOISE)
    def send_another(self, data, noise):
        report, _ = self.some_receipt(data)
        other = noisy(report, noise)
        status, found = self.take(other)
        if other.digest in self.amended:  # an administrator entered exactly this report
            assert status == 200, found
        else:
            assert found.get("slug") == "report-conflict", found

    def some_receipt(self, data):
        held = sorted(self.receipts.values(), key=lambda pair: pair[1]["sequence"])
        return data.draw(st.sampled_from(held))

    @rule(place=AGENTS, phase=st.integers(1, 9))
    def send_elsewhere(self, place, phase):
        if phase == self.trial().phase or (phase, self.message.agents[place]) in self.receipts:
            return
        _, found = self.take(self.report(place, phase=phase))
        assert found.get("slug") in ("phase-future", "phase-closed"), found

    def act(self, path, **body):
        """Perform an administrator's act; returns whether it was legal."""
        status, found = self.ask("POST", f"studies/trial/{path}", json={"reason": "why", **body})
        assert status == 200 or found["slug"] in ("illegal-move", "not-found", "phase-closed"), found
        return status == 200

    @rule()
    def pause(self):
        legal = self.trial().stage is Stage.RUNNING
        assert self.act("pause") == legal

    @rule()
    def resume(self):
        legal = self.trial().stage is Stage.PAUSED
        assert self.act("resume") == legal

    @rule(place=AGENTS, sure=st.integers(0, 3))
    def freeze(self, place, sure):
        if sure:  # only rarely, since a freeze ends most studies
            return
        trial, agent = self.trial(), self.message.agents[place]
        status, shown = self.ask("GET", f"studies/trial/agents/{agent}/freeze")
        assert (status == 200) == (trial.stage in (Stage.RUNNING, Stage.PAUSED) and agent not in trial.frozen)
        if status == 200:
            assert self.act(f"agents/{agent}/freeze", preview=shown["digest"])

    def confirm(self, method, preview, path, legal, **body):
        """Perform an act after its preview; returns whether it was done."""
        status, shown = self.ask(method, f"studies/trial/{preview}", **({"json": body} if method == "POST" else {}))
        assert status == 200 or shown["slug"] in ("illegal-move", "invalid-request"), shown
        assert status != 200 or legal, shown
        if status == 200:
            assert self.act(path, preview=shown["digest"], **body)
        return status == 200

    @rule(place=AGENTS)
    def thaw(self, place):
        trial, agent = self.trial(), self.message.agents[place]
        legal = trial.stage in (Stage.RUNNING, Stage.PAUSED, Stage.STALLED) and agent in trial.frozen
        path = f"agents/{agent}/thaw"
        assert self.confirm("GET", path, path, legal) == legal

    @rule(given=st.one_of(st.none(), AGENTS), weighed=AGENTS)
    def reweigh(self, given, weighed):
        """Re-weigh without the frozen agents, or with one agent asking only about another's rewards."""
        trial = self.trial()
        column = {} if given is None else {self.message.agents[given]: [float(n == weighed) for n in range(3)]}
        self.confirm("POST", "reweigh/preview", "reweigh", trial.stage is not Stage.FINISHED, columns=column)

    @rule(arm=st.integers(0, 2), act=st.sampled_from(["open", "withdraw"]))
    def change_an_arm(self, arm, act):
        trial, name = self.trial(), self.message.arms[arm]
        fits = (name in trial.study.problem.dormant) == (act == "open")
        legal = fits and "dormant" in policy_class(self.message.policy).supports
        path = f"arms/{name}/{act}"
        self.confirm("GET", path, path, legal and trial.stage not in (Stage.FINISHED, Stage.CANCELLED))

    @precondition(lambda self: self.trial().frozen and self.trial().stage in (Stage.RUNNING, Stage.STALLED))
    @rule(point=st.sampled_from(REWEIGHING))
    def crash_while_a_study_is_re_weighed(self, point):
        """The re-weighing must have happened completely or not at all; in the second case it is done again."""
        before = self.trial()
        status, shown = self.ask("POST", "studies/trial/reweigh/preview", json={"columns": {}})
        if status != 200:
            return
        body = {"reason": "why", "columns": {}, "preview": shown["digest"]}
        self.kill()
        if self.start(point):
            try:
                self.ask("POST", "studies/trial/reweigh", json=body)
                self.kill()
            except httpx2.TransportError:
                self.http.close()
                self.launcher.wait(self.pid)
        self.start()
        self.verified = None
        if self.trial().study == before.study:
            self.ask("POST", "studies/trial/reweigh", json=body)

    @rule(place=AGENTS, noise=NOISE)
    def amend(self, place, noise):
        trial, agent = self.trial(), self.message.agents[place]
        report = noisy(self.report(place), noise)
        if trial.reports.get(agent) == report or not any(report.counts):
            return
        legal = trial.stage in (Stage.RUNNING, Stage.PAUSED) and agent in trial.reports
        assert self.act(f"phases/{report.phase}/reports/{agent}/amend", report=report.to_json()) == legal
        if legal:
            self.amended.add(report.digest)

    @rule(sure=st.integers(0, 9))
    def cancel(self, sure):
        if not sure:
            self.act("cancel")

    @rule(sure=st.integers(0, 2))
    def crash(self, sure):
        if sure:  # only rarely, since a start takes as long as thirty requests
            return
        self.kill()
        self.start()
        self.verified = None

    @rule(place=AGENTS, point=st.sampled_from(POINTS), sure=st.booleans())
    def crash_while_a_report_is_taken(self, place, point, sure):
        """Whether or not the report was stored, sending it again gives the same receipt, or the proper refusal."""
        if not sure:
            return
        report = self.report(place)
        self.kill()
        died = not self.start(point)
        if not died:
            try:
                self.take(report)
                self.kill()  # the point was not reached
            except httpx2.TransportError:
                died = True
        if died:
            self.http.close()
            assert os.WTERMSIG(self.launcher.wait(self.pid)) == signal.SIGKILL
        self.start()
        self.verified = None
        status, found = self.take(report)
        if status < 400:
            self.taken(report, found)
        else:
            assert found["slug"] in REPORT_REFUSED, found

    @invariant()
    def the_log_leads_to_what_the_tables_say(self):
        if not hasattr(self, "message"):
            return
        row = self.storage.read(lambda c: studies.get(c, "trial"))
        if row == self.verified:
            return
        held = [Receipt.from_json(receipt) for _, receipt in self.receipts.values()]
        found = verify_stored(self.storage, "trial", held)
        assert found is not None
        assert found.sound, found.problem
        assert found.exact
        trial = self.trial()
        assert digest(trial.state.to_json()) == digest(found.trial.state.to_json())
        assert (trial.study, trial.frozen, trial.leaves) == (found.trial.study, found.trial.frozen, found.trial.leaves)
        asked = trial.plan.array.sum() if trial.stage in (Stage.RUNNING, Stage.PAUSED) else 0
        assert trial.state.counts.sum() + asked <= self.most
        self.verified = row

    def teardown(self):
        self.kill()
        self.storage.close()
        self.folder.cleanup()
