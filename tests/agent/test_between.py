"""A site while outcomes are awaited: whoever comes is assigned for the next phase, and reported apart."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from scipy.stats import chisquare
from tests.agent.test_site_page import Desk
from tests.agent.test_worker import plan

from parley.agent.journal import RulesSeen
from parley.agent.outcomes import OutcomeRules
from parley.agent.plans import NotYet
from parley.agent.privacy import Disclosure, SitePolicy
from parley.agent.site import Site
from parley.covariates import Pairs, fixed_for
from parley.errors import InvalidInput, NotNow, WrongPlan
from parley.protocol.messages import BetweenTotals

ASSIGNS = RulesSeen(between="assign", flexible=True)
ARMS = ("x", "y")


def begun(folder, *, draws=(4, 2), most=3, rules=ASSIGNS, **options):
    site = Site(folder, study="s", agent="a", key=b"k" * 32, rules=rules, **options)
    site.begin(phase=1, plan="b" * 64, arms=ARMS, draws=draws, most_ahead=most)
    return site


def filled(site, count, first=0):
    return [site.assign(f"p-{number}") for number in range(first, first + count)]


def noted(site, numbers, value=1.0):
    for number in numbers:
        site.outcome(f"p-{number}", value)


def first_phase(draws=(4, 2), most=3):
    return plan(draws=draws, most_ahead=most)


def second_phase(between, draws=(1, 1), most=0):
    return plan(phase=2, plan="c" * 64, draws=draws, between=between, most_ahead=most)


def test_who_comes_while_outcomes_are_awaited_gets_an_arm_of_the_plan_in_progress_up_to_the_most(tmp_path):
    with begun(tmp_path) as site:
        given = filled(site, 10)
        assert [one.counted for one in given] == [True] * 9 + [False], "six of the phase, three ahead, then outside"
        assert site.assign("p-7").arm == given[7].arm, "for ever the same"
        found = site.status()
        assert (found["assigned"], found["ahead"], found["takes_ahead"], found["outside"]) == (6, 3, False, 1)
        assert found["pending"] == 6, "those of the next phase are not waited for in this one"


def test_nobody_is_ahead_where_the_study_sends_them_away(tmp_path):
    with begun(tmp_path, most=0, rules=RulesSeen(flexible=True)) as site:
        assert [one.counted for one in filled(site, 7)] == [True] * 6 + [False]


@pytest.mark.simulations
def test_arms_ahead_are_drawn_in_the_proportions_of_the_plan_without_replacement(tmp_path):
    seen = Counter()
    for number in range(300):
        with Site(tmp_path / str(number), study="s", agent="a", key=number.to_bytes(32, "big"), rules=ASSIGNS) as site:
            site.begin(phase=1, plan="b" * 64, arms=ARMS, draws=(2, 1), most_ahead=1)
            seen[filled(site, 4)[-1].arm] += 1
    assert chisquare([seen["x"], seen["y"]], [200, 100]).pvalue > 1e-4
    with begun(tmp_path / "all", most=6) as site:
        assert Counter(one.arm for one in filled(site, 12)[6:]) == {"x": 4, "y": 2}


def test_they_are_reported_apart_with_the_next_phase_and_enter_nothing_before_it(tmp_path):
    with begun(tmp_path) as site:
        given = filled(site, 9)
        noted(site, [6], 77.0)  # an early outcome, of the next phase
        noted(site, range(6))
        told = site(first_phase())
        by_arm = Counter(one.arm for one in given[6:])
        assert told.ahead == (by_arm["x"], by_arm["y"])
        assert told.totals.sums.tolist() == [4.0, 2.0], "nothing of those who came between"
        assert told.between is None
        assert filled(site, 1, 9)[0].counted is False
        asked = second_phase(told.ahead)
        with pytest.raises(NotYet, match="2 people to assign, 2 outcomes to come"):
            site(asked)
        filled(site, 2, 20)
        noted(site, [20, 21, 7], 2.0)
        site.missing("p-8")
        delivered = site(asked)
        assert delivered.totals.counts.tolist() == [1, 1]
        early = delivered.between
        assert sum(early.counts) + sum(early.missing) == 3
        assert tuple(c + m for c, m in zip(early.counts, early.missing, strict=True)) == told.ahead
        assert sum(early.sums) == 79.0
        with pytest.raises(NotNow, match="'p-7' was assigned in phase 2, which is already reported"):
            site.outcome("p-7", 3.0)
        report = Disclosure(site.people.rules).report(asked, delivered, None)
        assert report.between == early
        assert site(asked).between == early, "the same again"


def test_once_the_report_told_how_many_there_are_nobody_is_added(tmp_path):
    with begun(tmp_path) as site:
        filled(site, 7)
        noted(site, range(6))
        assert sum(site(first_phase()).ahead) == 1
        assert filled(site, 1, 9)[0].counted is False
        assert site.status()["takes_ahead"] is False


def test_another_process_reads_the_same_from_the_journal(tmp_path):
    with begun(tmp_path) as site:
        filled(site, 9)
        noted(site, range(9))
        told = site(first_phase()).ahead
        site.begin(phase=2, plan="c" * 64, arms=ARMS, draws=(1, 1), between=told)
        status = site.status()
    with Site(tmp_path, study="s", agent="a") as site:
        assert site.status() == status
        filled(site, 2, 20)
        noted(site, [20, 21])
        assert sum(site(second_phase(told)).between.counts) == 3


def test_a_plan_that_counts_on_others_is_refused(tmp_path):
    with begun(tmp_path) as site:
        filled(site, 9)
        noted(site, range(6))
        told = site(first_phase()).ahead
        with pytest.raises(WrongPlan, match=r"counts on .* people who were assigned for it, but this site reported"):
            site(second_phase((told[0] + 1, told[1])))
        site.begin(phase=2, plan="c" * 64, arms=ARMS, draws=(1, 1), between=told)


def test_those_of_a_phase_without_their_report_are_not_counted(tmp_path):
    with begun(tmp_path) as site:
        filled(site, 9)
        site.begin(phase=2, plan="c" * 64, arms=ARMS, draws=(1, 1))  # the study went on without this site
        with pytest.raises(NotNow, match="was decided without a report from here"):
            site.outcome("p-8", 1.0)
        filled(site, 2, 20)
        noted(site, [20, 21])
        assert site(plan(phase=2, plan="c" * 64, draws=(1, 1))).between is None


def test_an_entry_of_the_next_phase_does_not_restart_the_grace_of_this_one(tmp_path):
    desk = Desk(
        tmp_path, rules=RulesSeen(between="assign", flexible=True, grace_hours=24.0), draws=(1, 1), most_ahead=1
    )
    filled(desk.site, 2)
    noted(desk.site, range(2))
    sends = desk.site.sends_at
    desk.now += timedelta(hours=3)
    filled(desk.site, 1, 2)
    noted(desk.site, [2])
    assert desk.site.sends_at == sends
    desk.site.outcome("p-0", 0.5)
    assert desk.site.sends_at > sends


def test_a_withdrawn_arm_is_given_to_nobody_ahead_and_small_cells_are_missing(tmp_path):
    with begun(tmp_path, most=6, policy=SitePolicy(smallest_cell=3)) as site:
        filled(site, 6)
        site.close_arms(("y",))
        ahead = filled(site, 4, 6)
        assert [one.arm for one in ahead] == ["x"] * 4
        assert not filled(site, 1, 10)[0].counted, "no place of an open arm is left"
        noted(site, range(6))
        told = site(first_phase(most=6)).ahead
        assert told == (4, 0)
        site.begin(phase=2, plan="c" * 64, arms=ARMS, draws=(4, 0), between=told)
        filled(site, 4, 20)
        noted(site, [*range(20, 24), 6, 7])
        site.missing("p-8")
        site.missing("p-9")
        early = site(second_phase(told, draws=(4, 0))).between
        assert early == BetweenTotals(counts=(0, 0), sums=(0.0, 0.0), squares=(0.0, 0.0), missing=(4, 0))


def test_an_outcome_of_them_is_corrected_in_the_report_of_their_phase(tmp_path):
    with begun(tmp_path) as site:
        filled(site, 9)
        noted(site, range(9))
        told = site(first_phase()).ahead
        asked = second_phase(told)
        site.begin(phase=2, plan="c" * 64, arms=ARMS, draws=(1, 1), between=told)
        filled(site, 2, 20)
        noted(site, [20, 21])
        disclosure = Disclosure(site.people.rules)
        first = disclosure.report(asked, site(asked), None)
        assert site.correct([("p-7", 0.0)]) == 2
        now = site.corrected(2)
        again = disclosure.corrected(now.arms, first, now.rewards, None, between=now.between)
        assert sum(first.between.sums) - sum(again.between.sums) == 1.0
        assert (again.sums, again.ahead, again.between.counts) == (first.sums, first.ahead, first.between.counts)


def test_a_chain_of_phases_each_with_its_own(tmp_path):
    with begun(tmp_path, draws=(2, 2), most=2) as site:
        asked, told, start = first_phase((2, 2), 2), [], 0
        for phase in range(2, 6):
            filled(site, 6, start)
            noted(site, range(start + 6)) if phase == 2 else noted(site, range(start - 2, start + 4))
            delivered = site(asked)
            told.append(delivered.ahead)
            assert (sum(delivered.between.counts) if phase > 2 else 2) == 2
            asked = plan(phase=phase, plan=str(phase) * 64, draws=(2, 2), between=delivered.ahead, most_ahead=2)
            site.begin(phase=phase, plan=asked.plan, arms=ARMS, draws=(2, 2), between=delivered.ahead, most_ahead=2)
            start += 6
        assert all(sum(one) == 2 for one in told)
        assert all(a.phase < b.phase for a, b in pairwise(list(site.people.persons.values())[::6]))


def test_nobody_is_voided_of_whom_a_report_has_told(tmp_path):
    """The next plan counts on them: a site without one of them could not report its phase any more."""
    with begun(tmp_path) as site:
        filled(site, 8)
        site.void("p-7", reason="the wrong person", who="nurse N.")
        noted(site, range(6))
        told = site(first_phase()).ahead
        assert sum(told) == 1
        with pytest.raises(NotNow, match="phase 1 is over, so its assignments can no longer be voided"):
            site.void("p-6", reason="the wrong person", who="nurse N.")
        site.begin(phase=2, plan="c" * 64, arms=ARMS, draws=(1, 1), between=told)
        with pytest.raises(NotNow, match="its assignments can no longer be voided"):
            site.void("p-6", reason="the wrong person", who="nurse N.")


def test_their_outcomes_are_adjusted_as_the_phase_in_which_they_were_assigned(tmp_path):
    """Their first outcome may be known before the phase is over: only what was fixed before the phase is free of it."""
    rules = RulesSeen(between="assign", flexible=True, covariate="age")
    ages = [30.0, 40.0, 50.0, 60.0, 70.0, 35.0, 45.0, 55.0, 65.0, 33.0, 44.0, 58.0]

    def come(site, some):
        return [site.assign(f"p-{number}", covariate=ages[number]) for number in some]

    def values(site, some):
        for number in some:
            site.outcome(f"p-{number}", 1.0 + 0.1 * ages[number] + 0.01 * (-1) ** number)

    with begun(tmp_path, rules=rules, most=3) as site:
        come(site, range(8))
        with pytest.raises(InvalidInput, match="age: found nothing"):
            site.assign("p-8")
        come(site, [8])
        values(site, range(9))
        told = site(first_phase())
        asked = second_phase(told.ahead, draws=(1, 1), most=1)
        site.begin(phase=2, plan=asked.plan, arms=ARMS, draws=asked.draws, between=asked.between, most_ahead=1)
        come(site, [9, 10, 11])
        values(site, [9, 10])
        two = site(asked)
        assert two.theta == site.people.phases[2].plan.theta != 0
        early = sum(1.0 + 0.1 * ages[number] + 0.01 * (-1) ** number for number in (6, 7, 8))
        assert sum(two.between.sums) == pytest.approx(early), "nothing was known of a slope when they came"
        third = plan(phase=3, plan="d" * 64, draws=(1, 1), between=two.ahead)
        site.begin(phase=3, plan=third.plan, arms=ARMS, draws=third.draws, between=third.between)
        (given,) = (one for one in site.people.in_progress if one.key == "p-11")
        value = 1.0 + 0.1 * ages[11] - 0.01
        site.outcome("p-11", value)
        for number, age in ((21, 40.0), (22, 50.0)):
            site.assign(f"p-{number}", covariate=age)
            site.outcome(f"p-{number}", 5.0)
        three = site(third)
        assert three.between.sums[given.arm] == value - two.theta * (ages[11] - two.x0)
        assert three.theta != two.theta
        slope = [Pairs.of(*site.people.pairs(site.people.phases[1]))]
        strata = [site.people.phases[2].between, site.people.phases[2]]
        slope += [Pairs.of(*site.people.pairs(book)) for book in strata]
        assert (three.theta, three.x0) == fixed_for(rules.adjustment, slope), "they are known after their phase"


def test_their_further_outcomes_are_told_with_them(tmp_path):
    rules = RulesSeen(between="assign", flexible=True, outcomes=(OutcomeRules(name="harm"),))
    with begun(tmp_path, rules=rules) as site:
        filled(site, 9)
        noted(site, range(8))
        for number in range(6):
            site.outcome(f"p-{number}", 0.0, outcome="harm")
        told = site(first_phase())
        assert told.between is None
        site.outcome("p-6", 1.0, outcome="harm")
        asked = second_phase(told.ahead)
        site.begin(phase=2, plan=asked.plan, arms=ARMS, draws=asked.draws, between=asked.between)
        filled(site, 2, 20)
        noted(site, [20, 21])
        for number in (20, 21):
            site.outcome(f"p-{number}", 0.0, outcome="harm")
        with pytest.raises(NotYet, match="0 people to assign, 3 outcomes to come"):
            site(asked)
        site.missing("p-7", outcome="harm")
        site.missing("p-8")
        site.outcome("p-8", 1.0, outcome="harm")
        (early,) = site(asked).between.outcomes
        assert early.name == "harm"
        assert (sum(early.counts), sum(early.sums), sum(early.missing)) == (2, 2.0, 1), (
            "who has no reward may be harmed"
        )
        assert tuple(c + m for c, m in zip(early.counts, early.missing, strict=True)) == told.ahead
        assert site(asked).outcomes[0].totals.sums.sum() == 0.0


def test_an_outcome_of_somebody_assigned_ahead_is_no_correction_before_the_next_report(tmp_path):
    with begun(tmp_path) as site:
        filled(site, 9)
        noted(site, range(9))
        site(first_phase())
        with pytest.raises(InvalidInput, match="not reported yet, enter it again"):
            site.correct([("p-6", 0.0)])
        assert not site.people.corrections
        noted(site, [6], 0.5)  # also for a site that is never asked again
        assert site.people["p-6"].reward == 0.5
        assert site.correct([("p-0", 0.0)]) == 1
