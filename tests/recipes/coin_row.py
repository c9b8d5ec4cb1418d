"""The row of the new reward model in the test list, as a plugin of pytest: `tests/rewards/models.py` would have it."""

from tests.rewards import models

models.ROWS["coin"] = {"kind": "coin", "scale": 0.5}
models.MODELS["coin"] = models.make_model(**models.ROWS["coin"])
