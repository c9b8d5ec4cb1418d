"""The pages as pictures. `make screenshots` puts them into docs/images; an ordinary run only takes them.

With `make screenshots EVERY=folder` every page of a study comes on top, in two audiences and every language, for
somebody to look at.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect
from tests.browser.live import MEANS, THREE, Agents
from tests.browser.test_people import Patients
from tests.dashboard.site import OF_NO_STUDY, TABS

from parley import load_study, make_policy, phases
from parley.experiments.report_kit.charts import elimination_timeline
from parley.text.translation import LANGUAGES

PICTURES = {
    "dashboard": ("/studies/waiting", 1280, "light"),
    "dashboard-dark": ("/studies/waiting", 1280, "dark"),
    "dashboard-phone": ("/studies/waiting", 390, "light"),
    "dashboard-studies": ("/", 1280, "light"),
    "dashboard-evidence": ("/studies/waiting/evidence", 1280, "light"),
    "dashboard-samples": ("/studies/waiting/samples", 1280, "light"),
    "dashboard-answer": ("/studies/finished/answer", 1280, "light"),
    "dashboard-audit": ("/studies/finished/audit", 1280, "dark"),
    "dashboard-freeze": ("/studies/waiting/administration?freeze=Lille", 1280, "light"),
    "dashboard-new": ("/new", 1280, "light"),
    "dashboard-trial": ("/studies/trial", 1280, "light"),
    "dashboard-play": ("/studies/playing", 1280, "light"),
}
SIDEWAYS = """() => [...document.querySelectorAll("main .scroll")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.getAttribute("aria-label"))"""
PLAYED = THREE.replace("Three centres", "Doses, played").replace("delta = 0.1", "horizon = 20000")


def test_the_picture_of_a_course(tmp_path):
    """The first picture of README and site: a run of the paper's instance, phase by phase."""
    study = load_study(Path(__file__).parents[2] / "examples" / "paper.toml")
    run = list(phases(make_policy(study.policy, study.problem), study.require_truth(), seed=0))
    folder = Path(os.environ.get("PARLEY_SCREENSHOTS", tmp_path))
    elimination_timeline(run, study.problem).savefig(folder / "course.png", dpi=110)
    assert (folder / "course.png").stat().st_size > 10_000


def test_pictures_of_the_main_pages(visit, server, tmp_path):
    folder = Path(os.environ.get("PARLEY_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    playing = Agents(server, server.create(PLAYED, "playing"), MEANS, seed=7)
    for but in ((), (), (2,)):
        playing.phase(but=but)
    trial = THREE.replace("Three centres", "Dose finding, autumn").replace("delta", 'audience = "trial"\ndelta')
    doses = Agents(server, server.create(trial, "trial"), MEANS, seed=3)
    for but in ((), (), (0,)):
        doses.phase(but=but)
    windows = {}
    for name, (path, width, theme) in PICTURES.items():
        if (width, theme) not in windows:
            size = {"width": width, "height": 820}
            windows[width, theme] = visit(server, server.token, color_scheme=theme, viewport=size)
        page = windows[width, theme].page
        page.goto(path)
        if path == "/new":
            page.get_by_label("or write the study file here (TOML)").fill(THREE)
            page.get_by_role("button", name="Show the estimate").click()
            expect(page.get_by_role("button", name="Launch the study")).to_be_visible()
        elif path.startswith(("/studies/waiting", "/studies/playing", "/studies/trial")):
            expect(page.locator("#live")).to_have_text("Live")
            expect(page.locator("[data-again]")).to_have_count(0)
        page.evaluate("document.fonts.ready")
        page.screenshot(path=folder / f"{name}.png", full_page=name not in ("dashboard-audit", "dashboard-new"))
        assert (folder / f"{name}.png").stat().st_size > 10_000


@pytest.fixture(scope="module")
def audiences(server):
    """A study of each audience: in mid-phase, with a tolerance, and one site's report still awaited."""
    examples = Path(__file__).parents[2] / "examples"
    for audience, name in (("trial", "four-hospitals"), ("experiment", "web-study")):
        text = (examples / f"{name}.toml").read_text()
        if audience == "experiment":
            text = text.replace("delta", "tolerance = 0.02\ndelta", 1)
        means = np.array(load_study(examples / f"{name}.toml").require_truth().means)
        made = Patients(server, server.create(text, f"every-{audience}"), means, seed=5)
        for but in ((), (), (), (), (1,)):
            made.phase(but=but)
    return ("trial", "experiment")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_fits_a_phone_in_two_audiences_and_every_language(visit, server, audiences, language):
    folder = os.environ.get("PARLEY_EVERY_PAGE")
    paths = [path for path in OF_NO_STUDY if path != "/sign-in"]
    paths += [f"/studies/every-{audience}{page}" for audience in audiences for page in (*TABS, "/report")]
    overviews = [f"/studies/every-{audience}" for audience in audiences]
    for width in (390, 1280) if folder else (390,):
        window = visit(server, viewport={"width": width, "height": 900}, locale=language)
        window.page.goto(f"/sign-in?language={language}")
        window.page.locator("[name=token]").fill(server.token)
        window.page.locator("main form button").first.click()
        window.page.wait_for_url(lambda url: not url.endswith("/sign-in"))
        for path in paths:
            window.page.goto(path)
            window.page.evaluate("document.fonts.ready")
            assert window.page.evaluate("document.scrollingElement.scrollWidth") <= width, (path, language)
            if path in overviews:
                assert window.page.evaluate(SIDEWAYS) == [], (path, language)
            if folder:
                name = path.strip("/").replace("/", "-") or "studies"
                window.page.screenshot(path=Path(folder) / f"{name}-{language}-{width}.png", full_page=True)
