"""Which requests another web site sent through somebody's browser: pages of coordinator and site refuse them alike.

A browser says of every request where it comes from (`Sec-Fetch-Site`), or, where it is too old for that, which page
sent a form (`Origin`); no page can change either header. What sends neither is no browser, and holds nobody's cookie.
"""

from urllib.parse import urlsplit

from starlette.requests import Request

OWN = ("same-origin", "none")  # from a page of ours, or typed by the user


def sent_from_elsewhere(request: Request) -> bool:
    """Whether a page of another site, or of another service of this host, sent the request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site not in OWN
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")
