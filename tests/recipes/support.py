"""A copy of the product to which a recipe of CONTRIBUTING.md was applied; programs and tests run against it."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import parley
from parley.cli.main import run

ROOT = Path(__file__).parents[2]


class Product:
    """The copy. Every file of `src` that a recipe touches is counted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.touched = folder, set()
        shutil.copytree(Path(parley.__file__).parent, folder / "parley", ignore=shutil.ignore_patterns("__pycache__"))

    def new(self, name: str, text: str) -> None:
        """A new file."""
        path = self.folder / "parley" / name
        assert not path.exists(), f"{name} is there already"
        path.write_text(text, encoding="utf-8")
        self.touched.add(name)

    def put(self, name: str, text: str, *, before: str | None = None, after: str | None = None) -> None:
        """Text before or after the only place where a file says something; at its end if neither is given."""
        path = self.folder / "parley" / name
        old = path.read_text(encoding="utf-8")
        anchor = before or after
        if anchor is None:
            place = len(old)
        else:
            assert old.count(anchor) == 1, (
                f"{name} has {anchor!r} {old.count(anchor)} times: bring the recipe up to date"
            )
            place = old.index(anchor) + (len(anchor) if after else 0)
        path.write_text(old[:place] + text + old[place:], encoding="utf-8")
        self.touched.add(name)

    def run(self, *words: str) -> str:
        """What a module prints, run with the copy; it must succeed."""
        paths = os.pathsep.join([str(self.folder), str(ROOT)])
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=self.folder, env=os.environ | {"PYTHONPATH": paths},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def passes(self, *tests: str) -> str:
        """The summary of these tests, run with the copy."""
        where = [
            str(ROOT / test) if not test.startswith("-") and (ROOT / test.split("::")[0]).exists() else test
            for test in tests
        ]
        options = (
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "--randomly-dont-reorganize",
            "--rootdir",
            str(ROOT),
            "-c",
            str(ROOT / "pyproject.toml"),
        )
        return self.run("pytest", *options, *where).splitlines()[-1]


def capture(*words):
    """What a command prints, as one line."""
    sys.argv = ["parley", *words]
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
        run()
    return " ".join(out.getvalue().replace("│", " ").split())
