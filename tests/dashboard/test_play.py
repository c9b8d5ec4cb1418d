"""A study with a horizon, live: what is played where, what it has cost, what it will, and a log that replays."""

import re

import pytest
from tests.dashboard.site import TWO
from tests.dashboard.test_prices import forecast_of

PLAYED = TWO.replace('name = "Two sites"', 'name = "Two sites play"\nhorizon = 3000')


@pytest.mark.simulations
def test_a_study_is_played_to_its_horizon_and_the_page_says_how(here):
    study = here.create(PLAYED, "play")
    first = here.call("GET", f"studies/{study}/board")["standing"]
    assert first["horizon"] == 3000
    assert first["left"] == [3000, 3000]
    assert first["regret"] is None
    here.phase(study)
    board = here.call("GET", f"studies/{study}/board")
    play = board["standing"]
    assert play["leaders"] == ["a", "b"] or play["leaders"] == ["a", "a"]
    assert play["left"] == [3000 - drawn for drawn in board["drawn"]]
    assert play["regret"]["low"] <= play["regret"]["estimate"] == pytest.approx(sum(play["agents"]))
    assert play["regret"]["estimate"] > 0
    assert all(explored <= planned for explored, planned in zip(play["exploring"], board["planned"], strict=True))
    assert forecast_of(here, study)["regret_left"]["p90"] > 0
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}").text
    assert "<dt>Regret so far</dt>" in page
    assert "<dt>Regret still to come</dt>" in page
    assert "What is being played" in page
    for _ in range(30):
        if here.call("GET", f"studies/{study}")["stage"] != "running":
            break
        here.phase(study)
    status = here.call("GET", f"studies/{study}")
    assert status["stage"] == "finished"
    assert here.call("GET", f"studies/{study}/board")["drawn"] == [3000, 3000], "to the draw"
    assert here.call("POST", f"studies/{study}/verify")["sound"] is True
    with here.browser() as browser:
        assert "its answer" in browser.get(f"/studies/{study}").text


def test_who_is_blinded_sees_how_long_and_not_what(here):
    study = here.create(PLAYED, "blind")
    here.phase(study)
    viewer = here.issue("viewer", study=study)
    play = here.call("GET", f"studies/{study}/board", token=viewer)["standing"]
    assert play["left"] is not None
    assert play["leaders"] is play["regret"] is play["exploring"] is play["agents"] is None


def test_a_study_without_a_horizon_has_no_play(here):
    study = here.create(TWO, "identify")
    here.phase(study)
    assert here.call("GET", f"studies/{study}/board")["standing"] is None
    with here.browser() as browser:
        assert "Regret so far" not in browser.get(f"/studies/{study}").text


@pytest.mark.parametrize(("horizon", "told"), [("3000", "Regret, median"), ('"open"', "when an administrator ends it")])
def test_a_study_that_plays_can_be_estimated_and_launched_from_the_page(here, horizon, told):
    text = PLAYED.replace("3000", horizon)
    with here.browser() as browser:
        page = browser.post("/new", data={"study": text, "id": "", "do": "estimate"})
        assert page.status_code == 200
        assert told in page.text
        assert "Launch the study" in page.text
        assert "expected regret of wrong answers is bounded" in page.text
        assert "Chance of any error" not in page.text


def test_what_is_left_until_the_horizon_and_what_is_spent_add_up(here):
    study = here.create(PLAYED, "adds-up")
    here.phase(study)
    here.phase(study, but=("South",))  # a report of the phase in progress is spent already
    for token in (here.token, here.issue("viewer", study=study)):
        with here.browser(token) as browser:
            page = browser.get(f"/studies/{study}").text
        spent, left = (
            int(re.search(rf"<dt>{words}</dt><dd>([\d,]+)<", page)[1].replace(",", ""))
            for words in ("Samples spent", "Expected remaining samples")
        )
        assert spent + left == 2 * 3000


@pytest.mark.simulations
def test_nobody_forecasts_the_end_of_an_open_study(here):
    study = here.create(PLAYED.replace("3000", '"open"'), "open-end")
    here.phase(study)
    forecast_of(here, study)
    with here.browser() as browser:
        page, samples = (browser.get(f"/studies/{study}{path}").text for path in ("", "/samples"))
    assert "until an administrator ends the study" in page
    assert "Draws until the horizon grows" in page
    assert "Regret still to come" not in page
    assert "in all" not in page
    assert "Likely" not in samples
