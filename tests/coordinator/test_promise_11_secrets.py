"""Promise 11: secrets are never at rest or in a log. Planted canaries are searched for everywhere."""

from pathlib import Path

import httpx2
import pytest
from tests.coordinator.support import report_of, server_process, study_message

from parley.agent.client import Client
from parley.coordinator.access import tokens
from parley.coordinator.access.tokens import prepare
from parley.coordinator.observability import SECRET
from parley.coordinator.problems import Refusal
from parley.coordinator.record.backup import backup
from parley.errors import ParleyError


def secret_of(token):
    return token.split("_", 2)[2]


@pytest.mark.servers
def test_no_secret_in_database_logs_backup_or_export(tmp_path, database, postgres):
    token = prepare(database, at="2026-01-01T00:00:00.000Z")[2]
    secrets = {secret_of(token)}
    message = study_message(agents=2, arms=2, policy="uniform")
    with server_process(database, PARLEY_LOG_LEVEL="debug") as (process, url):
        with Client(url, token) as admin:
            admin.request("POST", "studies", json={"id": "trial", "study": message.to_json()})
            issued = [
                admin.request("POST", "tokens", json={"role": "agent", "study": "trial", "agent": name})["token"]
                for name in message.agents
            ]
            secrets |= {secret_of(one) for one in issued}
            with Client(url, issued[0]) as agent:
                agent.send(report_of(agent.plan("trial", "agent 1"), 0))
            admin.request("DELETE", "tokens", issued[1].split("_")[1])
            lost = "parley_0123456789abcdef_" + "Q" * 43  # a token of another server, sent here by mistake
            secrets.add(secret_of(lost))
            for wrong in (lost, issued[1]):
                with Client(url, wrong) as stranger, pytest.raises(ParleyError):
                    stranger.request("GET", "whoami")
            # In the wrong places: the path, the query, a body, a name.
            headers = {"Authorization": f"Bearer {token}"}
            with httpx2.Client(base_url=url, headers=headers) as http:
                http.get(f"/v1/studies/{lost}")
                http.get("/v1/studies", params={"search": lost})
                http.post("/v1/studies", content=lost.encode(), headers={"Content-Type": "application/json"})
            exported = "\n".join(admin.export("trial"))
            server_log = str(admin.request("GET", "log"))
        process.terminate()
        output, errors = process.communicate(timeout=120)
    assert '"operation": "put_report"' in errors, "the log was written"
    copy = tmp_path / "copy.db"
    backup(database, copy)
    places = {
        "output": [output.encode()],
        "log": [errors.encode()],
        "export": [exported.encode()],
        "server log": [server_log.encode()],
        "backup": [copy.read_bytes()],
        "database": list(_files(database, postgres)),
    }
    for name, contents in places.items():
        for content in contents:
            for secret in secrets:
                assert secret.encode() not in content, f"a secret in the {name}"
    for one in [token, *issued]:
        kid = one.split("_")[1].encode()
        assert any(kid in content for content in places["database"]), "the search would have found it: the kid is there"


def _files(database, postgres):
    """The database's own bytes: the files of SQLite; of PostgreSQL this database's files and the write-ahead log."""
    if "://" not in database:
        folders = [Path(database).parent]
    else:
        postgres.psql("CHECKPOINT")
        name = database.split("?")[0].rsplit("/", 1)[1]
        number = postgres.psql(f"COPY (SELECT oid FROM pg_database WHERE datname = '{name}') TO STDOUT").strip()
        folders = [Path(postgres.pgdata) / "base" / number, Path(postgres.pgdata) / "pg_wal"]
    for folder in folders:
        for path in folder.iterdir():
            if path.is_file():
                yield path.read_bytes()


def test_what_looks_like_a_secret_is_blanked_in_logs():
    assert SECRET.sub("[secret]", "postgresql://user:password@host/db") == "postgresql://[secret]@host/db"
    assert SECRET.sub("[secret]", "signed with whsec_" + "a+/" * 14 + "=") == "signed with [secret]"


def test_sessions_that_are_over_are_forgotten_so_that_no_clock_brings_them_back(storage):
    """Also across a restart: what was swept is gone, whatever the time is then said to be."""

    def open_and_sweep(connection):
        secret, ends = tokens.open_session(connection, "0" * 16, at="2026-01-01T00:00:00.000Z", hours=12)
        assert tokens.any_session_over(connection, at=ends)
        tokens.sweep_sessions(connection, at=ends)
        assert not tokens.any_session_over(connection, at=ends)
        return secret

    secret = storage.change(open_and_sweep)
    with pytest.raises(Refusal, match="unknown or has ended"):
        storage.read(lambda connection: tokens.resume(connection, secret, at="2025-01-01T00:00:00.000Z"))
