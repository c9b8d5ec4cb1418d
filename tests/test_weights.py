import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley import weights
from parley.errors import InvalidInput
from parley.problem import Problem
from parley.protocol import StudyMessage
from parley.study import parse_study


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
        weights.nested(
            rng.choice(["A", "B"], agents).tolist(),
            rng.choice(["old", "young"], agents).tolist(),
            rng.dirichlet([1] * 4),
        ),
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
        (lambda: weights.nested(["A"], ["old"], [0.5, 0.5, 0.5, 0]), "mix: found .*four numbers .* that sum to 1"),
        (lambda: weights.nested(["A"], ["old"], [0.5, 0.5]), "the own cell, the own site, the own stratum, everybody"),
    ],
)
def test_bad_weights_are_named(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


CELLS = {"site_of": ["A", "A", "B", "B"], "stratum_of": ["young", "old", "young", "old"]}


def test_nested_mixes_the_own_cell_the_own_site_the_own_stratum_and_everybody():
    """Three sites of unequal numbers of strata: every average is over those that there are."""
    made = weights.nested(["A", "A", "B", "C"], ["young", "old", "young", "young"], [0.4, 0.3, 0.2, 0.1])
    young, old = 0.2 / 3, 0.2
    everybody = 0.1 / 4
    first = [0.4 + 0.15 + young + everybody, 0.15 + everybody, young + everybody, young + everybody]
    assert made[:, 0] == pytest.approx(first)
    assert made[:, 1] == pytest.approx([0.15 + everybody, 0.4 + 0.15 + old + everybody, everybody, everybody])
    assert made[2, 2] == pytest.approx(0.4 + 0.3 + young + everybody)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"site_of": ["A", "A", "B"]}, "weights.site_of: found 3 for 4 agents; allowed: one per agent"),
        ({"stratum_of": None}, "weights.stratum_of: found nothing; allowed: names, one per agent"),
        ({"stratum_of": ["old", "old", "young", "old"]}, "found 'old' twice at 'A'; allowed: every stratum once"),
        ({"stratum_of": ["old", "", "young", "old"]}, "weights.stratum_of: .* allowed: names, one per agent"),
        ({"mix": None}, "weights.mix: found nothing"),
    ],
)
def test_sites_and_strata_that_do_not_fit_are_named(keys, says):
    section = {"kind": "nested", **CELLS, "mix": [0.4, 0.2, 0.2, 0.2], **keys}
    section = {key: value for key, value in section.items() if value is not None}
    with pytest.raises(InvalidInput, match=says):
        parse_study({"arms": 2, "agents": 4, "weights": section})


def test_a_study_knows_its_strata_with_any_weights_and_so_does_who_reads_its_message():
    weighed = parse_study({"arms": 2, "agents": 4, "weights": {"kind": "nested", **CELLS, "mix": [0.4, 0.2, 0.2, 0.2]}})
    asked = {"questions": [{"name": "all", "weights": dict.fromkeys(map("agent {}".format, range(1, 5)), 0.25)}]}
    alone = parse_study({"arms": 2, "agents": 4, "weights": CELLS, **asked})
    for study, further in ((weighed, ()), (alone, ("",))):
        message = StudyMessage.read(StudyMessage.of(study).text)
        assert message.problem.site_of == ("A", "A", "B", "B", *further)
        assert message.problem.stratum_of == ("young", "old", "young", "old", *further)
    assert weighed.problem.weights[:, 0] == pytest.approx([0.65, 0.15, 0.15, 0.05])


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
