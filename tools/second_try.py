"""Record the tests that failed in the last run of pytest, before they are tried once more: `make again`."""

import json
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache") / "v" / "cache" / "lastfailed"


def note(file: Path, failed: Path = LAST_FAILED) -> list[str]:
    """Append the names of the failed tests to a file, and return them."""
    names = sorted(json.loads(failed.read_text(encoding="utf-8"))) if failed.exists() else []
    with file.open("a", encoding="utf-8") as notes:
        notes.writelines(f"{name}\n" for name in names)
    return names


if __name__ == "__main__":
    note(Path(sys.argv[1]))
