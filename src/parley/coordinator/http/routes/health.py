"""Open to all: is it alive, is it ready, what has it done, what does it speak."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import func, select
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley import __version__
from parley.coordinator.answers.base import answered
from parley.coordinator.answers.health import Health, Ready
from parley.coordinator.http.context import context_of
from parley.coordinator.http.operations import operations
from parley.coordinator.record import Transaction
from parley.coordinator.record.tables import studies
from parley.protocol import Stage

__all__ = ["router"]

router = operations("health", prefix="")


@router.get("/healthz", response_model=Health)
async def healthz() -> JSONResponse:
    """The process runs."""
    return answered(Health(status="ok", version=__version__))


@router.get("/readyz", response_model=Ready)
async def readyz(request: Request) -> JSONResponse:
    """A report that came now would be on the disk; 503 when it would not (no database, no room, no right to write)."""
    await context_of(request).readiness.check()
    return answered(Ready(status="ready"))


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    context = context_of(request)
    counts = await context.read(_counts)
    for stage in Stage:
        context.metrics.studies.labels(str(stage)).set(counts.get(str(stage), 0))
    return Response(generate_latest(context.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _counts(connection: Transaction) -> dict[str, int]:
    query = select(studies.c.stage, func.count()).group_by(studies.c.stage)
    return {row[0]: row[1] for row in connection.execute(query)}


@router.get("/v1/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> JSONResponse:
    """The description of this API."""
    document: dict[str, Any] = request.app.openapi()
    return JSONResponse(document)
