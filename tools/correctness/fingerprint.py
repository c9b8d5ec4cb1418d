"""A digest of the sources that an error rate depends on, to recognise stored results of another version.

Comments and docstrings are ignored, as are packages that no simulation uses (the coordinator, pages, commands).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "parley"
ROOMS = ("policies", "rewards", "confidence", "simulation", "harmonic")
FILES = ("problem.py", "totals.py", "costs.py")


@cache
def fingerprint(rooms: Sequence[str] = ROOMS, files: Sequence[str] = FILES) -> str:
    """The digest of these packages and files: twelve hex digits.

    >>> len(fingerprint())
    12
    """
    paths = [path for room in rooms for path in (SOURCES / room).rglob("*.py")] + [SOURCES / name for name in files]
    return digest((path.relative_to(SOURCES).as_posix(), path.read_text(encoding="utf-8")) for path in sorted(paths))


def digest(sources: Iterable[tuple[str, str]]) -> str:
    """The digest of named sources, without comments and docstrings.

    >>> digest([("a.py", "x = 1  # one")]) == digest([("a.py", "x = 1")]) != digest([("a.py", "x = 2")])
    True
    """
    told = hashlib.sha256()
    for name, text in sources:
        told.update(f"{name}\n{ast.dump(_bare(ast.parse(text)))}\n".encode())
    return told.hexdigest()[:12]


def _bare(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return tree
