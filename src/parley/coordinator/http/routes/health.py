"""Operations that need no token: liveness, readiness, metrics, and the OpenAPI document."""

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import func, select
from starlette.responses import JSONResponse, Response

from parley import __version__
from parley.coordinator.answers import Health, Ready
from parley.coordinator.clock import hours_between
from parley.coordinator.http.context import Call
from parley.coordinator.record import Transaction
from parley.coordinator.record.studies import find
from parley.coordinator.record.tables import studies
from parley.protocol import Stage


async def healthz(_: Call[None, None]) -> Health:
    """Check that the process is running."""
    return Health(status="ok", version=__version__)


async def readyz(call: Call[None, None]) -> Ready:
    """Check that a report would be stored on disk now; 503 if not (no database, no space, no write permission)."""
    await call.context.readiness.check()
    return Ready(status="ready")


async def metrics(call: Call[None, None]) -> Response:
    """Metrics for Prometheus."""
    counts, oldest = await call.context.read(lambda transaction: (_counts(transaction), _oldest_awaited(transaction)))
    age = 0.0 if oldest is None else 3600 * hours_between(oldest, call.context.clock())
    call.context.metrics.oldest_awaited.set(age)
    for stage in Stage:
        call.context.metrics.studies.labels(str(stage)).set(counts.get(str(stage), 0))
    return Response(generate_latest(call.context.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _counts(transaction: Transaction) -> dict[str, int]:
    query = select(studies.c.stage, func.count()).group_by(studies.c.stage)
    return {row[0]: row[1] for row in transaction.execute(query)}


def _oldest_awaited(transaction: Transaction) -> str | None:
    """Publication time of the oldest plan for which a running study awaits a report; None if there is none."""
    running = find(transaction, stage=Stage.RUNNING, limit=None)[0]
    return min((row.opened_at for row in running if row.awaited), default=None)


async def openapi(call: Call[None, None]) -> Response:
    """The OpenAPI document of this API."""
    document: dict[str, Any] = call.app.state.openapi()
    return JSONResponse(document)
