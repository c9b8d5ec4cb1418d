"""What administrators do to a study, and what auditors read of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from parley.coordinator.answers.base import answered
from parley.coordinator.answers.oversight import CutPreview, LogPage, Verified
from parley.coordinator.answers.studies import StudyLine
from parley.coordinator.http.context import Context, context_of, principal_of, told, visibility_of, written
from parley.coordinator.http.guard import still_welcome
from parley.coordinator.http.operations import operations
from parley.coordinator.http.schemas import (
    PAGE,
    FreezeBody,
    Limit,
    PathPhase,
    ReasonBody,
    Sequence,
)
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import require_study
from parley.coordinator.reading.watch import Glance
from parley.coordinator.record import Transaction, ledger
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies import acts
from parley.protocol import EVENTS
from parley.protocol.codec import canonical

__all__ = ["act", "router"]

router = operations("oversight")

ATTEMPTS = 10
HEARTBEAT = 15.0  # seconds; keeps proxies from closing a quiet stream


@router.post("/studies/{study}/pause", response_model=StudyLine)
async def pause_study(request: Request, study: str, body: ReasonBody) -> JSONResponse:
    """Take no report until resumed."""
    return await act(request, lambda c, by, at: acts.pause_study(c, study, body.reason, actor=by, at=at))


@router.post("/studies/{study}/resume", response_model=StudyLine)
async def resume_study(request: Request, study: str, body: ReasonBody) -> JSONResponse:
    """Go on where it was."""
    return await act(request, lambda c, by, at: acts.resume_study(c, study, body.reason, actor=by, at=at))


@router.post("/studies/{study}/cancel", response_model=StudyLine)
async def cancel_study(request: Request, study: str, body: ReasonBody) -> JSONResponse:
    """Stop for good, with a certificate of the candidates that remain."""
    context, by = context_of(request), principal_of(request)
    for _ in range(ATTEMPTS):  # reports may come while the certificate of a large study is made
        act: dict[str, Any] = {"study": study, "reason": body.reason, "actor": by.name, "at": context.clock()}
        drafted = await context.heavy.run(by.kid, partial(acts.draft_cancel, context.storage, **act))
        row = await context.change(partial(acts.cancel_study, drafted=drafted, **act), by=by)
        if row is not None:
            context.changed(row)
            return answered(told(request, row))
    raise Refusal("changed-meanwhile", "reports came in all the time: try again")


@router.get("/studies/{study}/phases/{phase}/cut", response_model=CutPreview)
async def preview_cut(request: Request, study: str, phase: PathPhase) -> Response:
    """What closing the phase in progress with the reports that are in would do; `digest` confirms it."""
    context, by = context_of(request), principal_of(request)

    def previewed() -> bytes:
        _, shown = acts.preview_cut(context.storage, study, phase)
        return written(CutPreview(**shown.to_json(), digest=shown.digest))

    return context.sent(await context.heavy.run(by.kid, previewed), to=by.kid)


@router.post("/studies/{study}/phases/{phase}/cut", response_model=StudyLine)
async def cut_phase(request: Request, study: str, phase: PathPhase, body: FreezeBody) -> JSONResponse:
    """Close the phase in progress with the reports that are in. Refused unless the consequences are those shown."""
    context, by = context_of(request), principal_of(request)
    seen, shown = await context.heavy.run(by.kid, partial(acts.preview_cut, context.storage, study, phase))
    if shown.digest == body.consequences:
        cut = partial(acts.cut_phase, study=study, reason=body.reason, shown=shown, seen=seen)
        row = await context.change(partial(cut, actor=by.name, at=context.clock()), by=by)
        if row is not None:
            context.changed(row)
            return answered(told(request, row))
    raise Refusal("changed-meanwhile", "the consequences are not those that were confirmed: look again")


async def act(request: Request, work: Any) -> JSONResponse:
    """What an administrator does to a study: the line of it as it is then."""
    context, by = context_of(request), principal_of(request)
    row: StudyRow = await context.change(lambda connection: work(connection, by.name, context.clock()), by=by)
    context.changed(row)
    return answered(told(request, row))


@router.get("/studies/{study}/log", response_model=LogPage)
async def get_log(
    request: Request,
    study: str,
    after: Sequence = 0,
    limit: Limit = 100,
    kind: Annotated[str | None, Query(max_length=40, description=f"One of {', '.join(EVENTS)}.")] = None,
    actor: Annotated[str | None, Query(max_length=300)] = None,
    newest_first: bool = False,
) -> Response:
    """Records of a study's log. `after` continues: later records, or earlier ones with `newest_first`."""

    def work(connection: Transaction) -> str:
        require_study(connection, study)
        which = {"after": after, "kind": kind, "actor": actor, "newest_first": newest_first}
        return _page(connection, study, limit=limit, **which)

    return await context_of(request).answer(work, to=principal_of(request))


@router.get("/log", response_model=LogPage)
async def get_server_log(
    request: Request, after: Sequence = 0, limit: Limit = 100, newest_first: bool = False
) -> Response:
    """Records of the server's own log: tokens issued and revoked."""

    def work(connection: Transaction) -> str:
        return _page(connection, ledger.SERVER, limit=limit, after=after, newest_first=newest_first)

    return await context_of(request).answer(work, to=principal_of(request))


def _page(connection: Transaction, stream: str, *, limit: int, **which: Any) -> str:
    """A `LogPage`, put together of lines that are written out already."""
    found = ledger.lines(connection, stream, limit=limit, size=PAGE, **which)
    cut = len(found) == limit or sum(len(line) for _, line in found) > PAGE
    following = found[-1][0] if cut else None
    return f'{{"records":[{",".join(line for _, line in found)}],"next":{canonical(following)}}}'


@router.get("/studies/{study}/export", response_class=StreamingResponse)
async def export_log(request: Request, study: str) -> StreamingResponse:
    """The whole log, one record a line: all that `parley verify` needs on another machine."""
    context = context_of(request)
    await context.read(lambda connection: require_study(connection, study))
    context.streams.check(kid := principal_of(request).kid)
    name = f'attachment; filename="{study}.ndjson"'
    return StreamingResponse(
        _lines(context, kid, study), media_type="application/x-ndjson", headers={"Content-Disposition": name}
    )


async def _lines(context: Context, kid: str, study: str) -> AsyncIterator[str]:
    """A record at a time, and a few at a time from the database: whoever does not read holds up no more than that."""
    after = 0

    def some(connection: Transaction) -> tuple[int, list[str]]:
        batch = ledger.lines(connection, study, after=after, limit=200, size=PAGE)
        return batch[-1][0] if batch else 0, [f"{line}\n" for _, line in batch]

    with context.streams.taken(kid):
        while (found := await context.read_for(kid, some))[1]:
            after, lines = found
            for line in lines:
                yield line


@router.post("/studies/{study}/verify", response_model=Verified)
async def verify_study(request: Request, study: str) -> JSONResponse:
    """Check the chain, take every decision again, and compare with what the database says."""
    context = context_of(request)
    found = await context.heavy.run(principal_of(request).kid, partial(verify_stored, context.storage, study))
    if found is None:
        raise Refusal("not-found", f"no study {study!r}")
    return answered(
        Verified(
            study=study,
            sound=found.sound,
            problem=found.problem,
            records=found.records,
            phases=found.phases,
            stage=found.stage,
            head=found.head,
            exact=found.exact,
            certificate=found.certificate,
        )
    )


@router.get("/studies/{study}/events", response_class=StreamingResponse)
async def follow_study(request: Request, study: str) -> StreamingResponse:
    """Server-sent events: `study` with stage, phase, awaited and version, at first and after every change."""
    context = context_of(request)
    row = await context.read(lambda connection: require_study(connection, study))
    context.streams.check(principal_of(request).kid)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(request, row), media_type="text/event-stream", headers=headers)


async def _events(request: Request, row: StudyRow) -> AsyncIterator[str]:
    context, glance, whole = context_of(request), Glance.of(row), visibility_of(request).whole
    with context.metrics.streams.track_inprogress(), context.streams.taken(principal_of(request).kid):
        yield _event(glance, context, whole=whole)
        while context.watch.running:
            following = await context.watch.next(glance.study, glance.sequence, HEARTBEAT)
            if not await still_welcome(request):
                return
            if following is None:
                yield ": still here\n\n"
            else:
                glance = following
                yield _event(glance, context, whole=whole)


def _event(glance: Glance, context: Context, *, whole: bool) -> str:
    version = context.etags.of(glance.study, glance.sequence)
    shown = {**vars(glance), "sequence": glance.sequence if whole else None, "version": version}
    return f"id: {version}\nevent: study\ndata: {canonical(shown)}\n\n"
