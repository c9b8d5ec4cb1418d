"""The sweep file: a base study and axes, multiplied out into cells.

    name = "cost against delta"
    study = "paper.toml"              # the base study: a file beside this one, or a [study] section here
    replications = 1000
    seed = 0                          # of the rewards; the same in every cell, so that policies can be paired
    rows = "replication"              # or "cell": what a row of the results is

    [axes]
    alpha = [0.4, 0.5]
    policy = ["wcpe", { name = "uniform", threshold = "heuristic" }]
    "truth.min_gap" = [0.05, 0.1]     # any key of the study file

Every cell is checked before any is run.
"""

from __future__ import annotations

import copy
import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley import __version__, weights
from parley.errors import InvalidInput, InvalidStudy, UnknownName
from parley.experiments.cells import AxisValue, Cell
from parley.simulation import ENVIRONMENTS
from parley.study import SECTIONS

__all__ = ["AXES", "Sweep", "load_sweep", "parse_sweep"]

# The short names of axes; any other axis is a key of the study file, such as "truth.min_gap" or "policy.accuracy".
AXES = {
    "alpha": "weights.alpha",
    "delta": "delta",
    "K": "arms",
    "M": "agents",
    "N": "top",
    "policy": "policy.name",
    "noise": "noise.kind",
    "seed": "truth.seed",
}
KEYS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "study": (str, dict),
    "replications": (int,),
    "seed": (int,),
    "rows": (str,),
    "environment": (str,),
    "max_samples": (int,),
    "axes": (dict,),
}
ROWS = ("replication", "cell")
MOST_CELLS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A checked sweep: `document` says all of it in plain data, `cells` are what it asks for.

    >>> base = {"arms": 3, "agents": 2, "truth": {"generate": "paper"}}
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
        """The axes, in the order of the file."""
        return tuple(self.document["axes"])


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep file; every error names the file."""
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput("sweep file", found=f"no file at {path}", allowed="the path of a TOML sweep file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("sweep file", found=f"{path}: {error}", allowed="a readable TOML file") from None
    except tomllib.TOMLDecodeError as error:
        cause = InvalidInput("TOML", found=str(error), allowed="a valid TOML document")
        raise InvalidStudy(str(path), cause) from None
    try:
        return parse_sweep(document, folder=path.parent, default_name=path.stem)
    except InvalidStudy:
        raise
    except InvalidInput as error:
        raise InvalidStudy(str(path), error) from None


def parse_sweep(
    document: Mapping[str, Any], *, folder: Path = Path(), default_name: str = "sweep", made_by: str | None = None
) -> Sweep:
    """Check a parsed sweep document, multiply its axes out and check every cell.

    `made_by` is the version of Parley that ran a finished sweep: its cells are named, not checked again.
    """
    _check_keys(document)
    base = _base_study(document["study"], folder)
    axes = {name: _checked_axis(name, values) for name, values in document["axes"].items()}
    whole = {
        "name": document.get("name", default_name),
        "study": base,
        "replications": document.get("replications", 1000),
        "seed": document.get("seed", 0),
        "rows": document.get("rows", "replication"),
        "environment": document.get("environment"),
        "max_samples": document.get("max_samples"),
        "axes": axes,
    }
    targets = [AXES.get(name, name) for name in axes]
    for target in targets:
        if targets.count(target) > 1:
            both = " and ".join(name for name in axes if AXES.get(name, name) == target)
            raise InvalidInput("axes", found=f"{both}, which are the same", allowed="one axis for a key")
    count = math.prod(len(values) for values in axes.values())
    if count > MOST_CELLS:
        raise InvalidInput("axes", found=f"{count:,} cells", allowed=f"at most {MOST_CELLS:,}")
    labels = {name: _labels(name, values) for name, values in axes.items()}
    places = itertools.product(*(range(len(values)) for values in axes.values()))
    cells = tuple(
        _checked_cell(
            whole,
            {name: axes[name][at] for name, at in zip(axes, place, strict=True)},
            {name: labels[name][at] for name, at in zip(axes, place, strict=True)},
            made_by,
        )
        for place in places
    )
    return Sweep(name=whole["name"], document=whole, rows=whole["rows"], cells=cells)


def _check_keys(document: Mapping[str, Any]) -> None:
    words = {str: "text", int: "a whole number", dict: "a section"}
    for key, value in document.items():
        if key not in KEYS:
            raise UnknownName("key", key, KEYS)
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            raise InvalidInput(key, found=repr(value), allowed=" or ".join(words[kind] for kind in KEYS[key]))
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
    """The base study as one document without outside files, so that its hash says everything."""
    if isinstance(value, str):
        path = folder / value
        try:
            study = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InvalidInput("study", found=f"no file at {path}", allowed="the path of a TOML study file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput("study", found=f"{path}: {error}", allowed="a readable TOML study file") from None
        study.setdefault("name", path.stem)
        folder = path.parent
    else:
        study = copy.deepcopy(dict(value))
    section = study.get("weights")
    if isinstance(section, dict) and isinstance(section.get("file"), str):
        section["matrix"] = weights.from_file(folder / section.pop("file")).tolist()
    return study


def _checked_axis(name: str, values: Any) -> list[Any]:
    section, _, key = AXES.get(name, name).rpartition(".")
    if section not in SECTIONS or not (key in SECTIONS[section] or section == "policy") or key in SECTIONS:
        some = ["policy.<option>", *(f"{where}.{what}" for where in SECTIONS if where for what in SECTIONS[where])]
        raise UnknownName("axis", name, [*AXES, "largest_gap", *some])
    if not isinstance(values, list):
        raise InvalidInput(f"axes.{name}", found=repr(values), allowed="a list of values")
    if not values:
        raise InvalidInput(f"axes.{name}", found="an empty list", allowed="at least one value")
    return values


def _labels(name: str, values: list[Any]) -> list[AxisValue]:
    """The labels of an axis, of one type, so that they make a column."""
    labels = [_label(name, value) for value in values]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidInput(f"axes.{name}", found=f"{twice!r} twice", allowed="distinct values")
    kinds = {type(label) for label in labels}
    if kinds == {int, float}:
        return [float(label) for label in labels]
    return labels if len(kinds) == 1 else [str(label) for label in labels]


def _label(axis: str, value: Any) -> AxisValue:
    """How results name an axis value: itself, or its parts in words where it is a table or a list."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict) and axis in ("policy", "noise"):
        named = str(value.get("name" if axis == "policy" else "kind", ""))
        options = [f"{key}={part}" for key, part in sorted(value.items()) if part != named]
        return " ".join([named, *options]).strip()
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    raise InvalidInput(f"axes.{axis}", found=repr(value), allowed="text, numbers, lists (tables for policy and noise)")


def _checked_cell(
    sweep: Mapping[str, Any], values: Mapping[str, Any], labels: Mapping[str, AxisValue], made_by: str | None
) -> Cell:
    study = copy.deepcopy(sweep["study"])
    for axis, value in sorted(
        values.items(), key=lambda pair: "." in pair[0]
    ):  # options after the policy they belong to
        _set(study, axis, value)
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


def _set(study: dict[str, Any], axis: str, value: Any) -> None:
    """Put one axis value into a study document."""
    section, _, key = AXES.get(axis, axis).rpartition(".")
    if not section:
        study[key] = value
        return
    place = study.setdefault(section, {})
    if not isinstance(place, dict):
        raise InvalidInput(section, found=repr(place), allowed="a section")
    if isinstance(value, dict):
        study[section] = dict(value)
    elif axis == "policy" and place.get("name") != value:
        study[section] = {"name": value}  # options of another policy mean nothing to this one
    elif axis == "noise" and "bounded" in (value, place.get("kind")) and place.get("kind") != value:
        study[section] = {"kind": value}  # bounded noise has a range, the others have a scale
    else:
        place[key] = value
