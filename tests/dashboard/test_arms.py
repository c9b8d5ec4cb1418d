"""Open or withdraw an arm: the administration page shows what follows first, and does what was confirmed."""

import re

import numpy as np
import pytest
from tests.dashboard.test_lost_sites import confirm

LATE = """
name = "A late arm"
arms = ["a", "b", "c", "d"]
agents = ["North", "South", "East"]
dormant = ["d"]

[weights]
kind = "personalized"
alpha = 0.5
"""
TYPED = "the guardrail bleeding raised an alarm, in the mix of Lyon"
MEANS = np.array([[0.7] * 3, [0.3] * 3, [0.1] * 3, [1.2] * 3])


def test_an_arm_is_opened_and_another_withdrawn_once_the_consequences_were_seen(either):
    study = either.create(LATE, "late")
    base = f"/studies/{study}"
    either.phase(study, MEANS)
    with either.browser() as browser:
        explained = either.call("GET", f"studies/{study}/history")["phases"][0]["explanation"]
        assert explained["mixed_means"][3] == [None] * 3, "nobody drew it"
        assert "closed: not opened yet, or withdrawn" in browser.get(base).text
        page = browser.get(f"{base}/administration")
        assert "<strong>d</strong> is closed." in page.text
        assert "administration?open-arm=d" in page.text
        page = browser.get(f"{base}/administration?open-arm=d")
        for words in (
            "If d is opened",
            "D is a candidate for every agent",
            "if the reason for opening d has nothing to do with",
        ):
            assert words in page.text, words
        wrong = confirm(browser, base, page, "open-arm", arm="d", preview="0" * 64)
        assert wrong.status_code == 409
        assert "If d is opened" in wrong.text, "what it would do now is shown again"
        assert either.call("GET", f"studies/{study}")["changed_arms"] == []
        done = confirm(browser, base, page, "open-arm", arm="d")
        assert "d was opened in phase 2:" in done.text
        page = browser.get(f"{base}/administration?withdraw-arm=b")
        for words in (
            "If b is withdrawn",
            "a, c, d",
            "no longer count as evidence against other arms",
            "its share of what is reserved",
        ):
            assert words in page.text, words
        done = confirm(browser, base, page, "withdraw-arm", arm="b", reason=TYPED)
        assert "<strong>b</strong>, withdrawn in phase 2" in done.text
        for path in ("", "/administration", "/report", "/audit"):
            german = browser.get(f"{base}{path}", headers={"Accept-Language": "de"}).text
            assert '<html lang="de"' in german
            assert TYPED in german, f"{path}: a person's own words, whatever they look like"
        for odd in ("withdraw-arm=b", "open-arm=d", "open-arm=%3Cb%3E"):
            assert 'class="note bad"' in browser.get(f"{base}/administration?{odd}").text
        assert "closed" in browser.get(base).text
        either.run(study, MEANS)
        status = either.call("GET", f"studies/{study}")
        assert (status["stage"], status["closed_arms"]) == ("finished", ["b"])
        report = browser.get(f"{base}/report").text
        assert re.search(r"<td>arm opened</td><td>[^<]+</td><td>d, in phase", report)
        assert re.search(r"<td>arm withdrawn</td><td>[^<]+</td><td>b, in phase", report)
        for path in ("answer", "audit", "administration"):
            assert browser.get(f"{base}/{path}").status_code == 200
        assert "its arms can no longer change" in browser.get(f"{base}/administration").text


@pytest.mark.simulations
def test_a_size_that_changed_with_the_question_is_told_as_that_of_the_new_one(either):
    text = LATE.replace('dormant = ["d"]', "tolerance = 0.4") + "[noise]\nscale = 1.0\n"
    study = either.create(text, "sized")
    before = either.call("GET", f"studies/{study}")["extent"]
    either.phase(study, MEANS)
    with either.browser() as browser:
        page = browser.get(f"/studies/{study}/administration?withdraw-arm=d")
        confirm(browser, f"/studies/{study}", page, "withdraw-arm", arm="d")
        either.run(study, MEANS)
        pages = {path: browser.get(f"/studies/{study}{path}").text for path in ("", "/answer", "/report.md")}
    anew, size = "; these numbers are for the changed question", either.call("GET", f"studies/{study}/certificate")
    assert "unless the question changes (other arms or weights)" in before
    assert anew not in before
    assert f"ever more than {size['largest_size']:,} samples" not in before
    for path, page in pages.items():
        assert anew in page, path
    assert f"at most {size['largest_size']:,} samples{anew}</dd>" in pages["/answer"]
    assert f"| largest size | {size['largest_size']:,}{anew} |" in pages["/report.md"]


def test_only_administrators(either):
    base = f"/studies/{either.create(LATE, 'others')}"
    with either.browser(either.issue("auditor", "a")) as browser:
        data = {"arm": "d", "reason": "x", "preview": "0" * 64}
        assert browser.post(f"{base}/open-arm", data=data).status_code == 403
