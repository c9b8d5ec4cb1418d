"""Private reports: the keys of a study, the mechanism's numbers, and noise in simulations."""

from itertools import islice

import numpy as np
import pytest
from msgspec import structs

from parley.errors import InvalidInput
from parley.experiments.forecasts.forecast import simulate_rest
from parley.experiments.forecasts.plan_page import sensitivity_table
from parley.experiments.forecasts.planning import Planner, make_plan, plan_studies
from parley.experiments.forecasts.scenarios import gap_scenario
from parley.policies import make_policy
from parley.policies.evidence.plan import enlarged
from parley.problem import Instance, Problem
from parley.protocol import Report, StudyMessage, apply, create, issue_certificate
from parley.protocol.events import Cancelled, ReportAccepted
from parley.rewards import Binary, Bounded
from parley.rewards.privacy import epsilon, with_noise
from parley.simulation import phase_totals, phases, simulate
from parley.simulation.rare import hardest_ties, ruled_out_probability
from parley.study import parse_study
from parley.totals import Totals

STUDY = {"arms": 3, "agents": 2, "privacy": {"rho": 0.05}}
CLIPPED = {"scale": 1.0, "clip": [-3, 5]}


@pytest.mark.parametrize(
    ("noise", "variance", "grid", "ends"),
    [
        ({"kind": "binary"}, 10.0, 1.0, (0.0, 1.0)),
        ({"kind": "binary", "inference": "normal"}, 10.0, 1.0, (0.0, 1.0)),
        ({"kind": "bounded", "low": 0, "high": 1, "method": "hoeffding"}, 10.0, 2.0**-20, (0.0, 1.0)),
        (CLIPPED, 640.0, 2.0**-17, (-3.0, 5.0)),
    ],
)
def test_rho_says_how_much_noise_a_sum_has(noise, variance, grid, ends):
    problem = parse_study(STUDY | {"noise": noise}).problem
    assert (problem.rho, problem.noise_variance, problem.noise.grid, (problem.noise.low, problem.noise.high)) == (
        0.05,
        variance,
        grid,
        ends,
    )
    again = StudyMessage.read(StudyMessage.of(parse_study(STUDY | {"noise": noise})).text).problem
    assert (again.noise, again.noise_variance) == (problem.noise, variance)
    assert problem.with_(rho=None).noise_variance == 0
    assert problem.with_(rho=None).noise.document() == problem.noise.document()


def test_a_range_of_any_width_has_a_grid_of_whole_steps_and_a_little_more_noise():
    noise = parse_study(STUDY | {"noise": {"scale": 1.0, "clip": [0.0, 0.3]}}).problem.noise
    assert np.log2(noise.grid) == round(np.log2(noise.grid))
    assert 2**20 <= noise.sensitivity <= 2**21
    assert 0.3 <= noise.sensitivity * noise.grid < 0.3 + noise.grid
    assert noise.noise_variance >= 0.3**2 / (2 * 0.05)


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        ({}, "privacy.rho: found 0.05 with kind = 'gaussian', scale = 'unknown'.*squares"),
        ({"scale": 2.0}, "privacy.rho: found 0.05 with kind = 'gaussian', scale = 2.0; allowed: .*clip"),
        ({"kind": "subgaussian"}, "privacy.rho: found 0.05 with kind = 'subgaussian'"),
        ({"kind": "bounded", "low": 0, "high": 1}, 'privacy.rho: .*method = .variance.; allowed: .*"hoeffding"'),
        ({"clip": [0, 1]}, "noise.scale: found 'unknown'; allowed: a known scale with noise.clip"),
        ({"scale": 1.0, "clip": [1, 1]}, r"noise.clip: found \[1, 1\]; allowed: \[low, high\]"),
        ({"scale": 1.0, "clip": [1]}, r"noise.clip: found \[1\]; allowed: \[low, high\]"),
        ({"scale": 1.0, "clip": 3}, "noise.clip: found 3; allowed: a list"),
    ],
)
def test_rewards_whose_evidence_would_not_be_exact_refuse_rho(noise, says):
    with pytest.raises(InvalidInput, match=says):
        parse_study(STUDY | {"noise": noise})


@pytest.mark.parametrize("rho", [0.0, -1.0, 1e-9, 1000.0, float("nan"), True, "much"])
def test_rho_is_a_number_within_reason(rho):
    with pytest.raises(InvalidInput, match="rho"):
        Problem(arms=2, weights=[[1.0]], noise=parse_study(STUDY | {"noise": CLIPPED}).problem.noise, rho=rho)


def test_a_range_comes_with_clipping_and_scale_may_be_smaller_than_half_of_it():
    narrow = parse_study(STUDY | {"noise": {"scale": [1.0, 3.0], "clip": [0, 4]}}).problem.noise
    assert narrow.variance.tolist() == [1.0, 4.0]
    assert not narrow.boosted
    assert narrow.stated_variance is None


def test_epsilon_is_that_of_the_best_order_and_below_the_closed_form():
    for rho in (1e-6, 0.005, 0.05, 0.5, 5.0):
        for delta in (1e-3, 1e-5, 1e-9):
            found = epsilon(rho, delta)
            assert found < rho + 2 * np.sqrt(rho * np.log(1 / delta))
            # Delta of an epsilon, by the same inequality: no order makes it smaller than was asked for by much.
            order = 1 + np.geomspace(1e-3, 1e6, 100_001)
            least = ((order - 1) * (order * rho - found) + order * np.log1p(-1 / order) - np.log(order - 1)).min()
            assert least <= np.log(delta) + 1e-6
            assert found == 0 or least >= np.log(delta) - 1e-3


@pytest.mark.parametrize(("variance", "grid"), [(0.3, 1.0), (10.0, 1.0), (10.0, 2.0**-20)])
def test_simulated_noise_is_discrete_gaussian_on_the_grid(variance, grid):
    counts = np.ones(400_000, dtype=np.int64)
    exact = Totals(counts=counts, sums=np.full(counts.shape, 0.5), squares=np.full(counts.shape, 0.25))
    model = Binary(rho=1 / (2 * variance)) if grid == 1.0 else Bounded(low=0, high=1, rho=1 / (2 * variance))
    assert (model.grid, model.noise_variance) == (grid, pytest.approx(variance))
    noisy = with_noise(exact, np.random.default_rng(3), model)
    steps = (noisy.sums - grid * np.round(0.5 / grid)) / grid
    assert (steps == np.round(steps)).all()
    values = np.arange(-100, 101) if grid == 1.0 else np.zeros(1)
    density = np.exp(-np.square(values) / (2 * variance))
    true = (np.square(values) * density).sum() / density.sum() if grid == 1.0 else variance
    assert np.var(steps * grid) == pytest.approx(true, rel=0.02)
    assert not noisy.squares.any()


MEANS = np.array([[0.45, 0.4], [0.2, 0.25]])


def private(rho: float | None, **more) -> Instance:
    problem = Problem(arms=2, weights=[[0.7, 0.2], [0.3, 0.8]], noise=Binary(rate=0.3), rho=rho, **more)
    return Instance(problem=problem, means=MEANS)


def test_a_simulated_study_reports_noisy_sums_of_the_same_rewards():
    instance = private(0.05)
    first = next(phases(make_policy("evidence", instance.problem), instance, seed=3))
    exact = phase_totals(instance, seed=3, phase=0, counts=first.quotas)
    noise = first.after.sums - exact.sums
    assert noise.any()
    assert (noise == np.round(noise)).all()
    assert np.abs(noise).max() < 8 * np.sqrt(10)
    again = simulate(make_policy("evidence", instance.problem), instance, replications=3, seed=3)
    more = simulate(make_policy("evidence", instance.problem), instance, replications=300, seed=3, chunk=1)
    assert again.costs.tolist() == more.costs[:3].tolist(), "replications do not depend on how many follow"


def test_noise_costs_samples_and_a_plan_makes_up_for_it():
    costs = []
    for rho in (None, 0.05, 0.005):
        instance = private(rho)
        run = simulate(make_policy("evidence", instance.problem), instance, replications=200, seed=1)
        assert run.error_rate <= 0.1
        assert run.finished.all()
        costs.append(run.costs.mean())
    assert costs[0] < costs[1] < costs[2] < 12 * costs[0]
    exact, noisy = enlarged(np.array([50.0]), 0.2, 0.0), enlarged(np.array([50.0]), 0.2, 100.0)
    assert exact == 50.0
    assert 0.2 / noisy + 100 / noisy**2 == pytest.approx(0.2 / 50)


def test_no_phase_after_the_first_is_mostly_noise():
    """However little is missing: a cell of fewer draws would say less than its noise hides, and cost a round."""
    instance = private(0.005)
    draws = instance.problem.noise_variance / (0.3 * 0.7)
    for phase in islice(phases(make_policy("evidence", instance.problem), instance, seed=4), 1, None):
        assert phase.quotas[phase.quotas > 0].mean() > 0.8 * draws


@pytest.mark.simulations
def test_tilted_runs_find_what_counting_finds_where_noise_is_most_of_a_report():
    """The noise is tilted with the rewards: a run in which it is not hardly ever errs, and the estimate scatters."""
    problem = Problem(arms=2, weights=[[1.0]], noise=Binary(rate=0.25), rho=0.005, delta=0.1)
    race = make_policy("evidence", problem)
    tie = Instance(problem=problem, means=[[0.25 + 1e-9], [0.25]])
    found = ruled_out_probability(race, tie, arm=0, agent=0, replications=2000, seed=0)
    counted = simulate(race, tie, replications=4000, seed=1, max_samples=60 * int(race.plan(race.start()).sum()))
    share = counted.mistaken.mean()
    assert found.probability == pytest.approx(share, abs=4 * np.hypot(found.standard_error, (share / 4000) ** 0.5))
    rare = make_policy("evidence", problem.with_(delta=1e-6))
    tie = hardest_ties(rare.problem)[0]
    found = ruled_out_probability(rare, tie.instance, arm=tie.arm, agent=0, replications=500, seed=0)
    assert 0 < found.probability < 1e-6
    assert found.standard_error < 0.1 * found.probability


@pytest.mark.simulations
def test_every_kind_of_question_ends_with_private_reports():
    for noise in ({"kind": "binary", "inference": "normal"}, {"kind": "bounded", "low": 0, "high": 1}, CLIPPED):
        for more in ({"tolerance": 0.05}, {"top": 2}, {"answers": "each"}, {"max_samples": 5000}):
            noise_model = parse_study(STUDY | {"noise": {"method": "hoeffding"} | noise if "low" in noise else noise})
            problem = Problem(arms=3, weights=np.eye(2), noise=noise_model.problem.noise, rho=0.5, **more)
            means = [[0.9, 0.9], [0.5, 0.5], [0.1, 0.1]]
            run = simulate(
                make_policy("evidence", problem), Instance(problem=problem, means=means), replications=5, seed=2
            )
            assert run.error_rate == 0
            assert run.finished.all()


@pytest.mark.simulations
def test_a_plan_says_what_privacy_costs_and_counts_its_studies():
    problem, done = private(0.05).problem, []
    planner = Planner(policy="evidence", options={}, replications=4, seed=0, progress=done.append)
    scenarios = [gap_scenario(problem, 0.3)]
    plan = make_plan(planner, problem, scenarios)
    assert [rho for rho, _ in plan.by_rho] == [None, 0.5, 0.05, 0.005]
    assert plan.by_rho[2][1] is plan.scenarios[-1]
    assert plan.by_rho[0][1].samples.mean() < plan.by_rho[3][1].samples.mean()
    assert sum(done) == plan_studies(planner, problem, scenarios)
    settings = [row[0] for row in sensitivity_table("costs", plan).rows]
    assert str(settings[-1]).find("rho 0.005, epsilon 0.38") >= 0
    assert not make_plan(planner, private(None).problem, scenarios).by_rho


def test_a_forecast_and_an_audit_draw_the_noise_too():
    instance = private(0.005)
    policy = make_policy("evidence", instance.problem)
    start = policy.start()
    counts = policy.plan(start)
    state = policy.update(start, Totals(counts=counts, sums=np.round(counts * MEANS)))
    rest = simulate_rest(policy, state, continuations=40, seed=0)
    plain = make_policy("evidence", private(None).problem)
    exact = simulate_rest(
        plain,
        plain.update(plain.start(), Totals(counts=counts, sums=np.round(counts * MEANS))),
        continuations=40,
        seed=0,
    )
    assert rest.samples.mean() > exact.samples.mean()
    tie = hardest_ties(instance.problem.with_(rho=0.5, delta=1e-4))[0]
    race = make_policy("evidence", tie.instance.problem)
    found = ruled_out_probability(race, tie.instance, arm=tie.arm, agent=0, replications=300, seed=0)
    assert 0 < found.probability < 1e-4


def test_a_log_tells_how_often_sums_were_released_as_its_reports_do():
    """Decided, and of a phase that was cancelled: the certificate says what the log lets anybody learn."""
    study = StudyMessage(
        name="s",
        arms=("a", "b"),
        agents=("x",),
        weights=((1.0,),),
        policy="evidence",
        noise={"kind": "binary"},
        rho=0.05,
    )
    trial = create("s", study)
    counts = trial.plan.draws(0)
    sent = Report(study="s", phase=1, agent="x", plan=trial.plan.digest, counts=counts, sums=(1.0, 2.0), releases=3)
    trial = apply(trial, ReportAccepted(report=sent))
    event = trial.step().event
    assert event.decision.releases == 3
    with pytest.raises(InvalidInput, match="releases"):
        apply(trial, structs.replace(event, decision=structs.replace(event.decision, releases=None)))
    ended = apply(trial, Cancelled(reason="no money"))
    certificate = issue_certificate(ended, data=(), sequence=3, head="ab", version="0")
    assert certificate.privacy["releases"] == 3


def test_a_sensitivity_is_that_of_the_exact_range():
    """In floating point 1 + 2^-60 is 1, and a sum rounded to the grid may move by one step more."""
    assert Bounded(low=-(2.0**-60), high=1.0).sensitivity == 2**20 + 1
    assert Bounded(low=0.0, high=1.0).sensitivity == 2**20
