"""What auditors read: the logs, the export, a verification."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from starlette.responses import Response, StreamingResponse

from parley.coordinator.answers import Verified
from parley.coordinator.http.context import Call
from parley.coordinator.http.schemas import LogQuery, StudyLogQuery
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import PAGE, log_page, require_study
from parley.coordinator.record import Transaction, ledger
from parley.coordinator.record.audit import verify_stored

__all__ = ["export_log", "get_log", "get_server_log", "verify_study"]


async def get_log(call: Call[StudyLogQuery, None]) -> Response:
    """Records of a study's log. `after` continues: later records, or earlier ones with `newest_first`."""
    query = call.query
    which = {"after": query.after, "kind": query.kind, "actor": query.actor, "newest_first": query.newest_first}

    def work(transaction: Transaction) -> str:
        require_study(transaction, call.study)
        return log_page(transaction, call.study, limit=query.limit, **which)

    return await call.answer(work)


async def get_server_log(call: Call[LogQuery, None]) -> Response:
    """Records of the server's own log: tokens issued and revoked."""
    query = call.query
    which = {"after": query.after, "limit": query.limit, "newest_first": query.newest_first}
    return await call.answer(lambda transaction: log_page(transaction, ledger.SERVER, **which))


async def export_log(call: Call[None, None]) -> Response:
    """The whole log, one record a line: all that `parley verify` needs on another machine."""
    await call.context.read(lambda transaction: require_study(transaction, call.study))
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
            for line in lines:
                yield line


async def verify_study(call: Call[None, None]) -> Response:
    """Check the chain, take every decision again, and compare with what the database says."""
    return await call.computed(partial(_verified, call))


def _verified(call: Call[None, None]) -> Verified:
    found = verify_stored(call.context.storage, call.study)
    if found is None:
        raise Refusal("not-found", f"no study {call.study!r}")
    told = {name: getattr(found, name) for name in Verified.__struct_fields__ if name != "study"}
    return Verified(study=call.study, **told)
