"""A report of a decided phase is corrected on the page: shown first, kept beside, told with the answer."""

import json
import re

import numpy as np
from tests.dashboard.test_lost_sites import digest

THREE = """
name = "Three arms"
arms = ["a", "b", "c: d"]
agents = ["North", "South"]

[weights]
kind = "personalized"
alpha = 0.5
"""
MEANS = np.array([[1.2, 1.2], [0.3, 0.3], [0.1, 0.1]])


def lines(page):
    text = re.search(r'<textarea id="numbers"[^>]*>(.*?)</textarea>', page.text, re.S)[1]
    return dict(line.rsplit(": ", 1) for line in text.strip().splitlines())


def send(browser, base, numbers, **fields):
    text = numbers if isinstance(numbers, str) else "\n".join(f"{arm}: {cells}" for arm, cells in numbers.items())
    data = {"correct": "North", "phase": "1", "numbers": text, **fields}
    return browser.post(f"{base}/correct", data=data)


def test_a_report_is_corrected_once_it_was_seen_what_that_tells(either):
    study = either.create(THREE, "corrected")
    base = f"/studies/{study}"
    with either.browser() as browser:
        page = browser.get(f"{base}/administration")
        assert "No phase is decided yet" in page.text
        either.phase(study, MEANS)
        page = browser.get(f"{base}/administration?correct=North&phase=1")
        now = lines(page)
        assert list(now) == ["a", "b", "c: d"]
        assert "nothing to correct" in send(browser, base, now).text
        count, total, squares = map(float, now["b"].split(","))
        mended = now | {"b": f"{count:g}, {total + count}, {squares + 2 * total + count}"}
        seen = send(browser, base, mended)
        for words in ("If the report of North in phase 1 is corrected", "no answer would change", "Change nothing"):
            assert words in seen.text, words
        assert either.call("GET", f"studies/{study}/corrections")["corrections"] == []
        stale = send(browser, base, mended, preview="0" * 64, reason="why")
        assert stale.status_code == 409
        assert "If the report of North" in stale.text, "what it would tell now is shown again"
        done = send(browser, base, mended, preview=digest(seen), reason="the <wrong> column")
        assert done.status_code == 200
        [entry] = either.call("GET", f"studies/{study}/corrections")["corrections"]
        assert (entry["agent"], entry["reason"]) == ("North", "the <wrong> column")
        answer = browser.get(f"{base}/answer").text
        for words in ("Corrections after the decision", "the &lt;wrong&gt; column", "Would the answer change?"):
            assert words in answer, words
        again = lines(browser.get(f"{base}/administration?correct=North&phase=1"))
        assert again["b"].split(", ")[1] == repr(total + count), "the last correction is what is corrected next"
        either.run(study, MEANS)
        for path in ("answer", "report"):
            assert "Corrections after the decision" in browser.get(f"{base}/{path}").text
        assert "report-corrected" in browser.get(f"{base}/audit").text
        assert "1 report was corrected" in browser.get(f"{base}/answer").text
    with either.browser(either.issue("viewer")) as browser:
        assert "the &lt;wrong&gt; column" not in browser.get(f"{base}/answer").text
        assert browser.post(f"{base}/correct", data={}).status_code in (403, 404)


def test_what_was_typed_wrongly_is_said_and_kept(either):
    study = either.create(THREE, "typed")
    base = f"/studies/{study}"
    either.phase(study, MEANS)
    with either.browser() as browser:
        for text, words in (
            ("b: many", "is not a name with its numbers"),
            ("z: 1, 2, 3", "is not an arm of the study"),
            ("b: 1", "is not an arm of the study, followed by its count"),
            ("b: 3, 2, 2", "counts: found"),
            ("{", "no valid JSON"),
            ('{"schema": "parley/report/1"}', "missing"),
        ):
            wrong = send(browser, base, text)
            assert 'class="note bad"' in wrong.text, text
            assert words in wrong.text, (text, words)
            assert text.split("<")[0].replace('"', "&#34;") in wrong.text, "what was typed stays in the form"
        for odd in ("correct=Nobody&phase=1", "correct=North&phase=9", "correct=North&phase=x", "correct=North"):
            assert 'class="note bad"' in browser.get(f"{base}/administration?{odd}").text, odd
        whole = either.call("GET", f"studies/{study}/phases/1/reports/North")["report"]
        whole["sums"][0] += 1.0
        assert "If the report of North" in send(browser, base, json.dumps(whole)).text
