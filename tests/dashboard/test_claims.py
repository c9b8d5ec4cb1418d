"""Pages claim what is proven and no more: of arms that were let go, of play, of studies that may end early."""

import re

import numpy as np
import pytest
from tests.dashboard.site import TWO
from tests.dashboard.test_prices import forecast_of

TIED = np.array([[0.5, 0.5], [0.49, 0.51], [-3.0, -3.0]])
TOLERANT = TWO.replace('name = "Two sites"', 'name = "A tie"\ntolerance = 0.4')


def played(here, text, study, means):
    here.create(text, study)
    for _ in range(40):
        if here.call("GET", f"studies/{study}")["stage"] != "running":
            return here.call("GET", f"studies/{study}/certificate")
        here.phase(study, means)
    raise AssertionError("it does not end")


def rows_of(page, title="Worse by at least"):
    """Arm, decision and bound of every line of the tables with that heading."""
    for table in re.findall(rf"<table(?:(?!</table>).)*{title}.*?</table>", page, flags=re.DOTALL):
        for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", table, flags=re.DOTALL):
            cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL)
            arm, decision, _, bound = (re.sub(r"<[^>]*>", "", cell).strip() for cell in cells[:4])
            yield arm, decision, bound


@pytest.fixture(scope="module")
def tie(here):
    return played(here, TOLERANT, "tie", TIED)


def test_an_arm_that_was_let_go_is_not_called_worse(here, tie):
    assert set(tie["ends"].values()) == {"accepted"}
    with here.browser() as browser:
        for path in ("answer", "report"):
            page = browser.get(f"/studies/tie/{path}").text
            told = list(rows_of(page))
            assert len(told) == 6
            assert sum("let go in phase" in decision for _, decision, _ in told) == 2
            for arm, decision, bound in told:
                assert (bound == "–") == ("out in phase" not in decision), (arm, decision, bound)
                assert arm != "c" or "out in phase" in decision
            assert "this arm may be as good" in page
            assert "bars are" not in page
        assert "let go in" in browser.get("/studies/tie/evidence").text
        lines = browser.get("/studies/tie/answer.csv").text.splitlines()
    assert len(lines) == 7
    assert "let_go" not in lines[0]


def test_of_exact_studies_every_arm_that_is_out_is_worse(here):
    played(here, TWO, "exact", np.array([[0.9, 0.2], [0.1, 0.8], [0.4, 0.1]]))
    with here.browser() as browser:
        page = browser.get("/studies/exact/answer").text
        assert "let go" not in page + browser.get("/studies/exact/evidence").text
    assert "Error probability" in page
    assert all((bound == "–") == ("chosen" in decision) for _, decision, bound in rows_of(page))


def test_the_answer_of_play_promises_regret_and_no_error_probability(here):
    played(here, TWO.replace('name = "Two sites"', 'name = "Play"\nhorizon = 3000'), "played", TIED)
    with here.browser() as browser:
        for path in ("answer", "report"):
            page = browser.get(f"/studies/played/{path}").text
            assert "rror probability" not in page
            assert "above 0" not in page
            assert "xpected regret of wrong answers is bounded" in page


@pytest.mark.parametrize("term", ["tolerance = 0.4", "max_rounds = 3", "max_samples = 9000", "horizon = 3000", ""])
def test_lower_bounds_stand_only_where_they_are_about_the_question(here, term):
    study = f"bound-{term.split(' ')[0] or 'none'}".replace("_", "-")
    here.create(TWO.replace('name = "Two sites"', f'name = "Bounds"\n{term}'), study)
    here.phase(study, np.array([[0.5, 0.4], [0.3, 0.4], [0.1, 0.1]]))
    forecast = forecast_of(here, study)
    with here.browser() as browser:
        page = browser.get(f"/studies/{study}/samples").text
    assert (forecast.get("bound") is not None) == (term == "")
    assert ("ower bound" in re.sub(r'aria-label="[^"]*"', "", page)) == (term == "")
