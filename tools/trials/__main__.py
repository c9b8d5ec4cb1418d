"""`python -m tools.trials` tells the trial of `person_level.py` as a story; `... six-sites` makes a table."""

import sys
import tempfile
from pathlib import Path

from tools.trials import six_sites
from tools.trials.person_level import ARMS, SITES, run

from parley.coordinator.record import initialise, open_storage


def main():
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder) / "parley.db")
        initialise(db)
        storage = open_storage(db)
        trial, certificate, found, _ = run(storage, Path(folder) / "box", say=print)
        storage.close()
    people, missing = trial.people, dict(zip(ARMS, map(sum, certificate["missing"]), strict=True))
    print(
        f"day {trial.day:.0f}: the answer, after {certificate['phases']} phases: "
        + "; ".join(f"{name}: {', '.join(certificate['answers'][name])}" for name in SITES)
    )
    print(f"people: {people['assigned']} assigned, {people['observed']} outcomes, {people['missing']} missing")
    before, after = people["observed"] - certificate["samples"], people["too late"]
    print(f"of phases that were closed without their site, and never counted: {before} of these outcomes, {after} more")
    print(f"the certificate says: {certificate['samples']} samples; missing by arm {missing}")
    print(f"verified: {found.records} records, {'sound' if found.sound else found.problem}")


if __name__ == "__main__":
    six_sites.page() if sys.argv[1:] == ["six-sites"] else main()
