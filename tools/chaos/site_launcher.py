"""Site services as forks (`forks.py`).

An order is {"server", "study", "folder", "port", "kill_at"} with "strata" (agent -> token), or with "token" and
"agent".
"""

from tools.chaos.forks import loop

from parley.agent.client import Client
from parley.agent.reporting import SiteRuntime, site_of
from parley.site.app import SiteSettings, serve
from parley.system import killpoints


def run(order):
    killpoints.arm(order["kill_at"])
    runtimes = []
    for agent, token in (order.get("strata") or {order.get("agent"): order.get("token")}).items():
        client = Client(order["server"], token)
        site = site_of(order["folder"], client, study=order["study"], agent=agent)
        runtimes.append(SiteRuntime(site, client, order["folder"]))
    serve(runtimes, SiteSettings(port=order["port"]), lambda _: None)


if __name__ == "__main__":
    loop(run)
