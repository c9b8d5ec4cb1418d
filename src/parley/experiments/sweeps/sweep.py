"""The sweep file: a base study and axes, multiplied out into cells.

    name = "cost against delta"
    study = "paper.toml"              # the base study: a file beside this one, or a [study] section here
    replications = 1000
    seed = 0                          # of the rewards; the same in every cell, so that policies can be paired
    rows = "replication"              # or "cell": what a row of the results is

    [axes]
    delta = [0.1, 0.05]
    policy = ["wcpe", { name = "uniform", threshold = "heuristic" }]
    weights = [{ label = "alone", kind = "identity" }, { label = "together", kind = "population", shares = [1, 1] }]
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
from parley.experiments.sweeps.axes import axis_labels, checked_axis, set_axis, target
from parley.experiments.sweeps.cells import AxisValue, Cell
from parley.simulation import ENVIRONMENTS

__all__ = ["Sweep", "load_sweep", "parse_sweep"]

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
    axes = {name: checked_axis(name, copy.deepcopy(values)) for name, values in document["axes"].items()}
    for section in axes.get("weights", ()):
        _take_in(section, folder)
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
    targets = [target(name) for name in axes]
    for key in targets:
        if targets.count(key) > 1:
            both = " and ".join(name for name in axes if target(name) == key)
            raise InvalidInput("axes", found=f"{both}, which are the same", allowed="one axis for a key")
    count = math.prod(len(values) for values in axes.values())
    if count > MOST_CELLS:
        raise InvalidInput("axes", found=f"{count:,} cells", allowed=f"at most {MOST_CELLS:,}")
    labels = {name: axis_labels(name, values) for name, values in axes.items()}
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
    _take_in(study.get("weights"), folder)
    return study


def _take_in(section: Any, folder: Path) -> None:
    """Put the matrix of a weights file in the place of its name: a hash must see the content."""
    if isinstance(section, dict) and isinstance(section.get("file"), str):
        section["matrix"] = weights.from_file(folder / section.pop("file")).tolist()


def _checked_cell(
    sweep: Mapping[str, Any], values: Mapping[str, Any], labels: Mapping[str, AxisValue], made_by: str | None
) -> Cell:
    study = copy.deepcopy(sweep["study"])
    for axis, value in sorted(
        values.items(), key=lambda pair: "." in pair[0]
    ):  # options after the policy they belong to
        set_axis(study, axis, value)
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
