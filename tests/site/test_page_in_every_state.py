"""The page of a site renders in every state, for every audience, in every language, whatever people type."""

from itertools import cycle

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient
from tests.agent.test_site_page import Desk
from tests.site.states import RULES, STATES, TRIED, left_over
from tests.support import first_quick

from parley.site.access import Access
from parley.site.app import create_app
from parley.text.translation import AUDIENCES, LANGUAGES
from parley.web.guard import MOST_FIELDS

OURS = {"Sec-Fetch-Site": "same-origin"}


def opened(folder, name, audience, **rules):
    """A desk in a state."""
    options = {"rules": RULES, **STATES[name].options}
    options["rules"] = replace(options["rules"], audience=audience, **rules)
    desk = Desk(folder, **options)
    STATES[name].reach(desk)
    return desk


def walked(desk, name, turns):
    """Ask for the page, or send one of its forms, in turn and language; nothing on any page is left over."""
    audience = desk.rules.audience
    for number, (act, language) in enumerate(turns, 100):
        typed = {key: value.replace("{n}", str(number)) for key, value in act.items()}
        desk.browser.headers["Accept-Language"] = language
        answer = desk.browser.post("/", data=typed) if act else desk.browser.get("/")
        assert answer.status_code in (200, 409, 422), (name, typed, answer.text)
        assert f'<html lang="{language}">' in answer.text
        assert not (found := left_over(answer.text, language, audience)), (name, audience, language, typed, found)


@pytest.mark.parametrize("place", first_quick(*range(len(AUDIENCES))), ids=AUDIENCES)
def test_each_state_has_a_page_in_every_language(tmp_path, place):
    """A third of the states for each audience; `simulations` has all of them for all."""
    for name in list(STATES)[place :: len(AUDIENCES)]:
        desk = opened(tmp_path / name.replace(":", ""), name, AUDIENCES[place])
        walked(desk, name, [({}, language) for language in LANGUAGES])
        desk.close()


# What people of a site with strata do: name one, another or none, and look at the other one's people.
OF_STRATA = (
    {},
    {"do": "assign", "participant": "Kq-{n}"},
    {"do": "assign", "participant": "Kq-{n}", "stratum": "Wxyz"},
    {"do": "assign", "participant": "Kq-{n}", "stratum": "Vwq"},
    {"do": "assign", "participant": "Kq-1", "stratum": "Vwq"},
    {"do": "outcome", "participant": "Kq-1", "reward": "1"},
    {"do": "find", "shown": "Vwq", "sought": "kq"},
    {"do": "find", "sought": "kq"},
)


def with_strata(folder, name, audience):
    """A desk in a state, of a site with another stratum where nobody came yet."""
    stratum = {"place": "Wxyz", "stratum": "Kq"}
    desk = opened(folder, name, audience, **stratum)
    other = Desk(folder, **STATES[name].options | {"rules": replace(desk.rules, stratum="Vwq")}, agent="b")
    app = create_app([desk.runtime, other.runtime], Access(host="127.0.0.1"))
    desk.browser = TestClient(app, base_url="http://127.0.0.1", headers=OURS)
    return desk, other


@pytest.mark.simulations
@pytest.mark.parametrize("place", range(len(AUDIENCES)), ids=AUDIENCES)
def test_each_state_has_a_page_with_strata_in_every_language(tmp_path, place):
    languages = cycle(LANGUAGES)
    for name in list(STATES)[(place + 1) % len(AUDIENCES) :: len(AUDIENCES)]:
        desks = with_strata(tmp_path / name.replace(":", ""), name, AUDIENCES[place])
        page = desks[0].browser.get("/").text
        assert all(f"{word}" in page for word in ("Wxyz", "Kq", "Vwq")), name
        walked(desks[0], name, [(act, next(languages)) for act in OF_STRATA])
        for desk in desks:
            desk.close()


@pytest.mark.simulations
@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("name", STATES)
def test_whatever_people_with_strata_type_in_any_state(tmp_path, name, audience):
    desks = with_strata(tmp_path, name, audience)
    walked(desks[0], name, [(act, language) for act in OF_STRATA for language in LANGUAGES])
    for desk in desks:
        desk.close()


def test_whatever_people_type_is_answered_in_their_language(tmp_path):
    desk = opened(tmp_path, "some outcomes", "trial")
    walked(desk, "some outcomes", zip(TRIED, cycle(LANGUAGES[1:]), strict=False))
    desk.close()


@pytest.mark.simulations
@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("name", STATES)
def test_whatever_people_type_in_any_state(tmp_path, name, audience):
    desk = opened(tmp_path, name, audience)
    acts = ({}, *TRIED, *STATES[name].acts)
    walked(desk, name, [(act, language) for act in acts for language in LANGUAGES])
    desk.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_who_is_not_let_in_reads_why_in_their_language(tmp_path, language):
    desk = opened(tmp_path, "nobody enrolled", "trial")
    app = create_app(desk.runtime, Access(host="127.0.0.1", code="Vwq"))
    browser = TestClient(app, base_url="http://127.0.0.1", headers={"Accept-Language": language, **OURS})
    shown = browser.get("/").text
    answers = [shown]
    for fields, status in (
        ({f"f{number}": "" for number in range(MOST_FIELDS + 1)}, 400),
        *[({"code": "Kq"}, 403)] * 10,
        ({"code": "Kq"}, 429),
    ):
        answer = browser.post("/enter", data=fields)
        assert answer.status_code == status, answer.text
        answers.append(answer.text)
    foreign = browser.post("/enter", data={}, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    misnamed = browser.get("/", headers={"Host": "Wxyz"})
    assert misnamed.status_code == 421
    for page in (*answers, foreign.text, misnamed.text):
        assert not left_over(page, language, "trial")
    desk.close()
