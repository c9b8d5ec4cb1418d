"""A site's service, and what pretends to be its coordinator or its page: nothing is believed, nothing breaks."""

import time
from types import SimpleNamespace

import pytest
from msgspec import structs
from starlette.testclient import TestClient
from tests.agent.test_not_fooled import house  # noqa: F401
from tests.agent.test_worker import plan
from tests.coordinator.support import report_of, study_message
from tests.served import Served, Silent

from parley.agent import Client
from parley.agent.reporting import SiteRuntime, hand_over, site_of
from parley.agent.site import Site
from parley.errors import InvalidInput, Unreachable, WrongPlan
from parley.site.access import Access
from parley.site.app import create_app

CODE = "12345678"
BEARER = {"Authorization": f"Bearer {CODE}", "Content-Type": "application/json"}


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path, study="s", agent="a") as made:
        yield made


def asked(**change):
    return structs.replace(plan(), **{"phase": 1, "plan": "b" * 64, "arms": ("x", "y"), "draws": (1, 1), **change})


def filled(site):
    site.begin(phase=1, plan="b" * 64, arms=("x", "y"), draws=(1, 1))
    for key in ("p-1", "p-2"):
        site.outcome(key, float(site.assign(key).arm == "x"))


@pytest.mark.parametrize("change", [{"arms": ("y", "x"), "plan": "q" * 64}, {"arms": ("y", "x")}, {"plan": "q" * 64},
                                    {"arms": ("x", "y", "z"), "draws": (1, 1, 0)}])  # fmt: skip
def test_people_of_one_plan_are_not_reported_for_another(site, change):
    """The study was made anew under the same name, with its arms in another order: x's rewards are not y's."""
    filled(site)
    with pytest.raises(WrongPlan, match="not the one by which people were assigned"):
        site(asked(**change))
    assert site(asked()).totals.sums.tolist() == [1.0, 0.0], "the plan that it was is answered"


def test_a_phase_that_was_passed_over_is_not_begun_any_more(site):
    site.begin(phase=3, plan="b" * 64, arms=("x", "y"), draws=(1, 1))
    with pytest.raises(WrongPlan, match="the journal is in phase 3"):
        site(asked(phase=2))


@pytest.mark.parametrize("reward", [10**400, -(10**5000), 1e200, float("nan"), float("-inf")], ids=lambda _: "")
def test_rewards_whose_squares_are_not_numbers_are_refused(site, reward):
    site.begin(phase=1, plan="b" * 64, arms=("x", "y"), draws=(1, 1))
    site.assign("p-1")
    with pytest.raises(InvalidInput, match="reward"):
        site.outcome("p-1", reward)
    assert site.status()["observed"] == 0


@pytest.fixture
def runtime(site):
    """A site that has not heard from its coordinator, unless a test says so."""
    filled(site)
    return SimpleNamespace(
        site=site,
        words="connected",
        noted=lambda: None,
        receipts=dict,
        silence=None,
        held=None,
        unsent={},
        correctable=lambda _: True,
    )


@pytest.fixture
def access(runtime):
    app, headers = create_app(runtime, Access(host="127.0.0.1", code=CODE)), {"Sec-Fetch-Site": "same-origin"}
    with TestClient(app, base_url="http://127.0.0.1", headers=headers) as client:
        yield client


def test_what_cannot_be_read_is_refused_and_is_no_fault_of_ours(access):
    huge = b'{"participant": "p-1", "reward": 1' + b"0" * 400 + b"}"
    assert access.post("/v1/outcomes", content=huge, headers=BEARER).status_code == 422
    many = "&".join(f"field{number}=1" for number in range(30))
    assert access.post("/enter", content=many).status_code == 400
    odd = {"Cookie": "parley-site=a.é".encode("latin-1")}
    assert access.get("/", headers=odd, follow_redirects=False).status_code == 303, "no session: the code is asked for"


def test_null_is_no_outcome_and_overwrites_none(access, site):
    """`JSON.stringify(NaN)` sends null: it made a person missing whose outcome was known."""
    answer = access.post("/v1/outcomes", json={"participant": "p-1", "reward": None}, headers=BEARER)
    assert answer.status_code == 422
    assert "`missing` says that no outcome will come" in answer.json()["detail"]
    with pytest.raises(InvalidInput, match="reward"):
        site.outcome("p-1", None)
    assert (site.status()["observed"], site.status()["missing"]) == (2, 0)
    assert access.post("/v1/missing", json={"participant": "p-1"}, headers=BEARER).status_code == 200
    assert (site.status()["observed"], site.status()["missing"]) == (1, 1), "missing is an act of its own"


def test_whoever_guesses_the_code_waits_and_not_even_the_right_one_is_looked_at(access):
    tries = [access.get("/v1/status", headers={"Authorization": f"Bearer {number:08}"}) for number in range(30)]
    assert [one.status_code for one in tries] == [401] * 10 + [429] * 20
    assert access.get("/v1/status", headers=BEARER).status_code == 429
    assert 0 < int(tries[-1].headers["retry-after"]) <= 61


def test_right_codes_are_not_counted_and_sessions_stay(access):
    assert access.post("/enter", data={"code": CODE}).status_code == 200
    for _ in range(40):
        assert access.get("/v1/status", headers=BEARER).status_code == 200
    for number in range(30):
        access.get("/v1/status", headers={"Authorization": f"Bearer {number}"})
    assert access.get("/").status_code == 200, "whoever is in stays in"


def test_the_page_and_health_tell_the_age_of_the_last_contact(access, runtime):
    """The page said "connected" for as long as nothing else was said, however long ago that was."""
    assert access.get("/healthz").json() == {"status": "silent", "seconds_since_contact": None}
    access.post("/enter", data={"code": CODE})
    assert "no contact yet" in access.get("/").text
    runtime.silence = 3.0
    assert access.get("/healthz").json() == {"status": "ok", "seconds_since_contact": 3.0}
    assert "Coordinator: last contact just now." in access.get("/").text
    runtime.silence = 1500.0
    assert access.get("/healthz").status_code == 503
    assert access.get("/v1/status", headers=BEARER).json()["seconds_since_contact"] == 1500.0
    late = access.get("/").text
    assert "The coordinator is not responding</strong>" in late
    assert "last contact 25 minutes ago" in late


@pytest.mark.parametrize("name", ["elsewhere.example", "elsewhere.example:99999999", "[::1", "127.0.0.1 elsewhere"])
def test_a_name_that_cannot_be_read_is_not_taken_for_ours(access, name):
    assert access.get("/v1/status", headers={**BEARER, "Host": name}).status_code == 421


@pytest.mark.servers
def test_a_site_whose_place_was_reported_by_somebody_else_says_so(house, tmp_path):  # noqa: F811
    agents = house.create(study_message(agents=2, arms=2, policy="uniform"))
    agents[0].send(report_of(agents[0].plan("trial", "agent 1"), 0))  # by whoever else holds the token
    warned = []
    with site_of(tmp_path / "once", agents[0], study="trial", agent="agent 1") as once:
        hand_over(once, agents[0], tmp_path / "once", warn=warned.append)
    assert "another program holds this agent's token" in warned[0]
    runtime = SiteRuntime(site_of(tmp_path, agents[0], study="trial", agent="agent 1"), agents[0], tmp_path)
    runtime.start()
    try:
        until = time.monotonic() + 10
        while "another program holds" not in runtime.words and time.monotonic() < until:
            time.sleep(0.02)
        runtime._hear(agents[0].plan("trial", "agent 1"))
        assert "another program holds this agent's token" in runtime.words, "and does not forget it with the next plan"
    finally:
        runtime.close()


class _BrokenGzip(Silent):
    """A proxy that damages what it compresses."""

    def do_GET(self):
        self.server.asked += 1
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"plain")


@pytest.fixture
def damaging():
    with Served(_BrokenGzip) as served:
        served.server.asked = 0
        yield served


def test_an_answer_that_cannot_be_decoded_is_no_answer(damaging):
    with Client(damaging.url, "t") as client, pytest.raises(Unreachable):
        client.plan("s", "a")


def test_the_reporting_thread_outlives_whatever_an_answer_does(site, damaging, tmp_path, monkeypatch):
    monkeypatch.setattr("parley.agent.reporting.AGAIN", 0.01)
    client = Client(damaging.url, "t")
    runtime = SiteRuntime(site, client, tmp_path)
    failures = iter([OSError(24, "no file descriptor"), RuntimeError("a fault of ours")])
    plan_of = client.plan

    def failing(*given, **named):
        for failure in failures:
            raise failure
        return plan_of(*given, **named)

    client.plan = failing
    runtime.start()
    try:
        until = time.monotonic() + 20
        while damaging.server.asked < 2 and time.monotonic() < until:
            time.sleep(0.02)
        assert damaging.server.asked >= 2, "it asks again after every failure"
        assert "connected" not in runtime.words.replace("not connected", "")
    finally:
        runtime.close()
