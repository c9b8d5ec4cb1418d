"""A coordinator that is told to stop lets those who wait go, and has nothing to complain about."""

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from parley.coordinator.access.tokens import prepare

pytestmark = pytest.mark.kills


def test_sigterm_with_somebody_waiting_logs_no_traceback(tmp_path):
    token = prepare(str(tmp_path / "parley.db"), at="2026-01-01T00:00:00.000Z", name="root", new_token=True)[2]
    command = [sys.executable, "-m", "parley", "serve", "--db", "parley.db", "--port", "0"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            address = server.stdout.readline().rsplit(" at ", 1)[1].strip()
            asked = urllib.request.Request(f"{address}/v1/events", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(asked, timeout=20) as stream:
                assert b"studies" in stream.readline() + stream.readline()
                server.send_signal(signal.SIGTERM)
                assert server.wait(timeout=20) == 0
        finally:
            server.kill()
            server.stdout.close()
    told = (tmp_path / "log").read_text()
    assert '"stopped"' in told
    assert "Traceback" not in told
