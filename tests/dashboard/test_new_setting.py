"""What a study asks for is spelled once: a new setting is a row of `StudySettings`, and the place that uses it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import parley

ROOT = Path(__file__).parents[2]

# What a new setting needs in `src`: its row, and the place that uses it.
PLACES = {
    "settings.py": (
        "\n    def _check_settings(",
        '\n    patience: int = setting(0, (int,), counted(0, 9), "days that somebody waits",\n'
        '        section="imaginary", sentence="somebody waits {value} days")\n',
    ),
    "bounds/paper.py": (None, "\n\ndef twice_the_patience(problem):\n    return 2 * problem.patience\n"),
}


def test_a_new_setting_is_at_most_three_places(tmp_path):
    """A copy of the product with an imaginary setting, which file, wire, store, API, pages and commands all know."""
    copy = tmp_path / "parley"
    shutil.copytree(Path(parley.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert len(PLACES) <= 3
    for name, (before, line) in PLACES.items():
        text = (copy / name).read_text(encoding="utf-8")
        place = len(text) if before is None else text.index(before)
        (copy / name).write_text(text[:place] + line + text[place:], encoding="utf-8")
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.dashboard.imaginary", str(tmp_path)],
        cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
