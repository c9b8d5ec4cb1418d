"""The axes of a sweep: what their names stand for, how results name their values, and how a value enters a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parley.errors import InvalidInput, UnknownName
from parley.experiments.sweeps.cells import AxisValue
from parley.study import SECTIONS
from parley.terms import TERMS

__all__ = ["AXES", "axis_labels", "checked_axis", "set_axis", "target"]

# The short names of axes; any other axis is a key of the study file, such as "truth.min_gap" or "policy.accuracy".
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
TABLES = {"policy": "name", "noise": "kind", "weights": "kind"}  # whole sections as axes; the key that names a value


def target(name: str) -> str:
    """The key of the study file that an axis sets.

    >>> target("alpha"), target("truth.min_gap")
    ('weights.alpha', 'truth.min_gap')
    """
    return AXES.get(name, name)


def checked_axis(name: str, values: Any) -> list[Any]:
    """The values of an axis, if there is such an axis and they make one."""
    section, _, key = target(name).rpartition(".")
    known = section in SECTIONS and (key in SECTIONS[section] or section == "policy") and key not in SECTIONS
    if not known or (section, key) == ("weights", "file"):  # a file is given in a table of the axis weights
        some = ["policy.<option>", *(f"{where}.{what}" for where in SECTIONS if where for what in SECTIONS[where])]
        raise UnknownName("axis", name, {*AXES, *(row.key for row in TERMS.values() if not row.section), *some})
    if not isinstance(values, list):
        raise InvalidInput(f"axes.{name}", found=repr(values), allowed="a list of values")
    if not values:
        raise InvalidInput(f"axes.{name}", found="an empty list", allowed="at least one value")
    return values


def axis_labels(name: str, values: list[Any]) -> list[AxisValue]:
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
    """Put one axis value into a study document."""
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
        study[section] = {key: value}  # options of one policy, noise or kind of weights mean nothing to another
    else:
        place[key] = value


def _both_scaled(noise: Mapping[str, Any], kind: Any) -> bool:
    """Gaussian and sub-Gaussian noise have a stated scale in common; the other kinds have keys of their own."""
    scaled = {"gaussian", "subgaussian"}
    return {kind, noise.get("kind", "gaussian")} <= scaled and not isinstance(noise.get("scale", "unknown"), str)
