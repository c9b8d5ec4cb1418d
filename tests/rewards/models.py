"""The test list of reward models: [noise] sections of every model in the registry, for two agents.

A new model gets a row here. What a test asks of a model follows from the traits that the model declares.
"""

from typing import Any

from parley.rewards import RewardModel, make_model

ROWS: dict[str, dict[str, Any]] = {
    "gaussian": {"scale": 1.0},
    "gaussian, a scale per agent": {"scale": [0.5, 1.5]},
    "gaussian, clipped": {"scale": 1.0, "clip": [-4.0, 4.0]},
    "subgaussian": {"kind": "subgaussian", "scale": 1.0},
    "unknown": {"scale": "unknown"},
    "unknown per agent": {"scale": "unknown per agent"},
    "unknown per cell": {"scale": "unknown per cell"},
    "unknown, shared": {"scale": "unknown, shared"},
    "bounded": {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "hoeffding"},
    "bounded, variance": {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"},
    "binary": {"kind": "binary", "rate": 0.4},
    "binary, normal": {"kind": "binary", "inference": "normal"},
    "count": {"kind": "count", "mean": 0.8},
}
MODELS: dict[str, RewardModel] = {name: make_model(**keys) for name, keys in ROWS.items()}
IN_RANGE = {name: model for name, model in MODELS.items() if model.in_range}
