"""The pages, a file a subject. A page calls operations of the API and renders what it got; it decides nothing.

`PARTS` is the registry of pages; `mount` puts them and their files on a service.
"""

from __future__ import annotations

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
    samples,
    studies,
    study,
)
from parley.dashboard.render import HERE
from parley.dashboard.session import HEADERS

__all__ = ["mount"]

PARTS = (access, studies, study, evidence, samples, answer, audit, administration)

INLINE = "'self' 'unsafe-inline'"
DOCS_POLICY = f"default-src 'self'; script-src {INLINE}; style-src {INLINE}; img-src 'self' data:"


class Files(StaticFiles):
    """The style sheet, the script, the fonts and the icon, with the same headers as the pages."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        for name, value in (HEADERS | {"Cache-Control": "public, max-age=300"}).items():
            response.headers[name] = value
        return response


class Documentation(StaticFiles):
    """The documentation site. Its search is a script of its own, so its policy is wider than that of the pages."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        for name, value in (HEADERS | {"Content-Security-Policy": DOCS_POLICY, "Cache-Control": "no-cache"}).items():
            response.headers[name] = value
        return response


def mount(app: Starlette) -> None:
    """Add every page; they call the operations of the same application."""
    for part in PARTS:
        app.router.routes.extend(part.routes)
    app.router.routes.append(Mount("/static", Files(directory=HERE / "static"), name="static"))
    if docs := app.state.context.settings.docs:
        app.router.routes.append(Mount("/help", Documentation(directory=docs, html=True), name="help"))
