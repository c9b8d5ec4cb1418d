"""The covariate on the page and in the API of a site: before the arm is shown, and not after."""

import pytest
from tests.site.conftest import line_of

from parley.agent.journal import RulesSeen
from parley.agent.site import Site

FORM = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def asking(tmp_path):
    """A site whose study asks for the age of people."""
    rules = RulesSeen(covariate="age", covariate_range=(18.0, 100.0), audience="trial")
    with Site(tmp_path, study="trial", agent="Lyon", key=b"secret", rules=rules) as site:
        site.begin(phase=1, plan="b" * 64, arms=("A", "B"), draws=(2, 2))
        with line_of(site) as line:
            yield site, line


def test_the_api_takes_it_with_the_assignment_and_not_later(asking):
    site, line = asking
    without = line.post("/v1/assignments", json={"participant": "p-1"})
    assert without.status_code == 422
    assert "age: found nothing" in without.json()["detail"]
    assert line.post("/v1/assignments", json={"participant": "p-1", "covariate": "old"}).status_code == 422
    assert not site.people.persons
    given = line.post("/v1/assignments", json={"participant": "p-1", "covariate": 63})
    assert given.status_code == 201
    assert "63" not in given.text
    assert (
        line.post("/v1/assignments", json={"participant": "p-1", "covariate": 63}).json()["arm"] == given.json()["arm"]
    )
    late = line.post("/v1/assignments", json={"participant": "p-1", "covariate": 64})
    assert late.status_code == 409
    assert "cannot be changed afterwards" in late.json()["detail"]
    unknown = line.post("/v1/assignments", json={"participant": "p-2", "without_covariate": True})
    assert unknown.status_code == 201
    assert [site.people[key].x for key in ("p-1", "p-2")] == [63.0, None]
    assert "covariate" in line.get("/v1/openapi.json").text


def test_the_page_asks_for_it_beside_the_key_and_shows_no_arm_without_it(asking):
    site, line = asking
    page = line.get("/").text
    assert 'name="covariate"' in page
    assert "age" in page
    refused = line.post("/", data={"do": "assign", "participant": "p-1"}, headers=FORM)
    assert refused.status_code == 422
    assert not site.people.persons
    typed = line.post("/", data={"do": "assign", "participant": "p-1", "covariate": "abc"}, headers=FORM)
    assert typed.status_code == 422
    assert 'value="abc"' in typed.text, "what was typed is still there"
    german = {**FORM, "Accept-Language": "de"}
    assert line.post("/", data={"do": "assign", "participant": "p-1", "covariate": "63,5"}, headers=german).is_success
    fields = {"do": "assign", "participant": "p-2", "covariate": "", "without_covariate": "1"}
    assert line.post("/", data=fields, headers=FORM).is_success
    assert [site.people[key].x for key in ("p-1", "p-2")] == [63.5, None]
    late = line.post("/", data={"do": "assign", "participant": "p-1", "covariate": "64"}, headers=FORM)
    assert late.status_code == 422
    assert "cannot be changed afterwards" in late.text


def test_who_is_asked_whether_it_is_somebody_else_does_not_type_it_again(asking):
    site, line = asking
    line.post("/", data={"do": "assign", "participant": "P 1", "covariate": "30"}, headers=FORM)
    doubtful = line.post("/", data={"do": "assign", "participant": "p-1", "covariate": "41"}, headers=FORM)
    assert doubtful.status_code == 409
    assert '<input type="hidden" name="covariate" value="41">' in doubtful.text
    sure = {"do": "assign", "participant": "p-1", "somebody_else": "1", "covariate": "41"}
    assert line.post("/", data=sure, headers=FORM).is_success
    assert site.people["p-1"].x == 41.0


def test_a_study_without_a_covariate_asks_for_none(line):
    assert 'name="covariate"' not in line.get("/").text
