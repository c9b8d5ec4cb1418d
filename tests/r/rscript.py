"""An R to test with: the one on the PATH, or else Debian's, which is installed now. Says what it does."""

import shutil
import subprocess

from tests.debian import install

NEEDED = ("r-base-core", "r-cran-jsonlite", "r-cran-curl", "r-cran-knitr", "r-cran-markdown")
LOADED = "for (name in c('jsonlite', 'curl', 'knitr', 'markdown')) loadNamespace(name)"


def _ready() -> bool:
    if not shutil.which("Rscript"):
        return False
    return subprocess.run(["Rscript", "-e", LOADED], check=False, capture_output=True, timeout=60).returncode == 0


def require_r() -> None:
    """Rscript and the packages that ours needs, or an error that says what to install."""
    if not install(NEEDED, ready=_ready):
        raise RuntimeError(f"Rscript with its packages is needed: apt-get install {' '.join(NEEDED)}")
