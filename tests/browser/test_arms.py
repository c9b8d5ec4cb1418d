"""An administrator opens an arm and withdraws another, in a browser: the consequences stand first, also on a phone."""

import pytest
from playwright.sync_api import expect
from tests.browser.live import MEANS, THREE, Agents


@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
def test_an_arm_is_withdrawn_and_opened_again(visit, server, width):
    study = server.create(THREE.replace("Three centres", f"Arms at {width}"), f"arms-{width}")
    Agents(server, study, MEANS).phase()
    page = visit(server, server.token, viewport={"width": width, "height": 900}).page
    page.goto(f"/studies/{study}/administration")
    page.get_by_label("Arm", exact=True).fill("placebo")
    page.get_by_role("button", name="Show what the withdrawal would do").click()
    card = page.locator("section[aria-labelledby=consequences]")
    expect(card).to_contain_text("placebo is no longer a candidate for any agent".capitalize())
    expect(card.get_by_role("button", name="Withdraw placebo")).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    card.get_by_label("Reason").fill("the board stopped it")
    card.get_by_role("button", name="Withdraw placebo").click()
    expect(page.get_by_text("placebo was withdrawn in phase 2:")).to_be_visible()
    page.get_by_role("link", name="Open it?").click()
    card.get_by_label("Reason").fill("it was another's fault")
    card.get_by_role("button", name="Open placebo").click()
    expect(page.get_by_text("placebo was opened in phase 2:")).to_be_visible()
    assert server.call("GET", f"studies/{study}")["closed_arms"] == []
