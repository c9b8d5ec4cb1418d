"""Run with a copy of the product that has one more act, `remind`, with a preview, in the section of sites.

`test_act.py` makes the copy.
"""

import json
import os
import re
import sys
from pathlib import Path

from tests.dashboard.site import TWO, site
from tests.recipes.support import capture
from tools.catalogs import extracted

import parley


def main(folder):
    """The API, the command, the page with its preview in the words of a trial, the catalogs, the log."""
    for message in ("Note that an agent was reminded.", "By whom", "Remind {agent}", "If {agent} is reminded"):
        assert extracted().get(message) is not None, message
    with site(folder) as here, here.browser() as browser:
        here.create('audience = "trial"\n' + TWO)
        here.phase("two", but=("South",))
        seen = here.call("GET", "studies/two/agents/South/remind")
        assert seen["preview"]["effect"] == "South is one of 2 agents"
        sent = {"reason": "by the API", "by_whom": "office", "preview": seen["digest"]}
        here.call("POST", "studies/two/agents/South/remind", json=sent)
        os.environ |= {"PARLEY_TOKEN": here.token, "PARLEY_SERVER": here.address}
        told = capture("admin", "remind", "two", "South", "--by-whom", "x", "--reason", "by the command", "--yes")
        assert "Effect: South is one of 2 agents." in told
        assert "Reminded" in told

        page = browser.get("/studies/two/administration").text
        sites = page[page.index('aria-labelledby="freeze-title"') : page.index('aria-labelledby="arms-title"')]
        assert "<h3>Note that a site was reminded.</h3>" in sites
        assert 'action="/studies/two/remind"' in sites
        assert ">By whom</label>" in sites
        asked = browser.post("/studies/two/remind", data={"agent": "South", "by_whom": "office"})
        assert asked.status_code == 200
        assert "If South is reminded" in asked.text
        assert "South is one of 2 sites." in asked.text
        form = asked.text[asked.text.index('action="/studies/two/remind"') :]
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[: form.index("</form>")]))
        assert {"agent": "South", "by_whom": "office"}.items() <= hidden.items()
        assert browser.post("/studies/two/remind", data=hidden | {"reason": "by the page"}).status_code == 200
        shown = browser.get("/studies/two/audit").text
        assert all(f"by the {place}" in shown for place in ("API", "command", "page"))
        here.run("two")
    assert json.loads(capture("verify", "two", "--db", here.db, "--json"))["sound"]


if __name__ == "__main__":
    assert Path(parley.__file__).is_relative_to(sys.argv[1]), "the copy, not the product"
    main(Path(sys.argv[1]).resolve())
