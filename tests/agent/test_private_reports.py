"""Private reports at the site: noise once, whatever is killed, sent again or corrected; nothing exact leaves."""

import json
import math
import signal
import subprocess
import sys
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from tests.agent.test_not_fooled import house  # noqa: F401
from tests.agent.test_site_policy import Hearing, quiet
from tests.agent.test_worker import plan

from parley.agent.journal import RulesSeen
from parley.agent.outbox import Outbox
from parley.agent.plans import Delivery, Withheld
from parley.agent.privacy import Disclosure, ReportNoise, SitePolicy, exact_sum, pinned
from parley.agent.reporting import hand_over, rules_of, site_of
from parley.errors import ImpossibleReport, InvalidInput, MissingPackage, Rejected
from parley.protocol import Report, StudyMessage, check_report
from parley.rewards import make_model
from parley.rewards.privacy import DELTA, epsilon
from parley.totals import Totals

RULES = RulesSeen(rho=0.05, grid=1.0, sensitivity=1)
SINGLE = Delivery(totals=Totals.of([[1.0, 0.0], [1.0]]), rewards=[[1.0, 0.0], [1.0]])


class Again:
    """The same rewards, however often it is asked."""

    repeatable = True

    def __call__(self, asked):
        return SINGLE


def study(**changes):
    keys = {"noise": {"kind": "binary"}, "policy": "evidence", "rho": 0.05, "delta": 0.2, **changes}
    return StudyMessage(name="s", arms=("a", "b"), agents=("x", "y"), weights=((0.5, 0.5), (0.5, 0.5)), **keys)


def test_opendp_promises_what_the_study_promises_and_our_epsilon_is_its():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    for sensitivity, rho in ((1, 0.05), (1, 1e-8), (2**20 + 7, 0.005), (1_500_000, 100.0)):
        noise = ReportNoise(sensitivity=sensitivity, rho=rho)
        assert rho * (1 - 1e-9) < noise.rho <= rho
    measurement = dp.m.make_gaussian(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=math.sqrt(10))
    theirs = dp.c.make_zCDP_to_approxDP(measurement).map(1).epsilon(DELTA)
    assert epsilon(0.05) == pytest.approx(theirs, rel=1e-3)


def test_the_noise_has_the_stated_variance_and_every_sum_has_its_own():
    found = np.array(ReportNoise(sensitivity=1, rho=0.05).added([7] * 4000)) - 7
    assert abs(found.mean()) < 4 * math.sqrt(10 / 4000)
    assert found.var() == pytest.approx(10, rel=0.1)
    assert len(set(found.tolist())) > 15


def test_without_the_extra_a_private_study_ends_before_anything_is_drawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingPackage, match=r"private reports .*: found no package opendp.*\.\[privacy\]"):
        Disclosure(RULES)


@pytest.mark.parametrize("values", [[0.1] * 7, [1e16, 1.0, -1e16], [3.0, 2**-60], []])
def test_sums_are_exact(values):
    assert exact_sum(values) == sum(map(Fraction, values), Fraction(0))


def test_the_same_sums_get_the_same_noise_and_others_are_another_release(tmp_path):
    disclosure = Disclosure(RULES)
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        first = disclosure.report(plan(), SINGLE, outbox)
        assert (first.squares, first.releases) == ((), None)
        assert all(Disclosure(RULES).report(plan(), SINGLE, outbox) == first for _ in range(20))
        other = Delivery(totals=Totals.of([[1.0, 1.0], [1.0]]), rewards=[[1.0, 1.0], [1.0]])
        second = disclosure.report(plan(), other, outbox)
        assert second.releases == 2
        assert disclosure.report(plan(), other, outbox) == second
        assert disclosure.report(plan(), SINGLE, outbox).sums == first.sums, "no third noise for the first sums"


def test_a_corrected_report_is_another_release_made_once(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        first = Disclosure(RULES).report(plan(), SINGLE, outbox)
        outbox.keep(first)
        with pytest.raises(InvalidInput, match="nothing to correct"):
            Disclosure(RULES).corrected(("A", "B"), first, SINGLE.rewards, outbox)
        corrected = Disclosure(RULES).corrected(("A", "B"), first, [[1.0, 1.0], [1.0]], outbox)
        assert (corrected.counts, corrected.releases, corrected.plan) == (first.counts, 2, first.plan)
        again = {Disclosure(RULES).corrected(("A", "B"), first, [[1.0, 1.0], [1.0]], outbox).text for _ in range(20)}
        assert again == {corrected.text}
        assert outbox.report(1) == first, "what was sent stays what was sent"
        with pytest.raises(InvalidInput, match=r"as many of each arm as were reported, \[2, 1\]"):
            Disclosure(RULES).corrected(("A", "B"), first, [[1.0], [1.0]], outbox)
        policy = SitePolicy(largest_rho=0.1)
        with pytest.raises(Withheld, match="release 3"):
            Disclosure(RULES, policy).corrected(("A", "B"), first, [[0.0, 0.0], [1.0]], outbox)


def other(value):
    return Delivery(totals=Totals.of([[1.0, value], [1.0]]), rewards=[[1.0, value], [1.0]])


def test_noise_that_is_lost_counts_as_a_release(tmp_path):
    """Whoever deletes the folder would otherwise get fresh noise of the same people as if it were the first."""
    with Outbox(tmp_path, study="s", agent="a") as box:
        asked = plan(rho=0.05)
        first = Disclosure(RULES).report(asked, SINGLE, box)
        box.keep(first)
        assert (first.releases, box.lost_noise()) == (None, [])
        (box.folder / "noise" / "1.json").unlink()
        assert box.lost_noise() == [1]
        again = Disclosure(RULES).report(asked, SINGLE, box)
        assert again.releases == 2
        assert Disclosure(RULES).report(asked, SINGLE, box) == again, "from now on it is kept"
        assert Disclosure(RULES).report(asked, other(1.0), box).releases == 3
        with pytest.raises(Withheld, match=r"rho up to 0.1 in all releases together \(this would be release 4"):
            Disclosure(RULES, SitePolicy(largest_rho=0.1)).report(asked, other(2.0), box)


def test_releases_have_a_limit():
    model = study().problem.noise
    report = Report(study="s", phase=1, agent="x", plan="0" * 64, counts=(2,), sums=(1.0,), releases=1_000)
    check_report(report, (2,), model)
    with pytest.raises(ImpossibleReport, match="releases: found 1001; allowed: 2 to 1,000"):
        check_report(msgspec.structs.replace(report, releases=1_001), (2,), model)


@pytest.mark.parametrize(
    "later", [{"rho": 0.5}, {"rho": None}, {"rho": 0.01}, {"minimum_cell": 1}, {"high": 2.0}, {"clip": (0.0, 9.0)}]
)
def test_an_agent_holds_the_coordinator_to_the_terms_of_its_first_start(tmp_path, later):
    rules = RulesSeen(rho=0.05, minimum_cell=5, low=0.0, high=1.0)
    with Outbox(tmp_path, study="s", agent="a") as box:
        own = SitePolicy(largest_rho=0.1, hold=True)
        assert pinned(box, rules, own) == own
        assert pinned(box, rules, None) == own, "a start without --policy goes on with the last"
        with pytest.raises(InvalidInput, match=f"{next(iter(later))} of the study: .*as when this agent first started"):
            pinned(box, msgspec.structs.replace(rules, **later), own)
        assert pinned(box, msgspec.structs.replace(rules, title="renamed", contact="x"), SitePolicy()) == SitePolicy()
        assert pinned(box, rules, None) == SitePolicy(), "the site may change its own policy"


def test_a_policy_bounds_all_releases_together(tmp_path):
    disclosure = Disclosure(RULES, SitePolicy(largest_rho=0.05))
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        disclosure.report(plan(), SINGLE, outbox)
        other = Delivery(totals=Totals.of([[1.0, 1.0], [1.0]]), rewards=[[1.0, 1.0], [1.0]])
        with pytest.raises(Withheld, match=r"release 2 of its phase, with 0\.05 each"):
            disclosure.report(plan(), other, outbox)


def test_rewards_are_clipped_where_the_study_says_so_and_sums_stand_on_its_grid(tmp_path):
    message = study(noise={"kind": "gaussian", "scale": 1.0, "clip": [0.0, 10.0]}, rho=50.0)
    rules, model = rules_of(message), message.problem.noise
    assert (rules.clip, rules.low, rules.high) == ((0.0, 10.0), None, None)
    drawn = Delivery(totals=Totals.of([[99.0, 0.3], [-5.0]]), rewards=[[99.0, 0.3], [-5.0]])
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        report = Disclosure(rules).report(plan(), drawn, outbox)
    check_report(report, (2, 1), model)
    assert abs(report.sums[0] - 10.3) < 10 * math.sqrt(model.noise_variance)
    assert all((value / model.grid).is_integer() for value in report.sums)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sums": (2.5, 1.0)}, "a multiple of 1, the grid"),
        ({"sums": (1e9, 1.0)}, "from -32.62 to 34.62: 2 rewards between 0 and 1, with noise"),
        ({"sums": (-33.0, 1.0)}, "with noise"),
        ({"squares": (1.0, 1.0)}, "no squares, in a private study"),
        ({"releases": 1}, "2 to 1,000, in a private study"),
        ({"counts": (0, 1), "reason": "supply", "final": True}, "allowed: the plan's"),
    ],
)
def test_what_no_private_report_can_hold_is_refused(change, words):
    good = {"study": "s", "phase": 1, "agent": "a", "plan": "b" * 64, "counts": (2, 1), "sums": (-4.0, 30.0)}
    check_report(Report(**good), (2, 1), study().problem.noise)
    with pytest.raises(ImpossibleReport, match=words.replace("(", "\\(")):
        check_report(Report(**good | change), (2, 1), study().problem.noise)


def test_nothing_but_private_studies_may_leave_squares_out():
    report = Report(study="s", phase=1, agent="a", plan="b" * 64, counts=(2, 1), sums=(1.0, 1.0))
    with pytest.raises(ImpossibleReport, match="2 counts and sums, one per arm, and squares"):
        check_report(report, (2, 1), make_model(kind="binary"))


def test_exact_sums_cannot_be_sent_to_a_private_study_by_mistake(house):  # noqa: F811
    one, _ = house.create(study())
    asked = one.plan("trial", "x")
    assert asked.rho == 0.05
    exact = Totals.of([[1.0] * count for count in asked.draws])
    with pytest.raises(InvalidInput, match="sums with noise: the reports of this study are private"):
        asked.report(exact)
    body = Report.of(exact, study="trial", phase=1, agent="x", plan=asked.plan)
    with pytest.raises(Rejected, match="no squares"):
        one.send(body)


def test_a_site_of_a_private_study_sends_noise_and_keeps_what_was(house, tmp_path):  # noqa: F811
    message = study()
    client, _ = house.create(message)
    with site_of(tmp_path, client, study="trial", agent="x") as site:
        hand_over(site, client, tmp_path)
        for number in range(site.status()["asked"]):
            site.assign(f"p-{number}")
            site.outcome(f"p-{number}", 1.0)
        hand_over(site, client, tmp_path)
        exact = site.people.phases[1].reported
    sent = client.report("trial", 1, "x")
    assert sent.counts == exact.counts
    assert sent.private
    (kept,) = json.loads((tmp_path / "trial").glob("*/noise/1.json").__next__().read_text())["releases"]
    assert kept["exact"] == {"counts": list(exact.counts), "steps": [int(value) for value in exact.sums]}
    assert kept["noisy"] == [int(value) for value in sent.sums]


KILLED = """
import sys
from tests.agent.test_private_reports import RULES, Again
from tests.agent.test_site_policy import Hearing, quiet
from parley.agent.outbox import Outbox
from parley.agent.privacy import Disclosure
from parley.system import killpoints

class Telling(Hearing):
    def send(self, report, *, receipt=None):
        with open(sys.argv[2], "a") as told:
            told.write(report.text + "\\n")
        return super().send(report, receipt=receipt)

killpoints.arm(sys.argv[3])
with Outbox(sys.argv[1], study="s", agent="a") as outbox:
    worker = quiet(Telling(phases=1), outbox, Again(), Disclosure(RULES))
    for _ in range(3):
        worker.step()
"""


@pytest.mark.kills
@pytest.mark.parametrize("point", ["noise-drawn", "noise-kept", "report-kept", "report-sent"])
def test_killed_around_the_noise_a_report_never_has_two(tmp_path, point):
    """Killed at the point, twice, then left alone: every text that ever left is the same one."""
    told = tmp_path / "told"
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(told)]
    for _ in range(2):
        done = subprocess.run([*command, point], timeout=60, check=False)
        assert done.returncode in (-signal.SIGKILL, 0)
    assert done.returncode == -signal.SIGKILL or point != "noise-drawn", "the point was reached"
    subprocess.run([*command, ""], timeout=60, check=True)
    sent = told.read_text().splitlines()
    assert len(sent) >= 1
    assert len(set(sent)) == 1
    (kept,) = json.loads(next(tmp_path.glob("s/*/noise/1.json")).read_text())["releases"]
    assert [float(step) for step in kept["noisy"]] == list(Report.read(sent[0]).sums)


def test_sent_again_however_often_it_is_the_same(tmp_path):
    client = Hearing(trouble=3)  # asserts that no second report of a phase comes
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        for _ in range(60):
            quiet(client, outbox, Again(), Disclosure(RULES)).step()  # a new process every time
    assert len(client.taken) == 3


def test_totals_of_rewards_that_were_not_clipped_do_not_leave_the_site(tmp_path):
    """Noise for a range of 1 hides no outcome of 1000; the coordinator would refuse it, but would have seen it."""
    rules = RulesSeen(rho=0.5, clip=(0.0, 1.0), grid=2.0**-20, sensitivity=2**20)
    with Outbox(tmp_path, study="s", agent="a") as box:
        raw = Totals(counts=np.array([2, 1]), sums=np.array([1000.0, 0.5]), squares=np.array([1e6, 0.25]))
        with pytest.raises(InvalidInput, match="outside of the range") as caught:
            Disclosure(rules).report(plan(draws=(2, 1), rho=0.5), raw, box)
        assert "1000" not in str(caught.value)
