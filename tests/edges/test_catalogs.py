"""The words of an edge are in its folder: they come and go with it, and the rest of Parley has none of them."""

import pytest
from babel.messages.pofile import read_po
from tools import catalogs

from parley.hooks import own_edges
from parley.text import translation
from parley.text.translation import LANGUAGES, gettext, reading

SPEAKING = [edge for edge in own_edges() if edge.catalogs is not None]


def messages(path):
    """Every message of a file, with the files that say it."""
    with path.open("rb") as file:
        return {message.id: [place for place, _ in message.locations] for message in read_po(file) if message.id}


@pytest.fixture
def installed(monkeypatch):
    """Sets the edges that are there."""

    def these(edges):
        monkeypatch.setattr(translation, "edges", lambda: edges)
        translation._words.cache_clear()

    yield these
    monkeypatch.undo()
    translation._words.cache_clear()


@pytest.mark.parametrize("edge", SPEAKING, ids=lambda edge: edge.name)
def test_an_edge_that_is_removed_takes_its_words_with_it(installed, edge):
    own = sorted(one for one in messages(edge.catalogs / catalogs.TEMPLATE) if isinstance(one, str) and "%" not in one)
    others = [one for one in SPEAKING if one is not edge]
    for language in sorted({*LANGUAGES} - {"en"}):
        with reading("bandit", language):
            kept = [one for one in own if gettext(one) != one]
        assert len(kept) > len(own) / 2, "in words of their own"
        installed(others)
        with reading("bandit", language):
            assert [gettext(one) for one in kept] == kept, "and in no others"
            assert gettext("Save") != "Save", "the rest speaks on"
        installed(own_edges())


def test_no_message_of_an_edge_is_among_those_of_the_rest_of_parley():
    own = {edge.name: messages(edge.catalogs / catalogs.TEMPLATE).keys() for edge in SPEAKING}
    for path in catalogs.FOLDER.glob("*.po*"):
        found = messages(path)
        for name, said in own.items():
            assert not found.keys() & said, (name, path.name)
        alone = [one for one, places in found.items() if all(place.startswith("edges/") for place in places)]
        assert not alone, f"{path.name} has what only edges say"


def test_a_message_that_an_edge_shares_with_the_rest_is_with_the_rest():
    shared = [
        message
        for message in catalogs.extracted()
        if message.id and len({place.startswith("edges/") for place, _ in message.locations}) == 2
    ]
    assert shared, "there are some"
    assert all(catalogs.owners(message) == {""} for message in shared)
