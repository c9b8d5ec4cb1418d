"""A wheel and an sdist of this tree, as `pip` would make them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "build"]

ROOT = Path(__file__).parents[2]


def build(folder: Path) -> tuple[Path, Path]:
    """Both archives, in a folder: the wheel, the sdist."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
