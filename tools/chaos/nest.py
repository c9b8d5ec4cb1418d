"""Runs tests against mutants: everything is imported once, then every run of pytest is a fork of this process.

`python -m tools.chaos.nest` reads one JSON object per line, {"mutant", "tests"}, and answers with the results. Without
tests, the mutant is only applied.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from tools.chaos.mutants import MUTANTS, ROOT, VARIABLE, WHOLE, apply_chosen

PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OPENBLAS_NUM_THREADS": "1"}


class Nest:
    """The process that forks a pytest run for each mutant."""

    def __init__(self):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PARLEY_", "PYTEST_"))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tools.chaos.nest"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=kept | PLAIN,
        )

    def run_tests(self, tests, mutant=""):
        """Run tests; returns how many ran, how many had errors, and the output of the failures."""
        self.process.stdin.write(json.dumps({"mutant": mutant, "tests": tests}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["tests"], answer["errors"], answer["said"]

    def missed(self, mutant):
        """Why the test did not catch the mutant; empty if it failed for the expected reason."""
        _, errors, said = self.run_tests([mutant.place], mutant.name)
        if not said:
            return f"{mutant.name}: {mutant.test} {'broke off' if errors else 'passed'}"
        if not any(word in words for words in said for word in mutant.words):
            return f"{mutant.name}: {mutant.test} failed for another reason: {said[0][:300]}"
        return ""

    def fits(self, mutant):
        """Whether the mutant can be applied to the current code."""
        return self.run_tests([], mutant.name)[1] == 0

    def unsound(self, mutants):
        """The control: output of the tests of these mutants that fail even without a mutant, and so prove nothing."""
        tests = sorted({mutant.place for mutant in mutants})
        ran, errors, said = self.run_tests(tests)
        if ran != len(tests) or errors:
            said = [*said, f"{ran} of {len(tests)} tests ran, {errors} broke off"]
        return [f"without a mutant: {words[:300]}" for words in said]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def run():
    """Try all mutants, for the page; returns how many there were and how many survived."""
    nest = Nest()
    try:
        failures, caught = nest.unsound(MUTANTS), {}
        for mutant in MUTANTS:
            why = nest.missed(mutant)
            failures += [why] if why else []
            caught |= {} if why else {f"{mutant.name} ({mutant.breaks})": 1}
    finally:
        nest.close()
    return {"mutants": len(MUTANTS), "missed": len(MUTANTS) - len(caught), "caught": caught, "failures": failures}


def _pytest(order, folder, out):
    """Run pytest, ignoring warnings about the sockets and threads that a failed test leaves behind."""
    import pytest

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    off = [f"-pno:{plugin}" for plugin in ("cacheprovider", "unraisableexception", "threadexception")]
    # The test order in pyproject.toml needs a plug-in, and none is loaded here.
    plain = ["-o", "addopts=--import-mode=importlib --strict-markers -ra"]
    pytest.main(["-q", *plain, *off, f"--basetemp={folder}/tests", f"--junitxml={out}", *order["tests"]])


def hatch(order, folder):
    """Run pytest once in a fork; returns its recorded results."""
    out = Path(folder) / "out.xml"
    child = os.fork()
    if child == 0:
        try:
            os.environ[VARIABLE] = order["mutant"]
            if not order["tests"]:
                apply_chosen()
                os._exit(0)
            _pytest(order, folder, out)
        finally:
            os._exit(1)
    _, ended = os.waitpid(child, 0)
    if not order["tests"]:
        return {"tests": 0, "errors": int(ended != 0), "said": []}
    if not out.exists():
        return {"tests": 0, "errors": 1, "said": []}
    suite = next(ElementTree.parse(out).iter("testsuite"))
    said = [f"{found.get('message')}\n{found.text}" for found in suite.iter("failure")]
    return {"tests": int(suite.get("tests")), "errors": int(suite.get("errors")), "said": said}


def main():
    import tests.coordinator.support  # noqa: F401  imported once for all, with the coordinator

    for whole in WHOLE:
        importlib.import_module(whole)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(hatch(json.loads(line), folder)), flush=True)


if __name__ == "__main__":
    main()
