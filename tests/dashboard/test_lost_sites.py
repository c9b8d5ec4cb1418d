"""A site is lost: the administration page shows both ways to go on first, and does what was confirmed."""

import re

import numpy as np
import pytest

FOUR = """
name = "Four sites"
arms = ["a", "b", "c"]
agents = ["North", "South", "East", "West"]

[weights]
kind = "matrix"
matrix = [[0.7, 0.2, 0.0, 0.1], [0.2, 0.7, 0.0, 0.1], [0.0, 0.0, 1.0, 0.0], [0.1, 0.1, 0.0, 0.8]]
"""
MEANS = np.array([[0.9, 0.2, 0.1, 0.9], [0.1, 0.9, 0.2, 0.1], [0.4, 0.1, 0.9, 0.4]])


def digest(page):
    return re.search(r'name="preview" value="([0-9a-f]{64})"', page.text)[1]


def prepared(either, name):
    study = either.create(FOUR, name)
    either.phase(study, MEANS)
    return study, f"/studies/{study}"


def confirm(browser, base, page, act, **fields):
    data = {"reason": "site closed", "preview": digest(page), **fields}
    return browser.post(f"{base}/{act}", data=data)


@pytest.mark.simulations
def test_a_freeze_shows_both_ways_and_keeps_the_question(either):
    study, base = prepared(either, "kept")
    with either.browser() as browser:
        page = browser.get(f"{base}/administration?freeze=West")
        for words in (
            "Keep the question",
            "Freeze West and re-weigh",
            "North 0.778",
            "Would not get an answer",
            "Still to draw",
        ):
            assert words in page.text, words
        done = confirm(browser, base, page, "freeze", agent="West")
        assert "West</strong>, frozen in phase 2" in done.text
        assert "Thaw it?" in done.text
        assert either.call("GET", f"studies/{study}")["reweighed"] is None
        either.run(study, MEANS)
        assert either.call("GET", f"studies/{study}")["stage"] == "stalled"
        assert "re-weigh the others or thaw a site" in browser.get(base).text
        answer = browser.get(f"{base}/answer").text
        assert "Answers and remaining candidates" in answer
        page = browser.get(f"{base}/administration?reweigh=1")
        assert "West" in page.text
        assert "The next phase is planned at once" in page.text or "the study ends at once" in page.text
        confirm(browser, base, page, "reweigh", columns="")
        either.run(study, MEANS)
        assert either.call("GET", f"studies/{study}")["end"] == "decided"
        page = browser.get(f"{base}/answer").text
        assert "West left" in page
        assert "Every agent that stayed" in browser.get(base).text
        assert "question changed in phase" in browser.get(f"{base}/audit").text
        assert "left: the others were re-weighed without it" in browser.get(f"{base}/report").text


def test_freeze_and_re_weigh_in_one_go(either):
    study, base = prepared(either, "both")
    with either.browser() as browser:
        page = browser.get(f"{base}/administration?freeze=West")
        wrong = confirm(browser, base, page, "freeze", agent="West", reweigh="yes", preview="0" * 64)
        assert wrong.status_code == 409
        assert either.call("GET", f"studies/{study}")["frozen"] == []
        confirm(browser, base, page, "freeze", agent="West", reweigh="yes")
        status = either.call("GET", f"studies/{study}")
        assert status["reweighed"]["left"] == ["West"]
        assert "Re-weighed in phase 2" in browser.get(base).text


@pytest.mark.servers
def test_weights_may_be_given_and_a_thaw_is_shown_first(either):
    study, base = prepared(either, "given")
    with either.browser() as browser:
        page = browser.get(f"{base}/administration?freeze=East")
        confirm(browser, base, page, "freeze", agent="East")
        page = browser.get(f"{base}/administration?reweigh=1")
        assert "Other weights" in page.text
        for text, words in (("no numbers", "is not a name"), ("North: 1, 0", "4 numbers"), ("No: 1, 0, 0, 0", "No")):
            shown = browser.post(f"{base}/reweigh", data={"columns": text})
            assert words in shown.text
            assert 'class="note bad"' in shown.text
            assert f">{text}</textarea>" in shown.text
        given = "East: 0.5, 0.5, 0, 0"
        shown = browser.post(f"{base}/reweigh", data={"columns": given})
        assert "North 0.500, South 0.500" in shown.text
        confirm(browser, base, shown, "reweigh", columns=given)
        assert either.call("GET", f"studies/{study}")["reweighed"]["left"] == []
        assert either.call("GET", f"studies/{study}/document")["weights"][0] == [0.7, 0.2, 0.5, 0.1]
        page = browser.get(f"{base}/administration?thaw=East")
        assert "If East is thawed" in page.text
        assert confirm(browser, base, page, "thaw", agent="East").status_code == 200
        assert either.call("GET", f"studies/{study}")["frozen"] == []
        page = browser.get(f"{base}/administration?thaw=East")
        assert 'class="note bad"' in page.text, "who is not frozen is not thawed"


def test_what_was_not_frozen_cannot_be_re_weighed(either):
    study, base = prepared(either, "early")
    with either.browser() as browser:
        page = browser.get(f"{base}/administration?reweigh=1")
        assert "nothing would change" in page.text
        assert either.call("GET", f"studies/{study}")["reweighed"] is None


def test_only_administrators(either):
    _, base = prepared(either, "others")
    with either.browser(either.issue("auditor", "a")) as browser:
        for act in ("freeze", "reweigh", "thaw"):
            data = {"agent": "West", "reason": "x", "preview": "0" * 64}
            assert browser.post(f"{base}/{act}", data=data).status_code == 403
