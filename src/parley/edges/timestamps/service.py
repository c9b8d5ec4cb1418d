"""The server's time stamps: requested after each decided phase, or added by an administrator. None is ever deleted."""

import asyncio
from dataclasses import dataclass
from functools import partial

from prometheus_client import Counter

from parley.coordinator.access.tokens import ADMINS
from parley.coordinator.http.context import Call, Context, Service
from parley.coordinator.http.guard import Operation
from parley.coordinator.observability import logger
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Transaction, ledger
from parley.coordinator.record.writer import append_server
from parley.coordinator.settings import EdgeSettings, ServerSettings, require_url, setting
from parley.edges.timestamps.rfc3161 import EXTRA, ask_stamp, read_response
from parley.errors import need
from parley.protocol import Stamp

PAUSE = 2.0  # seconds between checks for a log to stamp; doubled with every failure, up to an hour
MOST = 20  # stamps kept per record


@dataclass(frozen=True, kw_only=True)
class StampSettings(EdgeSettings):
    """Settings of time stamps. Without an authority, nothing is stamped automatically."""

    timestamp_authority: str = setting(
        "", "RFC 3161 authority (URL) to stamp the head of a study's log after each decided phase. Empty: none."
    )

    def check(self, server: ServerSettings) -> None:  # noqa: ARG002
        require_url("timestamp_authority", self.timestamp_authority)
        if self.timestamp_authority:
            need("rfc3161_client", extra=EXTRA, purpose="timestamp_authority")


class Stamper(Service):
    """Asks an authority to stamp the head of a log after each decided phase, in the background; retries failures."""

    def __init__(self, context: Context) -> None:
        self._context, self._authority = context, context.settings.of(StampSettings).timestamp_authority
        self._attempts = Counter(
            "parley_stamps_total",
            "Attempts to have a log stamped, by outcome: stamped or failed.",
            ["outcome"],
            registry=context.metrics.registry,
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start stamping, beginning with the logs that have decisions newer than their last stamp."""
        if self._authority:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop stamping."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        seen: dict[str, int] = {}
        failures = 0
        while True:
            try:
                for record in await self._context.read(partial(ledger.stamps_due, seen=seen)):
                    stamp = await ask_stamp(self._authority, record)
                    keep = partial(ledger.keep_stamp, stamp=stamp, own=True)
                    await asyncio.wrap_future(self._context.storage.submit(keep))
                    self._attempts.labels("stamped").inc()
                failures = 0
            except Exception as error:  # even a bug must not end the task, and with it all stamps
                failures += 1
                self._attempts.labels("failed").inc()
                logger.warning("no time stamp", error=str(error) or type(error).__name__, failures=failures)
            await asyncio.sleep(min(3600.0, PAUSE * 2 ** min(failures, 20)))


async def add_stamp(call: Call[None, Stamp]) -> Stamp:
    """Store an RFC 3161 time stamp of a record beside the log; the stamp is exported and verified with the log."""
    stamp, by, at = call.body, call.by.name, call.context.clock()
    if stamp.study != call.study:
        raise Refusal("invalid-request", "the study of the time stamp is not that of the address")
    read_response(stamp)

    def work(transaction: Transaction) -> Stamp:
        if not ledger.has(transaction, stamp.study, stamp.sequence, stamp.head):
            raise Refusal("not-found", f"no record {stamp.sequence} with the hash {stamp.head:.12}... in the log")
        kept = ledger.stamps_of(transaction, stamp.study, stamp.sequence)
        if stamp.text in kept:
            raise Refusal("already-exists", f"this time stamp of record {stamp.sequence} is kept already")
        if len(kept) >= MOST:
            raise Refusal("already-exists", f"record {stamp.sequence} has {MOST} time stamps, and no more are kept")
        ledger.keep_stamp(transaction, stamp)
        entry = {"study": stamp.study, "sequence": stamp.sequence, "authority": stamp.authority}
        append_server(transaction, "stamp-added", entry, actor=by, at=at)
        return stamp

    return await call.change(work)


OPERATIONS = (
    Operation(
        tag="oversight",
        method="POST",
        path="/v1/studies/{study}/stamps",
        handler=add_stamp,
        roles=ADMINS,
        body=Stamp,
        answer=Stamp,
        status=201,
    ),
)
