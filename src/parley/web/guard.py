"""Checks of a request before it is read, and headers of the response, shared by coordinator, dashboard and site.

A page of another site can send a form through somebody's browser, with the cookies of that person. With every form, a
browser says where the form comes from (`Sec-Fetch-Site`). A browser that is too old for this header, or that uses an
unencrypted connection, says which origin sent the form (`Origin`). No page can change either header.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.web.openapi import PROBLEM

OWN = ("same-origin", "none")  # from a page of ours, or typed by the user
MOST_FIELDS = 20  # most fields of a form
KEYS = 10_000  # most keys whose rate is remembered; the least recently used is dropped first
# Headers of every page: load nothing from elsewhere, do not frame, do not cache.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def sent_from_elsewhere(request: Request, *, unsaid: bool) -> bool:
    """Whether a page of another site, or of another service on this host, sent the request.

    `unsaid` is the result for a request with neither header: True where a browser's cookie or form would be trusted,
    False for a program that sends its own credential.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site not in OWN
    if origin is not None:
        return urlsplit(origin).netloc != request.headers.get("host")
    return unsaid


def announced_length(request: Request) -> int:
    """The stated length of the body in bytes, which h11 enforces; 0 if none is stated, since there is no body then."""
    announced = request.headers.get("content-length", "0")
    return int(announced) if announced.isdigit() and len(announced) < 16 else 10**16


async def read_body(request: Request, limit: int, too_large: Callable[[int], Exception]) -> bytearray:
    """Read the body with only one copy in memory, or raise `too_large` before reading if it is longer than `limit`."""
    body = bytearray()
    if announced_length(request) > limit:
        raise too_large(limit)
    async for part in request.stream():
        body += part
    return body


def form_fields(body: bytearray, too_many: Exception, most: int = MOST_FIELDS) -> dict[str, str]:
    """The fields of a form; raises `too_many` if it has more than `most`."""
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=most))
    except ValueError:
        raise too_many from None


def problem(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A problem document (RFC 9457) as a response with the status that it names."""
    return JSONResponse(document, status_code=document["status"], media_type=PROBLEM, headers=headers)


def shielded(response: Response) -> Response:
    """Add the security headers that a response does not set itself."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


class Buckets:
    """Rate limits: every key has a bucket of `burst` requests, refilled at `rate` a second; large requests cost more.

    >>> buckets = Buckets(rate=1, burst=2, timer=lambda: 0.0)
    >>> [buckets.wait("a") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, *, rate: float, burst: int, timer: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._timer = rate, burst, timer
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key -> (requests left, at this time)

    def wait(self, key: str, cost: float = 1.0) -> float:
        """Seconds until a request of this cost is allowed; if 0, the cost has been taken from the key's bucket."""
        cost = min(cost, max(1.0, self.burst / 2))  # the largest allowed request must remain possible
        left, now = self._refilled(key)
        welcome = left >= cost
        self._put(key, left - cost if welcome else left, now)
        return 0.0 if welcome else (cost - left) / self.rate

    def charge(self, key: str, cost: float) -> None:
        """Take the cost of a request that turned out to be large, even if the bucket goes below 0."""
        left, now = self._refilled(key)
        # The debt is limited, so that a single huge request does not block its key for long.
        self._put(key, max(left - cost, -float(self.burst)), now)

    def _refilled(self, key: str) -> tuple[float, float]:
        now = self._timer()
        left, since = self._left.get(key, (float(self.burst), now))
        return min(float(self.burst), left + (now - since) * self.rate), now

    def _put(self, key: str, left: float, now: float) -> None:
        self._left[key] = left, now
        self._left.move_to_end(key)
        if len(self._left) > KEYS:
            self._left.popitem(last=False)
