"""One versioned archive of the data behind every figure and table of the docs: `make figures`.

    parley-figures-VERSION.zip
      MANIFEST.json     every file with its checksum, where it is from and the command that makes it
      data/             CSV and JSON files of the docs as they are, and tables of pages as CSV
      figures/          the drawings of the reproduction

The same files give the same archive, byte for byte, so that it can be cited by its checksum.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from parley import __version__
from parley.text.formatting import csv_text

ROOT = Path(__file__).parents[1]
# Files and pages with figures or tables of them -> the target of the Makefile that makes them.
SOURCES = {
    "docs/reproduction/*.csv": "reproduction",
    "docs/reproduction/*.svg": "reproduction",
    "docs/*.json": "",  # the target of the same name, or see NAMED
    "docs/appendix/savings.md": "savings",
    "docs/appendix/peers.md": "peers",
    "docs/appendix/regret.md": "regret",
    "docs/appendix/prices.md": "prices",
    "docs/appendix/cost-theorem.md": "theorem",
    "docs/appendix/reward-figures.md": "rewards",
    "docs/appendix/benchmarks.md": "bench",
}
NAMED = {"delta-correctness": "correctness", "reliability": "chaos"}
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # of every file in the archive: a date would make two archives differ


def tables(page: str) -> Iterator[str]:
    """The tables of a page that hold numbers, as CSV.

    >>> list(tables("| N | saving |\\n|---|---:|\\n| 1 | 25.2 |\\n"))
    ['N,saving\\n1,25.2\\n']
    """
    for found in re.findall(r"(?:^\|.*\|\n)+", page, flags=re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines())
        if any(re.search(r"\d", cell) for row in rows for cell in row):
            # Two columns may have one title.
            keys = [f"{title} ({place})" if title in head[:place] else title for place, title in enumerate(head)]
            yield csv_text(keys, [dict(zip(keys, row, strict=False)) for row in rows], line_end="\n")


def contents() -> dict[str, tuple[bytes, str, str]]:
    """Name in the archive -> content, where it is from, and what makes it."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for pattern, target in SOURCES.items():
        for path in sorted(ROOT.glob(pattern)):
            source, made = path.relative_to(ROOT).as_posix(), f"make {target or NAMED.get(path.stem, path.stem)}"
            if path.suffix == ".md":
                for place, text in enumerate(tables(path.read_text(encoding="utf-8")), start=1):
                    found[f"data/{path.stem}-{place}.csv"] = (text.encode(), source, made)
            else:
                folder = "figures" if path.suffix == ".svg" else "data"
                found[f"{folder}/{path.name}"] = (path.read_bytes(), source, made)
    return found


def archive(folder: Path) -> Path:
    """Write the archive of this version into a folder."""
    files = contents()
    listed = [
        {"file": name, "sha256": hashlib.sha256(content).hexdigest(), "from": source, "made_by": made}
        for name, (content, source, made) in files.items()
    ]
    manifest = json.dumps({"parley": __version__, "files": listed}, indent=2).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"parley-figures-{__version__}.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name, content in {"MANIFEST.json": manifest, **{name: one[0] for name, one in files.items()}}.items():
            made.writestr(zipfile.ZipInfo(name, LONG_AGO), content, zipfile.ZIP_DEFLATED)
    return path


def main() -> int:
    """Write it, and say where and what it is."""
    path = archive(ROOT / "dist")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(f"{path.relative_to(ROOT)}: {len(contents())} files, sha256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
