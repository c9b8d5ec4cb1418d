"""`make sbom`: the packages that a user of a release installs, as a CycloneDX document in `dist`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.packaging.builds import ROOT, build, write_sbom
from tools.packaging.installs import Environment

from parley import __version__

USERS = "server,agent,site,sql,privacy,experiments"  # those of the images, plus those for sites and sweeps


def main() -> None:
    wheel, _ = build(ROOT / "dist")
    with tempfile.TemporaryDirectory(prefix="parley-sbom-") as name:
        installed = Environment(Path(name) / "users", wheel, USERS)
        target = ROOT / "dist" / f"parley-{__version__}.cdx.json"
        write_sbom(installed.python, target)
    print(f"Wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
