"""The final report on paper: nothing is cut off, however many arms and agents there are, whatever their names."""

import re

import numpy as np
from tests.browser.live import Agents

ARMS = [
    f"{place} " + ("a treatment with a long name of many words, twice daily" if place % 3 else "x")
    for place in range(20)
]
AGENTS = [f"{place}-" + ("aplacewithalongnameandnospaces" * 2 if place % 5 else "y") for place in range(30)]
WIDE = f"""
name = "Many of everything"
arms = {ARMS}
agents = {AGENTS}
tolerance = 0.1
max_rounds = 1

[weights]
kind = "personalized"
alpha = 0.5
""".replace("'", '"')
PAPER = 794 - 2 * 53  # an A4 sheet in CSS pixels, less its margins of 14 mm; frames go 3 pixels beyond


def test_nothing_of_twenty_arms_at_thirty_sites_is_cut_off(visit, server, tmp_path):
    study = server.create(WIDE, "wide")
    Agents(server, study, np.linspace(0, 1, 600).reshape(20, 30)).run()
    page = visit(server, server.token, viewport={"width": PAPER, "height": 1000}).page
    page.goto(f"/studies/{study}/report", timeout=120_000)
    page.emulate_media(media="print")
    beyond = page.evaluate(
        """edge => [...document.querySelectorAll("main *")]
        .filter(part => part.getBoundingClientRect().right > edge + 4)
        .map(part => part.outerHTML.slice(0, 200))""",
        PAPER,
    )
    assert not beyond
    assert page.locator("details:not([open])").count() == 0, "what is folded is not printed"
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) > 30
    with page.expect_download() as got:
        page.emulate_media(media="screen")
        page.get_by_role("link", name="Markdown").click()
    text = got.value.path().read_text()
    assert all(name in text for name in (*ARMS, *AGENTS))
