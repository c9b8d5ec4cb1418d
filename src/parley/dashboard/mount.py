"""Puts the pages, their files and the forecasts on a coordinator."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from parley.coordinator.clock import Clock, utc_now
from parley.coordinator.http.app import create_app
from parley.coordinator.record import Storage
from parley.coordinator.settings import Settings
from parley.dashboard import forecasts
from parley.dashboard.entrance import HEADERS
from parley.dashboard.forecasts import Forecaster
from parley.dashboard.pages import administration, answer, audit, evidence, samples, signing, studies, study, tokens
from parley.dashboard.render import HERE

__all__ = ["create_site"]

PARTS = (signing, studies, study, evidence, samples, answer, audit, administration, tokens)


class Files(StaticFiles):
    """The style sheet, the script, the fonts and the icon, with the same headers as the pages."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        for name, value in (HEADERS | {"Cache-Control": "public, max-age=300"}).items():
            response.headers[name] = value
        return response


def create_site(storage: Storage, settings: Settings, *, clock: Clock = utc_now) -> FastAPI:
    """What `parley serve` serves: the API, its two operations that simulate, and the pages unless they are unwanted."""
    app = create_app(storage, settings, clock=clock)
    app.state.forecaster = Forecaster()
    app.include_router(forecasts.router)
    if not settings.no_dashboard:
        for part in PARTS:
            app.router.routes.extend(part.routes)
        app.router.routes.append(Mount("/static", Files(directory=HERE / "static"), name="static"))
    return app
