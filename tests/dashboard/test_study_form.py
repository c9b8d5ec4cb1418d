"""A new study step by step: the file is the only state, its reader the only judge, and no script is needed."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.house.test_map import ROOT

from parley.dashboard import study_form
from parley.dashboard.pages.new_study import STARTS, uploaded_study
from parley.dashboard.render import HERE
from parley.dashboard.study_form import BY_NAME, STEPS, applied, shown_step, shown_value, step_keys, step_of
from parley.protocol import StudyMessage
from parley.rewards import KINDS
from parley.settings import Key
from parley.study import SECTIONS, parse_study, read_toml, toml_text

EXAMPLES = sorted([*(ROOT / "examples").glob("*.toml"), *(ROOT / "examples" / "models").glob("*.toml")])


class Inputs(HTMLParser):
    """What a browser would send of the form of a step, without its buttons."""

    def __init__(self, page):
        super().__init__()
        self.fields, self.choice, self.text = {}, None, None
        self.feed(page.partition('id="steps"')[2].partition("</form>")[0])

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "input" and given.get("name"):
            self.fields[given["name"]] = given.get("value", "")
        if tag == "textarea":
            self.text = given["name"]
            self.fields[self.text] = ""
        if tag == "select":
            self.choice = given["name"]
            self.fields[self.choice] = ""
        if tag == "option" and "selected" in given:
            self.fields[self.choice] = given["value"]

    def handle_endtag(self, tag):
        if tag == "textarea":
            self.text = None

    def handle_data(self, data):
        if self.text:
            self.fields[self.text] += data


def wanted(example):
    """The document that the form should make of an example: a truth is for simulations."""
    document = read_toml(example.read_text())
    document.pop("truth", None)
    return document


def value(document, place):
    section, *inner = place.split(".")
    if len(inner) == 2:
        entries = document.get(section, [])
        return entries[int(inner[0])].get(inner[1]) if int(inner[0]) < len(entries) else None
    return document.get(section) if not inner else document.get(section, {}).get(inner[0])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_typing_every_example_makes_the_same_document(example):
    document, text = wanted(example), ""
    for step in STEPS:
        for _ in range(3):  # another kind of weights or rewards asks for other keys
            shown = shown_step(read_toml(text), step)
            fields = [*shown.first, *shown.further, *(one for entry in shown.repeated for one in entry)]
            text = applied(text, step, {one.place: shown_value(value(document, one.place)) for one in fields})
    assert read_toml(text) == document
    assert StudyMessage.of(parse_study(read_toml(text))) == StudyMessage.of(parse_study(document))


@pytest.mark.parametrize("example", EXAMPLES[:4], ids=lambda path: path.stem)
def test_a_file_that_goes_through_the_steps_unchanged_stays_what_it_is(example):
    text = example.read_text()
    for step in STEPS:
        shown = shown_step(read_toml(text), step)
        fields = [*shown.first, *shown.further, *(one for entry in shown.repeated for one in entry)]
        text = applied(text, step, {one.place: one.value.replace("\n", "\r\n") for one in fields})
    assert read_toml(text) == read_toml(example.read_text())  # with its truth, which no step shows


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=5))
def test_what_is_written_is_read_again(document):
    assert read_toml(toml_text(document)) == document


def test_every_key_of_the_file_is_asked_for_in_some_step():
    asked = set()
    for step in STEPS:
        for weights in ("identity", "personalized", "clusters", "similarity", "population", "matrix", "nested"):
            for noise in ("gaussian", "subgaussian", "bounded", "binary", "count"):
                document = {"weights": {"kind": weights}, "noise": {"kind": noise}, "outcomes": [{"kind": noise}]}
                shown = shown_step(document, step)
                asked |= {one.place for one in (*shown.first, *shown.further)}
                asked |= {re.sub(r"\.\d+", "", one.place) for entry in shown.repeated for one in entry}
    every = {f"{name}.{key}" if name else key for name, keys in SECTIONS.items() for key in keys}
    left = {key for key in every - asked if not key.startswith("truth.")}
    assert left == {"weights.file", "weights.scenarios"}  # of another machine; where the file has scenarios, shown


def test_starts_are_the_examples_without_their_truth():
    for name in STARTS:
        text = (HERE / "starts" / f"{name}.toml").read_text()
        assert read_toml(text) == wanted(ROOT / "examples" / f"{name}.toml")


@pytest.mark.parametrize(
    ("key", "step"),
    [("arms", "question"), ("agents", "sites"), ("sampling.rate", "sites"), ("weights.alpha", "weights"),
     ("questions", "weights"), ("noise.low", "outcomes"), ("outcomes.margin", "outcomes"), ("delta", "precision"),
     ("privacy.rho", "precision"), ("covariate.range", "outcomes")],
)  # fmt: skip
def test_an_error_belongs_to_the_step_that_asks_for_its_key(key, step):
    assert STEPS[step_of(key)].name == step


def test_step_by_step_without_a_script(here):
    """Every page is a form that is sent; the text of the file is all that goes along."""
    typed = {
        "question": {"name": "Doses", "audience": "trial", "arms": "placebo\nlow\nhigh", "control": "placebo"},
        "sites": {"agents": "Paris\nLyon", "sampling.rate": "4, 3"},
        "weights": {"weights.kind": "personalized"},
        "outcomes": {"noise.kind": "binary"},
        "precision": {"delta": "0.05", "tolerance": "0.1"},
    }
    with here.browser() as browser:
        page = browser.post("/new", data={"do": "go:question", "study": ""}).text
        for place, (step, fields) in enumerate(typed.items()):
            assert f'data-step="{step}"' in page
            if step == "weights":  # choosing a kind shows its keys
                page = browser.post("/new", data=Inputs(page).fields | fields | {"do": "stay"}).text
            more = {"weights.alpha": "0.5"} if step == "weights" else {}
            last = place + 1 == len(typed)
            do = "estimate" if last else f"go:{STEPS[place + 1].name}"
            answer = browser.post("/new", data=Inputs(page).fields | fields | more | {"do": do})
            assert answer.status_code == 200, answer.text
            page = answer.text
        assert "Launch the study" in page
        text = unescape(re.search(r'<textarea name="study" hidden[^>]*>(.*?)</textarea>', page, re.DOTALL)[1])
        study = uploaded_study(text)
        assert (study.name, study.arms, study.agents) == ("Doses", ("placebo", "low", "high"), ("Paris", "Lyon"))
        assert study.problem.weights.tolist() == [[0.75, 0.25], [0.25, 0.75]]
        made = browser.post("/new", data={"do": "launch", "study": text, "id": "doses"})
        assert made.url.path == "/studies/doses"


def test_nobody_goes_on_past_a_mistake_and_it_stands_where_it_was_made(here):
    with here.browser() as browser:
        data = {"do": "go:sites", "step": "question", "study": "", "arms": "only one", "name": "x"}
        answer = browser.post("/new", data=data)
        assert answer.status_code == 422
        assert 'data-step="question"' in answer.text
        wrong = browser.post("/new", data=data | {"arms": "a\nb", "control": "c"})
        assert wrong.status_code == 422
        assert re.search(r'name="control"[^>]*aria-invalid="true"', wrong.text)
        assert "control: found &#39;c&#39;; allowed: the name of an arm: a, b" in wrong.text
        back = {
            "do": "go:question",
            "step": "sites",
            "study": 'arms = ["a", "b"]',
            "agents": "",
            "sampling.rate": "often",
        }
        assert 'data-step="question"' in browser.post("/new", data=back).text


def test_while_somebody_types_what_is_missing_is_no_mistake(here):
    with here.browser() as browser:
        data = {"do": "check", "step": "question", "study": "", "name": "x", "arms": ""}
        fresh = browser.post("/new", data=data)
        assert fresh.status_code == 200
        assert "found nothing" not in fresh.text
        assert "name = &#34;x&#34;" in fresh.text
        assert "allowed: a whole number or a list" not in fresh.text
        wrong = browser.post("/new", data=data | {"arms": "a\na"})
        assert 'class="note bad"' in wrong.text


def test_the_mix_is_drawn_and_told_in_numbers(here):
    text = (HERE / "starts" / "three-centres.toml").read_text()
    with here.browser() as browser:
        page = browser.post("/new", data={"do": "go:weights", "study": text}).text
    assert page.count(' part"') == 9
    assert page.count('<td class="num">66.67 %</td>') == 3


def test_the_file_can_be_taken_away_and_power_is_told_beside_it(here):
    text = (HERE / "starts" / "three-centres.toml").read_text()
    with here.browser() as browser:
        file = browser.post("/new", data={"do": "download", "study": text, "step": "precision", "delta": "0.2"})
        assert file.headers["content-disposition"] == 'attachment; filename="study.toml"'
        assert read_toml(file.text)["delta"] == 0.2
        step = {"do": "power", "study": text, "step": "precision"}
        told = browser.post("/new", data=step | {"max_samples": "500"}).text
        assert re.search(r'<div id="power".*<th scope="col" class="num">Power</th>', told, re.DOTALL)
        unmet = browser.post("/new", data=step | {"power": "often"}).text
        assert "power: found often" in unmet


def test_another_kind_leaves_no_key_of_the_one_before():
    text = applied("", BY_NAME["weights"], {"weights.kind": "personalized"})
    text = applied(text, BY_NAME["weights"], {"weights.kind": "personalized", "weights.alpha": "0.5"})
    text = applied(text, BY_NAME["weights"], {"weights.kind": "clusters", "weights.alpha": "0.5"})
    assert read_toml(text) == {"weights": {"kind": "clusters"}}


def test_examples_of_the_repo_are_all_tried():
    assert Path(EXAMPLES[0]).exists()
    assert len(EXAMPLES) >= 18


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_asks_each_kind_of_rewards_for_its_own_keys_under_its_label(kind):
    """The model says both: a form that knew the kinds by name would be silent about a new one."""
    step = next(one for one in STEPS if "noise" in one.sections)
    asked = {place for place in step_keys({"noise": {"kind": kind}}, step) if place.startswith("noise.")}
    assert asked - {"noise.kind"} == {f"noise.{key}" for key in KINDS[kind].keys}
    shown = shown_step({"noise": {"kind": kind}}, step)
    choices = next(dict(one.choices) for one in (*shown.first, *shown.further) if one.place == "noise.kind")
    assert choices[kind] == (KINDS[kind].label or kind)
    assert KINDS[kind].label


def test_the_form_asks_for_the_keys_of_another_packages_model(monkeypatch):
    """Also for one whose meaning has a colon, which the product's own keys have after their kinds."""
    keys = {"kind": SECTIONS["noise"]["kind"], "width": Key(kinds=(float,), meaning="its width: from end to end")}
    monkeypatch.setattr(study_form, "model_kinds", lambda: [*KINDS, "coin"])
    monkeypatch.setattr(study_form, "section_keys", lambda _: keys)
    assert list(study_form._of_kind("noise", {"kind": "coin"})) == ["kind", "width"]
