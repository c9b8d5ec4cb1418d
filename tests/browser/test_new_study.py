"""A new study by its form: every example, by keyboard alone and on a phone; what is wrong, the draft, and no script."""

import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from tests.browser.test_accessible import _serious

from parley.dashboard.study_form import STEPS, shown_value, step_of
from parley.study import read_toml

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted([*FOLDER.glob("*.toml"), *(FOLDER / "models").glob("*.toml")])
ACTIVE = """() => {
  const one = document.activeElement;
  const inside = one.tagName === "SUMMARY" && !one.parentElement.open
    ? [...one.parentElement.querySelectorAll("[name]")].map((field) => field.name) : [];
  const next = one.matches("#inputs .actions button:not(.quiet)");
  return { tag: one.tagName, name: one.name || "", inside, next };
}"""


def document_of(example):
    """What the form should make: it asks for no truth, which is for simulations."""
    document = read_toml(example.read_text())
    document.pop("truth", None)
    return document


def places(document):
    """Name of an input -> what to type, in the step that asks for it."""
    found = {}
    for key, value in document.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": one for inner, one in value.items()}
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            found |= {f"{key}.{place}.{inner}": one for place, row in enumerate(value) for inner, one in row.items()}
        else:
            found[key] = value
    steps = {step.name: {} for step in STEPS}
    for place, value in found.items():
        steps[STEPS[step_of(place)].name][place] = shown_value(value)
    return steps


def by_keyboard(page, wanted, *, leave):
    """Fill the inputs of a step, and go on to the next, with nothing but the keyboard."""
    left = dict(wanted)
    for _ in range(150):
        if not left and not leave:
            return
        page.keyboard.press("Tab")
        here = page.evaluate(ACTIVE)
        if here["name"] in left:
            text = left.pop(here["name"])
            if here["tag"] == "SELECT":
                while page.evaluate("() => document.activeElement.value") != text:
                    page.keyboard.press("ArrowDown")
                page.wait_for_function("name => document.activeElement.name === name", arg=here["name"])
                if here["name"].endswith(".kind"):  # its keys are made anew
                    for name in left:
                        if name.startswith(here["name"].removesuffix("kind")):
                            page.wait_for_selector(f"[name='{name}']", state="attached")
            else:
                page.keyboard.type(text)
        elif here["tag"] == "SUMMARY" and set(here["inside"]) & set(left):
            page.keyboard.press("Enter")
        elif here["next"] and not left:
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"not within reach of the keyboard: {left}")


def go_on(page, step):
    page.wait_for_selector(f"#steps[data-step={step}]")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_made_by_keyboard_alone(visit, server, example):
    document = document_of(example)
    page = visit(server, server.token).page
    page.goto("/new")
    page.get_by_role("button", name="Begin with an empty form").press("Enter")
    for step, wanted in places(document).items():
        go_on(page, step)
        by_keyboard(page, wanted, leave=step != STEPS[-1].name)
    assert made_by(page, document) == document
    expect(page.locator("#problem")).to_be_empty()


def on_a_phone(visit, server, **options):
    size = {"width": 390, "height": 844}
    return visit(server, server.token, viewport=size, has_touch=True, is_mobile=True, **options).page


def by_touch(page, document, *, look=None):
    """Fill the steps of the form as a thumb does, up to the review; no step is wider than the phone."""
    for step, wanted in places(document).items():
        go_on(page, step)
        kinds_first = sorted(wanted, key=lambda place: not place.endswith("kind"))
        for place in kinds_first:
            field = page.locator(f"[name='{place}']")
            field.wait_for(state="attached")
            if not field.is_visible():
                page.locator("details.entry", has=field).locator("> summary").tap()
            if field.evaluate("one => one.tagName") == "SELECT":
                with page.expect_response(lambda answer: answer.url.endswith("/new")):
                    field.select_option(wanted[place])
            else:
                field.tap()
                page.keyboard.insert_text(wanted[place])
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390, step
        if look:
            look(step)
        if step != STEPS[-1].name:
            page.locator("#inputs .actions button:not(.quiet)").tap()


def made_by(page, document):
    """The study file of the form, as soon as it is this document; or what it is after a while."""
    until = time.monotonic() + 60
    while (made := read_toml(page.locator("#file").inner_text())) != document and time.monotonic() < until:
        page.wait_for_timeout(100)
    return made


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_made_on_a_phone(visit, server, example):
    document, page = document_of(example), on_a_phone(visit, server)
    page.goto("/new")
    page.get_by_role("button", name="Begin with an empty form").tap()
    by_touch(page, document)
    assert made_by(page, document) == document
    expect(page.locator("#problem")).to_be_empty()


def test_on_a_phone_by_touch_and_launched(visit, server):
    page, axe = on_a_phone(visit, server, bypass_csp=True), Axe()

    def look(step):
        assert _serious(axe, page) == [], step

    document = document_of(FOLDER / "models" / "population.toml")
    page.goto("/new")
    look("begin")
    page.get_by_role("button", name="Begin with an empty form").tap()
    by_touch(page, document, look=look)
    page.locator("#inputs .actions button:not(.quiet)").tap()
    page.get_by_role("button", name="Launch the study").tap()
    expect(page.get_by_role("heading", name="one best arm for a population")).to_be_visible()
    page.goto("/new")
    expect(page.locator("#resume")).to_be_hidden()  # launched: no draft any more


def test_a_refused_launch_keeps_the_draft(visit, server):
    server.create(study_id="taken")
    window = visit(server, server.token)
    page = window.page
    page.goto("/new")
    page.get_by_role("button", name="Three centres").click()
    for step in STEPS:
        go_on(page, step.name)
        page.locator("#inputs .actions button:not(.quiet)").click()
    page.locator("[name=id]").evaluate_all("fields => fields.forEach((one) => { one.value = 'taken'; })")
    page.get_by_role("button", name="Launch the study").click()
    expect(page.locator(".note.bad")).to_contain_text("taken")
    window.wrong.remove("console: Failed to load resource: the server responded with a status of 409 (Conflict)")
    page.goto("/studies/taken")  # another study: the draft is not its business
    page.goto("/new")
    expect(page.locator("#draft-name")).to_have_text("three centres")


def test_live_power_says_what_it_does_and_shows_only_what_is_still_asked_for(visit, server):
    page = visit(server, server.token).page
    asked = []

    def slowly(route):
        if "do=power" not in (route.request.post_data or ""):
            route.continue_()
            return
        asked.append(route)

    page.route("**/new", slowly)
    page.goto("/new")
    page.get_by_role("button", name="Three centres").click()
    page.get_by_role("button", name="5.").click()
    go_on(page, "precision")
    state, power = page.locator("#power-state"), page.locator("#power")
    expect(state).to_contain_text("Simulating this study")
    page.locator("[name=delta]").fill("0.2")
    expect(state).to_contain_text("latest change; the new version comes next")
    assert len(asked) == 1
    asked[0].continue_()
    expect(state).to_contain_text("Simulating this study")
    expect(power).to_be_empty()  # what came was of the study before
    while len(asked) < 2:
        page.wait_for_timeout(50)
    asked[1].continue_()
    expect(power).to_contain_text("What it is likely to cost")
    expect(state).to_be_empty()


def test_a_mistake_is_told_while_it_is_typed_and_a_draft_waits(visit, server):
    page = visit(server, server.token).page
    page.goto("/new")
    page.get_by_role("button", name="A trial in four hospitals").click()
    go_on(page, "question")
    page.get_by_label("The control, which is used today").fill("nobody")
    expect(page.locator("#problem")).to_contain_text("control: found 'nobody'")
    expect(page.locator("#control")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("The control, which is used today").fill("A")
    expect(page.locator("#problem")).to_be_empty()
    expect(page.locator("#file")).to_contain_text('control = "A"')
    page.get_by_role("button", name="3. Whose results count").click()
    go_on(page, "weights")
    shares = "#picture td.num >> nth=0"
    page.locator("#picture summary").click()
    expect(page.locator(shares)).to_have_text("62.5 %")
    page.get_by_label("Own share").fill("1")
    expect(page.locator(shares)).to_have_text("100 %")
    page.goto("/new")
    expect(page.locator("#draft-name")).to_have_text("four hospitals")
    page.get_by_role("button", name="Continue your draft").click()
    go_on(page, "question")
    expect(page.get_by_label("The control, which is used today")).to_have_value("A")


def test_without_a_script_every_step_is_a_page(visit, server):
    page = visit(server, server.token, java_script_enabled=False).page
    page.goto("/new")
    page.get_by_role("button", name="Three centres").click()
    for step in STEPS:
        expect(page.locator(f"#steps[data-step={step.name}]")).to_be_visible()
        if step.name == "weights":
            page.get_by_label("How to weight the results in an agent's question").select_option("identity")
            page.get_by_role("button", name="Check and show the file").click()
            expect(page.locator("#file")).to_contain_text('kind = "identity"')
        page.locator("#inputs .actions button:not(.quiet)").first.click()
    expect(page.get_by_role("button", name="Launch the study")).to_be_visible()
