"""Numeric tests and those of the protocol need nothing of a server; `make bare` runs them all so."""

import pytest
from tools.packaging.without_server import Refuse, places, run, server_packages

QUICK = "test_problem or test_weights or test_golden_logs or messages"


@pytest.mark.servers
def test_numeric_and_protocol_tests_are_collected_and_run_without_a_server():
    found = places()
    assert {"tests/protocol", "tests/policies", "tests/bounds", "src/parley/protocol"} <= set(found)
    done = run([*found, "-k", QUICK])
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed >= 100


def test_what_is_refused_cannot_be_imported():
    refused = server_packages()
    assert {"starlette", "uvicorn", "sqlalchemy", "structlog", "httpx2", "prometheus_client"} <= refused
    for name in ("uvicorn", "sqlalchemy.orm"):
        with pytest.raises(ModuleNotFoundError, match="without a server"):
            Refuse(refused).find_spec(name)
    assert Refuse(refused).find_spec("numpy") is None
