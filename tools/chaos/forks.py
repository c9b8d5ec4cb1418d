"""Servers that start quickly: a module imports everything once, and each server is a fork of it.

The module's program is `loop(serve)`. It reads a JSON object a line: an order, which a fork carries out and which is
answered with {"pid"}; or {"wait": pid}, answered with {"status"} when that one has died; {"dead": pid}, at once with
whether it has; {"clear": true}, by which all that still run are killed. When its input ends, all end.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Forks:
    """The process that forks, seen from the tests."""

    def __init__(self, module):
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def ask(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def dead(self, pid):
        return self.ask(dead=pid)["dead"]

    def wait(self, pid):
        return self.ask(wait=pid)["status"]

    def clear(self):
        return self.ask(clear=True)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def loop(serve):
    """Carry out orders until the input ends; `serve` is given one in a fork, which ends with it."""
    running = set()
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), serve, running)), flush=True)
    _kill(running)


def _answer(order, serve, running):
    if "wait" in order:
        running.discard(order["wait"])
        return {"status": os.waitpid(order["wait"], 0)[1]}
    if "dead" in order:
        return {"dead": os.waitid(os.P_PID, order["dead"], os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None}
    if "clear" in order:
        return {"killed": _kill(running)}
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            serve(order)
            code = 0
        finally:
            os._exit(code)
    running.add(pid)
    return {"pid": pid}


def _kill(running):
    """How many there were."""
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    count = len(running)
    running.clear()
    return count
