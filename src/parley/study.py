"""The study file: from TOML to a `Study` (a problem, a policy, perhaps a truth).

The keys of every section stand in one table, `SECTIONS`, gathered from the rooms that give them meaning; a key that is
not there is an error that lists those that are. The tables of `docs/study-file.md` are printed from it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.errors import InvalidInput, InvalidStudy
from parley.keys import REQUIRED, Key, check_kinds, check_section
from parley.problem import Instance, Problem
from parley.recipes import TRUTH, WEIGHTS, truth_of, weights_of
from parley.rewards import noise_keys, study_model
from parley.terms import TERMS

__all__ = ["DEFAULT_POLICY", "PLAYING_POLICY", "SECTIONS", "Study", "load_study", "parse_study", "read_toml"]

DEFAULT_POLICY = "evidence"
PLAYING_POLICY = "evidence-regret"  # with a horizon

QUESTION = {
    "name": Key(kinds=(str,), meaning="shown in tables and reports", default="the file's name"),
    "arms": Key(kinds=(int, list), meaning="how many arms, or their names; at least 2", default=REQUIRED),
    "agents": Key(kinds=(int, list), meaning="how many agents, or their names", default=REQUIRED),
}
POLICY = {  # every other key is an option of that policy, checked by the policy
    "name": Key(
        kinds=(str,),
        meaning="who decides, by name; [policies](policies.md) has them all",
        default="`evidence`; `evidence-regret` with a horizon",
    )
}


def _sections() -> dict[str, dict[str, Key]]:
    made: dict[str, dict[str, Key]] = {"": dict(QUESTION)}
    made |= {"weights": dict(WEIGHTS), "noise": noise_keys(), "policy": dict(POLICY)}
    for row in TERMS.values():
        made.setdefault(row.section, {})[row.key] = row
    return made | {"truth": dict(TRUTH)}


# Section -> its keys; those outside of any section stand under "". In the order of the docs.
SECTIONS = _sections()
A_SECTION = Key(kinds=(dict,), meaning="a section")
MOST_ARMS, MOST_AGENTS = 100_000, 10_000
MOST_DOTS = 16  # in a key; our keys have one, and reading thousands takes their square in time


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
    """Read a study file; every error names the file.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.toml"
    ...     _ = path.write_text("arms = 4; agents = 3; delta = 0.05".replace("; ", chr(10)))
    ...     study = load_study(path)
    >>> study.name, study.problem.delta, study.problem.agent_count
    ('mine', 0.05, 3)
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
    except FileNotFoundError:
        raise InvalidInput("study file", found=f"no file at {path}", allowed="the path of a TOML study file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("study file", found=f"{path}: {error}", allowed="a readable TOML file") from None
    try:
        document = read_toml(text)
        return parse_study(document, folder=path.parent, default_name=path.stem)
    except InvalidInput as error:
        raise InvalidStudy(str(path), error) from None


def read_toml(text: str) -> dict[str, Any]:
    """A TOML document, or an error that says what is wrong with it.

    >>> read_toml("a.b = 1")
    {'a': {'b': 1}}
    """
    for number, line in enumerate(text.splitlines(), start=1):
        pieces = re.split(r"[,{]", line) if line.count(".") > MOST_DOTS else ()
        header = line.lstrip().startswith("[")
        if any(piece.split("=")[0].count(".") > MOST_DOTS for piece in pieces if header or "=" in piece):
            raise InvalidInput(f"TOML, line {number}", found="a key of many parts", allowed=f"up to {MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also what is no TOML error: a number of 5,000 digits
        raise InvalidInput("TOML", found=str(error)[:200], allowed="a valid TOML document") from None


def parse_study(document: Mapping[str, Any], *, folder: Path = Path(), default_name: str = "study") -> Study:
    """Check a parsed study document and build what it describes; `folder` is where its relative paths start.

    >>> study = parse_study({"arms": 2, "agents": 2, "weights": {"kind": "personalized", "alpha": 0.5}})
    >>> study.problem.weights.tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    check_section("", document, SECTIONS[""] | {name: A_SECTION for name in SECTIONS if name})
    for key in ("arms", "agents"):
        if key not in document:
            raise InvalidInput(key, found="nothing", allowed="a whole number or a list of names")
    inner = {"": document} | {name: _section(document, name) for name in SECTIONS if name}
    agents = document["agents"]
    agent_count = agents if isinstance(agents, int) else len(agents)
    for key, count, most in (
        ("agents", agent_count, MOST_AGENTS),
        ("arms", document["arms"] if isinstance(document["arms"], int) else len(document["arms"]), MOST_ARMS),
    ):
        if not 1 <= count <= most:
            raise InvalidInput(key, found=count, allowed=f"from 1 to {most:,}")
    noise = study_model(inner["noise"])
    terms = {name: inner[row.section][row.key] for name, row in TERMS.items() if row.key in inner[row.section]}
    problem = Problem(
        arms=document["arms"],
        agents=agents,
        weights=weights_of(inner["weights"], agent_count, folder),
        noise=noise,
        **{"largest_gap": noise.usual_gap} | terms,
    )
    policy = dict(inner["policy"])
    return Study(
        name=document.get("name", default_name),
        problem=problem,
        policy=policy.pop("name", DEFAULT_POLICY if problem.horizon is None else PLAYING_POLICY),
        options=policy,
        instance=truth_of(inner["truth"], problem) if "truth" in document else None,
    )


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section: Mapping[str, Any] = document.get(name, {})
    (check_kinds if name == "policy" else check_section)(name, section, SECTIONS[name])
    return section
