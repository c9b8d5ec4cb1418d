"""How an agent, a site or a command reaches its coordinator: proxy, trusted authorities, client certificate.

All connections go out, to the coordinator; nothing connects in. Settings that are left out come from the usual sources:
HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY (on Windows and macOS also the system's settings), and the system's
trust store, SSL_CERT_FILE or SSL_CERT_DIR.
"""

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from parley.errors import Blocked, InvalidInput, Unreachable, needs
from parley.validation.checks import is_loopback

with needs("agent", "talking to a coordinator"):
    import httpx2 as httpx

DIRECT = "none"  # --proxy none: no proxy, whatever the environment says
SCHEMES = ("http", "https")
WANTS_PASSWORD = (
    "The proxy requires a user and a password: http://USER:PASSWORD@HOST:PORT in PARLEY_PROXY or HTTPS_PROXY"
)
KEY_PASSWORD = "PARLEY_CLIENT_KEY_PASSWORD"


@dataclass(frozen=True, kw_only=True)
class Network:
    """Network settings, for `Client` and every command.

    >>> Network(proxy="http://clerk:secret@proxy.example:3128").describe("https://coordinator.example")["proxy"]
    'http://proxy.example:3128'
    """

    proxy: str = field(default="", repr=False)  # its address; "none" for no proxy; empty for the environment's
    ca_file: str = ""  # PEM: authorities to trust instead of the system's
    client_cert: str = ""  # PEM: our certificate, for a coordinator that requires one
    client_key: str = ""  # PEM: the key of that certificate, unless it is in the same file

    def __post_init__(self) -> None:
        if self.client_key and not self.client_cert:
            raise InvalidInput("--client-key", found="no --client-cert", allowed="both, or the certificate alone")

    def options(self, server: str) -> dict[str, Any]:
        """The httpx options for reaching a server."""
        secure, proxy = server.startswith("https://"), self._proxy(server)
        behind_tls = proxy is not None and proxy.scheme == "https"
        return {
            "trust_env": False,  # we read the environment ourselves, to reach this machine's addresses without a proxy
            # With TLS, certificates are always checked. With plain HTTP, loading the authorities would be wasted work.
            "verify": self._identified(self._trust()) if secure else False,
            "proxy": proxy and httpx.Proxy(proxy.geturl(), ssl_context=self._trust() if behind_tls else None),
        }

    def describe(self, server: str) -> dict[str, str]:
        """The proxy (without its password), trusted authorities and certificate in use for a server."""
        proxy = self._proxy(server)
        system = next((os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), "")
        return {
            "proxy": "" if proxy is None else _shown(proxy),
            "trust": self.ca_file or system or "the system's trust store",
            "client_cert": self.client_cert,
        }

    def failure(self, server: str, error: httpx.RequestError) -> Unreachable:
        """The error to raise for a failed request, with advice. It never contains the proxy's password."""
        proxy = self._proxy(server)
        through = f" through the proxy {_shown(proxy)}" if proxy else ""
        if isinstance(error, httpx.ProxyError):
            status = str(error).partition(" ")[0]
            hint = WANTS_PASSWORD if status == "407" else "Ask its operator to allow this address"
            return Blocked(f"the proxy {_shown(proxy)} refused the connection to {server} ({status}). {hint}")
        wrong = next((one for one in _causes(error) if isinstance(one, ssl.SSLCertVerificationError)), None)
        if wrong is not None:
            return Blocked(
                f"the certificate of {server}{through} is not trusted: {wrong.verify_message}. If it comes from a "
                "private authority, name that authority's certificate: --ca-file FILE"
            )
        if any(isinstance(one, ssl.SSLError) and "certificate" in str(one) for one in _causes(error)):
            ours = f"refuses our certificate {self.client_cert}" if self.client_cert else "asks for a certificate"
            return Blocked(
                f"{server}{through} {ours}: {error}. Give a certificate that it trusts: --client-cert, --client-key"
            )
        if proxy and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return Unreachable(f"no answer from the proxy {_shown(proxy)}, on the way to {server}: {error}")
        # With TLS 1.3, a server that requires our certificate and gets none may just close the connection.
        cut = server.startswith("https://") and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
        hint = (
            ". It may require a client certificate: --client-cert, --client-key" if cut and not self.client_cert else ""
        )
        return Unreachable(f"no answer from {server}{through}: {error or type(error).__name__}{hint}")

    def _proxy(self, server: str) -> SplitResult | None:
        if self.proxy == DIRECT:
            return None
        address, key = (self.proxy, "--proxy") if self.proxy else _from_environment(urlsplit(server))
        if not address:
            return None
        try:
            proxy = urlsplit(address if "://" in address else f"http://{address}")
            known = proxy.scheme in SCHEMES and bool(proxy.hostname) and proxy.port != 0
        except ValueError:
            known = False
        if not known:  # the error does not show the address, which may contain a password
            raise InvalidInput(
                key, found="no address of a proxy", allowed=f"http://HOST:PORT, https://HOST:PORT or {DIRECT}"
            )
        return proxy

    def _trust(self) -> ssl.SSLContext:
        if not self.ca_file:
            try:
                return httpx.create_ssl_context()
            except (OSError, ssl.SSLError) as error:
                name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"
                raise _unreadable(name, os.environ.get(name, ""), error) from None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise _unreadable("--ca-file", self.ca_file, error) from None

    def _identified(self, trust: ssl.SSLContext) -> ssl.SSLContext:
        """The context with our own certificate added."""
        if not self.client_cert:
            return trust
        for key, file in (("--client-cert", self.client_cert), ("--client-key", self.client_key)):
            if file and not os.path.isfile(file):
                raise InvalidInput(key, found=f"no file {file}", allowed="a PEM file")
        try:
            # Without a function for the password, OpenSSL would prompt at the terminal, where nobody watches an agent.
            password = os.environ.get(KEY_PASSWORD, "")
            trust.load_cert_chain(self.client_cert, self.client_key or None, password=lambda: password)
        except (OSError, ssl.SSLError, ValueError) as error:
            where = f"{self.client_cert}, {self.client_key}" if self.client_key else self.client_cert
            found = "a key that does not belong to this certificate" if "MISMATCH" in str(error) else _reason(error)
            raise InvalidInput(
                "--client-cert, --client-key",
                found=f"{found} ({where})",
                allowed="a certificate and its key in PEM files",
                hint=f"The password of an encrypted key comes from {KEY_PASSWORD}",
            ) from None
        return trust


def _from_environment(server: SplitResult) -> tuple[str, str]:
    """The proxy that the environment names for a server, and the variable's name; both are empty if it names none."""
    host, proxies = server.hostname or "", getproxies()
    kind = server.scheme if proxies.get(server.scheme) else "all"
    if is_loopback(host) or proxy_bypass(server.netloc) or _in_range(host, proxies.get("no", "")):
        return "", ""
    return proxies.get(kind, ""), f"{kind.upper()}_PROXY"


def _in_range(host: str, exceptions: str) -> bool:
    """Whether the host is in one of NO_PROXY's address ranges, which the standard library does not support.

    >>> _in_range("10.1.2.3", "localhost, 10.0.0.0/8"), _in_range("10.1.2.3", "192.168.0.0/16")
    (True, False)
    """
    try:
        ranges = [ip_network(one.strip(), strict=False) for one in exceptions.split(",") if "/" in one]
        return any(ip_address(host) in one for one in ranges)
    except ValueError:
        return False


def _shown(proxy: SplitResult | None) -> str:
    """The proxy's address without user and password."""
    return "" if proxy is None else f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror) or "no PEM in it"


def _unreadable(key: str, file: str, error: Exception) -> InvalidInput:
    return InvalidInput(key, found=f"{file}: {_reason(error)}", allowed="a PEM file with certificates of authorities")
