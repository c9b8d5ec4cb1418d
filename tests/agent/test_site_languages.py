"""The page of a site in the reader's language and the study's words: pages, errors, dates, numbers and tables."""

import re

import pytest
from msgspec.structs import replace
from tests.agent.test_site_page import GRACE, MEASURED, RULES, desk, listed  # noqa: F401

from parley.site.pages import HERE
from parley.site.tables import words_of_tables
from parley.text.translation import LANGUAGES

FRENCH, GERMAN, SPANISH = ({"Accept-Language": tag} for tag in ("fr-CH, en;q=0.5", "de", "es-MX"))


def test_the_browser_chooses_the_language_and_somebody_another_one(desk):  # noqa: F811
    open_ = desk()
    assert LANGUAGES == ("en", "de", "es", "fr")
    open_.browser.headers |= FRENCH
    page = open_.get()
    assert '<html lang="fr">' in page
    assert "Prochain participant" in page
    chosen = open_.browser.get("/?language=de", follow_redirects=False)
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/")
    assert "Nächste teilnehmende Person" in open_.get()
    open_.browser.get("/?language=xx")
    assert '<html lang="de">' in open_.get(), "what we do not speak changes nothing"


@pytest.mark.parametrize(
    ("audience", "words"),
    [
        ("bandit", ("Next draw", "Awaited rewards", "draw;reward")),
        ("trial", ("Next participant", "Awaited outcomes", "participant;outcome")),
        ("experiment", ("Next visitor", "Awaited conversions", "visitor;conversion")),
    ],
)
def test_the_page_has_the_words_of_the_study(desk, audience, words):  # noqa: F811
    open_ = desk(rules=replace(RULES, audience=audience))
    open_.site.assign("p-1")
    page = open_.get()
    assert all(word in page for word in words)
    if audience != "bandit":
        shown = re.sub(r"<[^>]*>", " ", page)
        assert not re.search(r"\b(arms?|agents?|draws?|rewards?)\b", shown, re.IGNORECASE)


def test_dates_and_numbers_are_written_as_the_language_writes_them(desk):  # noqa: F811
    open_ = desk(rules=replace(GRACE, values=(), delay=21.0), draws=(1, 1))
    open_.now = open_.now.replace(year=2026, month=3, day=1)
    open_.site.assign("p-1")
    open_.browser.headers |= GERMAN
    assert "fällig am 22. März 2026" in open_.get()
    assert "<strong>p-1</strong>: 0,25." in open_.post(do="outcome", participant="p-1", reward="0,25")
    open_.browser.headers |= SPANISH
    open_.site.assign("p-2")
    open_.site.missing("p-2")
    assert "Su informe se enviará el 2 de marzo de 2026" in open_.get()


TYPED = {
    "en": {"0,5": 0.5, "1,250": None, "1.250": 1.25},
    "de": {"1,250": 1.25, "1.250": None, "nan": None},
    "fr": {"0.5": 0.5, "\u0661": None},
    "es": {"1.5": 1.5, "1_5": None},
}


@pytest.mark.parametrize(
    ("language", "typed", "meant"),
    [(language, typed, meant) for language, rows in TYPED.items() for typed, meant in rows.items()],
)
def test_a_decimal_comma_is_one_where_the_language_writes_it_and_thousands_are_never_guessed(
    desk,  # noqa: F811
    language,
    typed,
    meant,
):
    open_ = desk(rules=replace(MEASURED, high=9.0))
    open_.site.assign("p-1")
    open_.browser.headers["Accept-Language"] = language
    open_.post(200 if meant else 422, do="outcome", participant="p-1", reward=typed)
    assert open_.site.people["p-1"].reward == meant


def test_errors_come_in_the_language_of_the_page(desk):  # noqa: F811
    open_ = desk()
    open_.site.assign("BX-1")
    open_.browser.headers |= FRENCH
    page = open_.post(422, do="outcome", participant="bx-1", reward="1")
    assert "Saisi : &#39;bx-1&#39;. Admis : un identifiant attribué ici. Vouliez-vous dire &#39;BX-1&#39; ?" in page
    assert "<title>Non enregistré" in page
    assert "Est-ce la même personne ?" in open_.post(409, do="assign", participant="bx-1")
    wrong = open_.browser.post("/", data={"do": "assign"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert "envoyé d’ailleurs, et non de cette page" in wrong.text
    open_.site.seen("paused", "un doute")
    assert "l’étude est suspendue (un doute)" in open_.post(422, do="assign", participant="p-9")
    api = open_.browser.post("/v1/assignments", json={"participant": "p-9"})
    assert api.json()["detail"].startswith("the study is paused (un doute)"), "programs read one language"


def test_a_table_may_have_the_words_of_any_of_our_pages(desk):  # noqa: F811
    open_ = desk(draws=(2, 2))
    for number in range(4):
        open_.site.assign(f"p-{number}")
    open_.browser.headers |= GERMAN
    wrong = open_.post(do="take", table="Teilnehmer;Ergebnis\np-0;vielleicht\np-7;ja\n")
    assert "Aus der Tabelle wurde nichts übernommen: 2 Zeilen sind fehlerhaft." in wrong
    assert "Eingegeben: &#39;vielleicht&#39;. Zulässig: ja (1) oder nein (0)." in wrong
    assert "eine Kennung, die hier zugeteilt wurde" in wrong
    assert "Spalte" in open_.post(422, do="take", table="a;b\n1;2\n")
    done = open_.post(do="take", table="TEILNEHMER;Ergebnis\np-0;Ja\np-1;nein\np-2;fehlend\np-3;sí\n")
    assert "3 Ergebnisse eingetragen. 1 als fehlend vermerkt." in done
    assert [open_.site.people[f"p-{number}"].reward for number in range(4)] == [1.0, 0.0, None, 1.0]
    assert words_of_tables("yes", "no")["no"] == "no", "in Spanish too"


# The page of the API is for those who write programs: it is in English, as the document that it shows.
PAGES = sorted(set((HERE / "templates").glob("*.html")) - {HERE / "templates" / "api.html"})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_word_of_a_template_is_beside_the_catalogs(path):
    text = re.sub(r"\{[{%#].*?[}%#]\}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>", "", text))
    for said in re.findall(r'(?:aria-label|title|placeholder)="([^"]*)"', text):
        assert not re.search("[A-Za-z]{2,}", said), said
