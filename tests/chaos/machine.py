"""A study driven by hypothesis: reports, conflicts, pauses, freezes, amendments and crashes in any order.

The model is the protocol's own value: after every step the database must say what `Trial` says, and at the end the log
must replay to it. A crash closes the storage without a goodbye and opens it again.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.coordinator.support import rewards, study_message

from parley.agent.plans import AgentPlan
from parley.coordinator.audit import verify_stored
from parley.coordinator.operations import studies as administration
from parley.coordinator.operations.phases import load_trial
from parley.coordinator.operations.reports import Accepted, take_report
from parley.coordinator.problems import Refusal
from parley.coordinator.storage import initialise, open_storage, studies
from parley.protocol import Stage, create
from parley.protocol.canonical import digest

AGENTS = st.integers(0, 2)


def expect(refusal, *slugs):
    assert refusal.slug in slugs, refusal.document()


class Study(RuleBasedStateMachine):
    """One study and what the agents know of it."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self.folder.name) / "parley.db")
        initialise(self.address)
        self.storage = open_storage(self.address)
        self.receipts, self.amended = {}, set()

    @initialize(policy=st.sampled_from(["uniform", "wcpe", "evidence"]))
    def create(self, policy):
        self.message = study_message(agents=3, arms=3, policy=policy)
        trial = create("trial", self.message)
        self.storage.change(lambda c: administration.create_study(c, trial, actor="test", at="now"))

    def trial(self):
        return self.storage.read(lambda c: load_trial(c, studies.get(c, "trial")))

    def report(self, place, phase=None, noise=0):
        trial = self.trial()
        draws = trial.plan.draws(place)
        plan = AgentPlan(
            study="trial", agent=self.message.agents[place], stage="running", reason="", phase=trial.phase,
            plan=trial.plan.digest, arms=self.message.arms, draws=draws, reported=False, frozen=False,
        )  # fmt: skip
        report = plan.report(rewards(draws, place, trial.phase))
        if noise:
            report = replace(report, squares=tuple(v + noise for v in report.squares))
        return replace(report, phase=phase) if phase else report

    def take(self, report, known=None):
        return self.storage.change(lambda c: take_report(c, report, actor="test", at="now", known=known))

    @rule(place=AGENTS)
    def send(self, place):
        report, before = self.report(place), self.trial()
        try:
            found = self.take(report)
        except Refusal as refusal:
            expect(refusal, "phase-closed", "study-paused", "agent-frozen", "nothing-asked", "illegal-move")
            return
        if isinstance(found, Refusal):
            assert found.slug == "report-conflict"
            return
        assert isinstance(found, Accepted)
        key = (report.phase, report.agent)
        assert self.receipts.setdefault(key, (report, found.receipt))[1] == found.receipt
        assert found.repeated == (report.agent in before.reports)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def send_again(self, data):
        report, receipt = data.draw(st.sampled_from(sorted(self.receipts.values(), key=lambda pair: pair[1].sequence)))
        found = self.take(report, known=(receipt.sequence, receipt.head))
        assert isinstance(found, Accepted)
        assert found.repeated
        assert found.receipt == receipt

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), noise=st.integers(1, 3))
    def send_another(self, data, noise):
        report, _ = data.draw(st.sampled_from(sorted(self.receipts.values(), key=lambda pair: pair[1].sequence)))
        other = replace(report, squares=tuple(value + noise for value in report.squares))
        found = self.take(other)
        if other.digest in self.amended:  # an administrator had put this very report there
            assert isinstance(found, Accepted)
            assert found.repeated
            return
        assert isinstance(found, Refusal)
        assert found.slug == "report-conflict"

    @rule(place=AGENTS, phase=st.integers(1, 9))
    def send_elsewhere(self, place, phase):
        trial = self.trial()
        if phase == trial.phase or (phase, self.message.agents[place]) in self.receipts:
            return
        try:
            found = self.take(self.report(place, phase=phase))
        except Refusal as refusal:
            expect(refusal, "phase-future", "phase-closed")
        else:
            raise AssertionError(found)

    def attempt(self, work):
        """An administrator's act; whether it was legal there."""
        try:
            self.storage.change(work)
        except Refusal as refusal:
            expect(refusal, "illegal-move", "not-found", "phase-closed")
            return False
        return True

    @rule()
    def pause(self):
        legal = self.trial().stage is Stage.RUNNING
        assert self.attempt(lambda c: administration.pause_study(c, "trial", "why", actor="admin", at="now")) == legal

    @rule()
    def resume(self):
        legal = self.trial().stage is Stage.PAUSED
        assert self.attempt(lambda c: administration.resume_study(c, "trial", "why", actor="admin", at="now")) == legal

    @rule(place=AGENTS, sure=st.integers(0, 3))
    def freeze(self, place, sure):
        if sure:  # rarely: a freeze ends most studies
            return
        trial, agent = self.trial(), self.message.agents[place]
        legal = trial.stage in (Stage.RUNNING, Stage.PAUSED) and agent not in trial.frozen

        def work(connection):
            shown = administration.preview_freeze(connection, "trial", agent)
            administration.freeze_agent(connection, "trial", agent, "why", shown.digest, actor="admin", at="now")

        assert self.attempt(work) == legal

    @rule(place=AGENTS, noise=st.integers(1, 3))
    def amend(self, place, noise):
        trial, agent = self.trial(), self.message.agents[place]
        legal = trial.stage in (Stage.RUNNING, Stage.PAUSED) and agent in trial.reports
        report = self.report(place, noise=noise)
        if trial.reports.get(agent) == report:
            return

        def work(connection):
            administration.amend_report(connection, report, "why", actor="admin", at="now")

        assert self.attempt(work) == legal
        if legal:
            self.amended.add(report.digest)

    @rule(sure=st.integers(0, 9))
    def cancel(self, sure):
        if not sure:
            self.attempt(lambda c: administration.cancel_study(c, "trial", "why", actor="admin", at="now"))

    @rule()
    def crash(self):
        self.storage.close()
        self.storage = open_storage(self.address)

    @invariant()
    def the_log_leads_to_what_the_tables_say(self):
        if not hasattr(self, "message"):
            return
        held = [(receipt.sequence, receipt.head) for _, receipt in self.receipts.values()]
        found = verify_stored(self.storage, "trial", held)
        assert found is not None
        assert found.sound, found.problem
        assert found.exact
        assert digest(self.trial().state.to_json()) == digest(found.trial.state.to_json())

    def teardown(self):
        self.storage.close()
        self.folder.cleanup()
