"""The two pages to decide by, in the reader's language and with no English left over; the appendix is English."""

import re

import pytest
from tests.dashboard.test_languages import Marked, outside

from parley.edges.dossier import page
from parley.edges.dossier.dossier import make_dossier
from parley.experiments.forecasts.planning import Planner
from parley.study import parse_study
from parley.text import translation
from parley.text.translation import LANGUAGES, reading

GUARDRAIL = {"kind": "binary", "role": "guardrail", "better": "lower", "delta": 0.05}
STUDIES = {
    "small": {"arms": ["Aa", "Bb"], "agents": ["Xx"], "tolerance": 0.3},
    "large": {
        "arms": ["Aa", "Bb", "Cc"],
        "agents": ["Xx", "Yy"],
        "control": "Aa",
        "audience": "trial",
        "tolerance": 0.2,
        "max_samples": 600,
        "noise": {"kind": "binary", "rate": 0.4, "inference": "normal"},
        "weights": {"kind": "personalized", "alpha": 0.5},
        "sampling": {"rate": 4},
        "outcomes": [
            GUARDRAIL | {"name": "Bl", "margin": 0.1},
            GUARDRAIL | {"name": "De", "limit": 0.2, "on_alarm": "propose"},
            {"name": "Pa", "kind": "binary", "role": "secondary", "better": "lower"},
        ],
    },
}
# Names, and words that every language shares.
GIVEN = re.compile(
    r"\b(Aa|Bb|Cc|Xx|Yy|Bl|De|Pa|Parley|Statistical design: study)\b|\b[0-9a-f]{12}\b|\barm \d|\bagent \d"
)


def made(name):
    return make_dossier(
        Planner(policy="evidence", options={}, replications=2, seed=3), parse_study(STUDIES[name]), [0.4]
    )


@pytest.mark.simulations
@pytest.mark.parametrize("name", STUDIES)
def test_no_english_is_left_over_on_the_pages_to_decide_by(monkeypatch, name):
    dossier = made(name)
    real = translation._words
    english = real("bandit", "en")
    monkeypatch.setattr(
        translation, "_words", lambda _, language: english if language == "en" else translation._Words(Marked(), "en")
    )
    decision, appendix, blocks = page._content(dossier, "parley plan x", "de", pictures=True)
    drawn = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", str(blocks["decision_figure", 0])))
    for text in (decision, drawn):
        said = outside(text.replace("decision_figure", ""))
        assert re.findall(r"[A-Za-z]{2,}", GIVEN.sub("", said)) == []
    assert "⟦" not in appendix


@pytest.mark.simulations
def test_every_language_has_the_same_figures_and_says_that_the_appendix_is_english():
    dossier = made("large")
    texts = {language: page.dossier_markdown(dossier, "parley plan x", language) for language in LANGUAGES}
    for language, title, noted in (
        ("de", "## Das Design in zehn Zeilen", "## Anhang\n\nDieser Anhang ist auf Englisch."),
        ("fr", "## Le plan en dix lignes", "## Annexe\n\nCette annexe est en anglais."),
        ("es", "## El diseño en diez líneas", "## Apéndice\n\nEste apéndice está en inglés."),
    ):
        assert title in texts[language]
        assert noted in texts[language]
        shown, english = (re.sub(r"\D", "", texts[one].partition("## 1. ")[0]) for one in (language, "en"))
        assert len(shown) == len(english)
    assert texts["de"].count("Behandlung") > 5, "in the words of the audience"
    with reading("trial", "de"):
        assert "10,0 %" in page.FILTERS["percent"](0.1)
