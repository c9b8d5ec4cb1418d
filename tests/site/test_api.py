"""The site's API: outcomes in bulk, and the OpenAPI document that says what there is."""

import os

import pytest
from tests.agent.test_site import journal_of
from tests.site.conftest import CODE

from parley.agent.site import Site
from parley.site.access import MOST


def bulk(line, *rows):
    return line.post("/v1/outcomes/bulk", json={"outcomes": list(rows)})


def test_of_many_outcomes_each_is_taken_or_refused_with_the_reason(line, tmp_path):
    for key in ("p-1", "p-2", "p-3"):
        assert line.post("/v1/assignments", json={"participant": key}).status_code == 201
    rows = [
        {"participant": "p-1", "reward": 1},
        {"participant": "p-9", "reward": 1},
        {"participant": " p-1 ", "reward": 0},
        {"participant": "p-2", "reward": None},
        {"participant": "p-2", "reward": "1"},
        {"participant": "p-2", "reward": 0.5, "missing": True},
        {"participant": "p-2", "missing": True},
        {"participant": 7, "reward": 1},
        "p-3",
        {"participant": "p-3", "reward": 0.25, "arm": "A"},
        {"participant": "p-3", "reward": 0.25},
    ]
    found = bulk(line, *rows).json()
    assert (found["taken"], found["refused"]) == (3, 8)
    assert [row["taken"] for row in found["rows"]] == [True, *[False] * 5, True, *[False] * 3, True]
    assert [row["participant"] for row in found["rows"]][7:9] == [None, None]
    why = [row["why"] for row in found["rows"]]
    assert why[1] == "participant: found 'p-9'; allowed: the key of a person assigned here. Assign this person first"
    assert why[2] == "participant: found 'p-1' a second time; allowed: once"
    assert why[3] == 'missing: found no reward; allowed: a reward, or "missing": true'
    assert "reward" in why[4]
    assert why[5].startswith("missing: found true beside a reward")
    assert "arm" in why[9]
    with Site(tmp_path, study="trial", agent="Lyon") as again:
        people = again.people
        assert again.status()["observed"] == 2, "it is on the disk"
        assert (people["p-1"].reward, people["p-2"].missing, people["p-3"].reward) == (1.0, True, 0.25)


def test_the_same_outcomes_again_change_nothing_and_one_more_sync_writes_them_all(line, tmp_path, monkeypatch):
    rows = []
    for number in range(4):
        line.post("/v1/assignments", json={"participant": f"p-{number}"})
        rows.append({"participant": f"p-{number}", "reward": 1.0})
    synced, sync = [], os.fsync
    monkeypatch.setattr("parley.agent.journal.os.fsync", lambda file: synced.append(sync(file)))
    assert bulk(line, *rows).json()["taken"] == 4
    assert len(synced) == 1
    before = journal_of(tmp_path).read_bytes()
    assert bulk(line, *rows).json() == {
        "taken": 4, "refused": 0, "rows": [{"participant": f"p-{n}", "taken": True, "why": ""} for n in range(4)],
    }  # fmt: skip
    assert journal_of(tmp_path).read_bytes() == before


@pytest.mark.parametrize("body", [{"outcomes": 1}, {"rows": []}, {"outcomes": [], "take": True}])
def test_what_is_no_list_of_outcomes_is_refused_as_a_whole(line, body):
    found = line.post("/v1/outcomes/bulk", json=body)
    assert found.status_code == 422
    assert '{"outcomes": [a row for each participant]}' in found.json()["detail"]


@pytest.mark.parametrize("stage", ["finished", "cancelled"])
def test_after_the_end_no_outcome_is_taken_by_whatever_way_and_the_same_again_is_welcome(line, site, stage):
    for key in ("p-1", "p-2"):
        line.post("/v1/assignments", json={"participant": key})
    first = {"participant": "p-1", "reward": 1}
    assert line.post("/v1/outcomes", json=first).status_code == 200
    site.seen(stage)
    late = {"participant": "p-2", "reward": 1}
    why = "the study has ended: outcomes no longer count"
    for path, body in (("outcomes", late), ("outcomes", first | {"reward": 0}), ("missing", {"participant": "p-2"})):
        found = line.post(f"/v1/{path}", json=body)
        assert found.status_code == 409
        assert why in found.json()["detail"]
    assert [row["why"] for row in bulk(line, late).json()["rows"]] == [why]
    form = line.post(
        "/", data={"do": "outcome", "participant": "p-2", "reward": "1"}, headers={"Sec-Fetch-Site": "same-origin"}
    )
    assert form.status_code == 422
    assert why in form.text
    assert line.post("/v1/outcomes", json=first).status_code == 200
    assert site.people["p-1"].reward == 1
    assert site.people["p-2"].reward is None


@pytest.mark.parametrize("path", ["/", "/v1/outcomes", "/v1/outcomes/bulk", "/v1/assignments"])
def test_a_body_beyond_the_limit_is_refused_before_it_is_read(line, path):
    kind = "application/json" if path.startswith("/v1") else "application/x-www-form-urlencoded"
    unread = {"Content-Length": str(MOST + 1), "Content-Type": kind, "Sec-Fetch-Site": "same-origin"}
    found = line.post(path, content=b"", headers=unread)
    assert found.status_code == 413
    assert f"at most {MOST} bytes" in found.text


def test_addresses_without_a_version_are_gone(line):
    for path in ("/assignments", "/outcomes", "/missing"):
        assert line.post(path, json={"participant": "p-1"}).status_code == 404
    gone = line.get("/status")
    assert (gone.status_code, gone.headers["content-type"]) == (404, "application/problem+json")
    assert line.get("/v1/outcomes").status_code == 405


def test_the_document_names_every_operation_and_how_to_show_the_code(line):
    line.headers.pop("Authorization")
    document = line.get("/v1/openapi.json").json()
    assert {path for path in document["paths"] if path.startswith(("/v1/", "/healthz"))} == {
        "/v1/assignments", "/v1/outcomes", "/v1/outcomes/bulk", "/v1/missing", "/v1/voids", "/v1/unmask", "/v1/status",
        "/v1/corrections",
        "/healthz",
    }  # fmt: skip
    assert document["components"]["securitySchemes"]["code"]["scheme"] == "bearer"
    for methods in document["paths"].values():
        for described in methods.values():
            assert bool(described["security"]) == (described["operationId"] != "healthz")
    assert line.get("/v1/status").status_code == 401


def test_what_a_cookie_would_be_trusted_for_says_which_page_sent_it(line):
    """A program that shows the code with the request need not."""
    person, ours = {"json": {"participant": "p-1"}}, {"Sec-Fetch-Site": "same-origin"}
    assert line.post("/v1/assignments", **person).status_code == 201
    line.headers.pop("Authorization")
    for unsaid in ({}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:81"}, {"Sec-Fetch-Site": "same-site"}):
        assert line.post("/enter", data={"code": CODE}, headers=unsaid).status_code == 403
    assert line.post("/enter", data={"code": CODE}, headers=ours).status_code == 200
    assert line.post("/v1/assignments", **person).status_code == 403
    assert line.post("/", data={"do": "assign", "participant": "p-2"}).status_code == 403
    for said in (ours, {"Sec-Fetch-Site": "none"}, {"Origin": "http://127.0.0.1"}):
        assert line.post("/v1/assignments", headers=said, **person).status_code == 200
        assert line.post("/", data={"do": "find", "participant": "p-1"}, headers=said).status_code == 200
    bearer = {"Authorization": f"Bearer {CODE}"}
    assert line.post("/v1/assignments", headers=bearer, **person).status_code == 200


@pytest.mark.servers
def test_answers_have_the_form_that_the_document_says(line):
    """Of every operation, right and wrong bodies."""
    import schemathesis

    schema = schemathesis.openapi.from_dict(line.get("/v1/openapi.json").json())
    bodies = {
        "assign": [{"participant": "p-1"}, {"participant": "p-1"}, {"participant": ""}, {}],
        "note_outcome": [{"participant": "p-1", "reward": 1}, {"participant": "p-1", "reward": None}],
        "note_outcomes": [{"outcomes": [{"participant": "p-1", "reward": 1}, 1]}, {}],
        "note_missing": [{"participant": "p-1"}, {"participant": "p-9"}],
        "void_assignment": [{"participant": "p-9", "reason": "by mistake", "who": "me"}, {}],
        "correct_outcome": [{"participant": "p-9", "reward": 1, "reason": "", "who": "me"}, {}],
        "unmask": [{"participant": "p-1", "by": "me"}, {}],
        "evaluate_flag": [{"context": {"targetingKey": "p-1"}}, {}],
        "evaluate_flags": [{"context": {"targetingKey": "p-1"}}, {}],
    }
    checked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        for body in bodies.get(operation.definition.raw["operationId"], [None]):
            for key in ("trial", "other") if "{key}" in operation.path else ("",):
                path = operation.path.replace("{key}", key)
                answer = line.request(operation.method, path, **({} if body is None else {"json": body}))
                operation.validate_response(schemathesis.Response.from_any(answer))
                checked += 1
    assert checked == 24


def test_a_page_tells_people_of_every_operation_and_every_shape(line):
    line.headers.pop("Authorization")
    page, document = line.get("/v1/docs").text, line.get("/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            assert f"<code>{method.upper()} {path}</code>" in page
            assert f'<h2 id="{told["operationId"]}">' in page
    for name, shape in document["components"]["schemas"].items():
        assert f'<h3 id="{name}">' in page
        assert all(f"<code>{field}</code>" in page for field in shape["properties"])
    assert "The stratum, by the study&#39;s name for it" in page


def test_the_contract_of_an_allocation(line, site):
    """What data systems rely on: 201 once, then 200 with the same allocation, whatever was lost on the way."""
    subject = {"participant": "S-001"}
    first = line.post("/v1/assignments", json=subject)
    assert first.status_code == 201
    assert first.json().keys() == {"participant", "phase", "arm", "counted", "again"}
    for _ in range(3):
        again = line.post("/v1/assignments", json=subject)
        assert (again.status_code, again.json()) == (200, first.json() | {"again": True})
    assert len(site.people.persons) == 1
    for wrong, detail in (
        ({"participant": "S-002", "stratum": "old"}, "stratum: found 'old'; allowed: Lyon"),
        ({"participant": "S-002", "covariate": 50}, "covariate: found 50.0; allowed: nothing"),
        ({"subject": "S-002"}, "subject"),
    ):
        refused = line.post("/v1/assignments", json=wrong)
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
        assert detail in refused.json()["detail"]
    assert len(site.people.persons) == 1
