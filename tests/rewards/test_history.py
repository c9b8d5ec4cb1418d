"""A truth from a table of past draws: rows are drawn again, moved to the means, and stay what rewards may be."""

import numpy as np
import pytest
from click.testing import CliRunner
from tests.support import first_quick

from parley.cli.main import main
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.rewards import make_model
from parley.rewards.history import REPEATS, History, Shape, history_of
from parley.simulation import simulate
from parley.study import load_study, parse_study
from parley.validation.tables import columns_of, draws_of, read_table


def draws(text, arms=None, agents=None, **given):
    table = read_table(text.encode(), "past.csv", needed=())
    return draws_of(table, columns_of(table, given, optional=("arm",)), arms=arms, agents=agents)


def history(values, arms=2, model=None, x=None):
    lines = [f"P,{value}" + ("" if x is None else f",{x[place]}") for place, value in enumerate(values)]
    head = "site,y" + ("" if x is None else ",x")
    found = draws("\n".join([head, *lines]) + "\n", **({} if x is None else {"covariate": "x"}))
    return history_of(found, arms, model or make_model(scale="unknown"))


MONEY = np.round(np.random.default_rng(0).lognormal(0, 1, 60) * (np.random.default_rng(1).random(60) < 0.5), 3)
COUNTS = np.random.default_rng(2).negative_binomial(1, 0.4, 50)


@pytest.mark.parametrize("count", first_quick(3, 40, 1000, quick=2))
@pytest.mark.parametrize(
    ("kind", "values", "means"),
    [
        ({"scale": "unknown"}, MONEY, [[MONEY.mean()], [MONEY.mean() + 0.4]]),
        ({"kind": "bounded", "low": 0, "high": 20}, MONEY, [[0.3], [4.0]]),
        ({"kind": "binary"}, (MONEY > 0).astype(int), [[0.2], [0.7]]),
        ({"kind": "count"}, COUNTS, [[0.4], [3.0]]),
    ],
    ids=lambda value: value.get("kind", "unknown scale") if isinstance(value, dict) else "",
)
def test_rows_are_drawn_with_the_means_that_are_stated_and_their_own_scatter(kind, values, means, count):
    model, means = make_model(**kind), np.array(means)
    past = history(values, model=model)
    runs = 4000
    found = past.sampler(means, model)(np.random.default_rng(5), np.full((runs, 2, 1), count))
    error = found.sums.std(axis=0) / np.sqrt(runs)
    assert (np.abs(found.sums.mean(axis=0) - count * means) < 4 * error).all()
    each = found.sums / count
    assert (found.squares >= found.sums * each * (1 - 1e-9)).all()
    if "kind" not in kind:  # moved as a whole
        assert each.var(axis=0) * count == pytest.approx(np.full((2, 1), values.var()), rel=0.15)
        assert found.scatter.mean(axis=0) == pytest.approx(np.full((2, 1), (count - 1) * values.var()), rel=0.15)
    if model.in_range:
        assert ((each >= model.low - 1e-9) & (each <= model.high + 1e-9)).all()
    if model.whole or model.values:
        assert (found.sums == np.rint(found.sums)).all()
        assert (found.squares == np.rint(found.squares)).all()


@pytest.mark.parametrize("mean", [0.5, 19.0])
def test_no_row_leaves_the_range(mean):
    model = make_model(kind="bounded", low=0, high=20)
    found = history(MONEY, model=model).sampler(np.full((2, 1), mean), model)(
        np.random.default_rng(5), np.full((500, 2, 1), 1)
    )
    assert (found.sums >= -1e-9).all()
    assert (found.sums <= 20 + 1e-9).all()
    assert np.unique(found.sums).size > 10


def test_few_draws_and_many_follow_one_law():
    """Many are drawn by how often each row comes, few one by one: mean and scatter of both are those of the pool."""
    past, model = history(MONEY, x=MONEY + 1), make_model(scale="unknown")
    for count in (len(MONEY) * REPEATS, len(MONEY) * REPEATS + 1):
        found = past.deviations(np.random.default_rng(1), np.full((3000, 2, 1), count), past.means, model)
        y, yy, x, xx, xy = (column[:, 0, 0] / count for column in found)
        assert y.var() * count == pytest.approx(MONEY.var(), rel=0.1)
        assert yy.mean() == pytest.approx(MONEY.var(), rel=0.02)
        assert np.allclose(x, y), "the covariate is the outcome plus one: both come from the same rows"
        assert np.allclose(xx, yy)
        assert np.allclose(xy, yy)


def test_rows_of_0_and_1_move_with_their_covariate():
    values, x = np.array([0, 0, 0, 1]), np.array([1.0, 2.0, 3.0, 10.0])
    model, means = make_model(kind="binary"), np.array([[0.5], [0.1]])
    past = history(values, model=model, x=x)
    y, yy, moved, _, xy = past.deviations(np.random.default_rng(0), np.full((2000, 2, 1), 50), means, model)
    assert np.allclose(y.mean(axis=0) / 50, 0, atol=0.005)
    assert np.allclose(yy.mean(axis=0) / 50, means * (1 - means), atol=0.005)
    assert np.allclose(moved.mean(axis=0) / 50, 0, atol=0.1)
    # Of the zeros a third became ones, whatever their x: the covariance shrinks to two thirds, or to two fifths.
    own = ((x - x.mean()) * (values - 0.25)).mean()
    assert np.allclose(xy.mean(axis=0).ravel() / 50, [own * 2 / 3, own * 2 / 5], rtol=0.05)


@pytest.mark.simulations
def test_chunks_and_later_replications_change_no_number(tmp_path):
    study = load_study(written(tmp_path, MONEY))
    policy = make_policy("evidence", study.problem)

    def run(count, chunk):
        return simulate(policy, study.instance, replications=count, seed=5, chunk=chunk)

    whole = run(400, None)
    for count, chunk in ((400, 1), (300, None)):
        assert (run(count, chunk).costs == whole.costs[:count]).all()


STUDY = """
arms = ["a", "b", "c"]
agents = ["P", "Q"]
delta = 0.1
largest_gap = 4
weights = {kind = "personalized", alpha = 0.5}
"""


def written(folder, values, truth="effects = [0.0, 0.4, 1.5]", noise="", rows=None):
    lines = rows or [f"{site},{value}" for site in ("P", "Q") for value in values]
    (folder / "past.csv").write_text("\n".join(["site,y", *lines]) + "\n", encoding="utf-8")
    path = folder / "study.toml"
    path.write_text(f'{STUDY}{noise}\n[truth]\ndata = "past.csv"\n{truth}\n', encoding="utf-8")
    return path


def test_a_study_takes_means_and_scatter_from_its_table(tmp_path):
    study = load_study(written(tmp_path, MONEY))
    truth = study.require_truth()
    assert truth.means == pytest.approx(MONEY.mean() + np.array([[0.0, 0.0], [0.4, 0.4], [1.5, 1.5]]))
    assert truth.cell_variances == pytest.approx(np.full((3, 2), MONEY.var()))
    found = simulate(make_policy("evidence", study.problem), truth, replications=50, seed=0)
    gaussian = simulate(make_policy("evidence", study.problem), truth, replications=50, seed=0, environment="gaussian")
    assert found.finished.all()
    assert (found.costs != gaussian.costs).any()


def test_bounds_say_whose_rewards_they_are_for(tmp_path):
    done = CliRunner().invoke(main, ["bounds", str(written(tmp_path, MONEY))], catch_exceptions=False)
    assert "for Gaussian rewards with the means and the standard deviations of the rows" in " ".join(
        done.stdout.split()
    )


def test_a_table_with_arms_needs_no_effects_and_each_arm_draws_its_own_rows(tmp_path):
    path = written(tmp_path, [], truth="")
    lines = [f"{site},{arm},{place + step}" for site in "PQ" for step, arm in enumerate("abc") for place in range(3)]
    (tmp_path / "past.csv").write_text("\n".join(["Site,Arm,Outcome", *lines]) + "\n", encoding="utf-8")
    study = load_study(path)
    assert study.instance.means.tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert study.instance.history.by_arm
    # The same table, in which every row may be of any arm.
    path.write_text(f'{STUDY}[truth]\ndata = "past.csv"\ncolumns = {{ arm = "none" }}\neffects = [0, 1, 2]\n', "utf-8")
    assert load_study(path).instance.means.tolist() == [[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]


def test_two_values_become_0_and_1_where_rewards_are(tmp_path):
    study = load_study(written(tmp_path, [1, 2, 2, 2], "effects = [0.0, -0.1, 0.1]", 'noise = {kind = "binary"}'))
    assert study.instance.means[:, 0] == pytest.approx([0.75, 0.65, 0.85])


def with_covariate(folder, section="", noise="", binary=False):
    """A study whose outcomes go with what was known before; the same without its covariate."""
    generator = np.random.default_rng(3)
    lines = []
    for site in "PQ":
        for x in generator.normal(50, 10, 200):
            y = 0.1 * x + 0.5 * generator.standard_normal()
            lines.append(f"{site},{int(y > 5) if binary else round(y, 3)},{x:.2f}")
    (folder / "past.csv").write_text("\n".join(["site,y,Age", *lines]) + "\n", encoding="utf-8")
    path = folder / "study.toml"
    truth = f'[truth]\ndata = "past.csv"\neffects = {[0.0, 0.1, 0.2] if binary else [0.0, 0.2, 0.5]}\n'
    path.write_text(f"{STUDY}{noise}\n{truth}{section}", encoding="utf-8")
    return load_study(path)


@pytest.mark.parametrize("binary", first_quick(True, False))
def test_a_covariate_is_drawn_with_its_outcome_and_saves_what_it_explains(tmp_path, binary):
    noise = 'noise = {kind = "binary", inference = "normal"}' if binary else ""
    plain = with_covariate(tmp_path, noise=noise, binary=binary)
    section = '[covariate]\nname = "Age"\n' + ("range = [20, 80]\n" if binary else "")
    study = with_covariate(tmp_path, section, noise, binary=binary)
    truth = study.require_truth()
    assert (truth.covariate.correlation > (0.65 if binary else 0.85)).all()
    runs = {"replications": 100, "seed": 0}
    found = simulate(make_policy("evidence", study.problem), truth, **runs)
    without = simulate(make_policy("evidence", plain.problem), plain.instance, **runs)
    assert found.finished.all()
    assert found.error_rate <= 0.1
    # A share of the zeros became ones, whatever their covariate: less of yes or no is explained than in the table.
    assert found.costs.mean() < (1.0 if binary else 0.6) * without.costs.mean()


def test_the_covariate_of_a_table_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"truth\.columns\.covariate: found 'weight', 0 times"):
        with_covariate(tmp_path, '[covariate]\nname = "weight"\n')
    with pytest.raises(InvalidInput, match=r"truth\.covariate: found one beside data; allowed: data alone"):
        with_covariate(tmp_path, 'covariate = { correlation = 0.5 }\n[covariate]\nname = "Age"\n')
    study = with_covariate(tmp_path, 'columns = { covariate = "age" }\n[covariate]\nname = "years"\nrange = [45, 55]\n')
    assert (study.instance.history.covariates.min(), study.instance.history.covariates.max()) == (45, 55)


@pytest.mark.parametrize(
    ("rows", "truth", "noise", "words"),
    [
        (None, "", "", "truth.effects: found none, and .* has no arms; allowed: effects = .*3 numbers"),
        (None, "effects = [1]", "", r"truth.effects: found numbers of shape \(1,\); allowed: 3 numbers"),
        (None, "effects = [0, 1, 2]\nscale = 1", "", "truth.scale: found a scale beside data"),
        (None, "effects = [0, 1, 2]\nmeans = [[1]]", "", "truth: found .*; allowed: only one of means, generate, data"),
        (None, 'effects = [0, 1, 2]\ncolumns = { outcome = "z" }', "", "truth.columns.outcome: found 'z', 0 times"),
        (None, 'effects = [0, 1, 2]\ncolumns = { site = "y" }', "", "truth.columns: found 'site'; allowed: one of a"),
        (["P,1", "R,1"], "effects = [0, 1, 2]", "", "line 3, column site: found 'R'; allowed: P, Q"),
        (["P,1", "P,2"], "effects = [0, 1, 2]", "", "found no row at Q; allowed: at least one"),
        (["P,1", "Q,nan"], "effects = [0, 1, 2]", "", "line 3, column y: found 'nan'; allowed: a finite number"),
        (["P,1", "Q,much"], "effects = [0, 1, 2]", "", "line 3, column y: found 'much'"),
        (["P,1", "P,2", "Q,1"], "effects = [0, 1, 2]", "", "found only 1 at Q; allowed: outcomes that vary"),
        (["P,1", "Q,7"], "effects = [0, 0.1, 0.2]", 'noise = {kind = "bounded", low = 0, high = 5}',
         "line 3, column y: found 7; allowed: numbers from 0 to 5"),
        (["P,1", "Q,0.5", "Q,0"], "effects = [0, 0, 0]", 'noise = {kind = "binary"}', "line 3, column y: found 0.5"),
        (["P,1", "Q,0.5"], "effects = [0, 1, 2]", 'noise = {kind = "count"}', "line 3.*allowed: whole numbers"),
        (["P,1", "Q,0"], "effects = [0, 1, 2]", 'noise = {kind = "binary"}', "means: found 2; allowed: means between"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_named(tmp_path, rows, truth, noise, words):
    with pytest.raises(InvalidInput, match=words):
        load_study(written(tmp_path, [1, 2, 3], truth, noise, rows))


def test_a_table_that_is_not_there_is_named():
    with pytest.raises(InvalidInput, match=r"table: found no file at nowhere.csv; allowed: a CSV, TSV, Parquet or Exc"):
        parse_study({"arms": 2, "agents": 1, "truth": {"data": "nowhere.csv", "effects": [0, 1]}})


def test_shapes_have_their_names():
    generator = np.random.default_rng(0)
    assert Shape.of(generator.standard_normal(2000)).words == "about symmetric, no heavy tails"
    wide = generator.standard_t(3, 2000)
    assert Shape.of(np.concatenate([wide, -wide])).words == "heavy tails"
    assert Shape.of(-generator.exponential(size=2000)).words == "strongly skewed to the left, heavy tails"
    assert "50 % zeros" in Shape.of(np.repeat([0.0, 1.0], 50)).words
    money = Shape.of(MONEY)
    assert money.tail == pytest.approx(np.square(MONEY - MONEY.mean()).max() / np.square(MONEY - MONEY.mean()).sum())


def test_pools_keep_what_was_known_before_beside_the_outcome():
    found = draws("site,y,age\nQ,5,40\nP,1,50\nP,3,60\n", covariate="age")
    past = History.of(found, arms=2)
    for place in range(2):  # agents are in the order of the table
        pool = slice(past.starts[0, place], past.starts[0, place] + past.sizes[0, place])
        assert dict(zip(past.outcomes[pool], past.covariates[pool], strict=True)) in (
            {5.0: 40.0},
            {1.0: 50.0, 3.0: 60.0},
        )
