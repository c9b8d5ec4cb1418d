"""Each edge is a folder: without it everything else works, and the remaining tests pass."""

import shutil

import pytest
from tests.recipes.support import Product

from parley.coordinator.record import initialise, open_storage
from parley.errors import InvalidInput
from parley.hooks import FOLDER, own_edges

pytestmark = pytest.mark.mutants
NAMES = [one.name for one in own_edges()]
QUICK = "not simulations and not servers and not kills and not mutants and not engines and not browser"
# A fast selection of what is not of an edge: commands, sites, sweeps, the server and its pages.
TESTS = (
    "tests/cli/test_doctor.py", "tests/cli/test_verify.py", "tests/coordinator/test_backup.py",
    "tests/coordinator/test_signed.py", "tests/dashboard/test_session.py", "tests/dashboard/test_signatures.py",
    "tests/experiments/sweeps/test_engines.py", "tests/site/test_api.py",
)  # fmt: skip


@pytest.mark.parametrize("gone", [[name] for name in NAMES] + [NAMES], ids=[*NAMES, "all"])
def test_without_it_everything_else_works(tmp_path, gone):
    product = Product(tmp_path / "product")
    for name in gone:
        shutil.rmtree(product.folder / "parley" / "edges" / name)
    if gone == NAMES:
        shutil.rmtree(product.folder / "parley" / "edges")
    (tmp_path / "data").mkdir()
    initialise(str(tmp_path / "data" / "whole.db"))
    assert "as promised" in product.run("tests.edges.without", str(tmp_path / "data"), *gone)
    assert "passed" in product.passes(*TESTS, "-m", QUICK)


def test_an_edge_that_comes_back_asks_for_its_tables(tmp_path):
    product = Product(tmp_path / "product")
    shutil.rmtree(product.folder / "parley" / "edges")
    database = str(tmp_path / "parley.db")
    product.run("parley", "admin", "init", "--db", database)
    with pytest.raises(InvalidInput, match=r"no tables of webhooks.*parley admin init"):
        open_storage(database)
    initialise(database)
    open_storage(database).close()


def test_every_edge_has_tests_and_is_a_folder_of_its_name():
    for name in NAMES:
        assert (FOLDER / name / "__init__.py").is_file()
        assert (FOLDER.parents[2] / "tests" / "edges" / name).is_dir()
