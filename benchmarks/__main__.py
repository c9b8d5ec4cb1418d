"""Run the benchmarks named on the command line (or all) and rewrite their part of docs/appendix/benchmarks.md."""

from __future__ import annotations

import importlib
import os
import platform
import sys

from tools.pages import fill

from benchmarks.common import ROOT

BENCHMARKS = (
    "solver",
    "simulation",
    "evidence",
    "questions",
    "models",
    "analysis",
    "engines",
    "coordinator",
    "dashboard",
    "site",
)
PAGE = ROOT / "docs" / "appendix" / "benchmarks.md"


def main() -> int:
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = set(chosen) - set(BENCHMARKS)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in chosen:
        print(f"{name} ...", flush=True)
        made = importlib.import_module(f"benchmarks.{name}").sections()
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        part = f"## {name.capitalize()}\n\n{machine}.\n\n" + "\n\n".join(part.markdown() for part in made)
        print(part)
        fill(PAGE, name, part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
