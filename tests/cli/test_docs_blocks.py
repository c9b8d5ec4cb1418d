"""The blocks of the pages that the site's build does not run: study files, sweeps, and what one types into a shell.

Every command that stands in a block is parsed by the command line itself, whatever it would do. Those that need no
coordinator are then run, and those of the first steps in production, in their order, with one coordinator.
"""

import re
import shlex
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.coordinator.support import House
from tests.test_documentation import PAGES

from parley.agent.tables import Warehouse
from parley.cli.main import main
from parley.coordinator.record import open_storage
from parley.experiments.sweeps.sweep import parse_sweep
from parley.policies import make_policy
from parley.study import parse_study

ROOT = Path(__file__).parents[2]
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
BASE = 'arms = ["placebo", "A", "B"]\nagents = 3\n'  # what a part of a study file is read with


def blocks(page, *kinds):
    return [text for kind, text in FENCED.findall(page.read_text("utf-8")) if kind in kinds]


def typed(page):
    """Every `parley ...` of a page's blocks, fenced or indented, without what stands before and the comment behind."""
    page = re.sub(r"\\\n\s*", "", page.read_text("utf-8"))  # a command may go on in the next line
    lines = [line for kind, text in FENCED.findall(page) if kind in ("", "sh", "bash") for line in text.splitlines()]
    lines += re.findall(r"^    (?!  )(.+)$", FENCED.sub("", page), flags=re.MULTILINE)
    found = [re.match(r"(?:PARLEY_\w+=\S+ |#\s+)?(?:\.venv/bin/)?parley ([a-z].*)", line) for line in lines]
    return [shlex.split(one[1], comments=True) for one in found if one]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=lambda page: page.name)
def test_what_is_shown_of_a_file_is_read(page, tmp_path):
    for text in blocks(page, "toml"):
        document = tomllib.loads(text)
        if "query" in document:
            file = tmp_path / "outcomes.toml"
            file.write_text(text, encoding="utf-8")
            assert Warehouse.load(str(file)).ordered == ("ORDER BY" in document["query"])
            continue
        if "axes" in document:
            assert len(parse_sweep(document, folder=ROOT / "examples" / "sweeps").cells) > 1
            continue
        study = parse_study(document if "arms" in document else tomllib.loads(BASE + text))
        assert make_policy(study.policy, study.problem, study.options, study.instance)


@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)], ids=lambda page: page.name)
def test_the_command_line_understands_what_is_typed(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for words in typed(page):
        command, context, rest = main, None, words
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            inner = command.get_command(click.Context(command), rest[0])
            assert inner is not None, f"{page.name}: {words}"
            context, command, rest = click.Context(command, parent=context), inner, rest[1:]
        assert not command.params or _parsed(command, rest, context), f"{page.name}: {words}"
        for word in words:
            if word.startswith(("examples/", "simulate:examples/")):
                assert (ROOT / word.removeprefix("simulate:")).exists(), word


def _parsed(command, rest, parent):
    """What click makes of the words; a file that is only here in the reader's folder is no mistake."""
    try:
        return command.make_context("x", list(rest), parent=parent)
    except click.BadParameter as error:
        return "does not exist" in str(error)


# Commands that need no coordinator are run as they stand, but for fewer simulated studies.
ALONE = ("analyze", "bounds", "demo", "figures", "plan", "report", "simulate", "sweep")
FEWER = {"analyze": 5, "demo": 5, "plan": 2, "simulate": 5}
LONG = {"--live", "--operating", "--power", "--report"}  # minutes each; they have tests of their own


def alone(page):
    return [words for words in typed(page) if words[0] in ALONE and not LONG & set(words)]


@pytest.mark.simulations
@pytest.mark.parametrize("page", [page for page in PAGES if alone(page)], ids=lambda page: page.name)
def test_what_needs_no_coordinator_is_typed(page, tmp_path, monkeypatch):
    """In a folder of its own, where `mine.toml` is the study file of the README."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    study = blocks(ROOT / "README.md", "toml")[0]
    (tmp_path / "mine.toml").write_text(study, encoding="utf-8")
    for words in alone(page):
        fewer = ["--replications", str(FEWER[words[0]])] if words[0] in FEWER else []
        assert type_in([*words, *fewer]), words


@pytest.mark.servers
def test_the_first_steps_in_production_are_typed(tmp_path, monkeypatch):
    commands = typed(ROOT / "docs" / "production.md")
    for name in ("PARLEY_DB", "PARLEY_SERVER", "PARLEY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    init = commands.pop(0)
    assert "Token written to root.token" in type_in(init)
    monkeypatch.setenv("PARLEY_TOKEN_FILE", "root.token")  # as the page exports it
    assert commands.pop(0)[0] == "serve"  # here: a coordinator in this process, on a free port
    storage = open_storage("parley.db")
    house = House(storage, admin=Path("root.token").read_text().strip())
    monkeypatch.setenv("PARLEY_SERVER", house.url)
    try:
        create, status, *agents = commands[:5]
        type_in(create)
        assert "waits for agent 1" in type_in(status)
        with ThreadPoolExecutor() as sites:
            assert list(sites.map(lambda words: main(words, standalone_mode=False), agents)) == [None] * 3
        assert "Sound." in type_in(commands[5])
        backup, checked = (words for words in commands if any("2026-01-01" in word for word in words))
        type_in(backup)
        assert "Sound." in type_in(checked)
        for line in re.findall(
            r"^    parley (doctor.*?)(?: +#.*)?$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE
        ):
            if "..." not in line:
                assert "parley.db" in type_in(shlex.split(line))
    finally:
        house.close()
        storage.close()


def type_in(words):
    """A command in this process: what it prints."""
    result = CliRunner().invoke(main, words, standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return " ".join(result.output.split())
