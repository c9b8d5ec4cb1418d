"""A new reward model is its file, its name in the registry and a row of the test list; all else asks the model."""

from tests.support import code_of_page

# The model of the tutorial.
COIN = code_of_page("docs/tutorials/own-policy.md", "class Coin")


def test_a_reward_model_is_three_files(product):
    product.new("rewards/coin.py", COIN)
    product.put(
        "rewards/__init__.py", "from parley.rewards.coin import Coin\n", before="from parley.rewards.gaussian import"
    )
    product.put("rewards/__init__.py", "Coin, ", after="MODELS: tuple[type[RewardModel], ...] = (")
    assert len(product.touched) == 2, "and a row of the test list, tests/rewards/models.py"
    plugin = ("-p", "tests.recipes.coin_row")
    assert "passed" in product.passes(*plugin, "tests/rewards/test_conformance.py", "-k", "coin or registry")
    product.run("tests.recipes.reward_model", str(product.folder))
