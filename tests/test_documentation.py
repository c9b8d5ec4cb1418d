"""What the docs say is there, is there, and what they show runs."""

import ast
import doctest
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import parley
import parley.policies
from parley.cli.main import COMMANDS
from parley.hooks import commands_of_edges
from parley.policies import POLICIES, make_policy, option_names
from parley.study import load_study, parse_study

ROOT = Path(__file__).parents[1]
# Pages that people wrote: those that `make docs` writes from the code are tests/service/test_docs_site.py's.
WRITTEN = {"_build", "python", "commands.md", "http-api.md"}
PAGES = [*ROOT.glob("*.md"), *(page for page in (ROOT / "docs").rglob("*.md") if not WRITTEN & set(page.parts))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_shown_exist(page):
    known = {*COMMANDS, *commands_of_edges()}
    for name in re.findall(
        r"\bparley ([a-z-]+)", "\n".join(re.findall(r"`([^`]+)`", page.read_text(encoding="utf-8")))
    ):
        assert name in known, f"parley {name}"


def test_the_python_example_of_the_readme_runs(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert code
    for block in code:
        exec(compile(block, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_python_examples_of_the_pages_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _results_of_a_sweep(tmp_path / "parley-results" / "delta")  # what docs/experiments.md reads
    ran = 0
    for page in sorted((ROOT / "docs").glob("*.md")):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            exec(compile(block, page.name, "exec"), {})
            ran += 1
    assert ran
    assert capsys.readouterr().out


@pytest.mark.simulations
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_run_and_show_frames_a_picture_and_a_certificate(path, monkeypatch, capsys):
    """Without a kernel: `make docs` runs them in one. What a cell shows is the value of its last line."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    notebook = json.loads(path.read_text(encoding="utf-8"))
    names, shown = {}, []
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "outputs are made by the build"
        if cell["cell_type"] == "code":
            body = ast.parse("".join(cell["source"]))
            last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
            exec(compile(body, path.name, "exec"), names)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), path.name, "eval"), names))
    kinds = {type(value).__name__ for value in shown}
    assert {"DataFrame", "Problem", "Outcome"} <= kinds
    assert all(hasattr(value, "_repr_html_") for value in shown if type(value).__name__ in ("Problem", "Outcome"))
    assert len(pyplot.get_fignums()) >= 2
    pyplot.close("all")
    assert {"status", "gap_at_least"} <= set(shown[-1].columns), "the certificate of the answers"
    assert "all answers right with probability at least 0.9" in capsys.readouterr().out
    assert any(np.size(value) == 1 and np.max(value) < 1e-9 for value in shown if isinstance(value, np.ndarray)), (
        "the certificate of the bound"
    )


def _results_of_a_sweep(path):
    from parley.experiments.sweeps.engines import Engine
    from parley.experiments.sweeps.runner import run_sweep
    from parley.experiments.sweeps.storage import Folder
    from parley.experiments.sweeps.sweep import parse_sweep

    study = {"arms": 3, "agents": 2, "noise": {"scale": 1.0}, "truth": {"generate": "paper", "min_gap": 0.2}}
    document = {"name": "small", "replications": 4, "study": study, "axes": {"policy": ["wcpe", "evidence"]}}
    run_sweep(parse_sweep(document, folder=path.parent), Folder(path=path), Engine(workers=1))


def test_the_study_file_of_the_readme_is_one():
    import tomllib

    for page in ("README.md", "docs/study-file.md"):
        blocks = re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
        assert blocks
        for block in blocks:
            assert parse_study(tomllib.loads(block)).instance is not None


def test_every_policy_and_option_is_explained():
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    for name in POLICIES:
        assert f"## `{name}`" in page, f"docs/policies.md has no section ## `{name}`"
        for option in option_names(name):
            assert f"`{option}`" in page, f"docs/policies.md does not name the option `{option}` of {name}"


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.name)
def test_examples_load_and_their_commands_are_right(path):
    study = load_study(path)
    make_policy(study.policy, study.problem, study.options, study.instance)
    for line in re.findall(r"^# +(parley .*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        words = shlex.split(line.partition("  (")[0])
        assert words[1] in {*COMMANDS, *commands_of_edges()}
        assert any((ROOT / word).exists() for word in words if word.endswith(".toml"))


def test_public_names_are_explicit_and_there():
    assert sorted(parley.__all__) == sorted(set(parley.__all__))
    for name in parley.__all__:
        assert hasattr(parley, name)


@pytest.mark.parametrize("name", parley.__all__)
def test_every_public_name_has_an_example_that_runs(name):
    """In its own docstring, where pytest finds it; of a value, which has none, in that of the room where it lives."""
    words = parley.policies.__doc__ if name == "POLICIES" else getattr(parley, name).__doc__
    examples = doctest.DocTestParser().get_examples(words or "")
    assert any(example.want for example in examples)
    assert name != "POLICIES" or any(name in example.source for example in examples)
