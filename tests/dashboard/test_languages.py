"""Pages in the reader's language: chosen or asked for by the browser, and with no English left over."""

import re
from gettext import NullTranslations

import pytest
from tests.dashboard.site import TWO
from tests.dashboard.test_audiences import Spoken

from parley.dashboard.render import SPOKEN
from parley.dashboard.session import LANGUAGE_NAMES
from parley.text import translation
from parley.text.translation import LANGUAGES, reading

PAGES = {"sign_in.html": ("/sign-in",), "studies.html": ("/", "/?search=nothing+like+it")}
# Names, and what other languages have from Babel: times, and how long ago something was.
GIVEN = re.compile(
    r"\d+ \w+ \d{4}, \d\d:\d\d UTC|\d+ (second|minute|hour|day)s? ago|Two sites|two|office|Parley|Webhooks|·|_"
)


class Marked(NullTranslations):
    """A language in which every message is its English in brackets."""

    def gettext(self, message):
        return f"⟦{message}⟧"

    def ngettext(self, one, many, count):
        return f"⟦{one if count == 1 else many}⟧"


@pytest.fixture
def marked(monkeypatch):
    monkeypatch.setattr(translation, "_words", lambda _audience, _language: translation._Words(Marked(), "en"))


def left_over(page):
    """What a page says that is in no message."""
    said = " | ".join(Spoken(page.partition('<nav class="languages"')[0]).said)
    while re.search(r"⟦[^⟦⟧]*⟧", said):
        said = re.sub(r"⟦[^⟦⟧]*⟧", "", said)
    return re.findall(r"[A-Za-z]{2,}", GIVEN.sub("", said))


@pytest.mark.usefixtures("marked")
def test_no_english_is_left_over(here):
    assert {*PAGES, "report.html"} == set(SPOKEN), "a page that is in every language is tried here"
    with here.browser(False) as browser:
        assert left_over(browser.get("/sign-in").text) == []
        assert left_over(browser.post("/sign-in", data={"token": "nobody"}).text) == []
    with here.browser() as browser:
        assert left_over(browser.get("/").text) == []
        here.create(TWO, "two")
        for path in ("/", "/?search=nothing+like+it"):
            assert left_over(browser.get(path).text) == [], path
        assert left_over(browser.get("/tokens").text), "the test finds what is not translated"


@pytest.mark.parametrize(("language", "word"), [("de", "Studien"), ("fr", "Études"), ("es", "Estudios")])
def test_the_browser_asks_for_a_language_and_the_reader_may_choose_another(here, language, word):
    with here.browser() as browser:
        page = browser.get("/", headers={"Accept-Language": f"{language}-XX, en;q=0.5"}).text
        assert f'<html lang="{language}">' in page
        assert f"<h1>{word}</h1>" in page
        assert "<h1>Studies</h1>" in browser.get("/").text
        assert f"<h1>{word}</h1>" in browser.get(f"/?language={language}").text
        assert f"<h1>{word}</h1>" in browser.get("/").text  # kept
        assert "<h1>Studies</h1>" in browser.get("/?language=en").text
        assert "<h1>Studies</h1>" in browser.get("/?language=xx").text


def test_a_page_that_is_not_translated_is_english_as_a_whole(here):
    with here.browser() as browser:
        page = browser.get("/tokens", headers={"Accept-Language": "de"}).text
    assert '<html lang="en">' in page
    assert ">Studies</a>" in page


def test_numbers_and_times_are_written_as_the_language_does():
    from parley.dashboard.render import ago, clock
    from parley.text.formatting import number

    assert set(LANGUAGE_NAMES) == set(LANGUAGES)
    with reading("bandit", "de"):
        assert number(1234567) == "1.234.567"
        assert clock("2026-01-03T08:09:10.123Z") == "3 Januar 2026, 08:09 UTC"
        assert ago("2020-01-03T08:09:10.123Z").startswith("vor ")
