"""What administrators do to a study. What an act would do is previewed first; the preview's digest confirms it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from starlette.responses import Response

from parley.coordinator.answers import CutPreview, FreezePreview, ReweighPreview, ThawPreview
from parley.coordinator.http.context import Call
from parley.coordinator.http.schemas import (
    AmendBody,
    ColumnsBody,
    ConfirmBody,
    QuarantineQuery,
    ReasonBody,
    RefuseBody,
    ReweighBody,
)
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.reports import quarantined
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies import acts, lost_sites

__all__ = [
    "amend_report",
    "cancel_study",
    "cut_phase",
    "freeze_agent",
    "list_quarantine",
    "pause_study",
    "preview_cut",
    "preview_freeze",
    "preview_reweigh",
    "preview_thaw",
    "refuse_report",
    "resume_study",
    "reweigh_study",
    "thaw_agent",
]

ATTEMPTS = 10
Change: TypeAlias = Callable[..., StudyRow | None]  # None: the log has moved on


async def pause_study(call: Call[None, ReasonBody]) -> Response:
    """Take no report until resumed."""
    return await call.act(partial(acts.pause_study, study=call.study, reason=call.body.reason))


async def resume_study(call: Call[None, ReasonBody]) -> Response:
    """Go on where it was."""
    return await call.act(partial(acts.resume_study, study=call.study, reason=call.body.reason))


async def cancel_study(call: Call[None, ReasonBody]) -> Response:
    """Stop for good, with a certificate of the candidates that remain."""
    storage = call.context.storage
    for _ in range(ATTEMPTS):  # reports may come while the certificate of a large study is made
        act: dict[str, Any] = {"study": call.study, "reason": call.body.reason}
        act |= {"actor": call.by.name, "at": call.context.clock()}
        drafted = await call.compute(partial(acts.draft_cancel, storage, **act))
        row = await call.change(partial(acts.cancel_study, drafted=drafted, **act))
        if row is not None:
            return call.line(row)
    raise Refusal("changed-meanwhile", "reports came in all the time: try again")


async def preview_cut(call: Call[None, None]) -> Response:
    """What closing the phase in progress with the reports that are in would do; `digest` confirms it."""

    def work() -> CutPreview:
        _, shown = acts.preview_cut(call.context.storage, call.study, call.at.phase)
        return CutPreview(**shown.to_json(), digest=shown.digest)

    return await call.computed(work)


async def cut_phase(call: Call[None, ConfirmBody]) -> Response:
    """Close the phase in progress with the reports that are in. Refused unless the preview is the one that was seen."""

    async def attempt() -> Change | None:
        seen, shown = await call.compute(partial(acts.preview_cut, call.context.storage, call.study, call.at.phase))
        if shown.digest != call.body.consequences:
            return None
        return partial(acts.cut_phase, study=call.study, reason=call.body.reason, shown=shown, seen=seen)

    return await _confirmed(call, attempt)


async def preview_freeze(call: Call[None, None]) -> Response:
    """What freezing an agent would do to termination and guarantee, and both ways to go on; `digest` confirms it."""

    def work() -> FreezePreview:
        _, shown = lost_sites.preview_freeze(call.context.storage, call.study, call.at.agent)
        return FreezePreview(**shown.to_json(), digest=shown.digest)

    return await call.computed(work)


async def freeze_agent(call: Call[None, ConfirmBody]) -> Response:
    """Ask nothing more of an agent: its counts stay. Refused unless the preview is the one that was seen."""
    study, agent, reason = call.study, call.at.agent, call.body.reason

    async def attempt() -> Change | None:
        seen, shown = await call.compute(partial(lost_sites.preview_freeze, call.context.storage, study, agent))
        if shown.digest != call.body.consequences:
            return None
        return partial(lost_sites.freeze_agent, study=study, agent=agent, reason=reason, shown=shown, seen=seen)

    return await _confirmed(call, attempt)


async def preview_reweigh(call: Call[None, ColumnsBody]) -> Response:
    """What asking anew without the frozen agents would do, with given columns or without; `digest` confirms it."""

    def work() -> ReweighPreview:
        _, (shown, _) = lost_sites.preview_reweigh(call.context.storage, call.study, call.body.columns)
        return ReweighPreview(**shown.to_json(), digest=shown.digest)

    return await call.computed(work)


async def reweigh_study(call: Call[None, ReweighBody]) -> Response:
    """Ask anew without the frozen agents: the state is the fold of all recorded phases under the new weights."""
    look = partial(lost_sites.preview_reweigh, call.context.storage, call.study, call.body.columns)

    async def attempt() -> Change | None:
        seen, (shown, trial) = await call.compute(look)
        if shown.digest != call.body.consequences:
            return None
        return await call.compute(partial(lost_sites.reweigh_study, call.study, call.body.reason, shown, trial, seen))

    return await _confirmed(call, attempt)


async def preview_thaw(call: Call[None, None]) -> Response:
    """What asking a frozen agent again would do; `digest` confirms it."""

    def work() -> ThawPreview:
        _, (shown, _) = lost_sites.preview_thaw(call.context.storage, call.study, call.at.agent)
        return ThawPreview(**shown.to_json(), digest=shown.digest)

    return await call.computed(work)


async def thaw_agent(call: Call[None, ConfirmBody]) -> Response:
    """Ask a frozen agent again. Refused unless the preview is the one that was seen."""
    look = partial(lost_sites.preview_thaw, call.context.storage, call.study, call.at.agent)

    async def attempt() -> Change | None:
        seen, (shown, trial) = await call.compute(look)
        if shown.digest != call.body.consequences:
            return None
        return await call.compute(partial(lost_sites.thaw_agent, call.study, call.body.reason, shown, trial, seen))

    return await _confirmed(call, attempt)


async def _confirmed(call: Call[None, Any], attempt: Callable[[], Awaitable[Change | None]]) -> Response:
    """Do what was confirmed, if that is still what would happen."""
    for _ in range(ATTEMPTS):  # reports may come while the preview is computed, and mostly do not change it
        change = await attempt()
        if change is None:
            break
        row = await call.change(partial(change, actor=call.by.name, at=call.context.clock()))
        if row is not None:
            return call.line(row)
    raise Refusal("changed-meanwhile", "the consequences are not those that were confirmed: look again")


async def list_quarantine(call: Call[QuarantineQuery, None]) -> Response:
    """Reports that came for a taken place, and those that are or were held; `after` continues. `held`: what waits."""
    query = call.query
    return await call.answer(
        lambda c: quarantined(c, call.study, after=query.after, limit=query.limit, held=query.held)
    )


async def amend_report(call: Call[None, AmendBody]) -> Response:
    """Put another report in the place of an accepted or held one, while its phase is in progress. Both are kept."""
    report, at = call.body.report.message(), call.at
    if (report.study, report.phase, report.agent) != (at.study, at.phase, at.agent):
        raise Refusal("invalid-request", "study, phase and agent of the report are not those of the address")
    return await call.act(
        lambda transaction, **given: acts.amend_report(transaction, report, call.body.reason, **given)[0]
    )


async def refuse_report(call: Call[None, RefuseBody]) -> Response:
    """Refuse a report that is held, since the stated model rules out a mean of it: the agent is asked for another."""
    at, body = call.at, call.body
    place: dict[str, Any] = {"study": at.study, "phase": at.phase, "agent": at.agent}
    return await call.act(partial(acts.refuse_report, **place, digest=body.report, reason=body.reason))
