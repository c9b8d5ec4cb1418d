"""The study file: TOML to `Study` (a problem, a policy, perhaps a truth) and back.

The keys of every section stand in one table, `SECTIONS`; a key that is not there is an error that lists those that
are. `docs/study-file.md` explains them to users, and a test holds that page against the table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parley import weights as build
from parley.errors import InvalidInput, InvalidStudy, UnknownName
from parley.problem import FloatArray, Instance, Noise, Problem

__all__ = ["DEFAULT_POLICY", "Study", "load_study", "paper_means", "parse_study"]

DEFAULT_POLICY = "evidence"

Number = (int, float)
SECTIONS: dict[str, dict[str, tuple[type, ...]]] = {
    "": {
        "name": (str,),
        "arms": (int, list),
        "agents": (int, list),
        "delta": Number,
        "top": (int,),
        "largest_gap": Number,
        "weights": (dict,),
        "noise": (dict,),
        "policy": (dict,),
        "truth": (dict,),
    },
    "weights": {
        "kind": (str,),
        "alpha": (int, float, list, str),
        "seed": (int,),
        "labels": (list,),
        "matrix": (list,),
        "features": (list,),
        "kernel": (str,),
        "bandwidth": Number,
        "shares": (list,),
        "file": (str,),
    },
    "noise": {"kind": (str,), "scale": Number, "low": Number, "high": Number},
    "policy": {"name": (str,)},  # every other key is an option of that policy, checked by the policy
    "truth": {"means": (list,), "generate": (str,), "seed": (int,), "min_gap": Number},
}
REQUIRED = ("arms", "agents")
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


@dataclass(frozen=True, kw_only=True)
class Study:
    """One study: the problem, the policy that will answer it, and, to simulate or to bound, the truth.

    >>> study = parse_study({"arms": 3, "agents": 2, "truth": {"generate": "paper"}})
    >>> study.name, study.policy, study.instance.means.shape
    ('study', 'evidence', (3, 2))
    """

    name: str = "study"
    problem: Problem
    policy: str = DEFAULT_POLICY
    options: Mapping[str, Any] = field(default_factory=dict)
    instance: Instance | None = None

    def require_truth(self) -> Instance:
        """The instance, or an error that says how to state one."""
        if self.instance is None:
            raise InvalidInput(
                "truth",
                found="a study without a [truth] section",
                allowed='means = [[...], ...] (a row per arm, a column per agent) or generate = "paper"',
                hint="Bounds and simulations need true means",
            )
        return self.instance


def paper_means(problem: Problem, *, seed: int = 0, min_gap: float = 0.05) -> FloatArray:
    """The paper's recipe (Appendix E): Gaussian means over their Frobenius norm, drawn until no gap is below `min_gap`.

    NumPy's legacy generator, so that seed 0 with 6 arms and 3 agents gives the very instance of the paper's tables.
    """
    generator = np.random.RandomState(seed)
    for _ in range(MAX_DRAWS):
        draw = generator.normal(0, 1, problem.shape)
        means: FloatArray = draw / np.linalg.norm(draw)
        if Instance(problem=problem.with_(noise=Noise()), means=means).smallest_gap >= min_gap:
            return means
    raise InvalidInput(
        "truth.min_gap",
        found=f"{min_gap}, which none of {MAX_DRAWS:,} random instances of {problem.shape[0]} arms reached",
        allowed="a smaller gap",
    )


def load_study(path: str | Path) -> Study:
    """Read a study file; every error names the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput("study file", found=f"no file at {path}", allowed="the path of a TOML study file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("study file", found=f"{path}: {error}", allowed="a readable TOML file") from None
    try:
        return parse_study(tomllib.loads(text), folder=path.parent, default_name=path.stem)
    except tomllib.TOMLDecodeError as error:
        cause = InvalidInput("TOML", found=str(error), allowed="a valid TOML document")
        raise InvalidStudy(str(path), cause) from None
    except InvalidInput as error:
        raise InvalidStudy(str(path), error) from None


def parse_study(document: Mapping[str, Any], *, folder: Path = Path(), default_name: str = "study") -> Study:
    """Check a parsed study document and build what it describes; `folder` is where its relative paths start."""
    _check_section("", document)
    for key in REQUIRED:
        if key not in document:
            raise InvalidInput(key, found="nothing", allowed="a whole number or a list of names")
    noise_keys = _section(document, "noise")
    agents = document["agents"]
    agent_count = agents if isinstance(agents, int) else len(agents)
    if agent_count < 1 or isinstance(agents, bool):
        raise InvalidInput("agents", found=repr(agents), allowed="at least 1 agent")
    problem = Problem(
        arms=document["arms"],
        agents=agents,
        weights=_weights(_section(document, "weights"), agent_count, folder),
        delta=float(document.get("delta", 0.1)),
        top=document.get("top", 1),
        largest_gap=float(document.get("largest_gap", 1.0)),
        noise=Noise(**noise_keys),
    )
    policy = dict(document.get("policy", {}))
    _check_types("policy", {"name": policy.get("name", DEFAULT_POLICY)})
    return Study(
        name=document.get("name", default_name),
        problem=problem,
        policy=policy.pop("name", DEFAULT_POLICY),
        options=policy,
        instance=_truth(_section(document, "truth"), problem),
    )


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name, {})
    _check_section(name, section)
    return section  # type: ignore[no-any-return]


def _check_section(name: str, section: Mapping[str, Any]) -> None:
    known = SECTIONS[name]
    for key in section:
        if key not in known:
            raise UnknownName(f"key in [{name}]" if name else "key", key, known)
    _check_types(name, section)


def _check_types(name: str, section: Mapping[str, Any]) -> None:
    for key, value in section.items():
        allowed = SECTIONS[name].get(key, (object,))
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            names = {int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a section"}
            raise InvalidInput(
                f"{name}.{key}" if name else key,
                found=repr(value),
                allowed=" or ".join(names[kind] for kind in allowed if not (kind is int and float in allowed)),
            )


def _weights(section: Mapping[str, Any], agents: int, folder: Path) -> FloatArray:
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

    def matrix(key: str) -> FloatArray:
        try:
            return np.array(section[key], dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"weights.{key}", found="uneven rows or not numbers", allowed="rows of numbers"
            ) from None

    if kind == "identity":
        return build.identity(agents)
    if kind == "personalized":
        return build.personalized(agents, _alpha(required("alpha"), section.get("seed"), agents))
    if kind == "clusters":
        return build.clusters(required("labels"))
    if kind == "population":
        required("shares")
        return build.population(matrix("shares"))
    required("matrix", *(("features",) if kind == "similarity" else ("file",)))
    if kind == "matrix":
        return build.from_file(folder / section["file"]) if "file" in section else matrix("matrix")
    if "matrix" in section:
        return build.similarity(matrix("matrix"))
    shape = {key: section[key] for key in ("kernel", "bandwidth") if key in section}
    return build.features(matrix("features"), **shape)


def _alpha(value: Any, seed: int | None, agents: int) -> Any:
    if value == "random":
        return np.random.RandomState(seed or 0).uniform(0, 1, agents)
    if isinstance(value, str) or seed is not None:
        found = repr(value) if seed is None else f"seed = {seed} with alpha = {value!r}"
        raise InvalidInput(
            "weights.alpha",
            found=found,
            allowed='a number, a list of numbers, or "random" (then with a seed)',
        )
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("weights.alpha", found=value, allowed="numbers between 0 and 1") from None


def _truth(section: Mapping[str, Any], problem: Problem) -> Instance | None:
    if not section:
        return None
    if "means" in section:
        if len(section) > 1:
            raise InvalidInput("truth", found=", ".join(section), allowed="either means or generate, not both")
        return Instance(problem=problem, means=section["means"])
    generate = section.get("generate")
    if generate not in GENERATORS:
        if generate is None:
            raise InvalidInput("truth", found=", ".join(section), allowed="means or generate")
        raise UnknownName("truth.generate", generate, GENERATORS)
    recipe = {key: section[key] for key in ("seed", "min_gap") if key in section}
    return Instance(problem=problem, means=paper_means(problem, **recipe))
