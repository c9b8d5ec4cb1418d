"""The two API operations that simulate: what a new study would cost, and how a running study is likely to end.

They are outside the coordinator, which never simulates, so no decision can depend on a forecast.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np

from parley.coordinator.access.tokens import ADMINS, UNBLINDED
from parley.coordinator.answers import Estimated, Forecast, WantedPower
from parley.coordinator.http.context import Call
from parley.coordinator.http.guard import Operation
from parley.coordinator.http.routes.studies import read_study
from parley.coordinator.http.schemas import EstimateBody, SomeAgents
from parley.coordinator.observability import logger
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import latest_state
from parley.coordinator.record import Transaction, phases, studies
from parley.coordinator.record.base import Cache
from parley.errors import ParleyError
from parley.experiments.forecasts.forecast import budget_for_power, estimates, forecast_document, launch_warning
from parley.policies import Policy, State
from parley.problem import IntArray
from parley.protocol import Stage, StudyMessage
from parley.text.translation import Translatable

CACHED = 64  # most forecasts in the cache


async def estimate_study(call: Call[None, EstimateBody]) -> Estimated:
    """Estimate what a study would cost before it is created, by simulating the hardest true means for several gaps."""
    body = call.body
    try:
        return await call.compute(lambda: estimate(read_study(body, call.context.settings), body.power, body.gap))
    except ParleyError as error:
        raise Refusal("invalid-study", str(error)[:400]) from None


def estimate(study: StudyMessage, power: float | None = None, gap: float | None = None) -> Estimated:
    """Compute the planner's figures for all agents together and for each agent alone.

    There are no scenarios if simulating them would take too long, or if only an administrator can end the study. With a
    `power`, the answer includes the smallest budget that reaches this power.
    """
    problem, policy = study.problem, study.make_policy()
    named = (study.policy, study.options, problem)
    endless = problem.horizon == "open" and problem.max_samples is None and problem.max_rounds is None
    scenarios = [] if endless else estimates(*named)
    pairs = problem.arm_count * problem.agent_count
    why = Translatable("{0:,} pairs of arm and agent are too many to simulate while you wait", pairs)
    return Estimated(
        study=study.name,
        policy=study.policy,
        guarantee=policy.guarantee,
        extent=policy.extent,
        first_phase=int(policy.plan(policy.start()).sum()),
        scenarios=scenarios,
        reason="" if scenarios else "What it costs depends on when an administrator ends it" if endless else why,
        warning=launch_warning(*named),
        budget=WantedPower(**budget_for_power(*named, power, gap)) if power is not None else None,
    )


async def get_forecast(call: Call[SomeAgents, None]) -> Forecast:
    """Forecast how a study will end: expected totals with their spread, and the lower bound at the estimated means."""
    study = call.study

    def work(transaction: Transaction) -> tuple[Any, bool, Policy, State, tuple[str, ...], IntArray | None]:
        row = studies.require(transaction, study)
        message = studies.message(transaction, row)
        frozen = tuple(sorted(studies.frozen_agents(transaction, study)))
        state = latest_state(transaction, row)
        over = row.stage in (Stage.FINISHED, Stage.CANCELLED, Stage.STALLED)
        # The key has everything that the forecast depends on, so that a cached forecast never needs to be invalidated.
        key = (row.digest, row.id, int(state.phase), frozen, over)
        plan = phases.plan_of(transaction, row.id, int(state.phase) + 1)
        between = np.array(plan.between, dtype=np.int64) if plan is not None and plan.between else None
        return key, over, message.make_policy(), state, frozen, between

    key, over, policy, state, frozen, between = await call.context.read_for(call.by.kid, work)
    if not state.counts.any():
        nothing = "nothing is known before the first phase is decided"
        return Forecast(study=study, state="none", reason=nothing)
    forecaster: Forecaster = call.app.state.forecaster
    found = forecaster.ask(key, lambda: forecast_document(policy, state, frozen, over=over, between=between))
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
    """Computes forecasts in the background, one at a time, and caches them.

    Cached forecasts stay valid, since a decided phase never changes. The thread is a daemon, so that a forecast in
    progress does not delay a shutdown.
    """

    def __init__(self) -> None:
        self._due: SimpleQueue[tuple[Any, Callable[[], dict[str, Any]]]] = SimpleQueue()
        self._known: Cache[Any, dict[str, Any]] = Cache(CACHED)
        self._asked: set[Any] = set()
        self._thread: threading.Thread | None = None

    def ask(self, key: Any, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Return the cached result for a key, or None while `work` computes it in the background."""
        found = self._known.get(key)
        if found is None and key not in self._asked:
            self._asked.add(key)
            self._due.put((key, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)
                self._thread.start()
        return found

    def _run(self) -> None:
        if hasattr(os, "setpriority"):  # lower the priority of this thread: requests come first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            key, work = self._due.get()
            try:
                found = work()
            except Exception:  # a bug in one forecast must not end the thread
                logger.exception("a forecast failed")
                found = {"state": "none", "reason": "the forecast failed; the log has the details"}
            self._known.put(key, found)
            self._asked.discard(key)
