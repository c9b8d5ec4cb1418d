from pathlib import Path

import pytest
from tests.recipes.support import Product

HERE = Path(__file__).parent

collect_ignore = [
    "setting.py",
    "page.py",
    "act.py",
    "reward_model.py",
    "coin_row.py",
]  # programs for a copy of the product


def pytest_collection_modifyitems(items):
    """All tests of this folder run against changed copies of the product."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.mutants)


@pytest.fixture
def product(tmp_path):
    """A copy of the product, for a recipe to be applied to."""
    return Product(tmp_path)
