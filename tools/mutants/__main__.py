"""`python -m tools.mutants`: every flaw must be noticed by its test; rewrites docs/mutants.md."""

import sys

from tools.mutants.run import ROOT, passes
from tools.mutants.table import MUTANTS

PAGE = ROOT / "docs" / "mutants.md"
HEAD = """# Numeric mutants

`make mutants` puts one flaw at a time into a copy of the numeric rooms and runs the test that is meant to notice it,
after the same tests have passed without a flaw. The coordinator's mutants are in [reliability](reliability.md), those
of the error rate in [delta-correctness](delta-correctness.md).

| room | flaw | noticed by |
|---|---|---|
"""


def main() -> None:
    """Say what was missed, and exit with 1 if anything was."""
    controls = sorted({mutant.test for mutant in MUTANTS})
    red = [test for test in controls if not passes(test)[0]]
    missed = []
    for mutant in MUTANTS:
        caught = not passes(mutant.test, mutant)[0]
        print(f"{'caught' if caught else 'MISSED'}: {mutant.room}: {mutant.flaw}", flush=True)
        if not caught:
            missed.append(mutant.flaw)
    for test in red:
        print(f"RED WITHOUT A FLAW: {test}")
    if red or missed:
        sys.exit(1)
    rows = (f"| {mutant.room} | {mutant.flaw} | `{mutant.test}` |\n" for mutant in MUTANTS)
    PAGE.write_text(HEAD + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
