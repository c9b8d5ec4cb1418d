"""Further outcomes of people at a site: each with its own due date and missing marks, in one report that repeats."""

from datetime import timedelta

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.agent.test_site import fill, journal_of, open_site
from tests.agent.test_site_page import RULES, Desk, listed
from tests.agent.test_worker import plan

from parley.agent.entries import Entered
from parley.agent.outbox import Outbox
from parley.agent.outcomes import DrawnOutcome, OutcomeRules, columns_of
from parley.agent.plans import Delivery, NotYet
from parley.agent.privacy import Disclosure, SitePolicy
from parley.agent.site import Site
from parley.cli.site import site_command
from parley.errors import InvalidInput, NotNow
from parley.totals import Totals

HARM = OutcomeRules(name="harm", question="Was there a bleeding?", delay=7.0, low=0.0, high=1.0, values=(0.0, 1.0))
PAIN = OutcomeRules(name="Pain", low=0.0, high=10.0)
SEVERAL = replace(RULES, outcomes=(HARM, PAIN))
EXACT = replace(SEVERAL, flexible=False)


def noted(site, key, reward=1.0, harm=0.0, pain=2.0):
    for name, value in (("", reward), ("harm", harm), ("Pain", pain)):
        site.missing(key, name) if value is None else site.outcome(key, value, name)


def outcomes_of(report):
    return {one.name: (one.counts, one.sums, one.missing) for one in report.outcomes}


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path, rules=SEVERAL)
    yield made
    made.close()


def test_a_report_waits_for_every_outcome_and_counts_who_is_missing_from_each(tmp_path):
    with open_site(tmp_path, draws=(3,), rules=SEVERAL) as site:
        fill(site, 3)
        asked = plan(draws=(3,), arms=("x",))
        noted(site, "p-0", harm=1.0)
        noted(site, "p-1", pain=None)
        site.outcome("p-2", 0.0)
        site.outcome("p-2", 1.0, "harm")
        assert (site.status()["pending"], site.status()["outcomes"]) == (1, {"harm": 0, "Pain": 1})
        with pytest.raises(NotYet, match="1 outcomes to come"):
            site(asked)
        site.outcome("p-2", 9.5, "Pain")
        report = Disclosure(SEVERAL).report(asked, site(asked), None)
        assert (report.counts, report.sums) == ((3,), (2.0,))
        assert outcomes_of(report) == {"harm": ((3,), (2.0,), ()), "Pain": ((2,), (11.5,), (1,))}
        assert report.outcomes[1].squares == (94.25,)
        with pytest.raises(NotNow, match="is already reported"):
            site.outcome("p-2", 0.0, "harm")
        text = report.text
    with Site(tmp_path, study="s", agent="a") as again:
        assert Disclosure(SEVERAL).report(asked, again(asked), None).text == text, "the same bytes after a restart"
        assert again.people.phases[1].reported.outcomes == report.outcomes


def test_who_has_no_reward_still_has_the_other_outcomes_and_the_reserve_has_none(tmp_path):
    """Harm is often why there is no reward: leaving these people out would hide it."""
    with open_site(tmp_path, draws=(2,), rules=EXACT) as site:
        fill(site, 2)
        noted(site, "p-0", reward=None, harm=1.0)
        noted(site, "p-1")
        fill(site, 1, "q")  # in the place of p-0
        noted(site, "q-0")
        asked = plan(draws=(2,), arms=("x",))
        report = Disclosure(EXACT).report(asked, site(asked), None)
        assert (report.counts, report.missing) == ((2,), (1,))
        assert outcomes_of(report)["harm"] == ((3,), (1.0,), ())
    with open_site(tmp_path / "reserve", draws=(2, 2), rules=EXACT) as site:
        given = fill(site, 4)
        site.missing("p-0")
        more = 0
        while site.status()["to_assign"]:
            more += 1
            given.append(site.assign(f"q-{more}"))
        site.outcome("p-0", 1.0, "harm")
        site.missing("p-0", "Pain")
        for one in given[1:]:
            if one.arm == given[0].arm or one.participant.startswith("p"):
                noted(site, one.participant)
        report = Disclosure(EXACT).report(plan(draws=(2, 2)), site(plan(draws=(2, 2))), None)
        people = [count + gone for count, gone in zip(report.counts, report.missing, strict=True)]
        assert list(report.outcomes[0].counts) == people, "nobody waits for the reserve, and nobody counts it"


def test_people_of_a_stopped_arm_keep_their_outcomes(tmp_path):
    with open_site(tmp_path, draws=(3, 3), rules=SEVERAL) as site:
        given = fill(site, 4)
        site.close_arms(("x",))
        while site.status()["to_assign"]:
            given.append(site.assign(f"q-{len(given)}"))
            assert given[-1].arm == "y"
        for one in given:
            noted(site, one.participant, harm=1.0)
        stopped = plan(draws=(3, 3), closed_arms=("x",))
        report = Disclosure(SEVERAL).report(stopped, site(stopped), None)
        of_x = sum(one.arm == "x" for one in given)
        assert 0 < of_x < 3
        assert outcomes_of(report)["harm"] == ((of_x, 3), (float(of_x), 3.0), ())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("Harm", 1.0, "outcome: found 'Harm'; allowed: harm, Pain, or leave the name out for the reward"),
        ("harm", 0.5, "harm: found 0.5; allowed: 0 or 1"),
        ("Pain", 11, "Pain: found 11; allowed: a number from 0 to 10"),
    ],
)
def test_what_cannot_be_is_named(tmp_path, name, value, words):
    with open_site(tmp_path, draws=(1,), rules=SEVERAL) as site:
        site.assign("p-0")
        before = journal_of(tmp_path).read_bytes()
        with pytest.raises(InvalidInput, match=words.replace("(", r"\(")):
            site.outcome("p-0", value, name)
        assert journal_of(tmp_path).read_bytes() == before


def test_an_outcome_of_a_study_without_any_is_named(tmp_path):
    with open_site(tmp_path, draws=(1,)) as site:
        site.assign("p-0")
        allowed = "none: this study measures only the reward"
        with pytest.raises(InvalidInput, match=f"outcome: found 'harm'; allowed: {allowed}"):
            site.missing("p-0", "harm")


def test_a_mark_is_taken_back_by_a_value_and_counted_where_a_value_was_in(tmp_path):
    with open_site(tmp_path, draws=(1,), rules=EXACT) as site:
        site.assign("p-0")
        site.outcome("p-0", 1.0, "harm")
        site.missing("p-0", "harm")
        site.missing("p-0", "harm")
        assert (site.people["p-0"].is_gone("harm"), site.status()["withdrawn"], site.status()["missing"]) == (
            True,
            1,
            0,
        )
        assert site.status()["to_assign"] == 0, "a place is only about the reward"
        site.outcome("p-0", 0.0, "harm")
        assert site.people["p-0"].value("harm") == 0.0


def test_nothing_more_comes_of_a_person(tmp_path):
    with open_site(tmp_path, draws=(1,), rules=SEVERAL) as site:
        site.assign("p-0")
        site.outcome("p-0", 1.0, "harm")
        site.gone("p-0")
        person = site.people["p-0"]
        assert (person.missing, person.value("harm"), person.is_gone("Pain")) == (True, 1.0, True)
        with pytest.raises(InvalidInput, match="the key of a person assigned here"):
            site.gone("p-9")


def test_each_outcome_is_due_by_its_own_delay_and_who_is_due_first_stands_first(desk):
    desk.site.assign("p-1")
    desk.now += timedelta(days=3)
    desk.site.assign("p-2")
    desk.site.outcome("p-1", 0.0, "harm")
    people = desk.site.people
    due = [(people.due(people["p-1"], name) - people["p-1"].at).days for name in ("", "harm", "Pain")]
    assert due == [21, 7, 21]
    assert listed(desk.get()) == ["p-2", "p-1"], "p-2's harm is due in a week, p-1's reward in eighteen days"
    desk.now += timedelta(days=8)
    page = desk.get()
    assert page.count("overdue</span>") == 3, "of one outcome of one person, in that person's line and in the heading"
    assert "1 day overdue" in page


def test_the_page_asks_each_question_and_notes_each_answer(desk):
    desk.site.assign("p-1")
    page = desk.get()
    assert '<div class="question">Was there a bleeding?</div>' in page
    assert '<div class="question">Primary outcome</div>' in page, "the reward, in the words of a trial"
    assert 'value="1">Yes <span class="unseen">p-1, Was there a bleeding?</span></button>' in page
    assert 'aria-label="p-1, Pain" placeholder="0 – 10"' in page
    noted = desk.post(do="outcome", participant="p-1", outcome="harm", reward="1")
    assert "<strong>p-1, Was there a bleeding?</strong>: yes." in noted
    assert listed(noted) == ["p-1"], "two are awaited still"
    wrong = desk.post(422, do="outcome", participant="p-1", outcome="Pain", reward="77")
    assert "Allowed: a number from 0 to 10." in wrong
    assert 'value="77"' in wrong
    assert "Allowed: harm, Pain, or leave the name out for the primary outcome." in desk.post(
        422, do="outcome", participant="p-1", outcome="pain", reward="1"
    )
    gone = desk.post(do="gone", participant="p-1")
    assert "Primary outcome: no outcome will come, Was there a bleeding? yes, Pain: no outcome will come." in gone
    assert listed(gone) == []


def test_a_table_has_a_column_for_each_outcome(desk):
    for number in range(1, 5):
        desk.site.assign(f"p-{number}")
    taken = desk.post(do="take", table="Participant;HARM;Outcome;pain\np-1;yes;1;2,5\np-2;missing;;\np-3;;;\n")
    assert "4 outcomes entered... " not in taken
    assert (
        "The table was saved. 3 outcomes entered. 1 outcome marked as missing. 1 row without an outcome was ignored"
        in taken
    )
    people = desk.site.people
    assert (people["p-1"].reward, people["p-1"].others) == (1.0, {"harm": 1.0, "Pain": 2.5})
    assert people["p-2"].others == {"harm": None}
    taken = desk.post(do="take", table="participant,pain\np-4,3\n")
    assert "1 outcome entered" in taken, "some of the outcomes now, the others later"
    wrong = desk.post(do="take", table="participant,harm,pain\np-4,0.5,3\np-9,1,1\np-3,no,11\np-3,no,1\n")
    assert "3 rows are wrong" not in wrong
    for words in (
        "harm: Found: 0.5. Allowed: 0 or 1.",
        "Pain: Found: 11.0. Allowed: a number from 0 to 10.",
        "once; it is already in line 4",
        "the key of a person assigned here",
    ):
        assert wrong.count(words) == 1, words
    assert people["p-4"].others == {"Pain": 3.0}, "nothing of it was taken"
    none = desk.post(422, do="take", table="participant,weight\np-4,3\n")
    assert "Allowed: a table that also has one of outcome, harm, Pain." in none


def test_the_api_names_an_outcome_and_bulk_takes_each_once(desk):
    desk.site.assign("p-1")
    post = desk.browser.post
    body = {"participant": "p-1", "reward": 1.0, "outcome": "harm"}
    assert post("/v1/outcomes", json=body).json() == body
    assert post("/v1/outcomes", json={"participant": "p-1", "reward": 1.0}).json() == {
        "participant": "p-1", "reward": 1.0,
    }  # fmt: skip
    gone = {"participant": "p-1", "outcome": "Pain"}
    assert post("/v1/missing", json=gone).json() == gone | {"missing": True}
    assert desk.browser.get("/v1/status").json()["outcomes"] == {"harm": 0, "Pain": 0}
    rows = [
        {"participant": "p-1", "reward": 0.0},
        {"participant": "p-1", "reward": 0.0, "outcome": "harm"},
        {"participant": "p-1", "reward": 4.0, "outcome": "Pain"},
        {"participant": "p-1", "missing": True, "outcome": "harm"},
        {"participant": "p-1", "reward": 4.0, "outcome": "bone"},
    ]
    found = post("/v1/outcomes/bulk", json={"outcomes": rows}).json()
    assert [row["taken"] for row in found["rows"]] == [True, True, True, False, False]
    assert "'p-1' a second time" in found["rows"][3]["why"]
    assert "allowed: harm, Pain" in found["rows"][4]["why"]
    assert desk.site.people["p-1"].others == {"harm": 0.0, "Pain": 4.0}


def test_commands_name_an_outcome_and_a_correction_has_all_of_them(tmp_path):
    with open_site(tmp_path, draws=(1,), rules=SEVERAL) as site:
        site.assign("p-0")
        site.outcome("p-0", 1.0)

    def call(*words):
        found = CliRunner().invoke(site_command, [*words, "--outbox", str(tmp_path), "--server", "http://nowhere"])
        assert found.exit_code == 0, found.output
        return found.output

    assert "p-0: harm 1 noted" in call("outcome", "p-0", "1", "--of", "harm")
    assert "Pain: 1 awaited" in call("status")
    assert "p-0: Pain marked as missing" in call("missing", "p-0", "--of", "Pain")
    asked = plan(draws=(1,), arms=("x",))
    with Site(tmp_path, study="s", agent="a") as site, Outbox(tmp_path, study="s", agent="a") as box:
        box.keep(Disclosure(SEVERAL).report(asked, site(asked), box))
    written = tmp_path / "corrected.json"
    call("correct", "--further", "harm", "p-0", "0", "--output", str(written))
    assert '"outcomes":[{"counts":[1],"name":"harm","squares":[0],"sums":[0]}' in written.read_text()


def test_small_cells_of_an_outcome_are_missing_as_a_whole(tmp_path):
    rules = replace(SEVERAL, minimum_cell=2)
    with open_site(tmp_path, draws=(3, 3), rules=rules) as site:
        given = fill(site, 6)
        of = {arm: [one.participant for one in given if one.arm == arm] for arm in "xy"}
        for key in (*of["x"], *of["y"]):
            noted(site, key, harm=None if key in of["x"][:2] else 1.0, reward=None if key in of["y"][:2] else 1.0)
        report = Disclosure(rules).report(plan(draws=(3, 3)), site(plan(draws=(3, 3))), None)
        assert (report.counts, report.missing) == ((3, 0), (0, 2))
        assert outcomes_of(report)["harm"] == ((0, 0), (0.0, 0.0), (3, 2)), "who is hidden of y stays hidden"


def test_private_sums_of_all_outcomes_share_the_budget_and_are_drawn_once(tmp_path):
    rules = replace(SEVERAL, rho=0.3, outcomes=(HARM, replace_rules(PAIN, sensitivity=10)))
    values = [[1.0, 0.0, 1.0], [1.0]]
    asked = plan(draws=(3, 1))
    drawn = Delivery(
        totals=Totals.of(values), rewards=values,
        outcomes=(DrawnOutcome.of("harm", values), DrawnOutcome.of("Pain", [[1.0, None, 2.0], [0.0]])),
    )  # fmt: skip
    disclosure = Disclosure(rules)
    assert sum(noise.rho for noise in disclosure._noises) <= 0.3
    assert [round(noise.rho, 6) for noise in disclosure._noises] == [0.1, 0.1, 0.1]
    with Outbox(tmp_path, study="s", agent="a") as box:
        first = disclosure.report(asked, drawn, box)
        assert Disclosure(rules).report(asked, drawn, box).text == first.text
        assert first.releases is None
        assert [one.squares for one in first.outcomes] == [(), ()]
        other = Delivery(
            totals=drawn.totals, rewards=values,
            outcomes=(drawn.outcomes[0], DrawnOutcome.of("Pain", [[1.0, 3.0, 2.0], [0.0]])),
        )  # fmt: skip
        assert disclosure.report(asked, other, box).releases == 2, "another sum of one outcome is another release"


def replace_rules(rules, **changes):
    return replace(rules, **changes)


def test_a_source_without_the_outcomes_is_refused_with_their_names():
    with pytest.raises(InvalidInput, match="outcomes: found none; allowed: harm, Pain"):
        Disclosure(SEVERAL).report(plan(), Totals.of([[1.0, 1.0], [0.0]]), None)


def test_a_cell_below_the_sites_own_minimum_is_not_told():
    drawn = Delivery(
        totals=Totals.of([[1.0] * 5, []]), rewards=[[1.0] * 5, []],
        outcomes=(
            DrawnOutcome.of("harm", [[1.0, None, None, None, None], []]), DrawnOutcome.of("Pain", [[1.0] * 5, []]),
        ),
    )  # fmt: skip
    report = Disclosure(SEVERAL, SitePolicy(smallest_cell=5)).report(plan(draws=(5, 0)), drawn, None)
    assert outcomes_of(report) == {"harm": ((0, 0), (0.0, 0.0), (5, 0)), "Pain": ((5, 0), (5.0, 0.0), ())}


def test_columns_are_named_after_outcomes_unless_mapped():
    assert columns_of(SEVERAL.outcomes, {"Pain": "VAS"}) == {"harm": "harm", "Pain": "vas"}
    with pytest.raises(InvalidInput, match="found 'bone'; allowed: harm, Pain"):
        columns_of(SEVERAL.outcomes, {"bone": "x"})


def test_all_rows_or_none(tmp_path):
    with open_site(tmp_path, draws=(1,), rules=SEVERAL) as site:
        site.assign("p-0")
        found = site.record([Entered("p-0", 1.0), Entered("p-0", 7.0, "harm")])
        assert [one is None for one in found] == [True, False]
        assert site.people["p-0"].pending
