"""What may leave a site: in a private study only noisy sums, and in any study only what the site's own policy allows.

Each sum is rounded to the study's grid and gets discrete Gaussian noise from OpenDP. The noise is drawn only once: the
outbox stores the noisy sums with the exact sums. Sums that a correction changed are another release, and the report
states the number of releases. docs/privacy.md describes the mechanism, docs/site.md the keys of the policy file.
"""

import math
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np

from parley.agent.journal import RulesSeen
from parley.agent.outbox import Outbox
from parley.agent.outcomes import DrawnOutcome, OutcomeRules, clipped
from parley.agent.plans import AgentPlan, Delivery, Withheld
from parley.errors import InvalidInput, UnknownName, need
from parley.protocol import Report
from parley.protocol.codec import SHA256
from parley.protocol.messages import BetweenTotals
from parley.protocol.report_checks import MOST_RELEASES
from parley.totals import Totals
from parley.validation.checks import LARGEST_COUNT, above_zero, switch, whole

KEYS = ("smallest_cell", "largest_rho", "studies", "hold")


@dataclass(frozen=True, kw_only=True)
class SitePolicy:
    """A site's own limits on what may leave it, whatever the study says; there are none by default.

    >>> policy = SitePolicy(smallest_cell=20, largest_rho=0.1)
    >>> policy.objection(RulesSeen(), (30, 30))
    "this site's policy requires rho of at most 0.1 (this study adds no noise)"
    >>> policy.objection(RulesSeen(rho=0.05), (30, 12))
    "this site's policy requires at least 20 people per arm (this plan asks for fewer in one)"
    """

    smallest_cell: int = 1  # fewest people per arm in a report
    largest_rho: float | None = None  # largest privacy loss per person; None also allows studies without noise
    studies: tuple[str, ...] | None = None  # digests of the only studies allowed; None allows any
    hold: bool = False  # a person at the site must release each report before it is sent

    def __post_init__(self) -> None:
        cell, rho, studies = self.smallest_cell, self.largest_rho, self.studies
        whole("smallest_cell", cell, 1, LARGEST_COUNT)
        if rho is not None:
            above_zero("largest_rho", rho)
        switch("hold", self.hold)
        if studies is not None and (not studies or not all(re.fullmatch(SHA256, str(one)) for one in studies)):
            raise InvalidInput(
                "studies", found=repr(studies)[:60], allowed="a list of digests, 64 hexadecimal digits each"
            )

    @classmethod
    def of(cls, keys: Mapping[str, Any]) -> Self:
        """Make a policy from the keys of its file."""
        for key in keys:
            if key not in KEYS:
                raise UnknownName("key", key, KEYS)
        studies = keys.get("studies")
        return cls(**{**keys, "studies": tuple(studies) if isinstance(studies, list) else studies})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a policy from a TOML file; an error names the file, the key, what was found and what is allowed."""
        try:
            return cls.of(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error.key}", found=error.found, allowed=error.allowed) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            found = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(str(path), found=found, allowed="a TOML file that can be read") from None

    def objection(self, study: RulesSeen, draws: Sequence[int]) -> str:
        """The requirements that a plan does not meet, in words; empty if it meets all of them.

        No arm is named, because blinded readers see this text.
        """
        found = []
        if self.studies is not None and study.digest not in self.studies:
            found.append(f"a study on its list (this one has the digest {study.digest or 'of nothing'})")
        if self.largest_rho is not None and (study.rho is None or study.rho > self.largest_rho):
            has = "adds no noise" if study.rho is None else f"has {study.rho:g}"
            found.append(f"rho of at most {self.largest_rho:g} (this study {has})")
        if any(0 < count < self.smallest_cell for count in draws):
            found.append(f"at least {self.smallest_cell} people per arm (this plan asks for fewer in one)")
        return f"this site's policy requires {'; '.join(found)}" if found else ""


class ReportNoise:
    """Discrete Gaussian noise from OpenDP, for sums that are whole numbers of steps of a grid.

    A release satisfies rho-zCDP if a person can change only one of the sums, by at most `sensitivity` steps. Raises
    `MissingPackage` without the extra `privacy`.

    >>> noise = ReportNoise(sensitivity=1, rho=50.0)  # hardly any
    >>> len(noise.added([3, 4])), noise.rho <= 50.0
    (2, True)
    """

    def __init__(self, *, sensitivity: int, rho: float) -> None:
        dp = need("opendp.prelude", extra="privacy", purpose="private reports (privacy.rho)")
        dp.enable_features("contrib")
        # The sensitivity is a Euclidean distance over all sums of a report. A person is in only one of them, so the
        # distance is the change of that one sum.
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        scale, self.rho = sensitivity / math.sqrt(2 * rho), math.inf
        while self.rho > rho:  # OpenDP rounds the proven rho up: widen the noise until the study's rho is proven
            self._measurement = dp.m.make_gaussian(*space, scale=scale)
            self.rho = self._measurement.map(float(sensitivity))
            scale = math.nextafter(scale, math.inf)

    def added(self, steps: Sequence[int]) -> list[int]:
        """Return the sums with noise added; every call draws new noise."""
        return [int(step) for step in self._measurement(list(steps))] if steps else []


def exact_sum(values: Iterable[float]) -> Fraction:
    """The exact sum of floats, as a fraction; a rounded sum would have a larger sensitivity.

    >>> exact_sum([0.1] * 10) == 10 * Fraction(0.1), exact_sum([])
    (True, Fraction(0, 1))
    """
    parts = list(values)
    total = Fraction(0)
    # `fsum` rounds once, at the end. Subtract the returned value and sum what remains, until nothing is left.
    while rest := math.fsum(parts):
        total += Fraction(rest)
        parts.append(-rest)
    return total


# The study's rules that limit what anybody can learn about a person. A study never changes them.
TERMS = (
    "rho",
    "minimum_cell",
    "low",
    "high",
    "clip",
    "grid",
    "sensitivity",
    "outcomes",
    "covariate",
    "covariate_theta",
)


def pinned(outbox: Outbox, study: RulesSeen, policy: SitePolicy | None) -> SitePolicy:
    """Pin the study's privacy terms at an agent's first start, check them later, and return the site's policy.

    A coordinator that later states other terms is refused, because no study changes its terms. A start without a policy
    uses the last one given; a new policy replaces it.
    """
    terms = {name: found for name, found in study.to_json().items() if name in TERMS}
    earlier = outbox.pinned()
    if earlier is not None:
        for name in TERMS:
            if terms.get(name) != earlier["terms"].get(name):
                raise InvalidInput(
                    f"{name} of the study",
                    found=terms.get(name),
                    allowed=f"{earlier['terms'].get(name)}, as when this agent first started",
                    hint=f"Nothing is drawn or sent. Ask the administrator; the pinned values are in {outbox.folder}",
                )
        if policy is None:
            return SitePolicy.of(earlier["policy"])
    policy = policy or SitePolicy()
    outbox.pin({"terms": terms, "policy": {key: value for key, value in vars(policy).items() if value is not None}})
    return policy


class Disclosure:
    """Turns draws into the report that may leave the site under the study's rules and the site's own policy.

    >>> Disclosure(RulesSeen(rho=0.5), SitePolicy(largest_rho=0.1)).objection((30, 30))
    "this site's policy requires rho of at most 0.1 (this study has 0.5)"
    """

    def __init__(
        self, study: RulesSeen | None = None, policy: SitePolicy | None = None, *, noise: ReportNoise | None = None
    ) -> None:
        self._study, self._policy = study or RulesSeen(), policy or SitePolicy()
        self._noises: list[ReportNoise] = [] if noise is None else [noise]
        if noise is None and self._study.rho is not None:  # made before anything is drawn: OpenDP may be missing
            # Each outcome of a person is released separately, and the privacy losses add up to the study's rho.
            rho = self._study.rho / len(self._rules)
            self._noises = [ReportNoise(sensitivity=one.sensitivity, rho=rho) for one in self._rules]

    @property
    def _rules(self) -> list[RulesSeen | OutcomeRules]:
        """The rules of every outcome, the reward first."""
        return [self._study, *self._study.outcomes]

    def objection(self, draws: Sequence[int]) -> str:
        """Why the site's policy forbids drawing for this plan; empty if the policy allows it."""
        return self._policy.objection(self._study, draws)

    def holds(self, outbox: Outbox, report: Report) -> bool:
        """Whether somebody at the site must still release a report before it is sent."""
        return self._policy.hold and not outbox.is_released(report)

    def report(self, plan: AgentPlan, drawn: Totals | Delivery, outbox: Outbox) -> Report:
        """Make the report of the draws, with rewards clipped and noise added if the study requires that.

        Raises `Withheld` if the site's policy forbids the report.
        """
        delivery = drawn if isinstance(drawn, Delivery) else Delivery(totals=drawn)
        rewards = clipped(self._study.clip, delivery.rewards)
        totals, releases = Totals.of(rewards) if rewards else delivery.totals, 1
        least = self._policy.smallest_cell
        if any(0 < count < least for count in totals.counts.tolist()):
            raise Withheld(f"this site's policy requires at least {least} people per arm")
        names, found = ([one.name for one in outcomes] for outcomes in (self._study.outcomes, delivery.outcomes))
        if names != found:
            raise InvalidInput("outcomes", found=", ".join(found) or "none", allowed=", ".join(names) or "none")
        others = [one.clipped(rules.clip) for rules, one in zip(self._study.outcomes, delivery.outcomes, strict=True)]
        others = [one.without_small_cells(max(least, self._study.minimum_cell)) for one in others]
        if self._noises:
            (totals, *noisy), releases = self._noisy(
                plan.phase, [(totals, rewards), *((one.totals, one.values) for one in others)], outbox
            )
            others = [replace(one, totals=found, values=()) for one, found in zip(others, noisy, strict=True)]
        made = replace(delivery, totals=totals, outcomes=tuple(others), releases=releases if releases > 1 else None)
        return plan.report(made)

    def corrected(
        self,
        arms: tuple[str, ...],
        earlier: Report,
        rewards: Sequence[Sequence[float]],
        outbox: Outbox,
        outcomes: tuple[DrawnOutcome, ...] = (),
        between: BetweenTotals | None = None,
    ) -> Report:
        """Make a corrected report as `recounted` does, but raise `InvalidInput` if it equals the earlier report."""
        report = self.recounted(arms, earlier, rewards, outbox, outcomes, between)
        if report == earlier:
            raise InvalidInput("rewards", found="those that were reported", allowed="others: nothing to correct")
        return report

    def recounted(
        self,
        arms: tuple[str, ...],
        earlier: Report,
        rewards: Sequence[Sequence[float]],
        outbox: Outbox,
        outcomes: tuple[DrawnOutcome, ...] = (),
        between: BetweenTotals | None = None,
    ) -> Report:
        """Make a corrected report for the administrator, about the same people and with their corrected rewards.

        In a private study the corrected sums are another release, whose noise is drawn once and stored, like the noise
        of the first release. The earlier report stays in the outbox, since the study decided the phase with it.
        """
        counts = tuple(map(len, rewards))
        if counts != earlier.counts:
            allowed = f"as many of each arm as were reported, {list(earlier.counts)}"
            raise InvalidInput("rewards", found=f"{list(counts)}", allowed=allowed)
        plan = AgentPlan(
            study=earlier.study,
            agent=earlier.agent,
            stage="",
            reason="",
            phase=earlier.phase,
            plan=earlier.plan,
            arms=arms,
            draws=counts,
            reported=True,
            frozen=False,
            rho=self._study.rho,
        )
        delivery = Delivery(
            totals=Totals.of(rewards),
            rewards=rewards,
            missing=earlier.missing,
            outcomes=outcomes,
            outside=earlier.outside or 0,
            unmasked=earlier.unmasked or 0,
            reason=earlier.reason,
            final=earlier.final,
            theta=earlier.theta,
            x0=earlier.x0,
            left=earlier.left,
            missing_x=earlier.missing_x or 0,
            voided=earlier.voided or 0,
            ahead=earlier.ahead,
            between=between,
        )
        return self.report(plan, delivery, outbox)

    def _require_in_range(self, rules: RulesSeen | OutcomeRules, totals: Totals) -> None:
        """Raise if rewards in the range cannot have these sums: noise is scaled to the range. Errors name no sum."""
        low, high = rules.clip or (rules.low, rules.high)
        if isinstance(rules, RulesSeen) and rules.covariate:
            low, high = rules.report_low, rules.report_high
        if low is None or high is None:
            return
        # If all rewards are at a bound, their floating-point sum may slightly exceed count times bound.
        slack = 1e-9 * max(abs(low), abs(high)) * totals.counts
        if ((totals.sums < totals.counts * low - slack) | (totals.sums > totals.counts * high + slack)).any():
            raise InvalidInput(
                rules.name if isinstance(rules, OutcomeRules) else "rewards",
                found="a sum outside of the range",
                allowed=f"sums of rewards from {low:g} to {high:g}",
            )

    def _noisy(
        self, phase: int, parts: Sequence[tuple[Totals, Sequence[Sequence[float]]]], outbox: Outbox
    ) -> tuple[list[Totals], int]:
        """Add noise to the totals of every outcome.

        Returns the totals that may leave the site, and the number of releases of this phase's sums so far.
        """
        exact: list[dict[str, list[int]]] = []
        grids: list[Fraction] = []
        for rules, (totals, values) in zip(self._rules, parts, strict=True):
            self._require_in_range(rules, totals)
            sums = [exact_sum(row) for row in values] or [Fraction(value) for value in totals.sums.tolist()]
            grids.append(Fraction(rules.grid))
            steps = [math.floor(value / grids[-1] + Fraction(1, 2)) for value in sums]
            exact.append({"counts": totals.counts.tolist(), "steps": steps})

        def drawn(number: int) -> list[int]:
            if number > MOST_RELEASES:
                raise Withheld(f"sums of phase {phase} were released {MOST_RELEASES:,} times: no more is allowed")
            rho, most = self._study.rho or 0.0, self._policy.largest_rho
            if most is not None and number * rho > most * (1 + 1e-12):
                raise Withheld(
                    f"this site's policy allows rho up to {most:g} in all releases together (this would be release "
                    f"{number} of its phase, with {rho:g} each)"
                )
            found = [step for noise, one in zip(self._noises, exact, strict=True) for step in _with_noise(noise, **one)]
            sys.audit("parley.reached", "noise-drawn")
            return found

        document: dict[str, Any] = {**exact[0], "outcomes": exact[1:]} if exact[1:] else {**exact[0]}
        flat, releases = outbox.noisy(phase, document, drawn)
        noisy = iter(flat)
        return [
            Totals(
                counts=np.array(one["counts"], dtype=np.int64),
                sums=np.array([float(next(noisy) * grid) for _ in one["counts"]]),
            )
            for one, grid in zip(exact, grids, strict=True)
        ], releases


def _with_noise(noise: ReportNoise, counts: Sequence[int], steps: Sequence[int]) -> list[int]:
    """Add noise to sums counted in steps. The sum of an empty cell stays 0, which the exact count reveals anyway."""
    fresh = iter(noise.added([step for step, count in zip(steps, counts, strict=True) if count]))
    return [next(fresh) if count else 0 for count in counts]
