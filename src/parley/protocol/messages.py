"""Messages between coordinator and agents, and stored documents: study, plan, report, receipt, decision, certificate.

Matrices are nested tuples `(arm, agent)`, like the arrays of the numeric code; a report has one agent's column of each.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import replace
from types import new_class
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from parley.errors import InvalidInput
from parley.outcomes import outcome_of
from parley.policies import Policy, make_policy
from parley.problem import IntArray, Problem
from parley.protocol.codec import (
    LONGEST_NAME,
    Count,
    Digest,
    Message,
    Model,
    Name,
    Phase,
    canonical,
    described,
    digest_if_written,
    plain_around,
)
from parley.rewards import make_model
from parley.settings import SETTINGS
from parley.study import MOST_ARMS, Study
from parley.system.once import once
from parley.totals import Totals

MOST_AGENTS, MOST_CELLS = 2_000, 100_000  # limits of a live study, which is decided and verified while people wait

Rows = tuple[tuple[Count, ...], ...]
Weights = tuple[tuple[float, ...], ...]
Counts = Annotated[tuple[Count, ...], Meta(max_length=MOST_ARMS)]
Sums = Annotated[tuple[float, ...], Meta(max_length=MOST_ARMS)]

if TYPE_CHECKING:
    _Settings = Message
else:
    # Each setting is a key of its own. A setting at its default stays UNSET and is not written.
    _Settings = new_class(
        "_Settings",
        (Message,),
        {"tag": "parley/settings"},
        lambda names: names.update(
            dict.fromkeys(SETTINGS, UNSET),
            __annotations__={
                row.name: Annotated[Any | UnsetType, described(f"{row.plain[0]} (unless set: {row.plain[1]})")]
                for row in SETTINGS.values()
            },
        ),
    )


def require_live_size(arms: int, agents: int, most_agents: int = MOST_AGENTS, most_cells: int = MOST_CELLS) -> None:
    """Raise if a live study would be too large; simulations have no such limit.

    >>> require_live_size(300, 300)
    >>> require_live_size(51, 2_000)
    Traceback (most recent call last):
    parley.errors.InvalidInput: study: found 51 arms x 2,000 agents (102,000 cells); allowed: up to 2,000 agents and
        100,000 cells of a live study. Simulations have no such limit
    """
    if agents > most_agents or arms * agents > most_cells:
        raise InvalidInput(
            "study",
            found=f"{arms:,} arms x {agents:,} agents ({arms * agents:,} cells)",
            allowed=f"up to {most_agents:,} agents and {most_cells:,} cells of a live study",
            hint="Simulations have no such limit",
        )


class StudyMessage(_Settings, tag="parley/study/1"):
    """Everything that defines a live study. The field `problem` of a certificate has its digest."""

    name: str
    arms: tuple[str, ...]
    agents: tuple[str, ...]
    weights: Annotated[Weights, described("A row per agent whose reward is weighed, a column per agent who asks.")]
    policy: str
    noise: Annotated[dict[str, Any], described("The reward model and its keys.")] = msgspec.field(
        default_factory=lambda: {"kind": "gaussian", "scale": 1.0}
    )
    options: Annotated[dict[str, Any], described("The policy's options.")] = msgspec.field(default_factory=dict)
    outcomes: Annotated[
        tuple[dict[str, Any], ...],
        described("What is observed beside the primary outcome, which `noise` describes: the keys of [[outcomes]]."),
    ] = ()

    def __post_init__(self) -> None:
        _check_names("name", (self.name,))
        _check_names("arms", self.arms)
        _check_names("agents", self.agents)
        if not self.name:
            raise InvalidInput("name", found="nothing", allowed="a name")
        agents = self.make_policy().problem.agents
        if self.agents != agents:  # a problem makes up missing names; a live study must name its agents
            raise InvalidInput("agents", found="no names", allowed=f"{len(agents)} names, one per row of the weights")
        self._write_settings()
        msgspec.structs.force_setattr(self, "weights", _shared(self.weights))

    @classmethod
    def of(cls, study: Study) -> StudyMessage:
        """Make the message of a study file, without the true means, which a live study does not know."""
        problem = study.problem
        return cls(
            name=study.name,
            arms=problem.arms,
            agents=problem.agents,
            weights=tuple(map(tuple, problem.weights.tolist())),
            noise=problem.noise.document(),
            policy=study.policy,
            options=dict(study.options),
            outcomes=tuple(outcome.document() for outcome in problem.outcomes),
            **problem.stored(),
        )

    @once
    def text(self) -> str:
        """The canonical text."""
        return canonical(plain_around(self, {"weights": self.weights}))

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by name, as plain values, including defaults."""
        return self.problem.settings()

    @once
    def problem(self) -> Problem:
        """The problem of this study, checked again; bit for bit the problem that the message was made from.

        >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")
        >>> StudyMessage.read(study.text) == study, study.problem.shape
        (True, (2, 1))
        """
        chosen = {name: getattr(self, name) for name in SETTINGS}
        return Problem(
            arms=self.arms,
            agents=self.agents,
            weights=_matrix(self.weights),
            noise=make_model(**self.noise),
            outcomes=tuple(map(outcome_of, self.outcomes)),
            **{name: value for name, value in chosen.items() if value is not UNSET},
        )

    @once
    def flexible(self) -> bool:
        """Whether reports may have other counts than planned: the policy allows it and the study does not forbid it."""
        return self.problem.site_counts != "exact" and "site_counts" in self._policy.supports

    def make_policy(self) -> Policy:
        """The policy that runs this study."""
        return self._policy

    @once
    def _policy(self) -> Policy:
        """The policy of this study, made only once: it is immutable, and every report needs it."""
        return make_policy(self.policy, self.problem, self.options)

    def asking(self, *, weights: Weights, delta: float, dormant: Collection[str]) -> StudyMessage:
        """Copy the study with another question. The question is checked like that of a new study.

        The reward model and the policy's options are not checked again, since they are not part of the question.
        """
        problem = self.problem.with_(weights=_matrix(weights), delta=delta, dormant=tuple(dormant))
        problem.refuse(f"the policy {self.policy}", self._policy.supports)
        asked = copy(self)
        asked.__dict__.update(problem=problem, _policy=replace(self._policy, problem=problem))
        msgspec.structs.force_setattr(asked, "weights", _shared(weights))
        asked._write_settings()
        return asked

    def _write_settings(self) -> None:
        """Set every setting to the value that the problem stores; a setting at its default becomes UNSET."""
        written = self.problem.stored()
        for name in SETTINGS:
            msgspec.structs.force_setattr(self, name, written.get(name, UNSET))


def _shared(weights: Weights) -> Weights:
    """Store equal weights only once: four million separate floats take 128 MB, and most repeat a few values."""
    values: dict[float, float] = {}
    return tuple(tuple(map(values.setdefault, row, row)) for row in weights)


def _matrix(weights: Weights) -> Any:
    """Convert weights to an array. Rows of unequal lengths are returned as they are, for `Problem` to refuse."""
    return np.array(weights, dtype=np.float64) if len({len(row) for row in weights}) == 1 else weights


def _check_names(key: str, names: tuple[str, ...]) -> None:
    for name in names:
        clean = name.isprintable() and "/" not in name and name not in (".", "..") and name == name.strip()
        if len(name) > LONGEST_NAME or not clean:
            raise InvalidInput(
                key,
                found=repr(name[: LONGEST_NAME + 1]),
                allowed=f"printable names of up to {LONGEST_NAME} characters without a slash or outer spaces "
                "(they become part of addresses)",
            )


class Plan(Message, tag="parley/plan/1"):
    """The plan of a phase: agent m draws arm k `quotas[k][m]` times."""

    study: str
    phase: Phase
    quotas: Rows
    between: Annotated[
        Rows, described("Per arm and agent: people assigned for this phase before it began; reports count them apart.")
    ] = ()
    most_ahead: Annotated[
        tuple[Count, ...],
        described("Per agent: how many may be assigned for the next phase once this one has its people."),
    ] = ()

    def draws(self, agent: int) -> tuple[int, ...]:
        """One agent's quotas, per arm."""
        return tuple(row[agent] for row in self.quotas)

    def between_of(self, agent: int) -> tuple[int, ...]:
        """Per arm: people whom one agent assigned before the phase; empty if there are none."""
        column = tuple(row[agent] for row in self.between)
        return column if any(column) else ()

    def most_ahead_of(self, agent: int) -> int:
        """How many people one agent may assign for the next phase."""
        return self.most_ahead[agent] if self.most_ahead else 0

    @once
    def array(self) -> IntArray:
        """The quotas, `(arm, agent)`."""
        return np.array(self.quotas, dtype=np.int64)

    @once
    def asked(self) -> tuple[bool, ...]:
        """Per agent: whether it draws anything in this phase."""
        return tuple(any(column) for column in zip(*self.quotas, strict=True))


class OutcomeTotals(Model, omit_defaults=True):
    """The totals of one further outcome in a report, per arm like the report's own totals.

    Every person in the report has this outcome or counts as missing it, including people without the primary outcome.
    """

    name: Annotated[Name, described("Name of the outcome, as in the study.")]
    counts: Counts
    sums: Sums
    squares: Annotated[Sums, described("Left out in a private study.")] = ()
    missing: Annotated[Counts, described("Per arm: people whose outcome will never come.")] = ()

    @classmethod
    def of(cls, name: str, totals: Totals, missing: tuple[int, ...] = ()) -> Self:
        """Convert the totals of an outcome that an agent observed, `(arm,)`."""
        return cls(
            name=name,
            counts=tuple(totals.counts.tolist()),
            sums=tuple(totals.sums.tolist()),
            squares=() if totals.squares is None else tuple(totals.squares.tolist()),
            missing=missing if any(missing) else (),
        )

    @property
    def totals(self) -> Totals:
        """`(arm,)`: the totals; squares that were not sent are 0."""
        return _totals(self.counts, self.sums, self.squares)


def _totals(counts: tuple[int, ...], sums: tuple[float, ...], squares: tuple[float, ...]) -> Totals:
    return Totals(
        counts=np.array(counts, dtype=np.int64),
        sums=np.array(sums),
        squares=np.array(squares) if squares else np.zeros(len(sums)),
    )


class BetweenTotals(Model, omit_defaults=True):
    """Totals per arm of the people whom a site assigned for a phase before the phase began (docs/changes.md)."""

    counts: Counts
    sums: Sums
    squares: Sums
    missing: Annotated[Counts, described("Per arm: people whose outcome will never come.")] = ()
    outcomes: Annotated[
        tuple[OutcomeTotals, ...], described("Totals of each further outcome, in the study's order; empty without any.")
    ] = ()

    @classmethod
    def of(cls, totals: Totals, missing: tuple[int, ...] = (), outcomes: tuple[OutcomeTotals, ...] = ()) -> Self:
        """Make this part of a report from the totals that an agent observed, `(arm,)`."""
        return cls(
            counts=tuple(totals.counts.tolist()),
            sums=tuple(totals.sums.tolist()),
            squares=tuple(totals.require_squares().tolist()),
            missing=missing if any(missing) else (),
            outcomes=outcomes,
        )

    @property
    def totals(self) -> Totals:
        """`(arm,)`: the totals as arrays."""
        return _totals(self.counts, self.sums, self.squares)


class Report(Message, tag="parley/report/1"):
    """An agent's draws in a phase: per arm the count, the sum of the rewards and the sum of their squares.

    In a private study the sums have noise, and there are no squares.
    """

    study: Name
    phase: Phase
    agent: Name
    plan: Annotated[Digest, described("Digest of the plan that was followed.")]
    counts: Counts
    sums: Sums
    squares: Annotated[Sums, described("Left out in a private study.")] = ()
    missing: Annotated[Counts, described("Per arm: people whose outcome will never come.")] = ()
    reason: Annotated[
        str, Meta(max_length=40, description="Why the counts differ from the plan: a word from the list in the docs.")
    ] = ""
    final: Annotated[
        bool, described("Fewer draws than planned, and no more will come: this agent has closed its phase.")
    ] = False
    outside: Annotated[
        Count | None,
        described("People who came since the last report when nobody was needed, if any; they do not count."),
    ] = None
    unmasked: Annotated[
        Count | None,
        described("In a masked study: people whose arm was shown at the site since the last report, if any."),
    ] = None
    releases: Annotated[
        Count | None,
        described("How often sums of this phase left the site, each time with new noise; if more than once."),
    ] = None
    outcomes: Annotated[
        tuple[OutcomeTotals, ...], described("Totals of each further outcome, in the study's order; empty without any.")
    ] = ()
    theta: Annotated[
        float | None, described("With a covariate: rewards are reported less `theta` times its distance from `x0`.")
    ] = None
    x0: Annotated[
        float | None, described("With a covariate; left out while none was observed yet, and `theta` is 0.")
    ] = None
    left: Annotated[
        float | None,
        described("With a covariate whose slope is learned: the share of variance that the next `theta` leaves."),
    ] = None
    missing_x: Annotated[
        Count | None, described("People whose covariate is not known, if any: `x0` is used instead.")
    ] = None
    voided: Annotated[
        Count | None, described("Assignments that the site voided, if any: these people are not counted.")
    ] = None
    ahead: Annotated[
        Counts, described("Per arm: people who came after those of this phase and were assigned for the next one.")
    ] = ()
    between: Annotated[
        BetweenTotals | None, described("Totals of the people whom the last report named as `ahead`, if any.")
    ] = None

    @classmethod
    def of(cls, totals: Totals, *, study: str, phase: int, agent: str, plan: str, **more: Any) -> Self:
        """Make a report from the totals of an agent's draws, `(arm,)`.

        >>> report = Report.of(Totals.of([[1.0, 0.5], []]), study="s", phase=1, agent="x", plan="0" * 64)
        >>> report.counts, report.sums, Report.read(report.text).digest == report.digest
        ((2, 0), (1.5, 0.0), True)
        """
        return cls(
            **more,
            study=study,
            phase=phase,
            agent=agent,
            plan=plan,
            counts=tuple(totals.counts.tolist()),
            sums=tuple(totals.sums.tolist()),
            squares=() if totals.squares is None else tuple(totals.squares.tolist()),
        )

    @property
    def private(self) -> bool:
        """Whether the report belongs to a private study, so that its sums have noise."""
        return not self.squares

    @property
    def totals(self) -> Totals:
        """`(arm,)`: the totals as arrays; squares that were not sent are 0."""
        found = _totals(self.counts, self.sums, self.squares)
        left = None if self.left is None else np.full(len(self.counts), self.left)
        return replace(found, left=left, between=None if self.between is None else self.between.totals)

    def outcome_totals(self, place: int) -> Totals:
        """`(arm,)`: the totals of a further outcome, by its index in the study."""
        early = None if self.between is None else self.between.outcomes[place].totals
        return replace(self.outcomes[place].totals, between=early)

    @property
    def people(self) -> int:
        """The number of people counted, including those who came before the phase."""
        return sum(self.counts) + (0 if self.between is None else sum(self.between.counts))


class Receipt(Message, tag="parley/receipt/1"):
    """Proof that a report is in the log: at `sequence`, the chain had the hash `head`.

    The agent keeps the receipt and sends it with its next report.
    """

    study: str
    phase: Phase
    agent: str
    report: Digest
    sequence: Annotated[Count, described("The number of the record that holds the report.")]
    head: Annotated[str, described("The hash of that record.")]

    @classmethod
    def of(cls, report: Report, *, sequence: int, head: str) -> Self:
        """Make the receipt of a report that is in the log at `sequence`."""
        return cls(
            study=report.study,
            phase=report.phase,
            agent=report.agent,
            report=report.digest,
            sequence=sequence,
            head=head,
        )

    def proves(self, report: Report) -> bool:
        """Whether this receipt was issued for a report.

        >>> report = Report(study="s", phase=1, agent="x", plan="ab", counts=(2,), sums=(1.5,), squares=(1.25,))
        >>> Receipt.of(report, sequence=2, head="a" * 64).proves(report)
        True
        """
        return self == type(self).of(report, sequence=self.sequence, head=self.head)


class Decision(Message, tag="parley/decision/1"):
    """The decision on a phase: what the policy decided, and from which data."""

    study: str
    phase: Phase
    plan: Digest
    data: Annotated[Digest, described("Digest of the list of digests of the phase's reports.")]
    counts: Annotated[Rows, described("Draws in this phase, per arm and agent.")]
    dropped_in: Annotated[
        Rows, described("After this phase: the phase that ruled the arm out or set it aside for the agent, else 0.")
    ]
    finished: bool
    state: Annotated[Digest, described("Digest of the policy's state after this phase.")]
    missing: Annotated[Rows, described("Per arm and agent: people whose outcome will never come; empty if none.")] = ()
    asked: Annotated[
        Rows, described("Planned draws of the agents that reported; empty if every report follows the plan.")
    ] = ()
    releases: Annotated[Count | None, described("The most releases of any report of the phase, if over 1.")] = None
    theta: Annotated[
        tuple[float | None, ...], described("With a covariate, per agent: the value in its report, if there is one.")
    ] = ()
    x0: Annotated[tuple[float | None, ...], described("With a covariate, per agent: the value in its report.")] = ()
    missing_x: Annotated[Count | None, described("People whose covariate is not known, if any.")] = None
    voided: Annotated[Count | None, described("Assignments that sites voided, if any.")] = None
    unmasked: Annotated[
        dict[str, int] | None, described("Agent -> people whose arm was shown there, by its report; None if none.")
    ] = None
    between: Annotated[
        Rows, described("Per arm and agent: people assigned before the phase who count in it; empty if none.")
    ] = ()
    ahead: Annotated[
        Rows, described("Per arm and agent: people already assigned for the next phase; empty if none.")
    ] = ()


class Correction(Message, tag="parley/correction/1"):
    """A report that an administrator corrected after its phase was decided."""

    sequence: Annotated[Count, described("Number of the record that holds it.")]
    phase: Phase
    agent: str
    reason: str
    report: Annotated[Digest, described("Digest of the corrected report.")]
    replaces: Annotated[Digest, described("Digest of the correction before it, or of the report decided on.")]


class Certificate(Message, tag="parley/certificate/1"):
    """The result of a study: its question, its data, its conclusions, and how far these can be trusted.

    The certificate of a blocked study is valid until a site comes back or the others are re-weighed; another
    certificate follows then.
    """

    study: str
    problem: Annotated[Digest, described("Digest of the study, with the weights and arms in force at the end.")]
    data: Annotated[Digest, described("Digest of the list of digests of every phase's data.")]
    policy: str
    options: dict[str, Any]
    version: Annotated[str, described("Version of Parley.")]
    delta: float
    guarantee: str
    drift: Annotated[str, described("Which part of the guarantee holds if means move between phases.")]
    complete: Annotated[bool, described("False if stopped early: then the answers are the candidates that remain.")]
    answers: Annotated[dict[str, list[str]], described("Agent -> the names of its arms.")]
    phases: Count
    samples: Count
    frozen: tuple[str, ...]
    evidence: Annotated[
        dict[str, Any],
        described("The policy's own certificate: thresholds, and the evidence against every arm, per agent."),
    ]
    state: Annotated[dict[str, Any], described("State of the policy: everything above can be recomputed from it.")]
    sequence: Annotated[Count, described("Last record of the log when it was issued.")]
    head: str
    planned_looks: Annotated[Count | None, described("Planned number of phases; None if none was planned.")] = None
    largest_size: Annotated[
        Count | None, described("The most samples the question in force could ask for; None: no limit.")
    ] = None
    ends: Annotated[
        dict[str, str] | None,
        described("Agent -> how its question ended, unless all are decided or the study was cancelled."),
    ] = None
    map: Annotated[
        tuple[dict[str, Any], ...] | None,
        described("Where weights are in doubt, per site: the answer at every step, and the ranges in which one holds."),
    ] = None
    created: Annotated[
        str | None, described("Digest of the study as it was created, where another question was asked since.")
    ] = None
    opened: Annotated[
        dict[str, Phase], described("Arms opened in mid-study -> the phase in which each was last opened.")
    ] = msgspec.field(default_factory=dict)
    withdrawn: Annotated[dict[str, Phase], described("Withdrawn arms -> since which phase.")] = msgspec.field(
        default_factory=dict
    )
    missing: Annotated[Rows, described("Per arm and agent, over all phases: people without an outcome.")] = ()
    left_out: Annotated[
        Rows, described("Per arm and agent, over all phases: planned draws that the agent's reports do not have.")
    ] = ()
    voided: Annotated[Count | None, described("Assignments that sites voided in all phases, if any.")] = None
    empty_phases: Annotated[
        dict[str, int] | None, described("Agent -> phases in which it reported none of what was planned; None if none.")
    ] = None
    unmasked: Annotated[
        dict[str, int] | None,
        described("In a masked study: agent -> people whose arm was shown there, by the reports; None if none."),
    ] = None
    between: Annotated[
        Count | None,
        described("Samples of people whom agents assigned while the phase before awaited outcomes, if any."),
    ] = None
    ahead: Annotated[
        Count | None,
        described("People whom agents assigned for the phase after the last one, if any: they are not counted."),
    ] = None
    warnings: Annotated[
        tuple[str, ...], described("Where the data contradict what the study assumes about its rewards.")
    ] = ()
    corrections: Annotated[
        tuple[Correction, ...], described("Reports that were corrected after their phase was decided, all of them.")
    ] = ()
    with_corrections: Annotated[
        dict[str, Any] | None,
        described(
            "What the study would have found with them: `meaning`, whose answer `would_change`, `answers`, arms "
            "dropped in `other_phases`, what `guardrails` would have found otherwise, and the `evidence` with its "
            "estimates."
        ),
    ] = None
    outcomes: Annotated[
        tuple[dict[str, Any], ...],
        described(
            "For each further outcome: estimates per agent and arm; for a guardrail also the status of every arm "
            "(`arms`: cleared, not cleared yet, proposed or stopped)."
        ),
    ] = ()
    privacy: Annotated[
        dict[str, float] | None,
        described(
            "For a private study: `rho` per release, the most `releases` of any report, and their joint `epsilon` at "
            "this `delta`."
        ),
    ] = None
    covariate: Annotated[
        dict[str, Any] | None,
        described(
            "For a study with a covariate: its `name`; per agent `theta` and `x0` phase by phase; and how many people "
            "are `missing` it."
        ),
    ] = None
    messages: Annotated[
        dict[str, Any],
        described("Sentence of this certificate -> the `message` it was made from and its `values`, to be translated."),
    ] = msgspec.field(default_factory=dict)

    @once
    def text(self) -> str:
        """The canonical text."""
        return canonical(self._plain)

    def is_written(self, text: str, start: int, stop: int) -> bool:
        """Whether `text[start:stop]` is this certificate's text. Builds no copy of it, since it may take 60 MB."""
        found = digest_if_written(self._plain, text, start, stop)
        if found is not None:
            vars(self)["digest"] = found
        return found is not None

    @property
    def _plain(self) -> dict[str, Any]:
        return plain_around(self, {"evidence": self.evidence, "state": self.state})
