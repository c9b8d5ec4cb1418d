"""Site services as forks (`forks.py`); an order: {"server", "token", "study", "agent", "folder", "port", "kill_at"}."""

from tools.chaos.forks import loop

from parley.agent.client import Client
from parley.agent.reporting import SiteRuntime, site_of
from parley.site.app import SiteSettings, serve
from parley.system import killpoints


def run(order):
    killpoints.arm(order["kill_at"])
    client = Client(order["server"], order["token"])
    site = site_of(order["folder"], client, study=order["study"], agent=order["agent"])
    serve([SiteRuntime(site, client, order["folder"])], SiteSettings(port=order["port"]), lambda _: None)


if __name__ == "__main__":
    loop(run)
