"""What is installed is what is in the tree: every module, template, style sheet, font and example."""

import subprocess
import tarfile
import tomllib
import zipfile

import pytest
from tools.packaging.builds import ROOT, build

from parley.cli.doctor import EXTRAS


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


def tracked(*folders):
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


def test_the_wheel_has_every_file_of_the_package(built):
    with zipfile.ZipFile(built[0]) as archive:
        inside = set(archive.namelist())
    wanted = {path.removeprefix("src/") for path in tracked("src/parley")}
    assert wanted <= inside
    assert "parley/dashboard/static/fonts/inter.woff2" in inside
    assert not [name for name in inside if name.endswith(".pyc") or name.startswith("tests")]


def test_the_sdist_has_what_a_build_needs_and_the_examples(built):
    with tarfile.open(built[1]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked("src/parley", "examples") <= inside
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} <= inside


def test_doctor_knows_every_extra_that_is_for_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for_developers = {"judge", "test", "lint", "docs", "dev"}
    assert set(EXTRAS) - {""} == set(project["optional-dependencies"]) - for_developers


def test_the_docker_image_and_the_workflow_ask_for_what_exists():
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert ".[server]" in image
    for line in image.splitlines():
        if line.startswith("COPY "):
            for name in line.split()[1:-1]:
                assert (ROOT / name).exists(), name
    assert ".ci/run" in (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
