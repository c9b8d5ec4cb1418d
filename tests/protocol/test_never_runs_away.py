"""Whatever is done to a study, in any order: it asks for a bounded number of samples, it ends, and its log verifies.

Freezing, thawing, re-weighing, opening and withdrawing arms, cutting phases, pausing, budgets and arms that tie.
`tools/chaos/machine.py` does the same over HTTP, with crashes.
"""

import pytest
from hypothesis import Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.protocol.test_lost_sites import Course

from parley.errors import InvalidInput
from parley.protocol import Stage
from parley.protocol.events import Paused, PhaseClosedEarly, Resumed
from parley.text.status import OutcomeStatus

pytestmark = pytest.mark.simulations

# Agent 4 matters to 1 and 2; 3 asks for itself alone, and nobody else about it.
FOUR = ((0.7, 0.2, 0.0, 0.1), (0.2, 0.6, 0.0, 0.1), (0.0, 0.0, 1.0, 0.0), (0.1, 0.2, 0.0, 0.8))
CLEAR, TIED = (0.8, 0.3, 0.0), (0.5, 0.5, 0.0)
AGENTS = st.integers(0, 3)
MOST = {"evidence": 20_000, "wcpe": 1_000_000, "uniform": 100_000}  # samples that any of these studies may ask for
LONGEST = 60  # phases


class Acts(RuleBasedStateMachine):
    """One study, without a server."""

    @initialize(
        policy=st.sampled_from(["evidence", "evidence", "wcpe", "uniform"]),
        tied=st.booleans(),
        limits=st.sampled_from([{}, {}, {"max_samples": 900}, {"max_rounds": 3}]),
        top=st.sampled_from([1, 1, 2]),
        late=st.booleans(),
    )
    def begin(self, policy, tied, limits, top, late):
        # Where arms tie, somebody must say what is near enough, or how long to look: else the question has no end.
        near = {"tolerance": 0.25} if policy != "uniform" and (tied or not limits) else {}
        assume(not tied or near or limits)
        late = late and policy == "evidence"
        means = [[mean] * 4 for mean in (*(TIED if tied else CLEAR), *([0.6] if late else []))]
        dormant = {"dormant": ("arm 4",)} if late else {}
        self.course = Course(
            policy, agents=4, arms=len(means), weights=FOUR, means=means, top=top, **near, **limits, **dormant
        )
        self.most = min(limits.get("max_samples", MOST[policy]), MOST[policy])

    @property
    def trial(self):
        return self.course.trial

    def name(self, place):
        return self.trial.study.agents[place]

    @precondition(lambda self: self.trial.stage is Stage.RUNNING)
    @rule(count=st.integers(1, 4))
    def report(self, count):
        self.course.report(count)
        if self.trial.stage is Stage.CLOSING:
            self.course.phase()

    @rule()
    def phase(self):
        if self.trial.stage in (Stage.RUNNING, Stage.CLOSING):
            self.course.phase()

    @precondition(lambda self: self.trial.stage in (Stage.RUNNING, Stage.PAUSED) and len(self.trial.frozen) < 4)
    @rule(place=AGENTS)
    def freeze(self, place):
        if self.name(place) not in self.trial.frozen:
            self.course.freeze(self.name(place))

    @precondition(lambda self: self.trial.frozen and self.trial.stage in (Stage.RUNNING, Stage.PAUSED, Stage.STALLED))
    @rule(data=st.data())
    def thaw(self, data):
        self.course.thaw(data.draw(st.sampled_from(sorted(self.trial.frozen))))

    @precondition(lambda self: self.trial.stage not in (Stage.FINISHED, Stage.CANCELLED))
    @rule(given=st.one_of(st.none(), AGENTS), weighed=AGENTS)
    def reweigh(self, given, weighed):
        """The weights without the frozen agents; or somebody asks about one site alone from now on."""
        column = {} if given is None else {self.name(given): [float(n == weighed) for n in range(4)]}
        try:
            self.course.reweigh(column)
        except InvalidInput:  # nothing would change, nobody would ask, or the site is frozen
            return

    @precondition(lambda self: self.trial.stage not in (Stage.FINISHED, Stage.CANCELLED))
    @rule(place=st.integers(0, 3))
    def arm(self, place):
        """Opened if it is closed, withdrawn if it is open."""
        study = self.trial.study
        if study.policy == "evidence" and place < len(study.arms):
            closed = study.arms[place] in study.problem.dormant
            (self.course.open_arm if closed else self.course.withdraw_arm)(study.arms[place])
            if self.trial.stage is Stage.CLOSING:
                self.course.phase()

    @precondition(lambda self: self.trial.stage is Stage.RUNNING and self.trial.reports and self.trial.awaited)
    @rule()
    def cut(self):
        trial = self.trial
        self.course.let(PhaseClosedEarly(phase=trial.phase, reason="late", without=trial.awaited, consequences=""))
        self.course.phase()

    @precondition(lambda self: self.trial.stage is Stage.RUNNING)
    @rule()
    def pause(self):
        self.course.let(Paused(reason="look"))

    @precondition(lambda self: self.trial.stage is Stage.PAUSED)
    @rule()
    def resume(self):
        self.course.let(Resumed(reason="looked"))
        if self.trial.stage is Stage.CLOSING:
            self.course.phase()

    @invariant()
    def what_is_asked_for_is_bounded(self):
        if hasattr(self, "course"):
            recorded = sum(int(totals.counts.sum()) for totals in self.trial.past)
            asked = int(self.trial.plan.array.sum()) if self.trial.stage in (Stage.RUNNING, Stage.PAUSED) else 0
            assert recorded + asked <= self.most

    def teardown(self):
        """Left alone it ends, and what was done to it can be verified."""
        if not hasattr(self, "course"):
            return
        if self.trial.stage is Stage.PAUSED:
            self.course.let(Resumed(reason="go on"))
        self.course.to_the_end(most=self.trial.phase + LONGEST)
        self.what_is_asked_for_is_bounded()
        self.course.certify()
        self.course.verified()


TestActs = Acts.TestCase
TestActs.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, phases=[Phase.explicit, Phase.generate]
)


def test_wcpe_does_not_draw_without_an_end_for_what_could_only_just_be_told_apart():
    """Here the lost site's share of the variance leaves next to nothing. To draw on would take twenty times as much."""

    def drawn(lost):
        course = Course("wcpe", agents=4, weights=FOUR, means=[[mean] * 4 for mean in (0.49658, 0, 0)])
        course.phase()
        if lost:
            course.freeze("agent 4")
        course.to_the_end()
        return int(course.trial.state.counts.sum())

    assert drawn(lost=True) < 2.5 * drawn(lost=False)


def test_wcpe_accepts_within_the_tolerance_what_a_lost_site_leaves_possible():
    tied = [[mean] * 4 for mean in TIED]
    course = Course("wcpe", agents=4, weights=FOUR, means=tied, tolerance=0.4)
    course.phase()
    course.phase()
    assert course.trial.ends["agent 1"] is OutcomeStatus.OPEN
    course.freeze("agent 4")
    found = course.to_the_end().ends
    course.certify()
    course.verified()
    assert (found["agent 1"], found["agent 2"]) == (OutcomeStatus.ACCEPTED, OutcomeStatus.ACCEPTED)
