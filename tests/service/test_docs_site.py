"""The pages that the documentation site writes from the code have everything in them. `make docs` builds the whole."""

import importlib
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.pages import write

from parley.cli.main import COMMANDS
from parley.coordinator.problems import PROBLEMS
from parley.hooks import commands_of_edges

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(DOCS))
    try:
        import _pages

        yield _pages
    finally:
        sys.path.remove(str(DOCS))


def test_every_command_is_told_with_its_options(pages):
    text = pages.commands.page()
    for name in (*COMMANDS, *commands_of_edges()):
        assert f"## `parley {name}`" in text
    assert "`--replications INTEGER`" in text
    assert "### `parley admin create-study`" in text
    assert "\b" not in text


def test_every_route_and_problem_is_told(pages):
    text = pages.http_api.page()
    for slug in PROBLEMS:
        assert f"urn:parley:problem:{slug}`" in text
    for route in ("PUT /v1/studies/{study}/phases/{phase}/reports/{agent}", "POST /v1/estimates"):
        assert f"### `{route}`" in text


@pytest.mark.simulations
def test_every_public_name_is_told(pages):
    import parley

    made = pages.python_api.pages()
    for name in parley.__all__:
        assert f" {name}" in made["parley"]
    assert ">>> " in made["policies"]


def test_no_two_classes_of_the_reference_have_one_name(pages):
    """A signature names a class without its room: with two of that name, the site would warn, which fails its build."""
    shown = {}
    for _, rooms in pages.python_api.ROOMS.values():
        for name in (one for room in rooms for one in pages.python_api._modules(room)):
            module = importlib.import_module(name)
            for public in pages.python_api.public_names(module):
                thing = getattr(module, public)
                if inspect.isclass(thing):
                    shown.setdefault(public, set()).add(thing)
    assert len(shown) > 50
    assert {name: found for name, found in shown.items() if len(found) > 1} == {}


def test_a_table_that_is_a_file_is_shown_on_its_page(pages, tmp_path):
    page = tmp_path / "appendix" / "peers.md"
    page.parent.mkdir()
    write(page, "# Peers\n\n| rule | samples |\n|---|---|\n| KN | 498 ± 3 |\n")
    watched = []
    app = SimpleNamespace(env=SimpleNamespace(doc2path=lambda _: str(page), note_dependency=watched.append))
    source = [page.read_text()]
    pages.tables.show_tables(app, "appendix/peers", source)
    shown = "# Peers\n\n| rule | samples |\n|---|---|\n| KN | 498\xa0±\xa03 |\n\n"
    assert source == [shown + "[This table as CSV](../tables/peers/peers.csv)\n"]
    assert watched == [str(tmp_path / "tables" / "peers" / "peers.csv")]
