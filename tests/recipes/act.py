"""Run with a copy of the product that has one more act, `note`: everything that should know it does.

`test_act.py` makes the copy, and says of which kind its event is.
"""

import json
import os
import sys
from pathlib import Path

from tests.dashboard.site import site
from tests.recipes.support import capture
from tools.generated import bodies_table, who_may_table

import parley
from parley.coordinator.record import open_for_reading
from parley.coordinator.record.audit import verify_stored
from parley.protocol import EVENTS, Stage
from parley.protocol.events import read_event, require_readable
from parley.protocol.state_machine import allowed, picture


def protocol():
    """The event by itself: read again, told, possible, drawn."""
    from parley.protocol.events import Noted

    event = Noted(about="supply", reason="the pharmacy moved")
    require_readable(event)
    assert EVENTS["noted"].from_json(event.to_json()) == event
    assert read_event("noted", event.to_json()).sentence == "supply: the pharmacy moved"
    assert all("noted" in allowed(stage) for stage in Stage)
    assert "noted" in picture()


def main(folder, kind):
    """The API and who may, the command, the page, the docs, the log and its verification."""
    if kind == "noted":
        protocol()
    assert "`POST /v1/studies/{study}/note` |  |  |  |  | yes |" in who_may_table()
    assert '| `POST .../note` | `{"reason", "about"}`' in bodies_table()
    with site(folder) as here, here.browser() as browser:
        here.create()
        here.phase("two")
        stage = here.call("GET", "studies/two")["stage"]
        assert here.call("POST", "studies/two/note", json={"about": "supply", "reason": "by the API"})["stage"] == stage
        described = here.call("GET", "openapi.json")["paths"]["/v1/studies/{study}/note"]["post"]
        assert (described["operationId"], described["description"]) == ("note_study", "Keep a note in the log.")
        for role in ("viewer", "analyst", "auditor"):
            token = here.issue(role, name=role)
            refused = here.line.post(
                "/v1/studies/two/note", json={"about": "x", "reason": "x"}, headers={"Authorization": f"Bearer {token}"}
            )
            assert refused.status_code == 403, role
        os.environ |= {"PARLEY_TOKEN": here.token, "PARLEY_SERVER": here.address}
        assert stage in capture("admin", "note", "two", "--about", "supply", "--reason", "by the command")
        assert "What the note is about." in capture("admin", "note", "--help")
        form = browser.get("/studies/two/administration")
        assert 'action="/studies/two/note"' in form.text
        assert ">Keep a note</button>" in form.text
        sent = {"about": "supply", "reason": "by the page"}
        assert browser.post("/studies/two/note", data=sent).status_code == 200
        shown = browser.get("/studies/two/audit").text
        assert all(f"by the {place}" in shown for place in ("API", "command", "page"))
        here.run("two")
    storage = open_for_reading(here.db)
    found = verify_stored(storage, "two")
    storage.close()
    assert found.sound, found.problem
    assert json.loads(capture("verify", "two", "--db", here.db, "--json"))["sound"]


if __name__ == "__main__":
    assert Path(parley.__file__).is_relative_to(sys.argv[1]), "the copy, not the product"
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
