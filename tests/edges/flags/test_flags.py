"""An arm as a feature flag (OFREP): what the journal says, concealed, sticky, with the error codes of the protocol."""

import pytest
from tests.agent.test_site import journal_of
from tests.site.conftest import line_of

from parley.agent.journal import RulesSeen
from parley.agent.site import Site

ONE, ALL = "/ofrep/v1/evaluate/flags/trial", "/ofrep/v1/evaluate/flags"


def evaluate(line, key, path=ONE, **more):
    return line.post(path, json={"context": {"targetingKey": key, **more}})


def test_a_flag_is_the_arm_that_the_api_gives_whoever_asks_first(line, site):
    first = evaluate(line, "p-1")
    assert first.status_code == 200
    arm = first.json()["value"]
    assert first.json() == {
        "key": "trial", "value": arm, "variant": arm, "reason": "SPLIT",
        "metadata": {"study": "trial", "agent": "Lyon", "counted": True, "phase": 1},
    }  # fmt: skip
    assert line.post("/v1/assignments", json={"participant": "p-1"}).json()["arm"] == arm
    assert evaluate(line, " p-1 ").json() == first.json(), "one spelling, one person"
    given = line.post("/v1/assignments", json={"participant": "p-2"}).json()["arm"]
    assert evaluate(line, "p-2").json()["value"] == given
    assert site.status()["assigned"] == 2


def test_what_is_answered_is_in_the_journal_and_nothing_else_of_the_context(line, tmp_path):
    arm = evaluate(line, "p-1", email="somebody@example.org").json()["value"]
    with Site(tmp_path, study="trial", agent="Lyon") as another:
        assert another.people["p-1"].probability is not None, "another process reads it from the disk"
        assert another.assign("p-1").arm == arm
    assert b"example.org" not in journal_of(tmp_path).read_bytes()


def test_an_arm_is_for_ever_the_same_whatever_becomes_of_the_study(line, site):
    arms = {f"p-{number}": evaluate(line, f"p-{number}").json()["value"] for number in range(4)}
    assert sorted(arms.values()) == ["A", "A", "B", "B"], "the plan"
    for key in arms:
        site.outcome(key, 1.0)
    site.begin(phase=2, plan="c" * 64, arms=("A", "B"), draws=(0, 5))
    site.seen("finished")
    assert {key: evaluate(line, key).json()["value"] for key in arms} == arms


@pytest.mark.parametrize("stage", ["paused", "finished", "cancelled", "frozen"])
def test_while_nobody_is_assigned_the_default_of_the_application_holds(line, site, stage):
    site.seen(stage, "a pump is broken" if stage == "paused" else "")
    found = evaluate(line, "p-1")
    assert found.status_code == 200
    why = found.json()["metadata"].pop("why")
    assert stage in why
    assert found.json() | {"metadata": {}} == {"key": "trial", "reason": "DISABLED", "variant": "", "metadata": {}}
    assert "value" not in found.json()
    assert "p-1" not in site.people.persons, "and nothing is written of them"
    site.seen("running")
    assert evaluate(line, "p-1").json()["reason"] == "SPLIT"


@pytest.mark.parametrize("between", ["outside", "leading"])
def test_whom_the_phase_does_not_need_is_outside_of_the_study_for_ever(line, site, tmp_path, between):
    with Site(tmp_path, study="trial", agent="Lyon", rules=RulesSeen(between=between)) as other:
        other.begin(phase=2, plan="c" * 64, arms=("A", "B"), draws=(0, 1))
    assert evaluate(line, "p-1").json()["reason"] == "SPLIT"
    found = evaluate(line, "p-2").json()
    assert found["metadata"] == {"study": "trial", "agent": "Lyon", "counted": False, "phase": 2}
    if between == "outside":
        assert (found["reason"], found["variant"], "value" in found) == ("DEFAULT", "", False)
    else:
        assert (found["reason"], found["variant"], found["value"]) == ("STATIC", "B", "B")
    site.begin(phase=3, plan="d" * 64, arms=("A", "B"), draws=(5, 5))
    assert evaluate(line, "p-2").json() == found, "also when people are needed again"


def test_error_codes_of_the_protocol(line, site):
    missing = line.post(ONE, json={"context": {}})
    assert (missing.status_code, missing.json()["errorCode"]) == (400, "TARGETING_KEY_MISSING")
    assert missing.json()["key"] == "trial"
    for body in ({}, {"context": {"targetingKey": ""}}, {"context": {"targetingKey": None}}):
        assert line.post(ONE, json=body).json()["errorCode"] == "TARGETING_KEY_MISSING"
    for body in ({"context": 1}, {"context": {"targetingKey": 7}}, {"context": {"targetingKey": "x" * 201}}):
        found = line.post(ONE, json=body)
        assert (found.status_code, found.json()["errorCode"]) == (400, "INVALID_CONTEXT")
    for content in (b"{", b"", b"[]"):
        broken = line.post(ONE, content=content, headers={"Content-Type": "application/json"})
        assert (broken.status_code, broken.json()["errorCode"]) == (400, "PARSE_ERROR")
    unknown = evaluate(line, "p-1", "/ofrep/v1/evaluate/flags/other")
    assert (unknown.status_code, unknown.json()["errorCode"]) == (404, "FLAG_NOT_FOUND")
    assert unknown.json()["errorDetails"] == "found 'other'; this site has the flag 'trial'"
    bulk = line.post(ALL, json={})
    assert (bulk.status_code, bulk.json()["errorCode"]) == (400, "TARGETING_KEY_MISSING")
    assert line.post(ONE, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    extra = {"context": {"targetingKey": "p-1"}, "newer": 1}
    assert line.post(ONE, json=extra).status_code == 200, "a newer protocol may send more"
    line.headers["Authorization"] = "Bearer wrong"
    assert evaluate(line, "p-2").status_code == 401
    for _ in range(20):
        last = evaluate(line, "p-2")
    assert last.status_code == 429
    assert 0 < int(last.headers["retry-after"]) <= 61
    assert "p-2" not in site.people.persons


def test_in_bulk_with_an_etag_that_is_asked_for_only_after_the_arm_is_given(line, site):
    found = evaluate(line, "p-1", ALL)
    assert found.json() == {"flags": [evaluate(line, "p-1").json()]}
    tag = found.headers["etag"]
    for held in (tag, f'"other", W/{tag}'):
        again = line.post(ALL, json={"context": {"targetingKey": "p-1"}}, headers={"If-None-Match": held})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = line.post(ALL, json={"context": {"targetingKey": "p-2"}}, headers={"If-None-Match": tag})
    assert other.status_code in (200, 304)
    assert site.people["p-2"].counted, "whoever guesses an ETag has given the person an arm"


def test_nothing_that_the_api_tells_depends_on_the_arms_to_come(tmp_path):
    """Of many sites with other secrets, and so other arms: what is answered of arms differs, and nothing else does."""
    others, arms = set(), set()
    for number in range(12):
        with Site(tmp_path / str(number), study="trial", agent="Lyon", key=bytes([number])) as site:
            site.begin(phase=1, plan="b" * 64, arms=("A", "B"), draws=(4, 4))
            with line_of(site) as line:
                given = [evaluate(line, f"p-{place}").json() for place in range(3)]
                answers = [line.get("/v1/status"), line.get("/v1/openapi.json"), line.post(ONE, json={}),
                           evaluate(line, "p-4", "/ofrep/v1/evaluate/flags/A")]  # fmt: skip
                tags = line.post(ALL, json={}, headers={"If-None-Match": '"x"'})
            arms.add((*(one["value"] for one in given), site.assign("p-9").arm))
            hidden = [{**one, "value": "", "variant": ""} for one in given]
            others.add(repr([hidden, [answer.text for answer in answers], tags.text]))
    assert len(arms) > 5
    assert len(others) == 1


def test_the_document_of_the_site_has_both_operations(line):
    paths = line.get("/v1/openapi.json").json()["paths"]
    assert {path for path in paths if path.startswith("/ofrep")} == {
        "/ofrep/v1/evaluate/flags/{key}", "/ofrep/v1/evaluate/flags",
    }  # fmt: skip
    assert [one["name"] for one in paths["/ofrep/v1/evaluate/flags/{key}"]["post"]["parameters"]] == ["key"]
