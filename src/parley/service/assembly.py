"""Puts the service together: the API, its two operations that simulate, and the pages unless they are unwanted."""

from __future__ import annotations

from fastapi import FastAPI

from parley.coordinator.clock import Clock, utc_now
from parley.coordinator.http.app import create_app, new_context
from parley.coordinator.record import Storage
from parley.coordinator.settings import ServerSettings
from parley.service import forecasts
from parley.service.forecaster import Forecaster

__all__ = ["create_service"]


def create_service(storage: Storage, settings: ServerSettings, *, clock: Clock = utc_now) -> FastAPI:
    """The application over an open storage; whoever opened it closes it."""
    app = create_app(new_context(storage, settings, clock=clock))
    app.state.forecaster = Forecaster()
    app.router.routes.extend(forecasts.router.routes)
    if not settings.no_dashboard:
        from parley.dashboard.mount import mount

        mount(app)
    return app
