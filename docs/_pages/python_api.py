"""What Python programs may rely on, from its docstrings: a page a room, an entry a public name."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["ROOMS", "pages"]

# Page -> its title, and the modules and packages whose public names it tells; the first is what `import parley` gives.
ROOMS: dict[str, tuple[str, list[str]]] = {
    "parley": ("The public names", ["parley"]),
    "problems": ("Problems, weights, totals", ["parley.problem", "parley.weights", "parley.totals", "parley.study"]),
    "rewards": ("Reward models", ["parley.rewards"]),
    "solver": ("Bounds and the solver", ["parley.bounds", "parley.harmonic"]),
    "policies": ("Policies", ["parley.policies"]),
    "simulation": ("Simulation", ["parley.simulation"]),
    "frames": ("Frames and pictures of results", ["parley.text.tabular"]),
    "protocol": ("The protocol", ["parley.protocol"]),
    "agent": ("What a site runs", ["parley.agent"]),
    "experiments": ("Forecasts, sweeps, results", ["parley.experiments.forecasts", "parley.experiments.sweeps"]),
    "testing": ("Conformance suites", ["parley.testing.conformance"]),
    "errors": ("Errors", ["parley.errors"]),
}


def _modules(name: str) -> list[str]:
    """A module, or a package with every module of it, as far as they have public names."""
    module = importlib.import_module(name)
    below = [] if name == "parley" else pkgutil.iter_modules(getattr(module, "__path__", []))
    found = [name, *(f"{name}.{one.name}" for one in below)]
    return [one for one in found if public_names(importlib.import_module(one))]


def public_names(module: Any) -> list[str]:
    """What a package lists in `__all__`; of a plain module, the classes and functions that it defines."""
    defined = [
        name
        for name, thing in vars(module).items()
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__ == module.__name__
    ]
    return sorted(getattr(module, "__all__", [name for name in defined if not name.startswith("_")]), key=str.lower)


def pages() -> dict[str, str]:
    """Name of a page -> its text; `index` lists them."""
    made = {
        name: _page(title, [one for room in rooms for one in _modules(room)]) for name, (title, rooms) in ROOMS.items()
    }
    listed = "\n".join(made)
    made["index"] = (
        "# Python API\n\nWritten from the docstrings; the examples run in the tests.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    return made


def _page(title: str, modules: list[str]) -> str:
    lines = [f"# {title}", ""]
    for name in modules:
        module = importlib.import_module(name)
        if len(modules) > 1:
            lines += [f"## `{name}`", ""]
        lines += _docstring(inspect.getdoc(module) or "")
        for public in public_names(module):
            lines += _entry(name, public, getattr(module, public))
    return "\n".join(lines) + "\n"


def _entry(module: str, name: str, thing: Any) -> Iterator[str]:
    hidden = getattr(thing, "__module__", module) != module
    if inspect.isclass(thing):
        yield from _directive("class", module, f"{name}{_fields(thing)}", _class(thing), hidden=hidden)
    elif callable(thing):
        told = _docstring(inspect.getdoc(thing) or "")
        yield from _directive("function", module, f"{name}{_signature(thing)}", told, hidden=hidden)
    else:
        kind = "registry" if isinstance(thing, dict) else "value"
        words = ", ".join(f"`{key}`" for key in thing) if isinstance(thing, dict) else f"`{thing!r}`"
        yield from _directive("data", module, name, [f"A {kind}: {words}."], hidden=True)


def _directive(kind: str, module: str, signature: str, body: Any, *, hidden: bool) -> Iterator[str]:
    """An entry of the Python domain. What is told on two pages is indexed once, where it lives."""
    yield f"`````{{py:{kind}}} {signature}"
    yield f":module: {module}"
    if hidden:
        yield ":no-index:"
    yield ""
    yield from body
    yield "`````"
    yield ""


def _class(thing: type) -> Iterator[str]:
    yield from _docstring(inspect.getdoc(thing) or "")
    if dataclasses.is_dataclass(thing):
        comments = _comments(thing)
        for one in dataclasses.fields(thing):
            words = comments.get(one.name, "")
            yield f"- `{one.name}`: `{one.type}`{'. ' + words[0].upper() + words[1:] if words else ''}"
        yield ""
    for name, member in vars(thing).items():
        if name.startswith("_"):
            continue
        call = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        told = inspect.getdoc(call) if callable(call) or isinstance(member, property) else None
        if told:
            shown = name if isinstance(member, property) else f"{name}{_signature(call)}"
            yield f"**`.{shown}`**"
            yield ""
            yield from _docstring(told)


def _comments(thing: type) -> dict[str, str]:
    """What stands beside a field in the source."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return {}
    return dict(re.findall(r"^    (\w+): [^#\n]*?  # (.+)$", source, flags=re.MULTILINE))


def _signature(thing: Any) -> str:
    try:
        shown = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "()"
    return re.sub(r"'([^']*)'", r"\1", shown) if "'" in shown else shown


def _fields(thing: type) -> str:
    if issubclass(thing, BaseException) or not dataclasses.is_dataclass(thing):
        return ""
    return "(" + ", ".join(one.name for one in dataclasses.fields(thing) if one.init) + ")"


def _docstring(text: str) -> list[str]:
    """Markdown from a docstring: examples become blocks of Python, what is indented stays as it was typed."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        if not paragraph.strip():
            continue
        if paragraph.lstrip().startswith(">>>"):
            lines += ["```pycon", *paragraph.splitlines(), "```"]
        elif paragraph.startswith((" ", "\t")):
            lines += ["```text", *paragraph.splitlines(), "```"]
        else:
            lines += [re.sub(r"([<\[*])(?![^`\n]*`)", r"\\\1", line) for line in paragraph.splitlines()]
        lines.append("")
    return lines
