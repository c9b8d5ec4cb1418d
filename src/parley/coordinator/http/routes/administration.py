"""What administrators do to a study. What an act would do is previewed first; the preview's digest confirms it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from starlette.responses import Response

from parley.coordinator.answers import Answer, PreviewedEarlyClose, PreviewedFreeze, PreviewedReweigh, PreviewedThaw
from parley.coordinator.http.context import Call
from parley.coordinator.http.schemas import (
    AmendBody,
    ColumnsBody,
    ConfirmBody,
    FreezeBody,
    QuarantineQuery,
    ReasonBody,
    RefuseBody,
    ReweighBody,
)
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.reports import quarantined
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies import acts, proposals
from parley.coordinator.studies.proposals import Proposal
from parley.protocol.previews import EarlyClosePreview, FreezePreview, ReweighPreview, ThawPreview

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
P = TypeVar("P", EarlyClosePreview, FreezePreview, ReweighPreview, ThawPreview)
Propose: TypeAlias = Callable[[], Proposal[P]]


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
    return await _previewed(call, PreviewedEarlyClose, _early_close(call))


async def cut_phase(call: Call[None, ConfirmBody]) -> Response:
    """Close the phase in progress with the reports that are in. Refused unless the preview is the one that was seen."""
    return call.line((await _confirmed(call, _early_close(call)))[1])


async def preview_freeze(call: Call[None, None]) -> Response:
    """What freezing an agent would do to termination and guarantee, and both ways to go on; `digest` confirms it."""
    return await _previewed(call, PreviewedFreeze, _freeze(call))


async def freeze_agent(call: Call[None, FreezeBody]) -> Response:
    """Ask nothing more of an agent: its counts stay. Refused unless the preview is the one that was seen.

    With `reweigh`, everybody else's question is asked anew without it, with the weights that the preview showed.
    """
    wanted = (await call.compute(_freeze(call))).preview.reweigh if call.body.reweigh else None
    if call.body.reweigh and wanted is None:
        raise Refusal("illegal-move", "nothing was frozen: the others cannot be re-weighed as they are asked")
    _, row = await _confirmed(call, _freeze(call))
    if wanted is None:
        return call.line(row)
    call.context.changed(row)
    try:
        # Its costs may be others now: the freeze may have been what a phase waited for. Its effect on answers may not.
        anew = await call.compute(_reweigh(call, {}))
        if anew.preview.weights != wanted.weights:
            raise Refusal("changed-meanwhile", "the weights are others than those that were shown")
        if not set(anew.preview.withdrawn) <= set(wanted.withdrawn):
            raise Refusal("changed-meanwhile", "it would withdraw answers that were not shown")
        return call.line((await _confirmed(call, _reweigh(call, {}), anew.preview.digest))[1])
    except Refusal as refusal:
        words = f"{call.at.agent} is frozen. The others are not re-weighed: {refusal}"
        raise Refusal(refusal.slug, words, **refusal.extra) from None


async def preview_reweigh(call: Call[None, ColumnsBody]) -> Response:
    """What asking anew without the frozen agents would do, with given columns or without; `digest` confirms it."""
    return await _previewed(call, PreviewedReweigh, _reweigh(call, call.body.columns))


async def reweigh_study(call: Call[None, ReweighBody]) -> Response:
    """Ask anew without the frozen agents: the state is the fold of all recorded phases under the new weights."""
    return call.line((await _confirmed(call, _reweigh(call, call.body.columns)))[1])


async def preview_thaw(call: Call[None, None]) -> Response:
    """What asking a frozen agent again would do; `digest` confirms it."""
    return await _previewed(call, PreviewedThaw, _thaw(call))


async def thaw_agent(call: Call[None, ConfirmBody]) -> Response:
    """Ask a frozen agent again. Refused unless the preview is the one that was seen."""
    return call.line((await _confirmed(call, _thaw(call)))[1])


def _early_close(call: Call[Any, Any]) -> Propose[EarlyClosePreview]:
    return partial(proposals.propose_early_close, call.context.storage, call.study, call.at.phase)


def _freeze(call: Call[Any, Any]) -> Propose[FreezePreview]:
    return partial(proposals.propose_freeze, call.context.storage, call.study, call.at.agent)


def _reweigh(call: Call[Any, Any], columns: Mapping[str, Sequence[float]]) -> Propose[ReweighPreview]:
    return partial(proposals.propose_reweigh, call.context.storage, call.study, columns)


def _thaw(call: Call[Any, Any]) -> Propose[ThawPreview]:
    return partial(proposals.propose_thaw, call.context.storage, call.study, call.at.agent)


async def _previewed(call: Call[Any, Any], kind: Callable[..., Answer], propose: Propose[P]) -> Response:
    """What an act would do, and the digest with which to confirm it."""

    def work() -> Answer:
        shown = propose().preview
        return kind(preview=shown, digest=shown.digest)

    return await call.computed(work)


async def _confirmed(
    call: Call[None, Any], propose: Propose[P], digest: str | None = None
) -> tuple[Proposal[P], StudyRow]:
    """Do what was confirmed, if that is still what would happen."""
    for _ in range(ATTEMPTS):  # reports may come while the preview is computed, and mostly do not change it
        proposal = await call.compute(propose)
        if proposal.preview.digest != (digest or call.body.preview):
            break
        change = await call.compute(partial(proposal.change, call.body.reason))
        row = await call.change(partial(change, actor=call.by.name, at=call.context.clock()))
        if row is not None:
            return proposal, row
    raise Refusal("changed-meanwhile", "the preview is not the one that was confirmed: look again")


async def list_quarantine(call: Call[QuarantineQuery, None]) -> Response:
    """Reports that came for a taken place, and those that are or were held; `after` continues. `held`: what waits."""
    query = call.query
    return await call.answer(
        lambda c: quarantined(c, call.study, after=query.after, limit=query.limit, held=query.held)
    )


async def amend_report(call: Call[None, AmendBody]) -> Response:
    """Put another report in the place of an accepted or held one, while its phase is in progress. Both are kept."""
    report, at = call.body.report, call.at
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
