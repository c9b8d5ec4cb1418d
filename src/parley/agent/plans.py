"""An agent's plan, the report that answers the plan, and the receipt for the report."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from parley.agent.outcomes import DrawnOutcome
from parley.covariates import Pairs
from parley.errors import InvalidInput, WrongPlan, WrongReceipt
from parley.protocol import Receipt, Report
from parley.protocol.codec import Count, Model
from parley.protocol.messages import BetweenTotals, OutcomeTotals
from parley.totals import Totals

OVER = ("finished", "cancelled")
FIRST_REPORT = 2  # lowest sequence number of a report: record 1 of a log is the study itself
HEAD = re.compile(r"[0-9a-f]{64}")


class NotYet(Exception):
    """Not all rewards for a plan are available yet; ask again later. No draw was spent."""


class Withheld(Exception):
    """The site's own policy forbids sending the report. The draws stay at the site."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """The answer of a source to a plan: totals and, if available, individual rewards, further outcomes and notes.

    `rewards` are the individual rewards by arm, if known: only these can be clipped, or summed without rounding.
    """

    totals: Totals
    rewards: Sequence[Sequence[float]] = ()
    releases: int | None = None  # number of releases of this phase's sums; None for the first
    missing: tuple[int, ...] = ()  # per arm: people whose reward will not come
    outcomes: tuple[DrawnOutcome, ...] = ()  # further outcomes, in the study's order
    outside: int = 0  # people since the previous report who do not count
    unmasked: int = 0  # people unmasked since the previous report
    reason: str = ""  # why the counts are not the plan's
    final: bool = False  # fewer draws than planned, and no more will come
    covariates: Sequence[Sequence[float | None]] = ()  # of the people in `rewards`, if the study has a covariate
    pairs: Pairs | None = None  # (arm, 1): sums of rewards and covariates, from a source without single people
    theta: float | None = None  # slope by which totals and rewards were adjusted
    x0: float | None = None  # value of the covariate at which the adjustment is 0
    left: float | None = None  # variance expected in the next phase, relative to this one's
    missing_x: int = 0  # people whose covariate is unknown
    voided: int = 0  # voided assignments of the phase
    ahead: tuple[int, ...] = ()  # per arm: people assigned for the next phase
    between: BetweenTotals | None = None  # totals of people who were assigned for this phase in advance


class AgentPlan(Model, forbid_unknown_fields=False):
    """A study's state and plan for one agent. `draws` is None if none are asked for now. Unknown keys are ignored."""

    study: str
    agent: str
    stage: str
    reason: str
    phase: Count
    plan: str | None  # digest of the whole plan
    arms: tuple[str, ...]
    draws: tuple[Count, ...] | None
    reported: bool
    frozen: bool
    rho: float | None = None
    closed_arms: tuple[str, ...] = ()  # a report may have fewer draws of an arm withdrawn in this phase
    between: tuple[Count, ...] | None = None  # per arm: people who were assigned for this phase in advance
    most_ahead: Count = 0  # how many may be assigned for the next phase
    answer: tuple[str, ...] | None = None  # a finished study's answer for this agent, if agents see it

    def __post_init__(self) -> None:
        """Check the fields: the JSON could be from a server that is not a coordinator."""
        if self.draws is not None and (self.phase == 0 or len(self.draws) != len(self.arms)):
            found = f"phase {self.phase}, {len(self.draws)} counts for {len(self.arms)} arms"
            raise InvalidInput("plan", found=found, allowed="a phase from 1, and a count for every arm")

    @property
    def over(self) -> bool:
        return self.stage in OVER

    @property
    def resting(self) -> str:
        """Why no draws are asked for until an administrator acts; empty if draws may be asked for."""
        if self.frozen:
            return "this agent is frozen, and waits in case it is thawed"
        return "open questions are blocked by a lost site; this agent waits in case the study goes on" * (
            self.stage == "stalled"
        )

    @property
    def due(self) -> bool:
        return self.stage == "running" and self.draws is not None and not self.reported and not self.frozen

    def report(self, drawn: Totals | Delivery) -> Report:
        if self.plan is None or self.draws is None:
            raise InvalidInput("plan", found="nothing asked", allowed="a plan with draws")
        delivery = drawn if isinstance(drawn, Delivery) else Delivery(totals=drawn)
        counts = zip(self.arms, delivery.totals.counts.tolist(), self.draws, strict=True)
        if not delivery.reason and any(
            n != asked and (arm not in self.closed_arms or n > asked) for arm, n, asked in counts
        ):
            raise InvalidInput(
                "rewards", found=f"{delivery.totals.counts.tolist()} draws", allowed=f"the plan's, {list(self.draws)}"
            )
        if self.rho is not None and delivery.totals.squares is not None:
            raise InvalidInput(
                "report",
                found="exact sums",
                allowed=f"sums with noise: the reports of this study are private (rho {self.rho:g})",
                hint="A `Worker` with the `Disclosure` of the study adds it",
            )
        return Report.of(
            delivery.totals,
            study=self.study,
            phase=self.phase,
            agent=self.agent,
            plan=self.plan,
            missing=delivery.missing,
            outcomes=tuple(OutcomeTotals.of(one.name, one.totals, one.missing) for one in delivery.outcomes),
            outside=delivery.outside or None,
            unmasked=delivery.unmasked or None,
            releases=delivery.releases,
            reason=delivery.reason,
            final=delivery.final,
            theta=delivery.theta,
            x0=delivery.x0,
            left=delivery.left,
            missing_x=delivery.missing_x or None,
            voided=delivery.voided or None,
            ahead=delivery.ahead,
            between=delivery.between,
        )


def meant(plan: AgentPlan, study: str, agent: str) -> AgentPlan:
    """Return a plan; raise `WrongPlan` if it is for another study or agent, whose name the report would carry."""
    if (plan.study, plan.agent) != (study, agent):
        raise WrongPlan(
            f"the plan is for {plan.agent!r} in {plan.study!r}, but {agent!r} in {study!r} asked. Nothing is drawn "
            "for it; tell the administrator"
        )
    return plan


def proven(receipt: Receipt, report: Report) -> Receipt:
    """Return the receipt, or raise `WrongReceipt` if it does not prove that this report was accepted."""
    if receipt.sequence < FIRST_REPORT or HEAD.fullmatch(receipt.head) is None:
        raise WrongReceipt(
            f"the receipt names record {receipt.sequence} with the hash {receipt.head!r:.80}: no log has such a "
            "record, so it proves nothing. The coordinator did not acknowledge this report; tell the other sites"
        )
    if not receipt.proves(report):
        raise WrongReceipt(
            f"the receipt is for report {receipt.report:.12}... of {receipt.agent!r} in phase {receipt.phase} of "
            f"{receipt.study!r}, but report {report.digest:.12}... of {report.agent!r} in phase {report.phase} of "
            f"{report.study!r} was sent. The coordinator did not acknowledge this report; tell the other sites"
        )
    return receipt
