"""What a live study is about: the message that creates one, and the document whose digest its certificate names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import InvalidInput
from parley.once import once
from parley.policies import POLICIES, Policy, make_policy
from parley.problem import Problem
from parley.protocol.wire import Message
from parley.rewards import make_model
from parley.settings import SETTINGS
from parley.study import Study

__all__ = ["StudyMessage"]

LONGEST_NAME = 100


def _checked_names(key: str, names: tuple[str, ...]) -> None:
    for name in names:
        clean = name.isprintable() and "/" not in name and name not in (".", "..") and name == name.strip()
        if len(name) > LONGEST_NAME or not clean:
            raise InvalidInput(
                key,
                found=repr(name[: LONGEST_NAME + 1]),
                allowed=f"printable names of up to {LONGEST_NAME} characters without a slash or outer spaces "
                "(they become part of addresses)",
            )


@dataclass(frozen=True, kw_only=True)
class StudyMessage(Message):
    """Everything a live study is about; its digest is the hash of the problem that a certificate names.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
    >>> StudyMessage.read(study.text) == study, study.problem.shape
    (True, (2, 1))
    """

    schema: ClassVar[str] = "parley/study/1"
    name: str
    arms: tuple[str, ...]
    agents: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    noise: Mapping[str, Any] = field(default_factory=lambda: {"kind": "gaussian", "scale": 1.0})
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    terms: Mapping[str, Any] = field(default_factory=dict)  # on the wire each stands under its own name

    def __post_init__(self) -> None:
        _checked_names("name", (self.name,))
        _checked_names("arms", self.arms)
        _checked_names("agents", self.agents)
        if not self.name:
            raise InvalidInput("name", found="nothing", allowed="a name")
        agents = self.make_policy().problem.agents
        if self.agents != agents:  # a problem makes up names where it is given none; a live study has its own
            raise InvalidInput("agents", found="no names", allowed=f"{len(agents)} names, one per row of the weights")
        object.__setattr__(self, "terms", self.problem.settings())  # all of them, checked

    def to_json(self) -> dict[str, Any]:
        """A term at its default is left out: the study is written, and hashed, as before there was such a term."""
        document = super().to_json()
        del document["terms"]
        return document | self.problem.stored()

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """What `to_json` wrote; anything else is an `InvalidInput` that names the place."""
        if not isinstance(document, Mapping):
            return super().from_json(document)
        if "terms" in document:
            raise InvalidInput(cls.schema, found="an unknown key: terms", allowed=", ".join(cls.known_keys()))
        older = {row.name: row.before for row in SETTINGS.values() if row.before is not None}
        terms = older | {key: value for key, value in document.items() if key in SETTINGS}
        rest = {key: value for key, value in document.items() if key not in SETTINGS}
        return super().from_json(rest | {"terms": terms})

    @classmethod
    def known_keys(cls) -> list[str]:
        """Every term under its own name."""
        return [*(key for key in super().known_keys() if key != "terms"), *SETTINGS]

    @classmethod
    def of(cls, study: Study) -> StudyMessage:
        """A study file's content without its truth, which a live study does not know."""
        problem = study.problem
        return cls(
            name=study.name,
            arms=problem.arms,
            agents=problem.agents,
            weights=tuple(map(tuple, problem.weights.tolist())),
            noise=problem.noise.document(),
            policy=study.policy,
            options=dict(study.options),
            terms=problem.settings(),
        )

    @once
    def problem(self) -> Problem:
        """Checked again, and the same to the last bit as the one it was made from."""
        return Problem(
            arms=self.arms,
            agents=self.agents,
            weights=np.array(self.weights, dtype=np.float64) if _rectangular(self.weights) else self.weights,  # type: ignore[arg-type]
            noise=make_model(**self.noise),
            **self.terms,
        )

    @once
    def flexible(self) -> bool:
        """Whether a report may have other counts than the plan: asked for, or not refused and safe with the policy."""
        return self.problem.site_counts != "exact" and "site_counts" in POLICIES[self.policy].supports

    def make_policy(self) -> Policy:
        """The policy that runs this study."""
        return make_policy(self.policy, self.problem, self.options)


def _rectangular(rows: tuple[tuple[float, ...], ...]) -> bool:
    return len({len(row) for row in rows}) == 1
