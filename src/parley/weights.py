"""Weight matrices, and the [weights] section of the study file.

`weights[n, m]` is the weight of agent n's reward in agent m's mix; columns sum to 1. The builders here make a row and a
column for every site, which draws and asks; `parley.questions` adds the columns of questions that only ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import InvalidInput, UnknownName
from parley.settings import NUMBER, REQUIRED, Key
from parley.text.formatting import plural
from parley.validation.checks import BoolArray, FloatArray, positive, real_array, whole

LARGEST_SEED = 2**32 - 1
WEIGHT_KEYS = {  # kind -> the keys that it reads
    "identity": (),
    "personalized": ("alpha", "seed", "alpha_range", "steps", "refine"),
    "clusters": ("labels",),
    "similarity": ("matrix", "features", "kernel", "bandwidth"),
    "population": ("shares",),
    "matrix": ("matrix", "file"),
    "nested": ("mix",),
}
STRATA_KEYS = ("site_of", "stratum_of")  # with any kind: the site and the stratum of each agent
EVERY_KIND = ("kind", "reason", *STRATA_KEYS)

KERNELS = ("rbf", "cosine")

WEIGHTS = {
    "kind": Key(
        kinds=(str,),
        meaning='`"identity"`: every agent alone. `"personalized"`: alpha of the agent\'s own reward, the rest the '
        'average of all. `"clusters"`: equal shares within a cluster. `"similarity"`: in proportion to a similarity. '
        '`"population"`: everyone wants the arm that is best for all, with agents weighted by their share. '
        '`"matrix"`: as given. `"nested"`: [sites with strata](strata.md#what-the-weights-mean), a mix of the own '
        "cell, the own site, the own stratum and everybody",
        default='`"identity"`',
        limits={"enum": list(WEIGHT_KEYS)},
    ),
    "alpha": Key(
        kinds=(int, float, list, str),
        meaning='personalized: a number in [0, 1], one per agent, or `"random"` (uniform, one per agent)',
        default=REQUIRED,
    ),
    "alpha_range": Key(
        kinds=(list,),
        meaning="personalized, instead of `alpha`: `[low, high]`, where alpha is "
        "[in doubt](weights.md#weights-in-doubt); every site asks at each of the `steps`. Needs a tolerance",
    ),
    "steps": Key(kinds=(int,), meaning="alpha_range: how many values of alpha, evenly spaced, are asked", default="5"),
    "refine": Key(
        kinds=(int,),
        meaning="alpha_range and scenarios: how many times the distance between two steps may be halved where their "
        "answers differ; every [finer step](weights.md#finer-steps) has its share of delta set aside",
        default="0",
    ),
    "scenarios": Key(
        kinds=(list,),
        meaning="`[[weights.scenarios]]`, instead of all other keys but `refine`: weights "
        "[in doubt](weights.md#weights-in-doubt), each with a `name` and keys of this section. Needs a tolerance",
    ),
    "seed": Key(
        kinds=(int,), meaning='personalized with `alpha = "random"`: the seed of the random alphas', default="0"
    ),
    "labels": Key(kinds=(list,), meaning="clusters: one label per agent", default=REQUIRED),
    "matrix": Key(
        kinds=(list,),
        meaning="similarity: a similarity per pair of agents, columns are normalised; matrix: the weights themselves, "
        "row n, column m",
        default="this or `features` (similarity) or `file` (matrix)",
    ),
    "features": Key(kinds=(list,), meaning="similarity: one feature vector per agent"),
    "kernel": Key(kinds=(str,), meaning='similarity from features: `"rbf"` or `"cosine"`', default='`"rbf"`'),
    "bandwidth": Key(kinds=NUMBER, meaning="rbf: the distance at which similarity has fallen to 0.61", default="1.0"),
    "shares": Key(kinds=(list,), meaning="population: one size per agent, in any unit", default=REQUIRED),
    "mix": Key(
        kinds=(list,),
        meaning="nested: four weights that sum to 1, of the agent's own reward and of the averages over its site, over "
        "its stratum at all sites, and over everybody",
        default=REQUIRED,
    ),
    "site_of": Key(
        kinds=(list,),
        meaning="the site of every agent: agents of one site are its [strata](strata.md), and share a page; with any "
        "kind of weights",
        default="every agent is a site; nested: required",
    ),
    "stratum_of": Key(
        kinds=(list,),
        meaning="the stratum of every agent, each once at a site; with `site_of`",
        default="none; nested: required",
    ),
    "reason": Key(
        kinds=(str,),
        meaning="why these weights, in your own words, for whoever reads the protocol",
    ),
    "file": Key(kinds=(str,), meaning="matrix: a `.csv` or `.npy` file, relative to the study file"),
}


def identity(agents: int) -> FloatArray:
    """Weights without collaboration: every agent counts only its own rewards.

    >>> identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.eye(agents)


def personalized(agents: int, alpha: ArrayLike) -> FloatArray:
    """Federated learning with personalization: alpha times an agent's own reward plus 1 - alpha times the average.

    `alpha` is one number, or one per agent (column m uses alpha[m]).

    >>> personalized(2, 0.5).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    levels = real_array("alpha", alpha, "numbers")
    if levels.ndim > 1 or (levels.ndim == 1 and len(levels) != agents):
        found = f"{levels.size} numbers" if levels.ndim == 1 else "nested lists"
        raise InvalidInput("alpha", found=found, allowed=f"one number, or {agents} (one per agent)")
    if not ((levels >= 0) & (levels <= 1)).all():
        raise InvalidInput("alpha", found=alpha, allowed="numbers between 0 and 1")
    return np.eye(agents) * levels + (1 - levels) / agents * np.ones((agents, 1))


def alphas_of(weights: FloatArray) -> FloatArray | None:
    """`(agent,)`: every agent's alpha if the weights are personalized; None if they are not, or for a single agent.

    >>> alphas_of(personalized(3, [0.5, 0.2, 1.0])).round(6).tolist(), alphas_of(population([3, 1]))
    ([0.5, 0.2, 1.0], None)
    """
    agents = len(weights)
    if agents == 1:
        return None
    own = np.diag(weights)
    alphas = np.clip(own - (1 - own) / (agents - 1), 0.0, 1.0)
    return alphas if np.allclose(weights, personalized(agents, alphas), rtol=0, atol=1e-9) else None


STEPS = 11  # number of values on a path


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightPath:
    """A path of weights: from equal weights, through a study's own weights, to each agent's own reward alone.

    Between two neighbouring values every weight changes linearly.

    >>> path = WeightPath.through(personalized(2, 0.5))
    >>> path.axis, path.values[:3], path.stated.tolist(), path.at(1.0).tolist()
    ('alpha', (0.0, 0.1, 0.2), [0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    """

    weights: FloatArray  # the study's own weights
    draws: BoolArray  # (agent,): which agents have rewards; the weights of other agents' questions never change
    axis: str  # what the values mean, in words
    values: tuple[float, ...]  # ascending
    stated: FloatArray  # (agent,): the value of the study's own weights

    @classmethod
    def through(cls, weights: FloatArray, draws: BoolArray | None = None) -> WeightPath:
        """The path along alpha if weights are personalized, else from -1 (all equal) via 0 (as stated) to 1 (own only).

        `draws (agent,)` says which agents have rewards of their own; by default, all do.
        """
        sites = np.ones(len(weights), dtype=np.bool_) if draws is None else draws
        alphas, stated = alphas_of(weights[np.ix_(sites, sites)]), np.zeros(len(weights))
        if alphas is None:
            axis, low = "-1: equal weights, 0: weights as stated, 1: own results only", -1.0
        else:
            stated[sites] = alphas
            axis, low = "alpha", 0.0
        values = {round(value, 6) for value in np.linspace(low, 1.0, STEPS).tolist()}
        # If all sites share one alpha, that alpha is added, so that the study's own weights lie exactly on the path.
        same = {round(value, 6) for value in stated[sites].tolist()}
        return cls(
            weights=weights,
            draws=sites,
            axis=axis,
            values=tuple(sorted(values | (same if len(same) == 1 else set()))),
            stated=stated,
        )

    @property
    def straight(self) -> bool:
        """Whether the path is a single straight line; otherwise it has a corner at the study's own weights."""
        return self.axis == "alpha"

    def at(self, value: float) -> FloatArray:
        """The weights at one value of the path's axis."""
        return np.where(self.draws, self._moved(value), self.weights)

    def _moved(self, value: float) -> FloatArray:
        if self.straight:
            moved = np.zeros(self.weights.shape)
            moved[np.ix_(self.draws, self.draws)] = personalized(int(self.draws.sum()), value)
            return moved
        heard = np.asarray(self.weights.any(axis=1))  # a site without any weight, such as a lost one, gets none
        end = identity(len(self.weights)) if value > 0 else np.outer(heard / heard.sum(), np.ones(len(heard)))
        return np.asarray((1 - abs(value)) * self.weights + abs(value) * end)


def clusters(labels: Sequence[object]) -> FloatArray:
    """Weights by cluster: agents with the same label weigh each other equally and ignore all others.

    >>> clusters(["north", "north", "south"]).tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InvalidInput("labels", found=repr(label), allowed="text or whole numbers, one label per agent")
    same = np.array([[a == b for b in labels] for a in labels], dtype=np.float64)
    return same / same.sum(axis=0)  # type: ignore[no-any-return]


def nested(site_of: Sequence[str], stratum_of: Sequence[str], mix: ArrayLike) -> FloatArray:
    """Weights of strata within sites; `mix` has the weights of an agent's own cell, site and stratum, and of everybody.

    >>> nested(["A", "A", "B", "B"], ["young", "old", "young", "old"], [0.4, 0.2, 0.2, 0.2])[:, 0].round(2).tolist()
    [0.65, 0.15, 0.15, 0.05]
    """
    levels = real_array("mix", mix, "numbers")
    if levels.shape != (4,) or not (levels >= 0).all() or abs(levels.sum() - 1) > 1e-9:
        allowed = "four numbers of at least 0 that sum to 1: the own cell, the own site, the own stratum, everybody"
        raise InvalidInput("mix", found=mix, allowed=allowed)
    agents = len(site_of)
    parts = (identity(agents), clusters(site_of), clusters(stratum_of), np.full((agents, agents), 1 / agents))
    return np.asarray(np.tensordot(levels, np.array(parts), axes=1))


def strata_of(section: Mapping[str, Any], agents: int) -> dict[str, tuple[str, ...]]:
    """The checked settings `site_of` and `stratum_of` of a [weights] section; empty if the section has neither.

    >>> strata_of({"site_of": ["A", "A"], "stratum_of": ["young", "old"]}, 2)
    {'site_of': ('A', 'A'), 'stratum_of': ('young', 'old')}
    """
    given = {key: section[key] for key in STRATA_KEYS if key in section}
    needed = STRATA_KEYS if given or section.get("kind") == "nested" else ()
    for key in needed:
        found = given.get(key, "nothing")
        if not isinstance(found, list) or not all(isinstance(name, str) and name.strip() for name in found):
            raise InvalidInput(f"weights.{key}", found=found, allowed="names, one per agent, in site_of and stratum_of")
        if len(found) != agents:
            raise InvalidInput(
                f"weights.{key}", found=f"{len(found)} for {plural(agents, 'agent')}", allowed="one per agent"
            )
    cells = list(zip(given.get("site_of", ()), given.get("stratum_of", ()), strict=True))
    for place, (site, stratum) in enumerate(cells):
        if (site, stratum) in cells[:place]:
            found = f"{stratum!r} twice at {site!r}"
            raise InvalidInput("weights.stratum_of", found=found, allowed="every stratum once at a site")
    return {key: tuple(value) for key, value in given.items()}


def similarity(matrix: ArrayLike) -> FloatArray:
    """Weights in proportion to a similarity: entry (n, m) says how similar n is to m; columns are normalised.

    >>> similarity([[1.0, 0.25], [0.25, 1.0]]).round(2).tolist()
    [[0.8, 0.2], [0.2, 0.8]]
    """
    values = real_array("similarity", matrix, "numbers")
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InvalidInput("similarity", found=f"shape {values.shape}", allowed="a square matrix, a row per agent")
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        raise InvalidInput("similarity", found=values[wrong][0], allowed="finite similarities of at least 0")
    sums = values.sum(axis=0)
    if (sums <= 0).any():
        raise InvalidInput(
            "similarity",
            found=f"column {int(np.argmin(sums))} is all zero",
            allowed="every agent similar to some agent (usually to itself)",
        )
    return values / sums  # type: ignore[no-any-return]


def features(vectors: ArrayLike, *, kernel: str = "rbf", bandwidth: float = 1.0) -> FloatArray:
    """Weights in proportion to the similarity of agents' feature vectors, one vector per agent.

    `rbf` is exp(-|a - b|^2 / (2 bandwidth^2)); `cosine` is the cosine of the angle, with negative values taken as 0.

    >>> features([[0.0], [1.0]], kernel="rbf").round(3).tolist()
    [[0.622, 0.378], [0.378, 0.622]]
    """
    points = real_array("features", vectors, "numbers")
    if points.ndim != 2 or points.size == 0 or not np.isfinite(points).all():
        raise InvalidInput(
            "features", found=f"shape {points.shape}", allowed="a finite vector per agent, equal lengths"
        )
    if kernel not in KERNELS:
        raise UnknownName("kernel", kernel, KERNELS)
    positive("bandwidth", bandwidth)
    if kernel == "rbf":
        distances = np.square(points[:, None, :] - points[None, :, :]).sum(axis=-1)
        return similarity(np.exp(-distances / (2 * bandwidth**2)))
    lengths = np.linalg.norm(points, axis=1)
    if (lengths == 0).any():
        raise InvalidInput("features", found="a vector of length 0", allowed="non-zero vectors for the cosine kernel")
    unit = points / lengths[:, None]
    return similarity(np.maximum(unit @ unit.T, 0))


def population(shares: ArrayLike) -> FloatArray:
    """Weights by share: all agents ask for the arm that is best for the population, so every column holds the shares.

    >>> population([3, 1]).tolist()
    [[0.75, 0.75], [0.25, 0.25]]
    """
    sizes = real_array("shares", shares, "numbers")
    if sizes.ndim != 1 or not (np.isfinite(sizes) & (sizes >= 0) & (sizes < 1e300)).all() or sizes.sum() <= 0:
        raise InvalidInput("shares", found=shares, allowed="a non-negative size per agent, not all zero")
    return np.repeat((sizes / sizes.sum())[:, None], len(sizes), axis=1)


def from_file(path: Path) -> FloatArray:
    """Read a matrix from a `.csv` (comma-separated rows) or `.npy` file; row n, column m is `weights[n, m]`."""
    if not path.is_file():
        raise InvalidInput("weights.file", found=f"no file at {path}", allowed="an existing .csv or .npy file")
    try:
        # A pickled array could run code when it is loaded.
        if path.suffix == ".npy":
            return real_array("weights.file", np.load(path, allow_pickle=False), "numbers")
        if path.suffix == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=2)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInput("weights.file", found=f"{path}: {error}", allowed="a matrix of numbers") from None
    raise InvalidInput("weights.file", found=path.name, allowed="a name that ends in .csv or .npy")


def _only_one(section: Mapping[str, Any], *keys: str) -> None:
    given = [key for key in keys if key in section]
    if len(given) > 1:
        raise InvalidInput("weights", found=" and ".join(given), allowed=f"only one of {', '.join(keys)}")


def weights_of(section: Mapping[str, Any], agents: int, folder: Path) -> FloatArray:
    """The matrix that a [weights] section describes; the path of its file is relative to `folder`."""
    kind = section.get("kind", "identity")
    if kind not in WEIGHT_KEYS:
        raise UnknownName("weights.kind", kind, WEIGHT_KEYS)
    for key in section:
        if key not in (*EVERY_KIND, *WEIGHT_KEYS[kind]):
            raise UnknownName(f"key in [weights] with kind {kind!r}", key, (*EVERY_KIND, *WEIGHT_KEYS[kind]))
    strata = strata_of(section, agents)

    def required(*keys: str) -> Any:
        for key in keys:
            if key in section:
                return section[key]
        raise InvalidInput(f"weights.{keys[0]}", found="nothing", allowed=f"{' or '.join(keys)} with kind {kind!r}")

    def one_each(key: str) -> Any:
        if len(required(key)) != agents:
            found = f"{len(section[key])} for {plural(agents, 'agent')}"
            raise InvalidInput(f"weights.{key}", found=found, allowed="one per agent")
        return section[key]

    if kind == "identity":
        return identity(agents)
    if kind == "personalized":
        return personalized(agents, _alpha(required("alpha"), section.get("seed"), agents))
    if kind == "clusters":
        return clusters(one_each("labels"))
    if kind == "population":
        return population(one_each("shares"))
    if kind == "nested":
        return nested(**strata, mix=required("mix"))
    if kind == "matrix":
        _only_one(section, "matrix", "file")
        given = required("matrix", "file")
        return from_file(folder / given) if "file" in section else given
    _only_one(section, "matrix", "features")
    required("matrix", "features")
    if "matrix" in section:
        for key in ("kernel", "bandwidth"):
            if key in section:
                raise InvalidInput(f"weights.{key}", found="a value with a matrix", allowed="only with features")
        return similarity(one_each("matrix"))
    shape = {key: section[key] for key in ("kernel", "bandwidth") if key in section}
    return features(one_each("features"), **shape)


def _alpha(value: Any, seed: int | None, agents: int) -> Any:
    if value == "random":
        return np.random.RandomState(whole("weights.seed", seed or 0, 0, LARGEST_SEED)).uniform(0, 1, agents)
    if isinstance(value, str) or seed is not None:
        found = repr(value) if seed is None else f"seed = {seed} with alpha = {value!r}"
        raise InvalidInput(
            "weights.alpha", found=found, allowed='a number, a list of numbers, or "random" (then with a seed)'
        )
    return value
