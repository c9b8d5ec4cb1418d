import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley import weights
from parley.errors import InvalidInput
from parley.problem import Problem


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_every_builder_gives_columns_that_sum_to_one(agents, seed):
    rng = np.random.default_rng(seed)
    made = [
        weights.identity(agents),
        weights.personalized(agents, rng.uniform()),
        weights.personalized(agents, rng.uniform(size=agents)),
        weights.clusters(rng.integers(0, 3, agents).tolist()),
        weights.similarity(rng.uniform(0.01, 1, (agents, agents))),
        weights.features(rng.normal(size=(agents, 2)), kernel="rbf", bandwidth=0.7),
        weights.features(rng.normal(size=(agents, 2)), kernel="cosine"),
        weights.population(rng.uniform(0.1, 1, agents)),
    ]
    for matrix in made:
        assert matrix.sum(axis=0) == pytest.approx(np.ones(agents))
        Problem(arms=2, weights=matrix)


def test_personalized_per_agent_puts_alpha_in_the_agents_own_column():
    matrix = weights.personalized(2, [1.0, 0.0])
    assert matrix.tolist() == [[1.0, 0.5], [0.0, 0.5]]


def test_similarity_keeps_the_orientation_of_an_asymmetric_matrix():
    matrix = weights.similarity([[3.0, 1.0], [1.0, 0.0]])
    assert matrix.tolist() == [[0.75, 1.0], [0.25, 0.0]]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: weights.personalized(3, 1.5), "alpha: found 1.5; allowed: numbers between 0 and 1"),
        (lambda: weights.personalized(3, [0.5, 0.5]), "2 numbers; allowed: one number, or 3"),
        (lambda: weights.personalized(3, float("nan")), "numbers between 0 and 1"),
        (lambda: weights.similarity([[1.0, -0.1], [0.1, 1.0]]), "similarities of at least 0"),
        (lambda: weights.similarity([[1.0, 0.0], [1.0, 0.0]]), "column 1 is all zero"),
        (lambda: weights.similarity([[1.0, 0.0]]), "a square matrix"),
        (lambda: weights.features([[1.0], [2.0]], kernel="linear"), "one of cosine, rbf"),
        (lambda: weights.features([[1.0], [2.0]], bandwidth=0), "bandwidth"),
        (lambda: weights.features([[0.0], [2.0]], kernel="cosine"), "length 0"),
        (lambda: weights.population([1, -1]), "non-negative size"),
    ],
)
def test_bad_weights_are_named(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


def test_files(tmp_path):
    matrix = np.array([[0.9, 0.4], [0.1, 0.6]])
    np.save(tmp_path / "w.npy", matrix)
    np.savetxt(tmp_path / "w.csv", matrix, delimiter=",")
    for name in ("w.npy", "w.csv"):
        assert weights.from_file(tmp_path / name) == pytest.approx(matrix)
    (tmp_path / "bad.csv").write_text("1,x\n2,3\n")
    for name, says in {"none.csv": "no file", "bad.csv": "a matrix of numbers", "w.txt": "no file"}.items():
        with pytest.raises(InvalidInput, match=says):
            weights.from_file(tmp_path / name)
