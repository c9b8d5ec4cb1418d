"""Promise 10: bad input is a 4xx with a clear problem document, never a 5xx. The long version is `make chaos`."""

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordinator.support import House, report_of, study_message
from tools.chaos.inputs import fuzz

from parley.coordinator.record import initialise, open_storage
from parley.errors import Rejected


@pytest.mark.servers
@pytest.mark.parametrize("database", ["postgres"], indirect=True)  # the one that is easier to upset
def test_requests_made_from_the_openapi_document(house):
    found = fuzz(house, examples=4)
    assert found["failures"] == []
    assert found["operations"] >= 30
    requests, statuses = found["requests"], found["statuses"]
    assert requests >= 200
    assert statuses["403"] + statuses["404"] <= 0.35 * requests, "most requests get past the doors"
    assert statuses["200"] + statuses["201"] >= 0.15 * requests, "and many get through"


@pytest.mark.servers
def test_many_reports_good_and_bad(sqlite_house):
    found = fuzz(sqlite_house, examples=30, only=["put_report"])
    assert found["failures"] == []
    assert {"201", "403", "409", "422"} <= found["statuses"].keys()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def sqlite_house(tmp_path_factory):
    """One coordinator for the whole module: nothing here changes a study."""
    address = str(tmp_path_factory.mktemp("house") / "parley.db")
    initialise(address)
    storage = open_storage(address)
    made = House(storage)
    yield made
    made.close()
    storage.close()


@pytest.fixture(scope="module")
def report(sqlite_house):
    message = study_message(agents=2, arms=3, policy="uniform")
    agents = sqlite_house.create(message)
    plan = agents[0].plan("trial", "agent 1")
    token = sqlite_house.tokens["trial", "agent 1"]
    with httpx2.Client(base_url=sqlite_house.url, headers={"Authorization": f"Bearer {token}"}) as http:
        yield report_of(plan, 0).to_json(), http


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_reports_with_one_thing_wrong(report, data):
    good, http = report
    key = data.draw(st.sampled_from([*good, "unknown"]))
    bad = {**good, key: data.draw(json_values)}
    if bad == good:
        return
    content = _dumps(bad)
    response = http.put("/v1/studies/trial/phases/1/reports/agent%201", content=content, headers=JSON)
    assert_problem(response)


JSON = {"Content-Type": "application/json"}


def _dumps(document):
    import json

    return json.dumps(document).encode("utf-8", "surrogatepass")


def assert_problem(response):
    assert 400 <= response.status_code < 500, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"].startswith("urn:parley:problem:")
    assert problem["status"] == response.status_code
    assert isinstance(problem["retry"], bool)
    assert problem["detail"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sums": [float("nan"), 0, 0]}, "finite"),
        ({"sums": [float("inf"), 0, 0]}, "finite"),
        ({"sums": [1e300, 0.0, 0.0]}, "squares"),
        ({"counts": [10**30, 1, 1]}, "counts[0]: found a huge number; allowed: whole numbers up to 2^53"),
        ({"counts": [-1, 1, 1]}, "counts[0]: found -1; allowed: a whole number >= 0"),
        ({"counts": [True, 1, 1]}, "counts[0]: found True; allowed: a whole number"),
        ({"counts": [1.5, 1, 1]}, "counts[0]: found 1.5; allowed: a whole number"),
        ({"counts": []}, "one per arm"),
        ({"phase": 10**9}, "phase: found 1000000000; allowed: a whole number <= 1000000"),
        ({"agent": "agent 2"}, "not those of the address"),
        ({"schema": "parley/report/2"}, "parley/report/1"),
    ],
)
def test_what_a_refusal_says(report, change, words):
    good, http = report
    response = http.put(
        "/v1/studies/trial/phases/1/reports/agent%201", content=_dumps({**good, **change}), headers=JSON
    )
    assert_problem(response)
    assert words in response.json()["detail"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"a": ' + b"9" * 6000 + b"}", b"\xff\xfe", b"[" * 100_000, b'{"schema":NaN}'],
)
def test_bodies_that_are_no_report(report, content):
    _, http = report
    assert_problem(http.put("/v1/studies/trial/phases/1/reports/agent%201", content=content, headers=JSON))


def test_bodies_that_are_too_large_are_refused_before_they_are_read(report):
    _, http = report
    path = "/v1/studies/trial/phases/1/reports/agent%201"
    announced = http.put(path, content=b"x" * 2_000_000, headers=JSON)
    assert announced.status_code == 413
    assert_problem(announced)
    streamed = http.put(path, content=(b"x" * 100_000 for _ in range(20)), headers=JSON)
    assert streamed.status_code == 411, "a body of unstated length is not read either"
    assert_problem(streamed)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/nothing",
        "/v1/studies/%00",
        "/v1/studies/a/phases/x/plan",
        "/v1/studies/%ff",
        "/v1/studies/",
    ],
)
def test_addresses_that_are_not_there(sqlite_house, path):
    response = httpx2.get(
        sqlite_house.url + path, headers={"Authorization": f"Bearer {sqlite_house.token}"}, trust_env=False
    )
    assert_problem(response)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": [[0.5, 0.5], [0.4, 0.5]]}, "sums to"),
        ({"weights": [[1.0, 0.0], [0.0]]}, "weights"),
        ({"delta": 2.0}, "delta"),
        ({"top": 3}, "top"),
        ({"policy": "oracle"}, "truth"),
        ({"policy": "nonsense"}, "one of"),
        ({"options": {"nonsense": 1}}, "option"),
        ({"noise": {"kind": "bounded"}}, "noise"),
        ({"noise": {"kind": "gaussian", "scale": "x"}}, "noise"),
        ({"agents": ["a/b", "c"]}, "slash"),
        ({"agents": ["", "c"]}, "names"),
        ({"agents": []}, "names"),
        ({"arms": ["only"]}, "arms"),
        ({"arms": 3}, "list"),
        ({"nonsense": 1}, "unknown keys"),
        ({"largest_gap": 1e-300}, "found"),
    ],
)
def test_studies_that_cannot_be_run(sqlite_house, changes, words):
    document = {**study_message(agents=2, arms=3).to_json(), **changes}
    with pytest.raises(Rejected) as refused:
        sqlite_house.admin.request("POST", "studies", json={"study": document})
    assert refused.value.problem["type"].endswith("invalid-study")
    assert words in refused.value.problem["detail"]


@pytest.mark.parametrize(("agents", "arms"), [(2_001, 2), (1_000, 101)])
def test_a_study_beyond_the_caps_is_refused(sqlite_house, agents, arms):
    document = {"agents": [f"a{i}" for i in range(agents)], "arms": [f"x{i}" for i in range(arms)]}
    with pytest.raises(Rejected, match="up to 2,000 agents and 100,000 cells of a live study"):
        sqlite_house.admin.request("POST", "studies", json={"study": document})


def test_a_token_that_asks_too_fast_is_told_when_to_come_back(storage):
    house = House(storage, rate=0.5, burst=3)
    with httpx2.Client(base_url=house.url, headers={"Authorization": f"Bearer {house.token}"}) as http:
        answers = [http.get("/v1/whoami") for _ in range(5)]
    house.close()
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json()["retry"]
    assert int(answers[-1].headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("GET", "studies?limit=many", None, "query: limit: found 'many'; allowed: a whole number"),
        ("GET", "studies?limit=0", None, "query: limit: found '0'; allowed: a whole number >= 1"),
        ("GET", "studies?stage=asleep", None,
         "query: stage: found 'asleep'; allowed: running, closing, paused, stalled, finished, cancelled"),
        ("GET", "studies/trial/quarantine?held=perhaps", None, "query: held: found 'perhaps'; allowed: true or false"),
        ("GET", "studies/trial/phases/last/plan", None, "path: phase: found 'last'; allowed: a whole number"),
        ("POST", "studies/trial/pause", {"reason": 3}, "body: reason: found 3; allowed: text"),
        ("POST", "studies/trial/pause", {"why": "x"}, "body: ReasonBody: found missing or unknown keys: "),
        ("POST", "tokens", {"role": "king"}, "body: role: found 'king'; allowed: agent, viewer, analyst, "),
        ("POST", "studies/trial/reweigh", {"reason": "x", "preview": "0"}, "allowed: a SHA-256 in hexadecimal"),
        ("PUT", "studies/trial/phases/1/reports/agent 1", {"counts": ["1", 2, 3]},
         "body: counts[0]: found '1'; allowed: a whole number"),
    ],
)  # fmt: skip
def test_a_refusal_says_in_our_words_what_was_found_and_allowed(sqlite_house, report, method, path, body, words):
    """Not in those of the library that reads it."""
    token = sqlite_house.tokens["trial", "agent 1"] if method == "PUT" else sqlite_house.token
    body = report[0] | body if method == "PUT" else body
    with httpx2.Client(transport=sqlite_house.application, base_url="http://parley.test/v1/") as client:
        answer = client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert not {"`", "$", "Expected"} & {*answer.json()["detail"], *answer.json()["detail"].split()}
