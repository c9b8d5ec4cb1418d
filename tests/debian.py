"""Programs of Debian that tests need, and that are installed where they are missing and we may."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path


def say(words: str) -> None:
    """On the terminal, whatever pytest does with output."""
    print(f"tests: {words}", file=sys.__stderr__, flush=True)


def install(packages: Sequence[str], *, ready: Callable[[], object]) -> bool:
    """Whether it is `ready`, after an installation if needed. Processes that look at once take turns."""
    if ready():
        return True
    if not shutil.which("apt-get") or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    import fcntl

    with (Path(tempfile.gettempdir()) / "parley-debian.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not ready():
            say(f"installing Debian packages (apt-get install {' '.join(packages)})")
            for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
                subprocess.run(["apt-get", *command], check=False, capture_output=True, timeout=600)
    return bool(ready())
