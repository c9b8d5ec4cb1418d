"""What travels between the coordinator and the agents, and what is kept: study, plan, report, receipt, decision,
certificate.

Matrices are nested tuples `(arm, agent)`, as in the numeric rooms; a report's rows are one agent's column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import InvalidInput
from parley.policies import POLICIES, Policy, make_policy
from parley.problem import IntArray, Problem
from parley.protocol.wire import Message
from parley.rewards import make_model
from parley.study import Study
from parley.terms import TERMS
from parley.totals import Totals

__all__ = ["Certificate", "Decision", "Plan", "Receipt", "Report", "Rows", "StudyMessage"]

LONGEST_NAME = 100
Rows = tuple[tuple[int, ...], ...]


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
        object.__setattr__(self, "terms", self.problem.terms())  # all of them, checked

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
        older = {row.name: row.before for row in TERMS.values() if row.before is not None}
        terms = older | {key: value for key, value in document.items() if key in TERMS}
        rest = {key: value for key, value in document.items() if key not in TERMS}
        return super().from_json(rest | {"terms": terms})

    @classmethod
    def known_keys(cls) -> list[str]:
        """Every term under its own name."""
        return [*(key for key in super().known_keys() if key != "terms"), *TERMS]

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
            terms=problem.terms(),
        )

    @cached_property
    def problem(self) -> Problem:
        """Checked again, and the same to the last bit as the one it was made from."""
        return Problem(
            arms=self.arms,
            agents=self.agents,
            weights=np.array(self.weights, dtype=np.float64) if _rectangular(self.weights) else self.weights,  # type: ignore[arg-type]
            noise=make_model(**self.noise),
            **self.terms,
        )

    @cached_property
    def flexible(self) -> bool:
        """Whether a report may have other counts than the plan: asked for, or not refused and safe with the policy."""
        return self.problem.site_counts != "exact" and "site_counts" in POLICIES[self.policy].honours

    def make_policy(self) -> Policy:
        """The policy that runs this study."""
        return make_policy(self.policy, self.problem, self.options)


def _rectangular(rows: tuple[tuple[float, ...], ...]) -> bool:
    return len({len(row) for row in rows}) == 1


@dataclass(frozen=True, kw_only=True)
class Plan(Message):
    """Draw arm k `quotas[k][m]` times at agent m, in this phase (from 1)."""

    schema: ClassVar[str] = "parley/plan/1"
    study: str
    phase: int
    quotas: Rows

    def draws(self, agent: int) -> tuple[int, ...]:
        """One agent's column."""
        return tuple(row[agent] for row in self.quotas)

    @cached_property
    def array(self) -> IntArray:
        """`(arm, agent)`."""
        return np.array(self.quotas, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Report(Message):
    """What an agent drew in a phase: per arm the count, the sum of the rewards and the sum of their squares.

    >>> report = Report(study="s", phase=1, agent="x", plan="ab", counts=(2, 0), sums=(1.5, 0.0), squares=(1.25, 0.0))
    >>> Report.read(report.text).digest == report.digest
    True
    """

    schema: ClassVar[str] = "parley/report/1"
    study: str
    phase: int
    agent: str
    plan: str  # digest of the plan that was followed
    counts: tuple[int, ...]
    sums: tuple[float, ...]
    squares: tuple[float, ...]
    later: ClassVar[frozenset[str]] = frozenset({"missing", "reason", "final"})
    missing: tuple[int, ...] = ()  # per arm: people of whom no outcome will come
    reason: str = ""  # why the counts are not the plan's: one of `deviations.REASONS`
    final: bool = False  # fewer than planned, and that is all: this agent's part of the phase is closed

    @classmethod
    def of(cls, totals: Totals, *, study: str, phase: int, agent: str, plan: str, **more: Any) -> Self:
        """From what an agent drew, `(arm,)`."""
        return cls(
            **more,
            study=study,
            phase=phase,
            agent=agent,
            plan=plan,
            counts=tuple(totals.counts.tolist()),
            sums=tuple(totals.sums.tolist()),
            squares=tuple(totals.require_squares().tolist()),
        )

    @property
    def totals(self) -> Totals:
        """`(arm,)`, as the numeric rooms have it."""
        return Totals(
            counts=np.array(self.counts, dtype=np.int64), sums=np.array(self.sums), squares=np.array(self.squares)
        )


@dataclass(frozen=True, kw_only=True)
class Receipt(Message):
    """Proof that a report is in the log: at `sequence` its chain had the head `head`. The agent keeps it.

    >>> report = Report(study="s", phase=1, agent="x", plan="ab", counts=(2,), sums=(1.5,), squares=(1.25,))
    >>> Receipt.of(report, sequence=2, head="a" * 64).proves(report)
    True
    """

    schema: ClassVar[str] = "parley/receipt/1"
    study: str
    phase: int
    agent: str
    report: str  # digest of the report
    sequence: int
    head: str

    @classmethod
    def of(cls, report: Report, *, sequence: int, head: str) -> Self:
        """The receipt of a report that stands at `sequence`."""
        return cls(
            study=report.study,
            phase=report.phase,
            agent=report.agent,
            report=report.digest,
            sequence=sequence,
            head=head,
        )

    def proves(self, report: Report) -> bool:
        """Whether it was given for this very report."""
        return self == type(self).of(report, sequence=self.sequence, head=self.head)


@dataclass(frozen=True, kw_only=True)
class Decision(Message):
    """What one step of the policy decided, and from what."""

    schema: ClassVar[str] = "parley/decision/1"
    study: str
    phase: int
    plan: str  # digest
    data: str  # digest of the digests of the phase's reports
    counts: Rows  # drawn in this phase
    eliminated_in: Rows  # after this phase: the phase that ruled the arm out for the agent, 0 while a candidate
    finished: bool
    state: str  # digest of the policy's state after this phase
    later: ClassVar[frozenset[str]] = frozenset({"missing"})
    missing: Rows = ()  # per arm and agent: people of whom no outcome will come; nothing where there is none


@dataclass(frozen=True, kw_only=True)
class Certificate(Message):
    """The end of a study, for good: what was asked, what was seen, what follows and how far it may be trusted."""

    schema: ClassVar[str] = "parley/certificate/1"
    study: str
    problem: str  # digest of the study message
    data: str  # digest of the digests of every phase's data
    policy: str
    options: Mapping[str, Any]
    version: str  # of Parley
    delta: float
    guarantee: str
    complete: bool  # False when stopped early: then `answers` are the candidates that remain
    answers: Mapping[str, Any]  # agent -> the names of its arms
    phases: int
    samples: int
    frozen: tuple[str, ...]
    evidence: Mapping[str, Any]  # the policy's own certificate: thresholds, and the case against every arm per agent
    ends: Mapping[str, Any] | None = None  # agent -> how its question ended, unless all are decided or it was cancelled
    state: Mapping[str, Any]  # the policy's: everything above can be computed from it again
    sequence: int  # of the log when it was issued
    head: str
    later: ClassVar[frozenset[str]] = frozenset({"missing", "warnings"})
    missing: Rows = ()  # per arm and agent, over all phases: people without an outcome; nothing where there is none
    warnings: tuple[str, ...] = ()  # where the data contradict the stated scale
