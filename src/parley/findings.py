"""What a study has found, as lines for people and for spreadsheets: the API's answer on page, file and terminal.

Numbers for people have as many decimals as their interval deserves (`parley.words.ranged`); a file has them in full.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from parley.words import ranged

__all__ = ["KINDS", "findings_csv", "harmless", "lines_of", "state_of", "told"]

KINDS = ("mean", "to_leader", "to_control")
ENDS = ("estimate", "low", "high", "fixed_low", "fixed_high")
HEAD = ("agent", "end", "leader", "arm", "state", "draws", *(f"{kind}_{end}" for kind in KINDS for end in ENDS))


def told(cell: Mapping[str, float | None] | None, *, rates: bool = False) -> str:
    """An estimate with the interval that holds jointly and at every phase.

    >>> told({"estimate": 0.5124, "low": 0.31, "high": 0.72}), told(None)
    ('0.51 (0.31 to 0.72)', '–')
    """
    found = cell or {}
    return ranged(found.get("estimate"), found.get("low"), found.get("high"), rates=rates)


def state_of(arm: Mapping[str, Any]) -> str:
    """Where an arm is, in words.

    >>> state_of({"candidate": False, "chosen": False, "ruled_out_in": 3})
    'out in phase 3'
    """
    return "chosen" if arm["chosen"] else "candidate" if arm["candidate"] else f"out in phase {arm['ruled_out_in']}"


def lines_of(agent: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every arm of an agent, one value a column."""
    for arm in agent["arms"]:
        numbers = {f"{kind}_{end}": (arm[kind] or {}).get(end) for kind in KINDS for end in ENDS}
        known = {"agent": agent["agent"], "end": agent["end"], "leader": agent["leader"], "arm": arm["arm"]}
        yield known | {"state": state_of(arm), "draws": arm["draws"]} | numbers


def findings_csv(found: Mapping[str, Any]) -> str:
    """One line per agent and arm."""
    written = io.StringIO()
    table = csv.DictWriter(written, HEAD, lineterminator="\r\n")
    table.writeheader()
    for agent in found["agents"]:
        for line in lines_of(agent):
            table.writerow({key: harmless(value) for key, value in line.items()})
    return written.getvalue()


def harmless(value: object) -> object:
    """Text that no spreadsheet takes for a formula.

    >>> harmless("=1+1"), harmless("B"), harmless(-0.5)
    ("'=1+1", 'B', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value
