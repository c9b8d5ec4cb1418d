"""Run with a copy of the product that has one more event, `noted`: everything that should know it does.

`test_event.py` makes the copy.
"""

import json
import os
import sys
from pathlib import Path

from tests.dashboard.site import form_token, site
from tests.recipes.support import capture

import parley
from parley.coordinator.record import open_for_reading
from parley.coordinator.record.audit import verify_stored
from parley.protocol import EVENTS, Stage
from parley.protocol.events import Noted, kind_of, read_event, require_readable
from parley.protocol.state_machine import allowed, picture


def main(folder):
    """The protocol, the API and who may, the command, the pages, the log and its verification."""
    event = Noted(about="supply", reason="the pharmacy moved")
    require_readable(event)
    assert EVENTS[kind_of(event)].from_json(event.to_json()) == event
    assert read_event("noted", event.to_json()).sentence == "supply: the pharmacy moved"
    assert all("noted" in allowed(stage) for stage in Stage)
    assert "noted" in picture()

    with site(folder) as here, here.browser() as browser:
        here.create()
        here.phase("two")
        stage = here.call("GET", "studies/two")["stage"]
        assert here.call("POST", "studies/two/note", json={"about": "supply", "reason": "by the API"})["stage"] == stage
        assert "/v1/studies/{study}/note" in here.call("GET", "openapi.json")["paths"]
        for role in ("viewer", "analyst", "auditor"):
            token = here.issue(role, name=role)
            refused = here.line.post(
                "/v1/studies/two/note", json={"about": "x", "reason": "x"}, headers={"Authorization": f"Bearer {token}"}
            )
            assert refused.status_code == 403, role
        os.environ |= {"PARLEY_TOKEN": here.token, "PARLEY_SERVER": here.address}
        assert stage in capture("admin", "note", "two", "supply", "--reason", "by the command")
        form = browser.get("/studies/two/administration")
        sent = {"csrf": form_token(form), "about": "supply", "reason": "by the page"}
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
    main(Path(sys.argv[1]).resolve())
