"""`make installs`: wheel and sdist are built; every extra is installed in a fresh environment and does its job there.

The first environment has the package alone. Each other one stands on it and adds one extra, so that what a part needs
is in its own extra or in nobody's. A study runs between two of them, `server` and `agent`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tools.packaging.builds import ROOT, build

from parley import __version__

CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("PARLEY_", "PYTHON"))}
QUICK = {**CLEAN, "OPENBLAS_NUM_THREADS": "1"}
STUDY = """
arms = 3
agents = ["Paris", "Lyon"]
delta = 0.1
[weights]
kind = "personalized"
alpha = 0.5
[truth]
means = [[0.9, 0.8], [0.1, 0.0], [0.0, 0.1]]
"""
SWEEP = """
name = "small"
replications = 4
[study]
arms = 3
agents = 2
truth = { generate = "paper", min_gap = 0.2 }
[axes]
delta = [0.1, 0.2]
"""


class Environment:
    """A fresh virtual environment; `parley` runs its command line in a folder of its own."""

    def __init__(self, folder: Path, wheel: Path, extra: str, *, on: Environment | None = None) -> None:
        self.folder, begun = folder, time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, env=CLEAN)
        self.python = folder / "bin" / "python"
        if on is not None:
            (self.packages / "below.pth").write_text(str(on.packages) + "\n", encoding="utf-8")
        # By its name and version, so that no address of this machine is noted with it.
        wanted = f"parley[{extra}]=={__version__}" if extra else f"parley=={__version__}"
        arguments = ["install", "--quiet", "--no-compile", "--disable-pip-version-check", "--no-warn-script-location"]
        arguments += ["--find-links", str(wheel.parent), "--constraint", str(ROOT / "constraints.txt"), wanted]
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), *arguments]
        subprocess.run(pip, check=True, env=CLEAN)
        self.work = folder / "work"
        self.work.mkdir()
        size = sum(file.lstat().st_size for file in self.packages.rglob("*")) / 1e6
        print(f"  {extra or 'parley alone'}: {size:,.0f} MB in {time.monotonic() - begun:.1f} s", flush=True)

    @property
    def packages(self) -> Path:
        return next((self.folder / "lib").glob("python*/site-packages"))

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        command = [str(self.python), "-m", "parley", *arguments]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.work, env={**QUICK, **variables}, **streams)

    def parley(self, *arguments: str, status: int = 0, patience: float = 120, **variables: str) -> str:
        """What a command says, on both streams; it must end with the given status and without a traceback."""
        running = self.start(*arguments, **variables)
        out, err = running.communicate(timeout=patience)
        if running.returncode != status or "Traceback" in err:
            told = f"parley {' '.join(arguments)} ended with {running.returncode} instead of {status}"
            raise SystemExit(f"{self.folder.name}: {told}\n{out[-1000:]}\n{err[-2000:]}")
        return out + err

    def complete(self) -> set[str]:
        """The extras that `parley doctor` finds complete."""
        found = json.loads(self.parley("doctor", "--json"))
        return {name for name, part in found["extras"].items() if part["complete"]}


def try_alone(alone: Environment) -> None:
    (alone.work / "study.toml").write_text(STUDY, encoding="utf-8")
    assert alone.complete() == set()
    json.loads(alone.parley("bounds", "study.toml", "--json"))
    alone.parley("demo", "--replications", "20")
    alone.parley("plan", "study.toml", "--replications", "2", "--instances", "2")
    for arguments, extra in (
        (["serve"], "server"),
        (["agent", "--study", "x", "--source", "csv:x"], "agent"),
        (["report", "."], "experiments"),
    ):
        assert f".[{extra}]" in alone.parley(*arguments, status=2), arguments


def try_experiments(folder: Path, wheel: Path, alone: Environment) -> None:
    environment = Environment(folder, wheel, "experiments", on=alone)
    assert environment.complete() == {"experiments"}
    (environment.work / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    environment.parley("sweep", "sweep.toml", "--out", "results", "--workers", "1")
    environment.parley("report", "results", "--output", "report.html")
    page = (environment.work / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 2


@contextmanager
def serving(server: Environment) -> Iterator[tuple[str, str]]:
    """A coordinator of the server's environment: its address, and the file with the administrator's token."""
    server.parley("admin", "init", "--db", "parley.db", "--token-file", "root.token")
    running = server.start("serve", "--db", "parley.db", "--port", "0")
    try:
        assert running.stdout is not None
        yield running.stdout.readline().rsplit(" at ", 1)[1].strip(), str(server.work / "root.token")
    finally:
        running.terminate()
        running.communicate(timeout=30)


def try_live(server: Environment, agent: Environment) -> None:
    assert server.complete() == {"agent", "server"}  # `server` includes what an agent needs
    assert agent.complete() == {"agent"}
    (agent.work / "study.toml").write_text(STUDY, encoding="utf-8")
    with serving(server) as (address, token):
        for path in ("/healthz", "/readyz", "/static/style.css", "/static/fonts/inter.woff2"):
            with urllib.request.urlopen(address + path, timeout=10) as answer:
                assert answer.status == 200, path
        reached = {"PARLEY_SERVER": address, "PARLEY_TOKEN_FILE": token}
        agent.parley("admin", "create-study", "study.toml", "--id", "first", "--tokens", "tokens", **reached)
        agents = [
            agent.start(
                "agent",
                "--server",
                address,
                "--study",
                "first",
                "--source",
                "simulate:study.toml",
                "--token-file",
                str(file),
                "--outbox",
                f"outbox-{file.stem}",
            )
            for file in sorted((agent.work / "tokens").glob("*.token"))
        ]
        for one in agents:
            _, err = one.communicate(timeout=60)
            assert one.returncode == 0, err
        agent.parley("verify", "first", **reached)
    assert "Sound" in server.parley("verify", "first", "--db", "parley.db")
    assert "1 study" in server.parley("doctor", "--db", "parley.db")


def try_site(site: Environment) -> None:
    assert site.complete() == {"agent", "site"}
    assert "journals" in site.parley("site", "--study", "first", status=2)  # it gets as far as its journal


def try_sql(sql: Environment) -> None:
    assert sql.complete() == {"agent", "sql"}
    (sql.work / "house.toml").write_text("url = 'duckdb://'\nquery = 'SELECT 1 AS arm'\n", encoding="utf-8")
    ask = "from parley.agent.tables import Warehouse; print(Warehouse.load('house.toml').ask().columns)"
    subprocess.run([str(sql.python), "-c", ask], check=True, env=QUICK, cwd=sql.work)


def try_privacy(privacy: Environment) -> None:
    assert privacy.complete() == {"privacy"}
    noise = "from parley.agent.privacy import ReportNoise; print(ReportNoise(sensitivity=1, rho=0.05).added([0] * 9))"
    subprocess.run([str(privacy.python), "-c", noise], check=True, env=QUICK)


def try_qualify(both: Environment) -> None:
    """Green from a wheel alone, without a checkout; all is tried but PostgreSQL."""
    assert "Qualified" in both.parley("qualify", "--minutes", "0.5", patience=600)
    found = json.loads((both.work / "parley-qualification.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in found["checks"] if one["result"] != "passed"] == ["kills, PostgreSQL"]
    assert "as the wheel brought them" in found["checks"][0]["detail"]


def main() -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="parley-installs-") as name:
        folder = Path(name)
        wheel, _ = build(folder / "dist")
        alone = Environment(folder / "alone", wheel, "")
        with ThreadPoolExecutor(2) as both:  # most of the time is spent in pip and in other processes
            first = both.submit(try_alone, alone)
            server, agent = (Environment(folder / extra, wheel, extra, on=alone) for extra in ("server", "agent"))
            first.result()
            last = both.submit(try_experiments, folder / "experiments", wheel, alone)
            try_live(server, agent)
            last.result()
            try_site(Environment(folder / "site", wheel, "site", on=alone))
            try_sql(Environment(folder / "sql", wheel, "sql", on=alone))
            try_qualify(Environment(folder / "both", wheel, "server,agent", on=alone))
            stamps = Environment(folder / "timestamps", wheel, "timestamps", on=alone)
            assert "timestamps" in stamps.complete()
            assert "oidc" in Environment(folder / "oidc", wheel, "oidc", on=alone).complete()
            try_privacy(Environment(folder / "privacy", wheel, "privacy", on=alone))
    print(f"Every extra does its job in an environment of its own ({time.monotonic() - begun:.0f} s).")


if __name__ == "__main__":
    main()
