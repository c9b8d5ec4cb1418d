"""CONTRIBUTING describes the house as it is: its map has every room, and every file that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "parley"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NO_ROOMS = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}


def test_the_map_has_every_room():
    drawn = {name.rstrip("/") for name in re.findall(r"^      (\w\S+)", TEXT, flags=re.MULTILINE)}
    there = {path.name for path in HOUSE.iterdir()} - NO_ROOMS
    assert drawn == there, f"the map in CONTRIBUTING.md: add {sorted(there - drawn)}, remove {sorted(drawn - there)}"


# The question, the errors of all, and where edges are attached, as other packages import it.
AT_THE_ROOT = {
    "problem",
    "questions",
    "covariates",
    "outcomes",
    "weights",
    "weight_map",
    "study",
    "settings",
    "costs",
    "totals",
    "estimates",
    "errors",
    "hooks",
}


def test_the_root_shows_the_question():
    there = {path.stem for path in HOUSE.glob("*.py")} - {"__init__", "__main__"}
    assert there == AT_THE_ROOT, "a module that is not about the question lives in a room whose name says what it is"


def test_every_file_that_is_named_is_there():
    """Some are named from their room on, as in `record/sqlite.py`."""
    named = set(re.findall(r"`([\w/.-]+\.(?:py|html|md|toml))`", TEXT))
    there = [path for top in ("src", "tests", "tools", "docs") for path in (ROOT / top).rglob("*.*")]
    known = {f"/{path.relative_to(ROOT).as_posix()}" for path in (*there, *ROOT.glob("*.*"))}
    gone = [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in known)]
    assert not gone, f"CONTRIBUTING.md names files that are not there: {', '.join(gone)}"
    assert len(named) > 40
