"""What `parley serve` serves, and how: the API, its two operations that simulate, and the pages unless unwanted.

The two operations say what a study would cost, and what is likely left of one. They stand beside the coordinator, not
in it: it never simulates, so that nothing that decides can depend on a forecast. uvicorn runs the application on a
socket that is bound before anything is said about it.
"""

import ctypes
import gc
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from parley.connections import ConnectionLimits, address, affordable_connections, bind
from parley.coordinator.access.tokens import ADMINS, UNBLINDED
from parley.coordinator.answers import Estimated, Forecast, WantedPower
from parley.coordinator.clock import Clock, utc_now
from parley.coordinator.http.app import create_app, new_context
from parley.coordinator.http.context import Call
from parley.coordinator.http.guard import Operation
from parley.coordinator.http.routes.studies import read_study
from parley.coordinator.http.schemas import EstimateBody, SomeAgents
from parley.coordinator.observability import configure, logger
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import latest_state
from parley.coordinator.record import Storage, Transaction, open_storage, studies
from parley.coordinator.record.base import Cache
from parley.coordinator.settings import ServerSettings
from parley.errors import ParleyError
from parley.experiments.forecasts.forecast import budget_for_power, estimates, forecast_document, launch_warning
from parley.policies import Policy, State
from parley.protocol import Stage, StudyMessage
from parley.translation import marked

SWITCH = 0.0005  # seconds
GARBAGE = (10_000, 20, 100)  # objects after which the youngest are looked through; how often the older ones
ARENA_MAX, ARENAS = -8, 2  # as malloc.h names it; of memory that threads share
MMAP_THRESHOLD, OF_ITS_OWN = -3, 1 << 20  # the same; bytes from which a block is given back as soon as it is free
CACHED = 64  # forecasts


def create_service(storage: Storage, settings: ServerSettings, *, clock: Clock = utc_now) -> Starlette:
    """The application over an open storage; the caller that opened it closes it."""
    app = create_app(new_context(storage, settings, clock=clock), *FORECASTS)
    app.state.forecaster = Forecaster()
    if not settings.no_dashboard:
        from parley.dashboard.pages import mount

        mount(app)
    return app


async def estimate_study(call: Call[None, EstimateBody]) -> Estimated:
    """What a study would cost, before it is created: by simulating the hardest truths with given gaps."""
    body = call.body
    try:
        return await call.compute(lambda: estimate(read_study(body, call.context.settings), body.power, body.gap))
    except ParleyError as error:
        raise Refusal("invalid-study", str(error)[:400]) from None


def estimate(study: StudyMessage, power: float | None = None, gap: float | None = None) -> Estimated:
    """The planner's figures, together and alone; without scenarios where simulating would take too long.

    With a `power` that is wanted, the smallest budget that has it.
    """
    problem, policy = study.problem, study.make_policy()
    named = (study.policy, study.options, problem)
    endless = problem.horizon == "open" and problem.max_samples is None and problem.max_rounds is None
    scenarios = [] if endless else estimates(*named)
    pairs = problem.arm_count * problem.agent_count
    why = marked("{0:,} pairs of arm and agent are too many to simulate while you wait").format(pairs)
    return Estimated(
        study=study.name,
        policy=study.policy,
        guarantee=policy.guarantee,
        first_phase=int(policy.plan(policy.start()).sum()),
        scenarios=scenarios,
        reason="" if scenarios else "What it costs depends on when an administrator ends it" if endless else why,
        warning=launch_warning(*named),
        budget=WantedPower(**budget_for_power(*named, power, gap)) if power is not None else None,
    )


async def get_forecast(call: Call[SomeAgents, None]) -> Forecast:
    """What is likely left: totals at the end with their spread, and the lower bound at the estimated means."""
    study = call.study

    def work(transaction: Transaction) -> tuple[Any, bool, Policy, State, tuple[str, ...]]:
        row = studies.require(transaction, study)
        message = studies.message(transaction, row)
        frozen = tuple(sorted(studies.frozen_agents(transaction, study)))
        state = latest_state(transaction, row)
        over = row.stage in (Stage.FINISHED, Stage.CANCELLED, Stage.STALLED)
        key = (row.digest, row.id, int(state.phase), frozen, over)
        return key, over, message.make_policy(), state, frozen

    key, over, policy, state, frozen = await call.context.read_for(call.by.kid, work)
    if not state.counts.any():
        nothing = "nothing is known before the first phase is decided"
        return Forecast(study=study, state="none", reason=nothing)
    forecaster: Forecaster = call.app.state.forecaster
    found = forecaster.ask(key, lambda: forecast_document(policy, state, frozen, over=over))
    if found is None:
        return Forecast(study=study, state="computing")
    some = slice(call.query.first, call.query.first + call.query.columns)
    rows = {key: value[..., some].tolist() for key, value in found.items() if isinstance(value, np.ndarray)}
    return await call.answer(lambda _: Forecast(study=study, **found | rows))


FORECASTS = (
    Operation(
        tag="forecasts",
        method="POST",
        path="/v1/estimates",
        handler=estimate_study,
        roles=ADMINS,
        body=EstimateBody,
        answer=Estimated,
        large=True,
    ),
    Operation(
        tag="forecasts",
        method="GET",
        path="/v1/studies/{study}/forecast",
        handler=get_forecast,
        roles=UNBLINDED,
        results=True,
        query=SomeAgents,
        answer=Forecast,
    ),
)


class Forecaster:
    """Computes forecasts beside the requests, one at a time, and caches them: a decided phase never changes.

    Its thread is a daemon: a forecast in progress holds up no shutdown, since nothing waits for it.
    """

    def __init__(self) -> None:
        self._due: SimpleQueue[tuple[Any, Callable[[], dict[str, Any]]]] = SimpleQueue()
        self._known: Cache[Any, dict[str, Any]] = Cache(CACHED)
        self._asked: set[Any] = set()
        self._thread: threading.Thread | None = None

    def ask(self, key: Any, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The result, or None while it is being computed."""
        found = self._known.get(key)
        if found is None and key not in self._asked:
            self._asked.add(key)
            self._due.put((key, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)
                self._thread.start()
        return found

    def _run(self) -> None:
        if hasattr(os, "setpriority"):  # requests come first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            key, work = self._due.get()
            try:
                found = work()
            except Exception:  # a bug here must not end all other forecasts
                logger.exception("a forecast failed")
                found = {"state": "none", "reason": "the forecast failed; the log has the details"}
            self._known.put(key, found)
            self._asked.discard(key)


def settle_memory() -> None:
    """Look for garbage in cycles less often: looking through all there is stops every thread, for a fifth of a second
    where a large certificate is being read. What is there at the start stays, and is not looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    with suppress(AttributeError, OSError, TypeError):  # where glibc is: each of its arenas keeps what others could use
        ctypes.CDLL(None).mallopt(ARENA_MAX, ARENAS)
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, OF_ITS_OWN)


class _Orderly(uvicorn.Server):
    """Lets those who wait go before it stops: they would be cut off otherwise, each with a traceback in the log."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.config.app.state.context.watch.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def refuse_head(words: str) -> JSONResponse:
    """The answer to a request whose line and headers are too long."""
    return Refusal("head-too-large", words).response()


def _leave(*_: object) -> None:
    raise SystemExit(0)


def serve(
    settings: ServerSettings,
    announce: Callable[[str], None],
    make_app: Callable[[Storage, ServerSettings], Starlette] = create_service,
) -> None:
    """Serve until stopped; `announce` hears the address as soon as connections are taken."""
    configure(settings.log_level)
    # A request crosses threads a few times; waiting Python's usual 5 ms for each turn would be most of its time.
    sys.setswitchinterval(SWITCH)
    # uvicorn stops gracefully and then raises the signal once more; this turns it into an orderly exit.
    signal.signal(signal.SIGTERM, _leave)
    storage = open_storage(settings.db, connections=settings.connections, statement_timeout=settings.statement_timeout)
    try:
        with bind(settings.host, settings.port) as listener:
            limits = ConnectionLimits(connections=affordable_connections())
            config = uvicorn.Config(
                make_app(storage, settings),
                ssl_certfile=settings.tls_cert or None,
                ssl_keyfile=settings.tls_key or None,
                ssl_ca_certs=settings.tls_client_ca or None,
                ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_client_ca else ssl.CERT_NONE,
                **limits.uvicorn(refuse_head),
            )
            settle_memory()
            announce(address(listener, settings.host, secure=bool(settings.tls_cert)))
            _Orderly(config).run(sockets=[listener])
    finally:
        storage.close()
