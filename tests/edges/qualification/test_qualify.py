"""`parley qualify`: green where the product is what it promises, red where any of its parts is not."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner
from tests.protocol.test_golden_logs import text_of, written
from tests.support import first_quick
from tools.mutants.run import ROOT, SOURCE, patched
from tools.mutants.table import MUTANTS
from tools.promises import promises

from parley.cli.main import main
from parley.edges.qualification import checks as qualify_checks
from parley.edges.qualification import command as qualify
from parley.edges.qualification.checks import CHECKS, Bench, Check, Flaw, references
from parley.errors import InvalidInput

FOLDER = SOURCE / "edges" / "qualification"
# One of each: the solver, the policy, checks of reports, the chain, access; and the check that must be red with it.
FLAWS = {
    "an allocation is a hundredth too small": "solver",
    "a bet does not pay for its stake": "simulated studies",
    "counts have no limit": "reports",
    "hashes of records are not compared": "verify",
    "a token reaches every study": "access",
}


def golden_files():
    """What `make generated` writes where it is missing, and never again: numbers and a log to be compared with."""
    return {
        FOLDER / "references.json": lambda: json.dumps(references(), indent=1) + "\n",
        FOLDER / "log.ndjson": lambda: text_of(written("binary")),
    }


def run(*arguments):
    return CliRunner().invoke(main, ["qualify", *arguments], standalone_mode=False)


def given(monkeypatch, *checks):
    """These checks instead of all."""
    monkeypatch.setattr(qualify, "CHECKS", [Check(claim="it holds", covers=("promise 1",), **one) for one in checks])


def broken(_):
    raise Flaw("one is two")


def test_a_report_for_people_and_one_for_programs(tmp_path, monkeypatch):
    given(monkeypatch, {"name": "good", "run": lambda _: "two & two"}, {"name": "far", "run": broken, "postgres": True})
    done = run("--report", str(tmp_path / "report.html"))
    assert done.return_value == 0, done.output
    text = (tmp_path / "report.json").read_text(encoding="utf-8")
    document, page = json.loads(text), (tmp_path / "report.html").read_text(encoding="utf-8")
    assert document["passed"]
    assert document["counts"] == {"passed": 1, "failed": 0, "skipped": 1}
    assert hashlib.sha256(text.encode()).hexdigest() in page, "the page says which record it is of"
    assert "two &amp; two" in page
    assert document["packages"]["numpy"] in page
    first = next(row for row in document["promises"] if row["key"] == "promise 1")
    assert first["here"] == {"good": "passed", "far": "skipped"}
    assert "<strong>Qualified: 1 check passed" in page
    assert "Only a part was tried" in run("--report", str(tmp_path / "part.html"), "--only", "good").output
    assert first["tests"] == ["tests/coordinator/test_promise_01_exactly_once.py"]


def test_a_flaw_or_a_fault_is_red_and_the_other_checks_are_tried(tmp_path, monkeypatch):
    given(
        monkeypatch,
        {"name": "flaw", "run": broken},
        {"name": "fault", "run": lambda _: 1 / 0},
        {"name": "good", "run": lambda _: "fine"},
    )
    done = run("--report", str(tmp_path / "report.html"), "--json")
    document = json.loads(done.output)
    assert done.return_value == 1
    assert [one["detail"] for one in document["checks"]] == [
        "one is two",
        "ZeroDivisionError: division by zero",
        "fine",
    ]
    assert "NOT qualified" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_signed_report_can_be_checked_by_anybody_and_a_changed_one_shows(tmp_path, monkeypatch):
    given(monkeypatch, {"name": "good", "run": lambda _: "fine"})
    key, report = tmp_path / "key", tmp_path / "report.html"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "auditor", "-f", key], check=True)
    for _ in range(2):  # again over the files of before
        assert run("--report", str(report), "--key", str(key)).return_value == 0
    kind, public, _ = (tmp_path / "key.pub").read_text(encoding="utf-8").split()
    (tmp_path / "signers").write_text(f"auditor {kind} {public}\n", encoding="utf-8")
    check = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "signers", "-I", "auditor", "-n", "parley-qualification"]

    def checked(file):
        signature = file.with_name(file.name + ".sig")
        with file.open("rb") as content:
            return subprocess.run([*check, "-s", signature], stdin=content, capture_output=True, check=False).returncode

    assert [checked(report), checked(report.with_suffix(".json"))] == [0, 0]
    report.write_text(report.read_text(encoding="utf-8").replace("fine", "good"), encoding="utf-8")
    assert checked(report) != 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--only", "everything"], "allowed: installation, solver"),
        (["--key", "no-such-key"], "a private key that ssh-keygen made"),
        (["--database", "sqlite:///x.db"], "SQLite is always tried"),
        (["--database", "postgresql://nobody@127.0.0.1:1/x"], "a PostgreSQL database that answers"),
        (["--report", "no/such/folder/x.html"], "a file in a folder that exists"),
        (["--report", "x.json"], "does not end in .json"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_tried(options, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(qualify, "_tried", broken)
    done = run(*options)
    assert isinstance(done.exception, InvalidInput), done.exception
    assert says in str(done.exception)


def test_files_that_were_changed_since_the_installation_are_named(tmp_path, monkeypatch):
    package = tmp_path / "parley"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    record = tmp_path / "parley-1.0.0.dist-info" / "RECORD"
    record.parent.mkdir()
    (record.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: parley\nVersion: 1.0.0\n", encoding="utf-8")
    record.write_text("parley/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n", encoding="utf-8")
    installed = next(qualify_checks.metadata.distributions(path=[str(tmp_path)]))
    monkeypatch.setattr(qualify_checks.metadata, "distribution", lambda _: installed)
    monkeypatch.setattr(qualify_checks, "unmet", lambda *_: [])
    with pytest.raises(Flaw, match="another copy is imported"):
        qualify_checks.installation(None)
    monkeypatch.setattr(qualify_checks.parley, "__file__", str(package / "__init__.py"))
    assert "1 file as the wheel" in qualify_checks.installation(None)
    (package / "__init__.py").write_text("delta = 0", encoding="utf-8")
    with pytest.raises(Flaw, match="changed since it was installed"):
        qualify_checks.installation(None)


@pytest.mark.parametrize(
    "name", first_quick("installation", "solver", "bounds", "digests", "reports", "verify", quick=5)
)
def test_a_quick_check_passes_here(name, tmp_path):
    one = next(one for one in CHECKS if one.name == name)
    assert one.run(Bench(minutes=0, folder=tmp_path))


def test_every_promise_names_tests_that_exist_and_every_check_a_promise():
    rows = list(promises())
    keys = {row["key"] for row in rows}
    assert {f"promise {number}" for number in range(1, 14)} <= keys
    for row in rows:
        assert row["promise"]
        assert (ROOT / row["page"]).is_file(), row["page"]
        assert [test for test in row["tests"] if not (ROOT / test).exists()] == []
        assert row["tests"]
    assert {key for one in CHECKS for key in one.covers} <= keys


def qualified(tmp_path, source, names):
    """The exit status of `parley qualify` with this package, and the names of the checks that were red."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "parley", "qualify", "--minutes", "0.2", "--json"]
    command += ["--report", str(tmp_path / "report.html"), *(word for name in names for word in ("--only", name))]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    return done.returncode, [one["name"] for one in document["checks"] if one["result"] == "failed"]


@pytest.mark.mutants
@pytest.mark.parametrize("flaw", [None, *FLAWS])
def test_green_as_it_is_and_red_with_any_of_five_flaws(flaw, tmp_path):
    copy = tmp_path / "source" / "parley"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if flaw is not None:
        (mutant,) = [mutant for mutant in MUTANTS if mutant.flaw == flaw]
        (copy / mutant.file).write_text(patched(mutant), encoding="utf-8")
    # Kills, which take longest, only where all must be green.
    names = [one.name for one in CHECKS if flaw is None or not one.name.startswith("kills")]
    status, red = qualified(tmp_path, copy.parent, names)
    if flaw is None:
        assert (status, red) == (0, [])
    else:
        assert status == 1
        assert FLAWS[flaw] in red


@pytest.mark.kills
def test_kills_on_postgresql_in_a_database_that_is_empty_and_not_in_another(postgres, tmp_path):
    postgres.psql("CREATE DATABASE qualification TEMPLATE template0")
    postgres_url = postgres.get_uri().replace("/postgres?", "/qualification?")
    options = ["--only", "kills, PostgreSQL", "--database", postgres_url, "--report", str(tmp_path / "report.html")]
    done = run(*options, "--json")
    assert done.return_value == 0, done.output
    assert json.loads(done.output)["counts"]["passed"] == 1
    with pytest.raises(InvalidInput, match="an empty database"):
        raise run(*options).exception
