import numpy as np
import pytest

from parley.errors import InvalidInput, TiedArms
from parley.problem import Instance, Problem, top_gaps
from parley.rewards import Noise

ASYMMETRIC = [[0.7, 0.1, 0.2], [0.2, 0.6, 0.5], [0.1, 0.3, 0.3]]


def test_mixing_uses_columns_as_in_the_definition_of_section_1():
    problem = Problem(arms=2, weights=ASYMMETRIC)
    local = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert problem.mixed(local)[0].tolist() == pytest.approx([0.7, 0.1, 0.2])  # what agent 0 weighs in everyone's mix
    assert problem.mixed(local)[1].tolist() == pytest.approx([0.1, 0.3, 0.3])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"weights": [[1.2, 0], [-0.2, 1]]}, r"weights: found -0.2 in row 1, column 0; allowed: weights of at least 0"),
        ({"weights": [[float("nan"), 0], [1, 1]]}, r"weights: found nan in row 0, column 0"),
        ({"weights": [[0.5, 0.5], [0.4, 0.5]]}, r"column 0 sums to 0.9"),
        ({"weights": [[0.5, 0.5], [0.1, 0.9]]}, r"column 0 sums to 0.6.*transposed"),
        ({"weights": [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]}, r"a matrix of 2 x 3; allowed: a square matrix"),
        ({"weights": [[1, 0], [1]]}, r"rows of different lengths"),
        ({"weights": [1.0, 0.0]}, r"1 dimension"),
        ({"agents": ["a", "b", "c"]}, r"2 x 2 for 3 agents; allowed: 3 x 3"),
        ({"agents": ["a", "a"]}, r"the name 'a' twice"),
        ({"agents": ["a", " "]}, r"non-empty text"),
        ({"arms": 1}, r"arms: found 1; allowed: at least 2 arms"),
        ({"arms": 2.5}, r"arms: found 2.5"),
        ({"delta": 0.0}, r"delta: found 0.0; allowed: a number strictly between 0 and 1"),
        ({"delta": 1.0}, r"delta: found 1.0"),
        ({"delta": float("nan")}, r"delta: found nan"),
        ({"delta": "x"}, r"delta: found 'x'; allowed: a number"),
        ({"delta": 1e-320}, r"delta: found 1e-320"),
        ({"largest_gap": None}, r"largest_gap: found None"),
        ({"weights": [["1", "0"], ["0", "1"]]}, r"not numbers"),
        ({"weights": [[True, False], [False, True]]}, r"not numbers"),
        ({"top": 0}, r"top: found 0; allowed: at least 1 and less than the number of arms, 3"),
        ({"top": 3}, r"top: found 3"),
        ({"top": True}, r"top: found True"),
        ({"largest_gap": 0.0}, r"largest_gap: found 0.0"),
        ({"minimum_cell": 0}, r"minimum_cell: found 0; allowed: from 1 to 1,000,000"),
        ({"minimum_cell": -5}, r"minimum_cell: found -5; allowed: from 1"),
        ({"minimum_cell": 10**6 + 1}, r"minimum_cell: found 1000001; allowed: from 1"),
        ({"minimum_cell": 10**400}, r"minimum_cell: found a huge number; allowed: from 1"),
        ({"minimum_cell": 2.0}, r"minimum_cell: found 2.0; allowed: a whole number"),
        ({"minimum_cell": True}, r"minimum_cell: found True; allowed: a whole number"),
        ({"minimum_cell": None}, r"minimum_cell: found None; allowed: a whole number"),
    ],
)
def test_bad_problems_are_named(changes, says):
    good = {"arms": 3, "weights": [[0.5, 0.25], [0.5, 0.75]]}
    Problem(**good)
    with pytest.raises(InvalidInput, match=says):
        Problem(**(good | changes))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"scale": 0.0}, "noise.scale: found 0.0"),
        ({"scale": -1.0}, "noise.scale: found -1.0"),
        ({"scale": float("inf")}, "noise.scale: found inf"),
        (
            {"kind": "cauchy"},
            "noise.kind: found 'cauchy'; allowed: one of binary, bounded, count, gaussian, subgaussian",
        ),
        ({"kind": "bounded"}, "noise.low: found nothing"),
        ({"kind": "bounded", "low": 1, "high": 1}, "low < high"),
        ({"low": 0.0}, "key in .noise. with kind 'gaussian': found 'low'; allowed: one of kind, scale"),
        ({"scale": 1e300}, "noise.scale: found 1e\\+300"),
        ({"scale": "x"}, "noise.scale: found 'x'"),
        ({"kind": "bounded", "low": 0, "high": 1, "scale": -7.0}, "half of high - low is the scale"),
    ],
)
def test_bad_noise_is_named(arguments, says):
    with pytest.raises(InvalidInput, match=says):
        Noise(**arguments)


def test_gaps_of_the_best_arm_and_of_a_top_n():
    mixed = np.array([[0.9, 0.1], [0.5, 0.3], [0.8, 0.2], [0.1, 0.7]])
    assert top_gaps(mixed, 1).T.tolist() == [
        pytest.approx([0.1, 0.4, 0.1, 0.8]),
        pytest.approx([0.6, 0.4, 0.5, 0.4]),
    ]
    assert top_gaps(mixed, 2)[:, 0].tolist() == pytest.approx([0.4, 0.3, 0.3, 0.7])


def test_a_tie_names_agent_and_arms():
    problem = Problem(arms=["x", "y", "z"], agents=["north", "south"], weights=np.eye(2))
    instance = Instance(problem=problem, means=[[0.9, 0.5], [0.9, 0.1], [0.1, 0.2]])
    assert instance.tied
    with pytest.raises(TiedArms, match=r"best arm of agent north: x, y; .*every lower bound is infinite"):
        instance.require_distinct()
    inside = Instance(problem=problem.with_(top=2), means=instance.means)  # a tie within the top 2 is no tie
    inside.require_distinct()


@pytest.mark.parametrize(
    ("means", "says"),
    [
        ([[0.1, 0.2]], "1 rows of 2 columns; allowed: 3 rows"),
        ([[0.1, 0.2, 0.3]] * 2, "2 rows of 3 columns"),
        ([[0.1, float("inf")], [0, 0], [0, 0]], "inf in row 0, column 1"),
    ],
)
def test_bad_means_are_named(means, says):
    with pytest.raises(InvalidInput, match=says):
        Instance(problem=Problem(arms=3, weights=np.eye(2)), means=means)


def test_means_outside_the_declared_bounds_are_refused():
    problem = Problem(arms=2, weights=np.eye(1), noise=Noise.bounded(low=0, high=1))
    with pytest.raises(
        InvalidInput, match=r"means: found 1.5; allowed: means between noise.low = 0 and noise.high = 1"
    ):
        Instance(problem=problem, means=[[1.5], [0.2]])


def test_an_answer_is_right_when_every_chosen_arm_is_a_top_arm():
    problem = Problem(arms=3, weights=np.eye(2), top=2)
    instance = Instance(problem=problem, means=[[0.9, 0.1], [0.5, 0.2], [0.1, 0.3]])
    chosen = np.array([[[0, 1], [1, 2]], [[0, 0], [1, 1]]])  # (replication, top, agent)
    assert instance.is_correct(chosen).tolist() == [True, False]


def test_the_first_of_each_distinct_column_asks_its_question():
    random = np.random.default_rng(1)
    columns = random.dirichlet(np.ones(6), size=3).T
    weights = columns[:, [0, 1, 0, 2, 2, 1]]
    weights[0, 0], weights[1, 0] = 0.0, weights[0, 0] + weights[1, 0]
    weights[:, 2] = weights[:, 0]
    weights[0, 2] = -0.0
    problem = Problem(arms=2, weights=weights)
    first = np.zeros(6, dtype=bool)
    first[np.unique(weights, axis=1, return_index=True)[1]] = True
    assert problem.questions.tolist() == first.tolist() == [True, True, False, True, False, False]
