"""Run a policy in an environment, many replications at a time.

Replications are grouped in *blocks* of a fixed size. In each phase a block has its own random generator, seeded by
(seed, block, phase), which draws for the replications of the block in order. So replication i sees the same rewards
whatever the chunk size, however many replications follow it and, as long as it draws the same counts, whatever the
policy.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from parley.covariates import Pairs, Slopes
from parley.errors import InvalidInput, UnknownName
from parley.policies.base import Policy, State
from parley.policies.between import asked_with, people_ahead
from parley.problem import BoolArray, FloatArray, Instance, IntArray, Problem
from parley.rewards import Sampler
from parley.rewards.privacy import with_noise
from parley.simulation.outcome import Outcome, Tally
from parley.simulation.pairs import draw_pairs, drifted_x
from parley.text.status import OutcomeStatus
from parley.totals import Totals
from parley.validation.checks import LARGEST_COUNT, whole

Environment = Sampler
ENVIRONMENTS = ("gaussian", "bernoulli", "uniform")


def make_environment(instance: Instance, name: str | None = None, shifts: FloatArray | None = None) -> Environment:
    """An environment by name; by default the instance's past rows or, without past rows, its reward model.

    `shifts (..., 1, agent)` are added to the means; they say how far the sites of each replication have drifted.
    """
    model = instance.problem.noise
    means = instance.means if shifts is None else instance.means + shifts
    if name is None and instance.history is not None:
        return instance.history.sampler(means, model)
    known = model.samplers(means, instance.scale)
    if name is None:
        return next(iter(known.values()))()
    if name not in (*ENVIRONMENTS, *known):
        raise UnknownName("environment", name, dict.fromkeys((*known, *ENVIRONMENTS)))
    if name not in known:
        raise InvalidInput(
            "environment",
            found=f"{name!r} for rewards of kind {model.kind!r}",
            allowed=f"{' or '.join(known)} (others need a bounded kind, with low and high)",
        )
    return known[name]()


BLOCK_VALUES = 2**20  # a block's rewards take at most 8 MiB
CHUNK_VALUES = 2**25  # a policy's data for a chunk take about 256 MiB at most

Progress = Callable[[int], None]
# Called after every phase with the replications that drew, the phase's index, their draws, and their new states.
Watch = Callable[[IntArray, int, Totals, State], None]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One phase of a single run."""

    number: int  # from 1
    quotas: IntArray  # (arm, agent): draws planned for this phase
    before: State  # state before the phase
    after: State  # state after the phase


def phases(policy: Policy, instance: Instance, *, seed: int, environment: str | None = None) -> Iterator[Phase]:
    """Run one study, which is replication 0 of `simulate` with the same seed, and yield its phases.

    The run ends when the policy has finished. With a tie a policy may never finish, so the caller may have to stop the
    iteration.

    >>> from parley.policies import make_policy
    >>> from parley.problem import Problem
    >>> instance = Instance(problem=Problem(arms=2, weights=[[0.8, 0.3], [0.2, 0.7]]), means=[[0.9, 0.8], [0.1, 0.3]])
    >>> for phase in phases(make_policy("evidence", instance.problem), instance, seed=0):
    ...     print(phase.number, phase.quotas.tolist(), phase.after.active.sum(axis=0).tolist())
    1 [[70, 58], [70, 58]] [2, 2]
    2 [[7, 12], [7, 12]] [1, 1]
    """
    _check_fit(policy, instance)
    first, state, number, past = policy, policy.start((1,)), 0, list[Totals]()
    slopes, between = _no_slopes(instance, 1), None
    then = slopes
    while not state.finished.all():
        quotas = policy.plan(state, between)
        between = None if between is None else asked_with(quotas, between)
        coming = ahead(policy, state, quotas, between)
        if slopes is None:
            fresh = _draw(instance, environment, seed, phase=number, counts=quotas, policy=policy, between=between)
        else:
            pairs = _draw_pairs(instance, seed, phase=number, counts=quotas, policy=policy, between=between)
            at = {"seed": seed, "block": 0, "phase": number}
            (fresh, slopes), then = _adjusted(instance, pairs, slopes, then, **at), slopes
        number += 1
        policy, state = _asked_in(first, instance, number, (policy, state), past)
        after = policy.update(state, fresh)
        past.append(fresh)
        zero = np.array(0)
        yield Phase(number=number, quotas=quotas[0], before=state.take(zero), after=after.take(zero))
        state, between = after, coming


def ahead(policy: Policy, state: State, quotas: IntArray, between: IntArray | None) -> IntArray | None:
    """`(..., arm, agent)`: people assigned to the next phase while the current phase waits for its outcomes.

    None if the study does not assign people between phases.
    """
    problem = policy.problem
    if problem.between != "assign":
        return None
    return people_ahead(problem, quotas, policy.most_ahead(state, quotas, between))


def _asked_in(
    first: Policy, instance: Instance, phase: int, now: tuple[Policy, State], past: Sequence[Totals]
) -> tuple[Policy, State]:
    """The policy that decides a phase, and its state before the phase.

    They are the policy and the state in `now`, unless arms were opened or withdrawn in the phase. Then the `past`
    phases are replayed with the open arms, as in a live study.
    """
    if phase not in (*instance.opens.values(), *instance.withdraws.values()):
        return now
    policy = replace(first, problem=instance.question(first.problem, phase))
    state = policy.start(now[1].phase.shape)
    for totals in past:
        state = policy.update(state, totals)
    return policy, state


def simulate(
    policy: Policy,
    instance: Instance,
    *,
    replications: int,
    seed: int,
    environment: str | None = None,
    max_samples: int | None = None,
    chunk: int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run `replications` independent studies; `max_samples` stops a run before a phase that would exceed it.

    `chunk` is the number of replications in memory at once, rounded up to whole blocks; results do not depend on it.
    `progress` is called with the number of replications that have just ended, `watch` after every phase.

    >>> from parley.policies import make_policy
    >>> from parley.problem import Problem
    >>> instance = Instance(problem=Problem(arms=2, weights=[[1.0]]), means=[[0.9], [0.1]])
    >>> outcome = simulate(make_policy("wcpe", instance.problem), instance, replications=10, seed=1)
    >>> outcome.costs.shape, outcome.error_rate
    ((10,), 0.0)
    """
    return simulate_truths(
        policy,
        [instance],
        replications=replications,
        seed=seed,
        environment=environment,
        max_samples=max_samples,
        chunk=chunk,
        progress=progress,
        watch=watch,
    )[0]


def simulate_truths(
    policy: Policy,
    instances: Sequence[Instance],
    *,
    replications: int,
    seed: int,
    environment: str | None = None,
    max_samples: int | None = None,
    chunk: int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> list[Outcome]:
    """Run `simulate` for several truths of one problem, with seeds `seed`, `seed + 1`, ...; returns their outcomes.

    Separate calls would return the same outcomes. But here the policy handles all truths in one batch, which is many
    times faster if replications are few.
    """
    for key, value in {"replications": replications, "max_samples": max_samples, "chunk": chunk}.items():
        if value is not None or key == "replications":
            whole(key, value, 1, LARGEST_COUNT)
    if seed < 0:
        raise InvalidInput("seed", found=seed, allowed="a whole number of at least 0")
    for instance in instances:
        _check_fit(policy, instance)
        if (instance.opens, instance.withdraws) != (instances[0].opens, instances[0].withdraws):
            raise InvalidInput("truth", found="arms that open in other phases", allowed="the same in all truths")
        check_end(policy.problem, instance, max_samples)
    begun = perf_counter()
    size = instances[0].means.size
    block = max(1, min(256, BLOCK_VALUES // size))
    wanted = chunk if chunk is not None else CHUNK_VALUES // (size * policy.values_per_pair)
    per_chunk = max(1, -(-wanted // block)) * block
    batch = _Batch(
        policy=policy,
        truths=instances,
        environment=environment,
        tallies=[Tally(policy, instance, replications, seed, max_samples) for instance in instances],
        seed=seed,
        block=block,
        blocks=-(-replications // block),
    )
    members = batch.members(replications)
    for first in range(0, len(members), per_chunk):
        some = members[first : first + per_chunk]
        _run(policy, batch, some, max_samples, progress or (lambda _: None), watch or (lambda *_: None))
    seconds = perf_counter() - begun
    return [tally.complete(seconds / len(instances)) for tally in batch.tallies]


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """The replications of several truths, numbered consecutively; every truth begins with a new block."""

    policy: Policy
    truths: Sequence[Instance]
    environment: str | None
    tallies: Sequence[Tally]
    seed: int
    block: int  # replications that share a generator
    blocks: int  # per truth

    def members(self, replications: int) -> IntArray:
        """`(member,)`: the numbers of all replications, without the unused end of each truth's last block."""
        starts = np.arange(len(self.truths)) * self.blocks * self.block
        return np.asarray((starts[:, None] + np.arange(replications)).ravel())

    def pairs(
        self,
        phase: int,
        members: IntArray,
        quotas: IntArray,
        slopes: Slopes,
        then: Slopes,
        between: IntArray | None = None,
    ) -> tuple[Totals, Slopes]:
        """The adjusted totals that sites report for the remaining replications, and the slopes after the phase.

        `slopes` are the slopes before this phase, and `then` are the slopes before the previous phase.
        """
        totals: list[Totals] = []
        kept: list[Slopes] = []
        for number, some in _groups(members // self.block):
            truth, block = divmod(number, self.blocks)
            places = members[some] % self.block
            at = {"seed": self.seed + truth, "block": block, "phase": phase}
            pairs = _draw_pairs(
                self.truths[truth],
                counts=_padded(quotas[some], places),
                policy=self.policy,
                between=None if between is None else _padded(between[some], places),
                **at,
            )
            mine = np.arange(some.start, some.stop)
            before, earlier = (known.take(mine).put(places, places[-1] + 1) for known in (slopes, then))
            reported, after = _adjusted(self.truths[truth], pairs, before, earlier, **at)
            totals.append(reported[places])
            kept.append(after.take(places))
        return Totals.concatenated(totals), Slopes.concatenated(kept)

    def rewards(self, phase: int, members: IntArray, quotas: IntArray, between: IntArray | None = None) -> Totals:
        """The totals that the remaining replications draw, each at its own position in its block's random stream."""
        parts = []
        for number, some in _groups(members // self.block):
            truth, block = divmod(number, self.blocks)
            places = members[some] % self.block
            drawn = _draw(
                self.truths[truth],
                self.environment,
                self.seed + truth,
                block=block,
                phase=phase,
                counts=_padded(quotas[some], places),
                policy=self.policy,
                between=None if between is None else _padded(between[some], places),
            )
            parts.append(drawn[places])
        return Totals.concatenated(parts)

    def of_truths(self, members: IntArray) -> Iterator[tuple[Tally, IntArray, slice]]:
        """Split replications by truth: yield each truth's tally, the replications' numbers in it, and their slice."""
        each = self.blocks * self.block
        for truth, some in _groups(members // each):
            yield self.tallies[truth], members[some] % each, some


def _padded(draws: IntArray, places: IntArray) -> IntArray:
    """Spread draws over a block: each replication's draws at its position, 0 for replications that have ended.

    A generator then gives a replication the same numbers, whichever other replications have ended.
    """
    whole = np.zeros((places[-1] + 1, *draws.shape[1:]), dtype=np.int64)
    whole[places] = draws
    return whole


def _groups(ascending: IntArray) -> Iterator[tuple[int, slice]]:
    """Yield every distinct value of an ascending array, with the slice in which it occurs."""
    values, starts = np.unique(ascending, return_index=True)
    for value, start, end in zip(values, starts, [*starts[1:], len(ascending)], strict=True):
        yield int(value), slice(int(start), int(end))


def _check_fit(policy: Policy, instance: Instance) -> None:
    """Raise unless policy and instance share weights, shape and top; their delta and noise may differ."""
    asked, true = policy.problem, instance.problem
    if asked.shape != true.shape or asked.top != true.top or not np.array_equal(asked.weights, true.weights):
        raise InvalidInput(
            "policy",
            found=f"one for {asked.shape[0]} x {asked.shape[1]}, top {asked.top}, and its own weights",
            allowed=f"one with the weights of the instance, {true.shape[0]} x {true.shape[1]}, top {true.top}",
        )

    if (instance.opens or instance.withdraws) and "dormant" not in policy.supports:
        allowed = f"none: the policy {policy.name} does not support arms that come and go"
        raise InvalidInput("truth", found="opens or withdraws", allowed=allowed)


def check_end(asked: Problem, instance: Instance, max_samples: int | None) -> None:
    """Raise unless a run will end: by a budget, a tolerance or a horizon, or because no arms tie."""
    budget = max_samples or asked.max_samples or asked.max_rounds
    if asked.horizon == "open" and not budget:
        raise InvalidInput(
            "horizon",
            found="open",
            allowed='"open" with max_samples or max_rounds: a simulation needs an end',
        )
    if not budget and not asked.tolerance and asked.horizon is None:
        instance.require_distinct()


def phase_totals(
    instance: Instance, *, seed: int, phase: int, counts: IntArray, between: IntArray | None = None
) -> Totals:
    """`(arm, agent)`: the totals of replication 0 in `phase` (the first is 0), for callers that run phases themselves.

    `between` is the number of people who came before the phase but count in it. Rewards are as sites see them,
    without the noise of private reports.
    """
    early = None if between is None else between[None]
    return _draw(instance, None, seed, phase=phase, counts=counts[None], reported=False, between=early)[0]


def phase_pairs(
    instance: Instance, *, seed: int, phase: int, counts: IntArray, between: IntArray | None = None
) -> Pairs:
    """`(arm, agent)`: the totals that `phase_totals` would give, with the sums that involve people's covariates."""
    early = None if between is None else between[None]
    return _draw_pairs(instance, seed, phase=phase, counts=counts[None], between=early)[0]


def _no_slopes(instance: Instance, count: int) -> Slopes | None:
    """The sites' slopes before the first phase, for `count` replications; None without a covariate."""
    return None if instance.covariate is None else Slopes.none((count, instance.problem.agent_count))


def _draw_pairs(
    instance: Instance,
    seed: int,
    *,
    block: int = 0,
    phase: int,
    counts: IntArray,
    policy: Policy | None = None,
    between: IntArray | None = None,
) -> Pairs:
    """A block's outcomes and covariates in a phase, as the sites see them.

    Outcomes and covariates of people `between` phases have the means of the previous phase.
    """

    def drawn(generator: np.random.Generator, counts: IntArray, phase: int) -> Pairs:
        shifts = drifted(instance, len(counts), seed=seed, block=block, phase=phase)
        means = np.broadcast_to(instance.means if shifts is None else instance.means + shifts, counts.shape)
        moved = drifted_x(instance, len(counts), seed=seed, block=block, phase=phase)
        return draw_pairs(instance, generator, counts, means, moved)

    pairs = drawn(_stream(seed, block, phase), _kept(policy, seed, block, phase, counts), phase)
    if between is None:
        return pairs
    kept = _kept(policy, seed, block, phase, between, EARLY + 1)
    return replace(pairs, between=drawn(_early_stream(seed, block, phase), kept, max(phase - 1, 0)))


def _adjusted(
    instance: Instance, pairs: Pairs, slopes: Slopes, then: Slopes | None, *, seed: int, block: int, phase: int
) -> tuple[Totals, Slopes]:
    """Return the adjusted totals that sites report for `pairs`, and the slopes updated with this phase.

    `slopes` are the slopes before this phase. People assigned between phases are adjusted by `then`, the slopes before
    the previous phase.
    """
    assert instance.problem.adjustment is not None
    totals, after = instance.problem.adjustment.reported(slopes, pairs, then)
    return _reported(instance, totals, seed, block, phase), after


EARLY = 8  # number of the random stream for people between phases; the next stream decides which of them drop out


def _kept(policy: Policy | None, seed: int, block: int, phase: int, counts: IntArray, stream: int = 1) -> IntArray:
    """The counts without dropouts; all counts if the study replaces dropouts or the policy needs the planned counts."""
    settings = policy.problem if policy and "site_counts" in policy.supports else None
    if settings is None or not settings.dropout or settings.site_counts == "exact":
        return counts
    chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, phase, stream)))
    return chance.binomial(counts, 1 - settings.dropout)


def _reported(instance: Instance, drawn: Totals, seed: int, block: int, phase: int) -> Totals:
    """The totals with the noise of private reports; unchanged if reports are exact."""
    added = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, phase, 3)))
    return with_noise(drawn, added, instance.problem.noise)


def _stream(seed: int, block: int, phase: int) -> np.random.Generator:
    """The generator of a block's rewards in a phase."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(block, phase))))


def _early_stream(seed: int, block: int, phase: int) -> np.random.Generator:
    """The generator of the rewards of people who came before a phase."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, phase, EARLY)))


def _draw(
    instance: Instance,
    environment: str | None,
    seed: int,
    *,
    block: int = 0,
    phase: int,
    counts: IntArray,
    policy: Policy | None = None,
    reported: bool = True,
    between: IntArray | None = None,
) -> Totals:
    """A block's rewards in a phase; if `reported`, with the noise of private reports.

    Rewards of people `between` phases have the means of the previous phase, because these people came while that phase
    waited for its outcomes.
    """
    counts = _kept(policy, seed, block, phase, counts)
    shifts = drifted(instance, len(counts), seed=seed, block=block, phase=phase)
    generator = _stream(seed, block, phase)
    drawn = make_environment(instance, environment, shifts)(generator, counts)
    if between is not None:
        then = drifted(instance, len(counts), seed=seed, block=block, phase=max(phase - 1, 0))
        kept = _kept(policy, seed, block, phase, between, EARLY + 1)
        early = make_environment(instance, environment, then)(_early_stream(seed, block, phase), kept)
        drawn = replace(drawn, between=early)
    return _reported(instance, drawn, seed, block, phase) if reported else drawn


def drifted(instance: Instance, count: int, *, seed: int, block: int, phase: int) -> FloatArray | None:
    """`(count, 1, agent)`: drift of a block's sites before `phase`, which counts from 0; None without drift."""
    if instance.drift is None:
        return None
    steps = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, step, 2))) for step in range(phase)]
    return instance.drift.shifts(steps, count, instance.means, instance.problem.noise)


def _with_sites_asked(
    quotas: IntArray, between: IntArray | None, unasked: IntArray
) -> tuple[IntArray | None, IntArray]:
    """The people `between` phases at sites that draw in this phase, and `unasked` plus the people at other sites."""
    if between is None:
        return None, unasked
    asked = asked_with(quotas, between)
    return asked, unasked + (between - asked)


def _people(counts: IntArray, between: IntArray | None, unasked: IntArray) -> IntArray:
    return np.asarray((counts + unasked + (0 if between is None else between)).sum(axis=(-2, -1)))


def _run(
    policy: Policy, batch: _Batch, members: IntArray, max_samples: int | None, progress: Progress, watch: Watch
) -> None:
    state, phase = policy.start((len(members),)), 0
    # The past is kept if arms come and go, because opening or withdrawing an arm replays it. `unasked` counts people
    # assigned to a phase in which their site did not draw.
    first, truth, past, unasked = policy, batch.truths[0], list[Totals](), np.zeros_like(state.counts)
    keeps = bool(truth.opens or truth.withdraws)
    slopes = then = _no_slopes(truth, len(members))  # before this phase, and before the previous one
    between: IntArray | None = None

    def enter(ended: BoolArray, *, stopped: bool) -> None:
        """Record replications that ended or were `stopped` by the budget; people assigned ahead count as draws too."""
        final, which = state.take(ended), members[ended]
        if keeps:  # a replay may finish before its last phase, although the draws of that phase were made
            counts = np.sum([totals.everybody.counts[ended] for totals in past], axis=0)
            final = replace(final, counts=counts, phase=np.full(final.phase.shape, phase))
        statuses = policy.statuses(final)
        if stopped:
            unfinished = np.isin(statuses, [OutcomeStatus.OPEN.value, OutcomeStatus.SETTLED.value])
            statuses = np.where(unfinished, OutcomeStatus.EXHAUSTED.value, statuses)
        if between is not None:
            final = replace(final, counts=final.counts + between[ended] + unasked[ended])
        for tally, own, some in batch.of_truths(which):
            tally.enter(own, final.take(some), statuses[some], phase)
        progress(len(which))

    while members.size:
        quotas = policy.plan(state, between)
        between, unasked = _with_sites_asked(quotas, between, unasked)
        over = np.zeros(len(members), dtype=np.bool_)
        if max_samples is not None:
            over = _people(state.counts + quotas, between, unasked) > max_samples
        if over.any():
            enter(over, stopped=True)
            members, state, quotas, unasked = members[~over], state.take(~over), quotas[~over], unasked[~over]
            between = None if between is None else between[~over]
            slopes, then = (None if known is None else known.take(~over) for known in (slopes, then))
            past = [totals[~over] for totals in past]
            if not members.size:
                return
        for tally, own, some in batch.of_truths(members):
            tally.run_phase(own, quotas[some], state.take(some))
        # People are assigned ahead while the phase waits for outcomes, so this decision must not use its draws.
        coming = ahead(policy, state, quotas, between)
        if slopes is None or then is None:
            fresh = batch.rewards(phase, members, quotas, between)
        else:
            (fresh, slopes), then = batch.pairs(phase, members, quotas, slopes, then, between), slopes
        policy, state = _asked_in(first, truth, phase + 1, (policy, state), past)
        state, between = policy.update(state, fresh), coming
        watch(members, phase, fresh, state)
        if keeps:
            past.append(fresh)
        done, phase = state.finished, phase + 1
        if done.any():
            enter(done, stopped=False)
            members, state, unasked = members[~done], state.take(~done), unasked[~done]
            between = None if between is None else between[~done]
            slopes, then = (None if known is None else known.take(~done) for known in (slopes, then))
            past = [totals[~done] for totals in past]
