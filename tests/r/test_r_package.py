"""The R package, by R itself: `R CMD check`, a live coordinator, and the table of docs/appendix/planning.md."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser.live import Agents, Server
from tests.r.rscript import require_r
from tools.pages import part

from parley import __version__

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "r"
COMMAND = """\
#!{python}
# The command, and a copy of what it printed.
import subprocess, sys
found = subprocess.run([sys.executable, "-m", "parley", *sys.argv[1:]], stdout=subprocess.PIPE)
open({copy!r}, "wb").write(found.stdout)
sys.stdout.buffer.write(found.stdout)
sys.exit(found.returncode)
"""
WRITE = """
exact <- function(frame) {
  frame[] <- lapply(frame, function(column) if (is.numeric(column)) sprintf("%.17g", column) else column)
  frame
}
"""


@pytest.fixture
def r(tmp_path):
    """Runs R in a folder of its own, with our command; what that printed last is in the file `printed`."""
    require_r()
    command = tmp_path / "parley"
    command.write_text(COMMAND.format(python=sys.executable, copy=str(tmp_path / "printed")))
    command.chmod(0o755)
    (tmp_path / "library").mkdir()
    known = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
    known |= {"PARLEY_COMMAND": str(command), "R_LIBS": str(tmp_path / "library"), "LC_ALL": "C.UTF-8"}

    def run(*words, **environment):
        environment = known | environment
        done = subprocess.run(
            words, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return done.stdout

    return run


def test_it_has_the_version_of_parley_and_the_trial_of_its_docs():
    description = (PACKAGE / "DESCRIPTION").read_text(encoding="utf-8")
    assert f"Version: {__version__}\n" in description
    protocol = "protocol.toml"
    assert (PACKAGE / "inst/extdata" / protocol).read_bytes() == (ROOT / "examples" / protocol).read_bytes()


@pytest.mark.servers
def test_r_cmd_check_finds_nothing_and_a_live_study_reads_as_its_api_says(r, tmp_path):
    server = Server(tmp_path / "coordinator")
    try:
        study = server.create()
        agents = Agents(server, study)
        agents.phase()
        live = {"PARLEY_SERVER": server.url, "PARLEY_TOKEN": server.token}
        r("R", "CMD", "build", str(PACKAGE))
        (archive,) = tmp_path.glob("parley_*.tar.gz")
        # Whether the suggested packages have newer versions is asked of nobody.
        checked = r("R", "CMD", "check", "--no-manual", archive.name, _R_CHECK_CRAN_INCOMING_="false", **live)
        assert "\nStatus: OK\n" in checked, checked
        r("R", "CMD", "INSTALL", "--no-docs", "-l", "library", archive.name)
        script = "library(parley); " + WRITE + f"write.csv(exact(parley_estimates('{study}')), 'found.csv', na = '')"
        r("Rscript", "-e", script, **live)
        findings = server.call("GET", f"studies/{study}/findings")
        wanted = [{"agent": agent["agent"], **flat(arm)} for agent in findings["agents"] for arm in agent["arms"]]
        assert_same(tmp_path / "found.csv", wanted)
        assert findings["phase"] == 1
    finally:
        server.stop()


@pytest.mark.simulations
def test_rscript_makes_the_operating_table_of_the_docs_to_the_digit(r, tmp_path):
    """The vignette is run whole. Its numbers are those that the command printed, and its table that of the docs."""
    r("R", "CMD", "INSTALL", "--no-docs", "-l", "library", str(PACKAGE))
    vignette = PACKAGE / "vignettes" / "planning.Rmd"
    script = f"knitr::knit('{vignette}', 'whole.md', quiet = TRUE); " + WRITE
    script += "write.csv(exact(found), 'found.csv', na = ''); "
    script += "write.csv(exact(parley_budgets(found)), 'budgets.csv', na = '')"
    r("Rscript", "-e", script, PARLEY_WHOLE="1")

    operating = json.loads((tmp_path / "printed").read_text())["operating"]
    assert_same(tmp_path / "found.csv", [flat({**truth, "budgets": {}}) for truth in operating])
    assert_same(tmp_path / "budgets.csv", [flat(budget) for truth in operating for budget in truth["budgets"]])

    table = part(ROOT / "docs" / "appendix" / "planning.md", "budgets")
    whole = (tmp_path / "whole.md").read_text(encoding="utf-8")
    assert "\n".join(table.splitlines()[2:]) in whole


def flat(document, name=""):
    """`samples: {mean: 1}` as `samples_mean: 1`, as the data frames have it."""
    found = {}
    for key, value in document.items():
        found |= flat(value, f"{name}{key}_") if isinstance(value, dict) else {name + key: value}
    return found


def assert_same(path, wanted):
    """Every value of every row, numbers to the last bit."""
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(wanted) > 0
    for row, one in zip(rows, wanted, strict=True):
        for key, value in one.items():
            if value is None:
                assert row.get(key, "") in ("", "NA"), key
            elif isinstance(value, bool | str):
                assert row[key] == str(value), key
            else:
                assert float(row[key]) == value, key
