"""Coordinators as forks (`forks.py`): orders are {"db", "port", "kill_at"}.

The routes are the same for all and take most of the start-up time, so they are made once, before forking; each
coordinator has its own context.
"""

from functools import cache

from tools.chaos.forks import loop
from tools.chaos.mutants import apply_chosen

from parley.coordinator.http.app import new_context
from parley.coordinator.settings import ServerSettings
from parley.service.forecasts import Forecaster
from parley.service.server import create_service
from parley.service.server import serve as serve_studies
from parley.system import killpoints


@cache
def routes():
    return create_service(None, ServerSettings(db="none"))


def service(storage, settings):
    """The application on this storage."""
    app = routes()
    app.state.context, app.state.forecaster = new_context(storage, settings), Forecaster()
    return app


def serve(order):
    killpoints.arm(order["kill_at"])
    settings = ServerSettings(
        db=order["db"], port=order["port"], rate=1e6, burst=10**6, log_level="error", statement_timeout=10.0
    )
    serve_studies(settings, lambda _: None, service)


if __name__ == "__main__":
    apply_chosen()
    routes()
    loop(serve)
