"""Sweeps: a base study and axes, whose values are combined into cells; docs/experiments.md has an example.

All cells are checked before the first is run. A cell is one study with one policy and many replications; its key is a
hash of all data that its numbers depend on. A worker receives a cell as plain data and returns a `CellResult`. Workers
write no files, so a cluster needs no shared disk, and a worker that dies leaves no partial file.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parley import __version__, weights
from parley.bounds import bai, expected_samples, regret
from parley.costs import StudyCosts
from parley.errors import InvalidInput, InvalidStudy, UnknownName
from parley.policies import Policy, make_policy
from parley.problem import BoolArray, FloatArray, Instance, IntArray
from parley.rewards import KINDS, Gaussian
from parley.settings import REQUIRED, SETTINGS, Key, check_section
from parley.simulation import ENVIRONMENTS, make_environment, simulate
from parley.study import DEFAULT_POLICY, PLAYING_POLICY, REPEATED, SECTIONS, meant, parse_study, read_toml_file

AxisValue = str | int | float | bool

KEYS = {
    "name": Key(kinds=(str,), meaning="shown in reports", default="the file's name"),
    "study": Key(kinds=(str, dict), meaning="the base study: the path of a study file, or a section", default=REQUIRED),
    "replications": Key(kinds=(int,), meaning="of every cell", default="1000"),
    "seed": Key(kinds=(int,), meaning="of the rewards, the same in every cell", default="0"),
    "rows": Key(kinds=(str,), meaning="what a row of the results is", default="`replication`"),
    "environment": Key(kinds=(str,), meaning="what draws the rewards", default="as the noise says"),
    "max_samples": Key(kinds=(int,), meaning="a run stops before the phase that would exceed it", default="no limit"),
    "axes": Key(kinds=(dict,), meaning="axis -> its values", default=REQUIRED),
}
ROWS = ("replication", "cell")
USUAL = {"replications": 1000, "seed": 0, "rows": ROWS[0], "environment": None, "max_samples": None}
MOST_CELLS = 1_000_000
# Short names of axes; any other axis is a key of the study file, such as "truth.min_gap" or "policy.accuracy".
AXES = {
    "alpha": "weights.alpha",
    "delta": "delta",
    "K": "arms",
    "M": "agents",
    "N": "top",
    "policy": "policy.name",
    "noise": "noise.kind",
    "weights": "weights.kind",
    "seed": "truth.seed",
}
TABLES = {"policy": "name", "noise": "kind", "weights": "kind"}  # axis whose values may be sections -> their main key


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A checked sweep: its definition as plain data in `document`, and its cells.

    >>> base = {"arms": 3, "agents": 2, "noise": {"scale": 1.0}, "truth": {"generate": "paper"}}
    >>> sweep = parse_sweep({"study": base, "axes": {"delta": [0.1, 0.05], "policy": ["wcpe", "uniform"]}})
    >>> [dict(cell.axes) for cell in sweep.cells][:2]
    [{'delta': 0.1, 'policy': 'wcpe'}, {'delta': 0.1, 'policy': 'uniform'}]
    """

    name: str
    document: Mapping[str, Any]
    rows: str
    cells: tuple[Cell, ...] = field(repr=False)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes, in the order of the file."""
        return tuple(self.document["axes"])


def load_sweep(path: str | Path) -> Sweep:
    """Read and check a sweep file; errors name the file."""
    path = Path(path)
    document = read_toml_file("sweep file", path)
    try:
        return parse_sweep(document, folder=path.parent, default_name=path.stem)
    except InvalidInput as error:
        raise InvalidStudy(str(path), error) from None


def parse_sweep(
    document: Mapping[str, Any], *, folder: Path = Path(), default_name: str = "sweep", made_by: str | None = None
) -> Sweep:
    """Check a parsed sweep document, combine the values of its axes, and check every cell.

    `made_by` is the version of Parley that ran a finished sweep; its cells keep that version and are not checked again.
    """
    _check_keys(document)
    base = _base_study(document["study"], folder)
    axes = {name: checked_axis(name, copy.deepcopy(values)) for name, values in document["axes"].items()}
    for section in axes.get("weights", ()):
        _inline_weights(section, folder)
    whole: dict[str, Any] = (
        {"name": default_name, "study": base} | USUAL | dict(document) | {"study": base, "axes": axes}
    )
    targets = [target(name) for name in axes]
    for key in targets:
        if targets.count(key) > 1:
            both = " and ".join(name for name in axes if target(name) == key)
            raise InvalidInput("axes", found=f"{both}, which are the same", allowed="one axis for a key")
    count = math.prod(len(values) for values in axes.values())
    if count > MOST_CELLS:
        raise InvalidInput("axes", found=f"{count:,} cells", allowed=f"at most {MOST_CELLS:,}")
    labelled = [zip(values, axis_labels(name, values), strict=True) for name, values in axes.items()]
    cells = []
    for place in itertools.product(*labelled):
        values, labels = (dict(zip(axes, part, strict=True)) for part in zip(*place, strict=True))
        cells.append(_checked_cell(whole, values, labels, made_by))
    return Sweep(name=whole["name"], document=whole, rows=whole["rows"], cells=tuple(cells))


def _check_keys(document: Mapping[str, Any]) -> None:
    check_section("", document, KEYS)
    if "study" not in document:
        raise InvalidInput("study", found="nothing", allowed="the path of a study file, or a [study] section")
    if not document.get("axes"):
        raise InvalidInput("axes", found="none", allowed="an [axes] section with at least one axis")
    if document.get("rows", ROWS[0]) not in ROWS:
        raise UnknownName("rows", document["rows"], ROWS)
    if document.get("environment", "gaussian") not in ENVIRONMENTS:
        raise UnknownName("environment", document["environment"], ENVIRONMENTS)
    for key, least in {"replications": 1, "max_samples": 1, "seed": 0}.items():
        if document.get(key, least) < least:
            raise InvalidInput(key, found=document[key], allowed=f"at least {least}")


def _base_study(value: str | Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The base study as one document without external files, so that its hash covers everything."""
    if isinstance(value, str):
        path = folder / value
        study = read_toml_file("study", path)
        study.setdefault("name", path.stem)
        folder = path.parent
    else:
        study = copy.deepcopy(dict(value))
    _inline_weights(study.get("weights"), folder)
    truth = study.get("truth")
    if isinstance(truth, dict) and "data" in truth:
        allowed = "means or generate: the hash of a cell must see all that its numbers depend on"
        raise InvalidInput("truth.data", found=repr(truth["data"])[:60], allowed=allowed)
    return study


def _inline_weights(section: Any, folder: Path) -> None:
    """Replace the name of a weights file by the matrix in the file, so that a cell's hash covers the matrix."""
    if isinstance(section, dict) and isinstance(section.get("file"), str):
        section["matrix"] = weights.from_file(folder / section.pop("file")).tolist()


def _checked_cell(
    sweep: Mapping[str, Any], values: Mapping[str, Any], labels: Mapping[str, AxisValue], made_by: str | None
) -> Cell:
    study = copy.deepcopy(sweep["study"])
    for axis in sorted(values, key=lambda name: "." in name):  # sets a policy first, then its options
        set_axis(study, axis, values[axis])
    cell = Cell(
        study=study,
        axes=labels,
        replications=sweep["replications"],
        seed=sweep["seed"],
        environment=sweep["environment"],
        max_samples=sweep["max_samples"],
        version=made_by or __version__,
    )
    if made_by is not None:
        return cell
    try:
        cell.prepare()
    except InvalidInput as error:
        where = ", ".join(f"{axis} = {label}" for axis, label in labels.items())
        raise InvalidStudy(f"cell with {where}", error) from None
    return cell


def target(name: str) -> str:
    """The key of the study file that an axis sets.

    >>> target("alpha"), target("truth.min_gap")
    ('weights.alpha', 'truth.min_gap')
    """
    return AXES.get(name, name)


def checked_axis(name: str, values: Any) -> list[Any]:
    """Check that an axis exists and that its values are a non-empty list; returns the values."""
    section, _, key = target(name).rpartition(".")
    single = section in SECTIONS and section not in REPEATED
    known = single and (key in SECTIONS[section] or section == "policy") and key not in SECTIONS
    # Weights from a file need the axis "weights", with tables as values; a file of data cannot be an axis.
    if not known or (section, key) in (("weights", "file"), ("truth", "data")):
        some = [
            "policy.<option>",
            *(f"{where}.{what}" for where in SECTIONS if where and where not in REPEATED for what in SECTIONS[where]),
        ]
        known_axes = {*AXES, *(row.key for row in SETTINGS.values() if not row.section), *some}
        raise UnknownName("axis", name, known_axes, meant("", key))
    if not isinstance(values, list):
        raise InvalidInput(f"axes.{name}", found=repr(values), allowed="a list of values")
    if not values:
        raise InvalidInput(f"axes.{name}", found="an empty list", allowed="at least one value")
    return values


def axis_labels(name: str, values: list[Any]) -> list[AxisValue]:
    """The labels of an axis's values, converted to one type, so that they fit one column of the results."""
    labels = [_label(name, value) for value in values]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidInput(f"axes.{name}", found=f"{twice!r} twice", allowed="distinct values")
    kinds = {type(label) for label in labels}
    if kinds == {int, float}:
        return [float(label) for label in labels]
    return labels if len(kinds) == 1 else [str(label) for label in labels]


def _label(axis: str, value: Any) -> AxisValue:
    """The label of an axis value in results: the value itself, or a description of a table or list."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict) and axis in TABLES:
        if "label" in value:
            return str(value["label"])
        named = str(value.get(TABLES[axis], ""))
        options = [f"{key}={part}" for key, part in sorted(value.items()) if part != named]
        return " ".join([named, *options]).strip()
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    raise InvalidInput(
        f"axes.{axis}", found=repr(value), allowed="text, numbers, lists (tables for policy, noise and weights)"
    )


def set_axis(study: dict[str, Any], axis: str, value: Any) -> None:
    """Set one axis of a study document to a value, in place."""
    section, _, key = target(axis).rpartition(".")
    if not section:
        study[key] = value
        return
    place = study.setdefault(section, {})
    if not isinstance(place, dict):
        raise InvalidInput(section, found=repr(place), allowed="a section")
    if isinstance(value, dict):
        study[section] = {name: part for name, part in value.items() if name != "label"}
    elif axis in TABLES and place.get(key) != value and not (axis == "noise" and _both_scaled(place, value)):
        study[section] = {key: value}  # drops the section's other keys, which belong to the previous policy or kind
    else:
        place[key] = value


def _both_scaled(noise: Mapping[str, Any], kind: Any) -> bool:
    """Whether a change to the noise `kind` can keep `scale`: both kinds have this key, and its value is a number."""
    scaled = {name for name, model in KINDS.items() if "scale" in model.keys}
    return {kind, noise.get("kind", Gaussian.kind)} <= scaled and not isinstance(noise.get("scale", "unknown"), str)


def canonical(document: Any) -> str:
    """The canonical JSON text of a document, for hashes: sorted keys, no spaces, no NaN.

    >>> canonical({"b": 1, "a": [0.5, None]})
    '{"a":[0.5,null],"b":1}'
    """
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput("specification", found=str(error), allowed="text, numbers, true, false, lists") from None


def cell_key(specification: Mapping[str, Any]) -> str:
    """The key of a cell: a hash of its specification, on which all its numbers depend."""
    return hashlib.sha256(canonical(specification).encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of a sweep: the study to run, how to run it, and the cell's values on the axes.

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
    version: str = __version__  # of Parley; part of the key, so that results of different versions are never mixed
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", cell_key(self.specification()))

    def specification(self) -> dict[str, Any]:
        """All data that the cell's numbers depend on, for its key."""
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
        """The label of the cell's policy, which may come from an axis, from the study or from a default."""
        usual = DEFAULT_POLICY if self.study.get("horizon") is None else PLAYING_POLICY
        return str(self.axes.get("policy", self.study.get("policy", {}).get("name", usual)))

    def prepare(self) -> tuple[Policy, Instance]:
        """The cell's policy and instance; raise `InvalidInput` if the cell has a mistake."""
        study = parse_study(self.study)
        instance = study.require_truth()
        if self.max_samples is None and study.problem.horizon is None:
            instance.require_distinct()
        make_environment(instance, self.environment)
        return make_policy(study.policy, study.problem, study.options, instance), instance


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """The results of a cell; arrays are `(replication,)` unless stated. A second run differs only in `seconds`."""

    key: str
    costs: StudyCosts
    rounds: IntArray
    mistaken: BoolArray
    finished: BoolArray
    draws: FloatArray  # (arm, agent): mean draws
    lower_bound: float | None  # on the expected samples or, with a horizon, on regret; None if none applies
    isolated_bound: float | None  # the lower bound with every agent alone; None with a horizon, or if arms then tie
    seconds: float


def run_cell(cell: Cell) -> CellResult:
    """Run one cell in this process, and compute its lower bounds."""
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
        costs=outcome.study_costs,
        rounds=outcome.rounds,
        mistaken=outcome.mistaken,
        finished=outcome.finished,
        draws=outcome.draws,
        lower_bound=_bound(instance),
        isolated_bound=_bound(_isolated(instance)) if instance.problem.horizon is None else None,
        seconds=outcome.seconds,
    )


def _isolated(instance: Instance) -> Instance:
    """The same instance without collaboration: every agent that draws counts only its own rewards (paper, Section 3).

    Its cost is the number of samples: prices, rates, delays and the cost of days are dropped.
    """
    samples_only = {"price": 1.0, "rate": None, "day_cost": 0.0, "round_days": 0.0, "delay": 0.0}
    problem = instance.problem.with_(weights=instance.problem.alone, **samples_only)
    return replace(instance, problem=problem)


def _bound(instance: Instance) -> float | None:
    horizon = instance.problem.horizon
    if instance.tied:
        return None
    if isinstance(horizon, int):
        return regret(instance, accuracy=1e-6).proven * math.log(horizon)
    if not instance.problem.asks_exactly:
        return None
    return expected_samples(bai(instance, accuracy=1e-6), instance.problem.delta)
