"""One versioned archive of the data behind every figure and table of the docs: `make figures`.

    parley-figures-VERSION.zip
      MANIFEST.json     every file with its checksum, its source and the command that makes it
      data/             CSV and JSON files of the docs; those below data/tables are the tables of its pages
      figures/          the drawings of the reproduction

The same files give the same archive, byte for byte, so that it can be cited by its checksum.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path

from parley import __version__

ROOT = Path(__file__).parents[1]
SOURCES = ("docs/reproduction/*.csv", "docs/reproduction/*.svg", "docs/*.json", "docs/tables/*/*.csv")
# File of results, table, or page of tables -> the command that makes it; by default the make target of that name.
LONG = "python -m tools.correctness"
MADE_BY = {
    "api": "make generated",
    "arms": f"{LONG} arms",
    "benchmarks": "make bench",
    "cost-theorem": "make theorem",
    "dashboard": "make forecasts",
    "delta-correctness": "make correctness",
    "delta-correctness/normal": f"{LONG} normal",
    "drift/normal": f"{LONG} normal-drift",
    "evidence-racing/settings": f"{LONG} settings",
    "evidence-racing/stated": f"{LONG} stated",
    "evidence-racing/together": f"{LONG} together",
    "glossary": "by hand",
    "lost-sites/errors": f"{LONG} lost-sites",
    "lost-sites/six": "python -m tools.trials six-sites",
    "mutants": "make generated",
    "outcomes": "make guardrails",
    "planning": f"{LONG} planning",
    "planning/powers": f"{LONG} powers",
    "privacy": f"{LONG} privacy",
    "production": "make generated",
    "reliability": "make chaos",
    "reward-figures": "make rewards",
    "rewards/counts": "make counts",
    "rewards/laws": "make laws",
    "rewards/skewed": "make tables",
    "site/concealment": f"{LONG} concealment",
    "site/flexible": f"{LONG} flexible",
    "threat-model": "by hand",
    "tolerance/closed": "make closed",
}
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # date of every file in the archive, so that archives are identical


def made_by(path: Path) -> str:
    """The command that makes a file of the docs.

    >>> made_by(Path("docs/tables/drift/normal-2.csv")), made_by(Path("docs/tables/drift/tilted.csv"))
    ('python -m tools.correctness normal-drift', 'make drift')
    """
    page = path.parent.name if path.parent.name not in ("docs", "tables") else path.stem
    names = (f"{page}/{path.stem}", f"{page}/{path.stem.partition('-')[0]}", page)
    return next((MADE_BY[name] for name in names if name in MADE_BY), f"make {page}")


def contents() -> dict[str, tuple[bytes, str, str]]:
    """Name in the archive -> content, source, and the command that makes it."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for path in (path for pattern in SOURCES for path in sorted(ROOT.glob(pattern))):
        source = path.relative_to(ROOT).as_posix()
        folder = "figures" if path.suffix == ".svg" else "data"
        inner = source.removeprefix("docs/") if "/tables/" in source else path.name
        found[f"{folder}/{inner}"] = (path.read_bytes(), source, made_by(path))
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
    """Write the archive and print its path, number of files and checksum."""
    path = archive(ROOT / "dist")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(f"{path.relative_to(ROOT)}: {len(contents())} files, sha256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
