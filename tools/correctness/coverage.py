"""How often intervals hold: `python -m tools.correctness coverage` counts, and rewrites its table in docs/appendix.

`tests/test_estimates.py` does the same with fewer runs.
"""

from __future__ import annotations

import json
import math
from typing import Any

from tests.test_estimates import DELTA, MODELS, missed, studied
from tools.correctness.common import APPENDIX, DOCS
from tools.correctness.fingerprint import fingerprint
from tools.correctness.widths import measure, slack
from tools.pages import fill, table

CELLS = {  # name -> truth, draws of a cell in the first phase, phases, whether the best or the worst is drawn more
    "tie": ("tie", 8, 6, True),
    "tie, tiny counts": ("tie", 2, 4, False),
    "far": ("far", 8, 5, True),
    "far, tiny counts": ("far", 2, 4, False),
    "tie, drift": ("tie", 20, 5, True),  # drifting means have no single true value, so only differences are checked
}
PAGE, KNOWN = APPENDIX / "estimates.md", DOCS / "estimates.json"


def coverage(runs: int, only: str | None = None) -> bool:
    """Check every reward model in every cell, and measure interval widths at the end of the paper's instance."""
    good = only == "widths" or _held(runs)
    if only != "held":
        shown = [[name, f"{alone:.2f}", f"{jointly:.2f}"] for name, (alone, jointly) in measure().items()]
        fill(PAGE, "widths", table(["rewards", "times the usual width", "times the usual joint width"], shown))
        parts = ("all 63 numbers at once", "looks at any time", "phases in which not both arms were drawn")
        fill(PAGE, "slack", table(parts, [[f"{part:.2f}" for part in slack()]]))
    return good


def _held(runs: int) -> bool:
    """Check coverage cell by cell; results for the same sources and size are not run again."""
    version = fingerprint(("rewards",), ("estimates.py", "problem.py", "totals.py"))
    known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    for model in MODELS:
        for cell, (truth, first, phases, best) in CELLS.items():
            name = f"{model}, {cell}"
            before = known.get(name, {})
            if (before.get("runs"), before.get("sources")) == (runs, version):
                continue
            drift = "drift" in cell
            problem, told = studied(model, truth, first=first, phases=phases, runs=runs, best=best, drift=drift)
            wrong, _ = missed(problem, told, truth, factors=(1.0, 0.7), means=not drift)
            counts = {"missed": int(wrong[1.0].sum()), "narrower": int(wrong[0.7].sum())}
            known[name] = {"runs": runs, **counts, "sources": version}
            print(name, known[name], flush=True)
            KNOWN.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    rows = [[model, *(_shown(known[f"{model}, {cell}"]) for cell in CELLS)] for model in MODELS]
    fill(PAGE, "coverage", table(["rewards", *(f"{cell}, %" for cell in CELLS)], rows))
    most = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / runs)
    noticed = all(known[f"{model}, tie"]["narrower"] > DELTA * runs for model in MODELS)
    return noticed and all(cell["missed"] <= most * runs for cell in known.values())


def _shown(cell: dict[str, Any]) -> str:
    return f"{100 * cell['missed'] / cell['runs']:.1f} ({100 * cell['narrower'] / cell['runs']:.0f})"
