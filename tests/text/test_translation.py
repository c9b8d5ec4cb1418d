"""Messages in the words of the reader: every catalog is complete and says the same as the code, value by value."""

import json
import pickle
import re

import pytest
from tools import catalogs

from parley.policies import make_policy
from parley.policies.base import CLAIM, RIGHT_WITHIN
from parley.problem import Problem
from parley.protocol.certificate import REMAIN, SHARE, SHARE_AND, WITHDRAWN
from parley.settings import SETTINGS
from parley.study import parse_study
from parley.text import translation
from parley.text.translation import (
    AUDIENCES,
    Translatable,
    gettext,
    joined,
    language_of,
    messages_of,
    ngettext,
    numeral,
    reading,
    translated,
)

NAMES = catalogs.names()
EVERY = [(owner, name) for owner, folder in catalogs.folders().items() for name in catalogs.names(folder)]
PAGES = catalogs.SRC / "dashboard" / "templates"
OF_NO_STUDY = ("estimate", "new_step", "new_study", "server_log", "sign_in", "studies", "tokens")


@pytest.mark.parametrize(("owner", "name"), EVERY)
def test_a_catalog_is_complete_and_keeps_every_value(owner, name):
    catalog = catalogs.catalog(name, catalogs.folders()[owner])
    assert not catalog.obsolete
    for message in filter(lambda one: one.id, catalog):
        assert not message.fuzzy, message.id
        assert all(catalogs.strings(message)), f"{owner} catalogs/{name}.po: write the msgstr of {message.id!r}"
        values = set(catalogs.VALUE.findall("".join(catalogs.forms(message))))
        for text in catalogs.strings(message):
            assert set(catalogs.VALUE.findall(text)) <= values, message.id
            assert set(catalogs.VALUE.findall(text)) >= values - {("num", "")}, message.id
            assert "{" in text or "%" not in catalogs.VALUE.sub("", text).replace("%%", ""), (
                f"%% is a per cent sign: {text}"
            )
            assert re.findall(r"<[^>]+>", text) == re.findall(r"<[^>]+>", catalogs.forms(message)[0]), message.id
        assert not message.pluralizable or catalog.num_plurals == len(catalogs.strings(message))


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, name in EVERY if name in AUDIENCES])
def test_an_audience_never_reads_a_researchers_word(owner, name):
    catalog = catalogs.catalog(name, catalogs.folders()[owner])
    said = {text for message in catalog if message.id for text in catalogs.strings(message)}
    assert not [text for text in said if catalogs.not_said(name, text)]


STUDY_PAGES = [path for path in sorted(PAGES.glob("*.html")) if path.stem not in OF_NO_STUDY]


@pytest.mark.parametrize("path", STUDY_PAGES, ids=lambda path: path.stem)
def test_a_template_of_a_study_has_every_word_that_audiences_do_not_share_in_a_message(path):
    text = path.read_text(encoding="utf-8")
    plain = re.sub(r"{% *trans.*?endtrans *%}|{{.*?}}|{%.*?%}|{#.*?#}", "", text, flags=re.DOTALL)
    fields = r'\b(?!aria-label=|title=|placeholder=|data-label=)[\w-]+="[^"]*"|agent:'
    found = [line for line in re.sub(fields, "", plain).splitlines() if catalogs.not_said("experiment", line)]
    assert found == [], "mark it: {{ _(...) }} or {% trans %}"


@pytest.mark.parametrize(
    ("audience", "language", "words"),
    [
        ("trial", "en", " participants with an outcome, whatever the truth"),
        ("experiment", "en", " visitors with an outcome, whatever the truth"),
        ("trial", "de", " Teilnehmende mit einem Ergebnis, was auch immer wahr ist"),
        ("trial", "fr", " participants avec un résultat, quelle que soit la vérité"),
        ("experiment", "es", " visitantes con resultado, sea cual sea la verdad"),
    ],
)
def test_a_largest_size_is_told_of_people_with_an_outcome(audience, language, words):
    """Missing ones that are replaced come on top."""
    for size in (2000, None):
        policy = make_policy("evidence", Problem(arms=3, weights=[[1.0]], tolerance=0.1, max_samples=size))
        with reading(audience, language):
            assert words in translated(policy.extent)


def test_every_audience_but_the_researchers_has_a_catalog():
    assert {*NAMES} & {*AUDIENCES} == {*AUDIENCES} - {SETTINGS["audience"].default_value}
    for audience in AUDIENCES:
        assert parse_study({"arms": 2, "agents": 2, "audience": audience}).problem.audience == audience


@pytest.fixture
def french(tmp_path, monkeypatch):
    """Small catalogs of our own: one language, one audience, and both."""
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\nLanguage: %s\\n"\n'
    rows = {
        "fr_trial": 'msgid "arm"\nmsgstr "traitement"\n',
        "fr": 'msgid "arm"\nmsgstr "bras"\n\nmsgid "Save"\nmsgstr "Enregistrer"\n\n'
        'msgid "%(num)s day"\nmsgid_plural "%(num)s days"\nmsgstr[0] "%(num)s jour"\nmsgstr[1] "%(num)s jours"\n',
        "trial": 'msgid "arm"\nmsgstr "treatment"\n\nmsgid "agent"\nmsgstr "site"\n\n'
        'msgid "{share:g} % of {agent!r}’s draws of {arm}"\n'
        'msgstr "{share:g} % of participants on {arm} at {agent!r}"\n\n'
        'msgid "if rewards stay as they are"\nmsgstr "if outcomes stay as they are"\n',
    }
    for name, text in rows.items():
        (tmp_path / f"{name}.po").write_text(head % name[:2].replace("tr", "en") + "\n" + text, encoding="utf-8")
    monkeypatch.setattr(translation, "folders", lambda: [tmp_path])
    monkeypatch.setattr(translation, "LANGUAGES", ("en", "fr"))
    translation._words.cache_clear()
    yield
    translation._words.cache_clear()


@pytest.mark.usefixtures("french")
def test_a_message_is_looked_up_by_language_and_audience_then_language_then_audience_then_it_stays():
    with reading("trial", "fr"):
        said = [gettext(message) for message in ("arm", "Save", "agent", "phase")]
        assert said == ["traitement", "Enregistrer", "site", "phase"]
        assert [ngettext("%(num)s day", "%(num)s days", count) for count in (0, 1, 2)] == [
            "0 jour",
            "1 jour",
            "2 jours",
        ]
    with reading("bandit", "fr"):
        assert [gettext(message) for message in ("arm", "agent")] == ["bras", "agent"]
    with reading("trial"):
        assert [gettext(message) for message in ("arm", "Save")] == ["treatment", "Save"]
    assert gettext("arm") == "arm"


@pytest.mark.usefixtures("french")
def test_what_was_made_before_its_reader_was_known_carries_its_message_and_its_values():
    named = "%s {0} (100 %)"  # a user's: nothing in it is a value
    made = Translatable("{share:g} % of {agent!r}’s draws of {arm}", share=5.0, agent="Lyon", arm=named)
    whole = joined(": ", ["likely", made]) + Translatable(", if {0}", Translatable("if rewards stay as they are"))
    assert whole == f"likely: 5 % of 'Lyon'’s draws of {named}, if if rewards stay as they are"
    stored = json.loads(json.dumps({"text": whole, "messages": messages_of([whole, "arm"])}))
    with reading("trial"):
        said = f"likely: 5 % of participants on {named} at 'Lyon', if if outcomes stay as they are"
        assert translated(whole) == translated(pickle.loads(pickle.dumps(whole))) == said
        assert translated(stored["text"], stored["messages"]) == said
        assert translated("arm") == translated("arm", stored["messages"]) == "arm"  # this may be somebody's name
        assert translated(str(whole)) == whole  # its English text alone is nothing to translate
    assert translated(whole) == whole
    assert whole.contains("if rewards stay as they are")
    assert not whole.contains("arm")


def test_what_is_missing_is_translated_with_the_certificate_that_stores_it():
    shares = Translatable(
        SHARE_AND, numeral(12.5, ".3g"), "A, twice daily", Translatable(SHARE, numeral(3, ".3g"), "B")
    )
    right = Translatable(RIGHT_WITHIN, numeral(0.05, "g"))
    told = Translatable(WITHDRAWN, shares, 12.0, Translatable(CLAIM, right, 0.95))
    assert "because 12.5 % of A, twice daily, 3 % of B are missing" in told
    stored = json.loads(json.dumps(told.to_json()))
    with reading("trial", "de"):
        assert translated(Translatable.from_json(stored)) == (
            "entfallen, da 12,5 % von A, twice daily, 3 % von B in den Berichten fehlen und die Studie 12 % einer "
            "Behandlung zulässt; wären sie da gewesen: alle Antworten richtig innerhalb von 0,05 mit "
            "Wahrscheinlichkeit mindestens 0,95"
        )
        assert translated(Translatable("{0}: {1:,}", "right", 1234.5)) == "right: 1.234,5"  # a name, and a number
    assert translated(told) == told


def test_no_english_is_read_back():
    """Text that reads like a message is somebody's own, unless its message and values are stored beside it."""
    assert not {"phrase", "phrases"} & vars(translation).keys()
    assert [name for name, one in vars(translation).items() if isinstance(one, re.Pattern)] == []
    own = (
        "right",
        "the guardrail bleeding raised an alarm, in the mix of Lyon",
        "; left without an answer: Lyon (the others were re-weighed)",
        "the expected regret of wrong answers is bounded, whatever the gaps are",
    )
    with reading("trial", "de"):
        for text in own:
            assert translated(text) == text
            assert translated(text, messages_of([text])) == text
            assert (
                translated(Translatable(CLAIM, text, 0.9))
                == f"alle Antworten {text} mit Wahrscheinlichkeit mindestens 0,9"
            )
            assert translated(Translatable(REMAIN, text, text, text)).count(text) == 3


@pytest.mark.usefixtures("french")
@pytest.mark.parametrize(
    ("accepted", "language"),
    [("fr", "fr"), ("fr-CA,en;q=0.8", "fr"), ("en, fr;q=0.9", "en"), ("pt, fr;q=0.3, en;q=0.2", "fr"), ("fr;q=0", "en"),
     ("", "en"), ("*", "en"), (";q=,,;q=x", "en"), ("fr;q=nan", "en"), ("f" * 9999, "en")],
)  # fmt: skip
def test_the_browser_chooses_among_our_languages(accepted, language):
    assert language_of(accepted) == language
