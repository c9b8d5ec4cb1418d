"""Run the benchmarks named on the command line (or all) and rewrite their part of docs/appendix/benchmarks.md."""

from __future__ import annotations

import importlib
import os
import platform
import re
import sys

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
HEAD = """# Benchmarks

Measured by `make bench` (or `.venv/bin/python -m benchmarks NAME` for one part), which rewrites this page. Machines are
noisy: read the ratios, which come from one run, not the seconds.
"""


def main() -> int:
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = set(chosen) - set(BENCHMARKS)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    parts = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\n<!-- end -->", page, flags=re.DOTALL))
    for name in chosen:
        print(f"{name} ...", flush=True)
        made = importlib.import_module(f"benchmarks.{name}").sections()
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        parts[name] = f"## {name.capitalize()}\n\n{machine}.\n\n" + "\n\n".join(part.markdown() for part in made)
        print(parts[name])
        body = "\n\n".join(f"<!-- {key} -->\n{parts[key]}\n<!-- end -->" for key in BENCHMARKS if key in parts)
        PAGE.write_text(f"{HEAD}\n{body}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
