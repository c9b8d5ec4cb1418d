"""Starts site services quickly: everything is imported once, then every service is a fork of this process.

Reads a JSON object a line ({"server", "token", "study", "agent", "folder", "port", "kill_at"}) and answers {"pid"};
{"wait": pid} is answered with {"status"} when that service has died. Run as `python -m tests.chaos.site_launcher`.
"""

import json
import os
import sys

from parley import killpoints
from parley.agent.client import Client
from parley.agent.courier import site_of
from parley.site.server import SiteSettings, serve
from parley.site.station import Station


def run(order):
    killpoints.arm(order["kill_at"])
    code = 1
    try:
        client = Client(order["server"], order["token"])
        site = site_of(order["folder"], client, study=order["study"], agent=order["agent"])
        serve(Station(site, client, order["folder"]), SiteSettings(port=order["port"]), lambda _: None)
        code = 0
    finally:
        os._exit(code)


def main():
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer = {"status": os.waitpid(order["wait"], 0)[1]}
        else:
            pid = os.fork()
            if pid == 0:
                run(order)
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
