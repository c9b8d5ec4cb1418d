"""The results of a study so far: board, history, findings, sensitivity to the weights, and conduct.

`docs/api.md`, under Blinding, says what a blinded reader gets; `tests/dashboard/test_blinding.py` checks that.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parley.coordinator import answers
from parley.coordinator.clock import to_the_minute
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Transaction, ledger, phases, studies
from parley.coordinator.record.studies import StudyRow
from parley.costs import money_of
from parley.estimates import WORDS, Estimates, estimates, finite, fixed_quantile, leading
from parley.policies import Explanation, Policy, State
from parley.policies.playing import Playing
from parley.problem import BoolArray, IntArray
from parley.protocol import EVENTS, Stage, StudyMessage, read_event
from parley.protocol.codec import read_json
from parley.protocol.outcome_findings import trial_outcomes
from parley.protocol.sensitivity import WORDS as STANDINGS
from parley.protocol.sensitivity import Sensitivity, foldable, sensitivity
from parley.protocol.state_machine import OVER, STOPPED
from parley.text.status import ArmStatus, OutcomeStatus, overall
from parley.totals import Totals
from parley.weights import WeightPath

MOST_NUMBERS = 1_000_000  # most (arm, agent) pairs in one answer, over its phases
MOST_CELLS = 10_000  # most (arm, agent) pairs whose intervals are computed for one answer
MOST_FOLDED = 2_000  # most (arm, agent) pairs of a study that is replayed under other weights while a reader waits


def _fewer(columns: slice, most: int) -> slice:
    """Shorten a slice of agents to at most `most` indices, but keep at least one."""
    return slice(columns.start, min(columns.stop, columns.start + max(1, most)))


def board(transaction: Transaction, row: StudyRow, *, columns: slice, blinded: bool) -> answers.Board:
    """The board of some agents: the status of every arm for each of them, and since which phase."""
    study, after = studies.message(transaction, row), latest_phase(row)
    policy, state = policy_of(transaction, row), _phase(transaction, row, after)[0]
    planned = _planned(transaction, row, columns)
    statuses, ends = _statuses(transaction, row, policy, after)
    left, asks = state.active.sum(axis=0), study.problem.asks
    priced = "price" in study.problem.non_default() and not blinded
    spent = _accepted(transaction, row, state, study.agents[columns] if blinded else None)
    return answers.Board(
        study=row.id,
        stage=str(row.stage),
        phases=int(state.phase),
        blinded=blinded,
        arms=list(study.arms),
        agents=list(study.agents[columns]),
        first=columns.start,
        agent_count=len(study.agents),
        top=study.problem.top,
        open_pairs=int((state.active & (left > study.problem.top) & asks).sum()),
        decided_agents=int(((left <= study.problem.top) & asks).sum()),
        candidates=left[columns].tolist(),
        drawn=state.counts.sum(axis=0)[columns].tolist(),
        spent=spent.sum(axis=0)[columns].tolist(),
        money=float(money_of(study.problem, spent)) if priced else None,
        planned=planned.sum(axis=0).tolist(),
        ends=[end.value for end in ends[columns]],
        rates=None if study.problem.rate is None else study.problem.rate[columns].tolist(),
        round_days=study.problem.round_days,
        delay=study.problem.delay[columns].tolist(),
        statuses=None if blinded else statuses[:, columns].tolist(),
        dropped_in=None if blinded else state.dropped_in[:, columns].tolist(),
        counts=None if blinded else spent[:, columns].tolist(),
        plan=None if blinded else planned.tolist(),
        by_arm=None if blinded else _by_arm(state, statuses, spent),
        standing=_standing(study.make_policy(), state, planned, columns, blinded=blinded),
    )


def policy_of(transaction: Transaction, row: StudyRow) -> Policy:
    """The policy for a study's current question; its `unasked` are the frozen agents whose questions were dropped."""
    study, last = studies.message(transaction, row), studies.question(transaction, row.id)
    policy = study.make_policy()
    if last is None:
        return policy
    left = set(last.left) & studies.frozen_agents(transaction, row.id).keys()
    return replace(policy, unasked=tuple(sorted(study.agents.index(name) for name in left)))


def end_of(transaction: Transaction, row: StudyRow) -> OutcomeStatus:
    """How a study ended; `open` while it is running."""
    if row.stage not in OVER:
        return OutcomeStatus.OPEN
    return overall(_statuses(transaction, row, policy_of(transaction, row), latest_phase(row))[1])


def _by_arm(state: State, statuses: NDArray[np.str_], spent: IntArray) -> answers.ByArm:
    counted = {status.value: (statuses == status.value).sum(axis=1).tolist() for status in ArmStatus}
    if not any(counted[ArmStatus.CLOSED]):  # most studies have no closed arm
        del counted[ArmStatus.CLOSED]
    return answers.ByArm(statuses=counted, drawn=state.counts.sum(axis=1).tolist(), spent=spent.sum(axis=1).tolist())


def _accepted(transaction: Transaction, row: StudyRow, state: State, names: Sequence[str] | None) -> IntArray:
    """`(arm, agent)`: the samples in all accepted reports, as the study's row counts them.

    If `names` is given, only these agents' reports count in the phase in progress; decided phases count whole.
    """
    study, counts = studies.message(transaction, row), state.counts
    decided = phases.decided(transaction, row.id)
    if int(state.phase) < decided:  # the current question was answered before the last phase
        counts = np.sum(
            [phases.totals_of(transaction, row, study, phase).everybody.counts for phase in range(1, decided + 1)],
            axis=0,
        )
    if row.phase <= decided:
        return np.asarray(counts)
    taken = phases.reports_of(transaction, row.id, row.phase, names)
    parts = [taken[name].report.totals if name in taken else None for name in study.agents]
    return np.asarray(counts + Totals.columns(parts, len(study.arms)).everybody.counts)


def _standing(
    policy: Policy, state: State, planned: IntArray, columns: slice, *, blinded: bool
) -> answers.RegretStanding | None:
    """Progress of a study with a horizon: each agent's leading arm, estimated regret, and exploring draws."""
    if not isinstance(policy, Playing):
        return None
    standing = policy.standing(state)
    horizon, left = policy.problem.horizon, standing.left[columns].tolist()
    assert horizon is not None
    if blinded or not state.counts.any():
        return answers.RegretStanding(horizon=horizon, left=left)
    total, width = float(standing.regret.sum()), 2 * float(standing.error)
    leading = standing.leading[:, columns]
    return answers.RegretStanding(
        horizon=horizon,
        left=left,
        regret=answers.EstimatedRegret(estimate=total, low=max(total - width, 0.0), high=total + width),
        agents=standing.regret[columns].tolist(),
        leaders=[policy.problem.arms[arm] for arm in leading.argmax(axis=0)],
        exploring=np.where(leading, 0, planned).sum(axis=0).tolist(),
    )


def _planned(transaction: Transaction, row: StudyRow, columns: slice) -> IntArray:
    """`(arm, agent)`: planned draws of some agents in the phase in progress; all 0 once the study is over."""
    study = studies.message(transaction, row)
    names = study.agents[columns]
    planned = np.zeros((len(study.arms), len(names)), dtype=np.int64)
    if row.stage in (Stage.RUNNING, Stage.CLOSING, Stage.PAUSED):
        asked = phases.draws_of_many(transaction, row.id, row.phase, names)
        for place, name in enumerate(names):
            if name in asked:
                planned[:, place] = asked[name]
    return planned


def latest_phase(row: StudyRow) -> int:
    """The number of the last decided phase; after a cancellation, the number of the last phase, decided or not."""
    return row.phase if row.stage in (Stage.FINISHED, Stage.STALLED, Stage.CANCELLED) else row.phase - 1


def latest_state(transaction: Transaction, row: StudyRow) -> State:
    """The policy's state after the study's last decided phase."""
    return _phase(transaction, row, latest_phase(row))[0]


def _phase(transaction: Transaction, row: StudyRow, phase: int) -> tuple[State, Explanation]:
    def made() -> tuple[State, Explanation]:
        study = studies.message(transaction, row)
        state = phases.state_after(transaction, study, row.id, phase)
        if state is None:  # cancelled before its last phase was decided
            state = phases.state_after(transaction, study, row.id, phase - 1)
        if state is None:
            raise Refusal("not-found", f"no state after phase {phase}")
        return state, study.make_policy().explain(state)

    return transaction.cache.states.get_or_compute((row.id, row.digest, phase), made)


def _statuses(
    transaction: Transaction, row: StudyRow, policy: Policy, phase: int, *, latest: bool = True
) -> tuple[NDArray[np.str_], list[OutcomeStatus]]:
    """The status of every arm `(arm, agent)` and of every agent after a phase; `policy` comes from `policy_of`.

    With `latest`, agents without an answer count as cancelled or blocked if the study was cancelled or has stalled.
    """
    found = _phase(transaction, row, phase)
    stopped = STOPPED.get(row.stage) if latest else None
    return transaction.cache.statuses.get_or_compute(
        (row.id, row.digest, phase, policy.unasked, stopped),
        lambda: (policy.arm_statuses(*found), policy.ends(found[0], stopped)),
    )


def history(
    transaction: Transaction, row: StudyRow, *, after: int, limit: int, columns: slice, blinded: bool, explain: bool
) -> answers.History:
    """The results of decided phases after phase `after`, oldest first.

    With `explain`, each phase has the policy's evidence, which takes long to compute for a large study.
    """
    study = studies.message(transaction, row)
    # Statuses as of now, not as of each phase: a dropped arm is listed with its present status.
    statuses, _ = _statuses(transaction, row, policy_of(transaction, row), latest_phase(row))
    shown, cells = [], row.arms * min(columns.stop - columns.start, row.agents)
    few = min(limit, max(1, MOST_NUMBERS // cells))
    for phase in range(after + 1, min(after + few, row.phase) + 1):
        found = phases.phase_row(transaction, row.id, phase)
        if found is None or found.decision is None:
            break
        counts, dropped_in, finished = _decision(transaction, row, phase, found.decision)
        when = to_the_minute if blinded else str
        dropped, aside = dropped_in == phase, statuses == ArmStatus.SET_ASIDE.value
        shown.append(
            answers.DecidedPhase(
                phase=phase,
                opened_at=when(found.opened_at),
                closed_at=when(found.closed_at),
                samples=int(counts.sum()),
                drawn=counts.sum(axis=0)[columns].tolist(),
                finished=finished,
                dropped=int(dropped.sum()),
                set_aside=None if blinded else int((dropped & aside).sum()),
                counts=None if blinded else counts[:, columns].tolist(),
                dropped_arms=None if blinded else _dropped(study, columns, dropped, statuses),
                explanation=_explained(transaction, row, phase, columns) if explain and not blinded else None,
            )
        )
    return answers.History(
        study=row.id, arms=list(study.arms), agents=list(study.agents[columns]), blinded=blinded, phases=shown
    )


def _dropped(
    study: StudyMessage, columns: slice, dropped: BoolArray, statuses: NDArray[np.str_]
) -> list[answers.DroppedArm]:
    return [
        answers.DroppedArm(arm=study.arms[arm], agent=study.agents[agent], status=str(statuses[arm, agent]))
        for arm, agent in np.argwhere(dropped)
        if columns.start <= agent < columns.stop
    ]


def _decision(transaction: Transaction, row: StudyRow, phase: int, text: str) -> tuple[IntArray, IntArray, bool]:
    """A phase's draws, the phase that dropped each arm, and whether the study finished.

    The decision is parsed without the checks of its message class, which are slow for a large study.
    """

    def read() -> tuple[IntArray, IntArray, bool]:
        document = read_json(text)
        dropped_in = np.array(document["dropped_in"], dtype=np.int64)
        return np.array(document["counts"], dtype=np.int64), dropped_in, bool(document["finished"])

    return transaction.cache.decisions.get_or_compute((row.id, row.digest, phase), read)


def _explained(transaction: Transaction, row: StudyRow, phase: int, columns: slice) -> answers.Explained:
    """The policy's evidence after a phase, with the findings' intervals, so that all pages show the same intervals."""
    state, shown = _phase(transaction, row, phase)
    mean = _estimated(transaction, row, studies.message(transaction, row), state, phase, columns).mean
    undrawn = ~state.counts.any(axis=1, keepdims=True)  # a dormant arm has no mean, and 0 would look like one
    return answers.Explained(
        mixed_means=finite(np.where(undrawn, np.nan, mean.possible(shown.mixed_means[:, columns]))),
        low=finite(mean.low),
        high=finite(mean.high),
        score=finite(shown.score[:, columns]),
        line=shown.line,
        words=shown.words,
    )


def findings(transaction: Transaction, row: StudyRow, *, columns: slice, phase: int | None) -> answers.Findings:
    """The findings for some agents after a decided phase, by default the latest."""
    study, columns = studies.message(transaction, row), _fewer(columns, MOST_CELLS // row.arms)
    last = phases.decided(transaction, row.id)
    if phase is not None and phase > last:
        raise Refusal("not-found", f"phase {phase} is not decided yet: the last decided phase is {last}")
    shown, policy = last if phase is None else phase, policy_of(transaction, row)
    after = latest_phase(row) if phase is None else phase
    state = _phase(transaction, row, after)[0]
    statuses, ends = _statuses(transaction, row, policy, after, latest=shown == last)
    change = _estimated(transaction, row, study, state, shown, columns).change if shown else None
    return answers.Findings(
        study=row.id,
        stage=str(row.stage),
        phase=shown,
        phases=last,
        level=1 - studies.claim(transaction, row).problem.delta,
        control=study.problem.control,
        rates=study.problem.noise.means_are_rates,
        words=WORDS,
        change=None if change is None else answers.ChangeFound(**change.document()),
        first=columns.start,
        agent_count=len(study.agents),
        agents=_agents(transaction, row, state, statuses, shown, ends, columns),
        outcomes=_outcomes(transaction, row, state, shown, columns),
    )


def _outcomes(
    transaction: Transaction, row: StudyRow, state: State, last: int, columns: slice
) -> list[answers.OutcomeFound]:
    """The findings on every further outcome up to phase `last`, with the guardrails' verdicts in the log so far."""
    study = studies.message(transaction, row)
    plan = phases.plan_of(transaction, row.id, row.phase)
    if not study.outcomes or plan is None:
        return []
    trial = replace(
        studies.without_reports(transaction, row, state=state, plan=plan),
        outcomes_past=tuple(phases.read_outcomes(transaction, row.id, study, phase) for phase in range(1, last + 1)),
        verdicts=phases.verdicts(transaction, row.id),
    )
    return [answers.OutcomeFound.from_json(one) for one in trial_outcomes(trial, agents=columns)]


def _agents(
    transaction: Transaction,
    row: StudyRow,
    state: State,
    statuses: NDArray[np.str_],
    last: int,
    ends: list[OutcomeStatus],
    columns: slice,
) -> list[answers.AgentFound]:
    study = studies.message(transaction, row)
    if not last:  # no phase is decided, and findings must not reveal single reports
        return [
            answers.AgentFound(agent=name, end=OutcomeStatus.OPEN, leader=None, arms=[])
            for name in study.agents[columns]
        ]
    found = _estimated(transaction, row, study, state, last, columns)
    quantile = fixed_quantile(studies.claim(transaction, row).problem.delta)
    means, leads = found.mean.cells(quantile), found.lead.cells(quantile)
    controls = None if found.control is None else found.control.cells(quantile)
    ended = ends[columns]
    said, dropped, draws = (array[:, columns].tolist() for array in (statuses, state.dropped_in, state.counts))
    agents = []
    for place, name in enumerate(study.agents[columns]):
        arms = [
            answers.ArmFound(
                arm=arm,
                status=said[k][place],
                dropped_in=dropped[k][place],
                draws=draws[k][place],
                mean=answers.Measured(**means[k][place]),
                to_leader=answers.Measured(**leads[k][place]),
                to_control=None if controls is None else answers.Measured(**controls[k][place]),
            )
            for k, arm in enumerate(study.arms)
        ]
        leader = study.arms[int(found.leader[place])]
        agents.append(answers.AgentFound(agent=name, end=ended[place].value, leader=leader, arms=arms))
    return agents


def _estimated(
    transaction: Transaction, row: StudyRow, study: StudyMessage, state: State, last: int, columns: slice
) -> Estimates:
    """Estimates from the draws of every phase up to `last`; differences are from the leading candidate.

    A re-weighed study may have reached its answers before its last phase. All phases count here, as in a certificate.
    """

    def made() -> Estimates:
        leader = leading(study.problem, state.totals, np.asarray(state.answers))
        drawn = [phases.totals_of(transaction, row, study, phase) for phase in range(1, last + 1)]
        return estimates(study.problem, drawn, leader, columns)

    return transaction.cache.estimates.get_or_compute((row.id, row.digest, last, columns.start, columns.stop), made)


def sensitivities(transaction: Transaction, row: StudyRow, *, columns: slice) -> answers.Sensitivities:
    """The weights for which the answers of some agents stay the same, after the latest decided phase."""
    study, policy, last = (
        studies.message(transaction, row),
        policy_of(transaction, row),
        phases.decided(transaction, row.id),
    )
    prove = row.arms * row.agents <= MOST_FOLDED

    def made() -> Sensitivity:
        drawn = [phases.totals_of(transaction, row, study, phase) for phase in range(1, last + 1)]
        chosen = np.asarray(latest_state(transaction, row).answers)
        return sensitivity(policy, drawn, chosen, prove=prove)

    agents = []
    if last and row.agents > 1:
        found = transaction.cache.sensitivities.get_or_compute((row.id, row.digest, last), made)
        _, ends = _statuses(transaction, row, policy, latest_phase(row))
        own = study.problem.draws & study.problem.asks
        places = (place for place in range(len(study.agents))[columns] if own[place])
        agents = [_sensitivity(study, found, place, ends[place]) for place in places]
    return answers.Sensitivities(
        study=row.id,
        phase=last,
        level=1 - studies.claim(transaction, row).problem.delta,
        axis=WeightPath.through(study.problem.weights, study.problem.draws).axis,
        words=STANDINGS,
        proofs=prove and foldable(policy),
        first=columns.start,
        agent_count=len(study.agents),
        agents=agents,
    )


def _sensitivity(study: StudyMessage, found: Sensitivity, agent: int, end: OutcomeStatus) -> answers.AgentSensitivity:
    def named(arms: BoolArray) -> list[str]:
        return [arm for arm, chosen in zip(study.arms, arms[:, agent], strict=True) if chosen]

    held = found.range_of(agent)
    steps = zip(found.path.values, found.standing, found.leading, strict=True)
    return answers.AgentSensitivity(
        agent=study.agents[agent],
        arms=named(found.arms),
        answered=end.answered,
        stated=float(found.path.stated[agent]),
        low=None if held is None else held[0],
        high=None if held is None else held[1],
        steps=[
            answers.WeightStep(value=value, standing=row[agent].value, leaders=named(ahead))
            for value, row, ahead in steps
        ],
    )


# Routine events of every study, which the list of acts leaves out.
ROUTINE = {"report-accepted", "phase-closed", "certified", "results-read"}
MOST_ACTS = 1_000


def conduct(transaction: Transaction, row: StudyRow, *, columns: slice) -> answers.Conduct:
    """The flow of all draws so far, and the acts that changed or delayed the study."""
    study, columns = studies.message(transaction, row), _fewer(columns, MOST_NUMBERS // (5 * row.arms))
    flow, outside = _flow(transaction, row, study), phases.outside(transaction, row.id)
    between, ahead, unmasked = _beside(transaction, row, study)
    acts = ledger.of_kind(transaction, row.id, EVENTS.keys() - ROUTINE, limit=MOST_ACTS)
    return answers.Conduct(
        study=row.id,
        arms=list(study.arms),
        agents=list(study.agents[columns]),
        first=columns.start,
        agent_count=len(study.agents),
        ended_at=ledger.last_at(transaction, row.id, "certified") if row.stage in OVER else None,
        flow=answers.Flow(**{name: found[:, columns].tolist() for name, found in flow.items()}),
        by_arm=answers.Flow(**{name: found.sum(axis=1).tolist() for name, found in flow.items()}),
        outside=[outside.get(name, 0) for name in study.agents[columns]],
        outside_in_all=sum(outside.values()),
        voided_in_all=sum(one.voided or 0 for one in phases.decisions(transaction, row.id)),
        between=between[columns].tolist(),
        between_in_all=int(between.sum()),
        ahead=ahead[columns].tolist(),
        ahead_in_all=int(ahead.sum()),
        unmasked=unmasked[columns].tolist(),
        unmasked_in_all=int(unmasked.sum()),
        acts=[
            answers.Act(
                sequence=record.sequence,
                at=record.at,
                kind=record.kind,
                by=record.actor,
                words=read_event(record.kind, record.payload).sentence,
            )
            for record in acts
        ],
    )


def _beside(transaction: Transaction, row: StudyRow, study: StudyMessage) -> tuple[IntArray, IntArray, IntArray]:
    """Count three groups of people, each as an array `(agent,)`.

    They are the counted people who came between phases, the people assigned ahead who are not counted yet, and the
    people whose arm was unmasked.
    """
    between, ahead, unmasked = (np.zeros(len(study.agents), dtype=np.int64) for _ in range(3))
    decisions = phases.decisions(transaction, row.id)
    for decision in decisions:
        between += np.array(decision.between or 0).sum(axis=0)
        ahead += np.array(decision.ahead or 0).sum(axis=0)
        unmasked += [(decision.unmasked or {}).get(name, 0) for name in study.agents]
    for phase in range(1, row.phase + 1):
        plan = phases.plan_of(transaction, row.id, phase)
        ahead -= 0 if plan is None else np.array(plan.between or 0).sum(axis=0)
    if row.phase > len(decisions):
        for name, taken in phases.reports_of(transaction, row.id, row.phase).items():
            ahead[study.agents.index(name)] += sum(taken.report.ahead)
            unmasked[study.agents.index(name)] += taken.report.unmasked or 0
    return between, ahead, unmasked


def _flow(transaction: Transaction, row: StudyRow, study: StudyMessage) -> dict[str, IntArray]:
    """The numbers of a `Flow`: field -> array `(arm, agent)`."""
    decisions = phases.decisions(transaction, row.id)
    names = ("planned", "counted", "undecided", "missing", "corrected")
    flow = {name: np.zeros((len(study.arms), len(study.agents)), dtype=np.int64) for name in names}
    for phase in range(1, row.phase + 1):
        plan = phases.plan_of(transaction, row.id, phase)
        flow["planned"] += 0 if plan is None else plan.array + np.array(plan.between or 0)
    for decision in decisions:
        flow["counted"] += np.array(decision.counts) + np.array(decision.between or 0)
        flow["missing"] += np.array(decision.missing or 0)
    if row.phase > len(decisions):
        for name, taken in phases.reports_of(transaction, row.id, row.phase).items():
            place = study.agents.index(name)
            early = taken.report.between
            flow["undecided"][:, place] += taken.report.totals.everybody.counts
            flow["missing"][:, place] += taken.report.missing or 0
            flow["missing"][:, place] += 0 if early is None else early.missing or 0
    corrections = [one.event.report for one in phases.corrections(transaction, row.id)]
    # The dictionary keeps only the last correction of each agent and phase.
    for (phase, name), report in {(one.phase, one.agent): one for one in corrections}.items():
        before = phases.standing(transaction, row.id, phase, name)
        for then, now in zip(before.totals.strata, report.totals.strata, strict=True):
            parts = ((getattr(one, part) for one in (then, now)) for part in ("counts", "sums", "squares"))
            changed = np.any([one != other for one, other in parts], axis=0)
            flow["corrected"][:, study.agents.index(name)] += np.where(changed, then.counts, 0)
    return flow
