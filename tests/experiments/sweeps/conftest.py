"""Sweeps small enough for tests, and ways to watch a real run from outside."""

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

# Ray guards its clusters with a token; the tests' clusters have one of their own, and no file of the user is touched.
RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

BASE = """
name = "{name}"
replications = {replications}
seed = 3

[study]
arms = 4
agents = 2
largest_gap = 2.0
weights = {{ kind = "personalized", alpha = 0.5 }}
truth = {{ generate = "paper", min_gap = 0.1 }}
noise = {{ scale = 1.0 }}
policy = {{ name = "wcpe" }}

[axes]
"""


@pytest.fixture
def sweep_file(tmp_path):
    """Writes a sweep file: `sweep_file("delta = [0.1, 0.05]")`."""

    def write(axes, *, name="small", replications=20, file="small.toml"):
        path = tmp_path / file
        path.write_text(BASE.format(name=name, replications=replications) + axes)
        return path

    return write


@pytest.fixture
def ray_environment():
    """The environment of a Ray cluster that the commands of `parley` can join."""
    return {**os.environ, **RAY}


class Command:
    """A `parley` of its own process group, with its descendants in view."""

    def __init__(self, *arguments):
        # A job in the background of a script ignores SIGINT, and so would whatever it starts: these commands too.
        heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        script = f"{heard}; from parley.cli.main import run; run()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **RAY, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
        )

    def workers(self, *words):
        """The descendants whose command line holds one of some words."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                line = " ".join([child.name(), *child.cmdline()])
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if any(word in line for word in words):
                found.append(child)
        return found

    def wait_for_cells(self, folder: Path, count, seconds=300):
        """Until so many cells are written, or the run ends; returns how many there are."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            written = len(list((folder / "cells").glob("*.parquet")))
            if written >= count or self.process.poll() is not None:
                return written
            time.sleep(0.01)
        raise AssertionError(f"fewer than {count} cells after {seconds} s")

    def kill(self):
        """SIGKILL to the whole group, as a machine that loses its power would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def finish(self, seconds=300):
        """Wait for the end; the status and what was printed."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err


@pytest.fixture
def parley():
    """Starts commands, and leaves none behind."""
    started = []

    def start(*arguments):
        started.append(Command(*arguments))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.kill()
