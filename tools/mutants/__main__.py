"""Put one flaw at a time into a copy of the package: its test must notice. docs/appendix/mutants.md lists them all."""

import argparse
import sys

from tools.mutants.run import passes
from tools.mutants.table import MUTANTS


def main() -> None:
    """Print the flaws that no test noticed; exit with 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a room or a flaw (default: all of them)")
    parser.add_argument("--list", action="store_true", help="only print what would be tried")
    chosen = parser.parse_args()
    mutants = [
        mutant
        for mutant in MUTANTS
        if not chosen.names or any(name in f"{mutant.room}: {mutant.flaw}" for name in chosen.names)
    ]
    if not mutants:
        parser.error(f"no flaw is named {' or '.join(chosen.names)}: --list prints them")
    if chosen.list:
        print("\n".join(f"{mutant.room}: {mutant.flaw}" for mutant in mutants))
        return
    controls = sorted({mutant.test for mutant in mutants})
    red = [test for test in controls if not passes(test)[0]]
    missed = []
    for mutant in mutants:
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
