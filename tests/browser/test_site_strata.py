"""A masked study with strata in a real Chromium, on a phone: enrolled by stratum, a kit each, one person unmasked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.live import Server
from tests.browser.test_accessible import Axe, _serious
from tests.browser.test_site_page import PHONE
from tests.browser.ward import Ward

STUDY = """\
name = "Two doses"
audience = "trial"
arms = ["low dose", "high dose"]
agents = ["Leeds, old", "Leeds, young", "York, old", "York, young"]

[weights]
kind = "nested"
site_of = ["Leeds", "Leeds", "York", "York"]
stratum_of = ["old", "young", "old", "young"]
mix = [0.4, 0.2, 0.2, 0.2]

[noise]
kind = "binary"

[sites]
kits = true
between = "assign"
"""
LEEDS = ["Leeds, old", "Leeds, young"]


@pytest.fixture(scope="module")
def leeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strata")
    server = Server(folder / "coordinator")
    study = server.create(STUDY, "trial")
    made = Ward(server, folder / "leeds", study=study, agent=LEEDS)
    yield made
    made.stop()
    server.stop()


def kits(ward, *lines):
    """`parley site kits` on the site's machine."""
    path = ward.folder / "kits.csv"
    path.write_text("\n".join(("kit,arm", *lines)) + "\n")
    words = ["site", "kits", str(path), "--study", ward.study, "--token-file", str(ward.token_file)]
    words += ["--outbox", str(ward.folder / "box"), "--server", ward.server.url]
    return subprocess.run([sys.executable, "-m", "parley", *words], capture_output=True, text=True, check=False)


def shot(page, name):
    if folder := os.environ.get("PARLEY_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"site-strata-{name}.png", full_page=True)


def test_a_masked_study_with_strata_on_a_phone(visit, leeds):
    page = visit(leeds, viewport=PHONE, has_touch=True, bypass_csp=True).page
    page.goto("/")
    assert _serious(Axe(), page) == []
    twice = kits(leeds, "K-001,low dose", "K-001,high dose")
    assert twice.returncode == 2
    assert "K-001" in twice.stderr
    listed = kits(
        leeds, *(f"K-{7 * number % 101:03},{'low' if number % 2 else 'high'} dose" for number in range(1, 41))
    )
    assert listed.returncode == 0, listed.stderr
    page.locator("#assign-key").fill("p-1")
    page.get_by_role("button", name="Assign").click()
    assert page.locator("#assign-key").evaluate("one => one.form.checkValidity()") is False, "the stratum is asked"
    for key, stratum in (("p-1", "old"), ("p-2", "young"), ("p-3", "old")):
        page.locator("#assign-key").fill(key)
        page.get_by_label(stratum, exact=True).check()
        page.get_by_role("button", name="Assign").click()
        expect(page.locator(".given .eyebrow")).to_contain_text(f"{key} · {stratum}")
        assert page.locator(".given .arm").inner_text().startswith("Kit K-")
    told = page.locator("main").inner_text()
    assert "low dose" not in told
    assert "high dose" not in told
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    assert _serious(Axe(), page) == []
    shot(page, "phone")
    again = leeds.post("/v1/assignments", participant="p-1", stratum="old").json()
    assert again["again"]
    assert again["kit"].startswith("K-")
    assert again["arm"] is None
    refused = leeds.post("/v1/assignments", participant="p-1", stratum="young")
    assert refused.status_code == 409
    unmasked = leeds.post("/v1/unmask", participant="p-1", by="a nurse", reason="an emergency")
    assert unmasked.json()["arm"] in ("low dose", "high dose")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_the_api_is_readable_by_all(visit, leeds, theme):
    page = visit(leeds, color_scheme=theme, viewport=PHONE, bypass_csp=True).page
    page.goto("/v1/docs")
    assert _serious(Axe(), page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    shot(page, f"docs-{theme}")
