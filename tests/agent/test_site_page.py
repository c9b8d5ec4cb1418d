"""The page of a site as a nurse needs it: yes or no, who is awaited, what can still be mended, and whom to ask."""

import json
import re
from datetime import UTC, timedelta
from functools import partial

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from starlette.testclient import TestClient
from tests.agent.test_not_fooled import Decided, house  # noqa: F401
from tests.agent.test_worker import plan
from tests.coordinator.support import study_message

from parley.agent.journal import RulesSeen, now
from parley.agent.outbox import Outbox
from parley.agent.plans import NotYet
from parley.agent.reporting import SiteRuntime, rules_of
from parley.agent.site import Site
from parley.agent.worker import Worker
from parley.cli.site import site_command
from parley.errors import NotNow, SimilarKey
from parley.site.access import Access
from parley.site.app import create_app
from parley.site.pages import SHOWN

RULES = RulesSeen(
    low=0.0,
    high=1.0,
    values=(0.0, 1.0),
    flexible=True,
    title="Two doses",
    delay=21.0,
    contact="the trial office",
    audience="trial",
)
MEASURED = RulesSeen(low=0.0, high=1.0, flexible=True, audience="trial")


class Desk:
    """A site with its page, and a calendar that a test turns; without `draws` no plan has come."""

    def __init__(self, folder, rules=RULES, draws=(3, 3), policy=None, most_ahead=0, agent="a"):
        morning = now().astimezone().replace(hour=9)  # days are counted by the calendar here, at any time of a test
        self.now, self.folder, self.rules, self.policy = morning.astimezone(UTC), folder, rules, policy
        self.agent = agent
        self.open()
        if draws:
            arms = ("x", "y")[: len(draws)]
            self.site.begin(phase=1, plan="b" * 64, arms=arms, draws=draws, most_ahead=most_ahead)

    def open(self):
        ours = {"rules": self.rules, "policy": self.policy, "key": b"k" * 32, "clock": lambda: self.now}
        self.site = Site(self.folder, study="s", agent=self.agent, **ours)
        self.runtime = SiteRuntime(self.site, None, self.folder)
        app = create_app(self.runtime, Access(host="127.0.0.1"))
        self.browser = TestClient(app, base_url="http://127.0.0.1", headers={"Sec-Fetch-Site": "same-origin"})

    def close(self):
        self.runtime.close()

    def get(self):
        return self.browser.get("/").text

    def post(self, status=200, **fields):
        answer = self.browser.post("/", data=fields)
        assert answer.status_code == status, answer.text
        return answer.text


@pytest.fixture
def desk(tmp_path):
    made = []

    def open_desk(**options):
        made.append(Desk(tmp_path, **options))
        return made[-1]

    yield open_desk
    for one in made:
        one.close()


def listed(page):
    """The keys of the list, in order."""
    return re.findall('<span class="who"><strong>(.*?)</strong>', page)


def test_an_outcome_of_yes_or_no_has_two_buttons_and_nothing_to_type(desk):
    open_ = desk()
    open_.site.assign("p-1")
    page = open_.get()
    assert 'value="1">Yes <span class="unseen">p-1</span></button>' in page
    assert 'value="0">No <span class="unseen">p-1</span></button>' in page
    assert 'inputmode="decimal"' not in page
    assert "<strong>p-1</strong>: yes." in open_.post(do="outcome", participant="p-1", reward="1")
    assert open_.site.people["p-1"].reward == 1.0
    assert "<strong>p-1</strong>: no outcome will come." in open_.post(
        do="outcome", participant="p-1", reward="missing"
    )
    assert open_.site.people["p-1"].missing
    assert listed(open_.get()) == [], "nobody is awaited any more"
    assert listed(open_.post(do="find", which="all")) == ["p-1"]


def test_an_outcome_that_is_measured_is_typed_with_a_point_or_a_comma(desk):
    open_ = desk(rules=MEASURED)
    open_.site.assign("p-1")
    assert 'aria-label="Outcome of p-1" placeholder="0 – 1"' in open_.get()
    open_.post(do="outcome", participant="p-1", reward="0,25")
    assert open_.site.people["p-1"].reward == 0.25
    wrong = open_.post(422, do="outcome", participant="p-1", reward="7")
    assert "a number from 0 to 1" in wrong
    assert "<title>Not saved" in wrong


def test_who_is_awaited_comes_first_with_due_dates_and_the_overdue_on_top(desk):
    open_ = desk(draws=(60, 60))
    assert "<h1>Two doses</h1>" in open_.get()
    for number in range(120):
        open_.site.assign(f"P-{number:03}")
        open_.now += timedelta(hours=12)
    page = open_.get()
    assert listed(page) == [f"P-{number:03}" for number in range(SHOWN)]
    assert "39 days overdue" in page
    assert "<small>120, <span" in page
    assert ">78 overdue<" in page, "those of the first 39 days"
    seen = [key for number in range(1, 7) for key in listed(open_.post(do="find", page=str(number)))]
    assert seen == [f"P-{number:03}" for number in range(120)], "nobody is beyond the end of the list"
    assert listed(open_.post(do="find", sought="p-11", page="99")) == [f"P-11{number}" for number in range(10)]
    assert listed(open_.post(do="find", sought="p-0 99")) == ["P-099"], "as one hears it, not as it is spelled"
    after = open_.post(do="outcome", participant="P-060", reward="0", page="4")
    assert listed(after)[0] == "P-061", "the list stays where it was"
    assert "Nobody here has this key" in open_.post(do="find", sought="nobody")


def test_the_list_is_of_twenty_closed_lines_and_can_be_filtered_by_what_is_due(desk):
    open_ = desk(draws=(60, 60))
    for number in range(40):
        open_.site.assign(f"P-{number:03}")
        open_.now += timedelta(days=1)
    page = open_.get()
    assert (len(listed(page)), page.count('<details class="person" open>')) == (20, 0)
    due = listed(open_.post(do="find", which="due"))
    assert due == [f"P-{number:03}" for number in range(20)]
    assert "Page 1 of 2" not in open_.post(do="find", which="due")
    assert len(listed(open_.post(do="find", which="week", page="2"))) == 7, "27 in all"
    assert listed(open_.post(do="find", which="due", sought="p-039")) == ["P-039"], "who is sought is found anywhere"
    open_.now += timedelta(days=3)
    assert len(listed(open_.post(do="find", which="due", page="2"))) == 3
    one = open_.post(do="find", sought="p-039")
    assert '<details class="person" open>' in one, "few lines are open"


ASKS = replace(RULES, question="Wound closed after 14 days?", words=("closed", "open"))


def test_outcome_entry_asks_the_question_of_the_study_in_its_words_and_hides_the_arm(desk):
    open_ = desk(rules=ASKS, draws=(9,))
    arm = open_.site.assign("p-1").arm
    page = open_.get()
    assert '<div class="question">Wound closed after 14 days?</div>' in page
    assert 'value="1">Closed <span class="unseen">p-1, Wound closed after 14 days?</span></button>' in page
    assert 'value="0">Open <span' in page
    assert f'<span class="soft">{arm}</span>' not in page
    assert "<strong>p-1, Wound closed after 14 days?</strong>: closed." in open_.post(
        do="outcome", participant="p-1", reward="CLOSED"
    )
    assert open_.site.people["p-1"].reward == 1.0
    wrong = open_.post(422, do="outcome", participant="p-1", reward="perhaps")
    assert "Found: &#39;perhaps&#39;. Allowed: closed (1) or open (0)." in wrong


def test_where_the_site_is_not_masked_the_arm_stands_beside_the_key(desk):
    open_ = desk(rules=replace(ASKS, masked=False), draws=(9,))
    arm = open_.site.assign("p-1").arm
    assert f'<span class="soft">{arm}</span>' in open_.get()


ELIGIBLE = replace(RULES, eligibility=("Aged 18 or older?", "Consent signed?"))


def test_nobody_is_assigned_before_every_question_of_eligibility_is_answered_yes(desk):
    open_ = desk(rules=ELIGIBLE)
    page = open_.get()
    assert page.count('type="checkbox"') == 2
    assert page.index("Consent signed?") < page.index(">Assign</button>")
    refused = open_.post(422, do="assign", participant="p-1", **{"eligible-0": "1"})
    assert "yes to each of these questions: Aged 18 or older? Consent signed?" in refused
    assert 'name="eligible-0" value="1" required checked' in refused, "what was answered stays answered"
    refused = open_.browser.post("/v1/assignments", json={"participant": "p-1"})
    assert (refused.status_code, open_.site.status()["assigned"]) == (422, 0)
    assert 'class="arm"' in open_.post(do="assign", participant="p-1", **{"eligible-0": "1", "eligible-1": "1"})
    assert open_.browser.post("/v1/assignments", json={"participant": "p-2", "eligible": True}).status_code == 201
    again = open_.post(409, do="assign", participant="P 2", **{"eligible-0": "1", "eligible-1": "1"})
    assert 'name="eligible-1" value="1"' in again, "the answers go with the question whether it is the same person"
    assert open_.site.assign("p-1").again, "who has an arm is not asked again"
    said = CliRunner().invoke(site_command, ["--outbox", str(open_.folder), "assign", "p-3", "--eligible"])
    assert said.exit_code == 0, said.output


def test_a_pattern_of_keys_is_shown_with_an_example(desk):
    assert "such as BX-123" in desk(rules=replace(RULES, key_pattern="BX-###")).get()


def test_where_the_study_says_nothing_of_delays_nobody_is_overdue(desk):
    open_ = desk(rules=MEASURED)
    open_.site.assign("p-1")
    open_.now += timedelta(days=400)
    assert "overdue" not in open_.get()
    assert "assigned " in open_.get()


@pytest.mark.parametrize(
    "again", ["bx-001", "B X-001", "\uff22X-001", "Bx\u2011001", "bx 001", "BX_001", "BX.001", "bx001", "B/X\u2019001"]
)
def test_a_key_that_reads_like_another_is_asked_about_before_anybody_is_assigned(desk, again):
    open_ = desk()
    first = open_.site.assign("BX-001")
    page = open_.post(409, do="assign", participant=again)
    assert "Is it the same person?" in page
    assert open_.site.status()["assigned"] == 1
    same = open_.post(do="assign", participant="BX-001")
    assert f'<p class="arm">{first.arm}</p>' in same
    api = open_.browser.post("/v1/assignments", json={"participant": again})
    assert (api.status_code, open_.site.status()["assigned"]) == (409, 1)
    assert "'BX-001', who was assigned here" in api.json()["detail"]
    assert f'id="given-title">{again}' in open_.post(do="assign", participant=again, somebody_else="1")
    assert open_.site.assign(again).again, "from then on it is known"
    assert (
        open_.browser.post("/v1/assignments", json={"participant": "bX-001", "somebody_else": True}).status_code == 201
    )
    with pytest.raises(SimilarKey):
        open_.site.assign("bX-00 1")


def test_a_key_of_signs_alone_is_compared_by_them(desk):
    open_ = desk()
    assert not open_.site.assign("--").again
    assert not open_.site.assign("++").again
    with pytest.raises(SimilarKey):
        open_.site.assign("+\uff0b")


def test_a_study_may_say_how_keys_look(desk):
    open_ = desk(rules=replace(GRACE, key_pattern="BX-@###"))
    page = open_.post(422, do="assign", participant="bx a001")
    assert "a key like BX-@### (# is a digit, @ a letter)" in page
    assert "Did you mean &#39;BX-A001&#39;?" in page
    assert 'placeholder="BX-@###"' in page
    assert "Did you mean" not in open_.post(422, do="assign", participant="BX-A01")
    refused = open_.browser.post("/v1/assignments", json={"participant": "bx a001", "somebody_else": True})
    assert (refused.status_code, open_.site.status()["assigned"]) == (422, 0)
    assert not open_.site.assign("BX-A001").again
    open_.site.outcome("BX-A001", 1.0)


def test_an_outcome_of_a_key_that_reads_like_another_names_it(desk):
    open_ = desk()
    open_.site.assign("BX-001")
    assert "Did you mean &#39;BX-001&#39;?" in open_.post(422, do="outcome", participant="bx-001", reward="1")
    said = CliRunner().invoke(site_command, ["--outbox", str(open_.folder), "assign", "bx-001"])
    assert "--somebody-else" in str(said.exception)
    done = CliRunner().invoke(site_command, ["--outbox", str(open_.folder), "assign", "bx-001", "--somebody-else"])
    assert done.exit_code == 0, done.output


GRACE = RulesSeen(low=0.0, high=1.0, values=(0.0, 1.0), flexible=True, grace_hours=24.0, contact="the trial office")
ASKED = plan(draws=(1, 1))


def test_a_complete_phase_can_be_mended_until_its_grace_is_over_whatever_happens_to_the_service(desk):
    open_ = desk(rules=GRACE, draws=(1, 1))
    for key in ("p-1", "p-2"):
        open_.site.assign(key)
        open_.site.outcome(key, 1.0)
    with pytest.raises(NotYet, match="complete"):
        open_.site(ASKED)
    assert "Phase 1 is complete" in open_.get()
    assert not open_.site.due
    open_.now += timedelta(hours=23)
    open_.post(do="outcome", participant="p-2", reward="0")
    open_.close()
    open_.now += timedelta(hours=23)
    open_.open()
    with pytest.raises(NotYet):
        open_.site(ASKED)
    assert "Send now" in open_.get(), "a change starts the time anew, and a restart does not"
    open_.now += timedelta(hours=1)
    assert open_.site.due
    assert sum(open_.site(ASKED).totals.sums) == 1.0
    page = open_.get()
    assert "Send now" not in page
    assert "find the person by key and correct the outcome; the trial office has to confirm the correction." in page
    assert "the trial office has to confirm" in open_.post(422, do="outcome", participant="p-1", reward="0")
    assert listed(open_.post(do="find", sought="p-1")) == ["p-1"]


def test_a_complete_phase_is_sent_at_once_if_somebody_says_so(desk):
    open_ = desk(rules=GRACE, draws=(1, 1))
    open_.site.assign("p-1")
    open_.site.outcome("p-1", 1.0)
    assert "not complete" in open_.post(422, do="send", phase="1")
    open_.site.assign("p-2")
    open_.site.missing("p-2")
    assert "phase 2 is not the current phase" in open_.post(422, do="send", phase="2")
    open_.post(do="send", phase="1")
    open_.post(do="send", phase="1")  # who says it twice means it once
    assert sum(open_.site(ASKED).totals.counts) == 1
    with pytest.raises(NotNow, match="is already reported"):
        open_.site.outcome("p-2", 1.0)


def test_a_command_says_when_a_complete_phase_is_reported_and_sends_it(desk):
    open_ = desk(rules=GRACE, draws=(1,))
    open_.site.assign("p-1")
    run = partial(CliRunner().invoke, site_command)
    noted = run(["--outbox", str(open_.folder), "outcome", "p-1", "1"])
    assert "`parley site send 1`" in noted.stderr
    assert json.loads(run(["--outbox", str(open_.folder), "status", "--json"]).stdout)["sends_at"]
    assert run(["--outbox", str(open_.folder), "send", "1"]).exit_code == 0
    assert open_.site.status()["reported"]


def test_a_part_that_nobody_came_to_is_reported_at_once(desk):
    open_ = desk(rules=GRACE, draws=(1, 1))
    open_.site.finish("too-few-people")
    assert sum(open_.site(ASKED).totals.counts) == 0


def test_a_table_says_at_the_top_what_was_taken_missing_and_ignored_or_that_nothing_was(desk):
    open_ = desk(draws=(3, 3))
    for number in range(5):
        open_.site.assign(f"p-{number}")
    text = "Participant;Reward\np-0;Yes\np-1;no\np-2;missing\np-3;\np-9;1\np-1;0\n"
    page = open_.post(do="take", table=text)
    top = page.partition('id="assign-title"')[0]
    assert "Nothing in the table was saved: 2 rows are wrong." in top
    assert "once; it is already in line 3" in top
    assert "p-9;1" in page, "what was pasted is there to be mended"
    assert open_.site.status()["observed"] == 0
    page = open_.post(do="take", table=text.replace("p-9;1\np-1;0\n", ""))
    top = page.partition('id="assign-title"')[0]
    said = (
        "2 outcomes entered. 1 outcome marked as missing. 1 row without an outcome was ignored (line 5). "
        "2 outcomes are still"
    )
    assert said in top
    assert (open_.site.status()["observed"], open_.site.status()["missing"]) == (2, 1)


@pytest.mark.parametrize("answer", [None, ("x",)])
def test_after_the_end_there_is_no_form_and_the_answer_if_the_site_may_see_it(desk, answer):
    open_ = desk()
    open_.site.assign("p-1")
    open_.site.seen("finished", "", answer)
    page = open_.get()
    assert "The study has ended" in page
    assert '<form method="post"' not in page
    assert ('<p class="arm">x</p>' in page) == (answer is not None)
    assert ("Ask the trial office for the results." in page) == (answer is None)
    open_.close()
    open_.open()
    assert open_.site.people.stage.answer == answer, "also when the coordinator is gone"


@pytest.mark.parametrize("shown", [False, True])
def test_a_finished_study_tells_a_site_its_answer_only_if_it_says_so(house, tmp_path, shown):  # noqa: F811
    options = {"show_answer": True} if shown else {}
    (client,) = house.create(study_message(agents=1, arms=2, **options))
    assert client.plan("trial", "agent 1").answer is None
    with Outbox(tmp_path, study="trial", agent="agent 1") as outbox:
        Worker(client, outbox, Decided(), sleep=lambda _: None, patience=0.0).run()
    assert client.plan("trial", "agent 1").answer == (("arm 1",) if shown else None)


@pytest.mark.parametrize(
    ("stated", "hours"),
    [({}, 0.0), ({"rate": 3.0}, 24.0), ({"rate": 3.0, "grace_hours": 0.0}, 0.0), ({"grace_hours": 6.0}, 6.0)],
)
def test_where_people_come_one_by_one_a_complete_phase_waits_a_day_unless_the_study_says_otherwise(stated, hours):
    assert rules_of(study_message(agents=2, arms=2, **stated), "agent 1").grace_hours == hours


def test_what_a_study_says_to_its_sites_reaches_each_of_them():
    message = study_message(agents=2, arms=2, rate=1.0, delay=[14.0, 30.0], grace_hours=48.0, contact="the office")
    found = [rules_of(message, name) for name in message.agents]
    assert [rules.delay for rules in found] == [14.0, 30.0]
    assert {(rules.title, rules.grace_hours, rules.contact) for rules in found} == {(message.name, 48.0, "the office")}
