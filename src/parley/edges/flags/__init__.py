"""Feature flags: a site answers OpenFeature clients (OFREP) with a participant's arm as the value of a flag."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parley.hooks import Edge

if TYPE_CHECKING:
    import click

    from parley.site.app import SiteOperation, SiteParts


class FeatureFlags(Edge):
    """Adds two operations to a site's API, and the option that names the flag."""

    name = "flags"
    summary = "arms as feature flags of a site (OFREP): site --flag"
    docs = "integrations.md#feature-flags"

    def options(self, command: str) -> "Sequence[click.Option]":
        import click

        if command != "site":
            return ()
        words = "Key of the feature flag that OpenFeature clients ask for; default: the study."
        return (click.Option(["--flag"], default="", help=words),)

    def site_operations(self, site: "SiteParts") -> "Sequence[SiteOperation]":
        from parley.edges.flags.flags import operations

        return operations(site)


edge = FeatureFlags()
