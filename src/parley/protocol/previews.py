"""What an administrator's act would do, computed before anybody confirms it.

Every preview has a digest. The administrator confirms the digest and the log keeps it, so an act is carried out only as
its preview showed it. A preview decides nothing.

- `project` runs the policy ahead on rewards that equal their present estimates, without noise. A question that
  stays open there is unlikely to be answered in practice.
- `freeze_preview` adds the smallest radius that an interval can still reach. The mixed mean of arm k for agent m is a
  sum over agents n with weights w[n, m]. If n draws no more, its part of the variance stays
  w[n, m]^2 scale^2 / counts[k, n] for ever, however much the others draw. The preview shows both ways to continue: keep
  the question, or re-weigh it without the frozen agents.
- `reweigh_preview`, `thaw_preview`, `open_arm_preview`, `withdraw_arm_preview` and `early_close_preview` preview the
  other acts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from parley.errors import InvalidInput, ParleyError
from parley.policies import State
from parley.policies.base import nth_largest
from parley.problem import FloatArray
from parley.protocol.asking_anew import Anew, open_arm, reweigh, thaw, withdraw_arm
from parley.protocol.codec import Count, Message, Phase, described
from parley.protocol.lost_sites import arms_fixed, not_reweighable, weights_without
from parley.protocol.messages import Weights
from parley.protocol.state_machine import Stage, illegal
from parley.protocol.trial import Trial, make_plan
from parley.text.status import OutcomeStatus
from parley.text.translation import Translatable, joined
from parley.totals import Totals

Agents = tuple[str, ...]

PHASES_AHEAD = 12  # most phases of a projection
SAMPLES_AHEAD = 100  # a projection gives up after this many times the samples spent so far


class Projection(Message, tag="parley/projection/1"):
    """The projected end of a study: who has an answer, who would get one, and after how many phases and samples."""

    answered: Annotated[Agents, described("Agents that the recorded phases answer.")]
    expected: Annotated[Agents, described("Of the others, those who get an answer if rewards stay as estimated.")]
    without: Annotated[Agents, described("Agents who ask and would get no answer.")]
    left: Annotated[Agents, described("Agents whose own question is no longer asked.")]
    open_pairs: Annotated[Count, described("Arms that would stay candidates of those without an answer.")]
    phases: Annotated[Count, described("Phases still to come.")]
    samples: Annotated[Count, described("Draws still to come.")]


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """The end of a projection: the policy's state, and the phases and samples that lead there."""

    state: State
    phases: int
    samples: int


def run_ahead(trial: Trial) -> Ahead | None:
    """Run the policy ahead from the last decided phase, with rewards equal to their estimates; None without data."""
    state, means, policy = trial.state, trial.state.means, trial.policy
    before = int(state.counts.sum())
    if not before:
        return None
    # Rewards to come have the estimated means and variances, so intervals shrink as they would in practice.
    squares = np.square(means) + trial.study.problem.noise.cell_variances(state.totals)
    phases = 0
    while phases < PHASES_AHEAD and not state.finished:
        try:
            quotas = make_plan(policy, state, trial.id, trial.phase, trial.frozen).array
            if not quotas.any() or int((state.counts + quotas).sum()) > SAMPLES_AHEAD * before:
                break
            state = policy.update(state, Totals(counts=quotas, sums=quotas * means, squares=quotas * squares))
        except ParleyError:  # the policy itself gives up
            break
        phases += 1
    return Ahead(state=state, phases=phases, samples=int(state.counts.sum()) - before)


def project(trial: Trial) -> Projection:
    """Project how a trial continues. Without data, every agent that is not blocked is expected to get an answer."""
    agents, top = trial.study.agents, trial.study.problem.top
    ahead = run_ahead(trial)
    now = trial.policy.ends(trial.state)
    then = now if ahead is None else trial.policy.ends(ahead.state)
    pairs = dict(zip(agents, zip(now, then, strict=True), strict=True))
    open_then = trial.policy.blocked(trial.state) if ahead is None else ahead.state.active.sum(axis=0) > top
    asked = np.array([end not in (OutcomeStatus.LEFT, OutcomeStatus.UNASKED) for end in then])
    without = np.asarray(open_then) & asked
    active = trial.state.active if ahead is None else ahead.state.active
    return Projection(
        answered=tuple(name for name, (first, _) in pairs.items() if first.answered),
        expected=tuple(
            name
            for (name, (first, _)), stuck, asks in zip(pairs.items(), without, asked, strict=True)
            if not first.answered and not stuck and asks
        ),
        without=tuple(name for name, stuck in zip(agents, without, strict=True) if stuck),
        left=tuple(name for name, (_, last) in pairs.items() if last is OutcomeStatus.LEFT),
        open_pairs=int((active & without).sum()),
        phases=0 if ahead is None else ahead.phases,
        samples=0 if ahead is None else ahead.samples,
    )


class Column(Message, tag="parley/column/1"):
    """An agent whose question changes: the weights in its mix before and after."""

    agent: str
    before: tuple[float, ...]
    after: tuple[float, ...]


class ReweighPreview(Message, tag="parley/reweigh-preview/1"):
    """What re-weighing a study would do."""

    study: str
    phase: Phase
    frozen: Agents
    weights: Weights
    delta: Annotated[float, described("What the new question may spend of the study's delta.")]
    columns: Annotated[tuple[Column, ...], described("The columns that change.")]
    left: Annotated[Agents, described("Agents whose own question is no longer asked.")]
    withdrawn: Annotated[Agents, described("Agents who have an answer now, and would have none or another one.")]
    finished: Annotated[bool, described("The recorded phases answer everything: the study would end at once.")]
    projection: Projection
    effect: str
    guarantee: str


def weights_asked(trial: Trial, given: Mapping[str, Sequence[float]] | None = None) -> Weights:
    """The weights without the frozen agents, computed from the weights of the study as created.

    `given` columns replace computed columns.
    """
    return weights_without(trial.origin or trial.study, sorted(trial.frozen), given)


def reweigh_preview(trial: Trial, given: Mapping[str, Sequence[float]] | None = None) -> ReweighPreview:
    """Preview re-weighing a trial without its frozen agents, with the weights of `weights_asked`."""
    why = not_reweighable(trial.study)
    if why is not None:
        raise illegal(trial.stage, "reweighed", why)
    weights = weights_asked(trial, given)
    anew = reweigh(trial, weights)
    after = anew.trial
    before, now = np.array(trial.study.weights), np.array(weights)
    changed = np.flatnonzero((before != now).any(axis=0))
    ahead = project(after)
    finished = bool(after.state.finished)
    agents = trial.study.agents
    return ReweighPreview(
        study=trial.id,
        phase=trial.phase,
        frozen=tuple(sorted(trial.frozen)),
        weights=weights,
        delta=after.study.problem.delta,
        columns=tuple(
            Column(agent=agents[m], before=tuple(before[:, m].tolist()), after=tuple(now[:, m].tolist()))
            for m in changed
        ),
        left=tuple(sorted(after.leaves)),
        withdrawn=_asked_again(trial, after),
        finished=finished,
        projection=ahead,
        effect=_effect(trial, ahead, changed=len(changed), finished=finished),
        guarantee=after.guarantee
        + Translatable(
            ", whatever anyone has seen so far. Every recorded phase is weighed again as if the question had been "
            "asked from the start. The new question may spend an error probability of {0:.3g}: its share of what is "
            "reserved for all questions that could be asked instead",
            after.study.problem.delta,
        ),
    )


def _asked_again(trial: Trial, after: Trial) -> Agents:
    """The agents that have an answer now, and would have no answer or a different answer."""
    had = (trial.state.active.sum(axis=0) <= trial.study.problem.top) & trial.study.problem.asks
    had &= (trial.state.active != after.state.active).any(axis=0)
    return tuple(trial.study.agents[m] for m in np.flatnonzero(had))


def _effect(trial: Trial, ahead: Projection, *, changed: int, finished: bool) -> str:
    asks: str = Translatable("{0} of {1} agents ask a different question from now on", changed, len(trial.study.agents))
    if ahead.left:
        asks += Translatable("; there will be no answer for {0} unless you give weights", ", ".join(ahead.left))
    return joined(". ", [asks, _goes_on(trial, finished=finished)])


def _goes_on(trial: Trial, *, finished: bool, planned: bool = True) -> str:
    """A sentence on what happens to the phase in progress if another question is asked."""
    if finished:
        return Translatable(
            "The recorded phases already answer the new question, so the study ends at once and draws of this phase "
            "do not count"
        )
    if trial.stage is Stage.STALLED:
        return (
            Translatable("The next phase is planned at once")
            if planned
            else Translatable("Open questions stay blocked, and no phase is planned")
        )
    return Translatable("Phase {0} continues as planned; the next one is planned for the new question", trial.phase)


class ArmPreview(Message, tag="parley/arm-preview/1"):
    """What opening or withdrawing an arm would do."""

    study: str
    arm: str
    phase: Phase
    opens: Annotated[bool, described("The arm would be opened; else withdrawn.")]
    open_arms: Annotated[tuple[str, ...], described("The candidates from then on.")]
    delta: Annotated[float, described("What the new question may spend of the study's delta.")]
    asked_again: Annotated[Agents, described("Agents who have an answer now, and would have none or another one.")]
    drawn: Annotated[Count, described("Draws of the arm so far, in all recorded phases.")]
    finished: Annotated[bool, described("The recorded phases answer everything: the study would end at once.")]
    projection: Projection
    effect: str
    guarantee: str


def open_arm_preview(trial: Trial, arm: str) -> ArmPreview:
    """Preview the opening of a dormant or withdrawn arm."""
    becomes = Translatable("{0} is a candidate for every agent from now on", arm)
    return _arm_preview(trial, open_arm, arm, "arm-opened", becomes)


def withdraw_arm_preview(trial: Trial, arm: str) -> ArmPreview:
    """Preview the withdrawal of an open arm; the study ends if only as many arms remain as an answer names."""
    becomes = Translatable("{0} is no longer a candidate for any agent", arm)
    return _arm_preview(trial, withdraw_arm, arm, "arm-withdrawn", becomes)


def _arm_preview(trial: Trial, act: Callable[[Trial, str], Anew], arm: str, kind: str, becomes: str) -> ArmPreview:
    why = arms_fixed(trial.study)
    if why is not None:
        raise illegal(trial.stage, kind, why)
    anew = act(trial, arm)
    after, opens = anew.trial, kind == "arm-opened"
    problem, finished = after.study.problem, bool(after.state.finished)
    drawn = sum(int(totals.everybody.counts[problem.arms.index(arm)].sum()) for totals in trial.past or ())
    spends = Translatable(
        ", and the new question may spend an error probability of {0:.3g}: its share of what is reserved for "
        "questions with fewer arms",
        problem.delta,
    )
    stops = (
        "" if opens or finished else Translatable(". Sites that now stop drawing it report the draws that they have")
    )
    return ArmPreview(
        study=trial.id,
        arm=arm,
        phase=trial.phase,
        opens=opens,
        open_arms=tuple(name for name in problem.arms if name not in problem.dormant),
        delta=problem.delta,
        asked_again=_asked_again(trial, after),
        drawn=drawn,
        finished=finished,
        projection=project(after),
        effect=joined(". ", [becomes, _goes_on(trial, finished=finished, planned=anew.plan is not None)]) + stops,
        guarantee=(
            after.guarantee
            + Translatable(". Every recorded phase is weighed again with the arms that will be open")
            + ("" if opens else spends)
        ),
    )


class ThawPreview(Message, tag="parley/thaw-preview/1"):
    """What bringing a frozen agent back would do."""

    study: str
    agent: str
    phase: Phase
    awaited: Annotated[bool, described("The phase in progress waits for the agent again.")]
    weighed_by: Annotated[Agents, described("Agents whose mix weighs it, by the weights in force.")]
    projection: Projection
    effect: str
    guarantee: str


def thaw_preview(trial: Trial, agent: str) -> ThawPreview:
    """Preview the return of a frozen agent."""
    study = trial.study
    if agent not in trial.frozen:
        raise InvalidInput(
            "agent", found=repr(agent), allowed=", ".join(sorted(trial.frozen)) or "none: none is frozen"
        )
    back = thaw(trial, agent).trial
    awaited = agent in back.awaited and trial.stage is not Stage.STALLED
    row = np.array(study.weights)[study.agents.index(agent)]
    weighed = tuple(name for name, weight in zip(study.agents, row, strict=True) if weight > 0)
    others = [name for name in weighed if name != agent]
    where = (
        Translatable("phase {0} waits for it again", trial.phase)
        if awaited
        else Translatable("its question is asked from the next phase on")
    )
    rests = (
        ""
        if others
        else Translatable(". This agent has no weight in the mix of any other agent: re-weigh the study to change that")
    )
    return ThawPreview(
        study=trial.id,
        agent=agent,
        phase=trial.phase,
        awaited=awaited,
        weighed_by=weighed,
        projection=project(replace(trial, frozen=back.frozen)),
        effect=where + Translatable(". Weights stay as they are") + rests,
        guarantee=trial.guarantee
        + Translatable(". The guarantee is kept if the reason has nothing to do with the rewards"),
    )


class Pair(Message, tag="parley/frozen-pair/1"):
    """A candidate of an undecided agent, and whether the agent could still decide about it after the freeze."""

    arm: str
    agent: str
    forecast: Annotated[
        str, described('"never": no data can decide it; "blocked": the projection does not decide it; "open": it does.')
    ]
    smallest_radius: Annotated[
        float | None, described("No interval at this delta can become narrower; null if it stays infinite.")
    ]
    gap: Annotated[float | None, described("Estimated distance to the boundary of the top N; null without data.")]


class FreezePreview(Message, tag="parley/freeze-preview/1"):
    """What freezing an agent would do."""

    study: str
    agent: str
    phase: Phase
    frozen: Annotated[Agents, described("The frozen agents, including this one.")]
    released: Annotated[bool, described("The phase waits for nobody else and would be decided at once.")]
    undecided_agents: Annotated[Agents, described("Agents who would be left without an answer.")]
    pairs: tuple[Pair, ...]
    termination: str
    guarantee: str
    keep: Annotated[Projection | None, described("What follows if the question stays as it is.")] = None
    reweigh: Annotated[ReweighPreview | None, described("What follows without the frozen agents.")] = None
    no_reweigh: Annotated[str | None, described("Why the question cannot be asked without them.")] = None


def freeze_preview(trial: Trial, agent: str) -> FreezePreview:
    """Preview freezing an agent: whether the study would still end, and with which guarantee."""
    study, problem = trial.study, trial.study.problem
    if agent not in problem.sites:
        raise InvalidInput("agent", found=repr(agent), allowed="an agent of the study that draws")
    if agent in trial.frozen:
        raise InvalidInput("agent", found=f"{agent!r}, which is frozen already", allowed="an agent that is not frozen")
    frozen = sorted(trial.frozen | {agent})
    floor, gaps = _floors(trial, frozen), _gaps(trial)
    alone = replace(trial, frozen=frozenset(frozen))
    end = run_ahead(alone)
    ahead = np.zeros_like(trial.state.active) if end is None else end.state.active
    anew, why = _anew(alone)
    undecided = (trial.state.active.sum(axis=0) > problem.top) & problem.asks
    left = ahead & (ahead.sum(axis=0) > problem.top)[None, :]
    pairs = tuple(
        Pair(
            arm=study.arms[arm],
            agent=study.agents[column],
            forecast="never" if math.isinf(floor[arm, column]) else "blocked" if left[arm, column] else "open",
            smallest_radius=_finite(floor[arm, column]),
            gap=_finite(gaps[arm, column]),
        )
        for arm, column in np.argwhere(trial.state.active & undecided[None, :])
    )
    stranded = {pair.agent for pair in pairs if pair.forecast != "open"}
    without = tuple(name for name in study.agents if name in stranded)
    return FreezePreview(
        study=trial.id,
        agent=agent,
        phase=trial.phase,
        frozen=tuple(frozen),
        released=trial.awaited == (agent,),
        undecided_agents=without,
        pairs=pairs,
        termination=_termination(pairs, without),
        guarantee=trial.guarantee
        + Translatable(
            ". The guarantee is kept if the reason for freezing has nothing to do with the rewards. What was "
            "reported still counts; answers may be lost, but the error probability does not grow"
        ),
        keep=project(alone),
        reweigh=anew,
        no_reweigh=why,
    )


def _anew(trial: Trial) -> tuple[ReweighPreview | None, str | None]:
    """Preview re-weighing as the alternative to keeping the question, or say why it is impossible.

    Returns (preview, None) or (None, reason), or (None, None) if the recorded phases were not read.
    """
    if trial.past is None:
        return None, None
    try:
        return reweigh_preview(trial), None
    except ParleyError as error:
        return None, getattr(error, "words", None) or str(error)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _floors(trial: Trial, frozen: list[str]) -> FloatArray:
    """`(arm, agent)`: the smallest radius that an interval can still reach if the `frozen` agents draw no more.

    Infinite where a frozen agent has a weight in the mix but never drew the arm.
    """
    problem = trial.study.problem
    places = [problem.agents.index(name) for name in frozen]
    counts = trial.state.counts.astype(np.float64)
    for name, report in trial.reports.items():  # reports of the phase in progress count too
        counts[:, problem.agents.index(name)] += report.totals.everybody.counts
    shares = problem.squared_weights[places]  # (frozen, agent)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1.0 / counts[:, places]  # (arm, frozen)
        terms = np.where(shares[None, :, :] > 0, inverse[:, :, None] * shares[None, :, :], 0.0)
    variances = problem.noise.cell_variances(trial.state.totals)
    if isinstance(variances, float):
        deviation = math.sqrt(variances) * np.sqrt(terms.sum(axis=1))
    else:
        own = np.broadcast_to(variances, counts.shape)[:, places, None]
        deviation = np.sqrt(np.where(terms > 0, own * terms, 0.0).sum(axis=1))
    return np.asarray(deviation * math.sqrt(2 * math.log(1 / problem.delta)))


def _gaps(trial: Trial) -> FloatArray:
    """`(arm, agent)`: estimated distance of every arm from the boundary of the agent's top N candidates.

    All values are NaN before the first decided phase.
    """
    state, top = trial.state, trial.study.problem.top
    if not state.counts.any():
        return np.full(state.counts.shape, np.nan)
    mixed = trial.study.problem.mixed(state.means)
    inside, outside = nth_largest(mixed, top, state.active), nth_largest(mixed, top + 1, state.active)
    return np.where(mixed >= inside, mixed - outside, inside - mixed)


def _termination(pairs: tuple[Pair, ...], without: tuple[str, ...]) -> str:
    names = ", ".join(without)
    if any(pair.forecast == "never" for pair in pairs):
        return Translatable(
            (
                "the study cannot finish with the present question: {0} would be left without an answer unless you "
                "re-weigh"
            ),
            names,
        )
    if without:
        return Translatable(
            "the study is not expected to finish: {0} would not be decided if rewards stay as estimated", names
        )
    return (
        Translatable("still expected, if rewards stay as estimated")
        if pairs
        else Translatable("nothing is left undecided")
    )


class EarlyClosePreview(Message, tag="parley/early-close-preview/1"):
    """What closing a phase early, with the reports received so far, would do."""

    study: str
    phase: Phase
    reported: Annotated[Agents, described("Agents whose reports are in.")]
    awaited: Annotated[
        Agents, described("Agents whose reports are not in, and would no longer be accepted for this phase.")
    ]
    drawn: Annotated[Count, described("Draws in the reports.")]
    planned: Annotated[Count, described("Draws that the phase asked for.")]
    lost: Annotated[tuple[str, ...], described("Arms that were asked for, but have no reported draw.")]
    effect: str
    guarantee: str


def early_close_preview(trial: Trial) -> EarlyClosePreview:
    """Preview closing the current phase now, with the reports received so far."""
    study, planned = trial.study, trial.plan.array
    got = trial.totals.counts
    empty = (planned.sum(axis=1) > 0) & (got.sum(axis=1) == 0)
    names = ", ".join(trial.awaited) or Translatable("nobody")
    return EarlyClosePreview(
        study=trial.id,
        phase=trial.phase,
        reported=tuple(sorted(trial.reports)),
        awaited=trial.awaited,
        drawn=int(got.sum()),
        planned=int(planned.sum()),
        lost=tuple(arm for arm, nothing in zip(study.arms, empty, strict=True) if nothing),
        effect=Translatable(
            "the phase is decided with {0} of {1} draws. What {2} drew in it will never count. The next phase asks "
            "every agent for what is still needed",
            int(got.sum()),
            int(planned.sum()),
            names,
        ),
        guarantee=trial.guarantee
        + Translatable(
            ". The guarantee is kept if the reason for not waiting has nothing to do with the rewards of this phase. "
            "Only reported draws count, and no decision is taken that needs unreported draws"
        ),
    )
