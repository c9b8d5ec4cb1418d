"""A Chromium to test with: one on the PATH, or else one that is installed now. Says what it does."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def _say(words: str) -> None:
    print(f"browser tests: {words}", file=sys.__stderr__, flush=True)


def _on_path() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _install() -> str | None:
    """The Debian package where we may; otherwise Playwright's own download, which it then finds by itself (None)."""
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        _say("no Chromium on the PATH; installing the Debian package (apt-get install chromium)")
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run(command, check=False, capture_output=True, timeout=600)
        if path := _on_path():
            return path
    _say("no Chromium on the PATH; downloading Playwright's own (playwright install chromium)")
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True, timeout=600)
    return None


def find_chromium() -> str | None:
    """The executable; None means the one that Playwright knows of. Processes that look at once take turns."""
    path = _on_path()
    if path:
        _say(f"using {path}")
        return path
    import fcntl

    with (Path(tempfile.gettempdir()) / "parley-chromium.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        return _on_path() or _install()
