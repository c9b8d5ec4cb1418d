"""A protocol's dossier: `parley plan --report` writes the design of a study in words, with its simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.hooks import Edge

if TYPE_CHECKING:
    import click

    from parley.cli.plan import PlanRequest


class DossierOfProtocol(Edge):
    """Adds the options `--report` and `--language` to `parley plan`."""

    name = "dossier"
    summary = "the dossier of a protocol: plan --report"
    docs = "planning.md#the-dossier-of-a-protocol"
    catalogs = Path(__file__).parent / "catalogs"

    def options(self, command: str) -> Sequence[click.Option]:
        if command != "plan":
            return ()
        import click

        from parley.edges.dossier.dossier import REPLICATIONS
        from parley.text.translation import LANGUAGES

        words = (
            "Only write the dossier of a protocol to this file, .html or .md: the design in words, operating "
            "characteristics, type I error, bias of the estimates, examples, sensitivity, other designs, commands."
        )
        more = f" With {REPLICATIONS:,} simulated studies per truth, unless --replications says otherwise."
        spoken = "The language of --report."
        return (
            click.Option(["--report"], type=click.Path(dir_okay=False), help=words + more),
            click.Option(["--language"], type=click.Choice(LANGUAGES), default="en", show_default=True, help=spoken),
        )

    def instead_of_plan(self, asked: PlanRequest, options: Mapping[str, Any]) -> bool:
        if options["report"] is None:
            return False
        from parley.edges.dossier.command import write_dossier

        write_dossier(asked, options["report"], options["language"])
        return True


edge = DossierOfProtocol()
