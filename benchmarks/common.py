"""Shared by all benchmarks: timing, memory and Markdown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tools.pages import fill, table

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One table of docs/appendix/benchmarks.md."""

    title: str
    words: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        return f"### {self.title}\n\n{self.words}\n\n{table(self.columns, self.rows)}"


def best_of(call: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the fastest of a few runs, which other work disturbed least."""
    times = []
    for _ in range(repeats):
        begun = perf_counter()
        call()
        times.append(perf_counter() - begun)
    return min(times)


def in_process(module: str, *arguments: str) -> dict[str, float]:
    """Run `python -m module arguments`; returns its JSON output with the peak memory in MiB added."""
    program = (
        "import json, resource, runpy, sys;"
        f"sys.argv = {[module, *arguments]!r};"
        f"namespace = runpy.run_module({module!r}, run_name='measured');"
        "answer = namespace['measured'](*sys.argv[1:]);"
        "answer['mebibytes'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024;"
        "print(json.dumps(answer))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def rewrite(page: Path, sections: Mapping[str, Callable[[], Section]]) -> None:
    """Measure the sections named on the command line, or all, and put each between its marks on the page."""
    for name in sys.argv[1:] or sections:
        made = sections[name]().markdown()
        print(made, flush=True)
        fill(page, name, made)
