"""Sign-in to the dashboard through an OpenID Connect provider, which also re-authenticates people before they sign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.hooks import Edge

if TYPE_CHECKING:
    from parley.coordinator.http.context import Context, Service
    from parley.coordinator.settings import EdgeSettings
    from parley.dashboard.session import EdgePages


class Oidc(Edge):
    """Adds settings of the server, two pages, and the service that talks to the provider."""

    name = "oidc"
    summary = "sign-in to the dashboard by a provider: serve --oidc-issuer"
    docs = "production.md#sign-in-by-a-provider-single-sign-on"
    extras = (("oidc", "sign-in to the dashboard by a provider: serve --oidc-issuer"),)

    def server_settings(self) -> type[EdgeSettings]:
        from parley.edges.oidc.settings import OidcSettings

        return OidcSettings

    def service(self, context: Context) -> Service | None:
        from parley.edges.oidc.settings import OidcSettings

        if not context.settings.of(OidcSettings).oidc_issuer or context.settings.no_dashboard:
            return None
        from parley.edges.oidc.provider import Provider

        return Provider(context)

    def pages(self) -> EdgePages:
        from parley.dashboard.session import EdgePages
        from parley.edges.oidc.page import routes

        return EdgePages(routes=routes)


edge = Oidc()
