"""Named points: whoever is armed dies at the right visit, and nobody else notices them."""

import signal
import subprocess
import sys

import pytest
from tests.support import first_quick

PROGRAM = """
import sys
from parley.system import killpoints

killpoints.arm(sys.argv[1])
for visit in range(3):
    sys.audit("os.elsewhere", "synced")
    sys.audit(killpoints.REACHED, "synced")
    print(visit, flush=True)
"""


def course(point):
    """The visits that a process survives, and how it ends."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, point], timeout=60, stdout=subprocess.PIPE, check=False)
    return len(done.stdout.split()), done.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(("point", "survived"), [("synced", 0), ("synced:3", 2)])
def test_a_process_dies_at_the_visit_for_which_it_is_armed(point, survived):
    assert course(point) == (survived, -signal.SIGKILL)


@pytest.mark.parametrize("point", first_quick("synced:4", "", "written"))
def test_a_process_that_is_not_armed_for_it_passes_a_point(point):
    assert course(point) == (3, 0)


def test_a_command_is_armed_by_its_environment(monkeypatch):
    from click.testing import CliRunner

    from parley.cli.main import main
    from parley.system import killpoints

    armed = []
    monkeypatch.setattr(killpoints, "arm", armed.append)
    CliRunner().invoke(main, ["schema"], env={"PARLEY_KILL_AT": "synced:2"})
    assert armed == ["synced:2"]
