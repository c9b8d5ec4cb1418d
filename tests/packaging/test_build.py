"""What is installed is what is in the tree: every module, template, style sheet, font and example."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name
from tools.packaging.builds import ROOT, build, write_sbom

from parley import __version__
from parley.cli.doctor import extras as listed_extras


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


def tracked(*folders):
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


@pytest.mark.servers
def test_the_wheel_has_every_file_of_the_package(built):
    with zipfile.ZipFile(built[0]) as archive:
        inside = set(archive.namelist())
    wanted = {path.removeprefix("src/") for path in tracked("src/parley")}
    assert wanted <= inside
    assert "parley/dashboard/static/fonts/inter.woff2" in inside
    assert not [name for name in inside if name.endswith(".pyc") or name.startswith("tests")]


@pytest.mark.servers
def test_the_sdist_has_what_a_build_needs_and_the_examples(built):
    with tarfile.open(built[1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked("src/parley", "examples") <= inside
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"} <= inside


@pytest.mark.servers
def test_another_copy_at_another_time_gives_the_same_bytes(built, tmp_path):
    """Other times and modes of files, another folder, another order of the directory."""
    for name in sorted(tracked("src/parley", "examples", ":(glob)*"), reverse=True):
        copy = tmp_path / "copy" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
        copy.chmod(0o600)
        os.utime(copy, (1e9, 1e9))
    again = build(tmp_path / "dist", tmp_path / "copy")
    for first, second in zip(built, again, strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.servers
def test_the_sbom_lists_what_is_installed(tmp_path):
    """All of it, with versions, Parley too, and nothing else; `make sbom` also validates it by CycloneDX's schema."""
    write_sbom(Path(sys.executable), tmp_path / "sbom.json", "--no-validate")
    document = json.loads((tmp_path / "sbom.json").read_text(encoding="utf-8"))
    listed = {(canonicalize_name(one["name"]), one["version"]) for one in document["components"]}
    assert document["bomFormat"] == "CycloneDX"
    assert listed == {(canonicalize_name(one.name), one.version) for one in metadata.distributions()}
    assert {name for name, _ in listed} >= {"parley", "numpy", "starlette"}


def test_the_citation_is_of_this_version_and_names_the_paper():
    """The keys that the schema of CFF 1.2.0 requires, of the software and of what it refers to."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["cff-version"], citation["version"]) == ("1.2.0", __version__)
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["title"] in (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


def test_a_release_is_one_version_everywhere():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line for line in changelog.splitlines() if line.startswith("## ")]
    newest = next(line for line in headings if line != "## Unreleased")
    assert newest.split()[1] == __version__


def test_doctor_knows_every_extra_that_is_for_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for_developers = {"judge", "lint", "release", "docs", "dev"}
    extras = {name for name in project["optional-dependencies"] if not name.startswith("test")}
    assert set(listed_extras()) - {""} == extras - for_developers


def test_the_docker_images_ask_for_what_exists():
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for line in image.splitlines():
        if line.startswith("COPY ") and "--from=" not in line:
            for name in line.split()[1:-1]:
                assert (ROOT / name).exists(), name
    for extras in re.findall(r"'\.\[(.*)\]'", image):
        assert set(extras.split(",")) <= set(listed_extras())
    stages = {name: base for base, name in re.findall(r"^FROM (\S+) AS (\S+)$", image, flags=re.MULTILINE)}
    assert image.count("\nFROM ") == len(stages)
    assert [name for name, base in stages.items() if base == "base"] == ["agent", "site", "coordinator"]
    assert "USER 10001" in image.split("AS base")[1].split("FROM")[0]
    assert "--constraint constraints.txt" in image
    assert image.count("pip install") == image.count("pip install --constraint constraints.txt")


def test_compose_migrates_before_it_serves():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert services["migrate"]["command"][:2] == ["admin", "init"]
    assert services["server"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    for name in ("migrate", "server"):
        assert services[name]["build"]["target"] == "coordinator"
        assert services[name]["image"].endswith(f":${{PARLEY_VERSION:-{__version__}}}")
        assert services[name]["read_only"] is True


def test_the_workflows_run_what_exists():
    workflows = ROOT / ".github" / "workflows"
    tests = (workflows / "test.yml").read_text(encoding="utf-8")
    assert ".ci/run" in tests
    for name in re.findall(r"(?:tests|src|examples)/[\w/.]+", tests):
        assert (ROOT / name).exists(), name
    release = yaml.safe_load((workflows / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert release["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in tests
    steps = [step.get("run", step.get("uses", "")) for step in release["build"]["steps"]]
    assert "make sbom" in steps
    assert [step for step in steps if step.startswith("actions/attest-")]
    assert release["publish"]["permissions"] == {"id-token": "write"}
    assert all(job["needs"] for name, job in release.items() if name != "test"), "nothing is released untested"
