"""Questions and maps on pages, in the report, in files and over the API."""

import json

import numpy as np
import pytest

from parley.cli.main import main
from parley.dashboard.pages.new_study import uploaded_study
from parley.errors import InvalidInput

SITES = """
name = "Two sites and the country"
arms = ["a", "b", "c"]
agents = ["North", "South"]

[weights]
kind = "personalized"
alpha = 0.5

[[questions]]
name = "country"
weights = { North = 0.4, South = 0.6 }
"""
DOUBT = (
    SITES.replace("alpha = 0.5", "alpha_range = [0.1, 0.9]\nsteps = 3")
    .replace("Two sites and the country", "Doubt")
    .replace('agents = ["North", "South"]', 'agents = ["North", "South"]\ntolerance = 0.05')
)
MUTE = SITES.replace("Two sites and the country", "Mute") + "[sites]\nasks = [true, false]\n"


@pytest.fixture(scope="module")
def whole(here):
    here.create(SITES, "country")
    here.run("country")
    return "country"


@pytest.fixture(scope="module")
def mapped(here):
    here.create(DOUBT, "doubt")
    here.run("doubt")
    return "doubt"


def test_a_question_gets_no_token_and_is_not_waited_for(here):
    here.create(SITES, "fresh")
    status = here.call("GET", "studies/fresh")
    assert [one["agent"] for one in status["missing"]] == ["North", "South"]
    with pytest.raises(AssertionError, match="not-found"):
        here.issue("agent", study="fresh", agent="country")
    with pytest.raises(AssertionError, match="not-found"):
        here.call("GET", "studies/fresh/agents/country/freeze")
    with here.browser() as browser:
        page = browser.get("/studies/fresh").text
    assert "2 agents, 1 further question" in page
    assert "Waiting for 2 agents" in page
    assert "Further questions" in page
    here.phase("fresh")
    with here.browser() as browser:
        assert "0 of 2 reports" in browser.get("/studies/fresh").text


@pytest.mark.simulations
def test_the_question_is_answered_on_every_page_and_file(here, whole):
    certificate = here.call("GET", f"studies/{whole}/certificate")
    assert set(certificate["answers"]) == {"North", "South", "country"}
    assert here.call("POST", f"studies/{whole}/verify")["sound"]
    with here.browser() as browser:
        pages = {name: browser.get(f"/studies/{whole}{name}").text for name in ("", "/answer", "/report", "/samples")}
        table = browser.get(f"/studies/{whole}/answer.csv").text
        paper = browser.get(f"/studies/{whole}/report.md").text
    assert "Questions decided" in pages[""]
    assert pages[""].index("Further questions") < pages[""].index('<th scope="row">country</th>')
    assert "country" in pages["/answer"]
    assert '<th scope="row">country</th>' not in pages["/samples"]
    assert "country,a," in table
    assert "2 agents, 1 further question" in paper
    # Weights: a row a site, a column a question; nobody draws for the country, so it is in no table of draws.
    assert "| North | 0.75 | 0.25 | 0.4 |" in paper
    flow = paper.split("Flow of draws")[1].split("Estimates")[0]
    assert "country" not in flow


def test_other_weights_are_those_of_the_sites(here, whole):
    found = here.call("GET", f"studies/{whole}/sensitivity")
    assert found["axis"] == "alpha"
    assert [one["agent"] for one in found["agents"]] == ["North", "South"]


def test_a_map_is_in_the_certificate_on_the_page_and_in_the_report(here, mapped):
    certificate = here.call("GET", f"studies/{mapped}/certificate")
    assert [one["agent"] for one in certificate["map"]] == ["North", "South"]
    with here.browser() as browser:
        page, report = (browser.get(f"/studies/{mapped}/{name}").text for name in ("answer", "report"))
        paper = browser.get(f"/studies/{mapped}/report.md").text
    for one in certificate["map"]:
        assert f"<strong>{one['agent']}:</strong> {one['words']}." in page
        assert one["words"] in paper
        assert [step["step"] for step in one["steps"]] == ["alpha 0.1", "alpha 0.5", "alpha 0.9"]
    for shown in (page, report):
        assert "Weights in doubt" in shown
        assert "The weights for which each answer holds" in shown
    answers = page.split('<ul class="answers">')[1].split("</ul>")[0]
    assert "alpha" not in answers, "the map has the steps"


@pytest.mark.simulations
def test_of_a_site_that_asks_nothing_no_answer_is_told(here):
    here.create(MUTE, "mute")
    here.run("mute")
    certificate = here.call("GET", "studies/mute/certificate")
    assert set(certificate["answers"]) == {"North", "country"}
    with here.browser() as browser:
        board, answer, table = (browser.get(f"/studies/mute{name}").text for name in ("", "/answer", "/answer.csv"))
        assert browser.get("/studies/mute/report").status_code == 200
        assert browser.get("/studies/mute/evidence").status_code == 200
        assert browser.get("/studies/mute/samples").status_code == 200
        estimates = browser.get("/studies/mute/estimates.csv").text
    assert "Agents that ask no question: South" in board
    assert '<th scope="row">South</th>' not in board
    assert '<span class="for">South</span>' not in answer
    assert "South" not in table
    assert "South" not in estimates


def test_an_uploaded_file_reads_no_file_of_the_server_and_is_not_too_large():
    scenarios = '[[weights.scenarios]]\nname = "a"\nkind = "matrix"\nfile = "/etc/passwd"\n'
    other = '[[weights.scenarios]]\nname = "b"\n'
    with pytest.raises(InvalidInput, match="another file, which a browser does not send"):
        uploaded_study(f"arms = 2\nagents = 2\ntolerance = 0.1\n{scenarios}{other}")
    many = (
        'arms = 2\nagents = 1000\ntolerance = 0.1\n[weights]\nkind = "personalized"\nalpha_range = [0, 1]\nsteps = 101'
    )
    with pytest.raises(InvalidInput, match="101,000 agents"):
        uploaded_study(many)


def test_the_list_of_studies_counts_questions_apart(here, whole):
    (listed,) = (one for one in here.call("GET", "studies")["studies"] if one["id"] == whole)
    assert (listed["agents"], listed["questions"]) == (3, 1)
    with here.browser() as browser:
        page = browser.get("/").text
    row = page.split(f'href="/studies/{whole}"')[1].split("</tr>")[0]
    assert '2 × 3<span class="under">1 further question</span>' in row


FINER = DOUBT.replace("Doubt", "Finer").replace("steps = 3", "steps = 2\nrefine = 2")


def said(here, monkeypatch, capsys, *words):
    monkeypatch.setenv("PARLEY_SERVER", here.address)
    monkeypatch.setenv("PARLEY_TOKEN", here.token)
    with pytest.raises(SystemExit) as ended:
        main(["admin", "answer", *words])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_command_of_an_answer_has_the_map_and_no_line_of_its_steps(here, mapped, monkeypatch, capsys):
    certificate = here.call("GET", f"studies/{mapped}/certificate")
    found = json.loads(said(here, monkeypatch, capsys, mapped, "--json"))
    assert found["map"] == certificate["map"]
    words = " ".join(said(here, monkeypatch, capsys, mapped).split())
    for one in certificate["map"]:
        assert f"{one['agent']}, where the weights are in doubt: {one['words']}." in words
    assert "alpha" not in words.split("Estimates")[0].split("where the weights")[0]
    assert "map" not in json.loads(said(here, monkeypatch, capsys, mapped, "--phase", "1", "--json"))


def test_a_study_whose_weights_are_in_no_doubt_has_no_map(here, whole, monkeypatch, capsys):
    assert "map" not in json.loads(said(here, monkeypatch, capsys, whole, "--json"))


@pytest.mark.simulations
def test_finer_steps_are_on_the_map_where_the_answer_changes_and_in_no_list_of_answers(here):
    here.create(FINER, "finer")
    here.run("finer", np.array([[1.5, 0.2], [0.1, 0.8], [0.4, 0.1]]))  # for South a is best up to 0.38, then b
    certificate = here.call("GET", "studies/finer/certificate")
    north, south = certificate["map"]
    assert [step["step"] for step in north["steps"]] == ["alpha 0.1", "alpha 0.9"], "what follows is left out"
    assert [(step["step"], *step["arms"]) for step in south["steps"]] == [
        ("alpha 0.1", "a"), ("alpha 0.3", "a"), ("alpha 0.5", "b"), ("alpha 0.9", "b"),
    ]  # fmt: skip
    assert len(south["questions"]) == 5
    assert here.call("POST", "studies/finer/verify")["sound"]
    with here.browser() as browser:
        page = browser.get("/studies/finer/answer").text
        assert browser.get("/studies/finer/report").status_code == 200
    answers = page.split('<ul class="answers">')[1].split("</ul>")[0]
    assert "alpha" not in answers, "the map has the steps"
