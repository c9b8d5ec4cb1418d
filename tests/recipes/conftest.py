import pytest
from tests.recipes.support import Product

collect_ignore = ["setting.py", "page.py", "event.py", "reward_model.py"]  # programs for a copy of the product


@pytest.fixture
def product(tmp_path):
    """A copy of the product, for a recipe to be applied to."""
    return Product(tmp_path)
