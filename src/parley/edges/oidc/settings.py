"""Server settings: the sign-in provider, and the roles that its claims give to people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from parley.coordinator.settings import EdgeSettings, ServerSettings, require_url, setting
from parley.errors import InvalidInput, need
from parley.validation.checks import is_loopback

PEOPLE = ("viewer", "analyst", "auditor", "administrator")  # roles for people who sign in


@dataclass(frozen=True, kw_only=True)
class OidcSettings(EdgeSettings):
    """Settings of the sign-in provider. Without an issuer, nobody can sign in this way."""

    oidc_issuer: str = setting(
        "", "URL of the OpenID Connect issuer through which people may sign in to the pages. Empty: none."
    )
    oidc_client_id: str = setting("", "Client id of this server at the provider.")
    oidc_secret_file: str = setting(
        "", "File with the client's secret; without it, the variable PARLEY_OIDC_SECRET, or no secret."
    )
    oidc_scope: str = setting("openid profile email", "Scopes to ask the provider for.")
    oidc_name: str = setting(
        "email", "Claim of the ID token with a person's name for the log; if the token lacks it, sub."
    )
    oidc_claim: str = setting("groups", "Claim of the ID token with a person's roles, or the path to it (realm.roles).")
    oidc_roles: str = setting(
        "",
        "Roles by values of that claim, separated by commas: VALUE=ROLE or VALUE=ROLE:STUDY; the first match counts.",
    )

    def check(self, server: ServerSettings) -> None:
        require_url("oidc_issuer", self.oidc_issuer)
        secret = self.oidc_secret_file
        if secret and not Path(secret).is_file():
            raise InvalidInput("oidc_secret_file", found=f"no file at {secret}", allowed="a file with the secret")
        if not self.oidc_issuer:
            return
        need("authlib", extra="oidc", purpose="oidc_issuer")
        if not self.oidc_issuer.startswith("https://") and not is_loopback(urlsplit(self.oidc_issuer).hostname or ""):
            raise InvalidInput("oidc_issuer", found=self.oidc_issuer, allowed="https://HOST")
        wanted = {"public_url": server.public_url, "oidc_client_id": self.oidc_client_id, "oidc_roles": self.oidc_roles}
        for name, value in wanted.items():
            if not value:
                raise InvalidInput(name, found="nothing", allowed="a value, if there is an oidc_issuer")
        self.provider_roles  # noqa: B018  # parsed now, so that a mistyped setting is reported at the start

    @property
    def provider_roles(self) -> list[tuple[str, str, str | None]]:
        """The claim's values, each with its role and study (None: all studies), in the order of the setting.

        >>> OidcSettings(oidc_roles="staff=viewer:first, board=analyst").provider_roles
        [('staff', 'viewer', 'first'), ('board', 'analyst', None)]
        """
        found = []
        for entry in filter(None, map(str.strip, self.oidc_roles.split(","))):
            value, _, scope = entry.rpartition("=")
            role, _, study = scope.partition(":")
            if not value or role not in PEOPLE or (study and role == "administrator"):
                allowed = (
                    f"VALUE=ROLE or VALUE=ROLE:STUDY where ROLE is {', '.join(PEOPLE)} (the last one without a study)"
                )
                raise InvalidInput("oidc_roles", found=entry, allowed=allowed)
            found.append((value, role, study or None))
        return found
