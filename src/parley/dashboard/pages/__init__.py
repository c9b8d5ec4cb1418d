"""The pages, one file per subject. A page calls operations of the API and renders the result; it decides nothing.

`PAGES` is the registry of pages, in the order of a study's tabs; `mount` adds pages and static files to an application.
"""

from collections.abc import Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from parley.dashboard.pages import (
    access,
    administration,
    answer,
    audit,
    evidence,
    new_study,
    report,
    samples,
    studies,
    study,
)
from parley.dashboard.render import HERE
from parley.hooks import edges
from parley.web.guard import HEADERS

__all__ = ["mount"]

PAGES = (access, studies, new_study, study, evidence, samples, answer, report, audit, administration)

INLINE = "'self' 'unsafe-inline'"
DOCS_POLICY = f"default-src 'self'; script-src {INLINE}; style-src {INLINE}; img-src 'self' data:"


class Files(StaticFiles):
    """Static files, served with the security headers of pages and with additional headers."""

    def __init__(self, directory: str | Path, headers: Mapping[str, str], *, html: bool = False) -> None:
        super().__init__(directory=directory, html=html)
        self._headers = {**HEADERS, **headers}

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(self._headers)
        return response


def mount(app: Starlette) -> None:
    """Add all pages and static files to an application; the pages call its operations."""
    further = [pages for edge in edges() if (pages := edge.pages()) is not None]
    routes = [route for module in PAGES for route in module.routes]
    routes += [route for pages in further for route in pages.routes]
    app.router.routes.extend(routes)
    app.state.links = [link for pages in further for link in pages.links]
    app.state.tabs = [route for route in routes if route.tab]
    own = Files(HERE / "static", {"Cache-Control": "public, max-age=300"})
    app.router.routes.append(Mount("/static", own, name="static"))
    if docs := app.state.context.settings.docs:
        # The documentation's search needs inline scripts, so its content policy is wider than the policy of the pages.
        site = Files(docs, {"Content-Security-Policy": DOCS_POLICY, "Cache-Control": "no-cache"}, html=True)
        app.router.routes.append(Mount("/help", site, name="help"))
