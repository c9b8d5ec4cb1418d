"""Operations on studies: list, create, read and follow them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

from msgspec.structs import asdict
from starlette.responses import StreamingResponse

from parley.coordinator import answers
from parley.coordinator.http.context import Call, Glance
from parley.coordinator.http.guard import record_read, still_welcome
from parley.coordinator.http.schemas import FindingsQuery, HistoryQuery, NewStudyBody, SomeAgents, StudiesQuery
from parley.coordinator.problems import Refusal
from parley.coordinator.reading import progress
from parley.coordinator.reading.studies import listed, pulse, status
from parley.coordinator.record import StorageUnavailable, Transaction, phases, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies import acts
from parley.errors import InvalidInput
from parley.protocol import StudyMessage, Trial
from parley.protocol.codec import canonical
from parley.protocol.messages import require_live_size

MOMENT = 1.0  # seconds between two checks of all studies for changes
HEARTBEAT = 15  # seconds of silence after which a comment keeps proxies from closing the stream
STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def list_studies(call: Call[StudiesQuery, None]) -> answers.Studies:
    """List studies in the order of their ids. `search` looks in names and ids; `after` continues the list."""
    work = partial(listed, visibility=call.visibility, etags=call.context.etags, only=call.by.study)
    return await call.answer(partial(work, **asdict(call.query)))


async def create_study(call: Call[None, NewStudyBody]) -> answers.StudyLine:
    """Create a study and open its first phase. The document is like a study file, with the weights as a matrix."""
    trial = await call.compute(partial(_prepare, call.body, call.context.settings))
    row = await call.change(partial(acts.create_study, trial=trial, actor=call.by.name, at=call.context.clock()))
    return await call.line(row)


def _prepare(body: NewStudyBody, settings: ServerSettings) -> Trial:
    study = read_study(body, settings)
    return acts.prepare_study(body.id if body.id is not None else acts.suggest_id(study.name), study)


def read_study(body: NewStudyBody, settings: ServerSettings) -> StudyMessage:
    """Read the study that a body describes, and check that this server can run it."""
    document = body.study
    agents, arms = document.get("agents"), document.get("arms")
    if isinstance(agents, list) and isinstance(arms, list):
        sizes = len(arms), len(agents), settings.max_agents, settings.max_cells
    else:
        sizes = 0, 0, 0, 0  # `from_json` refuses the document, and names the wrong key
    try:
        require_live_size(*sizes)  # before the document, which may be huge, is converted
        return StudyMessage.from_json({"schema": StudyMessage.schema, **document})
    except InvalidInput as error:
        raise Refusal("invalid-study", str(error)[:400]) from None


async def get_study(call: Call[None, None]) -> answers.StudyStatus:
    """The status of a study: its stage, its settings, which reports it waits for, and since when."""
    visibility, etags = call.visibility, call.context.etags

    def work(transaction: Transaction) -> tuple[answers.StudyStatus, bool]:
        found = status(transaction, studies.require(transaction, call.study), visibility, etags)
        # These texts contain means and scatters of arms; so does the text that an agent gets about its own report.
        return call.finish(found), any([*found.warnings, *(one.held for one in found.missing)])

    answer, results = await call.context.read_for(call.by.kid, work)
    if results:
        await record_read(call, "get_study")
    return answer


async def get_document(call: Call[None, None]) -> str:
    """The study with its current question, as canonical JSON; its SHA-256 is the study's digest."""
    return await call.about(lambda transaction, row: studies.message(transaction, row).text)


def _columns(query: SomeAgents) -> slice:
    """The slice of the agents' axis that a query selects."""
    return slice(query.first, query.first + query.columns)


async def get_board(call: Call[SomeAgents, None]) -> answers.Board:
    """A table of arms and agents: candidates, arms ruled out and when, answers, draws so far and draws planned.

    It has `columns` agents, from the index `first` on. For blinded readers, values of single arms are null.
    """
    return await call.about(partial(progress.board, columns=_columns(call.query), blinded=call.blinded))


async def get_history(call: Call[HistoryQuery, None]) -> answers.History:
    """The results of every decided phase for some agents: draws and, unless blinded, dropped arms, means and scores."""
    query = call.query
    work = partial(progress.history, after=query.after, limit=query.limit, columns=_columns(query))
    return await call.about(partial(work, blinded=call.blinded, explain=query.explain))


async def get_findings(call: Call[FindingsQuery, None]) -> answers.Findings:
    """The findings of a study so far: every mean and difference, with intervals that hold jointly at every phase.

    For a large study, an answer has fewer agents than requested: request the remaining agents with `first`.
    """
    return await call.about(partial(progress.findings, columns=_columns(call.query), phase=call.query.phase))


async def get_sensitivity(call: Call[SomeAgents, None]) -> answers.Sensitivities:
    """The weights for which the answers of some agents stay the same, on the same data.

    For given weights an answer may be proven for a reader who chose them in advance or, more strongly, for all readers
    at once. If `proofs` is false, there are only estimates.
    """
    return await call.about(partial(progress.sensitivities, columns=_columns(call.query)))


async def get_conduct(call: Call[SomeAgents, None]) -> answers.Conduct:
    """How a study was conducted: the flow of its draws from the plan to the answer, and who did what, when and why."""
    return await call.about(partial(progress.conduct, columns=_columns(call.query)))


async def get_plan(call: Call[None, None]) -> str:
    """The whole plan of a phase, with every agent's draws."""
    phase = call.at.phase
    return await _kept(call, partial(phases.plan_text, phase=phase), f"phase {phase} has no plan")


async def get_decision(call: Call[None, None]) -> str:
    """The decision on a phase, and the data that it is based on."""
    phase = call.at.phase
    return await _kept(call, partial(phases.decision_text, phase=phase), f"phase {phase} has no decision")


async def get_certificate(call: Call[None, None]) -> str:
    """The certificate of a study, once the study is over."""
    return await _kept(call, studies.certificate_of, "the study is not over: there is no certificate yet")


async def _kept(call: Call[None, None], find: Callable[[Transaction, str], str | None], otherwise: str) -> str:
    """Read a stored text of a study, or raise a refusal with the words `otherwise`."""

    def work(transaction: Transaction, row: StudyRow) -> str:
        text = find(transaction, row.id)
        if text is None:
            raise Refusal("not-found", otherwise)
        return text

    return await call.about(work)


async def follow_study(call: Call[None, None]) -> StreamingResponse:
    """Server-sent events `study` with stage, phase, awaited and version: one at once, then one after every change."""
    row = await call.context.read(lambda transaction: studies.require(transaction, call.study))
    call.context.streams.check(call.by.kid)
    return StreamingResponse(_events(call, Glance.of(row)), media_type="text/event-stream", headers=STREAM)


async def _events(call: Call[None, None], glance: Glance) -> AsyncIterator[str]:
    context = call.context
    with context.metrics.streams.track_inprogress(), context.streams.taken(call.by.kid):
        yield _event(call, glance)
        while context.watch.running:
            following = await context.watch.next(glance.study, glance.sequence, HEARTBEAT)
            # A stream may stay open for days: a token that was revoked meanwhile must not keep it.
            if not await still_welcome(call):
                return
            glance = following or glance
            yield _event(call, glance) if following else ": still here\n\n"


def _event(call: Call[None, None], glance: Glance) -> str:
    version = call.context.etags.of(glance.study, glance.sequence)
    sequence = glance.sequence if call.visibility.whole else None
    shown = {**vars(glance), "sequence": sequence, "version": version}
    return f"id: {version}\nevent: study\ndata: {canonical(shown)}\n\n"


async def follow_studies(call: Call[None, None]) -> StreamingResponse:
    """Server-sent events `studies` with the number of studies and a version: one at once, then one at every change."""
    call.context.streams.check(call.by.kid)
    return StreamingResponse(_changes(call), media_type="text/event-stream", headers=STREAM)


async def _changes(call: Call[None, None]) -> AsyncIterator[str]:
    context, only, known, quiet = call.context, call.by.study, (-1, -1), 0
    with context.streams.taken(call.by.kid):
        while context.watch.running:
            try:
                now = await context.read(partial(pulse, only=only))
            except StorageUnavailable:
                return  # the stream ends, and the client connects again
            if not await still_welcome(call):
                return
            if now != known:
                known, quiet = now, 0
                version = context.etags.of(only, *now)
                yield f'id: {version}\nevent: studies\ndata: {{"studies": {now[0]}, "version": "{version}"}}\n\n'
            elif (quiet := quiet + 1) % HEARTBEAT == 0:
                yield ": still here\n\n"
            await asyncio.sleep(MOMENT)
