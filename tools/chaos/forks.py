"""Servers that start quickly: a process imports everything once, and each server is a fork of it.

The program calls `loop(serve)`. It reads one JSON object per line. An order is carried out by a fork and answered with
{"pid"}. {"wait": pid} is answered with {"status"} when that fork has died; {"dead": pid} is answered at once with
whether it has died; {"clear": true} kills all forks that still run. When the input ends, all forks end.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Forks:
    """The forking process, as the tests use it."""

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
    """Carry out orders until the input ends; each runs `serve(order)` in a fork, which then exits."""
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
    """Kill all running forks; returns how many there were."""
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    count = len(running)
    running.clear()
    return count
