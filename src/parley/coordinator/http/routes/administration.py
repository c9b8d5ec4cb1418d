"""What administrators do to a study, and what auditors read of it.

What an act would do is previewed first; the preview's digest confirms it.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from msgspec.structs import asdict
from starlette.responses import StreamingResponse

from parley.coordinator import answers
from parley.coordinator.answers import Verified
from parley.coordinator.http import schemas
from parley.coordinator.http.context import Call
from parley.coordinator.http.guard import record_read
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import PAGE, log_page, quarantined, signatures
from parley.coordinator.record import Transaction, ledger, phases, studies
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.writer import append_server, store_prepared
from parley.coordinator.studies import acts
from parley.coordinator.studies.acts import Proposal
from parley.coordinator.studies.phases import load_trial
from parley.protocol import Report, Trial, events
from parley.protocol.certificate import corrections_of, reading

ATTEMPTS = 10
A = TypeVar("A")
Propose: TypeAlias = Callable[..., Proposal[Any]]  # of a storage, and of what it is about


async def pause_study(call: Call[None, schemas.ReasonBody]) -> answers.StudyLine:
    """Take no report until resumed."""
    return await call.act(partial(acts.record_event, study=call.study, event=events.Paused(reason=call.body.reason)))


async def resume_study(call: Call[None, schemas.ReasonBody]) -> answers.StudyLine:
    """Go on where it was."""
    return await call.act(partial(acts.record_event, study=call.study, event=events.Resumed(reason=call.body.reason)))


async def cancel_study(call: Call[None, schemas.ReasonBody]) -> answers.StudyLine:
    """Stop for good, with a certificate of the candidates that remain."""
    storage = call.context.storage
    for _ in range(ATTEMPTS):  # reports may come while the certificate is made
        act: dict[str, Any] = {"study": call.study, "reason": call.body.reason}
        act |= {"actor": call.by.name, "at": call.context.clock()}
        prepared = await call.compute(partial(acts.prepare_cancel, storage, **act))
        row = await call.change(partial(store_prepared, prepared=prepared))
        if row is not None:
            return await call.line(row)
    raise Refusal("changed-meanwhile", "reports kept coming in: try again")


async def preview_early_close(call: Call[None, None]) -> answers.PreviewedEarlyClose:
    """What closing the phase in progress with the reports that are in would do; `digest` confirms it."""
    return await _previewed(
        call, answers.PreviewedEarlyClose, acts.propose_early_close, call.study, call.at.phase, blind=True
    )


async def close_early(call: Call[None, schemas.ConfirmBody]) -> answers.StudyLine:
    """Close the phase in progress with the reports that are in. Refused unless the preview is the one that was seen."""
    return await _confirmed(call, acts.propose_early_close, call.study, call.at.phase)


async def preview_freeze(call: Call[None, None]) -> answers.PreviewedFreeze:
    """What freezing an agent would do to termination and guarantee, and both ways to continue; `digest` confirms it."""
    return await _previewed(call, answers.PreviewedFreeze, acts.propose_freeze, call.study, call.at.agent)


async def freeze_agent(call: Call[None, schemas.FreezeBody]) -> answers.StudyLine:
    """Ask nothing more of an agent: its counts stay. Refused unless the preview is the one that was seen.

    With `reweigh`, the other agents are re-weighed without it, with the weights that the preview showed.
    """
    storage, place = call.context.storage, (call.study, call.at.agent)
    wanted, had = None, tuple[str, ...]()
    if call.body.reweigh:
        shown = (await call.compute(partial(acts.propose_freeze, storage, *place))).preview
        if shown.reweigh is None or shown.keep is None:
            raise Refusal("illegal-move", "nothing was frozen: the other agents cannot be re-weighed")
        wanted, had = shown.reweigh, shown.keep.answered
    frozen = await _confirmed(call, acts.propose_freeze, *place)
    if wanted is None:
        return frozen
    try:
        # Its costs may be others now: the freeze may have been what a phase waited for. Its effect on the answers that
        # there were may not; those that the phase brought were seen by nobody.
        anew = (await call.compute(partial(acts.propose_reweigh, storage, call.study, {}))).preview
        if anew.weights != wanted.weights:
            raise Refusal("changed-meanwhile", "the weights differ from those that were shown")
        if not set(anew.withdrawn) & set(had) <= set(wanted.withdrawn):
            raise Refusal("changed-meanwhile", "it would withdraw answers that were not shown")
        return await _confirmed(call, acts.propose_reweigh, call.study, {}, digest=anew.digest)
    except Refusal as refusal:
        words = f"{call.at.agent} is frozen. The others are not re-weighed: {refusal}"
        raise Refusal(refusal.slug, words, **refusal.extra) from None


async def preview_reweigh(call: Call[None, schemas.ColumnsBody]) -> answers.PreviewedReweigh:
    """What re-weighing without the frozen agents would do, with given columns or without; `digest` confirms it."""
    return await _previewed(call, answers.PreviewedReweigh, acts.propose_reweigh, call.study, call.body.columns)


async def reweigh_study(call: Call[None, schemas.ReweighBody]) -> answers.StudyLine:
    """Re-weigh without the frozen agents: the state is the fold of all recorded phases under the new weights."""
    return await _confirmed(call, acts.propose_reweigh, call.study, call.body.columns)


async def preview_thaw(call: Call[None, None]) -> answers.PreviewedThaw:
    """What asking a frozen agent again would do; `digest` confirms it."""
    return await _previewed(call, answers.PreviewedThaw, acts.propose_thaw, call.study, call.at.agent)


async def thaw_agent(call: Call[None, schemas.ConfirmBody]) -> answers.StudyLine:
    """Ask a frozen agent again. Refused unless the preview is the one that was seen."""
    return await _confirmed(call, acts.propose_thaw, call.study, call.at.agent)


async def preview_open_arm(call: Call[None, None]) -> answers.PreviewedArm:
    """What making a dormant or withdrawn arm a candidate would do; `digest` confirms it."""
    return await _previewed(call, answers.PreviewedArm, acts.propose_open_arm, call.study, call.at.arm)


async def open_arm(call: Call[None, schemas.ConfirmBody]) -> answers.StudyLine:
    """Make a dormant or withdrawn arm a candidate. Refused unless the preview is the one that was seen."""
    return await _confirmed(call, acts.propose_open_arm, call.study, call.at.arm)


async def preview_withdraw_arm(call: Call[None, None]) -> answers.PreviewedArm:
    """What going on without an arm would do; `digest` confirms it."""
    return await _previewed(call, answers.PreviewedArm, acts.propose_withdraw_arm, call.study, call.at.arm)


async def withdraw_arm(call: Call[None, schemas.ConfirmBody]) -> answers.StudyLine:
    """Continue without an arm: the state is the fold of all recorded phases without it."""
    return await _confirmed(call, acts.propose_withdraw_arm, call.study, call.at.arm)


async def _previewed(
    call: Call[Any, Any], kind: Callable[..., A], propose: Propose, *about: Any, blind: bool = False
) -> A:
    """What an act would do, and the digest with which to confirm it.

    What is computed from rewards is a look at unblinded results, which the server's log keeps before it is shown. The
    study's own log has a principal's first of a phase only: those who look all the time could keep it from closing.
    """

    def work() -> tuple[dict[str, str], A]:
        shown = propose(call.context.storage, *about).preview
        what = {"preview": shown.schema.split("/")[1], "digest": shown.digest}
        return what, call.finish(kind(preview=shown, digest=shown.digest))

    what, found = await call.compute(work)
    if not blind:
        look, by, at = {"study": call.study, **what}, call.by.name, call.context.clock()
        await call.change(lambda transaction: append_server(transaction, "preview-shown", look, actor=by, at=at))
    return found


async def _confirmed(
    call: Call[None, Any], propose: Propose, *about: Any, digest: str | None = None
) -> answers.StudyLine:
    """Do what was confirmed, if that is still what would happen."""
    for _ in range(ATTEMPTS):  # reports may come while the preview is computed, and mostly do not change it
        proposal = await call.compute(partial(propose, call.context.storage, *about))
        if proposal.preview.digest != (digest or call.body.preview):
            break
        act = {"actor": call.by.name, "at": call.context.clock()}
        prepared = await call.compute(partial(proposal.prepare, call.context.storage, call.body.reason, **act))
        row = await call.change(partial(store_prepared, prepared=prepared))
        if row is not None:
            return await call.line(row)
    raise Refusal("changed-meanwhile", "the preview is not the one that was confirmed: look again")


async def list_quarantine(call: Call[schemas.QuarantineQuery, None]) -> answers.Quarantine:
    """Reports that came for a taken place, and those that are or were held; `after` continues. `held`: what waits."""
    return await call.about(partial(quarantined, **asdict(call.query)))


async def amend_report(call: Call[None, schemas.AmendBody]) -> answers.StudyLine:
    """Put another report in the place of an accepted or held one, while its phase is in progress. Both are kept."""
    report = _addressed(call)
    return await call.act(
        lambda transaction, **given: acts.amend_report(transaction, report, call.body.reason, **given)[0]
    )


def _addressed(call: Call[None, Any]) -> Report:
    """The report of a body, if it is for the place in the path."""
    report, at = call.body.report, call.at
    if (report.study, report.phase, report.agent) != (at.study, at.phase, at.agent):
        raise Refusal("invalid-request", "study, phase and agent of the report are not those of the address")
    return cast(Report, report)


async def preview_correction(call: Call[None, schemas.CorrectionBody]) -> answers.PreviewedCorrection:
    """What correcting a report of a decided phase would tell, and whose answer would change; `digest` confirms it."""
    return await _previewed(call, answers.PreviewedCorrection, acts.propose_correction, _addressed(call))


async def correct_report(call: Call[None, schemas.CorrectBody]) -> answers.StudyLine:
    """Put a report of a decided phase right. Both are kept, and decisions stand; a new certificate is issued."""
    return await _confirmed(call, acts.propose_correction, _addressed(call))


async def list_corrections(call: Call[None, None]) -> answers.Corrections:
    """Reports that were corrected after their phase was decided, and how the study would read with them."""
    return await call.compute(partial(_corrections, call))


def _corrections(call: Call[None, None]) -> answers.Corrections:
    def look(transaction: Transaction) -> tuple[Trial | None, list[int]]:
        row, found = studies.require(transaction, call.study), phases.corrections(transaction, call.study)
        trial = load_trial(transaction, row, past=True) if found else None
        return trial, [one.sequence for one in found]

    trial, records = call.context.storage.read(look)
    answer = answers.Corrections(
        study=call.study,
        corrections=[] if trial is None else list(corrections_of(trial, records)),
        with_corrections=None if trial is None else reading(trial),
    )
    found: answers.Corrections = call.finish(answer)
    return found


async def refuse_report(call: Call[None, schemas.RefuseBody]) -> answers.StudyLine:
    """Refuse a report that is held, since the stated model rules out a mean of it: the agent is asked for another."""
    at, body = call.at, call.body
    event = events.ReportRefused(phase=at.phase, agent=at.agent, report=body.report, reason=body.reason)
    return await call.act(partial(acts.record_event, study=call.study, event=event))


async def sign_study(call: Call[None, schemas.SignBody]) -> answers.StudyLine:
    """Sign a study: name and meaning go into its log. The token is sent again: an open session alone cannot sign."""
    body = call.body
    confirmed = isinstance(body, schemas.ConfirmedSignBody) and body.kid == call.by.kid
    try:
        again = call.by if confirmed else await call.context.tokens.principal(body.token.strip())
    except Refusal:  # 401 would end the session
        again = None
    if again != call.by:
        raise Refusal("not-allowed", "nothing was signed: this is not the token with which you signed in")
    return await call.act(
        partial(acts.record_event, study=call.study, event=events.Signed(name=body.name, meaning=body.meaning))
    )


async def list_signatures(call: Call[None, None]) -> answers.Signatures:
    """Who signed the study, when, and what each signature says."""
    return await call.about(partial(signatures, visibility=call.visibility))


async def get_log(call: Call[schemas.StudyLogQuery, None]) -> str:
    """Records of a study's log. `after` continues: later records, or earlier ones with `newest_first`."""
    return await call.about(lambda transaction, row: log_page(transaction, row.id, **asdict(call.query)))


async def get_server_log(call: Call[schemas.LogQuery, None]) -> str:
    """Records of the server's own log: tokens issued and revoked, previews that were shown."""
    return await call.answer(lambda transaction: log_page(transaction, ledger.SERVER, **asdict(call.query)))


async def export_log(call: Call[None, None]) -> StreamingResponse:
    """The whole log, one record a line, then its time stamps: all that `parley verify` needs on another machine."""
    await call.context.read(lambda transaction: studies.require(transaction, call.study))
    call.context.streams.check(call.by.kid)
    headers = {"Content-Disposition": f'attachment; filename="{call.study}.ndjson"'}
    return StreamingResponse(_lines(call), media_type="application/x-ndjson", headers=headers)


async def _lines(call: Call[None, None]) -> AsyncIterator[str]:
    """A record at a time, and a few at a time from the database: whoever does not read holds up no more than that."""
    after, kid = 0, call.by.kid

    def some(transaction: Transaction) -> tuple[int, list[str]]:
        batch = ledger.lines(transaction, call.study, after=after, limit=200, size=PAGE)
        return batch[-1][0] if batch else 0, [f"{line}\n" for _, line in batch]

    with call.context.streams.taken(kid):
        while (found := await call.context.read_for(kid, some))[1]:
            after, lines = found
            await record_read(call, "export_log")  # a phase may have been decided since the last lines were sent
            for line in lines:
                yield line
        for text in await call.context.read_for(kid, lambda transaction: ledger.stamp_texts(transaction, call.study)):
            yield f"{text}\n"


async def verify_study(call: Call[None, None]) -> Verified:
    """Check the chain, take every decision again, and compare with what the database says."""
    return await call.compute(partial(_verified, call))


def _verified(call: Call[None, None]) -> Verified:
    found = verify_stored(call.context.storage, call.study)
    if found is None:
        raise Refusal("not-found", f"no study {call.study!r}")
    fields = {name: getattr(found, name) for name in Verified.__struct_fields__ if name != "study"}
    return Verified(study=call.study, **fields)
