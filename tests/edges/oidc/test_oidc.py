"""Sign-in by an OpenID Connect provider: a real one, of Authlib's server parts, in a process of its own."""

import json
import re
import subprocess
import sys
import time
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from tests.coordinator.support import OWN_PAGE, House, eventually, study_message
from tests.edges.oidc.provider import provider_process
from tests.served import endless_answers

from parley.coordinator.clock import later
from parley.coordinator.http.context import utc_now
from parley.coordinator.record import open_storage
from parley.coordinator.settings import ServerSettings
from parley.edges.oidc.settings import OidcSettings
from parley.errors import InvalidInput

pytestmark = pytest.mark.servers
PUBLIC = "http://parley.test"
PEOPLE = {
    "ada": {"sub": "1", "email": "ada@example.org", "groups": ["staff", "board"]},
    "eve": {"sub": "2", "email": "eve@example.org", "groups": ["visitors"]},
    "bob": {"sub": "3", "groups": "monitors"},
    "ann": {"sub": "4", "email": "ann@example.org", "groups": ["board"]},
    "nonce": {"sub": "5", "groups": ["board"], "nonce": "another"},
    "audience": {"sub": "6", "groups": ["board"], "aud": ["somebody else"], "azp": "parley"},
    "issuer": {"sub": "7", "groups": ["board"], "iss": "https://elsewhere.example"},
    "late": {"sub": "8", "groups": ["board"], "exp": 1_600_000_000, "iat": 1_500_000_000},
    "forged": {"sub": "9", "groups": ["board"], "forged": True},
    "nameless": {"sub": "", "groups": ["board"]},
    "blank": {"sub": " ", "groups": ["board"]},
    "early": {"sub": "10", "groups": ["board"], "auth_time": 32_503_680_000},
}
ROLES = "board=administrator, monitors=viewer:trial, staff=analyst"


@pytest.fixture(scope="module")
def here(prepared_sqlite, tmp_path_factory):
    """A house with a provider in front of its pages."""
    folder = tmp_path_factory.mktemp("oidc")
    (folder / "people.json").write_text(json.dumps(PEOPLE))
    (folder / "secret").write_text("a secret: of 100%\n")
    (folder / "parley.db").write_bytes(prepared_sqlite.read_bytes())
    words = ("parley", "a secret: of 100%", f"{PUBLIC}/sign-in/oidc/done", folder / "people.json")
    with provider_process(*words) as (issuer, process):
        chosen = {"oidc_client_id": "parley", "oidc_secret_file": str(folder / "secret"), "oidc_roles": ROLES}
        ahead = SimpleNamespace(hours=0.0)
        chosen |= {"public_url": PUBLIC, "oidc_issuer": issuer, "clock": lambda: later(utc_now(), ahead.hours)}
        house = House(open_storage(str(folder / "parley.db")), **chosen)
        house.create(study_message(agents=1, arms=2, policy="uniform"))
        yield SimpleNamespace(house=house, people=folder / "people.json", process=process, issuer=issuer, ahead=ahead)
        house.close()
        house.storage.close()


def browser(here):
    return httpx2.Client(base_url=PUBLIC, transport=here.house.application, headers=OWN_PAGE)


def begin(pages, user, following="/"):
    """Where the provider sends the browser back to, once `user` signed in there."""
    begun = pages.get("/sign-in/oidc", params={"next": following})
    assert begun.status_code == 303
    answer = httpx2.get(begun.headers["location"] + f"&user={user}")
    return urlsplit(answer.headers["location"])


def sign_in(pages, user, following="/"):
    back = begin(pages, user, following)
    return pages.get(f"{back.path}?{back.query}")


def test_somebody_whom_the_provider_knows_signs_in_and_out(here):
    with browser(here) as pages:
        assert f"Sign in at {urlsplit(here.issuer).hostname}" in pages.get("/sign-in").text
        back = sign_in(pages, "ada", "/studies/trial?first=1")
        assert (back.status_code, back.headers["refresh"]) == (200, "0; url=/studies/trial?first=1")
        page = pages.get("/")
        assert "ada@example.org" in page.text
        assert "administrator" in page.text, "the first role of the setting that fits"
        assert pages.post("/sign-out").status_code == 303
        assert pages.get("/").status_code == 303, "the session is over"
    tokens = here.house.admin.request("GET", "tokens")["tokens"]
    (row,) = [one for one in tokens if one["principal"].startswith("administrator:ada@example.org")]
    assert (row["principal"], row["created_by"]) == (f"administrator:ada@example.org ({row['kid']})", "oidc:127.0.0.1")


def test_nobody_is_logged_as_somebody_else_by_taking_their_name(here):
    """A name is what people may choose at many providers, and an address passes on to others. A token has one too."""
    named = {"sub": "20", "email": "pia@example.org", "groups": ["staff"]}
    other, odd = named | {"sub": "21"}, named | {"sub": "a\nb\x00", "email": "analyst\u202e"}
    here.people.write_text(json.dumps(PEOPLE | {"one": named, "other": other, "odd": odd}))
    token = here.house.issue("analyst", name="pia@example.org")
    token.request("GET", "studies", "trial", "board")
    for user in ("one", "other", "odd"):
        with browser(here) as pages:
            assert sign_in(pages, user).status_code == 200
            assert pages.get("/studies/trial/evidence").status_code == 200
    here.people.write_text(json.dumps(PEOPLE))
    told = [one["actor"] for one in here.house.admin.request("POST", "studies", "trial", "verify")["reads"]]
    mine = [actor for actor in told if actor.startswith(("analyst:pia@example.org", "analyst:somebody ("))]
    assert len(set(mine)) == 4, "whoever sees results is in the log, whatever the name"
    assert all(actor.isprintable() for actor in told)


def test_the_request_has_a_challenge_a_state_and_a_nonce_of_this_browser_alone(here):
    with browser(here) as one, browser(here) as other:
        first, second = (
            parse_qs(urlsplit(pages.get("/sign-in/oidc").headers["location"]).query) for pages in (one, other)
        )
    assert first["code_challenge_method"] == ["S256"]
    assert first["scope"] == ["openid profile email"]
    for name in ("code_challenge", "state", "nonce"):
        assert first[name] != second[name]


def test_roles_may_be_of_one_study_and_a_name_may_be_missing(here):
    with browser(here) as pages:
        sign_in(pages, "bob")
        assert pages.get("/studies/trial").status_code == 200
        assert pages.get("/studies/trial/audit").status_code == 403
        assert pages.get("/tokens").status_code == 403
    assert any(one["principal"].startswith("viewer:3 (") for one in here.house.admin.request("GET", "tokens")["tokens"])


def test_who_has_no_role_is_told(here):
    with browser(here) as pages:
        back = sign_in(pages, "eve")
        assert back.status_code == 403
        assert "knows you, but its claim &#39;groups&#39; gives you no role here" in back.text
        assert pages.get("/").status_code == 303


def test_an_answer_to_somebody_else_or_to_nobody_is_refused(here):
    with browser(here) as pages, browser(here) as other:
        back = begin(pages, "ada")
        for stranger in (other, httpx2.Client(base_url=PUBLIC, transport=here.house.application)):
            assert "this sign-in was not started here" in stranger.get(f"{back.path}?{back.query}").text
        other.get("/sign-in/oidc")
        assert other.get(f"{back.path}?{back.query}").status_code == 403
        forged = re.sub("state=[^&]+", "state=" + "0" * 64, back.query)
        assert pages.get(f"{back.path}?{forged}").status_code == 403
        assert pages.get("/").status_code == 303


def test_a_code_is_worth_nothing_without_its_verifier(here):
    """Another browser's code, with a state of one's own: PKCE and the nonce bind it to who began."""
    with browser(here) as pages, browser(here) as thief:
        code = parse_qs(begin(pages, "ada").query)["code"][0]
        state = parse_qs(urlsplit(thief.get("/sign-in/oidc").headers["location"]).query)["state"][0]
        back = thief.get("/sign-in/oidc/done", params={"code": code, "state": state})
        assert back.status_code == 403
        assert "rejects the code of this sign-in" in back.text
        assert thief.get("/").status_code == 303


@pytest.mark.parametrize("user", ["nonce", "audience", "issuer", "late", "forged", "nameless", "blank", "early"])
def test_an_id_token_that_does_not_hold_is_refused(here, user):
    with browser(here) as pages:
        back = sign_in(pages, user)
        assert back.status_code == 403
        assert "sent an ID token that is not valid" in back.text
        assert pages.get("/").status_code == 303


def test_a_person_has_the_role_of_the_last_sign_in_and_none_once_revoked(here):
    with browser(here) as pages:
        sign_in(pages, "ann")
        assert pages.get("/studies/trial/audit").status_code == 200
        here.people.write_text(json.dumps(PEOPLE | {"ann": PEOPLE["ann"] | {"groups": ["staff"]}}))
        with browser(here) as again:
            sign_in(again, "ann")
        assert pages.get("/studies/trial/audit").status_code == 403, "in every session"
        here.people.write_text(json.dumps(PEOPLE))
        tokens = here.house.admin.request("GET", "tokens")["tokens"]
        (kid,) = [one["kid"] for one in tokens if one["principal"] == f"analyst:ann@example.org ({one['kid']})"]
        here.house.admin.request("DELETE", "tokens", kid)
        assert pages.get("/").status_code == 303
        assert "an administrator revoked the access of analyst:ann@example.org" in sign_in(pages, "ann").text


def test_what_the_provider_says_of_a_refusal_is_told(here):
    with browser(here) as pages:
        state = parse_qs(urlsplit(pages.get("/sign-in/oidc").headers["location"]).query)["state"][0]
        back = pages.get("/sign-in/oidc/done", params={"error": "access_denied", "state": state})
        assert "did not sign you in: access_denied" in back.text


WORDS = {"name": "Ada Example", "meaning": "approved the protocol"}


def to_sign(pages, words=WORDS):
    """Where the provider is asked to sign somebody in anew, once the form for signing is sent."""
    led = pages.post("/studies/trial/sign", data=words)
    return led.headers["refresh"].removeprefix("0; url=") if led.status_code == 200 else led


def back_to_sign(pages, address, user):
    """The end of it: the page that follows the provider's answer, by way of the one that leads there."""
    back = urlsplit(httpx2.get(f"{address}&user={user}").headers["location"])
    session = {name: value for name, value in pages.cookies.items() if "session" in name}
    for name in session:  # strict: not sent when another site leads here
        del pages.cookies[name]
    led = pages.get(f"{back.path}?{back.query}")
    pages.cookies.update(session)
    return pages.get(led.headers["refresh"].removeprefix("0; url="))


def signatures(here):
    return here.house.admin.request("GET", "studies", "trial", "signatures")["signatures"]


def overwritten(here, user, **claims):
    here.people.write_text(json.dumps(PEOPLE | {user: PEOPLE[user] | claims}))


def test_who_signed_in_there_signs_by_signing_in_anew(here):
    before = len(signatures(here))
    with browser(here) as pages:
        sign_in(pages, "bob")
        page = pages.get("/studies/trial/answer").text
        assert "To complete the signature, sign in at 127.0.0.1 again within ten minutes" in page
        assert "Your token" not in page
        address = to_sign(pages)
        asked = parse_qs(urlsplit(address).query)
        assert (asked["prompt"], asked["max_age"], asked["scope"]) == (["login"], ["0"], ["openid profile email"])
        assert len(signatures(here)) == before, "nothing is signed yet"
        done = back_to_sign(pages, address, "bob")
        assert (done.status_code, done.headers["location"]) == (303, "/studies/trial/answer#signatures-title")
        assert "parley-provider" not in pages.cookies
        signed = signatures(here)[before:]
        session = {"Authorization": f"Session {pages.cookies['parley-session']}"}
        kid = pages.get("/v1/whoami", headers=session).json()["kid"]
        named = (*WORDS.values(), f"viewer:3 ({kid})")
        assert [(one["name"], one["meaning"], one["actor"]) for one in signed] == [named]
        for more in ({}, {"kid": kid}):
            sent = pages.post("/v1/studies/trial/signatures", json={**WORDS, "token": "", **more}, headers=session)
            assert sent.status_code in (403, 422), "the session alone does not sign"
    assert len(signatures(here)) == before + 1


@pytest.mark.parametrize(
    ("user", "claims", "words"),
    [
        ("ada", {}, "another person signed in at 127.0.0.1"),
        ("bob", {"auth_time": None}, "does not say when you signed in (no auth_time)"),
        ("bob", {"auth_time": time.time() - 300}, "did not ask you to sign in again: you signed in "),
        ("bob", {"auth_time": time.time() + 7200}, "its auth_time is in the future"),
        ("bob", {"nonce": "another"}, "sent an ID token that is not valid"),
        ("bob", {"groups": []}, "gives you no role here"),
        ("nobody", {}, "did not sign you in"),
    ],
    ids=[
        "another person",
        "no auth_time",
        "old auth_time",
        "auth_time to come",
        "nonce",
        "no role any more",
        "refused there",
    ],
)
def test_nothing_is_signed_unless_the_same_person_signs_in_anew(here, user, claims, words):
    before = len(signatures(here))
    with browser(here) as pages:
        sign_in(pages, "bob")
        address = to_sign(pages)
        overwritten(here, "bob", **claims)
        try:
            refused = back_to_sign(pages, address, user)
        finally:
            overwritten(here, "bob")
        assert refused.status_code == 403
        assert "Nothing was signed: " in refused.text
        assert words in refused.text
        assert WORDS["meaning"] in refused.text, "what was typed stays"
        assert pages.get("/studies/trial/answer").status_code == 200, "and who is signed in stays so"
    assert len(signatures(here)) == before


def test_what_waits_is_for_one_session_one_study_these_words_and_ten_minutes(here):
    here.house.create(study_message(agents=1, arms=2, policy="uniform"), "other")
    before = len(signatures(here))
    with browser(here) as pages, browser(here) as other:
        for one in (pages, other):
            sign_in(one, "ada")
        for one in (pages, other):
            to_sign(one)
        earlier, elsewhere = (one.cookies["parley-provider"].split(".") for one in (pages, other))
        for change in (
            lambda *_: elsewhere,
            lambda secret, _, path: (secret, elsewhere[1], path),
            lambda secret, _, path: (secret, earlier[1], path),
            lambda secret, sealed, path: (secret, "AAAA" + sealed[4:], path),
            lambda secret, sealed, path: (secret, sealed, path.replace("trial", "other")),
        ):
            address = to_sign(pages)
            changed = ".".join(change(*pages.cookies["parley-provider"].split(".")))
            pages.cookies.set("parley-provider", changed, domain="parley.test")
            refused = back_to_sign(pages, address, "ada")
            assert refused.status_code == 403
            assert "this signature was not started here, or was started in another session" in refused.text
        address = to_sign(pages)
        here.ahead.hours = 0.17
        try:
            assert "started more than 10 minutes ago: start again" in back_to_sign(pages, address, "ada").text
        finally:
            here.ahead.hours = 0.0
    assert len(signatures(here)) == before


def test_what_cannot_be_signed_is_refused_before_the_provider_is_asked(here):
    with browser(here) as pages:
        sign_in(pages, "bob")
        for words in (WORDS | {"name": " "}, WORDS | {"meaning": "\u6c49" * 2000}, {"name": "Bob"}):
            assert to_sign(pages, words).status_code == 422
        assert "too long to be kept while you sign in" in to_sign(pages, WORDS | {"meaning": "\u6c49" * 2000}).text


def test_an_answer_that_does_not_end_is_not_read_to_the_end(prepared_sqlite, tmp_path):
    (tmp_path / "parley.db").write_bytes(prepared_sqlite.read_bytes())
    with endless_answers() as (address, cut):
        chosen = {"oidc_issuer": address, "oidc_client_id": "parley", "oidc_roles": ROLES}
        house = House(open_storage(str(tmp_path / "parley.db")), public_url=PUBLIC, **chosen)
        try:
            with browser(SimpleNamespace(house=house)) as pages:
                assert "127.0.0.1 does not answer as it should" in pages.get("/sign-in/oidc").text
            assert eventually(lambda: cut)
        finally:
            house.close()
            house.storage.close()


def test_a_provider_that_is_down_is_told_and_tokens_still_work(prepared_sqlite, tmp_path):
    (tmp_path / "parley.db").write_bytes(prepared_sqlite.read_bytes())
    chosen = {"oidc_issuer": "http://127.0.0.1:1", "oidc_client_id": "parley", "oidc_roles": ROLES}
    house = House(open_storage(str(tmp_path / "parley.db")), public_url=PUBLIC, **chosen)
    try:
        with browser(SimpleNamespace(house=house)) as pages:
            answer = pages.get("/sign-in/oidc")
            assert answer.status_code == 503
            assert "127.0.0.1 does not answer as it should: try again" in answer.text
            form = {"token": house.token, "next": "/"}
            assert pages.post("/sign-in", data=form).status_code == 303
            assert pages.get("/").status_code == 200
    finally:
        house.close()
        house.storage.close()


def test_settings_that_cannot_be_right_are_refused_at_the_start(tmp_path):
    whole = {"public_url": PUBLIC, "oidc_issuer": "https://id.example", "oidc_client_id": "x", "oidc_roles": "a=viewer"}
    assert ServerSettings.read(**whole).of(OidcSettings).provider_roles == [("a", "viewer", None)]
    for changes in (
        {"public_url": ""},
        {"oidc_client_id": ""},
        {"oidc_roles": ""},
        {"oidc_roles": "a=agent"},
        {"oidc_roles": "a=administrator:trial"},
        {"oidc_roles": "viewer"},
        {"oidc_issuer": "http://id.example"},
        {"oidc_issuer": "id.example"},
        {"oidc_secret_file": str(tmp_path / "none")},
    ):
        with pytest.raises(InvalidInput):
            ServerSettings.read(**whole | changes)


def test_without_the_settings_nothing_of_it_is_there(prepared_sqlite, tmp_path):
    (tmp_path / "parley.db").write_bytes(prepared_sqlite.read_bytes())
    house = House(open_storage(str(tmp_path / "parley.db")))
    try:
        with browser(SimpleNamespace(house=house)) as pages:
            for path in ("/sign-in/oidc", "/sign-in/oidc/done?code=1&state=2"):
                assert pages.get(path).headers["location"] == "/sign-in"
            assert "Or use a token" not in pages.get("/sign-in").text
    finally:
        house.close()
        house.storage.close()
    code = "import sys, parley.service.server, parley.dashboard.pages; sys.exit('authlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
