"""A random walk over everything that can happen to a study; after every step the log verifies and the tables agree.

No sockets: the acts are called in their transactions, as the routes call them. `PARLEY_WALKS` asks for more walks.
"""

import os
import random

import numpy as np
import pytest
from msgspec.structs import replace
from tests.coordinator.support import far_off, given, rewards, study_message

from parley.coordinator.problems import Refusal
from parley.coordinator.record import initialise, ledger, open_storage, studies
from parley.coordinator.record import phases as recorded
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.writer import situation, store_prepared
from parley.coordinator.studies import acts, phases
from parley.coordinator.studies.phases import take_report
from parley.protocol import Report, Stage, Trial
from parley.protocol import acts as table
from parley.protocol.messages import OutcomeTotals
from parley.totals import Totals

pytestmark = pytest.mark.simulations

WALKS = int(os.environ.get("PARLEY_WALKS", "3"))
STEPS = 30
# Agents 1 and 2 ask about everybody, 3 and 4 mostly about themselves: freezing stalls some and lets others go on.
WEIGHTS = ((0.6, 0.2, 0.0, 0.1), (0.2, 0.6, 0.0, 0.1), (0.1, 0.1, 1.0, 0.0), (0.1, 0.1, 0.0, 0.8))
STUDY = study_message(agents=4, arms=2, policy="evidence", weights=WEIGHTS, delta=0.2)
HARM = {"name": "harm", "kind": "binary", "role": "guardrail", "better": "lower", "margin": 0.1, "delta": 0.2}
ARMS = study_message(agents=4, arms=4, policy="evidence", weights=WEIGHTS, delta=0.2, dormant=("arm 2",))

# One of the arms harms half of the people, now and then: an alarm comes in any phase, and in mid-phase.
GUARDED = replace(ARMS, control="arm 1", outcomes=(HARM, {**HARM, "name": "pain", "on_alarm": "propose"}))

# How often each is tried.
ACTS = {
    "report": 12, "report_all": 4, "report_again_with_other_numbers": 2, "report_what_cannot_be": 3,
    "report_with_a_receipt_that_is_not_in_the_log": 1, "pause": 4, "resume": 6, "freeze": 6, "thaw": 6,
    "reweigh": 4, "open_arm": 3, "withdraw_arm": 1.5, "close_early": 3,
    "amend": 4, "refuse": 3, "close": 6, "fail": 2, "cancel": 0.3,
}  # fmt: skip


class Walk:
    """One study, and what may be done to it; an act that may not happen now is refused and leaves nothing."""

    def __init__(self, storage, seed=0, spreads=(0.5,) * 4, study=STUDY):
        self.storage, self.chance, self.spreads = storage, random.Random(seed), spreads
        self.harms = random.Random(seed)  # apart: outcomes change nothing of the walk
        self.done = []
        trial = acts.prepare_study("trial", study)
        storage.change(lambda t: acts.create_study(t, trial, actor="test", at="now"))

    def row(self):
        return self.storage.read(lambda t: studies.get(t, "trial"))

    def trial(self):
        return self.storage.read(lambda t: phases.load_trial(t, studies.get(t, "trial")))

    def agent(self):
        return self.chance.choice(STUDY.agents)

    def change(self, work, *given):
        def checked(t):
            found = work(t, *given, actor="test", at="now")
            assert t.locked.get("trial") in (None, studies.get(t, "trial")), "the row that is carried is another"
            return found

        return self.storage.change(checked)

    def act(self, name, **values):
        self.change(acts.record_act, table.ACTS[name], given(**values))

    def confirm(self, name, **values):
        proposal = acts.propose(self.storage, table.ACTS[name], given(**values))
        prepared = proposal.prepare(self.storage, "why", actor="test", at="now")
        self.change(lambda t, **_: store_prepared(t, prepared))

    def answer(self, agent, shift=0.0):
        trial, place = self.trial(), STUDY.agents.index(agent)
        totals = rewards(trial.plan.draws(place), place, trial.phase, spread=self.spreads[place] + shift)
        further = tuple(self.outcome(outcome.name, totals, place) for outcome in trial.study.problem.outcomes)
        place_of = {"study": "trial", "phase": trial.phase, "agent": agent, "plan": trial.plan.digest}
        return Report.of(totals, **place_of, outcomes=further)

    def outcome(self, name, totals, place):
        harmful = self.harms.choice([0.0, 0.5]) if name == "harm" else 0.1
        ones = np.random.default_rng([place, len(self.done)]).binomial(totals.counts, [0.05, 0.05, harmful, 0.1])
        return OutcomeTotals.of(name, Totals(counts=totals.counts, sums=1.0 * ones, squares=1.0 * ones))

    # What may happen. Every act finds its own agent, unless it is told one.

    def report(self, agent=None):
        self.change(take_report, self.answer(agent or self.agent()))

    def report_all(self):
        trial = self.trial()
        for agent in trial.awaited:
            if agent not in trial.held:  # its place waits for an administrator
                self.report(agent)

    def report_again_with_other_numbers(self):
        self.change(take_report, self.answer(self.agent(), shift=0.1))

    def report_what_cannot_be(self):
        self.change(take_report, far_off(self.answer(self.agent())))

    def report_with_a_receipt_that_is_not_in_the_log(self):
        self.storage.change(
            lambda t: take_report(t, self.answer(self.agent()), actor="test", at="now", known=(1, "0" * 64))
        )

    def pause(self):
        self.act("pause", reason="look")

    def resume(self):
        self.act("resume", reason="looked")

    def freeze(self, agent=None):
        agent = agent or self.agent()
        self.confirm("freeze", agent=agent)

    def thaw(self, agent=None):
        frozen = sorted(self.trial().frozen)
        agent = agent or (self.chance.choice(frozen) if frozen else self.agent())
        self.confirm("thaw", agent=agent)

    def reweigh(self):
        self.confirm("reweigh", columns={})

    def arm(self):
        return self.chance.choice(self.trial().study.arms)

    def open_arm(self):
        self.confirm("open-arm", arm=self.arm())

    def withdraw_arm(self):
        self.confirm("withdraw-arm", arm=self.arm())

    def close_early(self):
        self.confirm("close-early", phase=self.row().phase)

    def amend(self):
        report = self.answer(self.agent(), shift=0.05)
        self.act("amend", report=report, phase=report.phase, agent=report.agent, reason="a slip")

    def refuse(self):
        held = self.storage.read(lambda t: recorded.held(t, "trial", self.row().phase))
        waits = [one for one in held if one.refused is None]
        if waits:
            place = {"phase": self.row().phase, "agent": waits[0].agent, "report": waits[0].digest}
            self.act("refuse", **place, reason="a slip")

    def close(self):
        phases.take_step(self.storage, "trial", "now")

    def fail(self):
        """A step that cannot be taken pauses the study with the reason."""

        def broken(_):
            raise ZeroDivisionError("a bug of the policy")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Trial, "step", broken)
            phases.take_step(self.storage, "trial", "now")

    def cancel(self):
        self.confirm("cancel")

    def step(self):
        (name,) = self.chance.choices(list(ACTS), list(ACTS.values()))
        before = self.row().sequence
        try:
            getattr(self, name)()
        except Refusal:
            assert self.row().sequence == before, (self.done, name, "refused, and yet it happened")
        if self.row().sequence != before:
            self.done.append(name)
        self.check()

    def check(self):
        """The log verifies, and rows, stored trial and replayed log say the same of every agent's place."""
        found = verify_stored(self.storage, "trial")
        assert found.sound, (self.done, found.problem)
        assert found.exact, self.done
        log = found.trial

        def look(transaction):
            row = studies.get(transaction, "trial")
            stored = phases.load_trial(transaction, row)
            assert (row.awaited, stored.awaited) == (len(log.awaited), log.awaited), self.done
            for agent in (None, *STUDY.agents):
                assert situation(transaction, row, agent) == stored.situation(agent) == log.situation(agent)
            assert len(list(ledger.walk(transaction, "trial"))) == row.sequence

        self.storage.read(look)
        if log.stage is Stage.RUNNING:
            assert log.awaited, (self.done, "nobody is awaited, and nothing is due: the study would hang")
        return log


def test_frozen_thawed_and_frozen_again_while_paused(storage):
    """The count of awaited reports was kept, and went to -1 here: the study hung, and its log never verified again."""
    walk = Walk(storage)
    for agent in STUDY.agents[:3]:
        walk.report(agent)
    for act, who in [("pause", ()), *[(kind, ("agent 4",)) for kind in ("freeze", "thaw", "freeze")]]:
        getattr(walk, act)(*who)
        walk.check()
    assert walk.row().awaited == 0
    walk.resume()
    walk.close()
    assert walk.check().phase == 2
    walk.report_all()
    walk.check()


def test_the_same_with_one_agent_who_is_awaited(storage):
    walk = Walk(storage)
    for agent in STUDY.agents[:2]:
        walk.report(agent)
    walk.pause()
    for kind in ("freeze", "thaw", "freeze", "thaw"):
        getattr(walk, kind)("agent 4")
        walk.check()
    assert walk.row().awaited == 2
    walk.resume()
    assert walk.check().awaited == ("agent 3", "agent 4")


def test_a_re_weighing_that_answers_while_a_phase_is_open_waits_for_nobody(storage):
    each = replace(STUDY, answers="each")  # together, agent 1 would wait for agent 4
    walk = Walk(storage, spreads=(3.0, 3.0, 3.0, -0.75), study=each)  # a tie for agent 4
    while walk.check().ends["agent 1"] == "open":
        walk.report_all()
        walk.close()
    assert walk.row().stage is Stage.RUNNING, "agent 4 has no answer yet"
    walk.freeze("agent 4")
    walk.reweigh()
    row = walk.row()
    assert (row.stage, row.awaited) == (Stage.FINISHED, 0)
    assert row.missing, "the phase was open"
    walk.check()


def test_a_walk_in_which_an_arm_is_stopped(storage):
    """The finding is a step of its own: the study stays where it is, and the next step decides the phase."""
    walk = Walk(storage, study=GUARDED)
    walk.harms.choice = max  # harm in every report
    while walk.row().stage in (Stage.RUNNING, Stage.CLOSING) and "arm 3" not in walk.trial().arms_withdrawn:
        walk.report_all()
        walk.close()
        walk.check()
    assert "arm 3" in walk.trial().arms_withdrawn
    assert any(one.verdict == "stopped" for one in walk.trial().verdicts)
    walk.close()
    walk.check()


def test_random_walks(tmp_path):
    happened = set()
    for seed in range(WALKS):
        address = str(tmp_path / f"{seed}.db")
        initialise(address)
        storage = open_storage(address)
        try:
            spreads = random.Random(seed).choices([0.0, 0.5, 3.0], k=4)
            walk = Walk(storage, seed=seed, spreads=spreads, study=GUARDED if seed % 2 else ARMS)
            for _ in range(STEPS):
                walk.step()
            happened |= set(walk.done)
        finally:
            storage.close()
    assert happened >= {"report", "pause", "resume", "freeze", "thaw"}


def test_random_walks_on_either_database(storage):
    walk = Walk(storage, seed=1000, study=GUARDED)
    for _ in range(STEPS):
        walk.step()
