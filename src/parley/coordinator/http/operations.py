"""The routers of the API: every route of one is guarded, has its function's name, and tells how it is refused."""

from __future__ import annotations

from fastapi import APIRouter

from parley.coordinator.http.guard import GuardedRoute
from parley.coordinator.http.schemas import ProblemView

__all__ = ["operations"]

REFUSALS = {"4XX": {"model": ProblemView, "content": {"application/problem+json": {}}}}


def operations(tag: str, prefix: str = "/v1") -> APIRouter:
    """A router whose routes an application takes as they are: one list is searched faster than lists in a list."""
    return APIRouter(
        prefix=prefix,
        route_class=GuardedRoute,
        tags=[tag],
        responses=REFUSALS,  # type: ignore[arg-type]
        generate_unique_id_function=lambda route: route.name,
    )
