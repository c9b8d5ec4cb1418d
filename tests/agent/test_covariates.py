"""A covariate at a site: asked for before the arm, adjusted for by what earlier phases said, and never told."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from msgspec import structs
from tests.agent.test_worker import Coordinator, plan
from tests.agent.test_worker import Memory as Rows

from parley.agent import journal
from parley.agent.adjustment import AdjustedSource
from parley.agent.outbox import Outbox
from parley.agent.plans import Delivery
from parley.agent.reporting import rules_of
from parley.agent.site import Site
from parley.agent.sources import make_source
from parley.agent.worker import Worker
from parley.covariates import Covariate, Pairs, adjusted_rewards, fixed_for, left_after
from parley.errors import InvalidInput, NotNow
from parley.protocol import Report, StudyMessage, check_adjustment
from parley.study import parse_study
from parley.totals import Totals

BEGUN = journal.PhaseBegun.schema
STUDY = StudyMessage.of(parse_study({"arms": ["x", "y"], "agents": ["a"], "covariate": {"name": "Age"}}))
RULES = rules_of(STUDY, "a")
RULE = RULES.adjustment
PEOPLE = {f"p-{number}": (20.0 + 7 * (number % 9), 0.1 * number + 0.3 * (number % 9)) for number in range(16)}


def begin(site, phase=1, draws=(4, 4)):
    site.begin(phase=phase, plan=f"{phase:064x}", arms=("x", "y"), draws=draws)


def asked(phase=1, draws=(4, 4)):
    return plan(phase, draws, plan=f"{phase:064x}")


def phase(site, number, keys, unknown=()):
    """Everybody is assigned and observed; the delivery of the phase."""
    begin(site, number)
    for key in keys:
        x, y = PEOPLE[key]
        site.assign(key, **({"without_covariate": True} if key in unknown else {"covariate": x}))
        site.outcome(key, y)
    return site(asked(number))


def by_arm(site, keys, unknown=()):
    """The outcomes and covariates of these people, by arm, in the order they came."""
    rewards, xs = [[], []], [[], []]
    for key in keys:
        arm = site.people[key].arm
        rewards[arm].append(PEOPLE[key][1])
        xs[arm].append(None if key in unknown else PEOPLE[key][0])
    return rewards, xs


FIRST, SECOND = list(PEOPLE)[:8], list(PEOPLE)[8:]


def test_a_phase_is_adjusted_by_what_the_phases_before_it_said(tmp_path):
    with Site(tmp_path, study="s", agent="a", rules=RULES, key=b"k") as site:
        one = phase(site, 1, FIRST)
        assert (one.theta, one.x0, one.missing_x) == (0.0, None, 0)
        first = Pairs.of(*by_arm(site, FIRST))
        assert one.left == left_after(RULE, [], first, 0.0) == asked(1).report(one).left
        assert one.totals == Totals.of(by_arm(site, FIRST)[0])
        two = phase(site, 2, SECOND, unknown={"p-9", "p-12"})
        theta, x0 = fixed_for(RULE, [first])
        assert (two.theta, two.x0, two.missing_x) == (theta, x0, 2)
        assert two.left == left_after(RULE, [first], Pairs.of(*by_arm(site, SECOND, {"p-9", "p-12"})), theta)
        assert theta != 0
        expected = adjusted_rewards(*by_arm(site, SECOND, {"p-9", "p-12"}), theta, x0)
        assert two.totals == Totals.of(expected)
        report = asked(2).report(two)
        assert (report.theta, report.x0, report.missing_x) == (theta, x0, 2)
        check_adjustment(report, STUDY.problem)


def test_the_slope_of_a_phase_stands_in_the_journal_before_its_first_assignment_and_outcome(tmp_path):
    """A theta that an outcome of its own phase could move would break the proof."""
    with Site(tmp_path, study="s", agent="a", rules=RULES, key=b"k") as site:
        phase(site, 1, FIRST)
        phase(site, 2, SECOND)
    lines = next(tmp_path.rglob("journal")).read_bytes().splitlines()
    entries = [json.loads(line.partition(b" ")[2])["entry"] for line in lines]
    begun = next(place for place, entry in enumerate(entries) if (entry["schema"], entry.get("phase")) == (BEGUN, 2))
    assert entries[begun]["theta"] == fixed_for(RULE, [Pairs.of(*by_arm(site, FIRST))])[0]
    earlier = {entry.get("participant") for entry in entries[:begun]} - {None}
    assert earlier == set(FIRST), "all outcomes that the slope was learned from, and no others"
    assert not any("theta" in entry for entry in entries[begun + 1 :])


@pytest.mark.parametrize("stops", range(1, 6))
def test_a_site_that_starts_again_at_any_point_reports_the_same_bytes(tmp_path, stops):
    """Phase 2 with a restart after every `stops` entries; the slope is read again, never made again."""
    reports = []
    for folder, every in (("straight", 1000), ("stopped", stops)):
        with Site(tmp_path / folder, study="s", agent="a", rules=RULES, key=b"k") as site:
            phase(site, 1, FIRST)
        for done, key in enumerate(SECOND):
            if done % every == 0:
                site = Site(tmp_path / folder, study="s", agent="a", rules=RULES, key=b"other")
                begin(site, 2)
            site.assign(key, covariate=PEOPLE[key][0])
            if done % every == every - 1 or done == len(SECOND) - 1:
                site.close()
        with Site(tmp_path / folder, study="s", agent="a", rules=RULES) as site:
            for key in SECOND:
                site.outcome(key, PEOPLE[key][1])
            reports.append(asked(2).report(site(asked(2))))
    assert reports[0].text == reports[1].text


def test_a_correction_of_an_earlier_phase_moves_no_slope_that_is_fixed(tmp_path):
    with Site(tmp_path, study="s", agent="a", rules=RULES, key=b"k") as site:
        phase(site, 1, FIRST)
        begin(site, 2)
        fixed = site.people.phases[2].plan.theta
        site.correct([("p-3", 77.0)])
        for key in SECOND:
            site.assign(key, covariate=PEOPLE[key][0])
            site.outcome(key, PEOPLE[key][1])
        assert site(asked(2)).theta == fixed
    with Site(tmp_path, study="s", agent="a") as again:
        assert again.people.phases[2].plan.theta == fixed


def test_it_is_asked_for_before_the_arm_and_never_taken_after_it(tmp_path):
    with Site(tmp_path, study="s", agent="a", rules=RULES, key=b"k") as site:
        begin(site)
        with pytest.raises(
            InvalidInput, match="Age: found nothing; allowed: before the assignment, either a number or a note"
        ):
            site.assign("p-1")
        assert "p-1" not in site.people.persons, "nobody learns the arm first"
        site.assign("p-1", covariate=40)
        assert site.assign("p-1", covariate=40.0).again
        assert site.assign("p-1").again
        for late in ({"covariate": 41.0}, {"without_covariate": True}):
            with pytest.raises(NotNow, match="Age is recorded before the assignment and cannot be changed afterwards"):
                site.assign("p-1", **late)
        site.assign("p-2", without_covariate=True)
        with pytest.raises(NotNow, match="cannot be changed afterwards"):
            site.assign("p-2", covariate=40.0)
        assert [site.people[key].x for key in ("p-1", "p-2")] == [40.0, None]


@pytest.mark.parametrize("x", [float("nan"), float("inf"), "old", True, 1e300])
def test_a_covariate_that_is_no_finite_number_assigns_nobody(tmp_path, x):
    with Site(tmp_path, study="s", agent="a", rules=RULES, key=b"k") as site:
        begin(site)
        with pytest.raises(InvalidInput, match=r"covariate: found .*; allowed: a finite number"):
            site.assign("p-1", covariate=x)
        assert not site.people.persons


def test_without_a_covariate_none_is_taken_and_with_two_answers_neither(tmp_path):
    with Site(tmp_path / "without", study="s", agent="a", key=b"k") as site:
        begin(site)
        with pytest.raises(InvalidInput, match="allowed: nothing: this study does not ask for such a value"):
            site.assign("p-1", covariate=3.0)
    with Site(tmp_path / "with", study="s", agent="a", rules=RULES, key=b"k") as site:
        begin(site)
        with pytest.raises(InvalidInput, match="either a number or a note that the value is not known"):
            site.assign("p-1", covariate=3.0, without_covariate=True)


def test_who_comes_when_nobody_is_needed_is_not_asked(tmp_path):
    with Site(tmp_path, study="s", agent="a", rules=RULES, key=b"k") as site:
        begin(site, draws=(0, 1))
        site.assign("p-1", covariate=3.0)
        assert not site.assign("p-2").counted


def test_x_is_clipped_where_it_is_used_and_kept_as_it_was_told(tmp_path):
    rules = structs.replace(RULES, covariate_range=(0.0, 30.0))
    with Site(tmp_path, study="s", agent="a", rules=rules, key=b"k") as site:
        phase(site, 1, FIRST)
        assert max(site.people[key].x for key in FIRST) > 30
        assert max(x for xs in site.people.pairs(site.people.phases[1])[1] for x in xs) == 30.0


# Sources of an agent.


class Memory(Rows):
    """With what an outbox remembers of slopes."""

    def __init__(self):
        super().__init__()
        self.slopes, self.pairs = {}, {}

    def fixed_slope(self, phase, make):
        return self.slopes.setdefault(phase, make())

    def keep_pairs(self, phase, sums):
        self.pairs[phase] = sums

    def pairs_before(self, phase):
        return [sums for known, sums in sorted(self.pairs.items()) if known < phase]


def rows(number):
    """Of two phases of the plan (4, 4): in the second people are others."""
    rng = np.random.default_rng(number)
    xs = rng.normal(50, 10, 16).tolist()
    return [
        ("x" if place % 2 else "y", round(0.2 * x + float(rng.normal()), 6), round(x, 6)) for place, x in enumerate(xs)
    ]


def adjusted(kind, memory, **more):
    warned = []
    source = make_source(kind, seed=0, whole_plan=None, taken=lambda _: None, memory=memory, covariate=RULE, **more)
    return AdjustedSource(source, RULE, memory, warn=warned.append), warned


def expected(table, phase_of):
    """The two deliveries of a table, by arm: who came first is in the first phase."""
    cells = [[row for row in table if row[0] == arm] for arm in ("x", "y")]
    some = [cell[4 * (phase_of - 1) : 4 * phase_of] for cell in cells]
    return [[row[1] for row in cell] for cell in some], [[row[2] for row in cell] for cell in some]


def check_two_phases(source, table):
    one, two = source(plan(1, (4, 4))), source(plan(2, (4, 4)))
    theta, x0 = fixed_for(RULE, [Pairs.of(*expected(table, 1))])
    assert one.totals == Totals.of(expected(table, 1)[0])
    assert (one.theta, one.x0) == (0.0, None)
    assert (two.theta, two.x0) == (theta, x0)
    assert (one.left, two.left) == (
        left_after(RULE, [], Pairs.of(*expected(table, 1)), 0.0),
        left_after(RULE, [Pairs.of(*expected(table, 1))], Pairs.of(*expected(table, 2)), theta),
    )
    assert two.totals == Totals.of(adjusted_rewards(*expected(table, 2), theta, x0))
    assert not two.covariates, "nothing of single people goes on"
    assert not two.pairs


def test_a_table_has_a_column_of_the_covariate(tmp_path):
    file, table = tmp_path / "rewards.csv", rows(1)
    file.write_text("AGE;Arm;Reward\n" + "".join(f"{x};{arm};{y}\n" for arm, y, x in table))
    source, warned = adjusted(f"csv:{file}", Memory())
    check_two_phases(source, table)
    assert not warned


@pytest.mark.parametrize(
    ("header", "cell", "words"),
    [
        ("arm,reward", "", "column age: found 0 columns of that name"),
        ("arm,reward,age", "old", "line 2, column age: found 'old'"),
        ("arm,reward,age", "nan", "line 2, column age: found 'nan'"),
        ("arm,reward,age", "inf", "line 2, column age: found 'inf'"),
    ],
)
def test_a_missing_column_text_and_nan_are_named_and_nothing_is_lost(tmp_path, header, cell, words):
    file, memory = tmp_path / "rewards.csv", Memory()
    file.write_text(f"{header}\n" + "".join(f"{arm},{y},{cell or x}\n" for arm, y, x in rows(2)))
    source, _ = adjusted(f"csv:{file}", memory)
    with pytest.raises(InvalidInput, match=words):
        source(plan(1, (4, 4)))
    file.write_text("arm,reward,age\n" + "".join(f"{arm},{y},{x}\n" for arm, y, x in rows(2)))
    check_two_phases(source, rows(2))


def test_an_empty_cell_is_not_known_and_a_constant_covariate_is_named(tmp_path):
    file = tmp_path / "rewards.csv"
    table = [("x" if place % 2 else "y", 0.1 * place, "" if place == 3 else 7.0) for place in range(16)]
    file.write_text("arm,reward,age\n" + "".join(f"{arm},{y},{x}\n" for arm, y, x in table))
    source, warned = adjusted(f"csv:{file}", Memory())
    assert source(plan(1, (4, 4))).missing_x == 1
    assert source(plan(2, (4, 4))).theta == 0
    assert "Age has been the same for everybody in an arm so far" in warned[0]


def test_a_covariate_that_is_changed_after_the_assignment_is_refused(tmp_path):
    file = tmp_path / "rewards.csv"
    before = ["y,1,30", "x,1,40", "x,2,50", "x,2,60", "x,3,70", "y,4,35", "y,2,31", "y,,44", "y,1,33", "x,9,41"]
    file.write_text("\n".join(["arm,reward,age", *before[:7], "y,2,44", *before[8:], ""]))
    source, _ = adjusted(f"csv:{file}", Memory())
    source(plan(1, (4, 4)))
    file.write_text("\n".join(["arm,reward,age", "y,1,90", *before[1:7], "y,2,44", *before[8:], ""]))
    with pytest.raises(InvalidInput, match="line 2: found y, 1, 90, which was not there"):
        source(plan(2, (4, 4)))


def test_a_table_that_waits_for_an_outcome_may_get_it_but_no_other_covariate(tmp_path):
    file = tmp_path / "rewards.csv"
    whole = ["x,1,30", "y,1,40", "x,,50", "x,2,60", "y,2,35", "y,3,20", "x,4,30", "y,5,30"]
    file.write_text("\n".join(["arm,reward,age", *whole, ""]))
    source, _ = adjusted(f"csv:{file}", Memory())
    with pytest.raises(Exception, match="line 4 has no reward yet"):
        source(plan(1, (2, 2)))
    rest = [*whole[:2], "x,7,50", *whole[3:]]
    file.write_text("\n".join(["arm,reward,age", *rest, ""]))
    assert source(plan(1, (2, 2))).totals == Totals.of([[1.0, 7.0], [1.0, 2.0]])


def test_a_function_returns_pairs_and_a_command_prints_them(tmp_path, monkeypatch):
    (tmp_path / "ward.py").write_text(
        "import sys\nLEFT = {'x': [], 'y': []}\n"
        f"for arm, y, x in {rows(3)!r}: LEFT[arm].append((y, x))\n"
        "def draw(arm, count):\n    return [LEFT[arm].pop(0) for _ in range(count)]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    source, _ = adjusted("python:ward:draw", Memory())
    check_two_phases(source, rows(3))
    program = tmp_path / "draw.py"
    program.write_text(
        "import os, sys\narm, count, phase = sys.argv[1], int(sys.argv[2]), int(os.environ['PARLEY_PHASE'])\n"
        f"cell = [row for row in {rows(4)!r} if row[0] == arm][count * (phase - 1) : count * phase]\n"
        "for _, y, x in cell: print(y, x)\n"
    )
    source, _ = adjusted(f"command:{sys.executable} {program}", Memory())
    check_two_phases(source, rows(4))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1.0", "rows of 2 numbers: the reward, Age"),
        ("(1.0, 'old')", "Age of x: found 'old'"),
        ("(1.0, float('nan'))", "Age of x: found nan"),
    ],
)
def test_a_function_without_the_covariate_is_refused_by_name(tmp_path, monkeypatch, value, words):
    (tmp_path / "clinic.py").write_text(f"def draw(arm, count):\n    return [{value}] * count\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "clinic", raising=False)
    source, _ = adjusted("python:clinic:draw", Memory())
    with pytest.raises(InvalidInput, match=words):
        source(plan(1, (4, 4)))


def test_a_source_of_rewards_alone_is_refused():
    class Alone:
        repeatable = True

        def __call__(self, asked):
            return Delivery(totals=Totals.of([[1.0] * count for count in asked.draws]))

    with pytest.raises(InvalidInput, match="source: found rewards alone; allowed: rewards with Age"):
        AdjustedSource(Alone(), RULE, Memory())(plan(1, (2, 2)))


def test_the_slope_is_on_the_disk_before_the_source_is_asked_and_is_read_again(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as box:
        found = []

        class Nosy:
            repeatable = True

            def __call__(self, asked):
                found.append((box.folder / "slopes" / f"{asked.phase}.json").read_text())
                cells = [[row for row in rows(asked.phase) if row[0] == arm][:4] for arm in ("x", "y")]
                return Delivery(
                    totals=Totals.of([[row[1] for row in cell] for cell in cells]),
                    rewards=[[row[1] for row in cell] for cell in cells],
                    covariates=[[row[2] for row in cell] for cell in cells],
                )

        source = AdjustedSource(Nosy(), RULE, box)
        source(plan(1, (4, 4)))
        two = source(plan(2, (4, 4)))
        again = AdjustedSource(Nosy(), RULE, box)(plan(2, (4, 4)))
        assert again.totals == two.totals
        assert json.loads(found[1])["theta"] == two.theta != 0
        assert found[1] == found[2]


def test_a_new_outbox_knows_the_rows_of_earlier_reports_by_their_adjusted_sums(tmp_path):
    file, table = tmp_path / "rewards.csv", rows(5)
    file.write_text("arm,reward,age\n" + "".join(f"{arm},{y},{x}\n" for arm, y, x in table))
    rewards, xs = expected(table, 1)
    sent = plan(1, (4, 4)).report(
        Delivery(totals=Totals.of(adjusted_rewards(rewards, xs, 0.3, 48.0)), theta=0.3, x0=48.0)
    )
    fresh = make_source(
        f"csv:{file}", seed=0, whole_plan=None, taken=lambda _: sent, memory=Memory(), covariate=Covariate(name="Age")
    )
    assert fresh(plan(2, (4, 4))).rewards == expected(table, 2)[0]


class Telling(Coordinator):
    """Writes down what it is told, and knows it again when the agent is started again."""

    def __init__(self, told):
        super().__init__()
        self.told = told
        for text in told.read_text().splitlines() if told.exists() else ():
            self.taken[Report.read(text).phase] = Report.read(text)

    def plan(self, study, agent, *, after=0, wait=0, **_):
        found = super().plan(study, agent)
        return plan(found.phase, found.draws and (4, 4), stage=found.stage)

    def send(self, report, *, receipt=None):
        with self.told.open("a") as told:
            told.write(report.text + "\n")
        return super().send(report, receipt=receipt)


def course(folder, table):
    """An agent from its start, or where it was killed, to the end of three phases."""
    with Outbox(folder, study="s", agent="a") as box:
        source, _ = adjusted(f"csv:{table}", box)
        assert Worker(Telling(folder / "told"), box, source, sleep=lambda _: None).run().stage == "finished"


KILLED = """
import sys
from pathlib import Path
from tests.agent.test_covariates import course
from parley.system import killpoints
killpoints.arm(sys.argv[3])
course(*map(Path, sys.argv[1:3]))
"""


@pytest.mark.kills
@pytest.mark.parametrize("point", ["slope-fixed", "report-kept", "report-sent"])
def test_an_agent_killed_at_any_point_reports_the_same_bytes(tmp_path, point):
    """Killed in the second phase, then left alone: what ever left is what an agent that nobody killed sends."""
    table = tmp_path / "rewards.csv"
    table.write_text("arm,reward,age\n" + "".join(f"{arm},{y},{x}\n" for arm, y, x in rows(1) + rows(2)))
    for name in ("straight", "killed"):
        (tmp_path / name).mkdir()
    course(tmp_path / "straight", table)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(table), f"{point}:2"]
    done = subprocess.run(command, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, "the point was reached"
    course(tmp_path / "killed", table)
    straight, killed = ((tmp_path / name / "told").read_text().splitlines() for name in ("straight", "killed"))
    assert list(dict.fromkeys(killed)) == straight
    assert [bool(Report.read(text).theta) for text in straight] == [False, True, True]
