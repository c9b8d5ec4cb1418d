"""Puts the service together: the API, its two operations that simulate, and the pages unless they are unwanted."""

from __future__ import annotations

from starlette.applications import Starlette

from parley.coordinator.clock import Clock, utc_now
from parley.coordinator.http.app import create_app, new_context
from parley.coordinator.record import Storage
from parley.coordinator.settings import ServerSettings
from parley.service.forecasts import FORECASTS, Forecaster

__all__ = ["create_service"]


def create_service(storage: Storage, settings: ServerSettings, *, clock: Clock = utc_now) -> Starlette:
    """The application over an open storage; whoever opened it closes it."""
    app = create_app(new_context(storage, settings, clock=clock), *FORECASTS)
    app.state.forecaster = Forecaster()
    if not settings.no_dashboard:
        from parley.dashboard.mount import mount

        mount(app)
    return app
