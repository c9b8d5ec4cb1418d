"""The whole dossier in the reader's language: no English is left over, and every message has its translation."""

import re

import pytest
from tests.dashboard.test_languages import Marked, outside
from tools import catalogs

from parley.edges.dossier import dossier as numbers
from parley.edges.dossier import page
from parley.errors import InvalidInput
from parley.experiments.forecasts.planning import Planner
from parley.study import load_study, parse_study
from parley.text import translation
from parley.text.formatting import is_number
from parley.text.translation import LANGUAGES, reading

# Those of which a dossier says different things.
EXAMPLES = ("country", "four-hospitals", "paper", "play", "protocol", "strata", "two-alone", "web-study")
GUARDRAIL = {"kind": "binary", "role": "guardrail", "better": "lower", "delta": 0.05}
LARGE = {
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
}
# What no example has: guardrails, one site, counts, a range, a cost in days, more agents than a table has columns.
STUDIES = {
    "large": LARGE,
    "small": {"arms": ["Aa", "Bb"], "agents": ["Xx"], "tolerance": 0.3},
    "counts": {"arms": ["Aa", "Bb"], "agents": ["Xx", "Yy"], "max_samples": 90, "noise": {"kind": "count", "mean": 2}},
    "range": {
        "arms": ["Aa", "Bb", "Cc"],
        "agents": 1,
        "top": 2,
        "tolerance": 0.4,
        "noise": {"kind": "bounded", "low": 0, "high": 2},
    },
    "known": {"arms": ["Aa", "Bb"], "agents": ["Xx"], "noise": {"kind": "gaussian", "scale": 0.5}},
    "many": {"arms": ["Aa", "Bb"], "agents": 9, "tolerance": 0.5},
    "delayed": {key: value for key, value in LARGE.items() if key not in ("control", "outcomes")}
    | {"audience": "experiment", "sampling": {"rate": 4, "delay": [5, 30], "day_cost": 2}},
}
# Words that every language shares, and the date.
SHARED = re.compile(r"\b(Parley|NumPy|SciPy|Python|RMSE|alpha|exact|normal)\b|\d+\. \w+ \d{4}|\b[0-9a-f]{12}\b")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A few runs of the other designs: what is said of them does not depend on their number."""
    monkeypatch.setattr(numbers, "DESIGN_RUNS", 20)


class Asked(Marked):
    """Records every message that is asked for."""

    def __init__(self):
        super().__init__()
        self.messages = set()

    def gettext(self, message):
        self.messages.add(message)
        return super().gettext(message)

    def ngettext(self, one, many, count):
        self.messages.add(one)
        return super().ngettext(one, many, count)


def study(name):
    return parse_study(STUDIES[name]) if name in STUDIES else load_study(f"examples/{name}.toml")


def made(name, policy="evidence"):
    found = study(name)
    gaps = [0.4] if name in STUDIES else []
    return numbers.make_dossier(Planner(policy=policy, options={}, replications=2, seed=3), found, gaps)


def left_over(text, problem, reason):
    """Words that are in no message: without formulas, keys in code type, references, and what people named."""
    text = re.sub(r"^    .*$|`[^`]+`|\x00\w+", "", text, flags=re.MULTILINE).replace(page.LITERATURE, "")
    named = {*problem.arms, *problem.agents, *(one.name for one in problem.outcomes), *filter(None, reason)}
    for name in sorted(named, key=len, reverse=True):
        for written in (page.as_text(name), name):
            text = re.sub(rf"(?<!\w){re.escape(written)}(?!\w)", "", text)
    return re.findall(r"[A-Za-z]{2,}", SHARED.sub("", outside(text)))


def assert_translated(dossier, monkeypatch):
    """Every word of it, pictures too, is in a message, and every message is in the catalogs of every language."""
    asked = Asked()
    monkeypatch.setattr(translation, "_words", lambda *_: translation._Words(asked, "de"))
    decision, appendix, blocks = page._content(dossier, "parley plan x", "de", pictures=True)
    drawn = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", " ".join(map(str, blocks.values()))))
    about = " ".join(re.findall(r'aria-label="([^"]*)"', " ".join(map(str, blocks.values()))))
    said = dossier.study
    with reading("bandit", "de"):
        title = page._title(dossier)
    for text in (decision, appendix, drawn, about, title):
        assert left_over(text, dossier.problem, (said.reason, said.name)) == []
    assert left_over(f"{appendix} forgotten", dossier.problem, (said.reason, said.name)) == ["forgotten"]
    messages = {one for one in asked.messages if re.search("[A-Za-z]", catalogs.VALUE.sub("", one))}
    for language in LANGUAGES[1:]:
        known = {
            form
            for folder in catalogs.folders().values()
            for message in catalogs.catalog(language, folder)
            if message.id
            for form in catalogs.forms(message)
        }
        assert messages <= known, language


@pytest.mark.simulations
@pytest.mark.parametrize("name", [*STUDIES, *EXAMPLES])
def test_no_english_is_left_over_in_the_dossier_of_any_study(monkeypatch, name):
    if study(name).problem.horizon is not None:
        with pytest.raises(InvalidInput, match="a study that ends with answers"):
            made(name)
        return
    assert_translated(made(name), monkeypatch)


@pytest.mark.simulations
def test_no_english_is_left_over_in_the_dossier_of_another_policy(monkeypatch):
    assert_translated(made("known", "uniform"), monkeypatch)


@pytest.mark.simulations
def test_every_language_has_the_same_figures_in_its_own_writing():
    dossier = made("large")
    texts = {language: page.dossier_markdown(dossier, "parley plan x", language) for language in LANGUAGES}
    for language, title, section, figure in (
        ("de", "## Das Design in zehn Zeilen", "### 4. Operationscharakteristik", "0,5"),
        ("fr", "## Le plan en dix lignes", "### 4. Caractéristiques opérationnelles", "0,5"),
        ("es", "## El diseño en diez líneas", "### 4. Características operativas", "0,5"),
    ):
        assert title in texts[language]
        assert section in texts[language]
        assert f"alpha = {figure}" in texts[language]
        tables = [
            [re.sub(r"[^\d|]", "", row) for row in texts[one].splitlines() if re.match(r"\| .*\d.*\|$", row)]
            for one in (language, "en")
        ]
        assert tables[0] == tables[1], language
    assert texts["de"].count("Behandlung") > 50, "in the words of the audience"
    assert not re.search(r"\b(Arm|Agent|Ziehung|Belohnung)(en|e)?\b", texts["de"])
    with reading("trial", "de"):
        assert "10,0 %" in page.FILTERS["percent"](0.1)


def test_numbers_of_every_language_stand_in_columns_of_numbers():
    for language, cells in (
        ("de", ("mindestens 2.400 ± 0", "3 bis 14")),
        ("fr", ("au moins 2\u202f400 ± 0", "3 à 14", "1\u202f234")),
        ("es", ("al menos 2400 ± 0", "3 a 14")),
    ):
        with reading("trial", language):
            assert all(map(is_number, cells)), language
            assert not is_number("A 3")
