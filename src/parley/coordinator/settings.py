"""All settings of `parley serve` in one table, which feeds the command line, the docs and the checks.

A setting takes its value from its option, else from its environment variable, else from its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from parley.errors import InvalidInput
from parley.hooks import edges
from parley.protocol.messages import MOST_AGENTS, MOST_CELLS
from parley.validation.checks import is_loopback


def setting(default: Any, help: str, *, least: float | None = None, most: float | None = None) -> Any:  # noqa: A002
    """Declare a setting: its default, a sentence for `--help` and the docs, and limits if it is a number."""
    return field(default=default, metadata={"help": help, "least": least, "most": most})


def require_url(name: str, url: str) -> None:
    """Raise unless a setting is empty or an http(s) URL."""
    if url and not url.startswith(("https://", "http://")):
        raise InvalidInput(name, found=url, allowed="https://HOST")


@dataclass(frozen=True, kw_only=True)
class EdgeSettings:
    """Base class of the server settings that one edge adds: a frozen dataclass whose fields `setting` declares."""

    def check(self, server: ServerSettings) -> None:
        """Raise if these settings contradict each other or the server's settings. Called by `ServerSettings`."""


E = TypeVar("E", bound=EdgeSettings)


def setting_kinds() -> list[type[EdgeSettings]]:
    """The classes of settings that edges add, in the order of the edges."""
    return [kind for edge in edges() if (kind := edge.server_settings()) is not None]


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of a coordinator, checked when they are made.

    >>> ServerSettings(port=0).port, ServerSettings().is_loopback
    (0, True)
    """

    db: str = setting("parley.db", "Database: a file (SQLite) or postgresql://USER:PASSWORD@HOST/DATABASE.")
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(8642, "Port to listen on; 0 takes a free one.", least=0)
    tls_cert: str = setting("", "Certificate file (PEM), to serve HTTPS directly.")
    tls_key: str = setting("", "Key file of the certificate (PEM).")
    tls_client_ca: str = setting(
        "", "Authorities (PEM) for client certificates; clients without a certificate are refused."
    )
    plain_http: bool = setting(False, "Allow plain HTTP on a non-loopback address: only behind a TLS reverse proxy.")
    rate: float = setting(50.0, "Requests per second that one token may make on average.", least=0.1)
    burst: int = setting(200, "Requests that one token may make at once.", least=1)
    body_limit: int = setting(1_048_576, "Largest body of a request, in bytes.", least=1024)
    study_body_limit: int = setting(33_554_432, "Largest body of a new study, in bytes (administrators).", least=1024)
    max_cells: int = setting(MOST_CELLS, "Largest number of arms times agents in a study.", least=2, most=MOST_CELLS)
    max_agents: int = setting(MOST_AGENTS, "Largest number of agents in a study.", least=1, most=MOST_AGENTS)
    connections: int = setting(10, "PostgreSQL connections of one server process.", least=1)
    statement_timeout: float = setting(30.0, "Seconds after which PostgreSQL cancels a statement.", least=0.1)
    session_hours: float = setting(12.0, "Hours until a person must sign in again.", least=0.01)
    no_dashboard: bool = setting(False, "Serve the API alone, without the web pages.")
    docs: str = setting(
        "", "Folder of the documentation site (built by make docs), served at /help and linked from the pages."
    )
    public_url: str = setting(
        "", "Public address of the pages, for links in messages; with https://, cookies are secure."
    )
    log_level: str = setting("info", "Least severe messages to log: debug, info, warning or error.")
    edges: tuple[EdgeSettings, ...] = ()

    def __post_init__(self) -> None:
        parts: tuple[ServerSettings | EdgeSettings, ...] = (self, *self.edges)
        for part in parts:
            for entry in fields(part):
                least, most = entry.metadata.get("least"), entry.metadata.get("most")
                value = getattr(part, entry.name)
                if least is not None and not value >= least:
                    raise InvalidInput(entry.name, found=value, allowed=f"at least {least:g}")
                if most is not None and not value <= most:
                    raise InvalidInput(entry.name, found=value, allowed=f"at most {most:,}")
        if self.port > 65_535:
            raise InvalidInput("port", found=self.port, allowed="0 to 65535")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise InvalidInput("log_level", found=self.log_level, allowed="debug, info, warning or error")
        require_url("public_url", self.public_url)
        self._check_files()
        if not (self.is_loopback or self.tls_cert or self.plain_http):
            raise InvalidInput(
                "host",
                found=f"{self.host} with plain HTTP",
                allowed="a loopback address, or HTTPS (--tls-cert, --tls-key)",
                hint="Tokens would cross the network in the clear. Behind a TLS reverse proxy, use --plain-http",
            )
        for edge in self.edges:
            edge.check(self)

    def _check_files(self) -> None:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InvalidInput("tls_cert, tls_key", found="one of them", allowed="both or none")
        if self.docs and not (Path(self.docs) / "index.html").is_file():
            raise InvalidInput("docs", found=f"no index.html in {self.docs}", allowed="a folder that `make docs` made")
        if self.tls_client_ca and not self.tls_cert:
            raise InvalidInput("tls_client_ca", found="no tls_cert", allowed="only with HTTPS (--tls-cert, --tls-key)")
        for name in ("tls_cert", "tls_key", "tls_client_ca"):
            path = getattr(self, name)
            if path and not Path(path).is_file():
                raise InvalidInput(name, found=f"no file at {path}", allowed="a file (PEM)")

    def of(self, kind: type[E]) -> E:
        """The settings of an edge, by their class; defaults if none were given."""
        return next((one for one in self.edges if isinstance(one, kind)), kind())

    @classmethod
    def read(cls, **values: Any) -> ServerSettings:
        """Make settings from values by name; the values may include settings of edges.

        >>> ServerSettings.read(port=0).port
        0
        """
        parts = []
        for kind in setting_kinds():
            parts.append(kind(**{one.name: values.pop(one.name) for one in fields(kind) if one.name in values}))
        return cls(**values, edges=tuple(parts))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect to the server."""
        return is_loopback(self.host)

    @classmethod
    def environment_name(cls, name: str) -> str:
        """The environment variable of a setting.

        >>> ServerSettings.environment_name("db")
        'PARLEY_DB'
        """
        return f"PARLEY_{name.upper()}"

    @classmethod
    def describe(cls) -> list[Mapping[str, Any]]:
        """Name, default, help and environment variable of every setting, for the command line and the docs."""
        kinds: list[type[ServerSettings | EdgeSettings]] = [cls, *setting_kinds()]
        return [
            {
                "name": entry.name,
                "default": entry.default,
                "help": entry.metadata["help"],
                "variable": cls.environment_name(entry.name),
            }
            for kind in kinds
            for entry in fields(kind)
            if "help" in entry.metadata
        ]
