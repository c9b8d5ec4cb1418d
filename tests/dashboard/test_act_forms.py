"""Every act has a form on a page: the general one in its section, or one of its own."""

import re
from pathlib import Path
from typing import get_args

import parley.dashboard
from parley.dashboard.pages.administration import OWN_FORMS, form_of
from parley.protocol.acts import ACTS, Section

TEMPLATES = Path(parley.dashboard.__file__).parent / "templates"
PAGE = (TEMPLATES / "administration.html").read_text(encoding="utf-8")


def test_every_section_shows_the_acts_without_a_form_of_their_own():
    shown = re.findall(r'\{\{ forms_of\("(\w+)"\) }}', PAGE)
    assert sorted(shown) == sorted(set(get_args(Section)) - {"answer"})
    unseen = [name for name, act in ACTS.items() if name not in OWN_FORMS and act.section not in shown]
    assert not unseen, f"no page has a form for {unseen}: state another section"


def test_a_form_of_its_own_stands_in_a_template():
    pages = PAGE + (TEMPLATES / "answer.html").read_text(encoding="utf-8")
    assert ACTS.keys() >= OWN_FORMS
    for name in OWN_FORMS:
        assert re.search(rf'/{name}"|acts\.{name}\b|acts\["{name}"]|query\({name}=|"{name}": ', pages), name


def test_a_form_asks_for_what_the_body_has():
    assert form_of(ACTS["pause"]).plain
    assert form_of(ACTS["pause"]).messages == []
    refuse = form_of(ACTS["refuse"])
    assert [name for name, _, _ in refuse.inputs] == ["phase", "agent", "report", "reason"]
    assert refuse.messages[0] == ACTS["refuse"].words
    # With a preview, the reason is asked for beside it, and so is the act that may follow.
    freeze = form_of(ACTS["freeze"])
    assert [name for name, _, _ in freeze.inputs] == ["agent"]
