"""What every start of `parley` imports, whatever it is asked."""

import subprocess
import sys

SHOWN = """
import sys
from parley.cli.main import run
sys.argv = ["parley", "--version"]
try:
    run()
except SystemExit:
    print(*sys.modules)
"""
# Packages and modules that only some commands need; every start would wait for them.
HEAVY = {"multiprocessing", "sqlalchemy", "starlette", "httpx2", "pandas", "matplotlib", "joblib", "parley.edges"}


def test_no_start_waits_for_what_a_command_may_need():
    done = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
