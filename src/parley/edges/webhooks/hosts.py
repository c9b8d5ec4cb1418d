"""The operator's setting of the hosts that webhooks may send to."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TypeAlias

from parley.coordinator.settings import EdgeSettings, ServerSettings, setting
from parley.errors import InvalidInput

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
HOST_NAME = re.compile(r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z][a-z0-9-]{0,62}")
# IPv6 networks that carry IPv4 addresses: NAT64, 6to4 and Teredo.
TRANSITION = tuple(ipaddress.IPv6Network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))


@dataclass(frozen=True, kw_only=True)
class AllowedHosts:
    """Host names that webhooks may use, and networks that the names may resolve to in addition to the public Internet.

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
        """Parse the operator's list of hosts and networks, separated by commas."""
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
        """Whether a URL's host is allowed: by its name, or as an address in an allowed network."""
        try:
            return self._holds(ipaddress.ip_address(host))
        except ValueError:
            return any(host.endswith(one[1:]) if one.startswith("*.") else host == one for one in self.names)

    def reaches(self, address: Address) -> bool:
        """Whether an address may be connected to: it is public, or in an allowed network."""
        if self._holds(address):
            return True
        # IPv6 addresses that carry an IPv4 address could reach private IPv4 networks.
        leads_on = address.version == 6 and any(address in network for network in TRANSITION)
        return address.is_global and not address.is_multicast and not address.is_reserved and not leads_on

    def _holds(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


@dataclass(frozen=True, kw_only=True)
class WebhookSettings(EdgeSettings):
    """Server settings of webhooks: the hosts that webhooks may send to."""

    webhook_allow: str = setting(
        "",
        "Where webhooks may go, separated by commas: names (example.org, *.example.org), and private addresses or "
        "networks that they may resolve to (10.1.0.0/16). Empty: nowhere.",
    )

    def check(self, server: ServerSettings) -> None:  # noqa: ARG002
        self.allowed_hosts  # noqa: B018  # parsed now, so that a mistyped setting is reported at the start

    @property
    def allowed_hosts(self) -> AllowedHosts:
        """The hosts that webhooks may use."""
        return AllowedHosts.parse(self.webhook_allow)
