"""`parley doctor` tells what is there, and what is not."""

import json
import sys
from importlib import metadata
from importlib.util import find_spec

import pytest

from parley.cli import doctor
from parley.cli.doctor import extras, unmet
from parley.cli.main import run


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["parley", "doctor", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    out, err = capsys.readouterr()
    assert err == ""
    return ended.value.code, out


# A package of each extra that no other package of the quick tests brings along.
TELLS = {"sql": "duckdb", "polars": "polars", "ray": "ray", "dask": "distributed"}


def test_what_is_installed_is_complete_and_no_database_is_asked(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PARLEY_DB", raising=False)
    status, out = call(monkeypatch, capsys, "--json")
    found = json.loads(out)
    assert status == 0
    assert found["well"]
    assert found["database"] is None
    assert set(found["extras"]) == set(extras()) - {""}
    # What the quick tests install is here; the other layers add the rest to the same environment (`make setup`).
    there = {extra for extra in found["extras"] if extra not in TELLS or find_spec(TELLS[extra])}
    assert {extra for extra, part in found["extras"].items() if part["complete"]} == there


def test_a_missing_package_and_one_that_is_too_old_are_named(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    installed = metadata.version

    def version(name):
        if name == "psycopg-binary":  # asked for by psycopg's own extra
            raise metadata.PackageNotFoundError(name)
        return {"uvicorn": "0.1"}.get(name) or installed(name)

    monkeypatch.setattr(metadata, "version", version)
    assert sorted(unmet("parley", "server")) == ["psycopg-binary", "uvicorn >=0.30 (found 0.1)"]
    assert list(unmet("parley", "agent")) == []
    status, out = call(monkeypatch, capsys)
    assert status == 0  # an extra is a choice
    assert "psycopg-binary" in out
    assert "pip install '.[server]'" in out
    monkeypatch.setattr(metadata, "version", lambda name: "1.0" if name == "numpy" else installed(name))
    assert call(monkeypatch, capsys, "--json")[0] == 1


def test_a_database_that_answers_and_some_that_do_not(monkeypatch, capsys, tmp_path):
    from parley.coordinator.record import initialise

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "unmet", lambda *_: iter(()))  # what is installed is looked up by the tests above
    initialise("parley.db")
    status, out = call(monkeypatch, capsys)  # found because it is there
    assert (status, "answers" in out, "0 studies" in out) == (0, True, True)
    (tmp_path / "empty.db").touch()
    status, out = call(monkeypatch, capsys, "--db", "empty.db")
    assert status == 1
    assert "does not answer" not in out
    assert "answers, but is not ready: database schema: found an empty database" in " ".join(out.split())
    for address, words in (
        ("none.db", "no file"),
        ("mysql://x", "mysql"),
        ("postgresql://me:geheim@127.0.0.1:9/x", "refused"),
    ):
        status, out = call(monkeypatch, capsys, "--db", address, "--json")
        assert status == 1
        assert words in json.loads(out)["database"]["problem"]
        assert "geheim" not in out
