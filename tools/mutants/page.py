"""docs/appendix/mutants.md, from the table of flaws."""

from tools.mutants.table import MUTANTS

HEAD = """# Mutants

`make mutants` puts one flaw at a time into a copy of the package and runs the test that is meant to notice it,
after the same tests have passed without a flaw. The coordinator's mutants are in [reliability](reliability.md), those
of the error rate in [delta-correctness](delta-correctness.md).

| room | flaw | noticed by |
|---|---|---|
"""


def page() -> str:
    rows = (f"| {mutant.room} | {mutant.flaw} | `{mutant.test}` |\n" for mutant in MUTANTS)
    return HEAD + "".join(rows)
