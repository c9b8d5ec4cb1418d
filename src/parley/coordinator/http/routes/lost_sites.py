"""A site is lost: freeze it, re-weigh the others, thaw it. What each would do is asked for first, and confirmed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.coordinator.answers.base import Answer, answered
from parley.coordinator.answers.lost_sites import FreezePreview, ReweighPreview, ThawPreview
from parley.coordinator.answers.studies import StudyLine
from parley.coordinator.http.context import context_of, principal_of, told, written
from parley.coordinator.http.operations import operations
from parley.coordinator.http.schemas import ColumnsBody, FreezeBody, ReweighBody
from parley.coordinator.problems import Refusal
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies import lost_sites
from parley.protocol import Trial, previews

__all__ = ["router"]

router = operations("oversight")

ATTEMPTS = 10


@router.get("/studies/{study}/agents/{agent}/freeze", response_model=FreezePreview)
async def preview_freeze(request: Request, study: str, agent: str) -> Response:
    """What freezing an agent would do to termination and guarantee, and both ways to go on; `digest` confirms it."""
    _, shown = await _freeze(request, study, agent)
    return await _sent(request, lambda: FreezePreview(**shown.to_json(), digest=shown.digest))


@router.post("/studies/{study}/agents/{agent}/freeze", response_model=StudyLine)
async def freeze_agent(request: Request, study: str, agent: str, body: FreezeBody) -> JSONResponse:
    """Ask nothing more of an agent: its counts stay. Refused unless the consequences are those that were shown."""

    async def attempt() -> Callable[..., StudyRow | None] | None:
        seen, shown = await _freeze(request, study, agent)
        if shown.digest != body.consequences:
            return None
        return partial(lost_sites.freeze_agent, study=study, agent=agent, reason=body.reason, shown=shown, seen=seen)

    return await _confirmed(request, attempt)


@router.post("/studies/{study}/reweigh/preview", response_model=ReweighPreview)
async def preview_reweigh(request: Request, study: str, body: ColumnsBody) -> Response:
    """What asking anew without the frozen agents would do, with given columns or without; `digest` confirms it."""
    _, (shown, _) = await _reweigh(request, study, body)
    return await _sent(request, lambda: ReweighPreview(**shown.to_json(), digest=shown.digest))


@router.post("/studies/{study}/reweigh", response_model=StudyLine)
async def reweigh_study(request: Request, study: str, body: ReweighBody) -> JSONResponse:
    """Ask anew without the frozen agents: the state is the fold of all recorded phases under the new weights."""

    async def attempt() -> Callable[..., StudyRow | None] | None:
        seen, (shown, trial) = await _reweigh(request, study, body)
        if shown.digest != body.consequences:
            return None
        prepare = partial(lost_sites.reweigh_study, study, body.reason, shown, trial, seen)
        return await context_of(request).heavy.run(principal_of(request).kid, prepare)

    return await _confirmed(request, attempt)


@router.get("/studies/{study}/agents/{agent}/thaw", response_model=ThawPreview)
async def preview_thaw(request: Request, study: str, agent: str) -> Response:
    """What asking a frozen agent again would do; `digest` confirms it."""
    _, (shown, _) = await _thaw(request, study, agent)
    return await _sent(request, lambda: ThawPreview(**shown.to_json(), digest=shown.digest))


@router.post("/studies/{study}/agents/{agent}/thaw", response_model=StudyLine)
async def thaw_agent(request: Request, study: str, agent: str, body: FreezeBody) -> JSONResponse:
    """Ask a frozen agent again. Refused unless the consequences are those that were shown."""

    async def attempt() -> Callable[..., StudyRow | None] | None:
        seen, (shown, trial) = await _thaw(request, study, agent)
        if shown.digest != body.consequences:
            return None
        prepare = partial(lost_sites.thaw_agent, study, body.reason, shown, trial, seen)
        return await context_of(request).heavy.run(principal_of(request).kid, prepare)

    return await _confirmed(request, attempt)


async def _sent(request: Request, shown: Callable[[], Answer]) -> Response:
    """A preview on its way: that of a large study is written out off the event loop."""
    context, kid = context_of(request), principal_of(request).kid
    return context.sent(await context.heavy.run(kid, lambda: written(shown())), to=kid)


async def _freeze(request: Request, study: str, agent: str) -> tuple[int, previews.FreezePreview]:
    context, kid = context_of(request), principal_of(request).kid
    return await context.heavy.run(kid, partial(lost_sites.preview_freeze, context.storage, study, agent))


async def _reweigh(
    request: Request, study: str, body: ColumnsBody
) -> tuple[int, tuple[previews.ReweighPreview, Trial]]:
    context, kid = context_of(request), principal_of(request).kid
    return await context.heavy.run(kid, partial(lost_sites.preview_reweigh, context.storage, study, body.columns))


async def _thaw(request: Request, study: str, agent: str) -> tuple[int, tuple[previews.ThawPreview, Trial]]:
    context, kid = context_of(request), principal_of(request).kid
    return await context.heavy.run(kid, partial(lost_sites.preview_thaw, context.storage, study, agent))


async def _confirmed(
    request: Request, attempt: Callable[[], Awaitable[Callable[..., StudyRow | None] | None]]
) -> JSONResponse:
    """Let happen what was confirmed, if that is still what would happen."""
    context, by = context_of(request), principal_of(request)
    for _ in range(ATTEMPTS):  # reports may come while the consequences are computed, and mostly do not change them
        change = await attempt()
        if change is None:
            break
        row = await context.change(partial(change, actor=by.name, at=context.clock()), by=by)
        if row is not None:
            context.changed(row)
            return answered(told(request, row))
    raise Refusal("changed-meanwhile", "the consequences are not those that were confirmed: look again")
