"""Edges of other packages: found by an entry point, and refused in plain words; the middle names none."""

import ast
import importlib
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.coordinator.support import House, eventually, study_message
from tests.dashboard.site import site
from tests.house.importers import modules
from tests.house.test_pages import DOCS, anchors

from parley import hooks
from parley.cli.main import main
from parley.coordinator.record import open_storage
from parley.dashboard import render
from parley.errors import InvalidInput
from parley.text import translation
from parley.text.translation import gettext, reading

BELLS = Path(__file__).parent / "bells.py"


def run(*words):
    done = CliRunner().invoke(main, list(words))
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package as an installer leaves it: a module, and metadata with an entry point."""

    def forget():
        importlib.invalidate_caches()
        hooks.edges.cache_clear()
        render._edge_templates.cache_clear()
        translation._words.cache_clear()
        sys.modules.pop("bells", None)

    def install(point="bells = bells:edge", module=None, name="chimes"):
        if module is None:
            shutil.copy(BELLS, tmp_path / "bells.py")
        else:
            (tmp_path / "bells.py").write_text(module, encoding="utf-8")
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(f"[parley.edges]\n{point}\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        forget()

    yield install
    monkeypatch.undo()
    forget()


def test_an_edge_of_another_package_has_a_command_a_route_a_page_and_hears_of_commits(
    installed, prepared_sqlite, tmp_path
):
    installed()
    assert len(BELLS.read_text(encoding="utf-8").splitlines()) <= 60
    assert run("bells") == (0, "Ding.")
    assert "More commands: bells Ring a bell." in run("--help")[1]
    assert "of another package" in run("doctor")[1]
    (tmp_path / "parley.db").write_bytes(prepared_sqlite.read_bytes())
    storage = open_storage(str(tmp_path / "parley.db"))
    house = House(storage)
    try:
        assert house.admin.request("GET", "bells") == {"bells": 0}
        message = study_message(agents=1, arms=2, policy="uniform")
        house.run(message, house.create(message))
        sequence = house.admin.status("trial")["sequence"]
        (tower,) = [one for one in house.app.state.context.services if type(one).__name__ == "Tower"]
        assert eventually(lambda: ("trial", sequence) in tower.rung), "the last commit too"
        assert "/v1/bells" in house.admin.request("GET", "openapi.json")["paths"]
    finally:
        house.close()
        storage.close()
    with site(tmp_path, db=str(tmp_path / "pages.db")) as made:
        with made.browser() as browser:
            assert '<a href="/bells">Bells</a>' in browser.get("/").text
            assert browser.get("/bells").text == "The bell rang 0 times."
        with made.browser(made.issue("analyst", "Ann")) as browser:
            assert "/bells" not in browser.get("/").text
            assert browser.get("/bells").status_code == 403, "through the guard of the operation"


def test_an_edge_of_another_package_brings_words_and_changes_none(installed, tmp_path):
    with reading("trial", "de"):
        save = gettext("Save")
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\n'
    (tmp_path / "words").mkdir()
    for name, words in {"de": ("Läuten", "Weg damit"), "de_trial": ("Bitte läuten", "Fort")}.items():
        both = 'msgid "Ring the bell"\nmsgstr "{}"\n\nmsgid "Save"\nmsgstr "{}"\n'.format(*words)
        (tmp_path / "words" / f"{name}.po").write_text(head + both, encoding="utf-8")
    named = f"from pathlib import Path\nBells.catalogs = Path({str(tmp_path / 'words')!r})\nedge = Bells()"
    installed(module=BELLS.read_text(encoding="utf-8").replace("edge = Bells()", named))
    for audience, words in (("trial", "Bitte läuten"), ("experiment", "Läuten")):
        with reading(audience, "de"):
            assert gettext("Ring the bell") == words
            assert gettext("Save") == save != "Save"
    assert gettext("Ring the bell") == "Ring the bell"


@pytest.mark.parametrize(
    ("point", "module", "says"),
    [
        ("bells = bells:edge", "raise OSError('no tower')", "cannot be imported: OSError: no tower"),
        ("bells = bells:edge", "edge = 3", "an instance of a subclass of parley.hooks.Edge"),
        ("chimes = bells:edge", None, "with the name chimes"),
    ],
    ids=["cannot be imported", "no edge", "another name"],
)
def test_what_cannot_be_used_is_refused_in_plain_words_and_told_by_doctor(installed, point, module, says):
    installed(point, module)
    with pytest.raises(InvalidInput, match=says):
        hooks.edges()
    _, out = run("doctor")
    assert says in out
    assert "complete" in out, "and what is there"
    assert run("bounds", "--help")[0] == 0, "commands that need no edge are there"


def test_two_packages_with_one_name_are_told_apart_by_nobody(installed):
    installed()
    installed(name="carillon")
    with pytest.raises(InvalidInput, match="bells twice"):
        hooks.edges()


def test_a_commit_stands_whatever_an_edge_makes_of_it(installed, prepared_sqlite, tmp_path):
    broken = BELLS.read_text(encoding="utf-8").replace("self.rung = (*self.rung, ", "raise OSError(")
    installed(module=broken)
    (tmp_path / "parley.db").write_bytes(prepared_sqlite.read_bytes())
    storage = open_storage(str(tmp_path / "parley.db"))
    house = House(storage)
    try:
        message = study_message(agents=1, arms=2, policy="uniform")
        assert house.run(message, house.create(message))["stage"] == "finished"
    finally:
        house.close()
        storage.close()


def test_the_middle_names_no_edge():
    """Not even in a string: whoever deletes a folder has nothing else to look for."""
    named = [
        f"{name}:{node.lineno}"
        for name, tree in modules("parley.edges.").items()
        if not name.startswith("parley.edges")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "parley.edges." in node.value
    ]
    assert [one.partition(":")[0] for one in named] == ["parley.hooks"], named


# What only edges deal with; and where the rest has such a word for another reason.
WORDS = r"webhook|oidc|openid|timestamp|qualif(?!ied)|dossier|reproduc(e|tion)\b|openfeature|\b(ofrep|dask|ray)\b"
OTHERWISE = ("structlog.processors.TimeStamper",)


def test_the_middle_does_not_speak_of_what_edges_do():
    """In code, comments, templates or catalogs: who reads the middle does not step over an edge."""
    files = [path for path in hooks.FOLDER.parent.rglob("*") if path.suffix in (".py", ".html", ".md", ".js", ".po")]
    said = [
        f"{path.relative_to(hooks.FOLDER.parent)}: {line.strip()}"
        for path in files
        if hooks.FOLDER not in path.parents
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(WORDS, line, re.IGNORECASE) and not line.startswith("#: ")
        if not any(word in line for word in OTHERWISE)
    ]
    assert not said, "an edge brings it, or it has a neutral name"


def test_tests_and_tools_of_the_rest_do_without_edges():
    """Who deletes a folder and its tests has nothing else to delete."""
    root = DOCS.parent
    paths = [path for folder in ("tests", "tools", "benchmarks", "examples") for path in (root / folder).rglob("*.py")]
    importing = [
        str(path.relative_to(root))
        for path in paths
        if path.relative_to(root).parts[:2] != ("tests", "edges")
        if re.search(r"^ *(from|import) parley\.edges\.", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not importing


def test_types_alone_are_imported_from_above_by_the_hooks_only():
    """Import-linter does not see imports for types: below commands and edges nobody else may have them from above."""
    found = {
        name
        for name, tree in modules("TYPE_CHECKING").items()
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in node.body)
    }
    own_room = {"parley.coordinator.record.base"}
    assert {name for name in found if name.split(".")[1] not in ("cli", "edges")} == {"parley.hooks"} | own_room


def test_every_edge_names_the_section_of_the_docs_that_goes_with_it():
    told = {one["name"]: one["docs"] for one in json.loads(run("doctor", "--json")[1])["edges"]}
    for edge in hooks.own_edges():
        page, _, anchor = edge.docs.partition("#")
        assert anchor in anchors(DOCS / page), edge.docs
        assert told[edge.name] == edge.docs


def test_every_command_of_an_edge_is_where_it_says():
    for edge in hooks.own_edges():
        for command in edge.commands:
            assert command.load().help
