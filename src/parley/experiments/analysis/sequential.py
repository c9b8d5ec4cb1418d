"""The draws that a sequential study would have needed instead of a finished table, by resampling its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards.history import history_of
from parley.simulation import Outcome, simulate
from parley.simulation.simulate import Progress
from parley.validation.tables import Draws

MOST = 5  # a study without all answers is stopped at this multiple of the table's rows


@dataclass(frozen=True, kw_only=True)
class Sequential:
    """Simulated sequential studies whose truth is the table, with its means, skew and tails.

    The real truth is unknown, so the results describe the table only.
    """

    outcome: Outcome
    rows: int  # number of rows of the table
    most: int  # number of draws at which a study was stopped

    @property
    def decided(self) -> float:
        """The share of studies that had every answer before they were stopped."""
        return float(self.outcome.finished.mean())

    @property
    def fewer(self) -> float:
        """The share of studies that needed no more draws than the table has rows."""
        return float((self.outcome.finished & (self.outcome.costs <= self.rows)).mean())

    @property
    def differs(self) -> float:
        """The share of studies that ruled out an arm that is best in the table."""
        return self.outcome.error_rate

    def document(self) -> dict[str, Any]:
        """The results, ready for JSON."""
        costs, rounds = self.outcome.costs, self.outcome.rounds
        low, median, high = (float(value) for value in np.quantile(costs, (0.1, 0.5, 0.9)))
        return {
            "policy": self.outcome.policy,
            "replications": len(costs),
            "seed": self.outcome.seed,
            "stopped_at": self.most,
            "samples": {"mean": float(costs.mean()), "p10": low, "median": median, "p90": high},
            "rounds": {"mean": float(rounds.mean()), "max": int(rounds.max())},
            "decided": self.decided,
            "fewer_than_table": self.fewer,
            "differs": self.differs,
            "rows": self.rows,
        }


def sequential(
    problem: Problem,
    draws: Draws,
    *,
    policy: str,
    options: Mapping[str, Any],
    replications: int,
    seed: int,
    progress: Progress | None = None,
) -> Sequential:
    """Simulate studies that resample the table's rows, by arm and agent, until the policy has its answers."""
    history = history_of(draws, problem.arm_count, problem.noise, np.asarray(problem.weights.any(axis=1)))
    scale = history.scales if problem.noise.free_scale and (history.scales > 0).all() else None
    truth = Instance(problem=problem, means=history.means, scale=scale, history=history)
    rows = len(draws.outcome)
    outcome = simulate(
        make_policy(policy, problem, options),
        truth,
        replications=replications,
        seed=seed,
        max_samples=MOST * rows,
        progress=progress,
    )
    return Sequential(outcome=outcome, rows=rows, most=MOST * rows)
