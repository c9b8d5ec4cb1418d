"""Signing in, staying in and getting out; forms of other sites; headers; nothing secret at rest."""

import re
import socket
import sqlite3

import httpx2
import pytest
from tests.dashboard.site import TWO, sign_in, site

from parley.coordinator.observability import configure

PAGES = (
    "/",
    "/new",
    "/tokens",
    "/log",
    "/studies/two",
    "/studies/two/answer.json",
    "/studies/two/events",
    "/events",
)


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_every_page_leads_to_the_sign_in(here, path):
    with here.browser(False) as browser:
        answer = browser.get(path, follow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in")


def test_the_session_is_a_cookie_that_no_script_and_no_other_site_can_use(here):
    with here.browser(False) as browser:
        answer = browser.post("/sign-in", data={"token": here.token, "next": "/"}, follow_redirects=False)
        cookie = next(line for line in answer.headers.get_list("set-cookie") if line.startswith("parley-session="))
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert "Max-Age=43200" in cookie
        assert here.token not in cookie


@pytest.mark.parametrize("settings", [{"plain_http": True}, {"public_url": "https://parley.example.org"}])
def test_under_tls_the_cookie_is_secure_and_bound_to_the_host(tmp_path, settings):
    """Also behind a proxy on the same machine: the address that people open says so."""
    configure("error")
    with site(tmp_path, **settings) as behind_a_proxy, behind_a_proxy.browser(False) as browser:
        data = {"token": behind_a_proxy.token, "next": "/"}
        answer = browser.post("/sign-in", data=data, follow_redirects=False)
        lines = answer.headers.get_list("set-cookie")
        assert any(line.startswith("__Host-parley-session=") and "Secure" in line for line in lines)


@pytest.mark.parametrize("token", ["", "parley_0123456789abcdef_" + "x" * 43, "nonsense", "ünïcode"])
def test_a_wrong_token_is_refused_in_words(here, token):
    with here.browser(False) as browser:
        answer = sign_in(browser, token)
        assert answer.status_code == 401
        assert "unknown or revoked" in answer.text


def test_an_agents_token_opens_no_page(here):
    here.create(study_id="agent-test")
    with here.browser(False) as browser:
        answer = sign_in(browser, here.agent_token("agent-test", "North"))
        assert answer.status_code == 403
        assert "This token is only for sending reports" in answer.text


@pytest.mark.parametrize("target", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example"])
def test_signing_in_never_leads_to_another_site(here, target):
    with here.browser(False) as browser:
        data = {"token": here.token, "next": target}
        assert browser.post("/sign-in", data=data, follow_redirects=False).headers["location"] == "/"


def test_signing_out_ends_the_session_on_the_server_too(either):
    with either.browser() as browser:
        kept = dict(browser.cookies)
        browser.post("/sign-out")
        assert "parley-session" not in browser.cookies
    with httpx2.Client(base_url=either.address, cookies=kept) as thief:
        assert thief.get("/").status_code == 303


def test_a_session_expires_and_does_not_come_back_when_the_clock_is_set_back(either):
    with either.browser() as browser, either.browser() as other:
        assert browser.get("/", follow_redirects=False).status_code == 200
        either.hours[0] = 12.1
        try:
            assert browser.get("/", follow_redirects=False).status_code == 303
        finally:
            either.hours[0] = 0.0
        assert browser.get("/", follow_redirects=False).status_code == 303
        assert other.get("/", follow_redirects=False).status_code == 303, "nor one that nobody asked for meanwhile"


def test_a_session_ends_with_its_token(either):
    token = either.issue("analyst", "statistics")
    with either.browser(token) as browser, either.api() as client:
        assert browser.get("/", follow_redirects=False).status_code == 200
        client.request("DELETE", "tokens", token.split("_")[1])
        assert browser.get("/", follow_redirects=False).status_code == 303


def test_a_session_opens_no_further_session(either):
    with either.browser() as browser:
        headers = {"Authorization": f"Session {browser.cookies['parley-session']}"}
        assert httpx2.get(f"{either.address}/v1/whoami", headers=headers).status_code == 200
        assert httpx2.post(f"{either.address}/v1/sessions", headers=headers).status_code == 403


ELSEWHERE = (
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://elsewhere.example"},
    {"Origin": "null"},
    {},
)


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
def test_a_form_sent_by_another_site_does_nothing(here, headers):
    """Nor one of which the browser does not say who sent it, with a session or before."""
    with here.browser() as browser, here.api() as client:
        before = client.request("GET", "tokens")
        del browser.headers["Sec-Fetch-Site"]
        data = {"role": "administrator", "name": "Eve"}
        assert browser.post("/tokens", data=data, headers=headers).status_code == 403
        assert client.request("GET", "tokens") == before
    with httpx2.Client(base_url=here.address) as stranger:
        assert stranger.post("/sign-in", data={"token": here.token}, headers=headers).status_code == 403


def test_a_form_of_ours_is_taken_from_browsers_new_and_old(here):
    sent = {
        "new": {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
        "typed": {"Sec-Fetch-Site": "none"},
        "old": {"Origin": here.address},
    }
    for name, headers in sent.items():
        with here.browser() as browser:
            del browser.headers["Sec-Fetch-Site"]
            data = {"role": "viewer", "name": name}
            assert browser.post("/tokens", data=data, headers=headers).status_code == 200


def answered(here, headers):
    """The status of a POST whose body never comes."""
    host, port = here.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(("\r\n".join(["POST /sign-in HTTP/1.1", f"Host: {host}", *headers]) + "\r\n\r\n").encode())
        return int(line.recv(100).split()[1])


OURS = "Sec-Fetch-Site: same-origin"


def test_nothing_is_read_of_a_form_that_another_site_may_have_sent(here):
    assert answered(here, ["Content-Length: 60000000"]) == 403
    assert answered(here, ["Content-Length: 1000", "Sec-Fetch-Site: cross-site"]) == 403


def test_a_large_form_is_refused_by_its_size_and_one_that_does_not_say(here):
    assert answered(here, ["Content-Length: 60000000", OURS]) == 413
    assert answered(here, ["Transfer-Encoding: chunked", OURS]) == 411


def test_a_form_of_very_many_fields_is_refused(here):
    with here.browser(False) as browser:
        answer = browser.post("/sign-in", content="a=1" + "&a=1" * 15_000)
        assert answer.status_code == 400
        assert "20 fields" in answer.text


def test_only_an_administrators_study_file_may_be_large(here):
    large = "# " + "x" * 200_000 + "\n" + TWO
    with here.browser() as browser:
        assert browser.post("/new", data={"study": large}).status_code == 200
        assert browser.post("/tokens", data={"name": large}).status_code == 413
    with here.browser(here.issue("analyst", "statistics")) as browser:
        refused = browser.post("/new", data={"study": large})
        assert refused.status_code == 403, "by its role, before a byte of the file is read"


def test_every_answer_forbids_inline_script_and_other_hosts(here):
    with here.browser() as browser:
        for path in ("/", "/sign-in", "/nowhere-to-be-found", "/studies/none", "/static/style.css"):
            answer = browser.get(path)
            if answer.headers["content-type"].startswith(("text/html", "text/css")):
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "script-src 'self'" in policy
                assert "unsafe" not in policy
            assert "<script>" not in answer.text
            assert " style=" not in answer.text
            assert "onclick" not in answer.text


def test_neither_token_nor_session_is_at_rest(here):
    with here.browser() as browser:
        session = browser.cookies["parley-session"]
        dump = "\n".join(sqlite3.connect(here.db).iterdump())
        assert session not in dump
        assert here.token.split("_", 2)[2] not in dump
        assert 'INSERT INTO "sessions"' in dump


def test_the_api_can_be_served_alone(tmp_path):
    configure("error")
    with site(tmp_path, no_dashboard=True) as alone:
        assert httpx2.get(f"{alone.address}/").status_code == 404
        assert httpx2.get(f"{alone.address}/healthz").status_code == 200


def test_a_list_of_tokens_stays_as_it_was_searched_after_each_act(here):
    """With more tokens than a page holds, the one that was rotated or revoked was on another page."""
    with here.browser(here.token) as browser:
        searched = browser.get("/tokens?search=SEEK%26FIND").text
        assert 'action="/tokens?search=seek%26find"' not in searched, "nobody is called so yet"
        form = {"role": "viewer", "name": "seek&find"}
        issued = browser.post("/tokens?search=seek%26find", data=form)
        assert issued.text.count('action="/tokens?search=seek%26find"') == 1
        (kid,) = re.findall(r'name="kid" value="([0-9a-f]+)"', issued.text)
        revoked = browser.post("/tokens/revoke?search=seek%26find", data={"kid": kid})
        assert str(revoked.url).endswith("/tokens?search=seek%26find")
        assert revoked.text.count('<tr class="past">') == 1
