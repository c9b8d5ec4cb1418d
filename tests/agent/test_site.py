"""People one by one: the same arm for ever, every order equally likely, nothing lost, nothing told too early."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import pytest
from scipy.stats import chisquare
from tests.agent.test_worker import plan

from parley.agent.journal import RulesSeen
from parley.agent.outbox import Outbox
from parley.agent.people import drawn_arm
from parley.agent.plans import NotYet
from parley.agent.reporting import make_worker
from parley.agent.site import Site
from parley.errors import DamagedJournal, InvalidInput, NotNow
from parley.problem import Problem
from parley.protocol import Receipt, check_report
from parley.rewards import Gaussian
from parley.totals import Totals

DRAWS = (2, 1, 3)


def open_site(folder, *, key=b"k" * 32, draws=DRAWS, phase=1, **options):
    site = Site(folder, study="s", agent="a", key=key, **options)
    if draws:
        site.begin(phase=phase, plan="b" * 64, arms=("x", "y", "z")[: len(draws)], draws=draws)
    return site


def fill(site, count, prefix="p"):
    return [site.assign(f"{prefix}-{number}") for number in range(count)]


def test_the_order_gives_out_exactly_the_plan_with_its_probabilities(tmp_path):
    with open_site(tmp_path) as site:
        given = fill(site, sum(DRAWS))
        assert Counter(one.arm for one in given) == {"x": 2, "y": 1, "z": 3}
        left = dict(zip("xyz", DRAWS, strict=True))
        for one in given:
            assert site.people[one.participant].probability == Fraction(left[one.arm], sum(left.values()))
            left[one.arm] -= 1


def test_the_same_key_gets_the_same_arm_for_ever(tmp_path):
    with open_site(tmp_path) as site:
        first = site.assign("p-0")
        fill(site, 6)
        assert site.assign(" p-0 ").arm == first.arm
    with open_site(tmp_path, phase=2) as site:  # another process, another phase
        again = site.assign("p-0")
        assert (again.arm, again.phase, again.again) == (first.arm, 1, True)


@pytest.mark.parametrize("draws", [(1, 1, 1), (2, 1), (2, 2), (1, 3)])
def test_every_order_of_the_draws_is_equally_likely(draws):
    orders = Counter()
    tries = 6000
    for number in range(tries):
        left, order = list(draws), []
        for place in range(sum(draws)):
            arm, _ = drawn_arm(number.to_bytes(4, "big"), 1, place, left)
            left[arm] -= 1
            order.append(arm)
        orders[tuple(order)] += 1
    every = set(itertools.permutations([arm for arm, count in enumerate(draws) for _ in range(count)]))
    assert set(orders) == every
    assert chisquare([orders[order] for order in every]).pvalue > 1e-4


def test_nothing_that_is_told_before_an_assignment_depends_on_the_next_arm(tmp_path):
    """Two sites that differ in nothing but the secret, hence in the next arm, tell the same."""
    told, arms = set(), set()
    for number in range(12):
        with open_site(tmp_path / str(number), key=bytes([number]) * 32, draws=(2, 2)) as site:
            told.add(json.dumps(site.status()))
            arms.add(site.assign("p-0").arm)
    assert arms == {"x", "y"}
    assert len(told) == 1


def test_no_count_by_arm_is_told_while_people_are_assigned(tmp_path):
    with open_site(tmp_path, draws=(7, 11)) as site:
        fill(site, 5)
        numbers = [value for value in site.status().values() if isinstance(value, int)]
        assert 7 not in numbers
        assert 11 not in numbers


def test_outcomes_are_correctable_until_the_phase_is_reported(tmp_path):
    with open_site(tmp_path, draws=(2,)) as site:
        fill(site, 2)
        asked = plan(draws=(2,), arms=("x",))
        site.outcome("p-0", 1.0)
        with pytest.raises(NotYet, match="1 outcomes to come"):
            site(asked)
        site.outcome("p-0", 0.5)
        site.outcome("p-1", 2.0)
        totals = site(asked).totals
        assert totals == Totals.of([[0.5, 2.0]])
        site.outcome("p-1", 2.0)  # the same word again is welcome
        with pytest.raises(NotNow, match="'p-1' was assigned in phase 1, which is already reported"):
            site.outcome("p-1", 3.0)
        with pytest.raises(NotNow, match="is already reported"):
            site.missing("p-1")
        assert site(asked).totals == totals


def test_where_the_plan_must_be_met_the_missing_are_replaced_by_people_drawn_from_the_whole_plan(tmp_path):
    with open_site(tmp_path, draws=(2, 2)) as site:
        given = fill(site, 4)
        assert not site.assign("late").counted
        site.missing("p-0")
        more = []
        while site.status()["to_assign"]:
            more.append(site.assign(f"more-{len(more)}"))
            assert site.people[more[-1].participant].probability == Fraction(1, 2)
        assert [one.arm for one in more].count(given[0].arm) == 1
        assert site.status()["reserve"] == len(more) - 1
        with pytest.raises(NotNow, match="somebody else has since been assigned as a replacement"):
            site.outcome("p-0", 1.0)
        for one in (*given[1:], more[-1]):
            site.outcome(one.participant, 1.0)
        assert site.status()["pending"] == 0, "the reserve is not waited for"
        report = site(plan(draws=(2, 2)))
        assert report.totals == Totals.of([[1.0, 1.0], [1.0, 1.0]])
        assert sorted(report.missing) == [0, 1]
        assert report.outside == 1 + len(more) - 1, "who came late, and the reserve"
        assert not site.assign("later").counted
        site.begin(phase=2, plan="c" * 64, arms=("x", "y"), draws=(0, 1))
        site.outcome(site.assign("next").participant, 1.0)
        assert not site.assign("last").counted
        again = site(plan(phase=2, draws=(0, 1), plan="c" * 64))
        assert again.outside == 2, "those who came since the report before"


def test_a_reserve_takes_the_next_place_of_its_arm(tmp_path):
    with open_site(tmp_path, key=b"3" * 32, draws=(2, 2)) as site:
        given = fill(site, 4)
        site.missing("p-0")
        while site.status()["to_assign"]:
            given.append(site.assign(f"p-{len(given)}"))
        reserve = [one for one in given[4:] if one.arm != given[0].arm]
        assert reserve, "the secret of this test draws one"
        for one in given[1:]:
            site.outcome(one.participant, 2.0 if one in reserve else 1.0)
        lost = next(one for one in given[1:4] if one.arm == reserve[0].arm)
        site.missing(lost.participant)
        assert (site.status()["to_assign"], site.status()["withdrawn"], site.status()["late"]) == (0, 1, 2)
        assert sum(site(plan(draws=(2, 2))).totals.sums) == 5.0, "the first of the reserve is counted in its place"


def wins(tmp_path, tricked, *, draws=(4, 4), tries=60):
    """How often the next person gets the arm that somebody wants for them."""
    won = 0
    for number in range(tries):
        with open_site(tmp_path / str(number), key=number.to_bytes(32, "big"), draws=draws) as site:
            won += tricked(site)
    return won


def marks_when_the_phase_is_full(site):
    """Wants x, and marks somebody of x as missing: 60 of 60 times the next person got x."""
    given = fill(site, 8)
    site.missing(next(one.participant for one in given if one.arm == "x"))
    return site.assign("favourite").arm == "x"


def marks_assigns_and_unmarks(site):
    """Wants x for the last one, and marks all of x as missing meanwhile: 107 of 150 such tries got x."""
    given = fill(site, 7)
    for one in given:
        if one.arm == "x":
            site.missing(one.participant)
    arm = site.assign("favourite").arm
    for one in given:
        if one.arm == "x":
            with contextlib.suppress(NotNow):
                site.outcome(one.participant, 1.0)
    return arm == "x"


@pytest.mark.parametrize("tricked", [marks_when_the_phase_is_full, marks_assigns_and_unmarks])
def test_nobody_chooses_an_arm_by_marking_people_as_missing(tmp_path, tricked):
    won = wins(tmp_path, tricked)
    assert abs(won - 30) <= 12, f"{won} of 60: 30 is chance, and 12 three standard deviations"


def test_marks_do_not_change_who_gets_what(tmp_path):
    """Whatever is marked, and unmarked, the order of the phase is the one that the secret gives."""
    with open_site(tmp_path / "a", draws=(4, 4)) as honest, open_site(tmp_path / "b", draws=(4, 4)) as tricked:
        arms = [one.arm for one in fill(honest, 8)]
        for number in range(8):
            assert tricked.assign(f"p-{number}").arm == arms[number]
            tricked.missing(f"p-{number}")
            if number % 2:
                tricked.outcome(f"p-{number}", 1.0)  # a slip is taken back while nobody came after it


def test_a_person_who_comes_when_nobody_is_needed_stays_outside_or_on_the_leading_arm(tmp_path):
    with open_site(tmp_path / "a", draws=(0, 1)) as site:
        site.assign("p-0")
        late = site.assign("p-1")
        assert (late.arm, late.counted) == (None, False)
        with pytest.raises(NotNow, match="outside the study"):
            site.outcome("p-1", 1.0)
    with open_site(tmp_path / "b", draws=(0, 1), rules=RulesSeen(between="leading")) as site:
        site.assign("p-0")
        assert (site.assign("p-1").arm, site.assign("p-1").counted) == ("y", False)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda site: site.assign(""), "participant"),
        (lambda site: site.assign("a\nb"), "printable"),
        (lambda site: site.outcome("nobody", 1.0), "the key of a person assigned here"),
        (lambda site: site.outcome("p-0", 2.0), "from 0 to 1"),
        (lambda site: site.outcome("p-0", float("nan")), "reward"),
        (lambda site: site.outcome("p-0", True), "reward"),
    ],
)
def test_wrong_input_is_told_and_not_written(tmp_path, call, words):
    with open_site(tmp_path, rules=RulesSeen(low=0.0, high=1.0)) as site:
        site.assign("p-0")
        size = journal_of(tmp_path).stat().st_size
        with pytest.raises(InvalidInput, match=words):
            call(site)
        assert journal_of(tmp_path).stat().st_size == size


def test_nobody_is_assigned_before_a_plan_or_while_the_study_is_paused_or_over(tmp_path):
    with open_site(tmp_path, draws=None) as site:
        with pytest.raises(NotNow, match="has not sent a plan"):
            site.assign("p-0")
        site.begin(phase=1, plan="b" * 64, arms=("x",), draws=(2,))
        site.seen("paused", "side effects are being looked into")
        with pytest.raises(NotNow, match="side effects"):
            site.assign("p-0")
        site.seen("running")
        assert site.assign("p-0").counted
        site.seen("finished")
        with pytest.raises(NotNow, match="finished"):
            site.assign("p-1")
        assert site.assign("p-0").again


def journal_of(folder):
    return next(folder.glob("**/journal"))


def test_a_line_that_nobody_finished_is_cut_off_and_any_other_damage_refused(tmp_path):
    with open_site(tmp_path) as site:
        arms = [one.arm for one in fill(site, 4)]
    path = journal_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with open_site(tmp_path, draws=None) as site:
        assert len(site.people.persons) == 3
        assert site.assign("p-3").arm == arms[3]  # nobody had heard of it; it is drawn as before
    for spoiled in (whole.replace(b'"p-1"', b'"p-9"'), b"\n".join(whole.split(b"\n")[:3] + whole.split(b"\n")[4:])):
        path.write_bytes(spoiled)
        with pytest.raises(DamagedJournal, match=r"line \d+: changed after it was written"):
            open_site(tmp_path, draws=None)


def test_the_journal_can_be_read_by_its_owner_alone_and_reports_hold_no_person(tmp_path):
    with open_site(tmp_path, draws=(1,)) as site:
        site.assign("Marie Dupont")
        site.outcome("Marie Dupont", 0.25)
        report = plan(draws=(1,), arms=("x",)).report(site(plan(draws=(1,), arms=("x",))))
    assert journal_of(tmp_path).stat().st_mode & 0o077 == 0
    assert "Marie" not in report.text


PROGRAM = """
import sys
from parley.agent.site import Site
site = Site(sys.argv[1], study="s", agent="a")
for number in range(int(sys.argv[2]), 40, 2):
    print(site.assign(f"p-{number}").arm)
"""


@pytest.mark.servers
def test_two_processes_share_a_journal(tmp_path):
    open_site(tmp_path, draws=(20, 20)).close()
    both = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path, str(k)], stdout=subprocess.PIPE, text=True)
        for k in range(2)
    ]
    arms = [arm for process in both for arm in process.communicate(timeout=60)[0].split()]
    assert Counter(arms) == {"x": 20, "y": 20}


class Study:
    """A coordinator with two phases."""

    def __init__(self):
        self.taken = {}

    def plan(self, study, agent, *, after=0, wait=0, during, recruited, observed):
        self.heard = during, recruited, observed
        phase = len(self.taken) + 1
        return plan(phase, (2, 1)) if phase <= 2 else plan(2, None, stage="finished")

    def send(self, report, *, receipt=None):
        assert self.taken.setdefault(report.phase, report) == report
        return Receipt.of(report, sequence=report.phase + 1, head="a" * 64)


def test_a_site_reports_by_itself_and_goes_on_with_the_next_phase(tmp_path):
    coordinator = Study()
    with Site(tmp_path, study="s", agent="a") as site, Outbox(tmp_path, study="s", agent="a") as box:
        worker = make_worker(site, coordinator, box, sleep=lambda _: None)
        for phase in (1, 2):
            worker.step()
            for number in range(3):
                site.assign(f"{phase}-{number}")
                site.outcome(f"{phase}-{number}", float(number))
            worker.step()
            worker.step()
            assert coordinator.taken[phase].counts == (2, 1)
            assert sum(coordinator.taken[phase].sums) == 3.0
        worker.step()
        assert site.status()["stage"] == "finished"
        assert coordinator.heard == (2, 3, 3)
        assert len(box.receipts()) == 2


def test_a_full_disk_takes_nothing_and_says_so(tmp_path, monkeypatch):
    from parley.errors import NoRoom

    with open_site(tmp_path) as site:
        site.assign("p-0")
        write = os.write

        def full(file, data):
            if len(data) > 8:
                return write(file, data[:8])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(NoRoom, match="nothing was recorded"):
            site.assign("p-1")
        monkeypatch.undo()
        assert "p-1" not in site.people.persons
        site.assign("p-2")
    with open_site(tmp_path, draws=None) as site:
        assert set(site.people.persons) == {"p-0", "p-2"}


FLEXIBLE = RulesSeen(flexible=True)


def test_with_flexible_counts_the_missing_are_reported_and_not_replaced(tmp_path):
    with open_site(tmp_path, draws=(2, 2), rules=FLEXIBLE) as site:
        given = fill(site, 4)
        assert not site.assign("late").counted
        site.missing("p-0")
        assert not site.assign("later").counted
        for one in given[1:]:
            site.outcome(one.participant, 1.0)
        asked = plan(draws=(2, 2))
        report = asked.report(site(asked))
        gone = ("x", "y").index(given[0].arm)
        assert report.missing[gone] == 1
        assert report.counts[gone] == 1
        assert (report.reason, report.final) == ("missing-outcomes", True)
        site.outcome("p-1", 1.0)
        assert asked.report(site(asked)) == report


def test_a_site_closes_its_part_early_for_a_reason_from_the_list(tmp_path):
    with open_site(tmp_path, draws=(5, 5), rules=FLEXIBLE) as site:
        fill(site, 3)
        with pytest.raises(InvalidInput, match="too-few-people"):
            site.finish("because of the rewards")
        with pytest.raises(NotNow, match="phase 2 is not the current phase"):
            site.send(2)
        with pytest.raises(NotNow, match="phase 1 is not complete"):
            site.send(1)
        site.finish("too-few-people")
        with pytest.raises(NotNow, match="is already closed"):
            site.finish("too-few-people")
        assert not site.assign("late").counted
        for number in range(3):
            site.outcome(f"p-{number}", 1.0)
        report = plan(draws=(5, 5)).report(site(plan(draws=(5, 5))))
        assert sum(report.counts) == 3
        assert (report.reason, report.final, report.missing) == ("too-few-people", True, ())
    with (
        open_site(tmp_path / "exact", draws=(5, 5)) as site,
        pytest.raises(NotNow, match="accepts only the planned counts"),
    ):
        site.finish("supply")


def test_a_cell_below_the_minimum_is_reported_as_none(tmp_path):
    with open_site(tmp_path, draws=(4,), rules=RulesSeen(flexible=True, minimum_cell=4)) as site:
        fill(site, 4)
        site.missing("p-0")
        for number in range(1, 4):
            site.outcome(f"p-{number}", 1.0)
        report = plan(draws=(4,), arms=("x",)).report(site(plan(draws=(4,), arms=("x",))))
        assert (report.counts, report.sums, report.missing) == ((0,), (0.0,), (1,))


@pytest.mark.parametrize("flexible", [False, True])
def test_an_arm_that_is_withdrawn_in_mid_phase_is_given_to_nobody(tmp_path, flexible):
    asked = plan(draws=(5, 30), closed_arms=("y",))
    with Site(tmp_path, study="s", agent="a", key=b"k" * 32, rules=RulesSeen(flexible=flexible)) as site:
        site.begin(phase=asked.phase, plan=asked.plan, arms=asked.arms, draws=asked.draws)
        before = [site.assign(f"p-{number}").arm for number in range(2)]
        site.close_arms(asked.closed_arms)
        assert site.status()["closed_arms"] == ["y"]
        after = [site.assign(f"q-{number}") for number in range(site.status()["to_assign"])]
        assert all(one.arm == "x" for one in after)
        assert [*before, *(one.arm for one in after)].count("x") == 5
        assert site.assign("late").arm is None, "nobody else is needed"
        for key in site.people.phases[asked.phase].keys:
            site.outcome(key, 1.0)
        report = asked.report(site(asked))
        reason = "supply" if flexible else ""
        assert (report.counts, report.reason, report.final) == ((5, before.count("y")), reason, flexible)
        if flexible:  # while it was on its way, the arm was opened again
            check_report(report, asked.draws, Gaussian(), Problem(arms=["x", "y"], weights=[[1.0]]))


def test_a_missing_person_of_a_withdrawn_arm_is_not_replaced_and_the_arm_leads_nobody(tmp_path):
    with open_site(tmp_path, draws=(1, 4), rules=RulesSeen(between="leading")) as site:
        fill(site, 5)
        gone = next(key for key, person in site.people.persons.items() if person.arm == 1)
        site.close_arms(["y"])
        site.missing(gone)
        assert site.status()["to_assign"] == 0
        assert site.assign("late").arm == "x"
        site.close_arms([])
        assert site.status()["to_assign"] == 1, "an arm that is open again is wanted again"


def test_an_arm_that_opens_again_gets_its_places_where_another_has_more_people_than_places(tmp_path):
    """Who replaced the missing of one arm takes no place of another: no arm is drawn from fewer than no places."""
    with open_site(tmp_path, draws=(5, 5)) as site:
        fill(site, 2)
        site.close_arms(["x"])
        fill(site, site.status()["to_assign"], "q")
        book = site.people.current
        of_y = [key for key, person in site.people.persons.items() if person.arm == 1]
        for key in of_y[:2]:
            site.missing(key)
        fill(site, 2, "r")
        site.close_arms([])
        assert book.assigned[1] == 7
        assert book.shares == [5 - book.assigned[0], 0]
        assert not book.full
