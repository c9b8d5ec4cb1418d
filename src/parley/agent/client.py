"""A Python client for the coordinator's API. Every failure raises an error from the tree in `parley.errors`."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from parley.agent.network import DIRECT, WANTS_PASSWORD, Network
from parley.agent.plans import AgentPlan, meant, proven
from parley.errors import (
    Blocked,
    Conflict,
    CoordinatorError,
    InvalidInput,
    NotAllowed,
    NotThere,
    Rejected,
    Unreachable,
    WrongPlan,
    needs,
)
from parley.protocol import Plan, Receipt, Report
from parley.protocol.codec import Model, build_structs
from parley.protocol.verify import lines_of

with needs("agent", "talking to a coordinator"):
    import httpx2 as httpx

T = TypeVar("T")
TIMEOUT, LOG_TYPE = 30.0, "application/x-ndjson"
LONGEST_ANSWER = 256 * 1024 * 1024  # bytes; the JSON of a study or a certificate may have tens of millions
TOKEN = "PARLEY_TOKEN"  # environment variable that holds a token
PROBLEM = "urn:parley:problem:"  # every refusal by a coordinator has a problem type with this prefix
ERRORS: dict[int, type[CoordinatorError]] = {401: NotAllowed, 403: NotAllowed, 404: NotThere, 409: Conflict}


def read_token(file: str | Path | None = None) -> str:
    """Read a token from a file, or from PARLEY_TOKEN if no file is named.

    There is no way to pass a token on a command line, because everybody on the machine can read command lines.
    """
    if file is not None:
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InvalidInput("token file", found=f"{file}: {error.strerror}", allowed="a readable file") from None
    else:
        token = os.environ.get(TOKEN, "").strip()
    if not token or any(character.isspace() for character in token) or not token.isascii():
        raise InvalidInput("token", found="no token", allowed=f"a token from a file (--token-file) or in {TOKEN}")
    return token


def read_tokens(file: str | Path | None = None) -> dict[str, str]:
    """Read a site's token file, which has a line `TOKEN AGENT` for each stratum of the site; returns agent -> token.

    A single token, from a file or the environment, may come without an agent's name, since the coordinator knows which
    agent it belongs to. Its key in the result is then "".
    """
    try:
        lines = [] if file is None else Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    rows = [line.split(maxsplit=1) for line in lines if line.strip()]
    if len(rows) < 2 and not any(len(row) == 2 for row in rows):
        return {"": read_token(file)}
    found = {row[1].strip(): row[0] for row in rows if len(row) == 2}
    if len(found) != len(rows):
        allowed = "a token alone, or a line for every stratum: its token, a space and the agent's name"
        raise InvalidInput("token file", found=f"{file}: {len(rows)} lines, {len(found)} with a name", allowed=allowed)
    return found


def _path(*parts: object) -> str:
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def _headers(receipt: Receipt | None) -> dict[str, str]:
    return {} if receipt is None else {"Parley-Receipt": f"{receipt.sequence}:{receipt.head}"}


def _checked(response: httpx.Response) -> httpx.Response:
    """Return a successful response; raise the typed error for any other.

    Every refusal by a coordinator has a problem document. An error response without such a document came from an
    intermediary, such as a proxy, and raises `Unreachable`.
    """
    if response.is_success:
        return response
    if response.is_redirect:
        raise Unreachable(
            f"the answer is not from a coordinator, but a redirect to {response.headers.get('location', '')!r:.80}"
        )
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    # A 407 arrives here for plain HTTP only. For HTTPS, the proxy refuses the CONNECT, and httpx raises `ProxyError`.
    if response.status_code == 407:
        raise Blocked(f"a proxy refused the connection (407). {WANTS_PASSWORD}")
    if not str(problem.get("type", "")).startswith(PROBLEM):
        raise Unreachable(f"the answer is not from a coordinator: HTTP {response.status_code}")
    message = f"{problem.get('title', f'HTTP {response.status_code}')}: {problem.get('detail', 'no details')}"
    # `Unreachable` makes callers try again: these failures are often temporary.
    if problem.get("retry") or response.status_code in (429, 502, 503, 504) or response.status_code >= 500:
        raise Unreachable(message, problem)
    raise ERRORS.get(response.status_code, Rejected)(message, problem)


def _require_plain(response: httpx.Response) -> None:
    """Raise if a response is compressed: we never ask for compression, and a few bytes could expand to gigabytes."""
    packed = response.headers.get("content-encoding", "identity")
    if packed.lower() != "identity":
        raise Unreachable(
            f"the answer is not from a coordinator: compressed as {packed!r:.40}, which was not requested"
        )


def _added(body: bytearray, part: bytes) -> None:
    body += part
    if len(body) > LONGEST_ANSWER:
        raise Unreachable(f"the answer is not from a coordinator: longer than {LONGEST_ANSWER:,} bytes")


def _whole(response: httpx.Response, body: bytearray) -> httpx.Response:
    return _checked(httpx.Response(response.status_code, headers=response.headers, content=bytes(body)))


def _understood(read: Callable[[Any], T], answer: Any) -> T:
    """Parse an answer with `read`. Raises `Unreachable` if that fails: perhaps a proxy or a captive portal answered."""
    try:
        return read(answer)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise Unreachable(f"an answer that is not a coordinator's ({error or type(error).__name__})"[:400]) from None


def _json(response: httpx.Response) -> Any:
    return _understood(httpx.Response.json, response)


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        raise TypeError(f"{type(answer).__name__} where an object was expected")
    return answer


class _Who(Model, forbid_unknown_fields=False):
    agent: str | None


def _own(report: Report, study: str, phase: int, agent: str) -> Report:
    if (report.study, report.phase, report.agent) != (study, phase, agent):
        raise CoordinatorError(
            f"asked for the report of {agent!r} in phase {phase} of {study!r}, the coordinator sent the report of "
            f"{report.agent!r} in phase {report.phase} of {report.study!r}"
        )
    return report


def _options(server: str, token: str, network: Network) -> dict[str, Any]:
    if not server.startswith(("http://", "https://")):
        raise InvalidInput("server", found=server, allowed="an address that starts with https:// or http://")
    return {
        "base_url": server.rstrip("/"),
        "headers": {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
        "timeout": TIMEOUT,
        **network.options(server),
    }


class Client:
    """A client that authenticates with one token; close it after use. `transport` replaces the network, for tests."""

    def __init__(
        self, server: str, token: str, *, network: Network | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        build_structs()
        self.server = server.rstrip("/")
        self._network = network or Network(proxy="" if transport is None else DIRECT)
        self._http = httpx.Client(**_options(server, token, self._network), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, *parts: object, **options: Any) -> Any:
        """Call any operation by its path below /v1; returns the answer's JSON."""
        return _json(self._send(method, _path(*parts), **options))

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        body = bytearray()
        try:
            with self._http.stream(method, path, **options) as response:
                _require_plain(response)
                for part in response.iter_raw():
                    _added(body, part)
            return _whole(response, body)
        except httpx.RequestError as error:
            raise self._network.failure(self.server, error) from None

    def plan(self, study: str, agent: str, *, after: int = 0, wait: float = 0, **far: int | str) -> AgentPlan:
        """Fetch an agent's current plan, waiting up to `wait` seconds until the study has passed phase `after`.

        `far` is the site's progress, which the study's page shows: the phase the site is in (`during`), how many people
        are `recruited`, `observed` and `unmasked`, and why the site's own policy forbids the plan (`objection`).
        """
        query = {"after": after, "wait": wait, **far}
        found = self.request("GET", "studies", study, "agents", agent, "plan", params=query, timeout=TIMEOUT + wait)
        return meant(_understood(AgentPlan.from_json, found), study, agent)

    def whoami(self) -> str | None:
        """Fetch the name of the agent that the token belongs to; None if it is not an agent's token."""
        return _understood(_Who.from_json, self.request("GET", "whoami")).agent

    def whole_plan(self, study: str, phase: int) -> Plan:
        """Fetch the plan of a phase with every agent's draws."""
        plan = _understood(Plan.from_json, self.request("GET", "studies", study, "phases", phase, "plan"))
        if (plan.study, plan.phase) != (study, phase):
            raise WrongPlan(f"the plan is for phase {plan.phase} of {plan.study!r}, not for phase {phase} of {study!r}")
        return plan

    def send(self, report: Report, *, receipt: Receipt | None = None) -> Receipt:
        """Send a report and return its receipt (idempotent).

        `receipt` is the agent's latest receipt so far. The coordinator refuses the report if the log lacks the record
        that the receipt names.
        """
        path = _path("studies", report.study, "phases", report.phase, "reports", report.agent)
        body = {"content": report.text.encode(), "headers": {**_headers(receipt), "Content-Type": "application/json"}}
        return proven(_understood(Receipt.from_json, _json(self._send("PUT", path, **body))), report)

    def report(self, study: str, phase: int, agent: str) -> Report | None:
        """Fetch the report that the study uses for an agent in a phase; None if the coordinator has none."""
        try:
            found = self.request("GET", "studies", study, "phases", phase, "reports", agent)
        except NotThere:
            return None
        return _own(_understood(lambda answer: Report.from_json(answer["report"]), found), study, phase, agent)

    def status(self, study: str) -> Mapping[str, Any]:
        """Fetch a study's status: its stage, which agents it waits for, and since when."""
        return _understood(_object, self.request("GET", "studies", study))

    def export(self, study: str) -> Iterator[str]:
        """Yield the lines of a study's log as the coordinator exports it."""
        try:
            with self._http.stream("GET", _path("studies", study, "export")) as response:
                _require_plain(response)
                # The body of a streamed refusal has to be read before `_checked` can parse it.
                if not response.is_success:
                    response.read()
                if not _checked(response).headers.get("content-type", "").startswith(LOG_TYPE):
                    raise Unreachable("the answer is not from a coordinator: it is not a log")
                yield from map(bytes.decode, lines_of(response.iter_bytes()))
        except httpx.RequestError as error:
            raise self._network.failure(self.server, error) from None
