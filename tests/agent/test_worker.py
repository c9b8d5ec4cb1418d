import shlex
import sys

import pytest
from msgspec import structs

from parley.agent.outbox import Outbox
from parley.agent.plans import AgentPlan, NotYet
from parley.agent.sources import make_source
from parley.agent.worker import HELD, Worker, persistent
from parley.errors import Conflict, CoordinatorError, Interrupted, InvalidInput, Unreachable, WrongReceipt
from parley.protocol import Receipt
from parley.totals import Totals


def plan(phase=1, draws=(2, 1), stage="running", **changes):
    fields = {
        "study": "s", "agent": "a", "stage": stage, "reason": "", "phase": phase, "plan": "b" * 64,
        "arms": ("x", "y"), "draws": draws, "reported": False, "frozen": False,
    }  # fmt: skip
    return AgentPlan(**{**fields, **changes})


class Coordinator:
    """Three phases; every call may fail first, as often as `trouble` says."""

    def __init__(self, trouble=0, phases=3):
        self.taken, self.trouble, self.left, self.phases = {}, trouble, trouble, phases

    def _fail(self):
        if self.left:
            self.left -= 1
            raise Unreachable("no answer")
        self.left = self.trouble

    def plan(self, study, agent, *, after=0, wait=0):
        self._fail()
        phase = len(self.taken) + 1
        return plan(phase) if phase <= self.phases else plan(self.phases, None, stage="finished")

    def send(self, report, *, receipt=None):
        known = self.taken.setdefault(report.phase, report)
        assert known == report, "two different reports of one phase"
        self._fail()  # after it was taken: the answer is lost
        return Receipt(
            study="s", phase=report.phase, agent="a", report=report.digest, sequence=report.phase + 1, head="a" * 64
        )


class Source:
    def __init__(self, repeatable=False):
        self.repeatable, self.calls = repeatable, []

    def __call__(self, asked):
        self.calls.append(asked.phase)
        return Totals.of([[float(len(self.calls))] * count for count in asked.draws])


@pytest.mark.parametrize("trouble", [0, 1, 3])
def test_every_phase_is_drawn_once_and_reported_however_often_answers_are_lost(tmp_path, trouble):
    coordinator, source, waits = Coordinator(trouble), Source(), []
    with Outbox(tmp_path, study="s", agent="a") as box:
        last = Worker(coordinator, box, source, sleep=waits.append).run()
        assert last.stage == "finished"
        assert source.calls == [1, 2, 3]
        assert [one.phase for one in box.receipts()] == [1, 2, 3]
    assert bool(waits) == bool(trouble)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before drawing", "after drawing", "while sending", "before the receipt is kept"])
@pytest.mark.parametrize("repeatable", [False, True])
def test_killed_at_any_moment_it_goes_on_without_drawing_twice(tmp_path, moment, repeatable, monkeypatch):
    coordinator, source = Coordinator(), Source(repeatable)

    def kill(*_, **__):
        raise Killed

    with Outbox(tmp_path, study="s", agent="a") as box:
        if moment == "before drawing":
            monkeypatch.setattr(Outbox, "begin", kill)
        elif moment == "after drawing":
            monkeypatch.setattr(Outbox, "keep", kill)
        elif moment == "while sending":
            monkeypatch.setattr(coordinator, "send", kill)
        else:
            monkeypatch.setattr(Outbox, "acknowledge", kill)
        with pytest.raises(Killed):
            Worker(coordinator, box, source).run()
    monkeypatch.undo()
    with Outbox(tmp_path, study="s", agent="a") as box:
        worker = Worker(coordinator, box, source)
        if moment == "after drawing" and not repeatable:
            with pytest.raises(Interrupted):  # rewards were spent and are not known: a person must say
                worker.run()
            return
        worker.run()
        again = [1] if moment == "after drawing" else []
        assert source.calls == [*again, 1, 2, 3]


@pytest.mark.parametrize("waiting", [{"draws": None}, {"reported": True}], ids=["nothing asked", "reported before"])
def test_a_study_that_asks_nothing_of_the_agent_is_waited_for(tmp_path, waiting):
    asked = []

    class Idle(Coordinator):
        def plan(self, study, agent, *, after=0, wait=0):
            asked.append(after)
            return plan(len(asked), **waiting) if len(asked) < 4 else plan(4, None, stage="cancelled")

    with Outbox(tmp_path, study="s", agent="a") as box:
        Worker(Idle(), box, Source()).run()
    assert asked == [0, 1, 2, 3], "each wait is for a later phase, none is a busy loop"


def test_a_refused_report_ends_the_worker_with_advice(tmp_path):
    class Refusing(Coordinator):
        def send(self, report, *, receipt=None):
            raise Conflict("another stands", {"type": "urn:parley:problem:report-conflict"})

    with Outbox(tmp_path, study="s", agent="a") as box, pytest.raises(CoordinatorError, match="administrator"):
        Worker(Refusing(), box, Source()).run()


@pytest.mark.parametrize("change", [{"study": "t"}, {"phase": 2}, {"agent": "b"}, {"report": "0" * 64}])
def test_a_receipt_for_something_else_is_not_kept_and_the_report_stays_pending(tmp_path, change):
    class Dishonest(Coordinator):
        def send(self, report, *, receipt=None):
            return structs.replace(super().send(report), **change)

    with Outbox(tmp_path, study="s", agent="a") as box:
        with pytest.raises(WrongReceipt, match="did not acknowledge this report"):
            Worker(Dishonest(), box, Source()).run()
        assert box.pending().phase == 1
        assert box.receipts() == []
        Worker(Coordinator(), box, Source()).run()
        assert [one.phase for one in box.receipts()] == [1, 2, 3], "an honest one takes it"


def test_a_report_that_comes_after_the_end_stays_in_the_outbox(tmp_path):
    class Over(Coordinator):
        over = False

        def plan(self, study, agent, *, after=0, wait=0):
            return plan(1, None, stage="cancelled") if self.over else plan(1)

        def send(self, report, *, receipt=None):
            self.over = True
            raise Conflict("the study is cancelled", {"type": "urn:parley:problem:illegal-move"})

    with Outbox(tmp_path, study="s", agent="a") as box:
        assert Worker(Over(), box, Source()).run().stage == "cancelled"
        assert box.pending() is not None


class Memory:
    """What an outbox remembers of rows; every phase of it has its report."""

    def __init__(self):
        self.rows = {}

    def keep_rows(self, phase, text):
        self.rows[phase] = text

    def rows_before(self, phase):
        earlier = [known for known in self.rows if known < phase]
        return (max(earlier), self.rows[max(earlier)]) if earlier else None


def make(text, taken=lambda _: None, whole=lambda _: ((2,), (1,)), memory=None, **options):
    return make_source(text, seed=0, taken=taken, whole_plan=whole, memory=memory or Memory(), **options)


def test_a_function_as_source(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def draw(arm, count):\n    return [len(arm)] * count\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert make("python:mine:draw")(plan()).totals == Totals.of([[1.0, 1.0], [1.0]])


def test_a_command_as_source(tmp_path, monkeypatch):
    script = tmp_path / "draw.py"
    script.write_text(
        "import os, sys\nassert 'secret' not in os.environ.values()\n"
        "assert {os.environ[f'PARLEY_{name}'] for name in ('STUDY', 'AGENT', 'PHASE')} == {'s', 'a', '1'}\n"
        "print(*[0.5 if sys.argv[1] == 'x' else 2] * int(sys.argv[2]))\n"
    )
    for name in ("TOKEN", "TOKEN_FILE", "SQL_PASSWORD", "CLIENT_KEY_PASSWORD", "OIDC_SECRET"):
        monkeypatch.setenv(f"PARLEY_{name}", "secret")
    assert make(f"command:{sys.executable} {script}")(plan()).totals == Totals.of([[0.5, 0.5], [2.0]])


@pytest.mark.parametrize("arm", ["--help", "-x", "-"])
def test_an_arm_is_no_option_of_a_command(tmp_path, arm):
    script = tmp_path / "draw.py"
    script.write_text("import sys\nassert sys.argv[1] == '--'\nprint(*[1] * int(sys.argv[3]))\n")
    asked = plan(arms=("x", arm))
    with pytest.raises(InvalidInput, match=f"the arm '{arm}', which .* may take for an option; allowed: arms that do"):
        make(f"command:{sys.executable} {script}")(asked)
    assert make(f"command:{sys.executable} {script} --")(asked).totals == Totals.of([[1.0, 1.0], [1.0]])


def test_a_growing_file_as_source(tmp_path):
    file = tmp_path / "rewards.csv"
    source = make(f"csv:{file}")
    with pytest.raises(NotYet):
        source(plan())
    file.write_text("arm,reward\nx,1\ny,2\n")
    with pytest.raises(NotYet, match="x: 1 of 2"):
        source(plan())
    with file.open("a") as out:
        out.write("x,3\nx,4\ny,5\nx,6\nx,")
    assert source(plan()).totals == Totals.of([[1.0, 3.0], [2.0]])
    assert source(plan(2)).totals == Totals.of([[4.0, 6.0], [5.0]]), "the next rows, and not the unfinished line"
    file.write_text("arm,reward\nz,1\n")
    with pytest.raises(InvalidInput, match="line 2, column arm: found 'z'"):
        source(plan())


def test_rows_that_were_taken_are_asked_for_again_and_never_guessed(tmp_path):
    """The outbox is new and the coordinator does not answer at first: no report is made without its word."""
    file = tmp_path / "rewards.csv"
    file.write_text("arm,reward\n" + "".join(f"{arm},{place}\n" for arm in "xy" for place in range(20)))
    answers, waits, coordinator = (
        iter([Unreachable("no answer"), plan().report(Totals.of([[0.0, 1.0], [0.0]]))]),
        [],
        Coordinator(phases=2),
    )
    coordinator.taken[1] = "by an outbox that is gone"

    def taken(_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with Outbox(tmp_path / "outbox", study="s", agent="a") as box:
        Worker(coordinator, box, make(f"csv:{file}", taken=taken), sleep=waits.append).run()
    assert len(waits) == 1
    assert coordinator.taken[2].sums == (2.0 + 3.0, 1.0)


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "python:", "python:no_such_module:f", "command:", "csv:", "simulate:", "simulate:none.toml"],
)
def test_sources_that_are_none(text):
    with pytest.raises(InvalidInput):
        make(text)


@pytest.mark.parametrize("printed", ["1", "1 2 3", "1 x", "nan 1", ""])
def test_a_command_that_prints_something_else(printed):
    with pytest.raises(InvalidInput, match="rewards of x"):
        make("command:" + shlex.join([sys.executable, "-c", f"print('{printed}')"]))(plan())


def test_an_agent_started_before_its_coordinator_waits_for_it():
    answers = iter([Unreachable("no answer"), Unreachable("no answer"), {"agent": "a"}])
    said: list[str] = []
    waits: list[float] = []

    def call():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert persistent(call, said.append, sleep=waits.append) == {"agent": "a"}
    assert len(waits) == 2
    assert said == ["no answer; trying again, at least every 30 s"]


def test_why_an_agent_waits_is_said_once_and_again_when_it_changes(tmp_path):
    troubles = ["no answer", "no answer", "too busy", "no answer"]
    said, warned = [], []

    class Troubled(Coordinator):
        def plan(self, study, agent, *, after=0, wait=0):
            if troubles:
                raise Unreachable(troubles.pop(0))
            return super().plan(study, agent, after=after, wait=wait)

        def send(self, report, *, receipt=None):
            if holds:
                raise Unreachable(holds.pop(0), {"type": HELD})
            return super().send(report, receipt=receipt)

    holds = ["held: the mean of x"] * 3
    with Outbox(tmp_path, study="s", agent="a") as box:
        Worker(Troubled(phases=1), box, Source(), say=said.append, warn=warned.append, sleep=lambda _: None).run()
    waits = [one for one in said if "trying again" in one]
    assert [one.split(";")[0] for one in waits] == ["no answer", "too busy", "no answer"]
    assert len(warned) == 1
    assert warned[0].startswith("held: the mean of x. Check what was entered")


@pytest.mark.parametrize("resting", [{"frozen": True, "draws": None}, {"stage": "stalled", "draws": None}])
def test_a_frozen_agent_and_a_stalled_study_are_waited_for(tmp_path, resting):
    """An administrator may thaw the one and re-weigh the other; nothing is drawn meanwhile, and nothing twice."""
    said, rests = [], [2, 2]

    class Resting(Coordinator):
        def plan(self, study, agent, *, after=0, wait=0):
            here = super().plan(study, agent, after=after, wait=wait)
            if here.phase == 2 and rests and not here.over:
                rests.pop()
                return structs.replace(here, **resting)
            return here

    source = Source()
    with Outbox(tmp_path, study="s", agent="a") as box:
        last = Worker(Resting(), box, source, say=said.append, sleep=lambda _: None).run()
    assert last.stage == "finished"
    assert source.calls == [1, 2, 3]
    assert sum("in case" in words for words in said) == 1, "once, however often it asks"


def test_a_report_that_a_freeze_stopped_is_sent_after_the_thaw(tmp_path):
    class Freezing(Coordinator):
        frozen, tried = True, 0

        def plan(self, study, agent, *, after=0, wait=0):
            here = super().plan(study, agent, after=after, wait=wait)
            return structs.replace(here, frozen=True, draws=None) if self.frozen and self.tried else here

        def send(self, report, *, receipt=None):
            if not self.frozen:
                return super().send(report, receipt=receipt)
            self.tried += 1
            if self.tried == 2:
                type(self).frozen = False
            raise Conflict("frozen", {"type": "urn:parley:problem:agent-frozen"})

    source = Source()
    with Outbox(tmp_path, study="s", agent="a") as box:
        assert Worker(Freezing(), box, source, sleep=lambda _: None).run().stage == "finished"
        assert [one.phase for one in box.receipts()] == [1, 2, 3]
    assert source.calls == [1, 2, 3]
