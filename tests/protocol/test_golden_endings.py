"""Golden logs with every event of the ways a study ends: a site lost, left out and back, a report held, a budget.

To add one: `make generated`, which never rewrites one that is there.
"""

import pytest
from msgspec import structs
from tests.protocol.test_between import Waiting
from tests.protocol.test_golden_logs import GOLDEN, text_of
from tests.protocol.test_guardrails import HARM, PAIN, Guarded
from tests.protocol.test_held import held, refused, taken
from tests.protocol.test_lost_sites import Course
from tests.protocol.test_minimum_cell import logged
from tests.protocol.test_trial import reported
from tests.support import first_quick

from parley.protocol import EVENTS, Stage, issue_certificate, read_log, verify_log
from parley.protocol.events import (
    Certified,
    Disputed,
    Paused,
    ReportAccepted,
    ResultsRead,
    Resumed,
    Signed,
    StepFailed,
)

LOST = {"agent-frozen", "agent-thawed", "reweighed", "report-quarantined", "report-refused", "report-amended"}


class Kept(Course):
    """With reports that are held."""

    def far_off(self, by=1e6):
        """A report that the stated model rules out."""
        agent = self.trial.awaited[0]
        place = self.trial.study.agents.index(agent)
        totals = self.drawn(self.trial.plan.draws(place), place)
        good = reported(self.trial, place, totals.sums, totals.squares)
        n, (total, *sums), (square, *squares) = good.counts[0], good.sums, good.squares
        return good, structs.replace(
            good, sums=(total + n * by, *sums), squares=(square + 2 * by * total + n * by**2, *squares)
        )


def lost_site(policy):
    """Held, refused, held and taken otherwise; frozen, blocked, re-weighed, thawed, re-weighed, decided."""
    course = Kept(policy, spread=0.4)
    _, far = course.far_off()
    course.let(held(far, "the mean 1e6 of arm 1 is ruled out"))
    course.let(refused(far))
    course.phase()
    good, far = course.far_off()
    course.let(held(far, "the mean 1e6 of arm 1 is ruled out"))
    course.let(taken(good))
    course.freeze("agent 6")
    course.to_the_end()
    course.certify()
    course.reweigh()
    course.report(2)
    course.thaw("agent 6")
    course.reweigh()
    course.to_the_end()
    course.certify()
    return course


def exhausted():
    course = Kept("evidence", agents=3, spread=0.1, max_samples=300)
    course.to_the_end()
    course.certify()
    return course


def accepted():
    course = Kept("evidence", agents=3, means=[[0.5] * 3, [0.5] * 3, [0.0] * 3], tolerance=0.3)
    course.to_the_end()
    course.certify()
    return course


def blocked():
    course = Kept("wcpe", spread=0.2, tolerance=0.05)
    course.freeze("agent 6")
    course.to_the_end()
    course.certify()
    return course


def arms_come_and_go():
    """One opens, one is withdrawn, and opened again; the study ends with all that are open."""
    course = Kept(
        "evidence", agents=3, arms=4, means=[[0.35] * 3, [0.2] * 3, [0.0] * 3, [0.55] * 3], dormant=("arm 4",)
    )
    course.phase()
    course.open_arm("arm 4")
    course.phase()
    course.withdraw_arm("arm 2")
    course.phase()
    course.open_arm("arm 2")
    course.withdraw_arm("arm 4")
    course.to_the_end()
    course.certify()
    return course


def corrected():
    """A report is corrected in mid-study, and again after the end, when the answer would be another."""
    course = Kept("evidence", agents=3, means=[[0.9] * 3, [0.4] * 3, [0.0] * 3])
    course.phase()
    course.correct(course.corrected(1, "agent 2", -0.25))
    course.to_the_end()
    course.certify()
    for phase, settled in enumerate(course.trial.settled, start=1):
        for agent in settled.reports:
            course.correct(course.corrected(phase, agent, -1.0), "arms 1 and 2 were mixed up")
            course.correct(course.corrected(phase, agent, 1.0, arm=1), "arms 1 and 2 were mixed up")
            course.certify()
    return course


def signed():
    """Signed before the first report, and after the end."""
    course = Kept("evidence", agents=2, means=[[0.9] * 2, [0.4] * 2, [0.0] * 2])
    course.let(Signed(principal="somebody", name="Ada Example", meaning="approved the protocol"))
    course.to_the_end()
    course.certify()
    course.let(Signed(principal="somebody", name="Ada Example", meaning="reviewed the results"))
    return course


def interrupted():
    """Paused, disputed, stopped by a failed step; and resumed each time."""
    course = Kept("evidence", agents=2, means=[[0.9] * 2, [0.4] * 2, [0.0] * 2])
    stops = [Paused(reason="holiday"), Disputed(agent="agent 1", sequence=9, head="a" * 64)]
    for stop in stops:
        course.let(stop)
        course.let(Resumed(reason="looked into"))
    course.report()
    course.let(StepFailed(phase=1, error="out of memory"))
    course.let(Resumed(reason="more memory"))
    course.to_the_end()
    course.certify()
    return course


def read():
    """Somebody sees results in the first phase, and in the last."""
    course = Kept("evidence", agents=2, means=[[0.9] * 2, [0.4] * 2, [0.0] * 2])
    course.let(ResultsRead(phase=1, operation="get_findings"))
    course.phase()
    course.let(ResultsRead(phase=2, operation="get_log"))
    course.to_the_end()
    course.certify()
    return course


def guarded():
    """The best arm is stopped in mid-phase; another one is cleared."""
    course = Guarded((0.05, 0.05, 0.6), (HARM | {"margin": 0.3}, PAIN), means=[[0.0] * 3, [0.25] * 3, [0.5] * 3])
    course.to_the_end()
    course.certify()
    return course


class Adjusted(Kept):
    """With reports that are adjusted for a covariate: not in the first phase, and by other slopes later."""

    def __init__(self, **more):
        noise = {"kind": "gaussian", "scale": "unknown", "guess": 1.0}
        super().__init__(
            "evidence", agents=2, means=[[0.9] * 2, [0.4] * 2, [0.0] * 2], noise=noise, covariate="age", **more
        )

    def report(self, count=None):
        for agent in self.trial.awaited[:count]:
            place, phase = self.trial.study.agents.index(agent), self.trial.phase
            totals = self.drawn(self.trial.plan.draws(place), place)
            sent = reported(self.trial, place, totals.sums, totals.squares)
            slope = {"theta": 0.02 * (phase - 1) * (1 + place), "x0": None if phase == 1 else 61.5 + place, "left": 0.9}
            self.let(ReportAccepted(report=structs.replace(sent, **slope, missing_x=place or None)))

    def certify(self):
        records = self.chain(self.events)
        decisions = [event.decision for event in self.events if hasattr(event, "decision")]
        certificate = issue_certificate(
            self.trial,
            data=[decision.data for decision in decisions],
            decisions=decisions,
            phases=self.trial.past,
            sequence=records[-1].sequence,
            head=records[-1].hash,
            version="0.1.0",
        )
        self.let(Certified(certificate=certificate))
        return certificate


def covariate():
    course = Adjusted()
    course.to_the_end()
    course.certify()
    return course


def between():
    """Sites assign whoever comes between phases; a report of them is corrected, and an arm withdrawn."""
    course = Waiting(means=[[0.4] * 3, [0.3] * 3, [0.0] * 3])
    course.phase()
    course.phase()
    report = course.report_of(2, "agent 2")
    early = structs.replace(report.between, sums=(report.between.sums[0] - 0.5, *report.between.sums[1:]))
    course.correct(structs.replace(report, between=early))
    course.withdraw_arm("arm 3")
    course.to_the_end()
    course.certify()
    return course


MADE = {
    "between": between,
    "guardrails": guarded,
    "covariate": covariate,
    "interrupted": interrupted,
    "read": read,
    "signed": signed,
    "corrected": corrected,
    "arms": arms_come_and_go,
    "lost-site": lambda: lost_site("evidence"),
    "lost-site-wcpe": lambda: lost_site("wcpe"),
    "exhausted": exhausted,
    "accepted": accepted,
    "blocked": blocked,
}
ENDS = {
    "between": "decided",
    "guardrails": "decided",
    "covariate": "decided",
    "interrupted": "decided",
    "read": "decided",
    "signed": "decided",
    "arms": "decided",
    "corrected": "decided",
    "lost-site": "decided",
    "lost-site-wcpe": "decided",
}


@pytest.mark.parametrize(
    "name",
    first_quick(
        *sorted(MADE, key=("arms", "blocked", "exhausted", "guardrails", "lost-site").__contains__, reverse=True),
        quick=5,
    ),
)
def test_golden_logs_stay_sound(name):
    records = list(read_log((GOLDEN / f"log-{name}.ndjson").read_text(encoding="utf-8").splitlines()))
    found = verify_log(records)
    assert found.sound, found.problem
    assert found.stage == ("stalled" if name == "blocked" else "finished")
    certificate = next(one for one in reversed(records) if one.kind == "certified").payload["certificate"]
    worst = set((certificate.get("ends") or {"": "decided"}).values())
    assert ENDS.get(name, name) in worst
    assert certificate["complete"] == (name not in ("exhausted", "blocked"))
    if name == "arms":
        assert {record.kind for record in records} >= {"arm-opened", "arm-withdrawn"}
        assert (certificate["opened"], certificate["withdrawn"]) == ({"arm 2": 4, "arm 4": 2}, {"arm 4": 4})
    if name == "between":
        decided = [record.payload["decision"] for record in records if record.kind == "phase-closed"]
        assert [("between" in one, "ahead" in one) for one in decided[:2]] == [(False, True), (True, True)]
    if name == "guardrails":
        assert {record.kind for record in records} >= {"arm-stopped", "guardrail-noted"}
        statuses = [(row["arm"], row["status"]) for row in certificate["outcomes"][0]["arms"]]
        assert statuses == [("arm 2", "cleared"), ("arm 3", "stopped")]
    if name == "covariate":
        found_of = certificate["covariate"]
        assert (found_of["name"], found_of["missing"]) == ("age", certificate["phases"])
        assert found_of["theta"]["agent 2"][:2] == [0.0, 0.04]
        assert found_of["x0"]["agent 1"][:2] == [None, 61.5]
        assert "adjusted for age, and this is valid only if arms are assigned at random" in certificate["guarantee"]
    if name == "read":
        assert [(one.phase, one.operation) for one in found.reads] == [(1, "get_findings"), (2, "get_log")]
    if name == "signed":
        assert [one.meaning for one in found.signatures] == ["approved the protocol", "reviewed the results"]
        assert (found.signatures[0].sequence, found.signatures[1].sequence) == (2, len(records))
    if name == "corrected":
        assert {record.kind for record in records} >= {"report-corrected"}
        assert set(certificate["with_corrections"]["would_change"].values()) == {"yes"}
        assert {tuple(arms) for arms in certificate["answers"].values()} == {("arm 1",)}
    if name.startswith("lost"):
        assert {record.kind for record in records} >= LOST
        assert [record.kind for record in records].count("certified") == 2, "of the blocked study, and the last word"
        assert len(found.trial.past) >= 3


def test_every_kind_of_event_is_in_a_golden_log():
    logs = [read_log(path.read_text(encoding="utf-8").splitlines()) for path in GOLDEN.glob("log-*.ndjson")]
    missing = set(EVENTS) - {record.kind for log in logs for record in log}
    assert not missing, f"write a study with {', '.join(sorted(missing))}, and its row in MADE; then `make generated`"


def test_what_was_changed_in_one_shows():
    records = list(read_log((GOLDEN / "log-lost-site.ndjson").read_text(encoding="utf-8").splitlines()))
    firsts = {record.kind: place for place, record in reversed(list(enumerate(records)))}
    for place, record in ((place, records[place]) for place in firsts.values()):
        other = structs.replace(record, payload={**record.payload, "reason": "another"}, hash=record.hash)
        assert not verify_log([*records[:place], other, *records[place + 1 :]]).sound, record.kind
    assert "was changed" in verify_log([*records[:1], structs.replace(records[1], actor="me"), *records[2:]]).problem


@pytest.mark.parametrize("name", first_quick("lost-site", *(name for name in MADE if name != "lost-site")))
def test_they_are_what_would_be_written_now(name):
    course = MADE[name]()
    assert course.trial.stage in (Stage.FINISHED, Stage.STALLED)
    text = (GOLDEN / f"log-{name}.ndjson").read_text(encoding="utf-8")
    kinds = [record.kind for record in read_log(text.splitlines())]
    assert kinds == [record.kind for record in logged(course.events)]


def golden_files():
    """What `make generated` writes where it is missing."""
    return {
        GOLDEN / f"log-{name}.ndjson": lambda made=made: text_of(logged(made().events)) for name, made in MADE.items()
    }
