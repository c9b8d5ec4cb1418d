"""Studies and totals for tests of a live study, without a server's packages."""

import numpy as np

from parley.protocol import StudyMessage
from parley.totals import Totals


def study_message(agents=3, arms=4, policy="wcpe", *, name="a study", weight=0.5, **changes):
    """A small study in which every agent matters to every other."""
    weights = np.full((agents, agents), (1 - weight) / agents) + weight * np.eye(agents)
    fields = {
        "name": name,
        "arms": tuple(f"arm {k + 1}" for k in range(arms)),
        "agents": tuple(f"agent {m + 1}" for m in range(agents)),
        "weights": tuple(map(tuple, weights.tolist())),
        "policy": policy,
    }
    return StudyMessage(**{**fields, **changes})


def rewards(counts, place, phase, *, spread=0.7):
    """Totals that depend on nothing but their arguments: arm 1 is best for everybody."""
    generator = np.random.default_rng([place, phase])
    counts = np.array(counts)
    means = spread * np.linspace(1, 0, len(counts))
    sums = counts * means + np.sqrt(counts) * generator.standard_normal(len(counts))
    squares = np.where(counts > 0, np.square(sums) / np.maximum(counts, 1) + np.maximum(counts - 1, 0), 0.0)
    return Totals(counts=counts, sums=sums, squares=squares)
