"""Tests of what drivers require of every policy: its plans, states, answers and errors.

Studies run with fixed noise, so that two runs can be compared draw by draw.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import pytest

from parley.errors import InvalidInput, UnknownName
from parley.policies import Policy, State, make_policy, policy_class
from parley.policies.playing import Playing
from parley.problem import Instance, Problem
from parley.rewards import Noise
from parley.testing.conformance.instances import named, random_instance
from parley.totals import Totals
from parley.validation.checks import BoolArray, FloatArray, IntArray

MOST_PHASES = 60
HORIZON = 20_000
MOST_WRONG = 0.45  # of 20 runs with delta 0.1: 9 or more errors have a probability below 1e-4
MINIMUM_CELLS = (2, 20, 137, 5_000, 5)
SIZES = ((2, 1, 1), (2, 4, 1), (4, 2, 3), (5, 3, 2))  # arms, agents, top


def plays(name: str) -> bool:
    """Whether a policy plays until a horizon instead of stopping with its answers."""
    return issubclass(policy_class(name), Playing)


def until(horizon: int, name: str, instance: Instance) -> Instance:
    """The instance with a horizon if the policy `name` needs a horizon; else unchanged."""
    if not plays(name):
        return instance
    return Instance(problem=instance.problem.with_(horizon=horizon), means=instance.means)


def policy_for(name: str, instance: Instance, **options: object) -> Policy:
    """Make the policy `name` for an instance, whose true means an oracle may use."""
    return make_policy(name, instance.problem, options, instance)


def found(policy: Policy, state: State) -> BoolArray:
    """`(..., arm, agent)`: the answers or, for a policy that plays until a horizon, the arms it would play next."""
    return policy.leaders(state) if isinstance(policy, Playing) else state.answers


def rewards(instance: Instance, quotas: IntArray, noise: FloatArray) -> Totals:
    """The totals of the draws in `quotas`; `noise` has the deviations of their sums, in standard deviations."""
    scale = instance.problem.noise.largest_scale
    return Totals(counts=quotas, sums=quotas * instance.means + scale * np.sqrt(quotas) * noise)


def noise_for(instance: Instance, seed: int, *batch: int) -> FloatArray:
    """`(phase, ..., arm, agent)`: standard normal numbers for a run of up to MOST_PHASES phases."""
    return np.random.default_rng(seed).standard_normal((MOST_PHASES, *batch, *instance.problem.shape))


def course(policy: Policy, instance: Instance, noises: FloatArray, state: State | None = None) -> list[State]:
    """The states of a run, from its start (or from `state`) until it has finished or the noise is used up.

    `noises` are `(phase, ..., arm, agent)`.
    """
    batch = noises.shape[1:-2]
    states = [policy.start(batch) if state is None else state]
    for noise in noises:
        if states[-1].finished.all():
            break
        states.append(policy.update(states[-1], rewards(instance, policy.plan(states[-1]), noise)))
    return states


def asking(instance: Instance, cell: int) -> Instance:
    """The instance with a minimum cell of `cell` draws."""
    return Instance(problem=instance.problem.with_(minimum_cell=cell), means=instance.means)


def assert_same(first: State, second: State) -> None:
    """Raise unless two states are equal; floating-point numbers may differ by rounding."""
    for field in fields(first):
        a, b = getattr(first, field.name), getattr(second, field.name)
        if a is None:
            assert b is None, field.name
        elif a.dtype == np.float64:
            assert a == pytest.approx(b, rel=1e-9, abs=1e-9), field.name
        else:
            assert (a == b).all(), field.name


def drops_that_a_common_move_changes(name: str, instance: Instance, seed: int) -> int:
    """Count the phases of a run that would drop different arms if all rewards at a site shifted by the same amount."""
    chance = np.random.default_rng(seed)
    policy, noises = policy_for(name, instance), noise_for(instance, seed, 20)
    states = course(policy, instance, noises)
    changed = 0
    for state, after in itertools.pairwise(states):
        counts = after.counts - state.counts
        shift = 5.0 * chance.standard_normal((20, 1, instance.problem.agent_count))
        moved = policy.update(state, Totals(counts=counts, sums=after.sums - state.sums + shift * counts))
        changed += int((moved.active != after.active).any())
    return changed


class PolicySuite:
    """The tests of policies; `names` are the names by which studies select the policies to test.

    For a policy that does not support general weights, override `instance` and omit its name from `general`.
    """

    names: ClassVar[Sequence[str]] = ()
    general: ClassVar[Sequence[str] | None] = None  # policies that support any weights and any top; None: all
    seeds: ClassVar[Sequence[Any]] = (1,)  # seeds of the studies on which properties are tested; more seeds take longer

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run every test for every policy name, and for every seed if the test has a `seed`."""
        if "general_name" in metafunc.fixturenames:
            metafunc.parametrize("general_name", self.names if self.general is None else self.general)
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", self.names)
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", self.seeds)

    def instance(self, name: str, seed: int = 0, horizon: int = HORIZON) -> Instance:
        """A random instance that the policy `name` accepts."""
        return until(horizon, name, random_instance(seed, arms=5, agents=3, min_gap=0.1, delta=0.1))

    def test_it_stops_with_n_arms_each_and_the_right_ones_nearly_always(self, name: str, seed: int) -> None:
        instance = self.instance(name, seed % 5)
        policy = policy_for(name, instance)
        last = course(policy, instance, noise_for(instance, seed, 20))[-1]
        assert last.finished.all()
        assert (found(policy, last).sum(axis=-2) == instance.problem.top).all()
        wrong = (found(policy, last) & ~instance.best).any(axis=(-2, -1))
        assert wrong.mean() <= MOST_WRONG

    def test_a_batch_is_its_runs_one_by_one(self, name: str, seed: int) -> None:
        instance = self.instance(name, seed % 5)
        policy, noise = policy_for(name, instance), noise_for(instance, seed, 4)
        together = course(policy, instance, noise)[-1]
        for run in range(4):
            alone = course(policy, instance, noise[:, run])[-1]
            assert_same(together.take(np.array(run)), alone)

    def test_renaming_arms_and_agents_renames_the_course(self, name: str, seed: int) -> None:
        instance = self.instance(name, seed % 5)
        rng = np.random.default_rng(seed)
        k, m = rng.permutation(instance.problem.arm_count), rng.permutation(instance.problem.agent_count)
        problem = instance.problem.with_(weights=instance.problem.weights[np.ix_(m, m)])
        renamed = Instance(problem=problem, means=instance.means[np.ix_(k, m)])
        noise = noise_for(instance, seed)
        before = course(policy_for(name, instance), instance, noise)
        after = course(policy_for(name, renamed), renamed, noise[:, k][:, :, m])
        # The order of sums may change the last bits of an allocation, and so, very rarely, a count by one.
        assert len(before) == len(after)
        assert (before[-1].answers[np.ix_(k, m)] == after[-1].answers).all()
        assert after[-1].counts == pytest.approx(before[-1].counts[np.ix_(k, m)], abs=2)

    def test_a_state_written_as_json_in_mid_run_goes_on_identically(self, name: str, seed: int) -> None:
        instance = self.instance(name, seed % 5)
        policy, noise = policy_for(name, instance), noise_for(instance, seed)
        whole = course(policy, instance, noise)
        cut = min(seed % 4, len(whole) - 1)
        written = json.dumps(whole[cut].to_json(), allow_nan=False)
        read = policy.restore(json.loads(written))
        resumed = course(policy, instance, noise[cut:], read)
        assert len(resumed) == len(whole) - cut
        assert resumed[-1].to_json() == whole[-1].to_json(), "to the last bit"

    def test_what_holds_in_every_phase(self, name: str, seed: int) -> None:
        instance = self.instance(name, seed % 5)
        policy, noises = policy_for(name, instance), noise_for(instance, seed, 3)
        state, drawn = policy.start((3,)), 0
        for noise in noises:
            if state.finished.all():
                break
            quotas = policy.plan(state)
            assert quotas.dtype == np.int64
            assert (quotas >= 0).all()
            assert (quotas[state.finished] == 0).all()
            assert (quotas[~state.finished].sum(axis=(-2, -1)) > 0).all(), "a live phase asks for something"
            assert (policy.plan(state) == quotas).all(), "a plan is a function of the state"
            before = state.to_json()
            after = policy.update(state, rewards(instance, quotas, noise))
            assert state.to_json() == before, "states are not changed in place"
            drawn += quotas.sum()
            assert (after.counts == state.counts + quotas).all()
            assert (after.phase == state.phase + ~state.finished).all()
            assert (after.active <= state.active).all(), "what is out stays out"
            assert (after.active.sum(axis=-2) >= instance.problem.top).all()
            assert ((after.dropped_in > 0) == ~after.active).all()
            if plays(name):
                played = after.counts.sum(axis=-2)
                assert (played == played[..., :1]).all(), "nobody waits"
                assert (after.finished == (played == HORIZON).all(axis=-1)).all(), "until the horizon, to the draw"
            else:
                assert (after.finished == (after.active.sum(axis=-2) == instance.problem.top).all(axis=-1)).all()
            case = policy.explain(after)
            for value in (case.mixed_means, case.score):
                assert value.shape == after.counts.shape
                assert np.isfinite(value).all()
            state = after
        assert state.counts.sum() == drawn

    def test_who_allows_drift_rules_out_the_same_arms_wherever_a_site_has_moved(self, name: str, seed: int) -> None:
        if policy_class(name).allows_drift:
            assert drops_that_a_common_move_changes(name, self.instance(name, seed % 5), seed) == 0

    def test_with_a_minimum_cell_every_cell_of_every_phase_is_none_or_enough(self, name: str, seed: int) -> None:
        cell = MINIMUM_CELLS[seed % len(MINIMUM_CELLS)]
        plain = self.instance(name, seed % 5, horizon=10 * HORIZON)
        instance = asking(plain, cell)
        policy, noises = policy_for(name, instance), noise_for(instance, seed, 20)
        first, without = policy.plan(policy.start()), policy_for(name, plain).plan(policy.start())
        assert plays(name) or (first >= without).all()  # until a horizon, more draws in a cell mean fewer in another
        assert ((first == 0) == (without == 0)).all(), "who is asked for nothing stays so"
        state = policy.start((20,))
        for noise in noises:
            if state.finished.all():
                break
            quotas = policy.plan(state)
            assert ((quotas == 0) | (quotas >= cell)).all()
            assert (quotas[state.finished] == 0).all()
            assert (quotas[~state.finished].sum(axis=(-2, -1)) > 0).all(), "a live phase asks for something"
            after = policy.update(state, rewards(instance, quotas, noise))
            assert (after.counts == state.counts + quotas).all(), "what counts is what was drawn"
            state = after
        assert state.finished.all()
        wrong = (found(policy, state) & ~instance.best).any(axis=(-2, -1))
        assert wrong.mean() <= MOST_WRONG

    def test_with_a_minimum_cell_a_batch_is_still_its_runs_one_by_one(self, name: str, seed: int) -> None:
        instance = asking(self.instance(name, seed % 5), [5, 137][seed % 2])
        policy, noise = policy_for(name, instance), noise_for(instance, seed, 3)
        together = course(policy, instance, noise)[-1]
        for run in range(3):
            assert_same(together.take(np.array(run)), course(policy, instance, noise[:, run])[-1])

    def test_a_minimum_cell_of_one_is_none_to_the_last_bit(self, name: str) -> None:
        plain = self.instance(name)
        noise = noise_for(plain, 9, 6)
        asked, unasked = asking(plain, 1), policy_for(name, plain)
        first, second = course(policy_for(name, asked), asked, noise), course(unasked, plain, noise)
        assert [state.to_json() for state in first] == [state.to_json() for state in second]

    def test_nobody_is_ruled_out_without_data(self, name: str) -> None:
        instance = self.instance(name, horizon=10**9)
        policy = policy_for(name, instance)
        state = policy.start()
        nothing = Totals(counts=np.zeros_like(state.counts), sums=np.zeros_like(state.sums))
        after = policy.update(state, nothing)
        assert after.active.all()
        assert not after.finished
        # With much data on one arm and none on the others, no two arms can be compared.
        counts, sums = np.zeros_like(state.counts), np.zeros_like(state.sums)
        counts[0], sums[0] = 10**6, 10.0**7
        for _ in range(9):
            after = policy.update(after, Totals(counts=counts, sums=sums))
            assert after.active.all()

    def test_a_finished_run_stays_as_it_is(self, name: str) -> None:
        instance = self.instance(name)
        policy = policy_for(name, instance)
        last = course(policy, instance, noise_for(instance, 3))[-1]
        assert (policy.plan(last) == 0).all()
        more = Totals(counts=np.full_like(last.counts, 5), sums=np.full_like(last.sums, 1e3))
        assert_same(policy.update(last, more), last)

    def test_states_of_another_shape_or_with_other_keys_are_refused(self, name: str) -> None:
        instance = self.instance(name)
        policy = policy_for(name, instance)
        state = policy.start()
        wrong = np.zeros((2, 2), dtype=np.int64)
        with pytest.raises(InvalidInput, match="totals: found shape"):
            policy.update(state, Totals(counts=wrong, sums=wrong.astype(float)))
        document = state.to_json()
        document["extra"] = document.pop("phase")
        with pytest.raises(InvalidInput, match="missing or unknown keys: extra, phase"):
            policy.restore(document)
        other = make_policy("uniform", Problem(arms=named(3), weights=np.eye(2))).start().to_json()
        with pytest.raises(InvalidInput, match=r"state\.\w+: found shape"):
            policy.restore({key: other.get(key, value) for key, value in state.to_json().items()})
        garbage = state.to_json() | {"sums": "none"}
        with pytest.raises(InvalidInput, match="state"):
            policy.restore(garbage)

    def test_rescaling_rewards_noise_and_largest_gap_together_changes_no_decision(self, name: str) -> None:
        instance = self.instance(name)
        scaled_problem = instance.problem.with_(noise=Noise(scale=8.0), largest_gap=8.0)
        scaled = Instance(problem=scaled_problem, means=8.0 * instance.means)
        noise = noise_for(instance, 11, 5)
        before = course(policy_for(name, instance), instance, noise)
        after = course(policy_for(name, scaled), scaled, noise)
        assert len(before) == len(after)
        for first, second in zip(before, after, strict=True):
            assert (first.counts == second.counts).all()
            assert (first.active == second.active).all()

    @pytest.mark.parametrize(("arms", "agents", "top"), SIZES)
    def test_every_size_and_top_ends(self, general_name: str, arms: int, agents: int, top: int) -> None:
        name = general_name
        instance = until(HORIZON, name, random_instance(1, arms=arms, agents=agents, top=top, min_gap=0.2))
        if plays(name) and top > 1:
            with pytest.raises(InvalidInput, match=r"top: found .* one arm is played at a time"):
                policy_for(name, instance)
            return
        policy = policy_for(name, instance)
        last = course(policy, instance, noise_for(instance, 5, 8))[-1]
        assert last.finished.all()
        assert (found(policy, last).sum(axis=-2) == top).all()

    def test_an_agent_nobody_weighs_and_one_without_its_own_weight(self, general_name: str) -> None:
        name, weights = general_name, np.array([[0.0, 0.6, 0.0], [1.0, 0.4, 1.0], [0.0, 0.0, 0.0]])
        means = np.array([[0.9, 0.1, 0.3], [0.1, 0.9, 0.9], [0, 0, 1.0]])
        instance = until(HORIZON, name, Instance(problem=Problem(arms=named(3), weights=weights), means=means))
        last = course(policy_for(name, instance), instance, noise_for(instance, 5, 4))[-1]
        assert last.finished.all()
        if plays(name):
            assert (last.counts.sum(axis=-2) == HORIZON).all(), "who is weighed by nobody plays all the same"
        else:
            assert (last.counts[:, :, 2] <= 1).all(), "drawn at most once, since nobody's answer depends on it"

    def test_options_are_checked_by_name_and_type(self, name: str) -> None:
        instance = self.instance(name)
        with pytest.raises(UnknownName, match=f"option of the policy {name}: found 'speed'"):
            policy_for(name, instance, speed=3)
        policy = policy_for(name, instance)
        for field in fields(policy):
            if field.type == "float":
                with pytest.raises(InvalidInput, match=f"policy.{field.name}: found 'fast'; allowed: a number"):
                    policy_for(name, instance, **{field.name: "fast"})
