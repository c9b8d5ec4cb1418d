"""The slider of other weights: by keyboard it shows one step of the table; without a script the table has all."""

from playwright.sync_api import expect
from tests.browser.live import MEANS, THREE, Agents


def test_the_slider_goes_by_keyboard_and_the_table_does_without_it(visit, server):
    study = server.create(THREE.replace("Three centres", "Other weights"), "other-weights")
    Agents(server, study, MEANS).phase()
    page = visit(server, server.token, viewport={"width": 390, "height": 900}).page
    page.goto(f"/studies/{study}/answer")
    slider, table = page.get_by_role("slider", name="alpha"), page.locator("table.steps")
    slider.focus()
    before = float(slider.get_attribute("aria-valuetext"))
    page.keyboard.press("ArrowRight")
    now = slider.get_attribute("aria-valuetext")
    assert float(now) > before
    expect(page.locator(".slider output")).to_have_text(now)
    assert table.locator("thead th:visible").all_inner_texts() == ["Agent", "Answer", "Holds", now]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    page.goto(f"/studies/{study}/report")
    expect(page.get_by_role("slider")).to_have_count(0)
    assert page.locator("table.steps thead th:visible").count() >= 3 + 11
