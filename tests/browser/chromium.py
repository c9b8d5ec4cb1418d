"""A Chromium to test with: one on the PATH, or else one that is installed now. Says what it does."""

import shutil
import subprocess
import sys

from tests.debian import install, say

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def _on_path() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def find_chromium() -> str | None:
    """The executable; None means the one that Playwright knows of: its own download, where Debian's cannot be had."""
    if install(["chromium"], ready=_on_path):
        say(f"using {_on_path()}")
        return _on_path()
    say("no Chromium on the PATH; downloading Playwright's own (playwright install chromium)")
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True, timeout=600)
    return None
