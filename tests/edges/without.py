"""With a copy of the product without some edges: commands, a server with a study and its pages, `verify`, backup.

`python -m tests.edges.without FOLDER GONE...` where the copy is the `parley` that is imported. FOLDER has a database
that the whole product made.
"""

import json
import sys
from pathlib import Path

import httpx2
from click.testing import CliRunner
from tests.coordinator.support import House, study_message
from tests.dashboard.site import OF_A_STUDY, site
from tests.edges.test_catalogs import messages

import parley
from parley import hooks
from parley.cli.main import COMMANDS, main
from parley.coordinator.record import open_storage
from parley.coordinator.record.backup import backup, restore
from parley.experiments.sweeps.engines import engines
from parley.protocol import Record, Stamp
from parley.text.translation import gettext, reading

EDGES = Path(__file__).parents[2] / "src" / "parley" / "edges"  # of the whole product, not of the copy
# Of each edge: commands that are gone with it.
BROUGHT = {"qualification": ["qualify"], "reproduction": ["reproduce"]}
BELOW = {"webhooks": ["admin", "webhooks"], "timestamps": ["admin", "timestamp"]}
OPTIONS = {"dossier": ("plan", "--report"), "flags": ("site", "--flag"), "timestamps": ("verify", "--stamp-ca")}
SERVED = {"webhooks": "--webhook-allow", "oidc": "--oidc-issuer", "timestamps": "--timestamp-authority"}


def run(*words):
    done = CliRunner().invoke(main, list(map(str, words)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, " ".join(done.output.split())


def commands(gone):
    """Every command answers; those that are gone say which edges are there."""
    for name in (*COMMANDS, *hooks.commands_of_edges()):
        assert run(name, "--help")[0] == 0, name
    for edge, names in BROUGHT.items():
        for name in names:
            status, out = run(name, "--help")
            assert (status == 2) == (edge in gone), name
            assert edge not in gone or f"No such command '{name}'" in out
    for edge, words in BELOW.items():
        assert (run(*words, "--help")[0] == 2) == (edge in gone), words
    for edge, (name, option) in [*OPTIONS.items(), *((edge, ("serve", one)) for edge, one in SERVED.items())]:
        assert (option not in run(name, "--help")[1]) == (edge in gone), option
    with reading("trial", "de"):
        assert gettext("Save") == "Speichern"
        for path in EDGES.glob("*/catalogs/messages.pot"):
            own = [one for one in messages(path) if isinstance(one, str) and "%" not in one]
            assert all(gettext(one) == one for one in own) == (path.parents[1].name in gone), path
    assert ("dask" not in engines()) == ("engines" in gone)
    listed = {one["name"] for one in json.loads(run("doctor", "--json")[1])["edges"]}
    assert listed == {one.name for one in hooks.own_edges()}
    assert not listed & gone


def study(folder, gone):
    """A study from its start to its end, on a database of the whole product; its log, with a stamp, is sound."""
    storage = open_storage(str(folder / "whole.db"))
    house = House(storage)
    try:
        message = study_message(agents=2, arms=2, policy="uniform")
        assert house.run(message, house.create(message))["stage"] == "finished"
        lines = list(house.admin.export("trial"))
        paths = house.admin.request("GET", "openapi.json")["paths"]
        assert ("/v1/webhooks" not in paths) == ("webhooks" in gone)
    finally:
        house.close()
        storage.close()
    last = Record.from_json(json.loads(lines[-1]))
    stamp = Stamp(study="trial", sequence=last.sequence, head=last.hash, authority="tsa.example", response="AAAA")
    log = folder / "log.ndjson"
    log.write_text("\n".join([*lines, stamp.text]), encoding="utf-8")
    said = run("verify", log)[1]
    assert "1 time stamp compared with the log" in said
    assert ("no edge that does it is installed" in said) == ("timestamps" in gone)
    assert ("give the authority's certificates, --stamp-ca FILE" in said) == ("timestamps" not in gone)
    assert "Sound." in run("verify", "trial", "--db", folder / "whole.db")[1]
    backup(str(folder / "whole.db"), folder / "copy.db")
    restore(folder / "copy.db", str(folder / "restored.db"))
    assert "Sound." in run("verify", "trial", "--db", folder / "restored.db")[1]


def pages(folder):
    """Every page of a study, and those of the server."""
    with site(folder, db=str(folder / "pages.db")) as made, made.browser() as browser:
        made.create()
        for below in OF_A_STUDY:
            assert browser.get(f"/studies/two{below}").status_code in (200, 303, 404), below
        for path in ("/", "/new", "/tokens", "/log"):
            assert browser.get(path).status_code == 200, path
        assert "Sign in" in httpx2.get(f"{made.address}/sign-in").text


if __name__ == "__main__":
    where, missing = Path(sys.argv[1]), set(sys.argv[2:])
    assert not missing & {one.name for one in hooks.own_edges()}, parley.__file__
    commands(missing)
    study(where, missing)
    pages(where)
    print("as promised")
