"""Two operations of the API that simulate: what a study would cost, and what is likely left of one.

They stand beside the coordinator, not in it: it never simulates, so that nothing that decides can depend on a forecast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.coordinator.answers.base import answered
from parley.coordinator.answers.forecasts import Estimated, OutlookTold
from parley.coordinator.http.context import context_of, principal_of, written
from parley.coordinator.http.operations import operations
from parley.coordinator.http.routes.studies import First, Some, read_study
from parley.coordinator.http.schemas import NewStudyBody
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.progress import latest_state
from parley.coordinator.reading.studies import require_study
from parley.coordinator.record import Transaction, studies
from parley.errors import ParleyError
from parley.experiments.forecasts.forecast import estimates, forecast_document
from parley.policies import Policy, State
from parley.protocol import Stage, StudyMessage
from parley.service.forecaster import Forecaster

__all__ = ["estimate", "router"]

router = operations("forecasts")


@router.post("/estimates", response_model=Estimated)
async def estimate_study(request: Request, body: NewStudyBody) -> JSONResponse:
    """What a study would cost, before it is created: by simulating the hardest truths with given gaps."""
    context, by = context_of(request), principal_of(request)
    try:
        return answered(await context.heavy.run(by.kid, lambda: estimate(read_study(body, context.settings))))
    except ParleyError as error:
        raise Refusal("invalid-study", str(error)[:400]) from None


def estimate(study: StudyMessage) -> Estimated:
    """The planner's figures, together and alone; without scenarios where simulating would take too long."""
    problem, policy = study.problem, study.make_policy()
    endless = problem.horizon == "open" and problem.max_samples is None and problem.max_rounds is None
    scenarios = [] if endless else estimates(study.policy, study.options, problem)
    pairs = problem.arm_count * problem.agent_count
    why = f"{pairs:,} pairs of arm and agent are too many to simulate while you wait"
    return Estimated(
        study=study.name,
        policy=study.policy,
        guarantee=policy.guarantee,
        first_phase=int(policy.plan(policy.start()).sum()),
        scenarios=scenarios,
        reason="" if scenarios else "What it costs depends on when somebody ends it" if endless else why,
    )


@router.get("/studies/{study}/outlook", response_model=OutlookTold)
async def get_outlook(request: Request, study: str, first: First = 0, columns: Some = 2000) -> Response:
    """What is likely left: totals at the end with their spread, and the lower bound at the estimated means."""
    context = context_of(request)

    def work(connection: Transaction) -> tuple[Any, str, Policy, State, tuple[str, ...]]:
        row = require_study(connection, study)
        message = studies.message(connection, row)
        frozen = tuple(sorted(studies.frozen_agents(connection, study)))
        state = latest_state(connection, row)
        over = row.stage in (Stage.FINISHED, Stage.CANCELLED, Stage.STALLED)
        key = (row.digest, row.id, int(state.phase), frozen, over)
        return key, "over" if over else "", message.make_policy(), state, frozen

    kid = principal_of(request).kid
    key, over, policy, state, frozen = await context.read_for(kid, work)
    if not state.counts.any():
        nothing = "nothing is known before the first phase is decided"
        return answered(OutlookTold(study=study, state="none", reason=nothing))
    forecaster: Forecaster = request.app.state.forecaster
    found = forecaster.ask(key, lambda: forecast_document(policy, state, frozen, over=bool(over)))
    if found is None:
        return answered(OutlookTold(study=study, state="computing"))
    some = slice(first, first + columns)

    def shown() -> bytes:
        cut = {key: value[..., some].tolist() for key, value in found.items() if isinstance(value, np.ndarray)}
        return written(OutlookTold(study=study, **found | cut))

    return context.sent(await context.reading.run(kid, shown), to=kid)
