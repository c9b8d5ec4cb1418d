"""The operations that perform and preview the acts in `parley.protocol.acts`; not every act has a preview.

Also the operations that list a study's quarantine, corrections, signatures and log, and that verify the study.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

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
from parley.coordinator.studies.phases import load_trial
from parley.protocol import Report, Trial
from parley.protocol.acts import ACTS, Act, ConfirmedSignBody, Given
from parley.protocol.certificate import corrections_of, reading

ATTEMPTS = 10  # how often an act is computed again because the study changed meanwhile
SHOWN = "preview-shown"  # kind of record in the server's log
Handler: TypeAlias = Callable[[Call[Any, Any]], Awaitable[Any]]


def _given(call: Call[Any, Any]) -> Given:
    """Collect the parts of the path, the fields of the body, and the caller, for the functions of an act's row.

    Refuses a report whose study, phase or agent differs from the path.
    """
    sent = {} if call.body is None else asdict(call.body)
    # The path takes precedence over the body. The path of an act has no kid, so its empty kid replaces the body's kid.
    given = Given(**sent | asdict(call.at), by=call.by.name)
    report = getattr(given, "report", None)
    if isinstance(report, Report) and (report.study, report.phase, report.agent) != (
        given.study,
        given.phase,
        given.agent,
    ):
        raise Refusal("invalid-request", "study, phase and agent of the report are not those of the address")
    return given


def preview_handler(act: Act) -> Handler:
    """Make the handler that shows what an act would do, with the digest that confirms the preview.

    Before the answer is sent, the server's log records who was shown which preview, and only that person can confirm
    it. The study's own log names readers of results only once per phase: a record for every preview would change the
    study each time, and could keep a phase from closing.
    """
    preview = act.preview
    assert preview is not None

    async def handler(call: Call[Any, Any]) -> Any:
        given, kind = _given(call), answers.PREVIEWED[preview.kind]

        def work() -> tuple[dict[str, str], Any]:
            shown = acts.propose(call.context.storage, act, given).preview
            assert shown is not None
            what = {"study": call.study, "preview": shown.schema.split("/")[1], "digest": shown.digest}
            return what, call.finish(kind(preview=shown, digest=shown.digest))

        async with _refusals_recorded(call, act, preview.name):
            what, found = await call.compute(work)
        by, at = call.by.name, call.context.clock()
        await call.change(lambda transaction: append_server(transaction, SHOWN, what, actor=by, at=at))
        return found

    return _named(handler, preview.name, f"{preview.words} `digest` confirms it.")


def act_handler(act: Act) -> Handler:
    """Make the handler that performs an act."""

    async def handler(call: Call[Any, Any]) -> answers.StudyLine:
        given = _given(call)
        if act.secret:
            await _prove(call, act)
        async with _refusals_recorded(call, act, act.name):
            if act.preview is not None:
                return await _confirmed_with(call, act, given)
            if act.ends:
                return await _confirmed(call, act, given)
            return await call.act(partial(acts.record_act, act=act, given=given))

    more = "" if act.preview is None else " Refused unless this preview was shown to you, and still holds."
    return _named(handler, act.name, f"{act.words}{more}")


def _named(handler: Handler, name: str, words: str) -> Handler:
    """Give a handler the name and the description of its operation, which OpenAPI shows."""
    handler.__name__, handler.__doc__ = name, words
    return handler


@asynccontextmanager
async def _refusals_recorded(call: Call[Any, Any], act: Act, operation: str) -> AsyncIterator[None]:
    """Log a read of results if an act with a report is refused: the refusal reveals whether a guess is right."""
    try:
        yield
    except Refusal:
        if act.of_report:
            await record_read(call, operation)
        raise


async def _confirmed_with(call: Call[Any, Any], act: Act, given: Given) -> answers.StudyLine:
    """Perform a confirmed act and, if the body requests it, the act that may follow."""
    follows = ACTS[act.then] if act.then and getattr(given, act.then) else None
    await _require_shown(call, given.preview)
    if follows is None:
        return await _confirmed(call, act, given, given.preview)
    shown: Any = (await call.compute(partial(acts.propose, call.context.storage, act, given))).preview
    wanted = getattr(shown, act.then)
    if wanted is None:
        raise Refusal("illegal-move", "nothing was frozen: the other agents cannot be re-weighed")
    await _confirmed(call, act, given, given.preview)
    try:
        # The projected costs may differ by now, since the freeze may have completed a phase. The effect on the answers
        # that the preview showed must not differ; answers that came with that phase have not been seen by anybody.
        plain = Given(**vars(given) | {"columns": {}})
        anew: Any = (await call.compute(partial(acts.propose, call.context.storage, follows, plain))).preview
        if anew.weights != wanted.weights:
            raise Refusal("changed-meanwhile", "the weights differ from those in the preview")
        if not set(anew.withdrawn) & set(shown.keep.answered) <= set(wanted.withdrawn):
            raise Refusal("changed-meanwhile", "it would withdraw answers that the preview did not show")
        return await _confirmed(call, follows, plain, anew.digest)
    except Refusal as refusal:
        words = f"{given.agent} is frozen. The others are not re-weighed: {refusal}"
        raise Refusal(refusal.slug, words, **refusal.extra) from None


async def _require_shown(call: Call[Any, Any], digest: str) -> None:
    """Refuse the digest of a preview that was never shown to the caller, according to the log.

    This is checked before anything is computed. Otherwise an invented digest would be compared with the actual preview,
    and the answer would reveal whether a guess is right.
    """
    look = partial(ledger.names, stream=ledger.SERVER, kind=SHOWN, actor=call.by.name)
    what = {"study": call.study, "digest": digest}
    if not await call.context.read(partial(look, what=what)):
        raise Refusal("preview-unknown", "look at the preview of this act first, and confirm its digest")


async def _confirmed(call: Call[Any, Any], act: Act, given: Given, digest: str | None = None) -> answers.StudyLine:
    """Perform an act if its preview still has the confirmed digest; without a digest, perform it in any case."""
    storage = call.context.storage
    for _ in range(ATTEMPTS):  # reports may arrive meanwhile, and mostly do not change the preview
        proposal = await call.compute(partial(acts.propose, storage, act, given))
        if digest is not None and (proposal.preview is None or proposal.preview.digest != digest):
            raise Refusal("changed-meanwhile", "this is not the preview that you confirmed: look again")
        by = {"actor": call.by.name, "at": call.context.clock()}
        prepared = await call.compute(partial(proposal.prepare, storage, given.reason, **by))
        row = await call.change(partial(store_prepared, prepared=prepared))
        if row is not None:
            return await call.line(row)
    raise Refusal("changed-meanwhile", "reports kept coming in: try again, or pause the study first")


async def _prove(call: Call[Any, Any], act: Act) -> None:
    """Refuse an act that asks for the token again, unless the body has the caller's token or proves a new sign-in."""
    body = call.body
    confirmed = isinstance(body, ConfirmedSignBody) and body.kid == call.by.kid
    try:
        again = call.by if confirmed else await call.context.tokens.principal(getattr(body, act.secret).strip())
    except Refusal:  # answered with 403 below, since 401 would end the caller's session
        again = None
    if again != call.by:
        raise Refusal("not-allowed", "nothing was signed: this is not the token with which you signed in")


async def list_quarantine(call: Call[schemas.QuarantineQuery, None]) -> answers.Quarantine:
    """List quarantined reports, including reports that are or were held.

    `held` selects reports that are still held, `beside` reports that wait although another report of the same agent
    and phase was accepted. `after` continues the list.
    """
    return await call.about(partial(quarantined, **asdict(call.query)))


async def list_corrections(call: Call[None, None]) -> answers.Corrections:
    """List the reports corrected after their phase was decided, and what the study would find with the corrections."""
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


async def list_signatures(call: Call[None, None]) -> answers.Signatures:
    """List the signatures of a study: who signed, when, and what the signature means."""
    return await call.about(partial(signatures, visibility=call.visibility))


async def get_log(call: Call[schemas.StudyLogQuery, None]) -> str:
    """List records of a study's log. `after` continues with later records; with `newest_first`, with earlier ones."""
    return await call.about(lambda transaction, row: log_page(transaction, row.id, **asdict(call.query)))


async def get_server_log(call: Call[schemas.LogQuery, None]) -> str:
    """List records of the server's own log: tokens issued or revoked, previews shown, and events of edges."""
    return await call.answer(lambda transaction: log_page(transaction, ledger.SERVER, **asdict(call.query)))


async def export_log(call: Call[None, None]) -> StreamingResponse:
    """Export a study's whole log, one record per line, then its time stamps: all that `parley verify` needs."""
    await call.context.read(lambda transaction: studies.require(transaction, call.study))
    call.context.streams.check(call.by.kid)
    headers = {"Content-Disposition": f'attachment; filename="{call.study}.ndjson"'}
    return StreamingResponse(_lines(call), media_type="application/x-ndjson", headers=headers)


async def _lines(call: Call[None, None]) -> AsyncIterator[str]:
    """Yield the lines one by one, read from the database in batches, so that a slow reader blocks only itself."""
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
    """Verify a study: check the hash chain of its log, repeat every decision, and compare its tables with the log."""
    return await call.compute(partial(_verified, call))


def _verified(call: Call[None, None]) -> Verified:
    found = verify_stored(call.context.storage, call.study)
    if found is None:
        raise Refusal("not-found", f"no study {call.study!r}")
    fields = {name: getattr(found, name) for name in Verified.__struct_fields__ if name != "study"}
    return Verified(study=call.study, **fields)
