"""`python -m tools.mutants`: every flaw must be noticed by its test; docs/mutants.md lists them (`make generated`)."""

import sys

from tools.mutants.run import passes
from tools.mutants.table import MUTANTS


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


if __name__ == "__main__":
    main()
