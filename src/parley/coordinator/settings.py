"""Every setting of `parley serve` in one table, which feeds the command line, the docs and the checks.

A setting comes from its option, else from its environment variable, else from its default.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from parley.errors import InvalidInput, need
from parley.validation.checks import is_loopback

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
HOST_NAME = re.compile(r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}")
TRANSITION = tuple(ipaddress.IPv6Network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))

PEOPLE = ("viewer", "analyst", "auditor", "administrator")  # roles of those who sign in


def _setting(default: Any, help: str, *, least: float | None = None) -> Any:  # noqa: A002
    return field(default=default, metadata={"help": help, "least": least})


@dataclass(frozen=True, kw_only=True)
class AllowedHosts:
    """Names that webhooks may go to, and networks that these may resolve to besides the public Internet.

    >>> allowed = AllowedHosts.parse("example.org, *.example.com, 10.1.0.0/16")
    >>> allowed.names_host("a.example.com"), allowed.names_host("example.com"), allowed.names_host("10.1.2.3")
    (True, False, True)
    >>> [allowed.reaches(ipaddress.ip_address(one)) for one in ("8.8.8.8", "10.1.2.3", "10.2.0.1", "::ffff:127.0.0.1")]
    [True, True, False, False]
    """

    names: tuple[str, ...]
    networks: tuple[Network, ...]

    @classmethod
    def parse(cls, text: str) -> AllowedHosts:
        """From a setting."""
        names, networks = [], []
        for entry in filter(None, (part.strip().lower() for part in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry))
            except ValueError:
                if not HOST_NAME.fullmatch(entry.removeprefix("*.")):
                    allowed = "names (example.org, *.example.org), addresses and networks (10.1.0.0/16)"
                    raise InvalidInput("webhook_allow", found=entry, allowed=allowed) from None
                names.append(entry)
        return cls(names=tuple(names), networks=tuple(networks))

    def names_host(self, host: str) -> bool:
        """Whether the host of a URL is among them: by its name, or as an address of a network."""
        try:
            return self._holds(ipaddress.ip_address(host))
        except ValueError:
            return any(host.endswith(one[1:]) if one.startswith("*.") else host == one for one in self.names)

    def reaches(self, address: Address) -> bool:
        """Whether an address may be connected to: a public one, or one of a network that is named."""
        if self._holds(address):
            return True
        # Addresses of version 6 that lead to one of version 4 would lead around the networks.
        leads_on = address.version == 6 and any(address in network for network in TRANSITION)
        return address.is_global and not address.is_multicast and not address.is_reserved and not leads_on

    def _holds(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How a coordinator runs.

    >>> ServerSettings(port=0).port, ServerSettings().is_loopback
    (0, True)
    """

    db: str = _setting("parley.db", "Database: a file (SQLite) or postgresql://USER:PASSWORD@HOST/DATABASE.")
    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(8642, "Port to listen on; 0 takes a free one.", least=0)
    tls_cert: str = _setting("", "Certificate file (PEM), to serve HTTPS directly.")
    tls_key: str = _setting("", "Key file of the certificate (PEM).")
    tls_client_ca: str = _setting("", "Authorities (PEM) of client certificates: clients without one are refused.")
    plain_http: bool = _setting(False, "Allow plain HTTP on a non-loopback address: only behind a TLS reverse proxy.")
    rate: float = _setting(50.0, "Requests per second that one token may make on average.", least=0.1)
    burst: int = _setting(200, "Requests that one token may make at once.", least=1)
    body_limit: int = _setting(1_048_576, "Largest body of a request, in bytes.", least=1024)
    study_body_limit: int = _setting(33_554_432, "Largest body of a new study, in bytes (administrators).", least=1024)
    max_cells: int = _setting(100_000, "Largest number of arms x agents of a study.", least=2)
    max_agents: int = _setting(2_000, "Largest number of agents of a study.", least=1)
    connections: int = _setting(10, "PostgreSQL connections of one server process.", least=1)
    statement_timeout: float = _setting(30.0, "Seconds after which PostgreSQL cancels a statement.", least=0.1)
    session_hours: float = _setting(12.0, "Hours until a person must sign in again.", least=0.01)
    no_dashboard: bool = _setting(False, "Serve the API alone, without the web pages.")
    docs: str = _setting("", "Folder of the documentation site (made by make docs): linked from the pages, at /help.")
    webhook_allow: str = _setting(
        "",
        "Where webhooks may go, separated by commas: names (example.org, *.example.org), and private addresses or "
        "networks that they may resolve to (10.1.0.0/16). Empty: nowhere.",
    )
    public_url: str = _setting(
        "", "Address at which people open the pages, for links in webhooks; https:// makes cookies secure."
    )
    oidc_issuer: str = _setting(
        "", "OpenID Connect provider (URL of the issuer) with which people may sign in to the pages. Empty: none."
    )
    oidc_client_id: str = _setting("", "Client id of this server at the provider.")
    oidc_secret_file: str = _setting("", "File with the client's secret; else PARLEY_OIDC_SECRET, or no secret.")
    oidc_scope: str = _setting("openid profile email", "Scopes to ask the provider for.")
    oidc_name: str = _setting("email", "Claim of the ID token by which the log names people; without it: sub.")
    oidc_claim: str = _setting("groups", "Claim of the ID token that gives the roles, or its path (realm.roles).")
    oidc_roles: str = _setting(
        "", "Values of that claim, separated by commas: VALUE=ROLE or VALUE=ROLE:STUDY; the first that fits counts."
    )
    timestamp_authority: str = _setting(
        "", "RFC 3161 authority (URL) to stamp the head of a study's log after each decided phase. Empty: none."
    )
    log_level: str = _setting("info", "debug, info, warning or error.")

    def __post_init__(self) -> None:
        for entry in fields(self):
            least, value = entry.metadata["least"], getattr(self, entry.name)
            if least is not None and not value >= least:
                raise InvalidInput(entry.name, found=value, allowed=f"at least {least:g}")
        if self.port > 65_535:
            raise InvalidInput("port", found=self.port, allowed="0 to 65535")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise InvalidInput("log_level", found=self.log_level, allowed="debug, info, warning or error")
        self.allowed_hosts  # noqa: B018  # read now, so that a typing error is found at the start
        for name in ("public_url", "timestamp_authority", "oidc_issuer"):
            if (url := getattr(self, name)) and not url.startswith(("https://", "http://")):
                raise InvalidInput(name, found=url, allowed="https://HOST")
        if self.timestamp_authority:
            need("rfc3161_client", extra="timestamps", purpose="timestamp_authority")
        if self.oidc_issuer:
            self._check_provider()
        self._check_files()
        if not (self.is_loopback or self.tls_cert or self.plain_http):
            raise InvalidInput(
                "host",
                found=f"{self.host} with plain HTTP",
                allowed="a loopback address, or HTTPS (--tls-cert, --tls-key)",
                hint="Tokens would cross the network in the clear. Behind a TLS reverse proxy, say --plain-http",
            )

    def _check_provider(self) -> None:
        need("authlib", extra="oidc", purpose="oidc_issuer")
        if not self.oidc_issuer.startswith("https://") and not is_loopback(urlsplit(self.oidc_issuer).hostname or ""):
            raise InvalidInput("oidc_issuer", found=self.oidc_issuer, allowed="https://HOST")
        for name in ("public_url", "oidc_client_id", "oidc_roles"):
            if not getattr(self, name):
                raise InvalidInput(name, found="nothing", allowed="a value, where there is an oidc_issuer")
        self.provider_roles  # noqa: B018  # read now, so that a typing error is found at the start

    @property
    def provider_roles(self) -> list[tuple[str, str, str | None]]:
        """Value of the provider's claim, role and study (None: all), in the order of the setting.

        >>> ServerSettings(oidc_roles="staff=viewer:first, board=analyst").provider_roles
        [('staff', 'viewer', 'first'), ('board', 'analyst', None)]
        """
        found = []
        for entry in filter(None, map(str.strip, self.oidc_roles.split(","))):
            value, _, scope = entry.rpartition("=")
            role, _, study = scope.partition(":")
            if not value or role not in PEOPLE or (study and role == "administrator"):
                allowed = f"VALUE=ROLE or VALUE=ROLE:STUDY with a ROLE of {', '.join(PEOPLE)} (which is of no study)"
                raise InvalidInput("oidc_roles", found=entry, allowed=allowed)
            found.append((value, role, study or None))
        return found

    def _check_files(self) -> None:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InvalidInput("tls_cert, tls_key", found="one of them", allowed="both or none")
        if self.docs and not (Path(self.docs) / "index.html").is_file():
            raise InvalidInput("docs", found=f"no index.html in {self.docs}", allowed="a folder that `make docs` made")
        if self.tls_client_ca and not self.tls_cert:
            raise InvalidInput("tls_client_ca", found="no tls_cert", allowed="only with HTTPS (--tls-cert, --tls-key)")
        for name in ("tls_cert", "tls_key", "tls_client_ca", "oidc_secret_file"):
            path = getattr(self, name)
            if path and not Path(path).is_file():
                raise InvalidInput(name, found=f"no file at {path}", allowed="a file (PEM, or the secret of a client)")

    @property
    def allowed_hosts(self) -> AllowedHosts:
        """Where webhooks may go."""
        return AllowedHosts.parse(self.webhook_allow)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @classmethod
    def environment_name(cls, name: str) -> str:
        """The variable that sets a setting.

        >>> ServerSettings.environment_name("db")
        'PARLEY_DB'
        """
        return f"PARLEY_{name.upper()}"

    @classmethod
    def describe(cls) -> list[Mapping[str, Any]]:
        """Name, default, help and variable of every setting, for the command line and the docs."""
        return [
            {
                "name": entry.name,
                "default": entry.default,
                "help": entry.metadata["help"],
                "variable": cls.environment_name(entry.name),
            }
            for entry in fields(cls)
        ]
