"""The dossier on paper: two sheets to decide by, whatever the study file holds, and the appendix from the third on."""

import re

import pytest

from parley.edges.dossier.dossier import make_dossier
from parley.edges.dossier.page import dossier_html
from parley.experiments.forecasts.planning import Planner
from parley.study import parse_study
from parley.text.translation import LANGUAGES

pytestmark = pytest.mark.browser
LONG = "a name of many words, such as protocols have"
GUARDRAIL = {"kind": "binary", "role": "guardrail", "better": "lower", "delta": 0.05}
STUDIES = {
    "short": {"arms": 2, "agents": 1, "tolerance": 0.3},
    "long": {
        "arms": [f"{LONG} {place}" for place in range(3)],
        "agents": [f"at {LONG} {place}" for place in range(2)],
        "control": f"{LONG} 0",
        "audience": "trial",
        "tolerance": 0.2,
        "max_samples": 900,
        "noise": {"kind": "binary", "rate": 0.4, "inference": "normal"},
        "weights": {"kind": "personalized", "alpha": 0.5, "reason": f"{LONG}. " * 20},
        "sampling": {"rate": 4},
        "outcomes": [
            GUARDRAIL | {"name": "bleeding a second time within the days", "margin": 0.1},
            GUARDRAIL | {"name": "death of any cause within ninety days", "limit": 0.2, "on_alarm": "propose"},
        ],
    },
}
PAPER = 794 - 2 * 57  # an A4 sheet in CSS pixels, less its margins of 15 mm


@pytest.mark.parametrize("name", STUDIES)
def test_the_appendix_of_a_printed_dossier_begins_on_the_third_sheet(chromium, tmp_path, name):
    planner = Planner(policy="evidence", options={}, replications=2, seed=3)
    made = make_dossier(planner, parse_study(STUDIES[name]), [0.35, 0.4, 0.45, 0.5])

    def sheets(page, hidden):
        style = page.add_style_tag(content=f"{hidden} {{ display: none; }}")
        printed = page.pdf(format="A4")
        style.evaluate("style => style.remove()")
        return len(re.findall(rb"/Type\s*/Page\b", printed))

    for language in LANGUAGES:
        text = dossier_html(made, "parley plan x.toml --report y.html", language)
        (tmp_path / f"{language}.html").write_text(text, encoding="utf-8")
        page = chromium.new_page(viewport={"width": PAPER, "height": 1000})
        page.goto((tmp_path / f"{language}.html").as_uri())
        assert sheets(page, ".appendix, .appendix ~ p") == 2, language
        beneath = sheets(page, ".appendix > :not(h2), .appendix ~ p")
        assert beneath == 3, f"{language}: its heading alone, which would fit on the second"
        page.emulate_media(media="print")
        beyond = page.evaluate(
            """edge => [...document.querySelectorAll(".decision *")]
            .filter(part => part.getBoundingClientRect().right > edge + 1)
            .map(part => part.outerHTML.slice(0, 200))""",
            PAPER,
        )
        assert not beyond, language
        page.close()
