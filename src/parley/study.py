"""The study file: from TOML to a `Study` (a problem, a policy, perhaps a truth).

The keys of every section stand in one table, `SECTIONS`; a key that is not there is an error that lists those that
are. `docs/study-file.md` explains them to users, and a test holds that page against the table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.errors import InvalidInput, InvalidStudy, UnknownName
from parley.noise import Noise
from parley.problem import Instance, Problem
from parley.recipes import truth_of, weights_of

__all__ = ["DEFAULT_POLICY", "Study", "load_study", "parse_study"]

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
        "privacy": (dict,),
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
    "privacy": {"minimum_cell": (int,)},
    "truth": {"means": (list,), "generate": (str,), "seed": (int,), "min_gap": Number},
}
REQUIRED = ("arms", "agents")
MOST_ARMS, MOST_AGENTS = 100_000, 10_000


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


def load_study(path: str | Path) -> Study:
    """Read a study file; every error names the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
    except FileNotFoundError:
        raise InvalidInput("study file", found=f"no file at {path}", allowed="the path of a TOML study file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("study file", found=f"{path}: {error}", allowed="a readable TOML file") from None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also what is no TOML error: a number of 5,000 digits
        cause = InvalidInput("TOML", found=str(error), allowed="a valid TOML document")
        raise InvalidStudy(str(path), cause) from None
    try:
        return parse_study(document, folder=path.parent, default_name=path.stem)
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
    for key, count, most in (
        ("agents", agent_count, MOST_AGENTS),
        ("arms", document["arms"] if isinstance(document["arms"], int) else len(document["arms"]), MOST_ARMS),
    ):
        if not 1 <= count <= most:
            raise InvalidInput(key, found=count, allowed=f"from 1 to {most:,}")
    noise = Noise(**noise_keys)
    usual = 1.0 if noise.low is None or noise.high is None else noise.high - noise.low
    problem = Problem(
        arms=document["arms"],
        agents=agents,
        weights=weights_of(_section(document, "weights"), agent_count, folder),
        delta=document.get("delta", 0.1),
        top=document.get("top", 1),
        largest_gap=document.get("largest_gap", usual),
        noise=noise,
        minimum_cell=_section(document, "privacy").get("minimum_cell", 1),
    )
    policy = dict(document.get("policy", {}))
    _check_types("policy", {"name": policy.get("name", DEFAULT_POLICY)})
    return Study(
        name=document.get("name", default_name),
        problem=problem,
        policy=policy.pop("name", DEFAULT_POLICY),
        options=policy,
        instance=truth_of(_section(document, "truth"), problem) if "truth" in document else None,
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
