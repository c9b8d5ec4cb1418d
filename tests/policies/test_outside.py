"""Policies of other packages: found by an entry point, imported when a study asks for one, refused in plain words."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from tests.cli.test_commands import parley
from tests.recipes.test_policy import DOUBLING
from tests.support import code_of_page

from parley.dashboard.render import error_bound
from parley.policies import make_policy
from parley.study import load_study
from parley.system import extensions

ROOT = Path(__file__).parents[2]
STUDY = str(ROOT / "examples" / "paper.toml")


def installed(
    folder: Path, points: str, *, name: str = "ours", module: str = DOUBLING, group: str = "parley.policies"
) -> Path:
    """A package as an installer leaves it: a module, and metadata with entry points."""
    (folder / f"{name}.py").write_text(module, encoding="utf-8")
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{points}\n", encoding="utf-8")
    return folder


def run(beside: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(beside), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)


def simulation(policy: str) -> tuple[str, ...]:
    return ("simulate", STUDY, "--policy", policy, "--replications", "20", "--seed", "1", "--json")


@pytest.fixture
def simulate(monkeypatch):
    """The same without a new interpreter: it finds the packages of a folder, and forgets them."""

    def forget():
        importlib.invalidate_caches()
        extensions.forget()
        for name in ("ours", "theirs"):
            sys.modules.pop(name, None)

    def call(beside: Path, policy: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.syspath_prepend(beside)
        forget()
        return parley(*simulation(policy))

    yield call
    forget()


def test_a_study_may_ask_for_the_policy_of_an_installed_package(tmp_path):
    done = run(installed(tmp_path, "doubling = ours:Doubling"), "parley", *simulation("doubling"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["policy"] == "doubling"
    assert found["guarantee"] == "NO GUARANTEE: the policy doubling claims no guarantee"
    assert found["error_rate"] <= 0.1


@pytest.mark.parametrize("name", ["evidence", "wcpe", "uniform"])
def test_a_rule_that_inherits_claims_nothing_unless_it_says_so(name):
    ours = make_policy(name, load_study(STUDY).problem)
    assert ours.guarantee.startswith("all answers right with probability at least 0.9")

    class Changed(type(ours)):
        """Another rule."""

        name = "changed"

    class Proven(Changed):
        proven = True

    options = {key: value for key, value in vars(ours).items() if key in {field.name for field in fields(ours)}}
    assert "NO GUARANTEE" in Changed(**options).guarantee
    assert "with probability" not in Changed(**options).guarantee
    assert error_bound(Changed(**options).guarantee, 0.1) == "not bounded: this policy has no guarantee"
    assert Proven(**options).guarantee == ours.guarantee


def test_the_tutorial_keeps_to_its_forty_lines():
    assert len(DOUBLING.strip().splitlines()) <= 40


@pytest.mark.servers
def test_the_conformance_suite_runs_over_it(tmp_path):
    """As a reader of the tutorial does it: the policy and the test, both as the page has them."""
    beside = installed(tmp_path, "doubling = ours:Doubling")
    test = tmp_path / "test_doubling.py"
    test.write_text(code_of_page("docs/tutorials/own-policy.md", "class TestDoubling"), encoding="utf-8")
    for suite in (("--pyargs", "parley.testing.conformance.installed", "-k", "doubling"), (str(test),)):
        done = run(beside, "pytest", *suite, "-q", "-p", "no:cacheprovider")
        assert done.returncode == 0, done.stdout
        assert "19 passed" in done.stdout


@pytest.mark.parametrize(
    ("points", "module", "asked", "says"),
    [
        ("evidence = ours:Doubling", DOUBLING, "evidence", "found evidence of parley and of the package ours"),
        ("doubling = ours:Tripling", DOUBLING, "doubling", "of the package ours (ours:Tripling), which cannot be imp"),
        ("doubling = ours:Doubling", "import nowhere", "doubling", "ModuleNotFoundError: No module named 'nowhere'"),
        ("doubling = ours:np", DOUBLING, "doubling", "a subclass of parley.Policy with the name doubling"),
        ("trebling = ours:Doubling", DOUBLING, "trebling", "a subclass of parley.Policy with the name trebling"),
        (
            "doubling = ours:Doubling",
            DOUBLING.replace("first: int = 50", "first: int = 50\n    sizes: tuple[int, ...] = ()"),
            "doubling",
            "whose option sizes is none; allowed: str, float, float | None, int, int | None, bool",
        ),
        ("doubling = ours:Doubling", DOUBLING, "douling", "found 'douling'; allowed: one of doubling, evidence"),
    ],
)
def test_what_cannot_be_used_is_refused_in_plain_words(tmp_path, simulate, points, module, asked, says):
    done = simulate(installed(tmp_path, points, module=module), asked)
    assert done.returncode == 2
    assert says in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr


def test_two_packages_with_one_name_are_told_apart_by_nobody(tmp_path, simulate):
    installed(tmp_path, "doubling = ours:Doubling")
    done = simulate(installed(tmp_path, "doubling = theirs:Doubling", name="theirs"), "doubling")
    assert done.returncode == 2
    assert "of the package ours and of the package theirs" in " ".join((done.stdout + done.stderr).split())
    others = simulate(tmp_path, "uniform")
    assert others.returncode == 0, "what is not asked for does no harm"


def test_nothing_but_the_suites_needs_pytest():
    names = "parley.cli.main, parley.service.server, parley.site, parley.agent"
    done = run(Path(), "timeit", "-n1", "-r1", f"import sys, {names}; assert 'pytest' not in sys.modules")
    assert done.returncode == 0, done.stderr
