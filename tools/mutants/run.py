"""Run a test in a separate process, against the package with one flaw in it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.mutants.table import Mutant

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "parley"


def patched(mutant: Mutant) -> str:
    """The text of the mutant's file, with the flaw."""
    text = (SOURCE / mutant.file).read_text(encoding="utf-8")
    found = text.count(mutant.old)
    if found != 1:
        raise AssertionError(f"{mutant.file} has {mutant.old!r} {found} times: bring the table up to date")
    return text.replace(mutant.old, mutant.new)


PLAIN = ("-o", "addopts=--doctest-modules --import-mode=importlib --strict-markers")  # without ordering tests


def passes(test: str, mutant: Mutant | None = None) -> tuple[bool, str]:
    """Whether the test passes, with the flaw if one is given; and the end of its output."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "parley"
        shutil.copytree(SOURCE, where, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            (where / mutant.file).write_text(patched(mutant), encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *PLAIN, test],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    return ran.returncode == 0, ran.stdout[-400:] + ran.stderr[-400:]
