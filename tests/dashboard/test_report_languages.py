"""The report of a study in the reader's language, as a page and as a file, with no English left over."""

import re

import pytest
from tests.dashboard.test_languages import Marked, outside
from tests.dashboard.test_report import TRIAL, correct, short
from tests.support import first_quick

from parley.text import translation

# Names, what users wrote, keys and values of the study file, dates; commands, hashes; names of the product.
GIVEN = re.compile(
    r"Two sites|North|South|administrator:\w+|analyst:\w+|The statistician|reviewed the results|a wrong column|back|"
    r"guess|kind|gaussian|scale|unknown|evidence|tolerance|sampling\.price(_unit)?|EUR|Parley [\d.]+|missing-outcomes|"
    r"estimates\.csv|alpha|\d+ \w{3} \d{4}, [\d:]+|[0-9a-f]{12,}|^    .*$|holiday",
    re.MULTILINE,
)


def left_over(text):
    return re.findall(r"[A-Za-z]{3,}[^|\n]*", GIVEN.sub("", outside(text)))


@pytest.mark.simulations
def test_no_english_is_left_over_in_a_report_at_any_time_of_a_study(here, monkeypatch):
    monkeypatch.setattr(translation, "_words", lambda _audience, _language: translation._Words(Marked(), "en"))
    study = here.create(TRIAL, "reported")
    short(here, study, "North")
    with here.browser() as browser:
        here.phase(study)
        assert left_over(browser.get(f"/studies/{study}/report.md").text) == []
        here.run(study)
        correct(here, study, "North")
        found = browser.get(f"/studies/{study}/report.md").text
        assert left_over(found) == []
        assert left_over(f"{found}\nforgotten words") == ["forgotten words"], "the test finds it"


@pytest.mark.parametrize(
    ("language", "words"),
    first_quick(
        ("de", ("## 1. Zusammenfassung", "2 Standorte, 3 Behandlungen", "Fluss der Teilnehmenden")),
        ("fr", ("## 1. Résumé", "2 centres, 3 traitements", "Flux des participants")),
        ("es", ("## 1. Resumen", "2 centros, 3 tratamientos", "Flujo de participantes")),
    ),
)
def test_page_and_file_are_in_the_readers_language_and_in_the_words_of_the_audience(here, language, words):
    study = here.create(TRIAL, f"report-{language}")
    here.phase(study)
    with here.browser() as browser:
        page, file = (
            browser.get(f"/studies/{study}/{name}", headers={"Accept-Language": language}).text
            for name in ("report", "report.md")
        )
    assert f'<html lang="{language}">' in page
    assert all(one in file for one in words)
    assert all(one.removeprefix("## 1. ") in page for one in words)
