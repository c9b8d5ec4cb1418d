"""What the sections [weights] and [truth] of a study file describe: a weight matrix, and an instance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parley import weights as build
from parley.checks import FloatArray
from parley.errors import InvalidInput, UnknownName
from parley.keys import NUMBER, REQUIRED, Key
from parley.problem import Instance, Problem, top_gaps

__all__ = ["TRUTH", "WEIGHTS", "WEIGHT_KEYS", "paper_means", "truth_of", "weights_of"]

WEIGHTS = {
    "kind": Key(
        kinds=(str,),
        meaning='`"identity"`: every agent alone. `"personalized"`: alpha of one\'s own, the rest everyone\'s average. '
        '`"clusters"`: equal shares within a cluster. `"similarity"`: in proportion to a similarity. `"population"`: '
        "everyone wants the arm best for all, agents weighed by their share. "
        '`"matrix"`: as given',
        default='`"identity"`',
    ),
    "alpha": Key(
        kinds=(int, float, list, str),
        meaning='personalized: a number in [0, 1], one per agent, or `"random"` (uniform, one per agent)',
        default=REQUIRED,
    ),
    "seed": Key(
        kinds=(int,), meaning='personalized with `alpha = "random"`: where the random alphas start', default="0"
    ),
    "labels": Key(kinds=(list,), meaning="clusters: one label per agent", default=REQUIRED),
    "matrix": Key(
        kinds=(list,),
        meaning="similarity: a similarity per pair of agents, columns are normalised; matrix: the weights themselves, "
        "row n, column m",
        default="this or the next",
    ),
    "features": Key(kinds=(list,), meaning="similarity: one feature vector per agent"),
    "kernel": Key(kinds=(str,), meaning='similarity from features: `"rbf"` or `"cosine"`', default='`"rbf"`'),
    "bandwidth": Key(kinds=NUMBER, meaning="rbf: the distance at which similarity has fallen to 0.61", default="1.0"),
    "shares": Key(kinds=(list,), meaning="population: one size per agent, in any unit", default=REQUIRED),
    "file": Key(kinds=(str,), meaning="matrix: a `.csv` or `.npy` file, relative to the study file"),
}
TRUTH = {
    "means": Key(
        kinds=(list,), meaning="the true local means, a row per arm, a column per agent", default="this or the next"
    ),
    "generate": Key(
        kinds=(str,),
        meaning='`"paper"`: the paper\'s recipe; with 6 arms, 3 agents and seed 0 the very instance of its tables',
    ),
    "scale": Key(
        kinds=(int, float, list),
        meaning="gaussian, subgaussian: the standard deviation to simulate and to compute bounds with, a number, a row "
        "per agent or a matrix",
        default="`noise.scale`, or `noise.guess` where that is unknown",
    ),
    "seed": Key(kinds=(int,), meaning="generate: where it starts", default="0"),
    "min_gap": Key(kinds=NUMBER, meaning="generate: draws again until no gap is smaller", default="0.05"),
}

WEIGHT_KEYS = {  # kind -> the keys it reads, the first of which must be there
    "identity": (),
    "personalized": ("alpha", "seed"),
    "clusters": ("labels",),
    "similarity": ("matrix", "features", "kernel", "bandwidth"),
    "population": ("shares",),
    "matrix": ("matrix", "file"),
}
GENERATORS = ("paper",)
# The recipe draws again until the gaps are wide enough; past this the wish is taken to be impossible.
MAX_DRAWS = 10_000
LARGEST_SEED = 2**32 - 1


def _seed(key: str, value: int) -> int:
    if not 0 <= value <= LARGEST_SEED:
        raise InvalidInput(key, found=value, allowed=f"a whole number from 0 to {LARGEST_SEED}")
    return value


def _only_one(section: Mapping[str, Any], *keys: str) -> None:
    given = [key for key in keys if key in section]
    if len(given) > 1:
        raise InvalidInput("weights", found=" and ".join(given), allowed=f"only one of {', '.join(keys)}")


def weights_of(section: Mapping[str, Any], agents: int, folder: Path) -> FloatArray:
    """The matrix that a [weights] section describes; `folder` is where its file is looked for."""
    kind = section.get("kind", "identity")
    if kind not in WEIGHT_KEYS:
        raise UnknownName("weights.kind", kind, WEIGHT_KEYS)
    for key in section:
        if key != "kind" and key not in WEIGHT_KEYS[kind]:
            raise UnknownName(f"key in [weights] with kind {kind!r}", key, ("kind", *WEIGHT_KEYS[kind]))

    def required(*keys: str) -> Any:
        for key in keys:
            if key in section:
                return section[key]
        raise InvalidInput(f"weights.{keys[0]}", found="nothing", allowed=f"{' or '.join(keys)} with kind {kind!r}")

    def one_each(key: str) -> Any:
        if len(required(key)) != agents:
            found = f"{len(section[key])} for {agents} agents"
            raise InvalidInput(f"weights.{key}", found=found, allowed="one per agent")
        return section[key]

    if kind == "identity":
        return build.identity(agents)
    if kind == "personalized":
        return build.personalized(agents, _alpha(required("alpha"), section.get("seed"), agents))
    if kind == "clusters":
        return build.clusters(one_each("labels"))
    if kind == "population":
        return build.population(one_each("shares"))
    if kind == "matrix":
        _only_one(section, "matrix", "file")
        given = required("matrix", "file")
        return build.from_file(folder / given) if "file" in section else given
    _only_one(section, "matrix", "features")
    required("matrix", "features")
    if "matrix" in section:
        for key in ("kernel", "bandwidth"):
            if key in section:
                raise InvalidInput(f"weights.{key}", found="a value with a matrix", allowed="only with features")
        return build.similarity(one_each("matrix"))
    shape = {key: section[key] for key in ("kernel", "bandwidth") if key in section}
    return build.features(one_each("features"), **shape)


def _alpha(value: Any, seed: int | None, agents: int) -> Any:
    if value == "random":
        return np.random.RandomState(_seed("weights.seed", seed or 0)).uniform(0, 1, agents)
    if isinstance(value, str) or seed is not None:
        found = repr(value) if seed is None else f"seed = {seed} with alpha = {value!r}"
        raise InvalidInput(
            "weights.alpha", found=found, allowed='a number, a list of numbers, or "random" (then with a seed)'
        )
    return value


def paper_means(problem: Problem, *, seed: int = 0, min_gap: float = 0.05) -> FloatArray:
    """The paper's recipe (Appendix E): Gaussian means over their Frobenius norm, drawn until no gap is below `min_gap`.

    NumPy's legacy generator, so that seed 0 with 6 arms and 3 agents gives the very instance of the paper's tables.
    """
    if not 0 < min_gap < np.inf:
        raise InvalidInput("truth.min_gap", found=min_gap, allowed="a finite number above 0")
    generator = np.random.RandomState(_seed("truth.seed", seed))
    for _ in range(MAX_DRAWS):
        draw = generator.normal(0, 1, problem.shape)
        means: FloatArray = draw / np.linalg.norm(draw)
        if top_gaps(problem.mixed(means), problem.top).min() >= min_gap:
            return means
    raise InvalidInput(
        "truth.min_gap",
        found=f"{min_gap}, which none of {MAX_DRAWS:,} random instances of {problem.shape[0]} arms reached",
        allowed="a smaller gap",
    )


def truth_of(section: Mapping[str, Any], problem: Problem) -> Instance:
    """The instance that a [truth] section describes."""
    if "means" in section:
        if set(section) - {"means", "scale"}:
            raise InvalidInput("truth", found=", ".join(section), allowed="either means or generate, not both")
        return _within(Instance(problem=problem, means=section["means"], scale=section.get("scale")))
    generate = section.get("generate")
    if generate not in GENERATORS:
        if generate is None:
            found = ", ".join(section) or "an empty section"
            raise InvalidInput("truth", found=found, allowed="means or generate")
        raise UnknownName("truth.generate", generate, GENERATORS)
    recipe = {key: section[key] for key in ("seed", "min_gap") if key in section}
    means = paper_means(problem, **recipe)
    try:
        problem.noise.check_means(means)
    except InvalidInput:
        raise InvalidInput(
            "truth.generate",
            found=f"means from {means.min():.3f} to {means.max():.3f}, rewards in another range",
            allowed="rewards whose range holds the recipe's means, which lie between -1 and 1",
        ) from None
    return _within(Instance(problem=problem, means=means, scale=section.get("scale")))


def _within(instance: Instance) -> Instance:
    """No gap may exceed `largest_gap`: W-CPE starts there, and its guarantee rests on it."""
    if instance.gaps.max() > instance.problem.largest_gap:
        raise InvalidInput(
            "largest_gap",
            found=f"{instance.problem.largest_gap:g} with means that are {instance.gaps.max():g} apart",
            allowed="at least the largest gap",
            hint="Raise largest_gap, or check the scale of the means",
        )
    return instance
