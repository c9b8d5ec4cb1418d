"""Hooks: the extension points to which optional features, the *edges*, are attached.

An edge is a subclass of `Edge` and overrides the hooks that it needs; the docstring of each hook is its contract. The
rest of Parley calls hooks and never names an edge, so deleting an edge means deleting its folder. Parley's own edges
are the folders of `parley/edges`, each with an instance called `edge`. Other packages offer edges as entry points:

    [project.entry-points."parley.edges"]
    bells = "your_package:edge"

The module of an edge is imported whenever `parley` starts, so it must import little: a command names its code as a
string, and a hook imports what it needs only when it is called.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from parley.errors import InvalidInput

if TYPE_CHECKING:
    from datetime import datetime

    import click

    from parley.cli.plan import PlanRequest
    from parley.coordinator.http.context import Context, Service
    from parley.coordinator.http.guard import Operation
    from parley.coordinator.record.tables import Schema
    from parley.coordinator.settings import EdgeSettings
    from parley.dashboard.session import EdgePages
    from parley.experiments.sweeps.engines import Crew, Engine
    from parley.protocol import Stamp
    from parley.site.app import SiteOperation, SiteParts

GROUP = "parley.edges"  # entry point group
FOLDER = Path(__file__).parent / "edges"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A `parley` command: its name, its help text, and its code, imported only when the command is called."""

    name: str  # "ring" is `parley ring`, "admin bells" is `parley admin bells`
    target: str  # "package.module:function"
    help: str
    part: str = "More commands"  # heading of the command in `parley --help`

    def load(self) -> click.Command:
        """Import and return the click command."""
        module, _, name = self.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


class Edge:
    """An optional feature. Every method is a hook that does nothing unless it is overridden."""

    name: ClassVar[str]
    summary: ClassVar[str]  # what the edge offers a user, as listed by `parley doctor`
    docs: ClassVar[str] = ""  # where the edge is documented; for Parley's own edges: page and anchor in docs/
    # The extras of Parley that install the packages the edge needs, each with its purpose. `parley doctor` lists the
    # edge even if they are missing; using the edge then raises an error that names the extra, as `parley.errors.need`
    # does.
    extras: ClassVar[tuple[tuple[str, str], ...]] = ()
    commands: ClassVar[tuple[Command, ...]] = ()
    # What `parley admin restore` says about the edge: which of the edge's data no backup contains, and how to recover
    # them.
    not_restored: ClassVar[str] = ""
    # The folder of the edge's message catalogs, with files named like Parley's own: `de.po`, `trial.po`, `de_trial.po`.
    # They only add messages: for a message that Parley has too, Parley's wording is used.
    catalogs: ClassVar[Path | None] = None

    def options(self, command: str) -> Sequence[click.Option]:
        """Extra options for one of Parley's own commands. Their values are passed to the hook that uses them:

        `plan` -> `instead_of_plan`; `site` -> the `options` of `site_operations`; `verify` -> `judge_of_stamps`.
        """
        return ()

    def instead_of_plan(self, asked: PlanRequest, options: Mapping[str, Any]) -> bool:
        """Carry out `parley plan` in the edge's own way and return True; return False to leave it to Parley.

        The hook is called after the options have changed the study, before anything is simulated. It writes and prints
        its own output.
        """
        return False

    def judge_of_stamps(self, options: Mapping[str, Any]) -> Callable[[Stamp], datetime] | None:
        """A function with which `parley verify` checks a time stamp in the log and reads its time; None for no check.

        The function raises `BrokenChain` for a stamp that the trusted authority did not sign. Without this check a time
        stamp proves nothing, since an administrator can add any stamp to a log. `parley verify` itself checks that
        every stamp belongs to a record of the log.
        """
        return None

    def server_settings(self) -> type[EdgeSettings] | None:
        """Settings that the edge adds to `parley serve` (options, environment variables, docs), or None."""
        return None

    def tables(self) -> Schema | None:
        """The edge's own tables, with their migrations; `parley admin init` creates and upgrades them.

        They may refer to the coordinator's tables, never the other way round. If the edge is removed, its tables stay
        in the database but are no longer read. A backup contains only the tables named here.
        """
        return None

    def operations(self) -> Sequence[Operation]:
        """Operations that the edge adds to the coordinator's API. Each names the roles that may call it."""
        return ()

    def service(self, context: Context) -> Service | None:
        """The edge's part of one running coordinator: its state, its background work, and its actions after a commit.

        The hook is called once per coordinator, before it starts. Handlers get the service with
        `call.context.service(ITS_CLASS)`.
        """
        return None

    def pages(self) -> EdgePages | None:
        """Pages that the edge adds to the dashboard: routes, the folder of their templates, navigation links.

        A page calls operations through their guard, as all pages do.
        """
        return None

    def site_operations(self, site: SiteParts) -> Sequence[SiteOperation]:
        """Operations that the edge adds to each site's API, behind the site's guard and in its OpenAPI document."""
        return ()

    def engines(self) -> Mapping[str, Callable[[Engine, ExitStack], Crew]]:
        """Sweep engines by name. Each is a function that opens a `Crew` and registers its clean-up on the `ExitStack`.

        Results must not depend on the engine, so each cell of a sweep carries everything that it needs.
        """
        return {}


@cache
def edges() -> tuple[Edge, ...]:
    """All edges: Parley's own, then those of installed packages; both groups sorted by name. Loaded once per process.

    >>> all(isinstance(one, Edge) for one in edges())
    True
    """
    found = [*own_edges(), *map(_loaded, sorted(entry_points(group=GROUP), key=lambda point: point.name))]
    names = [one.name for one in found]
    for one in found:
        if names.count(one.name) > 1:
            # Choosing either one would give some users a feature that they did not ask for.
            raise InvalidInput("edge", found=f"{one.name} twice", allowed="a name that only one package offers")
    return tuple(found)


def commands_of_edges(group: str = "") -> dict[str, Command]:
    """The commands, by name, that edges add to `parley` or to one of its groups (such as `admin`)."""
    found = {}
    for edge in edges():
        for command in edge.commands:
            above, _, last = command.name.rpartition(" ")
            if above == group:
                found[last] = command
    return found


@cache
def own_edges() -> tuple[Edge, ...]:
    """Parley's own edges, in alphabetical order."""
    names = sorted(one.name for one in pkgutil.iter_modules([str(FOLDER)]))
    return tuple(importlib.import_module(f"parley.edges.{name}").edge for name in names)


def _loaded(point: EntryPoint) -> Edge:
    where = f"{point.name} ({point.value})" + (f" of the package {point.dist.name}" if point.dist else "")
    try:
        found = point.load()
    except Exception as error:  # importing third-party code can raise anything
        reason = f"{where}, which cannot be imported: {type(error).__name__}: {error}"
        raise InvalidInput("edge", found=reason, allowed="a package that can be imported") from error
    if not isinstance(found, Edge) or getattr(found, "name", None) != point.name:
        allowed = f"an instance of a subclass of parley.hooks.Edge with the name {point.name}"
        raise InvalidInput("edge", found=f"{where}, which is {found!r}", allowed=allowed)
    return found
