"""Access to the site's service: who may use it, and which requests can be trusted.

On a loopback address, everybody on the machine may use the service unless it has a code; on any other address a code is
required. A page of another web site cannot use the service through somebody's browser: requests must name the service's
own host, and requests from other web sites are refused (`web.guard`). A client that guesses codes is locked out for a
while (docs/site.md).
"""

import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from parley.errors import InvalidInput
from parley.protocol.codec import read_json
from parley.text.translation import Translatable
from parley.validation.checks import is_loopback
from parley.web.guard import MOST_FIELDS, Buckets, form_fields, read_body, sent_from_elsewhere

COOKIE = "parley-site"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST = 2 * 1024 * 1024  # bytes of a body: a table of about ten thousand people
EVERYBODY = ""  # stands for all addresses together, where a limit is by address
ELSEWHERE = Translatable("this form was not sent from this page: reload the page and try again")


class Form(dict[str, str]):
    """The fields of a form, and its uploaded file."""

    file: bytes = b""  # empty if none was uploaded


class Refused(Exception):
    """A refused request: its HTTP status, the reason, and after how many seconds to retry, if that helps (`later`)."""

    def __init__(self, status: int, words: str, *, later: int = 0) -> None:
        super().__init__(words)
        self.status = status
        self.headers = {"Retry-After": str(later)} if later else {}


@dataclass(frozen=True, kw_only=True)
class Access:
    """Access control by a code, which a person types once and a program sends as a bearer token.

    If `code` is empty, no code is required.
    """

    host: str
    code: str = ""
    secure: bool = False
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32))  # cookie of clients that showed the code
    _tries: Buckets = field(default_factory=lambda: Buckets(rate=1 / 60, burst=10))  # by address
    _tries_of_all: Buckets = field(default_factory=lambda: Buckets(rate=10 / 60, burst=100))
    # Addresses that showed the right code: the common limit does not lock them out while others guess.
    _welcome: set[str] = field(default_factory=set)

    def check(self, request: Request) -> None:
        """Raise `Refused` if a request names a host that is not this service, or was sent by another web site."""
        # Against DNS rebinding: a host name of another web site may be made to point to this machine.
        named = request.headers.get("host", "")
        known = request.url.netloc == named and request.url.hostname in (*LOOPBACK, self.host)
        if is_loopback(self.host) and not known:
            raise Refused(421, Translatable("this server does not serve the host {name}", name=repr(named)[:80]))
        by_cookie = COOKIE in request.cookies and "authorization" not in request.headers
        if request.method != "GET" and sent_from_elsewhere(request, unsaid=by_cookie):
            raise Refused(403, ELSEWHERE)

    def knows(self, request: Request) -> bool:
        """Whether the client has shown the code, or none is required."""
        if not self.code:
            return True
        given = request.headers.get("authorization", "")
        if given:
            return self._is_right(request, given, f"Bearer {self.code}")
        return hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), self._session.encode())

    def open_for(self, request: Request, response: Response, code: str) -> bool:
        """Give the browser a session if the code is right; returns whether the code is right."""
        if not self._is_right(request, code, self.code):
            return False
        response.set_cookie(COOKIE, self._session, httponly=True, samesite="strict", secure=self.secure)
        return True

    def _is_right(self, request: Request, given: str, right: str) -> bool:
        """Whether a code is right. After too many wrong codes, raise `Refused` without comparing it."""
        address = request.client.host if request.client else "unknown"
        asked = [(self._tries, address)]
        if address not in self._welcome:
            asked.append((self._tries_of_all, EVERYBODY))
        wait = max(buckets.wait(key) for buckets, key in asked)
        if wait > 0:
            later = round(wait + 0.5)
            words = Translatable("too many wrong codes: try again in {later} s", later=later)
            raise Refused(429, words, later=later)
        if not hmac.compare_digest(given.encode(), right.encode()):
            return False
        for buckets, key in asked:  # only wrong codes count: give back what `wait` took
            buckets.charge(key, -1.0)
        self._welcome.add(address)
        return True

    async def form(self, request: Request) -> Form:
        """Read a form, which our own page must have sent.

        This is checked even if no code is required, because then every browser on this machine is trusted.
        """
        if sent_from_elsewhere(request, unsaid=True):
            raise Refused(403, ELSEWHERE)
        words = Translatable("too many fields: a form of this page has at most {most}", most=MOST_FIELDS)
        body, too_many = await self.body(request), Refused(400, words)
        kind, _, boundary = request.headers.get("content-type", "").partition("boundary=")
        if kind.startswith("multipart/form-data") and boundary:
            return _parts(bytes(body), boundary.strip('"'), too_many)
        return Form(form_fields(body, too_many))

    async def json(self, request: Request) -> dict[str, Any]:
        """Read the JSON object of an API request.

        The content type must be `application/json`, because forms of other web sites cannot send that.
        """
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "send application/json")
        found = read_json(await self.body(request), "body")
        if not isinstance(found, dict):
            raise InvalidInput("body", found=repr(found)[:60], allowed="a JSON object")
        return found

    async def body(self, request: Request) -> bytearray:
        return await read_body(request, MOST, _too_large)


NAMED = re.compile(rb'[; ]name="([^"]*)"')


def _parts(body: bytes, boundary: str, too_many: Refused) -> Form:
    """Parse a multipart form into its fields and its file."""
    form = Form()
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1", "replace"))[1:-1]
    if len(parts) > MOST_FIELDS:
        raise too_many
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        name = NAMED.search(head)
        if name is None:
            continue
        if b"filename=" in head:
            form.file = content
        else:
            # Browsers send the line ends of a text area as CRLF.
            form[name[1].decode("utf-8", "replace")] = content.decode("utf-8", "replace").replace("\r\n", "\n")
    return form


def _too_large(most: int) -> Refused:
    return Refused(413, Translatable("the request is too large: at most {most} bytes are accepted at once", most=most))
