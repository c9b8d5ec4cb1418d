"""The pages as people use them: what the overview says, whose time it is, and pictures that hide no word."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect
from tests.browser.live import Agents

from parley.experiments.report_kit.forest import Harm, forest_chart
from parley.text.translation import reading
from parley.totals import Totals

EXAMPLES = Path(__file__).parents[2] / "examples"
OVERLAPS = """() => [...document.querySelectorAll("svg.forest")].flatMap((figure) => {
  const drawn = [...figure.querySelectorAll("rect, line, polygon, circle")].map((one) => one.getBBox());
  const words = [...figure.querySelectorAll("text")];
  const meet = (a, b) => a.x < b.x + b.width - 0.5 && b.x < a.x + a.width - 0.5
    && a.y < b.y + b.height - 0.5 && b.y < a.y + a.height - 0.5;
  const found = words.filter((one) => drawn.some((bar) => meet(one.getBBox(), bar)));
  const pairs = words.filter((one, place) => words.slice(place + 1).some((two) => meet(one.getBBox(), two.getBBox())));
  return [...found, ...pairs].map((one) => one.textContent);
})"""

# After two phases, a site may already know something about one arm, or still nothing.
KNOWN = re.compile(r"^(Too early to say: )?.+ leads[.,] .*better by 5 points or more")


class Patients(Agents):
    """Agents whose rewards are 0 or 1."""

    def draw(self, draws, place):
        counts = np.array(draws)
        sums = self.generator.binomial(counts, self.means[:, place]).astype(float)
        return Totals(counts=counts, sums=sums, squares=sums)


@pytest.fixture(scope="module")
def hospitals(server):
    """A trial in its third phase: two of four hospitals have reported."""
    text = (EXAMPLES / "four-hospitals.toml").read_text()
    made = Patients(server, server.create(text, "hospitals"), np.array(tomllib.loads(text)["truth"]["means"]))
    made.phase()
    made.phase()
    made.phase(but=(1, 3))
    return made


def test_the_overview_says_where_it_stands_who_is_awaited_and_what_is_known(visit, server, hospitals):
    page = visit(server, server.token).page
    page.goto(f"/studies/{hospitals.study}")
    said = "2 of 4 reports of phase 3 are in. Still awaited: Lille, Nantes. No site has its answer yet."
    expect(page.locator(".standing")).to_have_text(said)
    sites = page.locator(".sites > li")
    assert [one.inner_text() for one in sites.locator("strong").all()] == hospitals.names
    for place, word in enumerate(("reported", "awaited", "reported", "awaited")):
        expect(sites.nth(place)).to_contain_text(word)
        expect(sites.nth(place).locator(".known")).to_have_text(KNOWN)
        expect(sites.nth(place).locator("svg.progress")).to_have_count(1)
    whole = page.locator("main").inner_text()
    assert not re.search(r"the line is|\bbets?\b|mixed mean|policy", whole.lower())
    assert (
        page.locator("main table").first.evaluate(
            "one => one.compareDocumentPosition(document.querySelector('.sites'))"
        )
        & 2
    )


def test_times_are_in_the_zone_of_the_reader(visit, server, hospitals):
    seen = {}
    for zone in ("UTC", "Asia/Tokyo"):
        page = visit(server, server.token, timezone_id=zone, locale="en-GB").page
        page.goto(f"/studies/{hospitals.study}")
        expect(page.locator("footer")).to_contain_text("the zone of your device")
        time = page.locator("#rounds time").first
        seen[zone] = time.inner_text()
        hour = {"UTC": 0, "Asia/Tokyo": 9}[zone]
        begun = page.evaluate("moment => new Date(moment).getUTCHours()", time.get_attribute("datetime"))
        assert f", {(begun + hour) % 24:02}:" in seen[zone]
    assert seen["UTC"] != seen["Asia/Tokyo"]


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_of_a_forest_lies_on_a_bar_or_on_another(visit, server, hospitals, width):
    page = visit(server, server.token, viewport={"width": width, "height": 900}).page
    for study in (hospitals.study, "finished"):
        page.goto(f"/studies/{study}/answer")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        page.evaluate("document.fonts.ready")
        expect(page.locator("svg.forest").first).to_be_visible()
        assert page.evaluate(OVERLAPS) == [], study


LONG = ["usual care with daily visits", "silver dressing, twice a week", "honey dressing and compression", "none"]
OUTSIDE = """() => [...document.querySelectorAll("svg.forest")].flatMap((figure) =>
  [...figure.querySelectorAll("text")].filter((one) => {
    const [box, room] = [one.getBBox(), figure.viewBox.baseVal];
    return box.x < -1 || box.x + box.width > room.width + 1 || box.y + box.height > room.height + 3;
  }).map((one) => one.textContent))"""


def arms_of(size):
    """Four arms with long names, their estimates about so large."""
    kinds = ("mean", "to_leader", "to_control")
    return [
        {
            "arm": name,
            "status": "chosen" if place == 1 else "open",
            "dropped_in": 0,
            **{
                kind: {"estimate": 0.3 * size * (place - 1.5)}
                | {end: size * ((place - 1.5) * 0.3 + far) for end, far in ENDS.items()}
                for kind in kinds
            },
        }
        for place, name in enumerate(LONG)
    ]


ENDS = {"low": -0.42, "high": 0.42, "fixed_low": -0.2, "fixed_high": 0.2}


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
@pytest.mark.parametrize("audience", ["trial", "experiment", "bandit"])
def test_long_names_and_numbers_of_a_forest_find_room_in_every_language(visit, server, audience, language):
    page = visit(server).page
    page.goto("/sign-in")  # for the type and the style of our pages
    with reading(audience, language):
        pictures = [
            forest_chart(arms_of(size), kind, "x", to=to, rates=rates, tolerance=0.05 * size, harm=harm)
            for size, rates in ((0.5, True), (1.0, False), (54_321.0, False))
            for kind, to in (("mean", None), ("to_leader", LONG[1]), ("to_control", LONG[0]))
            for harm in (None, Harm(bound=0.2 * size, above=True, words="worse"))
        ]
    page.evaluate("html => { document.querySelector('main').innerHTML = html; }", "".join(map(str, pictures)))
    page.evaluate("document.fonts.ready")
    assert page.locator("svg.forest").count() == len(pictures)
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
