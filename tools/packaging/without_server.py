"""Tests on a machine without a server's packages: `python -m tools.packaging.without_server` (or `make bare`).

Numeric packages need only NumPy and SciPy, and the protocol does no I/O. So their tests must run without the packages
of the extras `server` and `agent`. As a pytest plugin (`-p tools.packaging.without_server`) this module blocks their
import.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("harmonic", "bounds", "rewards", "policies", "protocol", "simulation", "correctness")
MODULES = ("coordinator", "dashboard", "agent", "service", "site", "cli", "experiments", "edges", "web")
MODULES += ("__main__.py", "__init__.py", "text")


def server_packages() -> set[str]:
    """The importable names of the packages in the extras `server` and `agent`, and Starlette below them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = {_same(re.split(r"[^A-Za-z0-9_.-]", line)[0]) for line in (*extras["server"], *extras["agent"])}
    importable = importlib.metadata.packages_distributions()
    return {name for name, owners in importable.items() if wanted & set(map(_same, owners))} | {"starlette"}


def _same(name: str) -> str:
    """The normalised spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Refuse(MetaPathFinder):
    """An import hook that treats these packages as not installed."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r} (a machine without a server)", name=fullname)


def pytest_load_initial_conftests() -> None:
    """Install the import hook before any test module is imported."""
    refused = server_packages()
    assert not refused & sys.modules.keys(), "somebody was quicker"
    sys.meta_path.insert(0, Refuse(refused))


def places() -> list[str]:
    """The tests and doctests of the numeric rooms and of the protocol."""
    rules = (path for path in (ROOT / "tests").glob("test_*.py") if path.name not in MODULES)
    tests = [*rules, *(ROOT / "tests" / room for room in ROOMS)]
    rooms = [path for path in (ROOT / "src" / "parley").iterdir() if path.suffix == ".py" or path.is_dir()]
    known = [path for path in rooms if path.name not in MODULES and not path.name.startswith((".", "__"))]
    return sorted(str(path.relative_to(ROOT)) for path in (*tests, *known))


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run pytest with these arguments and blocked imports, with only the plugin that the tests need."""
    plugins = [
        "-p",
        "_hypothesis_pytestplugin",
        "-p",
        "pytest_randomly",
        "-p",
        "tools.packaging.without_server",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=ROOT, env=alone, text=True, check=False, stdout=subprocess.PIPE)


if __name__ == "__main__":
    done = run(places())
    print(done.stdout)
    sys.exit(done.returncode)
