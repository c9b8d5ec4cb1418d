"""Simulated studies with guardrails, many at a time: alarms stop arms, and a study continues with its other arms.

Studies in which the same arms were stopped run as one batch; after an alarm the batch splits. Random numbers depend on
the seed, the chunk, the phase and the stopped arms. An arm is stopped before the phase that raised the alarm is
decided, as in a live study. Alarms in mid-phase are not simulated, so a live study stops an arm no later than a
simulated one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parley.errors import InvalidInput
from parley.outcomes import Outcome as FurtherOutcome
from parley.policies import Policy, State
from parley.policies.between import asked_with
from parley.policies.guardrails import Guardrail, GuardState, guardrails
from parley.problem import BoolArray, FloatArray, Instance, IntArray
from parley.rewards.privacy import with_noise
from parley.simulation.simulate import ahead, check_end, make_environment
from parley.totals import Totals

CHUNK = 500  # studies in memory at a time
MOST_PHASES = 400
OUTCOMES = 2000  # stream number of the first further outcome
EARLY = 900  # stream number of people between phases


@dataclass(frozen=True, kw_only=True, eq=False)
class GuardedStudies:
    """The alarms and clearings of guardrails in R studies, and how the studies ended."""

    outcomes: tuple[FurtherOutcome, ...]  # the guardrails
    alarmed_in: IntArray  # (R, guardrail, arm): the phase of the alarm, 0 without one
    drawn: IntArray  # (R, guardrail, arm): draws of the arm before the alarm
    cleared: BoolArray  # (R, guardrail, arm): cleared for every mix
    wrongly: BoolArray  # (R, guardrail): an alarm or a clearing was false in some agent's mix
    stopped: BoolArray  # (R, arm): stopped by an alarm
    correct: BoolArray  # (R,): every agent's answer is right among the remaining arms
    samples: IntArray  # (R,)
    rounds: IntArray  # (R,)

    def document(self) -> dict[str, dict[str, float]]:
        """For each guardrail, the shares of studies with an alarm, with a clearing, and with either of them false.

        The dictionary is ready for JSON.
        """
        return {
            outcome.name: {
                "alarms": float((self.alarmed_in[:, place] > 0).any(axis=-1).mean()),
                "cleared": float(self.cleared[:, place].any(axis=-1).mean()),
                "wrongly": float(self.wrongly[:, place].mean()),
            }
            for place, outcome in enumerate(self.outcomes)
        }


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Studies of a chunk in which the same arms were stopped; they share a policy and a batch of states."""

    members: IntArray  # (study,): numbers of the studies among all replications
    stopped: tuple[str, ...]  # names of the stopped arms
    policy: Policy
    state: State
    guards: tuple[GuardState, ...]  # a state per guardrail
    past: tuple[Totals, ...]  # totals of the earlier phases
    unasked: IntArray  # (study,): people assigned to a phase in which their site had nothing to draw
    between: IntArray | None = None  # (study, arm, agent): people assigned to the next phase while the last one waited

    def take(self, some: BoolArray) -> "_Group":
        return replace(
            self,
            members=self.members[some],
            state=self.state.take(some),
            guards=tuple(guard.take(some) for guard in self.guards),
            past=tuple(totals[some] for totals in self.past),
            unasked=self.unasked[some],
            between=None if self.between is None else self.between[some],
        )


def simulate_guarded(
    policy: Policy, instance: Instance, *, replications: int, seed: int, progress: Callable[[int], None] | None = None
) -> GuardedStudies:
    """Run studies with guardrails; the instance must state the true means of every guardrail's outcome."""
    guards = guardrails(policy.problem)
    for guard in guards:
        if guard.outcome.name not in instance.outcomes:
            allowed = "the true means of every guardrail"
            raise InvalidInput(f"truth.outcomes.{guard.outcome.name}", found="nothing", allowed=allowed)
    if instance.opens or instance.withdraws or instance.covariate is not None or instance.history is not None:
        beside = "opens, withdraws, data or a covariate beside guardrails"
        raise InvalidInput("truth", found=beside, allowed="guardrails alone, to be simulated")
    check_end(policy.problem, instance, None)
    shape = (replications, len(guards), policy.problem.arm_count)
    found = GuardedStudies(
        outcomes=tuple(guard.outcome for guard in guards),
        alarmed_in=np.zeros(shape, dtype=np.int64),
        drawn=np.zeros(shape, dtype=np.int64),
        cleared=np.zeros(shape, dtype=np.bool_),
        wrongly=np.zeros(shape[:2], dtype=np.bool_),
        stopped=np.zeros((replications, shape[2]), dtype=np.bool_),
        correct=np.zeros(replications, dtype=np.bool_),
        samples=np.zeros(replications, dtype=np.int64),
        rounds=np.zeros(replications, dtype=np.int64),
    )
    for number, first in enumerate(range(0, replications, CHUNK)):
        members = np.arange(first, min(first + CHUNK, replications))
        start = _Group(
            members=members,
            stopped=(),
            policy=policy,
            state=policy.start((len(members),)),
            guards=tuple(guard.start((len(members),)) for guard in guards),
            past=(),
            unasked=np.zeros(len(members), dtype=np.int64),
        )
        waiting = [start]
        while waiting:
            waiting += _phase(waiting.pop(), policy, instance, guards, (seed, number), found)
        if progress is not None:
            progress(len(members))
    return found


def _phase(
    group: _Group,
    first: Policy,
    instance: Instance,
    guards: Sequence[Guardrail],
    seeds: tuple[int, int],
    found: GuardedStudies,
) -> Iterator[_Group]:
    """Run one phase of a group; record in `found` the studies that finish, and yield the groups that continue."""
    phase, places = len(group.past), [instance.problem.arms.index(arm) for arm in group.stopped]
    # Groups of a chunk differ in their stopped arms; without these in the key, they would share random numbers.
    key = (seeds[1], phase, *places)

    def stream(number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(seeds[0], spawn_key=(*key, 1000 + number)))

    quotas = group.policy.plan(group.state, group.between)
    between, unasked = None, group.unasked
    if group.between is not None:
        between = asked_with(quotas, group.between)
        unasked = unasked + (group.between - between).sum(axis=(-2, -1))
    exact = make_environment(instance)(stream(0), quotas)
    if between is not None:
        exact = replace(exact, between=make_environment(instance)(stream(EARLY), between))
    fresh = with_noise(exact, stream(1), instance.problem.noise)
    seen = [
        guard.update(
            state,
            with_noise(
                outcome_totals(instance, guard.outcome, stream(2 + 2 * place), exact),
                stream(3 + 2 * place),
                guard.problem.noise,
            ),
        )
        for place, (guard, state) in enumerate(zip(guards, group.guards, strict=True))
    ]
    coming = ahead(group.policy, group.state, quotas, between)
    moved = replace(group, guards=tuple(seen), between=coming, unasked=unasked)
    drawn = group.state.counts.sum(axis=-1) + fresh.everybody.counts.sum(axis=-1)
    for place, state in enumerate(seen):
        _enter_guard(found, group.members, place, state, drawn)
    stops = _stops(moved, guards)
    for row in np.unique(stops, axis=0):
        some = (stops == row).all(axis=-1)
        part, own = moved.take(some), fresh[some]
        if row.any():
            found.stopped[part.members] |= row
            names = (*part.stopped, *np.array(instance.problem.arms)[row].tolist())
            part = _asked_anew(replace(part, stopped=names), first)
        after = replace(part, state=part.policy.update(part.state, own), past=(*part.past, own))
        over = after.state.finished | (len(after.past) >= MOST_PHASES)
        if over.any():
            _enter_end(found, after.take(over), instance)
        if not over.all():
            yield after.take(~over)


def _asked_anew(group: _Group, first: Policy) -> _Group:
    """The group with its stopped arms removed from the problem and its earlier phases replayed without these arms."""
    policy = replace(first, problem=first.problem.with_arms((), group.stopped))
    state = policy.start((len(group.members),))
    for totals in group.past:
        state = policy.update(state, totals)
    return replace(group, policy=policy, state=state)


def _stops(group: _Group, guards: Sequence[Guardrail]) -> BoolArray:
    """`(study, arm)`: the arms to stop now. An alarm is ignored if too few arms for an answer would remain."""
    problem = group.policy.problem
    still = ~np.isin(problem.arms, problem.dormant)
    alarmed = np.zeros((len(group.members), problem.arm_count), dtype=np.bool_)
    for guard, state in zip(guards, group.guards, strict=True):
        if guard.outcome.on_alarm == "stop":
            alarmed |= state.alarmed
    alarmed &= still
    # Arms are stopped in their order, until only as many remain as an answer names.
    room = int(still.sum()) - problem.top
    return alarmed & (alarmed.cumsum(axis=-1) <= room)


def _enter_guard(found: GuardedStudies, members: IntArray, place: int, state: GuardState, drawn: IntArray) -> None:
    """Record the alarms and clearings of guardrail number `place` after a phase.

    `drawn (study, arm)` is the number of draws so far.
    """
    new = state.alarmed & (found.alarmed_in[members, place] == 0)
    found.alarmed_in[members, place] = np.where(new, state.phase, found.alarmed_in[members, place])
    found.drawn[members, place] = np.where(new, drawn, found.drawn[members, place])
    found.cleared[members, place] |= state.cleared


def _enter_end(found: GuardedStudies, group: _Group, instance: Instance) -> None:
    """Record the samples, rounds and answers of studies that ended, and whether their guardrails were wrong."""
    which, state = group.members, group.state
    found.samples[which] = np.sum([totals.everybody.counts.sum(axis=(-2, -1)) for totals in group.past], axis=0)
    if group.between is not None:  # people assigned to a phase that never took place count as draws too
        found.samples[which] += group.between.sum(axis=(-2, -1)) + group.unasked
    found.rounds[which] = len(group.past)
    asked = instance if not group.stopped else replace(instance, problem=group.policy.problem)
    top = asked.problem.top
    answered = (state.active.sum(axis=-2) <= top).all(axis=-1)
    found.correct[which] = answered & ((state.active & asked.good).sum(axis=-2) >= top).all(axis=-1)
    for place, guard in enumerate(guardrails(instance.problem)):
        harm = excess_harm(instance, guard.outcome)
        ended = group.guards[place]
        wrong = ((ended.alarmed_in > 0) & (harm <= 0)) | ((ended.cleared_in > 0) & (harm > 0))
        found.wrongly[which, place] = wrong.any(axis=(-2, -1)) | (ended.alarmed & (harm <= 0).all(axis=-1)).any(axis=-1)


def excess_harm(instance: Instance, outcome: FurtherOutcome) -> FloatArray:
    """`(arm, agent)`: the true harm in every mix minus the harm that the guardrail allows."""
    problem, sign = instance.problem, outcome.sign
    mixed = sign * problem.mixed(np.asarray(instance.outcomes[outcome.name]))
    if outcome.limit is not None:
        return np.asarray(mixed - sign * outcome.limit)
    return np.asarray(mixed - mixed[problem.arms.index(problem.control or "")] - (outcome.margin or 0.0))


def phase_outcomes(instance: Instance, *, seed: int, phase: int, primary: Totals) -> tuple[Totals, ...]:
    """Totals of every further outcome in `phase` (the first is 0), for callers that run phases themselves.

    `primary` are the phase's totals of the primary outcome, with which further outcomes may be correlated.
    """
    found = []
    for place, outcome in enumerate(instance.problem.outcomes):
        if outcome.name not in instance.outcomes:
            allowed = "the true means of every further outcome"
            raise InvalidInput(f"truth.outcomes.{outcome.name}", found="nothing", allowed=allowed)
        stream = np.random.SeedSequence(seed, spawn_key=(phase, OUTCOMES + place))
        found.append(outcome_totals(instance, outcome, np.random.default_rng(stream), primary))
    return tuple(found)


def outcome_totals(
    instance: Instance, outcome: FurtherOutcome, generator: np.random.Generator, primary: Totals
) -> Totals:
    """Totals of a further outcome of the same people, drawn from their exact distribution given the primary totals."""
    if primary.between is not None:
        own = outcome_totals(instance, outcome, generator, replace(primary, between=None))
        return replace(own, between=outcome_totals(instance, outcome, generator, primary.between))
    means, together = np.asarray(instance.outcomes[outcome.name]), instance.correlation
    if not together:
        return next(iter(outcome.noise.samplers(means).values()))()(generator, primary.counts)
    if outcome.noise.values and instance.problem.noise.values:
        return _correlated_rates(instance.means, means, together, generator, primary)
    if outcome.noise.free_scale and instance.problem.noise.free_scale:
        drawn = next(iter(outcome.noise.samplers(means).values()))()(generator, primary.counts)
        ratio = np.sqrt(outcome.noise.true_variances(means) / instance.cell_variances)
        apart = drawn.sums - drawn.counts * means
        with_primary = together * ratio * (primary.sums - primary.counts * instance.means)
        sums: FloatArray = drawn.counts * means + with_primary + math.sqrt(1 - together**2) * apart
        squares: FloatArray = drawn.scatter + np.square(sums) / np.maximum(drawn.counts, 1)
        return Totals(counts=drawn.counts, sums=sums, squares=squares)
    allowed = "0, unless both outcomes are 0 or 1, or both Gaussian"
    raise InvalidInput("truth.correlation", found=together, allowed=allowed)


def _correlated_rates(
    rates: FloatArray, others: FloatArray, together: float, generator: np.random.Generator, primary: Totals
) -> Totals:
    """Totals of 0/1 outcomes correlated with a 0/1 primary outcome.

    One binomial is drawn for people whose primary outcome is 1, and another for those whose primary outcome is 0.
    """
    spread = together * np.sqrt(others * (1 - others))
    with_it = others + spread * np.sqrt((1 - rates) / rates)
    without = others - spread * np.sqrt(rates / (1 - rates))
    if not (min(with_it.min(), without.min()) >= 0 and max(with_it.max(), without.max()) <= 1):
        raise InvalidInput(
            "truth.correlation",
            found=together,
            allowed="a smaller correlation: 0/1 outcomes with these rates cannot have this one",
        )
    ones = primary.sums.astype(np.int64)
    hits = generator.binomial(ones, np.broadcast_to(with_it, ones.shape))
    hits = hits + generator.binomial(primary.counts - ones, np.broadcast_to(without, ones.shape))
    sums = np.asarray(hits, dtype=np.float64)
    return Totals(counts=primary.counts, sums=sums, squares=sums)
