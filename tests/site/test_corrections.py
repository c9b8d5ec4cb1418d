"""Corrections after the report: the page makes a corrected report, an administrator confirms it, the page says so."""

import re
import shutil
import sys
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import cache
from html import unescape
from itertools import product

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.agent.test_not_fooled import house  # noqa: F401
from tests.coordinator.support import OWN_PAGE, House, study_message
from tests.support import first_quick

from parley.agent.outbox import Outbox
from parley.agent.privacy import SitePolicy
from parley.agent.reporting import SiteRuntime, hand_over, hand_over_corrections, site_of
from parley.coordinator.record import open_storage
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.studies import phases
from parley.covariates import adjusted_rewards
from parley.dashboard.pages import administration
from parley.errors import NotNow, Unreachable
from parley.site.access import Access
from parley.site.app import create_app
from parley.site.pages import as_typed
from parley.site.tables import typed_value
from parley.text.translation import reading
from parley.totals import Totals

HARM = {"name": "harm", "role": "secondary", "better": "lower", "kind": "binary"}
PAIN = {"name": "pain", "role": "secondary", "better": "lower", "kind": "bounded", "low": 0.0, "high": 10.0}
STUDY = {
    "agents": 1,
    "arms": 2,
    "policy": "evidence",
    "noise": {"kind": "bounded", "low": 0.0, "high": 1.0},
    "largest_gap": 4.0,
    "outcomes": (HARM, PAIN),
    "covariate": "age",
    "covariate_range": (20.0, 80.0),
    "contact": "the office",
    "grace_hours": 0.0,
}
SHOW = "Show what this correction would do"
SAID = {"reason": "the wrong line", "who": "Nurse Kim"}
WRONG = {"do": "correct", "participant": "p-1", "value-0": "0", "value-1": "0", "value-2": "7.5", **SAID}


def filled(site, client, folder):
    hand_over(site, client, folder)
    while site.status()["to_assign"]:
        number = len(site.people.persons) + 1
        site.assign(f"p-{number}", covariate=20.0 + number % 60)
        for value, name in ((1.0 - (number - 1) % 60 / 60, ""), (1.0, "harm"), (2.5, "pain")):
            site.outcome(f"p-{number}", value, name)
    hand_over(site, client, folder)


class Bed:
    """A site of a study with a covariate and two further outcomes, whose first phase was reported."""

    def __init__(self, house, folder, clients):  # noqa: F811
        self.house, self.folder, self.clients = house, folder, clients
        self.client = clients[0]
        self.open()

    def phase(self):
        """Everybody whom the phase in progress needs, with all outcomes; it is reported."""
        filled(self.site, self.client, self.folder)

    def others(self):
        """The same at the second site."""
        folder = self.folder / "other"
        with site_of(folder, self.clients[1], study="trial", agent="agent 2") as site:
            filled(site, self.clients[1], folder)

    def open(self):
        """The same journal again, as after a restart."""
        self.site = site_of(self.folder, self.client, study="trial", agent="agent 1")

    @contextmanager
    def page(self, language="en"):
        runtime = SiteRuntime(self.site, self.client, self.folder)
        headers = {"Sec-Fetch-Site": "same-origin", "Accept-Language": language}
        app = create_app(runtime, Access(host="127.0.0.1"))
        try:
            yield TestClient(app, base_url="http://127.0.0.1", headers=headers)
        finally:
            runtime._outbox.close()

    def post(self, fields, language="en", status=200):
        with self.page(language) as browser:
            answer = browser.post("/", data=fields)
        assert answer.status_code == status, answer.text
        return answer.text

    def sent(self):
        with Outbox(self.folder, study="trial", agent="agent 1") as box:
            return hand_over_corrections(self.site, self.client, box)

    def waiting(self):
        asked = {"beside": True}
        return self.house.admin.request("GET", "studies", "trial", "quarantine", params=asked)["quarantine"]

    def confirm(self, report):
        where = ("studies", "trial", "phases", report["phase"], "reports", "agent 1", "correct")
        digest = self.house.admin.request("POST", *where, "preview", json={"report": report})["digest"]
        self.house.admin.request("POST", *where, json={"report": report, "preview": digest, "reason": "seen"})

    def refuse(self, entry, reason="look again"):
        where = ("studies", "trial", "phases", entry["report"]["phase"], "reports", "agent 1", "refuse")
        self.house.admin.request("POST", *where, json={"report": entry["digest"], "reason": reason})

    def amend(self, entry):
        where = ("studies", "trial", "phases", 1, "reports", "agent 1", "amend")
        self.house.admin.request("POST", *where, json={"report": entry["report"], "reason": "right"})

    @contextmanager
    def office(self):
        """An administrator's browser."""
        options = {"follow_redirects": True, "timeout": 30, "verify": False, "headers": OWN_PAGE}
        with httpx2.Client(base_url=self.house.url, **options) as made:
            made.post("/sign-in", data={"token": self.house.token, "next": "/"})
            yield made

    def cards(self):
        """The reports in quarantine as the administration page shows them."""
        with self.office() as browser:
            page = browser.get("/studies/trial/administration")
        assert page.status_code == 200, page.text
        return re.findall(r"<article.*?</article>", page.text, re.S)

    @property
    def status(self):
        return self.site.people.corrections[1].status


def fields_of(card):
    """What the first form of a card sends."""
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', card))
    texts = re.findall(r'<textarea name="(\w+)"[^>]*>(.*?)<', card, re.S)
    return fields | {name: unescape(text) for name, text in texts}


@pytest.fixture(scope="module")
def reported(prepared_sqlite, tmp_path_factory):
    """By the number of agents: a folder with database and journal of a bed, and its tokens. Tests get copies of it."""

    @cache
    def made(agents):
        folder = tmp_path_factory.mktemp("reported")
        storage = open_storage(str(shutil.copy(prepared_sqlite, folder / "parley.db")))
        own = House(storage)
        bed = Bed(own, folder / "box", own.create(study_message(**STUDY | {"agents": agents})))
        bed.phase()
        bed.site.close()
        own.close()
        storage.close()
        return folder, own.token, [own.tokens["trial", f"agent {number + 1}"] for number in range(agents)]

    return made


@contextmanager
def opened(reported, tmp_path):
    """A copy of a bed."""
    folder, token, tokens = reported
    copied = shutil.copytree(folder, tmp_path / "bed")
    storage = open_storage(str(copied / "parley.db"))
    own = House(storage, admin=token)
    made = Bed(own, copied / "box", [own.client(one) for one in tokens])
    yield made
    made.site.close()
    own.close()
    storage.close()


@pytest.fixture
def bed(reported, tmp_path):
    with opened(reported(1), tmp_path) as made:
        yield made


def test_a_correction_goes_from_the_page_to_an_administrator_and_back(bed):
    first, theta = bed.house.admin.report("trial", 1, "agent 1"), bed.site.people.phases[1].plan.theta
    arm = bed.site.people["p-1"].arm
    bed.phase()  # its phase was decided
    found = bed.post({"do": "find", "sought": "p-1"})
    assert 'name="value-0"' in found
    assert "Send the correction of p-1" in found
    done = bed.post(WRONG)
    assert "The correction of p-1 is saved. The corrected report of phase 1 goes to the office" in done
    assert (bed.status, bed.waiting()) == ("unsent", [])
    assert bed.sent() == {}
    (entry,) = bed.waiting()
    assert bed.status == "waiting"
    assert "The correction is waiting for the office to confirm it." in bed.post({"do": "find", "sought": "p-1"})
    report = entry["report"]
    rewards, xs = bed.site.people.pairs(bed.site.people.phases[1])
    again = Totals.of(adjusted_rewards(rewards, xs, theta, bed.site.people.phases[1].plan.x0))
    assert (report["theta"], tuple(report["counts"])) == (first.theta, first.counts), "the slope was fixed before"
    assert report["sums"] == pytest.approx(again.sums.tolist())
    assert report["sums"][arm] == pytest.approx(first.sums[arm] - 1.0)
    moved = [now["sums"][arm] - was.sums[arm] for now, was in zip(report["outcomes"], first.outcomes, strict=True)]
    assert moved == [-1.0, 5.0]
    bed.confirm(report)
    assert bed.sent() == {}
    assert bed.status == "accepted"
    assert bed.waiting() == []
    page = bed.post({"do": "find", "sought": "p-1"}, "de")
    assert "Die Berichtigung wurde angenommen. Grund: seen" in page
    with bed.page() as browser:
        assert "The correction was accepted. Reason: seen" in browser.get("/").text
    assert bed.house.admin.report("trial", 1, "agent 1") == first, "what was decided on stands"
    assert verify_stored(bed.house.storage, "trial").sound


def test_a_corrected_report_is_adjusted_as_its_phase_was(bed):
    for _ in range(4):
        bed.phase()
    people = bed.site.people
    phase = max(number for number, book in people.phases.items() if book.reported and book.plan.theta)
    key = next(key for key, person in people.persons.items() if person.phase == phase)
    first, arm = bed.house.admin.report("trial", phase, "agent 1"), people[key].arm
    moved = people[key].reward
    bed.site.correct([(key, 0.0)])
    bed.sent()
    (entry,) = bed.waiting()
    assert (entry["report"]["theta"], entry["report"]["x0"]) == (first.theta, first.x0)
    assert entry["report"]["sums"][arm] == pytest.approx(first.sums[arm] - moved)


def test_a_refused_correction_says_why_and_another_one_can_follow(bed):
    bed.phase()
    bed.post(WRONG)
    bed.sent()
    bed.refuse(bed.waiting()[0])
    bed.sent()
    assert bed.status == "refused"
    assert "the reported numbers still count. Reason: look again" in bed.post({"do": "find", "sought": "p-1"})
    with pytest.raises(Exception, match=r"no such report is held|waits for no agent"):
        bed.refuse({"report": {"phase": 1}, "digest": "0" * 64})
    assert "nothing to correct" in bed.post(WRONG, status=422)
    bed.post(WRONG | {"value-2": "1"})
    bed.sent()
    (entry,) = bed.waiting()
    bed.confirm(entry["report"])
    with pytest.raises(Exception, match=r"no such report is held|waits for no agent"):
        bed.refuse(entry)
    bed.sent()
    assert bed.status == "accepted"
    assert verify_stored(bed.house.storage, "trial").sound


def test_a_correction_that_is_taken_back_has_nothing_to_confirm(bed):
    bed.post(WRONG)
    bed.post(WRONG | {"value-0": "1", "value-1": "1", "value-2": "2.5"})
    assert bed.sent() == {}
    assert (bed.status, bed.waiting()) == ("same", [])
    assert "there is nothing to confirm" in bed.post({"do": "find", "sought": "p-1"})


def test_first_numbers_again_are_not_all_that_the_coordinator_has(bed):
    bed.phase()
    bed.post(WRONG)
    bed.sent()
    bed.post(WRONG | {"value-0": "1", "value-1": "1", "value-2": "2.5"})
    bed.sent()
    assert (bed.status, len(bed.waiting())) == ("same", 1)
    page = bed.post({"do": "find", "sought": "p-1"})
    assert "a corrected report has been sent since. Ask the office to refuse it" in page
    assert "nothing to confirm" not in page


def test_a_correction_that_another_one_replaced_does_not_count_when_it_comes_again(bed):
    bed.phase()
    for value in ("7.5", "8.5"):
        bed.post(WRONG | {"value-2": value})
        bed.sent()
        bed.confirm(bed.waiting()[0]["report"])
        bed.sent()
        assert bed.status == "accepted"
    bed.post(WRONG)
    bed.sent()
    assert bed.status == "refused"
    assert "it was accepted before and replaced since" in bed.post({"do": "find", "sought": "p-1"})
    everything = bed.house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
    (again,) = [card for card in bed.cards() if SHOW in card]
    assert f'id="q{everything[0]["sequence"]}"' in again, "and not the one that counts"
    with bed.office() as browser:
        shown = browser.post("/studies/trial/correct", data=fields_of(again))
    assert "If the report of agent 1 in phase 1 is corrected" in shown.text
    bed.confirm(everything[0]["report"])
    assert verify_stored(bed.house.storage, "trial").sound


def test_an_administrator_sees_which_of_two_waiting_corrections_is_older(bed, monkeypatch):
    bed.phase()
    for value in ("7.5", "8.5", "9.5"):
        bed.post(WRONG | {"value-2": value})
        bed.sent()
    records = [entry["sequence"] for entry in bed.waiting()]
    newest, *older = bed.cards()
    assert f'id="q{records[-1]}"' in newest
    assert "A newer report" not in newest
    assert all(f"A newer report of the same phase is also waiting: record {records[-1]}" in card for card in older)
    monkeypatch.setattr(administration, "MOST_BESIDE", 2)
    assert [re.search(r'id="q(\d+)"', card)[1] for card in bed.cards()] == [str(records[n]) for n in (2, 1, 0)]
    asked = {"newest_first": True, "limit": 2}
    listed = bed.house.admin.request("GET", "studies", "trial", "quarantine", params=asked)
    assert [entry["sequence"] for entry in listed["quarantine"]] == records[:0:-1]
    asked["after"] = listed["next"]
    listed = bed.house.admin.request("GET", "studies", "trial", "quarantine", params=asked)
    assert [entry["sequence"] for entry in listed["quarantine"]] == records[:1]


def test_a_phase_whose_people_are_too_few_now_does_not_hold_up_other_phases(bed, monkeypatch):
    bed.phase()
    bed.post(WRONG)
    later = next(key for key, person in bed.site.people.persons.items() if person.phase == 2)
    bed.site.correct([(later, 0.0, "harm")], **SAID)
    as_it_is = bed.site.corrected
    few = {1: lambda found: found._replace(rewards=[[] for _ in found.rewards]), 2: lambda found: found}
    monkeypatch.setattr(bed.site, "corrected", lambda phase: few[phase](as_it_is(phase)))
    assert list(bed.sent()) == [1]
    assert [entry["report"]["phase"] for entry in bed.waiting()] == [2]


@pytest.mark.parametrize(("language", "shown"), [("en", "1234.5"), ("de", "1234,5"), ("fr", "1234,5")])
def test_a_number_in_a_form_is_one_that_the_form_takes(language, shown):
    with reading("trial", language):
        assert as_typed(1234.5) == shown
        assert typed_value(shown) == 1234.5


@pytest.fixture
def early(reported, tmp_path):
    """A bed whose phase another agent keeps in progress."""
    with opened(reported(2), tmp_path) as made:
        yield made


def test_while_its_phase_is_in_progress_an_administrator_amends_with_it(early):
    early.post(WRONG)
    early.sent()
    early.amend(early.waiting()[0])
    early.sent()
    assert (early.status, early.waiting()) == ("accepted", [])


@pytest.mark.simulations
def test_an_amendment_that_another_one_replaced_does_not_count_when_it_comes_again(early):
    for value in ("7.5", "8.5"):
        early.post(WRONG | {"value-2": value})
        early.sent()
        early.amend(early.waiting()[0])
        early.sent()
        assert early.status == "accepted"
    early.post(WRONG)
    early.sent()
    assert early.status == "refused"
    assert "it was accepted before and replaced since" in early.post({"do": "find", "sought": "p-1"})
    (replaced,) = [card for card in early.cards() if "/amend" in card]
    assert "This report was accepted by an amendment, and has been replaced since." in replaced
    with early.office() as browser:
        browser.post("/studies/trial/amend", data=fields_of(replaced) | {"reason": "right after all"})
    first, *_ = early.house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
    assert early.house.admin.report("trial", 1, "agent 1").digest == first["digest"]
    assert verify_stored(early.house.storage, "trial").sound


def test_an_amendment_that_was_corrected_since_does_not_count_when_it_comes_again(early):
    early.post(WRONG)
    early.sent()
    early.amend(early.waiting()[0])
    early.sent()
    early.others()
    early.post(WRONG | {"value-2": "8.5"})
    early.sent()
    early.confirm(early.waiting()[0]["report"])
    early.sent()
    assert early.status == "accepted"
    early.post(WRONG)
    early.sent()
    assert early.status == "refused"
    (card,) = [card for card in early.cards() if SHOW in card]
    assert "This report was accepted by an amendment." in card


FREEZE, WITHDRAW = ("agents", "agent 1", "freeze"), ("arms", "arm 2", "withdraw")
MEANWHILE = {
    "paused": (("pause",), {}),
    "frozen": (FREEZE, {}),
    "lost": (FREEZE, {"reweigh": True}),
    "withdrawn": (WITHDRAW, {}),
    "cancelled": (("cancel",), {}),
}


OF_EACH_ANSWER = (("withdrawn", False), ("lost", True), ("frozen", False))  # refused, confirmed, amended


@pytest.mark.parametrize(
    ("what", "decided"),
    first_quick(*sorted(product(MEANWHILE, (True, False)), key=lambda case: case not in OF_EACH_ANSWER), quick=3),
)
def test_whatever_happened_meanwhile_a_correction_is_answered(early, what, decided):
    admin, (parts, fields) = early.house.admin, MEANWHILE[what]
    if decided:
        early.others()
    first = early.house.admin.report("trial", 1, "agent 1")
    before = {"preview": admin.request("GET", "studies", "trial", *parts)["digest"]} if len(parts) > 1 else {}
    admin.request("POST", "studies", "trial", *parts, json={"reason": "why", **before, **fields})
    hand_over(early.site, early.client, early.folder)
    early.post(WRONG)
    assert early.sent() == {}
    (entry,) = early.waiting()
    (card,) = early.cards()
    if what in ("cancelled", "withdrawn") and not decided:  # it is over: of two arms one is left
        assert SHOW not in card
        assert "The phase is over, so this report changes nothing." in card
        early.refuse(entry)
    elif decided:
        assert SHOW in card
        early.confirm(entry["report"])
        assert admin.report("trial", 1, "agent 1") == first
    else:
        early.amend(entry)
        assert admin.report("trial", 1, "agent 1").digest == entry["digest"]
    early.sent()
    assert early.status == ("refused" if "changes nothing" in card else "accepted")
    assert verify_stored(early.house.storage, "trial").sound


def test_a_corrected_report_of_a_private_study_has_noise_of_its_own_and_is_drawn_once(house, tmp_path):  # noqa: F811
    plain = {name: value for name, value in STUDY.items() if name not in ("outcomes", "covariate", "covariate_range")}
    bed = Bed.__new__(Bed)
    bed.house, bed.folder = house, tmp_path / "box"
    (bed.client,) = house.create(study_message(**plain, rho=50.0))
    bed.site = site_of(bed.folder, bed.client, study="trial", agent="agent 1", policy=SitePolicy(largest_rho=100.0))
    hand_over(bed.site, bed.client, bed.folder)
    while bed.site.status()["to_assign"]:
        number = len(bed.site.people.persons) + 1
        bed.site.assign(f"p-{number}")
        bed.site.outcome(f"p-{number}", 1.0)
    hand_over(bed.site, bed.client, bed.folder)
    first = house.admin.report("trial", 1, "agent 1")
    bed.post({"do": "correct", "participant": "p-1", "value-0": "0", **SAID})
    for _ in range(3):
        assert bed.sent() == {}
        (entry,) = bed.waiting()
    assert entry["report"]["counts"] == list(first.counts)
    assert entry["report"]["sums"] != list(first.sums)
    bed.confirm(entry["report"])
    bed.sent()
    assert bed.status == "accepted"
    bed.site.close()


def test_what_the_form_left_alone_is_no_correction_and_what_is_wrong_is_said(bed):
    left = {"value-0": "1", "value-1": "1", "value-2": "2.5"}
    assert "this value is already recorded" in bed.post(WRONG | left, status=422)
    for wrong in ({"value-2": "77"}, {"reason": ""}, {"who": " "}, {"participant": "p-999"}, {"value-0": "missing"}):
        bed.post(WRONG | wrong, status=422)
    assert not bed.site.people.corrections
    typed = bed.post(WRONG | {"value-2": "77", "sought": "p-1"}, status=422)
    assert 'value="77"' in typed, "what was typed is still there"
    assert 'value="Nurse Kim"' in typed
    bed.post(WRONG | left | {"value-1": "missing"})
    assert bed.site.people["p-1"].is_gone("harm")
    bed.sent()
    assert sum(bed.waiting()[0]["report"]["outcomes"][0]["missing"]) == 1


def test_the_api_corrects_an_outcome_of_a_reported_phase(bed):
    body = {"participant": "p-1", "reward": 0.0, **SAID}
    with bed.page() as line:
        assert line.post("/v1/corrections", json=body).json() == {"participant": "p-1", "phase": 1}
        assert line.post("/v1/corrections", json=body).status_code == 409
        assert line.post("/v1/corrections", json=body | {"reason": ""}).status_code == 422
    bed.sent()
    assert len(bed.waiting()) == 1


def test_answered_corrections_leave_room_for_others(bed, monkeypatch):
    monkeypatch.setattr(phases, "MOST_ASIDE", 1)
    bed.phase()
    for value, answer in (("7.5", bed.refuse), ("8.5", lambda entry: bed.confirm(entry["report"])), ("9.5", None)):
        bed.post(WRONG | {"value-2": value})
        assert bed.sent() == {}
        (entry,) = bed.waiting()
        if answer:
            answer(entry)
            bed.sent()
    bed.post(WRONG | {"value-2": "1"})
    assert "Too many corrections" in bed.sent()[1]


@pytest.mark.simulations
def test_too_many_corrections_of_a_phase_are_told(bed):
    for number in range(21):
        bed.post(WRONG | {"value-2": str(number % 10 + number // 10 / 4)})
        problems = bed.sent()
    assert "Too many corrections" in problems[1]
    assert bed.status == "unsent"


class Killed(BaseException):
    """The process is no more."""


POINTS = ("before-write", "half-written", "written", "synced")


@pytest.mark.parametrize("visit", first_quick(1, 2, 3))
@pytest.mark.parametrize("point", [*(f"journal-{one}" for one in POINTS), "correction-taken", "site-correction-sent"])
def test_killed_anywhere_the_correction_arrives_once_and_nobodys_arm_changes(bed, monkeypatch, point, visit):
    """From the tap on the page until the answer of the administrator is noted, at each visit of each point."""
    arms = {key: (person.arm, person.x) for key, person in bed.site.people.persons.items()}
    first, left, deaths = bed.house.admin.report("trial", 1, "agent 1"), [visit], []

    def reached(_, here="", *__):
        left[0] -= here == point
        if here == point and not left[0]:
            raise Killed

    monkeypatch.setattr(sys, "audit", reached)

    def surviving(work):
        try:
            return work()
        # The kill ends the loop of the page's server too, which now and then is all that its client sees of it:
        # cancelled, or no longer running.
        except (Killed, CancelledError, RuntimeError):
            assert left[0] <= 0
            assert not deaths, "a process dies once"
            deaths.append(point)
            bed.site.close()
            bed.open()
            return work()

    surviving(lambda: bed.status if bed.site.people.corrections else bed.post(WRONG))
    surviving(bed.sent)
    (entry,) = bed.waiting()
    bed.confirm(entry["report"])
    surviving(bed.sent)
    assert bed.status == "accepted"
    assert {key: (person.arm, person.x) for key, person in bed.site.people.persons.items()} == arms
    person = bed.site.people["p-1"]
    assert (person.reward, person.value("harm"), person.value("pain")) == (0.0, 0.0, 7.5)
    everything = bed.house.admin.request("GET", "studies", "trial", "quarantine")["quarantine"]
    sums = [sum(one["report"]["sums"]) for one in everything]
    assert sums[-1] == pytest.approx(sum(first.sums) - 1.0)
    assert len(bed.house.admin.request("GET", "studies", "trial", "corrections")["corrections"]) == 1


def test_without_the_coordinator_it_is_kept_and_sent_later(bed, monkeypatch):
    bed.post(WRONG)

    def unreachable(*_, **__):
        raise Unreachable("no answer")

    with monkeypatch.context() as cut:
        cut.setattr(bed.client, "send", unreachable)
        with pytest.raises(Unreachable):
            bed.sent()
    assert "The correction is on its way." in bed.post({"do": "find", "sought": "p-1"})
    bed.site.close()
    bed.open()
    bed.sent()
    assert len(bed.waiting()) == 1


def test_a_report_that_the_study_moved_on_without_is_not_corrected(bed, monkeypatch):
    bed.phase()
    monkeypatch.setattr(SiteRuntime, "receipts", lambda _: {})
    assert "went on without" in bed.post(WRONG, status=422)
    assert "Send the correction" not in bed.post({"do": "find", "sought": "p-1"})


def test_a_slip_in_two_phases_at_once_is_refused(bed):
    bed.phase()
    second = next(key for key, person in bed.site.people.persons.items() if person.phase == 2)
    with pytest.raises(ValueError, match="outcomes from phase 1, 2"):
        bed.site.correct([("p-1", 0.0), (second, 0.0)])
    assert re.search("phase 1, which is already reported", str(_refused(bed.site)))


def _refused(site):
    with pytest.raises(NotNow) as found:
        site.outcome("p-1", 0.25)
    return found.value
