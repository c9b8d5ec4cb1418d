"""Pages claim what is proven and no more: of arms that were set aside, of play, of studies that may end early."""

import csv
import io
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from tests.dashboard.site import TWO
from tests.dashboard.test_prices import PRICED, forecast_of
from tests.support import first_quick

from parley.agent.plans import AgentPlan, Delivery
from parley.cli.main import main
from parley.text.status import ArmStatus
from parley.totals import Totals

TIED = np.array([[0.5, 0.5], [0.49, 0.51], [-6.0, -6.0]])
TOLERANT = TWO.replace('name = "Two sites"', 'name = "A tie"\ntolerance = 0.4')


def played(here, text, study, means):
    here.create(text, study)
    for _ in range(40):
        if here.call("GET", f"studies/{study}")["stage"] != "running":
            return here.call("GET", f"studies/{study}/certificate")
        here.phase(study, means)
    raise AssertionError("it does not end")


def rows_of(page, title="Worse by at least"):
    """Arm, decision and bound of every line of the tables with that heading."""
    for table in re.findall(rf"<table(?:(?!</table>).)*{title}.*?</table>", page, flags=re.DOTALL):
        for row in re.findall(r"<tr><t(?:h scope=\"row\"|d)>.*?</tr>", table, flags=re.DOTALL):
            cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL)
            arm, decision, _, bound = (re.sub(r"<[^>]*>", "", cell).strip() for cell in cells[:4])
            yield arm, decision, bound


@pytest.fixture(scope="module")
def tie(here):
    return played(here, TOLERANT, "tie", TIED)


def command(here, *arguments):
    """What a command of an administrator prints."""
    found = CliRunner().invoke(main, [*arguments, "--server", here.address], env={"PARLEY_TOKEN": here.token})
    assert found.exit_code == 0, found.output
    return found.stdout


def lines(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_every_arm_of_an_agent_has_one_status_wherever_it_is_read(here, tie):
    """Certificate, API, both files, the command in all its forms, and the tables of three pages."""
    cells = [(agent["agent"], arm["arm"], arm) for agent in tie["evidence"]["agents"] for arm in agent["arms"]]
    words = {(agent, name): (arm["status"], arm["dropped_in"]) for agent, name, arm in cells}
    assert sorted(status for status, _ in words.values()) == ["chosen"] * 2 + ["ruled out"] * 2 + ["set aside"] * 2
    assert all((phase > 0) == (status != "chosen") for status, phase in words.values())
    board = here.call("GET", "studies/tie/board")
    for row, arm in enumerate(board["arms"]):
        for column, agent in enumerate(board["agents"]):
            assert words[agent, arm] == (board["statuses"][row][column], board["dropped_in"][row][column])
    for status, counts in board["by_arm"]["statuses"].items():
        assert counts == [sum(words[agent, arm][0] == status for agent in board["agents"]) for arm in board["arms"]]
    findings = here.call("GET", "studies/tie/findings")["agents"]
    told = json.loads(command(here, "admin", "answer", "tie", "--json"))["agents"]
    for agent in [*findings, *({"agent": one["agent"], **one["estimates"]} for one in told)]:
        assert all(words[agent["agent"], arm["arm"]] == (arm["status"], arm["dropped_in"]) for arm in agent["arms"])
    with here.browser() as browser:
        files = [browser.get(f"/studies/tie/{name}.csv").text for name in ("answer", "estimates")]
        pages = [browser.get(f"/studies/tie{path}").text for path in ("", "/answer", "/report", "/evidence")]
    for row in [line for file in [*files, command(here, "admin", "answer", "tie", "--csv")] for line in lines(file)]:
        assert words[row["agent"], row["arm"]] == (row["status"], int(row["dropped_in"] or 0))
    said = [ArmStatus(status).described(phase) for status, phase in words.values()]
    screen = " ".join(command(here, "admin", "answer", "tie").split())
    assert sum(screen.count(word) for word in ("ruled out in", "set aside")) >= 4
    for page in pages:
        assert all(page.count(word) >= said.count(word) for word in said), "the same words on every page"
        assert "let go" not in page
        assert not re.search(r"[> ]out in phase|Pairs dropped", page.replace("ruled out in phase", ""))


@pytest.mark.usefixtures("tie")
def test_the_rounds_count_what_was_ruled_out_and_what_was_set_aside(here):
    history = here.call("GET", "studies/tie/history")["phases"]
    assert sum(phase["dropped"] for phase in history) == 4
    assert sum(phase["set_aside"] for phase in history) == 2
    assert (
        sorted(one["status"] for phase in history for one in phase["dropped_arms"])
        == ["ruled out"] * 2 + ["set aside"] * 2
    )
    with here.browser() as browser:
        page = browser.get("/studies/tie").text
    rounds = page[page.index('id="rounds"') :]
    assert "Arms ruled out" in rounds
    assert "Arms set aside" in rounds


@pytest.mark.usefixtures("tie")
def test_a_mean_has_one_interval_on_every_page(here):
    shown = {}
    with here.browser() as browser:
        for path in ("", "/answer", "/evidence"):
            page = browser.get(f"/studies/tie{path}").text
            assert "±" not in page
            shown[path] = set(re.findall(r"[−\d.]+ \([−\d.]+ to [−\d.]+\)", page))
    assert len(shown[""]) >= 3
    assert shown[""] <= shown["/answer"] & shown["/evidence"]


def test_an_answer_before_the_end_of_the_study_is_shown_and_stays(here):
    """South is decided long before North: its arm stands there at once, and later for that phase."""
    each = TWO.replace('name = "Two sites"', 'name = "Two sites"\nanswers = "each"')  # together, it is settled at first
    here.create(each.replace("alpha = 0.5", "alpha = 1.0"), "early")
    means = np.array([[0.55, 0.0], [0.5, 9.0], [0.0, 0.0]])
    while here.call("GET", "studies/early/board")["ends"] != ["open", "decided"]:
        here.phase("early", means)
    then = json.loads(command(here, "admin", "answer", "early", "--json"))
    phase = then["phase"]
    assert [one["end"] for one in then["agents"]] == ["open", "decided"]
    assert then["agents"][1]["arms"] == ["b"]
    assert len(then["agents"][0]["arms"]) > 1
    with here.browser() as browser:
        page = browser.get("/studies/early/answer").text
    assert "1 of 2 agents have their answer." in page
    assert re.findall(r'class="for">(\w+)</span><span class="best">.*?</span> (\w+)</span>', page) == [("South", "b")]
    assert "There is no answer yet" not in page
    while here.call("GET", "studies/early")["stage"] == "running":
        here.phase("early", means)
    later = json.loads(command(here, "admin", "answer", "early", "--phase", str(phase), "--json"))
    assert {**later, "stage": "", "phases": 0} == {**then, "stage": "", "phases": 0}


@pytest.mark.parametrize(
    ("study", "change", "together"),
    [
        ("both-asked", ("", ""), True),
        ("one-question", ("alpha = 0.5", "alpha = 0.0"), False),  # the agents ask the same
        ("wcpe-apart", ("[weights]", '[policy]\nname = "wcpe"\n[noise]\nscale = 1.0\n[weights]'), False),
    ],
)
def test_only_where_answers_are_joint_a_page_says_that_they_come_together(here, study, change, together):
    here.create(TWO.replace(*change), study)
    here.phase(study)
    assert here.call("GET", f"studies/{study}")["together"] is together
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}/evidence").text
    assert ("given together" in page) is together


def test_money_counts_the_samples_that_are_called_spent(here):
    study = here.create(PRICED, "paid")
    here.phase(study)
    here.phase(study, but=("South",))
    status, board = here.call("GET", f"studies/{study}"), here.call("GET", f"studies/{study}/board")
    assert status["reported"]
    assert status["missing"]
    assert sum(board["spent"]) == status["samples"] > sum(board["drawn"])
    assert board["money"] == 40 * board["spent"][0] + 2 * board["spent"][1]
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}").text
    assert re.search(rf"<dt>Money spent</dt><dd>{board['money']:,.0f}<", page)


def test_differences_of_rates_are_points(here):
    text = TWO.replace("[weights]", '[noise]\nkind = "binary"\n\n[weights]')
    here.create(text, "rates")
    for agent in ("North", "South"):
        token = here.agent_token("rates", agent)
        plan = AgentPlan.from_json(here.call("GET", f"studies/rates/agents/{agent}/plan", token=token))
        counts = np.array(plan.draws)
        report = plan.report(Totals(counts=counts, sums=counts * [1.0, 0.0, 0.0], squares=counts * [1.0, 0.0, 0.0]))
        here.call("PUT", f"studies/rates/phases/1/reports/{agent}", token=token, json=report.to_json())
    with here.browser() as browser:
        page = browser.get("/studies/rates/answer").text
    assert re.search(r"−\d+(\.\d+)? points \(−", page)
    assert not re.search(r"−[\d.]+ % \(", page)
    assert " points (" in command(here, "admin", "answer", "rates")


def test_an_arm_that_was_set_aside_is_not_called_worse(here, tie):
    assert set(tie["ends"].values()) == {"accepted"}
    with here.browser() as browser:
        for path in ("answer", "report"):
            page = browser.get(f"/studies/tie/{path}").text
            told = list(rows_of(page))
            assert len(told) == 6
            assert sum("set aside in phase" in decision for _, decision, _ in told) == 2
            for arm, decision, bound in told:
                assert (bound == "–") == ("ruled out in phase" not in decision), (arm, decision, bound)
                assert arm != "c" or "ruled out in phase" in decision
            assert "An arm that is set aside may be just as good" in page
        assert "set aside in" in browser.get("/studies/tie/evidence").text


def test_with_a_tolerance_no_page_calls_an_answer_the_best_or_a_full_bar_ruled_out(here, tie):  # noqa: ARG001
    here.create(TOLERANT.replace("tolerance = 0.4", "tolerance = 0.1"), "tolerant")
    with here.browser() as browser:
        for _ in range(10):
            here.phase("tolerant", np.array([[0.9, 0.9], [0.8, 0.8], [-0.5, -0.5]]))
            running = browser.get("/studies/tolerant").text
            if "<span>not better by 0.1 or more</span>" in running:
                break
        over = browser.get("/studies/tie").text
        assert "threshold" in browser.get("/studies/tie/answer").text
    assert "<span>not better by 0.1 or more</span>" in running
    assert '<span class="case">leads</span>' in running
    assert "<span>100 %</span>" not in running
    for page, tolerance in ((running, "0.1"), (over, "0.4")):
        assert f"chosen: no other arm is better by {tolerance} or more" in page
        assert f"set aside: not better than the answer by {tolerance} or more" in page
        assert "the agent’s best</span>" not in page


CELL = re.compile(r'<td class="open" data-label="(\w)">(.*?)</td>', re.DOTALL)


def test_with_joint_answers_no_arm_is_open_and_has_enough_evidence_at_once(here):
    """The page said "open", and "enough evidence to rule it out" below it."""
    study = here.create(TWO.replace('"personalized"\nalpha = 0.5', '"identity"'), "joint")
    with here.browser() as browser:
        while "settled" not in here.call("GET", f"studies/{study}/board")["ends"]:
            here.phase(study, np.array([[1.8, 0.50], [0.0, 0.45], [0.2, 0.40]]))
        running = browser.get(f"/studies/{study}").text
        assert "Settled: there is enough evidence" in browser.get(f"/studies/{study}/evidence").text
        here.call("POST", f"studies/{study}/cancel", json={"reason": "no money"})
        over = browser.get(f"/studies/{study}").text
    assert "1 of 2 agents is settled: its answer becomes final when all are settled." in running
    assert "settled: there is enough evidence; the answer becomes final when every agent is settled" in running
    cells = CELL.findall(running)
    assert [arm for arm, cell in cells if "</span> settled" in cell] == ["a", "b", "c"]
    assert [arm for arm, cell in cells if "enough evidence to rule it out" in cell] == ["b", "c"]
    assert not [arm for arm, cell in cells if "</span> open" in cell and "enough" in cell]
    assert "</span> settled" not in over
    enough = "enough evidence for this agent, but not for every agent"
    assert [arm for arm, cell in CELL.findall(over) if enough in cell] == ["b", "c"]


def test_of_exact_studies_every_arm_that_is_out_is_worse(here):
    played(here, TWO, "exact", np.array([[0.9, 0.2], [0.1, 0.8], [0.4, 0.1]]))
    with here.browser() as browser:
        page = browser.get("/studies/exact/answer").text
        assert "set aside" not in page + browser.get("/studies/exact/evidence").text
    assert "Error probability" in page
    assert all((bound == "–") == ("chosen" in decision) for _, decision, bound in rows_of(page))


@pytest.mark.simulations
def test_looks_and_the_largest_size_stand_on_page_answer_report_and_certificate(here):
    text = TOLERANT.replace("tolerance = 0.4", "tolerance = 0.4\nmax_samples = 9000")
    found = played(here, text, "sized", TIED)
    looks, size = found["planned_looks"], found["largest_size"]
    assert found["samples"] <= size == 9000
    said = (
        f"{looks} looks are planned, including the first phase; further looks follow if the planned ones do not suffice"
    )
    most = f"ever more than {size:,} samples, whatever the truth"
    with here.browser() as browser:
        pages = {path: browser.get(f"/studies/sized{path}").text for path in ("", "/answer", "/report", "/report.md")}
    for path, page in pages.items():
        assert said in page, path
        assert most in page, path
    assert f"<dt>Planned</dt><dd>{looks} looks, at most {size:,} samples</dd>" in pages["/answer"]
    assert f"| planned looks | {looks} |" in pages["/report.md"]
    assert f"| largest size | {size:,} |" in pages["/report.md"]
    with here.browser() as browser:
        assert most in browser.post("/new", data={"study": text, "do": "estimate"}).text


def test_the_answer_of_play_promises_regret_and_no_error_probability(here):
    played(here, TWO.replace('name = "Two sites"', 'name = "Play"\nhorizon = 3000'), "played", TIED)
    with here.browser() as browser:
        for path in ("answer", "report"):
            page = browser.get(f"/studies/played/{path}").text
            assert "rror probability" not in page
            assert "above 0" not in page
            assert "xpected regret of wrong answers is bounded" in page


@pytest.mark.parametrize(
    "term", first_quick("tolerance = 0.4", "", "max_rounds = 3", "max_samples = 9000", "horizon = 3000", quick=2)
)
def test_lower_bounds_stand_only_where_they_are_about_the_question(here, term):
    study = f"bound-{term.split(' ')[0] or 'none'}".replace("_", "-")
    here.create(TWO.replace('name = "Two sites"', f'name = "Bounds"\n{term}'), study)
    here.phase(study, np.array([[0.5, 0.4], [0.3, 0.4], [0.1, 0.1]]))
    forecast = forecast_of(here, study)
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}/samples").text
    assert (forecast.get("bound") is not None) == (term == "")
    assert ("ower bound" in re.sub(r'aria-label="[^"]*"', "", page)) == (term == "")


@pytest.mark.simulations
def test_an_answer_whose_reports_left_out_too_much_has_no_guarantee(here):
    """A site that reports nothing "for reasons of its own", phase after phase, and then once."""
    study = here.create(TWO.replace("Two sites", "Dropping"), "dropping")
    for _ in range(3):
        for name in ("North", "South"):
            token = here.agent_token(study, name)
            plan = AgentPlan.from_json(here.call("GET", f"studies/{study}/agents/{name}/plan", token=token))
            nothing = Delivery(totals=Totals.of([[], [], []]), reason="staff", final=True)
            where = f"studies/{study}/phases/{plan.phase}/reports/{name}"
            here.call("PUT", where, token=token, json=plan.report(nothing).to_json())
    here.run(study)
    certificate = here.call("GET", f"studies/{study}/certificate")
    assert certificate["empty_phases"] == {"North": 3, "South": 3}
    assert certificate["guarantee"].startswith("withdrawn, because ")
    with here.browser() as browser:
        answer, report = (browser.get(f"/studies/{study}/{page}").text for page in ("answer", "report"))
    for page in (answer, report):
        assert "not bounded: too much data is missing" in page
        assert "at most 10 %" not in page
        assert "the intervals assume that no outcome is missing because of its value" in page
        assert re.search(rf"nder drift</(dt><dd|td><td)>{certificate['drift']}</", page)
    assert "Phases without a report: North 3, South 3." in answer
    for page in (answer, report):
        assert "ithdrawn, because " in page
        assert "are missing from the reports and the study allows at most 50 % of an arm" in page


@pytest.mark.parametrize(
    ("more", "words"),
    first_quick(
        (
            '[noise]\nscale = 1\n[policy]\nname = "wcpe"\nthreshold = "heuristic"',
            "not bounded: this policy has no guarantee",
        ),
        ("", "at most 10 %"),
        ('[noise]\nkind = "binary"\ninference = "normal"', "at most 10 %, approximately"),
        quick=2,
    ),
)
def test_the_error_probability_is_that_of_the_guarantee(here, more, words):
    text, study = f"{TWO}{more}\n", f"error-{len(words)}"
    here.create(text, study)
    here.call("POST", f"studies/{study}/cancel", json={"reason": "to see what is claimed"})
    with here.browser() as browser:
        answer, report = (browser.get(f"/studies/{study}/{page}").text for page in ("answer", "report"))
        form = {"study": text, "do": "estimate"}
        new = browser.post("/new", data=form).text
    for page in (answer, report, new):
        assert words in page
        assert ("at most 10 %" in page) == words.startswith("at most 10 %")
