"""Builds the wheel and the sdist of this tree with `python -m build`, and lists the packages of an environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "build", "write_sbom"]

ROOT = Path(__file__).parents[2]


def build(folder: Path, root: Path = ROOT) -> tuple[Path, Path]:
    """Build into a folder; returns the wheel, which is made from the sdist, and the sdist."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(root)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def write_sbom(python: Path, target: Path, *options: str) -> None:
    """Write the packages installed for this Python as a reproducible CycloneDX document."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-file", target]
    subprocess.run([*command, *options, python], check=True, capture_output=True, text=True, timeout=300)
