import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.second_try import note

ROOT = Path(__file__).parents[2]


def test_what_failed_is_named_and_what_needed_nothing_leaves_no_note(tmp_path):
    file, failed = tmp_path / "notes", tmp_path / "lastfailed"
    assert note(file, failed) == []
    failed.write_text(json.dumps({"tests/b.py::two": True, "tests/a.py::one": True}))
    assert note(file, failed) == ["tests/a.py::one", "tests/b.py::two"]
    failed.write_text(json.dumps({"tests/c.py::three": True}))
    note(file, failed)
    assert file.read_text().splitlines() == ["tests/a.py::one", "tests/b.py::two", "tests/c.py::three"]


@pytest.mark.parametrize("later", [0, 3])
def test_ci_names_the_second_tries_last_however_it_ends(tmp_path, later):
    """`test-servers` passes at its second try; `make docs` ends with `later`."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".second-try").write_text("tests/of_an_earlier_run.py::zero\n")
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text(
        '#!/bin/sh\ncase "$*" in\ntest-servers) exit 1 ;;\nagain*) echo tests/a.py::one >> .venv/.second-try ;;\n'
        f"docs) exit {later} ;;\nesac\n"
    )
    make.chmod(0o755)
    path = os.pathsep.join([str(make.parent), os.environ["PATH"]])
    done = subprocess.run(
        [tmp_path / ".ci" / "run"], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == later
    assert done.stdout.splitlines()[-2:] == ["Failed at the first try; mend these:", "tests/a.py::one"]
    assert "earlier" not in done.stdout
