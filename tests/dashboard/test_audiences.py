"""Every page of a study has the words of its audience: nobody in a trial reads of agents, arms, draws and rewards."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.dashboard.site import OF_A_STUDY, TWO
from tools.catalogs import NOT_SAID, not_said

from parley.dashboard.render import environment
from parley.text.translation import reading, translated

STUDY = """
name = "Four places"
arms = ["placebo", "low", "high", "later"]
agents = ["North", "South", "East", "West"]
audience = "{audience}"
tolerance = 0.2
control = "placebo"
dormant = ["later"]
max_samples = 200000

[sampling]
price = 2.0
rate = [10, 20, 10, 5]
delay = 3

[sites]
counts = "flexible"

[weights]
kind = "matrix"
matrix = [[0.7, 0.2, 0.0, 0.1], [0.2, 0.7, 0.0, 0.1], [0.0, 0.0, 1.0, 0.0], [0.1, 0.1, 0.0, 0.8]]
"""
MEANS = np.array([[0.9, 0.2, 0.1, 0.9], [0.1, 0.9, 0.2, 0.1], [0.4, 0.1, 0.9, 0.4], [0.0, 0.0, 0.0, 0.0]])
SHOWN = ("aria-label", "title", "placeholder", "data-label", "alt")
CODE = ("code", "pre", "script", "style", "textarea")
PAGES = [below for below in OF_A_STUDY if not below.endswith((".csv", ".json"))]
PREVIEWS = ("?freeze=West", "?reweigh=1", "?close-early=1", "?withdraw-arm=low", "?open-arm=later", "?freeze=Nobody")


class Spoken(HTMLParser):
    """What a page says to its reader: text, labels and titles; neither code nor addresses nor names of fields."""

    def __init__(self, page):
        super().__init__()
        self.said, self.within = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.said += [value for name, value in attributes if name in SHOWN and value]
        if tag in CODE:
            self.within.append(tag)

    def handle_endtag(self, tag):
        if tag in CODE:
            self.within.remove(tag)

    def handle_data(self, data):
        if not self.within:
            self.said.append(data)


def wrong(audience, page):
    """The pieces of a page with a word that the audience does not use; roles, kinds of records and keys are names."""
    names = re.compile(r"\bagent:|\b(agent|arm)-\w+|\b[a-z]+\.[a-z_]+|Money spent")
    plain = (names.sub("", piece) for piece in Spoken(page).said)
    return [piece.strip()[:200] for piece in plain if not_said(audience, piece)]


@pytest.fixture(scope="module")
def running(here):
    """Address -> page, of a study of a trial in its second phase."""
    study = here.create(STUDY.replace("{audience}", "trial"), "running")
    here.phase(study, MEANS)
    with here.browser() as browser:
        pages = (*PAGES, f"/administration{PREVIEWS[0]}")
        return {page: browser.get(f"/studies/{study}{page}").text for page in pages}


@pytest.fixture(scope="module")
def visited(here):
    """Address -> page, of a study of a trial in its first phase, in its second, held up, and at its end."""
    study = here.create(STUDY.replace("{audience}", "trial"), "trial")
    found = {}
    with here.browser() as browser:

        def visit(when, *pages):
            found.update({f"{when}: {page}": browser.get(f"/studies/{study}{page}").text for page in pages})

        visit("first", "", "/answer", "/administration")
        here.phase(study, MEANS, but=("West",))
        visit("waiting", "", "/administration?close-early=1")
        here.phase(study, MEANS)
        visit("second", *PAGES, *(f"/administration{preview}" for preview in PREVIEWS))
        page = browser.get(f"/studies/{study}/administration?freeze=West")
        digest = re.search(r'name="preview" value="([0-9a-f]{64})"', page.text)[1]
        said = {"reason": "closed", "preview": digest, "agent": "West", "reweigh": "yes"}
        browser.post(f"/studies/{study}/freeze", data=said)
        visit("frozen", "", "/administration?thaw=West")
        here.run(study, MEANS)
        visit("end", *PAGES)
    with here.browser(here.issue("viewer", study=study)) as browser:
        found |= {f"viewer: {page}": browser.get(f"/studies/{study}{page}").text for page in PAGES}
    return found


def assert_plain(pages):
    found = {where: pieces for where, page in pages.items() if (pieces := wrong("trial", page))}
    pieces = "\n".join(f"{where}: {piece}" for where, pieces in found.items() for piece in pieces)
    assert not found, f"mark these, as in {{{{ _(...) }}}}, then `make generated` and translate:\n{pieces}"


def test_no_page_of_a_running_trial_has_a_researchers_word(running):
    assert_plain(running)
    assert '<h2 id="board-title">Sites and treatments</h2>' in running[""]
    assert ">Participants</a>" in running["/answer"]  # a tab


@pytest.mark.simulations
def test_no_page_of_a_trial_has_a_researchers_word(visited):
    assert_plain(visited)
    assert '<h2 id="board-title">Sites and treatments</h2>' in visited["second: "]
    assert "Participants so far" in visited["second: "]
    assert '<th scope="col">Treatment</th>' in visited["end: /report"]
    assert ">Participants</a>" in visited["end: /answer"]  # a tab


@pytest.mark.simulations
def test_nor_one_of_an_experiment(here):
    study = here.create(STUDY.replace("{audience}", "experiment"), "experiment")
    here.phase(study, MEANS)
    with here.browser() as browser:
        for below in PAGES:
            page = browser.get(f"/studies/{study}{below}").text
            assert not wrong("experiment", page), below
            assert ">Visitors</a>" in page or below.startswith("/report")  # a tab


def test_who_states_no_audience_reads_the_researchers_words(here):
    here.create(TWO, "plain")
    with here.browser() as browser:
        assert wrong("trial", browser.get("/studies/plain").text)


@pytest.mark.simulations
@pytest.mark.parametrize("audience", NOT_SAID)
def test_nor_what_is_shown_before_a_study_is_launched(here, audience):
    with_budget = f'audience = "{audience}"\nmax_samples = 500\n{TWO}'.replace("Two sites", "Two places")
    with here.browser() as browser:
        said = {"do": "estimate", "study": with_budget}
        page = browser.post("/new", data=said).text.partition('<section id="edit"')[0]  # below are keys and meanings
    assert "What it is likely to cost" in page
    assert not wrong(audience, page)


def test_a_name_in_a_message_is_text():
    says = '{{ _("Arms of %(agent)s", agent=name) }}, {% trans name=name %}<i>{{ name }}</i>{% endtrans %}, {{ one }}'
    many = '{{ ngettext("%(num)s sample of %(arm)s", "%(num)s samples of %(arm)s", 1200, arm=name) }}'
    with reading("trial"):
        shown = environment().from_string(f"{says}, {many}").render(name="<b>%s", one=translated("all <b> rewards"))
    name = "&lt;b&gt;%s"
    assert shown == f"Treatments of {name}, <i>{name}</i>, all &lt;b&gt; rewards, 1,200 participants on {name}"
