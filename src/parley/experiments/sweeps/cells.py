"""A cell of a sweep: one study, one policy, many replications. Known by the hash of all that its numbers depend on.

A cell travels to a worker as plain data and comes back as a `CellResult`; workers write nothing, so a cluster needs no
shared disk and a worker that dies leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parley import __version__
from parley.bounds import bai, expected_samples, regret
from parley.errors import InvalidInput
from parley.policies import Policy, make_policy
from parley.problem import BoolArray, FloatArray, Instance, IntArray
from parley.simulation import make_environment, simulate
from parley.study import DEFAULT_POLICY, PLAYING_POLICY, parse_study
from parley.weights import identity

__all__ = ["Cell", "CellResult", "canonical", "run_cell"]

AxisValue = str | int | float | bool


def canonical(document: Any) -> str:
    """JSON in one spelling only: sorted keys, no spaces, no NaN.

    >>> canonical({"b": 1, "a": [0.5, None]})
    '{"a":[0.5,null],"b":1}'
    """
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput("specification", found=str(error), allowed="text, numbers, true, false, lists") from None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What to run, and where on the axes it stands.

    >>> study = {"arms": 3, "agents": 2, "truth": {"generate": "paper"}}
    >>> one = Cell(study=study, axes={}, replications=10, seed=1)
    >>> one.key == Cell(study=study, axes={}, replications=10, seed=2).key
    False
    """

    study: Mapping[str, Any]  # a whole study document
    axes: Mapping[str, AxisValue]  # axis -> the value's label
    replications: int
    seed: int
    environment: str | None = None
    max_samples: int | None = None
    version: str = __version__  # of Parley: another version is another cell, its results are not mixed in
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", hashlib.sha256(canonical(self.specification()).encode()).hexdigest()[:32])

    def specification(self) -> dict[str, Any]:
        """Everything the numbers depend on."""
        return {
            "parley": self.version,
            "study": self.study,
            "axes": self.axes,
            "replications": self.replications,
            "seed": self.seed,
            "environment": self.environment,
            "max_samples": self.max_samples,
        }

    @property
    def policy(self) -> str:
        """The label of its policy, on an axis or not."""
        usual = DEFAULT_POLICY if self.study.get("horizon") is None else PLAYING_POLICY
        return str(self.axes.get("policy", self.study.get("policy", {}).get("name", usual)))

    def prepare(self) -> tuple[Policy, Instance]:
        """The policy and the instance, checked: any mistake in the cell is an `InvalidInput`."""
        study = parse_study(self.study)
        instance = study.require_truth()
        if self.max_samples is None and study.problem.horizon is None:
            instance.require_distinct()
        make_environment(instance, self.environment)
        return make_policy(study.policy, study.problem, study.options, instance), instance


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a cell gave, one entry a replication; `seconds` is the one thing that differs between two runs."""

    key: str
    costs: IntArray
    rounds: IntArray
    mistaken: BoolArray
    finished: BoolArray
    draws: FloatArray  # (arm, agent): mean draws
    lower_bound: float | None  # on the expected samples, on regret with a horizon; None where it says nothing
    isolated_bound: float | None  # on samples with W = Id, every agent alone; None where arms tie then, or are played
    seconds: float
    money: FloatArray | None = None  # where prices are stated
    days: FloatArray | None = None  # where rates are stated
    regret: FloatArray | None = None  # where a horizon is stated


def run_cell(cell: Cell) -> CellResult:
    """Run one cell, here and now."""
    policy, instance = cell.prepare()
    outcome = simulate(
        policy,
        instance,
        replications=cell.replications,
        seed=cell.seed,
        environment=cell.environment,
        max_samples=cell.max_samples,
    )
    return CellResult(
        key=cell.key,
        costs=outcome.costs,
        rounds=outcome.rounds,
        mistaken=outcome.mistaken,
        finished=outcome.finished,
        draws=outcome.draws,
        lower_bound=_bound(instance),
        isolated_bound=_bound(_isolated(instance)) if instance.problem.horizon is None else None,
        seconds=outcome.seconds,
        money=outcome.bill.money,
        days=outcome.bill.days,
        regret=outcome.bill.regret,
    )


def _isolated(instance: Instance) -> Instance:
    """The same local means with W = Id: what each agent faces alone (the comparison of the paper's Section 3)."""
    samples_only = {"price": 1.0, "rate": None, "day_cost": 0.0, "round_days": 0.0, "delay": 0.0}
    problem = instance.problem.with_(weights=identity(instance.problem.agent_count), **samples_only)
    return Instance(problem=problem, means=instance.means, scale=instance.scale)


def _bound(instance: Instance) -> float | None:
    horizon = instance.problem.horizon
    if instance.tied:
        return None
    if isinstance(horizon, int):
        return regret(instance, accuracy=1e-6).proven * math.log(horizon)
    if not instance.problem.asks_exactly:
        return None
    return expected_samples(bai(instance, accuracy=1e-6), instance.problem.delta)
