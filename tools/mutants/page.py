"""Builds docs/appendix/mutants.md from the table of flaws."""

from tools.mutants.table import MUTANTS
from tools.pages import table

HEAD = """# Mutants

`make mutants` puts one flaw at a time into a copy of the package and runs the test that is meant to notice it,
after the same tests have passed without a flaw. The coordinator's mutants are in [reliability](reliability.md), those
of the error rate in [delta-correctness](delta-correctness.md).
"""


def page() -> str:
    rows = ([mutant.room, mutant.flaw, f"`{mutant.test}`"] for mutant in MUTANTS)
    return f"{HEAD}\n{table(['room', 'flaw', 'noticed by'], rows)}\n"
