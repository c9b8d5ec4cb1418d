"""Studies: list, create, look at, follow."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from starlette.responses import StreamingResponse

from parley.coordinator.answers import (
    Board,
    Conduct,
    Findings,
    History,
    Sensitivities,
    Studies,
    StudyLine,
    StudyStatus,
)
from parley.coordinator.http.context import Call
from parley.coordinator.http.guard import still_welcome
from parley.coordinator.http.schemas import FindingsQuery, HistoryQuery, NewStudyBody, SomeAgents, StudiesQuery
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import Columns, board, conduct, findings, history, sensitivities
from parley.coordinator.reading.studies import listed, pulse, require_study, status
from parley.coordinator.reading.watch import Glance
from parley.coordinator.record import StorageUnavailable, Transaction, phases, studies
from parley.coordinator.settings import ServerSettings
from parley.coordinator.studies import acts
from parley.errors import InvalidInput
from parley.protocol import StudyMessage, Trial
from parley.protocol.codec import canonical

MOST_NUMBERS = 1_000_000  # pairs of arm and agent in one answer, over its phases
MOST_CELLS = 10_000  # pairs of arm and agent whose intervals are worked out for one answer
MOMENT = 1.0  # seconds between looks at all studies
HEARTBEAT = 15  # seconds without news after which a comment keeps a proxy from closing the stream
STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def list_studies(call: Call[StudiesQuery, None]) -> Studies:
    """Studies by id; `search` looks into names and ids, `after` continues a list."""
    query = call.query
    work = partial(listed, visibility=call.visibility, etags=call.context.etags, only=call.by.study)
    which = {"search": query.search, "stage": query.stage, "after": query.after}
    return await call.answer(partial(work, limit=query.limit, **which))


async def create_study(call: Call[None, NewStudyBody]) -> StudyLine:
    """Create a study and open its first phase. The document is a study file's content with the weights as a matrix."""
    trial = await call.compute(partial(_prepare, call.body, call.context.settings))
    row = await call.change(partial(acts.create_study, trial=trial, actor=call.by.name, at=call.context.clock()))
    return call.line(row)


def _prepare(body: NewStudyBody, settings: ServerSettings) -> Trial:
    study = read_study(body, settings)
    return acts.prepare_study(body.id if body.id is not None else acts.suggest_id(study.name), study)


def read_study(body: NewStudyBody, settings: ServerSettings) -> StudyMessage:
    """The study that a body describes, if it can be run here."""
    document = body.study
    agents, arms = document.get("agents"), document.get("arms")
    if isinstance(agents, list) and isinstance(arms, list):
        cells = len(agents) * len(arms)
        if len(agents) > settings.max_agents or cells > settings.max_cells:
            raise Refusal(
                "invalid-study",
                f"{len(arms)} arms x {len(agents)} agents: at most {settings.max_agents} agents and "
                f"{settings.max_cells} cells are allowed here",
            )
    try:
        return StudyMessage.from_json({"schema": StudyMessage.schema, **document})
    except InvalidInput as error:
        raise Refusal("invalid-study", str(error)[:400]) from None


async def get_study(call: Call[None, None]) -> StudyStatus:
    """Where a study is, whom it waits for and since when."""
    visibility, etags = call.visibility, call.context.etags
    return await call.answer(
        lambda transaction: status(transaction, require_study(transaction, call.study), visibility, etags)
    )


async def get_document(call: Call[None, None]) -> str:
    """The study as it is asked now: canonical JSON, whose SHA-256 is the study's digest."""
    return await call.answer(
        lambda transaction: studies.message(transaction, require_study(transaction, call.study)).text
    )


async def get_board(call: Call[SomeAgents, None]) -> Board:
    """Arm x agent: candidates, when others were ruled out, answers, draws so far and planned; of some agents only,
    from the `first` on. Blinded, what is told of single arms is null."""
    columns = Columns(first=call.query.first, limit=call.query.columns)
    return await call.answer(
        lambda transaction: board(
            transaction, require_study(transaction, call.study), columns=columns, blinded=call.blinded
        )
    )


async def get_history(call: Call[HistoryQuery, None]) -> History:
    """What every decided phase brought, of some agents: draws and, unless blinded, who is out, means, scores."""
    query, some = call.query, Columns(first=call.query.first, limit=call.query.columns)

    def work(transaction: Transaction) -> History:
        row = require_study(transaction, call.study)
        few = min(query.limit, max(1, MOST_NUMBERS // (row.arms * min(query.columns, row.agents))))
        work = partial(history, after=query.after, limit=few, columns=some)
        return work(transaction, row, blinded=call.blinded, explain=query.explain)

    return await call.answer(work)


async def get_findings(call: Call[FindingsQuery, None]) -> Findings:
    """What the study has found so far: every mean and difference, with intervals that hold jointly at every phase.

    Of large studies an answer has fewer agents than asked for: go on with `first`."""
    query = call.query

    def work(transaction: Transaction) -> Findings:
        row = require_study(transaction, call.study)
        few = min(query.columns, max(1, MOST_CELLS // row.arms))
        return findings(transaction, row, columns=Columns(first=query.first, limit=few), phase=query.phase)

    return await call.answer(work)


async def get_sensitivity(call: Call[SomeAgents, None]) -> Sensitivities:
    """For which weights the answer of some agents stays, by the same data: proven for a reader who would have chosen
    them in advance, or for all readers at once."""
    columns = Columns(first=call.query.first, limit=call.query.columns)
    return await call.answer(
        lambda transaction: sensitivities(transaction, require_study(transaction, call.study), columns=columns)
    )


async def get_conduct(call: Call[SomeAgents, None]) -> Conduct:
    """How a study was conducted: the flow of its draws from the plan to the answer, and who did what, when and why."""
    query = call.query

    def work(transaction: Transaction) -> Conduct:
        row = require_study(transaction, call.study)
        few = min(query.columns, max(1, MOST_NUMBERS // (5 * row.arms)))
        return conduct(transaction, row, columns=Columns(first=query.first, limit=few))

    return await call.answer(work)


async def get_plan(call: Call[None, None]) -> str:
    """The whole plan of a phase, every agent's draws."""
    phase = call.at.phase

    def work(transaction: Transaction) -> str:
        plan = phases.plan_of(transaction, require_study(transaction, call.study).id, phase)
        if plan is None:
            raise Refusal("not-found", f"phase {phase} has no plan")
        return plan.text

    return await call.answer(work)


async def get_decision(call: Call[None, None]) -> str:
    """What a phase decided, and from which data."""
    phase = call.at.phase

    def work(transaction: Transaction) -> str:
        found = phases.phase_row(transaction, require_study(transaction, call.study).id, phase)
        if found is None or found.decision is None:
            raise Refusal("not-found", f"phase {phase} has no decision")
        return str(found.decision)

    return await call.answer(work)


async def get_certificate(call: Call[None, None]) -> str:
    """The certificate, once the study is over."""

    def work(transaction: Transaction) -> str:
        text = studies.certificate_of(transaction, require_study(transaction, call.study).id)
        if text is None:
            raise Refusal("not-found", "the study is not over: there is no certificate yet")
        return text

    return await call.answer(work)


async def follow_study(call: Call[None, None]) -> StreamingResponse:
    """Server-sent events: `study` with stage, phase, awaited and version, at first and after every change."""
    row = await call.context.read(lambda transaction: require_study(transaction, call.study))
    call.context.streams.check(call.by.kid)
    return StreamingResponse(_events(call, Glance.of(row)), media_type="text/event-stream", headers=STREAM)


async def _events(call: Call[None, None], glance: Glance) -> AsyncIterator[str]:
    context = call.context
    with context.metrics.streams.track_inprogress(), context.streams.taken(call.by.kid):
        yield _event(call, glance)
        while context.watch.running:
            following = await context.watch.next(glance.study, glance.sequence, HEARTBEAT)
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
    """Events named `studies` with their number and a version, at first and after every change."""
    call.context.streams.check(call.by.kid)
    return StreamingResponse(_changes(call), media_type="text/event-stream", headers=STREAM)


async def _changes(call: Call[None, None]) -> AsyncIterator[str]:
    context, only, known, quiet = call.context, call.by.study, (-1, -1), 0
    with context.streams.taken(call.by.kid):
        while context.watch.running:
            try:
                now = await context.read(partial(pulse, only=only))
            except StorageUnavailable:
                return  # whoever listens connects again
            if not await still_welcome(call):
                return
            if now != known:
                known, quiet = now, 0
                version = context.etags.of(only, *now)
                yield f'id: {version}\nevent: studies\ndata: {{"studies": {now[0]}, "version": "{version}"}}\n\n'
            elif (quiet := quiet + 1) % HEARTBEAT == 0:
                yield ": still here\n\n"
            await asyncio.sleep(MOMENT)
