"""A masked study: whoever enrols sees numbers of kits and no arm; what is shown in an emergency is on record."""

import json
import re

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.agent.test_not_fooled import house  # noqa: F401
from tests.agent.test_worker import plan
from tests.coordinator.support import report_of, study_message
from tests.site.conftest import line_of

from parley.agent.journal import RulesSeen
from parley.agent.kits import LEAST
from parley.agent.reporting import rules_of
from parley.agent.site import Site
from parley.agent.strata import Strata
from parley.cli.site import site_command
from parley.errors import InvalidInput, NotNow, Rejected
from parley.protocol import StudyMessage

ARMS = ("usual", "honey")
NAMES = ("old", "young")
RULES = RulesSeen(
    low=0.0, high=1.0, values=(0.0, 1.0), flexible=True, audience="trial", kits=True, arms=ARMS, place="Leeds",
    contact="the pharmacy",
)  # fmt: skip


def kits(*numbers, arms=ARMS):
    return ("kit,arm\n" + "".join(f"K-{n:03},{arms[n % len(arms)]}\n" for n in numbers)).encode()


@pytest.fixture
def leeds(tmp_path):
    sites = [
        Site(tmp_path, study="trial", agent=f"Leeds, {name}", key=name.encode(), rules=replace(RULES, stratum=name))
        for name in NAMES
    ]
    for site in sites:
        site.begin(phase=1, plan="b" * 64, arms=ARMS, draws=(4, 4))
    made = Strata(sites)
    yield made
    made.close()


@pytest.fixture
def line(leeds):
    with line_of(*leeds.sites, **{"Sec-Fetch-Site": "same-origin"}) as client:
        yield client


def arm_of(leeds, key):
    with leeds.turn():
        return ARMS[leeds.of(key).people[key].arm]


def test_people_get_numbers_of_their_arm_and_no_number_is_given_twice(leeds):
    assert leeds.list_kits(kits(*range(20)), "kits.csv") == 20
    given = [leeds.assign(f"{name}-{n}", name) for n in range(8) for name in NAMES]
    assert {one.arm for one in given} == {None}
    numbers = [one.kit for one in given]
    assert len(set(numbers)) == 16
    for one in given:
        assert ARMS[int(one.kit[2:]) % 2] == arm_of(leeds, one.participant)
    assert leeds.assign("old-0").kit == given[0].kit
    assert leeds.assign("late", "old").kit == "", "outside the study there is no kit"
    assert [one.left for one in leeds.shelf.stock()] == [2, 2]
    assert numbers != sorted(numbers), "drawn, so that a number that is passed over says nothing"


def test_a_kit_is_never_given_again_also_after_a_restart(leeds, tmp_path):
    leeds.list_kits(kits(*range(20)), "kits.csv")
    first = {leeds.assign(f"p-{n}", "old").kit for n in range(5)}
    again = Strata([Site(tmp_path, study="trial", agent=f"Leeds, {name}") for name in NAMES])
    second = {again.assign(f"q-{n}", "young").kit for n in range(5)}
    third = {leeds.assign(f"r-{n}", "young").kit for n in range(3)}
    assert len(first | second | third) == 13
    again.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "kit,arm\nK-1,usual\nK-2,honey\nk 1,honey\n",
            "line 4, column kit: found 'k 1' again; .* it is already in line 2",
        ),
        ("kit,arm\nK-900,usual\n", "line 2, column kit: found 'K-900', which is listed already; allowed: numbers that"),
        ("kit,arm\nK-1,hunny\n", "line 2, column arm: found 'hunny'; allowed: usual, honey"),
        ("kit,arm\n,honey\n", "line 2, column kit: found ''; allowed: a number of 1 to 60"),
        ("kit,arm\n", "found no kit; allowed: a line for every kit"),
        ("number,arm\n1,honey\n", "kit"),
    ],
)
def test_a_wrong_list_is_a_sentence_and_nothing_of_it_is_taken(leeds, text, says):
    leeds.list_kits(b"kit,arm\nK-900,usual\n", "first.csv")
    before = leeds.shelf.listed
    with pytest.raises(InvalidInput, match=says):
        leeds.list_kits(text.encode(), "kits.csv")
    assert leeds.shelf.listed == before


def test_without_a_kit_nobody_is_assigned_and_a_warning_comes_before(leeds):
    with pytest.raises(NotNow, match="no kit is left for the next person"):
        leeds.assign("p-1", "old")
    assert leeds.of("p-1") is None
    leeds.list_kits(kits(*range(18)), "kits.csv")
    assert [one.asked for one in leeds.shelf.stock()] == [8, 8]
    assert not leeds.shelf.low
    leeds.sites[0].finish("staff")
    for n in range(8):
        leeds.assign(f"p-{n}", "young")
    stock = leeds.shelf.stock()
    assert [one.left for one in stock] == [5, 5]
    assert not leeds.shelf.low
    leeds.sites[1].begin(phase=2, plan="c" * 64, arms=ARMS, draws=(LEAST, LEAST + 1))
    assert leeds.shelf.low, "honey runs out in this phase"
    assert leeds.sites[0].status()["kits_low"] is True, "the strata share the shelf"
    leeds.sites[1].close_arms(["honey"])
    assert not leeds.shelf.low, "it is not given any more"


def test_a_study_without_kits_takes_no_list_and_unmasks_nobody(tmp_path):
    with Site(tmp_path, study="trial", agent="York") as site:
        site.begin(phase=1, plan="b" * 64, arms=ARMS, draws=(1, 1))
        assert site.assign("p-1").arm in ARMS
        for act in (lambda: site.list_kits(kits(1), "kits.csv"), lambda: site.unmask("p-1", by="me", reason="why")):
            with pytest.raises(NotNow, match="this study has no kits"):
                act()


def test_who_was_unmasked_is_on_record_and_in_the_report_once(leeds):
    leeds.list_kits(kits(*range(30)), "kits.csv")
    old = leeds.sites[0]
    for n in range(8):
        leeds.assign(f"p-{n}", "old")
        leeds.outcome(f"p-{n}", 1.0)
    shown = leeds.unmask("p-3", by="Dr Who", reason="anaphylaxis", emergency=True)
    assert shown.arm == arm_of(leeds, "p-3")
    leeds.unmask("p-3", by="another", reason="asked again")
    assert (old.people.unmasked["p-3"].by, old.status()["unmasked"]) == ("Dr Who", 1)
    asked = plan(draws=(4, 4), agent=old.agent, study="trial", arms=ARMS)
    assert old(asked).unmasked == 1
    assert asked.report(old(asked)).unmasked == 1
    leeds.unmask("p-4", by="me", reason="later")
    assert old.newly_unmasked == 1, "the report before has the other"
    for wrong, says in (
        (
            {"participant": "nobody", "by": "me", "reason": "x"},
            "found .nobody.; allowed: somebody who was given a kit",
        ),
        ({"participant": "p-1", "by": " ", "reason": "x"}, "by: found"),
        ({"participant": "p-1", "by": "me", "reason": "x\ny"}, "reason: found"),
    ):
        with pytest.raises(InvalidInput, match=says):
            leeds.unmask(wrong.pop("participant"), **wrong)


def test_the_page_and_the_api_show_no_arm_until_an_emergency_is_one_click(line, leeds):
    leeds.list_kits(kits(*range(20)), "kits.csv")
    page = line.post("/", data={"do": "assign", "participant": "p-1", "stratum": "old"}).text
    kit = leeds.of("p-1").people["p-1"].kit
    assert f"<small>Kit</small> {kit}</p>" in page
    api = line.post("/v1/assignments", json={"participant": "p-2", "stratum": "young"})
    assert api.json()["arm"] is None
    pages = [page, api.text, line.get("/").text, line.post("/", data={"do": "find", "sought": "p-"}).text]
    pages.append(line.get("/v1/status", params={"stratum": "old"}).text)
    for n in range(3, 10):
        line.post("/v1/assignments", json={"participant": f"p-{n}", "stratum": "old"})
    for n in (1, *range(3, 10)):
        line.post("/v1/outcomes", json={"participant": f"p-{n}", "reward": 1})
    leeds.sites[0](plan(draws=(4, 4), agent="Leeds, old", study="trial", arms=ARMS))
    pages.append(line.get("/", params={"stratum": "old"}).text)
    for text in pages:
        assert not re.search("usual|honey", text)
    click = line.post("/", data={"do": "unmask", "participant": "p-1"})
    assert f'<p class="arm">{arm_of(leeds, "p-1")}</p>' in click.text
    record = leeds.of("p-1").people.unmasked["p-1"]
    assert (record.emergency, record.by, record.reason) == (True, "somebody at the page", "emergency")
    shown = line.post("/v1/unmask", json={"participant": "p-2", "by": "Dr Who"})
    assert shown.json() == {"participant": "p-2", "kit": leeds.assign("p-2").kit, "arm": arm_of(leeds, "p-2")}
    assert line.post("/v1/unmask", json={"participant": "nobody", "by": "me"}).status_code == 422


def test_the_commands_list_kits_warn_and_unmask(leeds, tmp_path):
    file = tmp_path / "kits.csv"
    file.write_bytes(kits(*range(10)))

    def run(*arguments):
        result = CliRunner().invoke(site_command, ["--outbox", str(tmp_path), *arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.stdout

    said = run("kits", str(file))
    assert "10 kits listed." in said
    assert "honey: 5 left of 5, 8 asked for in this phase; list more" in said
    with pytest.raises(InvalidInput, match="which is listed already"):
        run("kits", str(file))
    assert json.loads(run("kits", "--json"))["arms"][0] == {
        "arm": "usual", "listed": 5, "given": 0, "asked": 8, "left": 5, "low": True,
    }  # fmt: skip
    assert "kits are running low" in run("status")
    assert re.search(r"p-1: kit K-\d+\n", run("assign", "p-1", "--stratum", "old"))
    shown = run("unmask", "p-1", "--by", "Dr Who", "--reason", "fever")
    assert shown.startswith("p-1, kit K-")
    assert arm_of(leeds, "p-1") in shown


def masked(**more):
    return study_message(agents=2, arms=2, kits=True, **more)


def test_a_study_says_that_it_has_kits_and_their_arms():
    rules = rules_of(StudyMessage.read(masked().text), "agent 2")
    assert (rules.kits, rules.arms) == (True, ("arm 1", "arm 2"))


def test_the_coordinator_is_told_at_once_and_certificate_and_answer_count_who_was_unmasked(house):  # noqa: F811
    agents = house.create(masked(max_rounds=1))
    agents[0].plan("trial", "agent 1", during=1, recruited=3, observed=0, unmasked=2)
    awaited = {one["agent"]: one["unmasked"] for one in house.admin.status("trial")["missing"]}
    assert awaited == {"agent 1": 2, "agent 2": None}
    for place, agent in enumerate(agents):
        asked = agent.plan("trial", f"agent {place + 1}")
        agent.send(replace(report_of(asked, place), unmasked=2 - 2 * place or None))
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    assert certificate["unmasked"] == {"agent 1": 2}
    assert house.admin.request("POST", "studies", "trial", "verify")["sound"]


def test_a_report_of_a_study_that_masks_nobody_counts_nobody_unmasked(house):  # noqa: F811
    agent = house.create(study_message(agents=1, arms=2))[0]
    report = replace(report_of(agent.plan("trial", "agent 1"), 0), unmasked=1)
    with pytest.raises(Rejected, match="unmasked: found 1; allowed: nothing: the study has no kits"):
        agent.send(report)
