"""Starts coordinators quickly: everything is imported once, then every server is a fork of this process.

Reads a JSON object a line ({"db", "port", "kill_at", "inline"}) and answers {"pid"}; {"wait": pid} is answered with
{"status"} when that server has died, {"dead": pid} at once with whether it has. `inline` false: every step is taken
outside of the lock, as those of large studies are. Run as `python -m tests.chaos.launcher`.
"""

import json
import os
import sys

from tests.chaos.mutants import apply_chosen

from parley.coordinator.http import server
from parley.coordinator.record import killpoints
from parley.coordinator.settings import Settings
from parley.coordinator.studies import phases
from parley.service.assembly import create_service


def serve(order):
    killpoints.arm(order["kill_at"])
    if not order["inline"]:
        phases.INLINE_CELLS = 0
    settings = Settings(
        db=order["db"], port=order["port"], rate=1e6, burst=10**6, log_level="error", statement_timeout=10.0
    )
    code = 1
    try:
        server.serve(settings, create_service, lambda _: None)
        code = 0
    finally:
        os._exit(code)


def main():
    apply_chosen()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer = {"status": os.waitpid(order["wait"], 0)[1]}
        elif "dead" in order:
            looked = os.waitid(os.P_PID, order["dead"], os.WEXITED | os.WNOHANG | os.WNOWAIT)
            answer = {"dead": looked is not None}
        else:
            pid = os.fork()
            if pid == 0:
                serve(order)
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
