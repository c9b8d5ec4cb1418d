"""The registry of policies, and the function that makes a policy by its name.

Other packages may offer policies: once such a package is installed, a class under
`[project.entry-points."parley.policies"]` is available by its name, and imported when a study asks for it.

>>> problem = Problem(arms=3, weights=[[0.8, 0.3], [0.2, 0.7]])
>>> make_policy("wcpe", problem, {"threshold": "paper"}).name
'wcpe'

>>> POLICIES["wcpe"].name, "evidence" in POLICIES
('wcpe', True)
"""

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from parley.errors import InvalidInput, UnknownName
from parley.policies.base import Elimination, Explanation, Policy, State
from parley.policies.evidence.racing import EvidenceRacing
from parley.policies.evidence.regret import EvidenceRegret
from parley.policies.oracle import Oracle
from parley.policies.pf_ucb_bai import PfUcbBai
from parley.policies.regret_baselines import ExploreThenCommit, OracleRegret, PfUcb, PfUcbEnhanced
from parley.policies.wcpe import Uniform, Wcpe
from parley.problem import Instance, Problem
from parley.study import meant
from parley.system.extensions import offered, offered_class, origin
from parley.validation.checks import IN_WORDS

__all__ = [
    "POLICIES",
    "Elimination",
    "Explanation",
    "Policy",
    "State",
    "make_policy",
    "option_names",
    "policy_class",
    "policy_names",
]

POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        *(EvidenceRacing, Wcpe, PfUcbBai, Oracle, Uniform),
        *(EvidenceRegret, PfUcb, PfUcbEnhanced, ExploreThenCommit, OracleRegret),
    )
}

NOT_OPTIONS = ("problem", "instance", "idle", "unasked", "within_phase")
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    name: ((int, float) if kind is float else (kind,), IN_WORDS[kind])
    for kind, names in {
        str: ("str",),
        float: ("float", "float | None"),
        int: ("int", "int | None"),
        bool: ("bool",),
    }.items()
    for name in names
}


GROUP = "parley.policies"  # entry point group


def policy_names() -> list[str]:
    """The names of Parley's own policies and of those that installed packages offer, sorted.

    >>> set(POLICIES) <= set(policy_names())
    True
    """
    return sorted({*POLICIES, *offered(GROUP)})


def policy_class(name: str) -> type[Policy]:
    """The class of the policy with this name; its module is imported if another package offers the policy.

    >>> policy_class("wcpe").__name__
    'Wcpe'
    """
    found: type[Policy] | None = offered_class(GROUP, "policy", name, POLICIES, Policy, "name")
    if found is None and name not in POLICIES:
        raise UnknownName("policy", name, policy_names())
    if found is None:
        return POLICIES[name]
    odd = [field.name for field in fields(found) if field.name not in NOT_OPTIONS and _kind(field) not in KINDS]
    if odd:
        where = origin(offered(GROUP)[name][0])
        raise InvalidInput("policy", found=f"{where}, whose option {odd[0]} is none", allowed=", ".join(KINDS))
    return found


def _kind(field: Field[Any]) -> str:
    """The type of an option as a key of `KINDS`, whether or not the policy's module postpones annotations."""
    return str(getattr(field.type, "__name__", field.type))


def option_names(name: str) -> list[str]:
    """The names of the options that a policy takes."""
    return [field.name for field in fields(policy_class(name)) if field.name not in NOT_OPTIONS]


def make_policy(
    name: str, problem: Problem, options: Mapping[str, Any] | None = None, instance: Instance | None = None
) -> Policy:
    """Make a policy by its registered name, with its options; only oracles get the instance.

    Raises if the policy does not support a setting of the problem, or if an option is unknown or of the wrong type.

    >>> problem = Problem(arms=3, weights=[[0.8, 0.3], [0.2, 0.7]])
    >>> make_policy("evidence", problem, {"rounds": 4}).guarantee
    'all answers right with probability at least 0.9'
    """
    policy, known = policy_class(name), option_names(name)
    problem.refuse(f"the policy {name}", policy.supports)
    guardrails = [outcome for outcome in problem.outcomes if outcome.guards]
    if guardrails and "dormant" not in policy.supports:
        instead = f'"secondary", since no arm can be stopped with the policy {name}'
        raise InvalidInput(guardrails[0].place("role"), found=repr(guardrails[0].role), allowed=instead)
    if policy.draws_everything and problem.rate is not None and not problem.rate.all():
        idle = problem.agents[int(problem.rate.argmin())]
        everything = f"a rate above 0: the policy {name} draws every arm at every agent"
        raise InvalidInput("sampling.rate", found=f"0 for {idle}", allowed=everything)
    kinds = {field.name: _kind(field) for field in fields(policy)}
    arguments: dict[str, Any] = {"problem": problem}
    for key, value in (options or {}).items():
        if key not in known:
            raise UnknownName(f"option of the policy {name}", key, known or ["none"], meant("policy", key))
        allowed, words = KINDS[kinds[key]]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise InvalidInput(f"policy.{key}", found=repr(value), allowed=words)
        arguments[key] = value
    if "instance" in kinds:
        if instance is None:
            raise InvalidInput("policy", found=name, allowed="a study with a [truth] section: it must know the gaps")
        arguments["instance"] = instance
    made = policy(**arguments)
    if made.needs_scale:
        problem.noise.require_scale(f"the policy {name}")
    return made
