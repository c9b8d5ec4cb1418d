"""Each promise of the docs with its tests and mutants, and who may do what: the list that `parley qualify` ships.

It is collected from the tests' docstrings, the tables of mutants, docs/appendix/threat-model.md and docs/api.md, so
that nothing is written twice. `make generated` writes it to src/parley/edges/qualification/promises.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.chaos.mutants import MUTANTS as CHAOS
from tools.chaos.mutants import ROOT
from tools.mutants.table import MUTANTS
from tools.pages import cells, read

ROLES = ("agent", "viewer", "analyst", "auditor", "administrator")
HEAD = "| claim | test | mutants"
BY_NAME = {mutant.name: mutant for mutant in CHAOS}
# Package in the table of mutants -> the promise that its tests check, and the page that states it.
ROOMS = {
    "solver": ("every answer of the solver is feasible and within the gap that it proves", "experiments.md"),
    "bounds": ("lower bounds are the paper's, for every noise", "experiments.md"),
    "quotas": ("plans are whole numbers, the fewest that suffice, within budget and minimum", "policies.md"),
    "thresholds": ("confidence widths are the paper's", "policies.md"),
    "evidence": ("evidence racing errs with probability at most delta", "evidence-racing.md"),
    "regret": ("exploration is worth its cost, and regret stays as small as promised", "regret.md"),
    "tolerance": ("with a tolerance every study ends, and answers are within it", "tolerance.md"),
    "certificate": ("a certificate claims what was proven and no more", "estimates.md"),
    "rounding": ("rewards far from 0 lose no digits that matter", "rewards.md"),
    "estimates": ("intervals hold simultaneously", "estimates.md"),
    "lost sites": ("a lost site costs its weight, not the guarantee", "changes.md"),
    "arms": ("arms come and go, and the guarantee stays", "changes.md"),
    "simulator": ("simulated studies are the studies that would be run", "experiments.md"),
    "rewards": ("reward models are what they say", "rewards.md"),
    "private reports": ("private reports keep error probability and privacy", "privacy.md"),
    "private reports at a site": ("noise is added once, and no coordinator can lower a site's policy", "privacy.md"),
    "site": ("nothing that is entered at a site changes who gets which arm", "site.md"),
    "chain": ("a record that was changed does not fit its hash", "audit.md"),
    "time stamps": ("a log that was cut before a time stamped record, or rewritten, is noticed", "audit.md"),
    "sign-in": ("whom a provider names gets the role that the operator gave, and nobody else gets in", "production.md"),
    "access": ("a token reaches its own study only", "api.md"),
    "webhooks": ("every phase and every end is told once, in order, signed, and to nobody else", "integrations.md"),
    "feature flags": ("a flag gives everybody the arm of the plan", "integrations.md"),
    "pages": ("pages claim what the certificate claims", "dashboard.md"),
}


def threat_rows() -> dict[str, tuple[list[str], list[str]]]:
    """Claim of docs/appendix/threat-model.md -> files of its tests, names of its mutants."""
    text = read(ROOT / "docs" / "appendix" / "threat-model.md")
    rows = cells(text[text.index(HEAD) :].strip())[1:]
    return {claim: (re.findall(r"`(tests/[^`]+)`", tests), names.split("; ")) for claim, tests, names in rows}


def access_table() -> dict[str, dict[str, str]]:
    """Method and path -> {role: cell}, from the tables of docs/api.md and its appendix.

    A cell like "`POST /v1/a/pause`, `resume`" names siblings; "`GET`, `POST /v1/b`" two methods of one path.
    """
    rows: dict[str, dict[str, str]] = {}
    pages = [read(ROOT / "docs" / page) for page in ("api.md", "appendix/api.md")]
    for line in "".join(pages).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6 or not cells[0].startswith("`"):
            continue
        methods: list[str] = []
        path = ""
        for quoted in re.findall(r"`([^`]+)`", cells[0]):
            words = quoted.split()
            if words[0].isupper():
                methods = [*([] if path else methods), words.pop(0)]
            if words:
                path = words[0].split("?")[0] if words[0].startswith("/") else f"{path.rsplit('/', 1)[0]}/{words[0]}"
                rows |= {f"{method} {path}": dict(zip(ROLES, cells[1:], strict=True)) for method in methods}
    return rows


def promises() -> Iterator[dict[str, Any]]:
    """The coordinator's promises, the claims of the threat model, and the promises of the numeric packages."""
    by_number: dict[int, list[str]] = {}
    for path in sorted((ROOT / "tests" / "coordinator").glob("test_promise_*.py")):
        by_number.setdefault(int(path.stem.split("_")[2]), []).append(str(path.relative_to(ROOT)))
    for number, tests in by_number.items():
        titles = [(ROOT / test).read_text(encoding="utf-8").split('"""')[1] for test in tests]
        title = min(titles, key=lambda words: words.index(":"))  # "Promise 2: ..." before "Promise 2 for ...: ..."
        claim = title.partition(":")[2].strip().split(". ")[0].split("\n")[0].rstrip(".")
        names = [mutant.name for mutant in CHAOS if mutant.breaks == f"promise {number}"]
        yield _row(f"promise {number}", f"{number}. {claim}", "appendix/reliability.md", tests, names)
    for claim, (tests, names) in threat_rows().items():
        yield _row(BY_NAME[names[0]].breaks, claim, "appendix/threat-model.md", tests, names)
    for room in dict.fromkeys(mutant.room for mutant in MUTANTS):
        claim, page = ROOMS.get(room, (f"{room}: each of the flaws is noticed", "appendix/mutants.md"))
        mine = [mutant for mutant in MUTANTS if mutant.room == room]
        tests = sorted({mutant.test.partition("::")[0] for mutant in mine})
        yield _row(room, claim, page, tests, [mutant.flaw for mutant in mine])
    tests = ["tests/correctness/test_near_ties.py", "tests/correctness/test_flexible_counts.py"]
    claim = "errors at ties, counted and down to 1e-10, are below delta"
    yield _row("delta", claim, "appendix/delta-correctness.md", tests, [])


def _row(key: str, promise: str, page: str, tests: list[str], mutants: list[str]) -> dict[str, Any]:
    return {"key": key, "promise": promise, "page": f"docs/{page}", "tests": tests, "mutants": mutants}


def text() -> str:
    return json.dumps({"promises": list(promises()), "access": access_table()}, indent=1, ensure_ascii=False) + "\n"
