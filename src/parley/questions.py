"""The questions of a study file: those in `[[questions]]`, sites without a question, and weights in doubt.

A question becomes an agent that only asks: its row of the weights is zero, so nobody draws there. Sites and questions
form one square matrix and two lists of names (`Problem.asks_only`, `Problem.draws_only`); only the study file has other
forms of weights. Weights in doubt are a list of matrices, the *steps*: each site that asks has its own question at the
middle step, and one more question at each of the remaining steps. Finer steps, which halve the distance between two
stated steps, are questions too, so that each has its share of delta before the study begins. `parley.weight_map`
interprets the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parley.errors import InvalidInput, UnknownName
from parley.settings import MOST_HALVINGS, REQUIRED, Key, check_section
from parley.text.formatting import plural
from parley.validation.checks import FloatArray, mixing_weights, names, number, real_array, switch, whole
from parley.weights import STRATA_KEYS, personalized, population, strata_of, weights_of

MOST_STEPS = 101
MOST_ASKED = 10_000  # sites and questions together
ASKS = Key(
    kinds=(bool, list),
    meaning="whether sites ask a question of their own: true or false, or one per agent; one that does not is "
    "[only drawn](weights.md#questions)",
    default="true",
)
QUESTIONS = {
    "name": Key(kinds=(str,), meaning="of the question; no site has it", default=REQUIRED),
    "weights": Key(
        kinds=(dict, str),
        meaning="the weights of the sites, which sum to 1, as in `{ Paris = 0.3, Lyon = 0.7 }`; a site that is not "
        'named has none. `"population"`: in proportion to `shares`',
        default=REQUIRED,
    ),
    "shares": Key(kinds=(list,), meaning="population: one size per site, in any unit", default="those of `[weights]`"),
}
# Keys with a value per site in the study file and per agent in a problem. A question gets the first site's value, which
# is never used.
PER_SITE = {
    "noise": ("scale",),
    "covariate": ("theta",),
    "sampling": ("price", "rate", "delay"),
    "truth": ("means", "scale", "outcomes", "covariate"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A study's questions: its agents (sites first), their weights, and their roles."""

    sites: int
    agents: Any  # (agent,) names; as in the study file if there are no further questions
    weights: Any
    roles: Mapping[str, Any]  # the settings `asks_only`, `draws_only`, `weight_steps`, `weight_refine` and strata

    def per_agent(self, section: str, keys: Mapping[str, Any]) -> dict[str, Any]:
        """A section of the study file, with its values per site extended to values per agent."""
        further = len(self.roles.get("asks_only", ()))
        listed = PER_SITE.get(section, ()) if further else ()
        return {key: self._padded(f"{section}.{key}", value) if key in listed else value for key, value in keys.items()}

    def _padded(self, key: str, values: Any) -> Any:
        if isinstance(values, dict):
            return {name: self._padded(f"{key}.{name}", value) for name, value in values.items()}
        if not isinstance(values, list):
            return values
        if any(isinstance(value, list) for value in values):
            return [self._padded(key, row) if isinstance(row, list) else row for row in values]
        if len(values) != self.sites:
            found = f"{len(values)} for {plural(self.sites, 'site')}"
            raise InvalidInput(key, found=found, allowed="one per site: questions draw nothing")
        return values + values[:1] * len(self.roles["asks_only"])


def most_asked(document: Mapping[str, Any], sites: int) -> int:
    """Upper bound on the number of sites and questions together, computed without building a matrix.

    >>> most_asked({"questions": [{}], "weights": {"alpha_range": [0, 1], "steps": 11}}, 20)
    221
    >>> most_asked({"weights": {"alpha_range": [0, 1], "steps": 3, "refine": 2}}, 2)
    18
    """
    section = document.get("weights")
    section = section if isinstance(section, dict) else {}
    lists = (document.get("questions"), section.get("scenarios"))
    questions, scenarios = (len(given) if isinstance(given, list) else 0 for given in lists)
    steps = section.get("steps", 5) if "alpha_range" in section else scenarios
    halvings = section.get("refine", 0)
    between = 2 ** min(halvings, MOST_HALVINGS) if isinstance(halvings, int) and halvings > 0 else 1
    return sites * max((steps - 1) * between + 1 if isinstance(steps, int) else 1, 1) + questions


def asked_by(document: Mapping[str, Any], count: int, folder: Path) -> Asked:
    """The questions of a study document with `count` sites. The sections of the document must be checked beforehand.

    >>> country = {"name": "country", "weights": {"agent 1": 0.25, "agent 2": 0.75}}
    >>> asked = asked_by({"agents": 2, "questions": [country], "sites": {"asks": [True, False]}}, 2, Path())
    >>> asked.agents, asked.weights.tolist()
    (('agent 1', 'agent 2', 'country'), [[1.0, 0.0, 0.25], [0.0, 1.0, 0.75], [0.0, 0.0, 0.0]])
    >>> asked.roles
    {'asks_only': ('country',), 'draws_only': ('agent 2',)}
    """
    # The size is checked first: a few numbers in a file could ask for matrices that do not fit into memory.
    if (most := most_asked(document, count)) > MOST_ASKED:
        raise InvalidInput("questions", found=f"{most:,} sites and questions", allowed=f"up to {MOST_ASKED:,}")
    section = document.get("weights", {})
    labels, matrices, halvings = weight_steps(section, count, folder)
    if labels and not document.get("tolerance"):
        key = "weights.scenarios" if "scenarios" in section else "weights.alpha_range"
        allowed = "a tolerance above 0: where the best arm changes along the way, two arms tie"
        raise InvalidInput(key, found="no tolerance", allowed=allowed)
    stated = stated_step(len(matrices), halvings)
    own = matrices[stated]
    asks, strata = _who_asks(document.get("sites", {}).get("asks", True), count), strata_of(section, count)
    if not document.get("questions") and not labels and all(asks):
        return Asked(sites=count, agents=document["agents"], weights=own, roles=strata)
    sites = names("agents", document["agents"], "agent")
    columns = _columns(document.get("questions", ()), sites, section)
    fitting = [_fitting(matrix, count) for matrix in matrices]
    for site in np.flatnonzero(asks):
        for step in range(len(labels)):
            if step != stated:
                columns[f"{sites[site]}, {labels[step]}"] = fitting[step][:, site]
    whole_ = np.zeros((count + len(columns),) * 2)
    whole_[:count, :count] = fitting[stated]
    for place, column in enumerate(columns.values(), start=count):
        whole_[:count, place] = column
    roles = {"asks_only": tuple(columns), "weight_steps": labels, "weight_refine": halvings}
    roles["draws_only"] = tuple(site for site, own_question in zip(sites, asks, strict=True) if not own_question)
    given = {name: value for name, value in roles.items() if value}
    # A question belongs to no site and no stratum.
    given |= {name: (*labels_, *("" for _ in columns)) for name, labels_ in strata.items()}
    return Asked(sites=count, agents=(*sites, *columns), weights=whole_, roles=given)


def stated_step(count: int, halvings: int = 0) -> int:
    """The index of the step that a site's own question uses: the middle step, or the step before the middle.

    It is always a stated step, never one of the finer steps that `halvings` put between stated steps.

    >>> stated_step(5), stated_step(2), stated_step(1), stated_step(7, 1)
    (2, 0, 0, 2)
    """
    between = 1 << halvings
    return (count - 1) // between // 2 * between


def weight_steps(section: Mapping[str, Any], sites: int, folder: Path) -> tuple[tuple[str, ...], list[Any], int]:
    """The steps of the weights: their names, their matrices, and the number of halvings between stated steps.

    If weights are not in doubt, there are no names and one matrix.

    >>> doubt = {"kind": "personalized", "alpha_range": [0.3, 0.7], "steps": 2, "refine": 1}
    >>> labels, matrices, _ = weight_steps(doubt, 2, Path())
    >>> labels, matrices[1].tolist()
    (('alpha 0.3', 'alpha 0.5', 'alpha 0.7'), [[0.75, 0.25], [0.25, 0.75]])
    """
    halvings = whole("weights.refine", section.get("refine", 0), 0, MOST_HALVINGS)
    if "scenarios" in section:
        return _scenarios(section, sites, folder, halvings)
    if "alpha_range" not in section:
        for key, where in {"steps": "only with alpha_range", "refine": "only with alpha_range or scenarios"}.items():
            if key in section:
                raise InvalidInput(f"weights.{key}", found=section[key], allowed=where)
        return (), [weights_of(section, sites, folder)], 0
    if section.get("kind") != "personalized" or "alpha" in section:
        found = "alpha too" if "alpha" in section else f"kind = {section.get('kind', 'identity')!r}"
        raise InvalidInput("weights.alpha_range", found=found, allowed='kind = "personalized", and no alpha')
    values = [number("weights.alpha_range", value) for value in section["alpha_range"]]
    if len(values) != 2 or not 0 <= values[0] < values[1] <= 1:
        allowed = "two numbers from 0 to 1, the smaller one first"
        raise InvalidInput("weights.alpha_range", found=section["alpha_range"], allowed=allowed)
    count = whole("weights.steps", section.get("steps", 5), 2, MOST_STEPS)
    steps = np.linspace(values[0], values[1], _with_finer(count, halvings))
    alphas = [round(alpha, 9) for alpha in steps.tolist()]
    return tuple(f"alpha {alpha:g}" for alpha in alphas), [personalized(sites, alpha) for alpha in alphas], halvings


def _with_finer(count: int, halvings: int) -> int:
    """The number of steps including the finer steps; raise if there are too many."""
    if (total := (count - 1) * (1 << halvings) + 1) > MOST_STEPS:
        found = f"{halvings}, which makes {total} of {count} steps"
        raise InvalidInput("weights.refine", found=found, allowed=f"up to {MOST_STEPS} steps with the finer ones")
    return total


def _scenarios(
    section: Mapping[str, Any], sites: int, folder: Path, halvings: int
) -> tuple[tuple[str, ...], list[Any], int]:
    """The steps in `[[weights.scenarios]]` and the finer steps between them. A scenario has the keys of [weights]."""
    given = section["scenarios"]
    for key in section:
        if key not in ("scenarios", "reason", "refine", *STRATA_KEYS):
            raise InvalidInput(f"weights.{key}", found="weights beside scenarios", allowed="weights in each scenario")
    if not 2 <= len(given) <= MOST_STEPS or not all(isinstance(one, dict) for one in given):
        allowed = f"[[weights.scenarios]], from 2 to {MOST_STEPS}, each with a name and the keys of [weights]"
        raise InvalidInput("weights.scenarios", found=plural(len(given), "entry", "entries"), allowed=allowed)
    labels = names("weights.scenarios.name", [one.get("name", "") for one in given], "scenario")
    for one in given:
        for key in ("alpha_range", "scenarios", "steps", "refine"):
            if key in one:
                raise InvalidInput(f"weights.scenarios.{key}", found="a range in a scenario", allowed="one matrix each")
    shared = {key: section[key] for key in STRATA_KEYS if key in section}
    own = [shared | {key: value for key, value in one.items() if key != "name"} for one in given]
    stated = [_fitting(weights_of(one, sites, folder), sites) for one in own]
    made, between = dict[str, FloatArray](), 2**halvings
    for step in range(_with_finer(len(stated), halvings)):
        before, share = step // between, step % between / between
        if share:
            label = f"{1 - share:g} {labels[before]} + {share:g} {labels[before + 1]}"
            made[label] = (1 - share) * stated[before] + share * stated[before + 1]
        else:
            made[labels[before]] = stated[before]
    return tuple(made), [*made.values()], halvings


def _fitting(matrix: Any, sites: int) -> FloatArray:
    weights = mixing_weights(matrix)
    if len(weights) != sites:
        found = f"a matrix of {len(weights)} x {len(weights)} for {plural(sites, 'site')}"
        raise InvalidInput("weights", found=found, allowed=f"{sites} x {sites}")
    return weights


def _who_asks(given: Any, sites: int) -> list[bool]:
    if not isinstance(given, list):
        return [switch("sites.asks", given)] * sites
    if len(given) != sites:
        found = f"{len(given)} for {plural(sites, 'site')}"
        raise InvalidInput("sites.asks", found=found, allowed="true or false, or a list with one of them per site")
    return [switch("sites.asks", one) for one in given]


def _columns(given: Sequence[Any], sites: tuple[str, ...], weights: Mapping[str, Any]) -> dict[str, FloatArray]:
    """The weights `(site,)` of every entry in [[questions]], by the question's name."""
    made: dict[str, FloatArray] = {}
    for one in given:
        if not isinstance(one, dict):
            raise InvalidInput("questions", found=repr(one), allowed="[[questions]], each with a name and weights")
        check_section("questions", one, QUESTIONS)
        name = one.get("name", "")
        if not name.strip():
            raise InvalidInput("questions.name", found="nothing", allowed="a name")
        if name in sites or name in made:
            found = f"{name!r}, which is {'a site' if name in sites else 'another question'} too"
            raise InvalidInput("questions.name", found=found, allowed="a name that no site and no other question has")
        made[name] = _weights(one, sites, weights)
    return made


def _weights(one: Mapping[str, Any], sites: tuple[str, ...], section: Mapping[str, Any]) -> FloatArray:
    key, given = f"weights of the question {one['name']!r}", one.get("weights")
    if isinstance(given, dict):
        if "shares" in one:
            raise InvalidInput("questions.shares", found="shares with weights", allowed='weights = "population"')
        for name in given:
            if name not in sites:
                raise InvalidInput(key, found=f"{name!r}, which is not a site", allowed=", ".join(sites))
        values = real_array(key, [given.get(site, 0.0) for site in sites], "numbers")
        total = float(values.sum())
        if not (values >= 0).all() or abs(total - 1) > 1e-6:
            found = f"a sum of {total:.9g}" if (values >= 0).all() else f"{values.min():g}"
            raise InvalidInput(key, found=found, allowed="numbers of at least 0 that sum to 1")
        return values / total
    if given != "population":
        if isinstance(given, str):
            raise UnknownName(key, given, ["population"])
        raise InvalidInput(key, found="nothing", allowed='a table of sites, or "population"')
    shares = one.get("shares", section.get("shares"))
    if shares is None or len(shares) != len(sites):
        found = "no shares" if shares is None else f"{len(shares)} shares"
        raise InvalidInput(key, found=found, allowed=f"shares, one per site: {len(sites)}")
    return np.asarray(population(shares)[:, 0])
