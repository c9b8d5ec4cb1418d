"""Whatever serves or reads has looked at every struct type before it has two threads (`codec.build_structs`)."""

import os
import subprocess
import sys

import pytest

SERVER = """
from starlette.testclient import TestClient
from tests.coordinator.support import bootstrap
from parley.coordinator.record import initialise, open_storage
from parley.coordinator.settings import ServerSettings
from parley.service.server import create_service
initialise("parley.db")
storage = open_storage("parley.db")
bearer = {"Authorization": f"Bearer {bootstrap(storage)}"}
with TestClient(create_service(storage, ServerSettings(log_level="error"))) as client:
    for path in ("/healthz", "/sign-in", "/v1/openapi.json", "/v1/studies", "/v1/tokens", "/v1/log"):
        assert client.get(path, headers=bearer).status_code == 200, path
storage.close()
"""
SITE = """
from pathlib import Path
from types import SimpleNamespace
from parley.agent.site import Site
from parley.site.access import Access
from parley.site.app import create_app
with Site(Path("box"), study="s", agent="a") as site:
    create_app(SimpleNamespace(site=site), Access(host="127.0.0.1"))
"""
AGENT = """
from parley.agent import Client, Outbox, Worker
Client("http://127.0.0.1:9", "token").close()
"""
VERIFY = """
from pathlib import Path
from click.testing import CliRunner
from parley.cli.main import main
Path("log").write_text("{}")
assert CliRunner().invoke(main, ["verify", "log"]).exit_code == 1
"""
TOLD = "from parley.protocol.codec import unbuilt_structs; print([kind.__qualname__ for kind in unbuilt_structs()])"


@pytest.mark.servers
@pytest.mark.parametrize("begin", [SERVER, SITE, AGENT, VERIFY], ids=["server", "site", "agent", "verify"])
def test_every_struct_type_is_built_before_the_first_request(begin, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{TOLD}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"
