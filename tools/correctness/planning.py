"""The tables of docs/planning.md, by the commands that the page names.

`python -m tools.correctness planning` rewrites them in some minutes of one core.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tools.correctness.common import DOCS, fill, table

PAGE = DOCS / "planning.md"
STUDY = DOCS.parent / "examples" / "protocol.toml"
SHOWN = ("all arms tie", "gap 0.125", "gap 0.25", "prior, spread 1")  # of the truths of `--operating`


def planning() -> bool:
    """Rewrite the tables; whether every truth that the page shows was there."""
    found = _plan("--power", "0.9", "--gap", "0.25", "--gap", "0.2")["power"]["truths"]
    rows = [
        [
            f"gap {one['gap']:g}",
            f"{one['max_samples']:,}",
            _share(one["power"], one["standard_error"]),
            _mean(one["samples"]),
            f"{one['rounds']['mean']:.1f}",
            f"{one['fixed']['samples']:,}",
        ]
        for one in found
    ]
    fill(PAGE, "power", table(["truth", "max_samples", "power", "samples, mean", "rounds", "fixed size"], rows))
    truths = {one["scenario"]: one for one in _plan("--operating")["operating"]}
    rows = [
        [
            name,
            f"{point['max_samples']:,}",
            _share(point["power"], point["power_error"]),
            _share(point["fixed"]["power"], point["fixed"]["power_error"]),
            _mean(point["samples"]),
        ]
        for name in SHOWN
        for point in truths[name]["budgets"]
    ]
    fill(PAGE, "budgets", table(["truth", "samples at most", "power", "power, fixed size", "samples, mean"], rows))
    tie = truths[SHOWN[0]]
    text = f"Where all arms tie a study takes {_mean(tie['samples'])} samples on average, with a power of "
    text += f"{100 * tie['power']:.0f} %; the fixed size that is made for the tie takes {tie['fixed']['samples']:,}."
    fill(PAGE, "tie", text)
    print(PAGE.read_text(encoding="utf-8"))
    return set(SHOWN) <= truths.keys()


def _plan(*options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "parley", "plan", str(STUDY), *options, "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def _share(value: float, error: float) -> str:
    return f"{100 * value:.1f} ± {100 * error:.1f} %"


def _mean(figures: dict[str, float]) -> str:
    return f"{figures['mean']:,.0f} ± {figures['standard_error']:,.0f}"
