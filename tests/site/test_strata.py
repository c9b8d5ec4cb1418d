"""A site with two strata: one page, one API, one token file; a plan, a journal and a key each."""

import pytest
from tests.site.conftest import line_of

from parley.agent.client import read_tokens
from parley.agent.entries import Entered
from parley.agent.journal import RulesSeen
from parley.agent.site import Site
from parley.agent.strata import Strata
from parley.errors import InvalidInput, NoRoom, NotNow, SimilarKey

OURS = {"Sec-Fetch-Site": "same-origin"}
NAMES = ("young", "old & frail")


def opened(folder, **rules):
    rules = {"place": "Leeds", "low": 0.0, "high": 1.0, "flexible": True, "audience": "trial", **rules}
    return [
        Site(folder, study="trial", agent=f"Leeds, {name}", key=b"k" * 32, rules=RulesSeen(**rules, stratum=name))
        for name in NAMES
    ]


@pytest.fixture
def sites(tmp_path):
    made = opened(tmp_path)
    for site in made:
        site.begin(phase=1, plan="b" * 64, arms=("A", "B"), draws=(2, 2))
    yield made
    for site in made:
        site.close()


@pytest.fixture
def line(sites):
    with line_of(*sites, **OURS) as client:
        yield client


def assigned(line, status=201, **body):
    answer = line.post("/v1/assignments", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_stratum_is_asked_and_each_has_a_plan_of_its_own(line, sites):
    for name in NAMES:
        given = [assigned(line, participant=f"{name}-{n}", stratum=name) for n in range(4)]
        assert sorted(one["arm"] for one in given) == ["A", "A", "B", "B"], "its block is whole"
        assert {one["stratum"] for one in given} == {name}
    assert assigned(line, participant="young-5", stratum="young")["counted"] is False
    assert [site.status()["assigned"] for site in sites] == [4, 4]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 422, "stratum: found nothing; allowed: old & frail or young"),
        ({"stratum": "middle"}, 422, "stratum: found 'middle'; allowed: old & frail or young"),
        ({"stratum": ["young"]}, 422, "stratum"),
    ],
)
def test_a_stratum_that_is_not_named_or_not_known_is_a_sentence_and_nobody_is_enrolled(line, sites, body, status, says):
    found = assigned(line, status, participant="p-1", **body)
    assert says in found["detail"]
    assert not any(site.people.persons for site in sites)


def test_to_ask_again_gives_the_same_whoever_names_the_stratum_and_nobody_changes_it(line):
    first = assigned(line, participant="p-1", stratum="young")
    for more in ({}, {"stratum": "young"}):
        assert assigned(line, 200, participant="p-1", **more) == first | {"again": True}
    moved = assigned(line, 409, participant="p-1", stratum="old & frail")
    assert "'p-1' was assigned in the stratum 'young', and nobody can move to another stratum" in moved["detail"]
    assert assigned(line, 409, participant="P 1", stratum="old & frail")["detail"], "it reads like one of the other"


def test_outcomes_find_their_stratum(line, sites):
    for name in NAMES:
        assigned(line, participant=name, stratum=name)
    rows = [{"participant": name, "reward": 1} for name in (*NAMES, "nobody")]
    found = line.post("/v1/outcomes/bulk", json={"outcomes": rows}).json()
    assert (found["taken"], found["refused"]) == (2, 1)
    assert found["rows"][2]["why"] == (
        "participant: found 'nobody'; allowed: the key of a person assigned here. Assign this person first"
    )
    assert [site.status()["observed"] for site in sites] == [1, 1]
    assert line.post("/v1/missing", json={"participant": "old & frail"}).status_code == 200
    assert line.get("/v1/status", params={"stratum": "old & frail"}).json()["missing"] == 1
    assert line.get("/v1/status").status_code == 422
    assert line.get("/healthz").json()["status"] == "ok"


def test_a_table_of_all_strata_is_taken_whole_or_not_at_all(line, sites):
    for name in NAMES:
        assigned(line, participant=name, stratum=name)
    wrong = "participant;reward\nyoung;1\nold & frail;7\n"
    assert "nobody" not in line.post("/", data={"do": "take", "table": wrong}).text
    assert [site.status()["observed"] for site in sites] == [0, 0]
    line.post("/", data={"do": "take", "table": wrong.replace("7", "0")})
    assert [site.status()["observed"] for site in sites] == [1, 1]


def test_the_page_asks_for_the_stratum_and_shows_whose_people_it_lists(line, sites):
    page = line.get("/").text
    assert page.count('type="radio" name="stratum"') == 2
    assert " checked" not in page, "nobody is enrolled in a stratum by default"
    given = line.post("/", data={"do": "assign", "participant": "p-1", "stratum": "old & frail"})
    assert "p-1 · old &amp; frail" in given.text
    assert 'href="/?stratum=old%20%26%20frail" aria-current="page"' in given.text
    assert "<strong>p-1</strong>" in line.get("/", params={"stratum": "old & frail"}).text
    assert "<strong>p-1</strong>" not in line.get("/", params={"stratum": "young"}).text
    found = line.post("/", data={"do": "find", "sought": "p-1", "here": "young"}).text
    assert "<strong>p-1</strong>" in found, "whoever is sought is found in any stratum"
    line.post("/", data={"do": "outcome", "participant": "p-1", "reward": "1", "here": "young"})
    assert sites[1].people["p-1"].reward == 1.0
    unnamed = line.post("/", data={"do": "assign", "participant": "p-2"})
    assert unnamed.status_code == 422
    assert "Allowed: old &amp; frail or young." in unnamed.text
    similar = line.post("/", data={"do": "assign", "participant": "P 1", "stratum": "young"})
    assert similar.status_code == 409
    assert 'name="stratum" value="young"' in similar.text


def test_a_finished_study_has_an_answer_for_every_stratum(line, sites):
    for site, arm in zip(sites, ("A", "B"), strict=True):
        site.seen("finished", answer=(arm,))
    for name, arm in zip(NAMES, ("A", "B"), strict=True):
        page = line.get("/", params={"stratum": name}).text
        assert f'<p class="arm">{arm}</p>' in page
        assert page.count('href="/?stratum=') >= 2, "and the way to the other one"
        assert page.count('aria-current="page"') == 1


def test_two_processes_cannot_enrol_one_person_in_two_strata(tmp_path, sites):
    """The second has read both journals before the first wrote."""
    first, second = Strata(sites), Strata(opened(tmp_path))
    assert second.of("p-1") is None
    first.assign("p-1", "young")
    with pytest.raises(NotNow, match="nobody can move to another stratum"):
        second.assign("p-1", "old & frail")
    with pytest.raises(SimilarKey):
        second.assign("p 1", "old & frail")
    second.close()


def test_of_many_rows_each_is_judged_in_its_stratum(sites):
    leeds = Strata(sites)
    for name in NAMES:
        leeds.assign(name, name)
    rows = [Entered("young", 1.0), Entered("", 1.0), Entered("old & frail", 0.0), Entered("young", 0.0)]
    assert [one is None for one in leeds.record(rows)] == [True, False, True, False]
    assert [site.status()["observed"] for site in sites] == [0, 0]
    leeds.record(rows, partly=True)
    assert [site.status()["observed"] for site in sites] == [1, 1]


def test_strata_are_of_one_site_and_each_is_there_once(tmp_path, sites):
    york = Site(tmp_path, study="trial", agent="York", rules=RulesSeen(place="York", stratum="young"))
    with york, pytest.raises(InvalidInput, match="agents of one site in one study"):
        Strata([sites[0], york])
    with pytest.raises(InvalidInput, match="every stratum once"):
        Strata([sites[0], sites[0]])


def test_a_token_file_has_a_token_or_a_line_for_every_stratum(tmp_path):
    file = tmp_path / "token"
    file.write_text("parley_a\n")
    assert read_tokens(file) == {"": "parley_a"}
    file.write_text("parley_a Leeds, young\nparley_b  Leeds, old\n\n")
    assert read_tokens(file) == {"Leeds, young": "parley_a", "Leeds, old": "parley_b"}
    file.write_text("parley_a Leeds, young\nparley_b\n")
    with pytest.raises(InvalidInput, match="2 lines, 1 with a name; allowed: a token alone, or a line"):
        read_tokens(file)
    with pytest.raises(InvalidInput, match="token file"):
        read_tokens(tmp_path / "none")


def test_rows_of_several_strata_on_a_full_disk_say_which_were_taken(line, sites, monkeypatch):
    for name in NAMES:
        assigned(line, participant=f"{name}-1", stratum=name)
    rows = [{"participant": f"{name}-1", "reward": 1.0} for name in NAMES]

    last = next(site for site in sites if f"{NAMES[-1]}-1" in site.people.persons)
    record = last.record

    def full(rows, **how):
        if how["take"]:
            raise NoRoom("nothing was taken")
        return record(rows, **how)

    monkeypatch.setattr(last, "record", full)
    answer = line.post("/v1/outcomes/bulk", json={"outcomes": rows})
    assert answer.status_code == 507
    first = next(site for site in sites if site is not last)
    said = f"the rows of {first.stratum} were saved, but the rows of {last.stratum} were not"
    assert said in answer.json()["detail"]
    assert [site.status()["observed"] for site in (first, last)] == [1, 0]
    monkeypatch.undo()
    assert line.post("/v1/outcomes/bulk", json={"outcomes": rows}).json()["taken"] == 2


def test_a_form_about_a_person_is_about_that_person_whoever_was_sought(line, sites):
    for name in NAMES:
        assigned(line, participant=f"{name}-1", stratum=name)
    here, there = (f"{name}-1" for name in NAMES)
    fields = {"do": "outcome", "participant": there, "reward": "1", "sought": here}
    assert line.post("/", data=fields).status_code == 200
    assert next(site for site in sites if there in site.people.persons).people[there].reward == 1.0
