"""Two operations of the API that simulate: what a study would cost, and what is likely left of one.

They live here and not in the coordinator, which never simulates: nothing that decides may depend on them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import anyio.to_thread
import numpy as np
from fastapi import APIRouter
from sqlalchemy import Connection
from starlette.requests import Request

from parley.coordinator.http.context import context_of
from parley.coordinator.http.guard import GuardedRoute
from parley.coordinator.http.routes.studies import First, Some, read_study
from parley.coordinator.http.schemas import NewStudyBody
from parley.coordinator.logs import logger
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import latest_state
from parley.coordinator.reading.views import require_study
from parley.coordinator.record import studies
from parley.errors import ParleyError
from parley.experiments.forecasts.answers import estimates, outlook
from parley.policies import Policy, State
from parley.protocol import Stage, StudyMessage

__all__ = ["Forecaster", "estimate", "router"]

router = APIRouter(prefix="/v1", route_class=GuardedRoute, tags=["forecasts"])

REMEMBERED = 64


class Forecaster:
    """Computes outlooks beside the requests, one at a time, and remembers them: a decided phase never changes.

    Its thread is a daemon: a forecast in progress holds up no shutdown, since nothing waits for it.
    """

    def __init__(self) -> None:
        self._due: SimpleQueue[tuple[Any, Callable[[], dict[str, Any]]]] = SimpleQueue()
        self._known: dict[Any, dict[str, Any] | None] = {}
        self._thread: threading.Thread | None = None

    def ask(self, key: Any, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The result, or None while it is being computed."""
        if key not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.pop(next(iter(self._known)), None)
            self._known[key] = None
            self._due.put((key, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)
                self._thread.start()
        return self._known[key]

    def _run(self) -> None:
        if hasattr(os, "setpriority"):  # requests come first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            key, work = self._due.get()
            try:
                self._known[key] = work()
            except Exception:  # a bug here must not end all other forecasts
                logger.exception("a forecast failed")
                self._known[key] = {"state": "none", "reason": "the forecast failed; the log has the details"}


@router.post("/estimates")
async def estimate_study(request: Request, body: NewStudyBody) -> dict[str, Any]:
    """What a study would cost, before it is created: by simulating the hardest truths with given gaps."""
    settings = context_of(request).settings
    try:
        return await anyio.to_thread.run_sync(lambda: estimate(read_study(body, settings)))
    except ParleyError as error:
        raise Refusal("invalid-study", str(error)[:400]) from None


def estimate(study: StudyMessage) -> dict[str, Any]:
    """The planner's figures, together and alone; without scenarios where simulating would take too long."""
    problem, policy = study.problem, study.make_policy()
    scenarios = estimates(study.policy, study.options, problem)
    pairs = problem.arm_count * problem.agent_count
    return {
        "study": study.name,
        "policy": study.policy,
        "guarantee": policy.guarantee,
        "first_phase": int(policy.plan(policy.start()).sum()),
        "scenarios": scenarios,
        "reason": "" if scenarios else f"{pairs:,} pairs of arm and agent are too many to simulate while you wait",
    }


@router.get("/studies/{study}/outlook")
async def get_outlook(request: Request, study: str, first: First = 0, columns: Some = 2000) -> dict[str, Any]:
    """What is likely left: totals at the end with their spread, and the lower bound at the estimated means."""
    context = context_of(request)

    def work(connection: Connection) -> tuple[Any, str, Policy, State, tuple[str, ...]]:
        row = require_study(connection, study)
        message = studies.message(connection, row)
        frozen = tuple(sorted(studies.frozen_agents(connection, study)))
        state = latest_state(connection, row)
        over = row.stage in (Stage.FINISHED, Stage.CANCELLED, Stage.STALLED)
        key = (row.digest, row.id, int(state.phase), frozen, over)
        return key, "over" if over else "", message.make_policy(), state, frozen

    key, over, policy, state, frozen = await context.read(work)
    if not state.counts.any():
        return {"study": study, "state": "none", "reason": "nothing is known before the first phase is decided"}
    forecaster: Forecaster = request.app.state.forecaster
    found = forecaster.ask(key, lambda: outlook(policy, state, frozen, over=bool(over)))
    if found is None:
        return {"study": study, "state": "computing", "reason": ""}
    some = slice(first, first + columns)
    cut = {key: value[..., some].tolist() for key, value in found.items() if isinstance(value, np.ndarray)}
    return {"study": study, **found, **cut}
