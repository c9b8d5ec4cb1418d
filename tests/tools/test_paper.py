"""What is there to cite: the preprint, CITATION.cff, and the archive of the figures' data."""

import hashlib
import json
import re
import shutil
import zipfile

import pytest
import yaml
from tools import figures, paper

from parley import __version__
from parley.cli.main import COMMANDS
from parley.hooks import commands_of_edges

ROOT = figures.ROOT
TEXT = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


@pytest.fixture(scope="module")
def head():
    return yaml.safe_load(TEXT.split("---\n")[1])


def test_the_preprint_has_the_form_that_joss_asks_for(head):
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(head)
    sections = re.findall(r"^# (.*)$", TEXT, flags=re.MULTILINE)
    assert sections[:3] == ["Summary", "Statement of need", "The policy and its guarantees"]
    assert sections[-1] == "References"


def test_every_reference_is_cited_and_every_citation_has_its_reference(head):
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / head["bibliography"]).read_text(encoding="utf-8"), re.M)
    assert len(entries) == len(set(entries))
    assert set(re.findall(r"@(\w+)", TEXT.split("---\n", 2)[2])) == set(entries)


def test_the_commands_and_files_that_it_names_are_there():
    quoted = [" ".join(words.split()) for words in re.findall(r"`([^`]+)`", TEXT)]
    for words in quoted:
        command, _, rest = words.partition(" ")
        if command == "make":
            assert rest in TARGETS, words
        elif command == "parley":
            assert rest.split()[0] in {*COMMANDS, *commands_of_edges()}, words
        elif "/" in command:
            assert (ROOT / command).exists(), words
    assert sum(words.startswith(("make ", "parley ")) for words in quoted) >= 5, "figures are made by commands"


def test_nobody_is_invented(head):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for authors in (head["authors"], citation["authors"], citation["preferred-citation"]["authors"]):
        assert [one["name"] for one in authors] == ["The Parley developers"]
    assert citation["version"] == __version__
    assert citation["title"] == citation["preferred-citation"]["title"] == head["title"]
    assert {"cff-version", "message", "type", "abstract", "license", "keywords", "references"} <= set(citation)


def test_the_tables_are_those_of_the_files():
    with_errors, with_costs = paper.errors(), paper.costs()
    assert with_errors in TEXT
    assert with_costs in TEXT
    worst = [float(value) for value in re.findall(r"\| ([\d.]+) ± ", with_errors)]
    assert len(worst) > 10
    assert max(worst) < 1, "the text says that no entry exceeds 1"
    with (ROOT / "docs" / "reproduction" / "table2.csv").open(encoding="utf-8") as file:
        assert with_costs.count("\n") - 1 == len({line.split(",")[0] for line in file}) - 1


def test_without_pandoc_the_paper_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "No PDF: pandoc is not installed" in paper.make_pdf()
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/pandoc" if name == "pandoc" else None)
    assert "No PDF: one of tectonic, xelatex" in paper.make_pdf()


def test_the_archive_has_all_data_with_checksums_and_commands_and_is_the_same_twice(tmp_path):
    first, again = (figures.archive(tmp_path / name) for name in ("first", "again"))
    assert first.name == f"parley-figures-{__version__}.zip"
    assert first.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(first) as opened:
        manifest = json.loads(opened.read("MANIFEST.json"))
        assert manifest["parley"] == __version__
        assert {"MANIFEST.json", *(one["file"] for one in manifest["files"])} == set(opened.namelist())
        for one in manifest["files"]:
            assert hashlib.sha256(opened.read(one["file"])).hexdigest() == one["sha256"]
            made_by, named = one["made_by"], r"python -m tools\.(correctness|trials) [a-z-]+|by hand"
            assert made_by.removeprefix("make ") in TARGETS or re.fullmatch(named, made_by), (
                f"{one}: name what makes it in MADE_BY of tools/figures.py"
            )
        assert opened.read("data/tables/savings/random-instances.csv").startswith(b"N,instances,")
    sources = {one["from"] for one in manifest["files"]}
    for pattern in figures.SOURCES:
        assert sources & {path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)}, f"nothing of {pattern}"
    for path in (
        *(ROOT / "docs").glob("*.json"),
        *(ROOT / "docs").glob("reproduction/*.csv"),
        *(ROOT / "docs").glob("tables/*/*.csv"),
    ):
        assert path.relative_to(ROOT).as_posix() in sources, f"add {path.name} to SOURCES of tools/figures.py"
