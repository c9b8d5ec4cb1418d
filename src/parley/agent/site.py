"""A site: people come one by one, each gets an arm at once, and outcomes follow later.

Every entry is in the journal, synced to disk, before its caller gets an answer. A `Worker` reports a phase when it is
complete.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from parley.agent import journal
from parley.agent.entries import Entered, checked_key, checked_line, checked_reward, shortened
from parley.agent.kits import Shelf
from parley.agent.outbox import agent_folder
from parley.agent.outcomes import PRIMARY, DrawnOutcome, OutcomeRules, clipped, outcome_named
from parley.agent.people import CorrectionState, People, Person, PhaseBook, as_pattern, drawn_arm, fits
from parley.agent.plans import AgentPlan, Delivery, NotYet
from parley.agent.privacy import SitePolicy
from parley.covariates import Pairs, adjusted_rewards, checked_x, fixed_for, left_after
from parley.errors import InvalidInput, NotNow, SimilarKey
from parley.protocol.codec import Model
from parley.protocol.messages import BetweenTotals, OutcomeTotals
from parley.protocol.report_checks import CLOSING_REASONS
from parley.text.translation import Translatable
from parley.totals import Totals


class Site:
    """The people of one agent in one study. Several processes may share the journal: each call locks it.

    `rules` are the study's rules for its sites (`rules_of`); without them, the rules in the journal stay in force.
    `policy` is the site's own policy. `key` determines the order of arms, so that a simulation can be repeated; without
    it, the first start creates a secret key and stores it in the journal.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> site = Site(folder.name, study="s", agent="x")
    >>> site.begin(phase=1, plan="ab", arms=("A", "B"), draws=(0, 1))
    >>> site.assign("p-001").arm, site.assign("p-001").again, site.assign("p-002").counted
    ('B', True, False)
    >>> site.outcome("p-001", 1.0)
    >>> site.totals().sums.tolist()
    [0.0, 1.0]
    >>> site.close(); folder.cleanup()
    """

    repeatable = True  # a second call returns the same totals, from the journal

    def __init__(
        self,
        folder: str | Path,
        *,
        study: str,
        agent: str,
        rules: journal.RulesSeen | None = None,
        policy: SitePolicy | None = None,
        key: bytes | None = None,
        clock: Callable[[], datetime] = journal.now,
    ) -> None:
        self.study, self.agent, self.policy = study, agent, policy or SitePolicy()
        home = agent_folder(folder, study=study, agent=agent)
        home.mkdir(parents=True, exist_ok=True)
        self.people, self.clock = People(), clock
        self.shelf = Shelf([self.people])  # `Strata` replaces this by a shelf that all strata of the site share
        self._journal = journal.Journal(home / "journal", self.people.take, clock)
        with self._journal.turn() as write:
            if self.people.opened is None:
                write(journal.Opened(study=study, agent=agent, key=(key or secrets.token_bytes(32)).hex()))
            if rules is not None and rules != self.people.rules:
                write(rules)
        assert self.people.opened is not None
        self._key = bytes.fromhex(self.people.opened.key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._journal.close()

    @property
    def rules(self) -> journal.RulesSeen:
        """The study's rules for its sites."""
        return self.people.rules

    @property
    def stratum(self) -> str:
        """The name of the stratum; the agent's name if the site has no strata."""
        return self.rules.stratum or self.agent

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Lock the journal: nobody else writes to it meanwhile, and `people` is up to date."""
        with self._journal.turn():
            yield

    def begin(
        self,
        *,
        phase: int,
        plan: str,
        arms: tuple[str, ...],
        draws: tuple[int, ...],
        between: tuple[int, ...] = (),
        most_ahead: int = 0,
    ) -> None:
        """Record the plan of a phase (idempotent). `between` is, per arm, the number of people assigned in advance."""
        with self._journal.turn() as write:
            entry = journal.PhaseBegun(
                phase=phase, plan=plan, arms=arms, draws=draws, between=between, most_ahead=most_ahead
            )
            if self.people.is_new(entry):
                # Raises if the plan and this site's last report differ in how many people were assigned in advance.
                self.people.assigned_for(entry)
                write(msgspec.structs.replace(entry, **self._slope()))

    def _slope(self) -> dict[str, float | None]:
        """The theta and x0 with which a new phase is adjusted for the covariate; empty if the study has no covariate.

        They are estimated from all earlier phases, so they are fixed before the first outcome of the new phase.
        """
        rule = self.people.rules.adjustment
        if rule is None:
            return {}
        theta, x0 = fixed_for(rule, self._pairs(list(self.people.phases)))
        return {"theta": theta, "x0": x0}

    def _pairs(self, phases: Sequence[int]) -> list[Pairs]:
        """The sums from which the covariate's slope is estimated, one item per phase, in order."""
        return [self._slope_in(self.people.phases[phase]) for phase in sorted(phases)]

    def _slope_in(self, book: PhaseBook) -> Pairs:
        early = None if book.between is None else self._slope_in(book.between)
        return replace(Pairs.of(*self.people.pairs(book)), between=early)

    def _left(self, book: PhaseBook) -> float | None:
        """The variance of adjusted rewards expected in the next phase, relative to this phase's.

        None if rewards are not adjusted, or if the study states the slope.
        """
        rule, phase = self.people.rules.adjustment, book.plan.phase
        if rule is None or book.plan.theta is None:
            return None
        (own,) = self._pairs([phase])
        return left_after(rule, self._pairs([one for one in self.people.phases if one < phase]), own, book.plan.theta)

    def seen(self, stage: str, reason: str = "", answer: tuple[str, ...] | None = None) -> None:
        """Record the study's stage as the coordinator reported it, and the answer if the site may see it."""
        with self._journal.turn() as write:
            entry = journal.StageSeen(stage=stage, reason=reason, answer=answer)
            if self.people.stage != entry:
                write(entry)

    def close_arms(self, arms: Collection[str]) -> None:
        """Stop assigning these arms, and assign all others again."""
        with self._journal.turn() as write:
            if self.people.closed_arms != frozenset(arms):
                write(journal.ArmsClosed(arms=tuple(sorted(arms))))

    def assign(
        self,
        participant: str,
        *,
        somebody_else: bool = False,
        covariate: float | None = None,
        without_covariate: bool = False,
        eligible: bool = False,
    ) -> Assignment:
        """Assign an arm to a person. The first call draws it, and every later call returns the same arm.

        A new key that looks like a known one raises `SimilarKey`, unless the caller says it is `somebody_else`. If the
        study has a covariate, pass its value, or `without_covariate` if it is unknown: it cannot be added once the arm
        is known. If the study asks about eligibility, the person must be declared `eligible`.
        """
        key = checked_key(participant)
        with self._journal.turn() as write:
            person = self.people.persons.get(key)
            again = person is not None
            self._require_valid(person)
            x = self._checked_covariate(person, covariate, without=without_covariate)
            if person is None:
                self._require_running()
                self._require_pattern(key)
                if (similar := self.people.similar(key)) and not somebody_else:
                    raise SimilarKey(key, similar)
                book = self._book()
                if book.to_assign(replace_missing=self._replaces):
                    self._require_eligible(eligible)
                    self._require_covariate(x, without=without_covariate)
                    arm, share = drawn_arm(self._key, book.plan.phase, book.drawn, book.shares)
                    phase, odds, kit = book.plan.phase, str(share), self._kit(book, arm)
                    write(journal.Assigned(participant=key, phase=phase, arm=arm, probability=odds, x=x, kit=kit))
                # The phase is full: the person may be assigned for the next phase instead.
                elif any(shares := book.ahead_shares()):
                    self._require_eligible(eligible)
                    self._require_covariate(x, without=without_covariate)
                    phase, place = book.plan.phase, book.ahead.drawn
                    arm, share = drawn_arm(self._key, phase, place, shares, ahead=True)
                    odds, kit = str(share), self._kit(book, arm)
                    entry = journal.Assigned(participant=key, phase=phase, arm=arm, probability=odds, x=x, kit=kit)
                    write(msgspec.structs.replace(entry, ahead=True))
                else:
                    write(journal.Outside(participant=key, phase=book.plan.phase, arm=self._leading(book)))
                person = self.people[key]
            arms = self.people.phases[person.phase].plan.arms
            arm_name = None if person.arm is None else arms[person.arm]
            return Assignment(
                participant=key,
                phase=person.phase,
                arm=None if self.rules.kits else arm_name,
                counted=person.counted,
                again=again,
                stratum=self.rules.stratum,
                kit=person.kit,
            )

    def _kit(self, book: PhaseBook, arm: int) -> str:
        """Draw the number of a kit for the next person with this arm; empty if the study has no kits."""
        return self.shelf.draw(self._key, book.plan.arms[arm]) if self.rules.kits else ""

    def list_kits(self, data: bytes, source: str) -> int:
        """Add the kits of a table, all or none; returns their number."""
        with self._journal.turn() as write:
            self._require_kits()
            found = self.shelf.checked(data, source)
            write(journal.KitsListed(kits=tuple(found.items())))
            return len(found)

    def unmask(self, participant: str, *, by: str, reason: str, emergency: bool = False) -> Unmasking:
        """Reveal one person's arm, and record who saw it and why. Reports state how many people were unmasked."""
        key = checked_key(participant)
        for name, words in (("by", by), ("reason", reason)):
            if not words.strip() or len(words) > LONGEST_REASON or not words.isprintable():
                allowed = Translatable("one line of 1 to {most} characters", most=LONGEST_REASON)
                raise InvalidInput(name, found=repr(words)[:60], allowed=allowed)
        with self._journal.turn() as write:
            self._require_kits()
            person = self.people.persons.get(key)
            if person is None or person.arm is None:
                allowed = Translatable("somebody who was given a kit here")
                raise InvalidInput("participant", found=repr(key), allowed=allowed)
            write(journal.Unmasked(participant=key, by=by.strip(), reason=reason.strip(), emergency=emergency))
            sys.audit("parley.reached", "site-unmasked")
            arms = self.people.phases[person.phase].plan.arms
            return Unmasking(participant=key, kit=person.kit, arm=arms[person.arm])

    def _require_kits(self) -> None:
        if not self.rules.kits:
            raise NotNow(Translatable("this study has no kits: everybody here can see the assignments"))

    def _checked_covariate(self, person: Person | None, covariate: float | None, *, without: bool) -> float | None:
        """Check the covariate in a request for an arm. Returns None if it is unknown or was left out.

        Raises `NotNow` if it differs from the value recorded when the person was assigned.
        """
        name = self.people.rules.covariate
        if covariate is None and not without:
            return None
        if not name or (covariate is not None and without):
            allowed = (
                Translatable("either a number or a note that the value is not known")
                if name
                else Translatable("nothing: this study does not ask for such a value")
            )
            raise InvalidInput("covariate", found=shortened(covariate), allowed=allowed)
        try:
            x = None if covariate is None else checked_x("covariate", covariate)
        except InvalidInput:
            allowed = Translatable("a finite number")
            raise InvalidInput("covariate", found=shortened(covariate), allowed=allowed) from None
        if person is not None and person.counted and person.x != x:
            late = Translatable(
                (
                    "{key!r} is already assigned: {name} is recorded before the assignment and cannot be changed "
                    "afterwards"
                ),
                key=person.key,
                name=name,
            )
            raise NotNow(late)
        return x

    def _require_valid(self, person: Person | None) -> None:
        """Raise if a person's assignment was voided."""
        if person is not None and person.voided is not None:
            words = Translatable(
                "the assignment of {key!r} was voided ({reason}), so this person cannot join the study again",
                key=person.key,
                reason=person.voided.reason,
            )
            raise NotNow(words)

    def void(self, participant: str, *, reason: str, who: str) -> journal.Voided:
        """Void a mistaken assignment, as long as no outcome of the person is recorded.

        Returns the journal entry that voids it: the earlier entry, if the assignment was voided before.
        """
        said = journal.Voided(
            participant=checked_key(participant), reason=checked_line("reason", reason), who=checked_line("who", who)
        )
        with self._journal.turn() as write:
            person = self._known(said.participant)
            if person.voided is not None:
                return person.voided
            if not person.counted:
                raise NotNow(Translatable("{key!r} is outside the study: no outcome is counted", key=person.key))
            if self.people.was_counted(person):
                raise NotNow(
                    Translatable(
                        "phase {phase} is over, so its assignments can no longer be voided", phase=person.phase
                    )
                )
            if person.reward is not None or person.missing or person.others:
                raise NotNow(
                    Translatable(
                        "an outcome of {key!r} is already recorded or marked as missing: an assignment can be voided "
                        "only before that, and never because of an outcome",
                        key=person.key,
                    )
                )
            write(said)
            return said

    def _known(self, key: str) -> Person:
        person = self.people.persons.get(key)
        if person is None:
            similar = self.people.similar(key)
            hint = (
                Translatable("Did you mean {key!r}?", key=similar)
                if similar
                else Translatable("Assign this person first")
            )
            allowed = Translatable("the key of a person assigned here")
            raise InvalidInput("participant", found=repr(key), allowed=allowed, hint=hint)
        return person

    def _require_eligible(self, eligible: bool) -> None:
        asked = self.people.rules.eligibility
        if asked and not eligible:
            found, questions = Translatable("an answer other than yes"), " ".join(asked)
            allowed = Translatable("yes to each of these questions: {questions}", questions=questions)
            raise InvalidInput("eligible", found=found, allowed=allowed)

    def _require_covariate(self, x: float | None, *, without: bool) -> None:
        """Raise unless the covariate is given, or declared unknown, before the arm is assigned."""
        name = self.people.rules.covariate
        if name and x is None and not without:
            allowed = Translatable("before the assignment, either a number or a note that the value is not known")
            raise InvalidInput(name, found=Translatable("nothing"), allowed=allowed)

    def outcome(self, participant: str, reward: float, outcome: str = PRIMARY) -> None:
        """Record a person's reward, or the named outcome. It can be changed until the phase is reported."""
        with self._journal.turn() as write:
            write(*self._noted(participant, checked_reward(self._rules_of(outcome), reward), outcome))

    def missing(self, participant: str, outcome: str = PRIMARY) -> None:
        """Record that a person's reward, or the named outcome, will never come.

        Until the phase is reported, entering a value removes the mark. A missing reward can be entered only until
        somebody else is assigned as a replacement.
        """
        with self._journal.turn() as write:
            write(*self._noted(participant, None, outcome))

    def gone(self, participant: str) -> None:
        """Mark all awaited outcomes of a person as missing: nothing more will come."""
        with self._journal.turn() as write:
            key = checked_key(participant)
            known = self.people.persons.get(key)
            awaited = self.people.awaits(known) if known is not None else [PRIMARY]
            write(*(entry for name in awaited for entry in self._noted(key, None, name)))

    def record(
        self, rows: Sequence[Entered], *, take: bool = True, partly: bool = False
    ) -> list[InvalidInput | NotNow | None]:
        """Record the outcomes of many people, all or none; returns the error of each row, or None.

        With `partly`, valid rows are recorded even if others are wrong. Without `take`, rows are only checked.
        """
        seen: set[tuple[str, str]] = set()
        with self._journal.turn() as write:
            found = [self._judged(row, seen) for row in rows]
            if take and (partly or not any(isinstance(one, Exception) for one in found)):
                write(*(entry for one in found if not isinstance(one, Exception) for entry in one))
        return [one if isinstance(one, Exception) else None for one in found]

    def _judged(
        self, row: Entered, seen: set[tuple[str, str]]
    ) -> list[journal.Observed | journal.Missing] | InvalidInput | NotNow:
        """The journal entries for a row, or its error; every row is checked before any row is recorded."""
        try:
            key = checked_key(row.participant)
            if (key, row.outcome) in seen:
                raise InvalidInput(
                    "participant", found=Translatable("{key!r} a second time", key=key), allowed=Translatable("once")
                )
            seen.add((key, row.outcome))
            return self._noted(key, row.value, row.outcome)
        except (InvalidInput, NotNow) as error:
            return error

    def correct(
        self,
        outcomes: Sequence[tuple[str, float | None] | tuple[str, float | None, str]],
        *,
        reason: str = "",
        who: str = "",
    ) -> int:
        """Correct outcomes of one reported phase; returns the phase.

        The first report stays as sent; `reporting.hand_over_corrections` makes and sends a corrected report. The
        corrected report counts the same people, so a reward can change but cannot become missing.
        """
        rows = [Entered(*row) for row in outcomes]
        with self._journal.turn() as write:
            checked = [self._checked_correction(row) for row in rows]
            found = {self.people.reported_in(self.people[row.participant]) for row in checked}
            if len(found) != 1 or self.people.phases[phase := min(found)].reported is None:
                shown = Translatable("outcomes from phase {phases}", phases=", ".join(map(str, sorted(found))))
                hint = Translatable("To change an outcome whose phase is not reported yet, enter it again")
                allowed = Translatable("outcomes from a single reported phase")
                raise InvalidInput("participants", found=shown, allowed=allowed, hint=hint)
            new: dict[str, list[tuple[str, float | None]]] = {}
            for key, value, name in checked:
                if self._said(self.people[key], name) != (value,):
                    new.setdefault(key, []).append((name, value))
            said = {"reason": reason, "who": who}
            write(*(journal.Corrected(participant=key, outcomes=tuple(values), **said) for key, values in new.items()))
            return phase

    def _checked_correction(self, row: Entered) -> Entered:
        key, rules = checked_key(row.participant), self._rules_of(row.outcome)
        person = self.people.persons.get(key)
        allowed = Translatable("somebody whose outcome was reported")
        if person is None or not person.counted:
            raise InvalidInput("participant", found=repr(key), allowed=allowed)
        # Outcomes of people assigned ahead are not in the report of the phase during which the people came.
        if person.ahead and self.people.book_of(person).reported is None:
            hint = Translatable("To change an outcome whose phase is not reported yet, enter it again")
            raise InvalidInput("participant", found=repr(key), allowed=allowed, hint=hint)
        said = self._said(person, row.outcome)
        if not said or (not row.outcome and None in (row.value, *said)):
            raise InvalidInput("participant", found=repr(key), allowed=allowed)
        return Entered(key, None if row.value is None else checked_reward(rules, row.value), row.outcome)

    def _said(self, person: Person, outcome: str) -> tuple[float | None, ...]:
        """The recorded value of an outcome, as a tuple: `(None,)` if it is missing, `()` if nothing is recorded."""
        known = person.is_gone(outcome) or person.value(outcome) is not None
        return (person.value(outcome),) if known else ()

    def correction_sent(self, phase: int, *, report: str, number: int, same: bool) -> None:
        """Record that the coordinator has a corrected report of a phase, with the first `number` of its corrections."""
        with self._journal.turn() as write:
            write(journal.CorrectionSent(phase=phase, report=report, number=number, same=same))
            sys.audit("parley.reached", "site-correction-sent")

    def correction_answered(self, phase: int, *, report: str, accepted: bool, reason: str) -> None:
        """Record the administrator's decision about a corrected report."""
        with self._journal.turn() as write:
            write(journal.CorrectionAnswered(phase=phase, report=report, accepted=accepted, reason=reason))

    def corrected(self, phase: int) -> Recounted:
        """A reported phase with all corrections so far, adjusted for the covariate as in the first report."""
        with self._journal.turn():
            book = self.people.phases[phase]
            return Recounted(
                arms=book.plan.arms,
                rewards=self._kept(book),
                outcomes=self._others(book),
                between=self._between(book),
                number=self.people.corrections.get(phase, CorrectionState()).number,
            )

    def totals(self) -> Totals:
        """Totals of the rewards entered so far in the current or last phase."""
        with self._journal.turn():
            return Totals.of(self.people.rewards(self._book().plan.phase))

    def __call__(self, plan: AgentPlan) -> Delivery:
        """Act as a source: return the phase's totals once it is complete and its grace period is over.

        Until then, raise `NotYet`.
        """
        if plan.draws is None or plan.plan is None:
            raise InvalidInput("plan", found="nothing asked", allowed="a plan with draws")
        self.begin(
            phase=plan.phase,
            plan=plan.plan,
            arms=plan.arms,
            draws=plan.draws,
            between=plan.between or (),
            most_ahead=plan.most_ahead,
        )
        with self._journal.turn() as write:
            book = self.people.phases[plan.phase]
            needed, awaited = book.to_assign(replace_missing=self._replaces), self.people.awaited(book)
            if needed or awaited:
                raise NotYet(f"{needed} people to assign, {awaited} outcomes to come")
            if book.reported is None and (at := self._sends_at(book)) > self.clock():
                raise NotYet(f"complete; what is entered can be changed until {at:%Y-%m-%d %H:%M} UTC")
            closed = self._closed(book, write)
            counts = np.array(closed.counts, dtype=np.int64)
            return Delivery(
                totals=Totals(counts=counts, sums=np.array(closed.sums), squares=np.array(closed.squares)),
                rewards=self._kept(book),
                missing=closed.missing if any(closed.missing) else (),
                outside=closed.outside,
                unmasked=closed.unmasked,
                outcomes=self._others(book),
                reason=closed.reason,
                final=bool(closed.reason) and bool((counts < plan.draws).any()),
                theta=book.plan.theta,
                x0=book.plan.x0,
                left=closed.left,
                missing_x=closed.missing_x,
                voided=closed.voided,
                ahead=closed.ahead,
                between=closed.between,
            )

    def _between(self, book: PhaseBook) -> BetweenTotals | None:
        """Totals of the people who were assigned for a phase in advance; None if there are none.

        If a cell is too small, everybody in it counts as missing. Rewards are adjusted for a covariate as in the phase
        during which these people were assigned, since that adjustment was fixed before their first outcome.
        """
        early = book.between
        if early is None:
            return None
        kept = Totals.of(self._kept(early))
        gone = tuple(assigned - count for assigned, count in zip(early.assigned, kept.counts.tolist(), strict=True))
        others = self._others(early, early.assigned)
        return BetweenTotals.of(
            kept, gone, tuple(OutcomeTotals.of(one.name, one.totals, one.missing) for one in others)
        )

    def _kept(self, book: PhaseBook) -> Sequence[Sequence[float]]:
        """Rewards by arm, as the study counts them: clipped, or adjusted for the covariate."""
        rewards, xs = self._kept_pairs(book)
        if book.plan.theta is not None:
            return adjusted_rewards(rewards, xs, book.plan.theta, book.plan.x0)
        return clipped(self.people.rules.clip, rewards)

    def _kept_pairs(self, book: PhaseBook) -> tuple[list[list[float]], list[list[float | None]]]:
        """Rewards and covariates by arm. A cell below the study's or the site's own minimum size is left empty."""
        rewards, xs = self.people.pairs(book)
        large = [len(values) >= self._least for values in rewards]
        return (
            [values if kept else [] for values, kept in zip(rewards, large, strict=True)],
            [values if kept else [] for values, kept in zip(xs, large, strict=True)],
        )

    def _others(self, book: PhaseBook, counts: Sequence[int] | None = None) -> tuple[DrawnOutcome, ...]:
        """The further outcomes of a phase, as the study counts them.

        A cell with too few values of an outcome counts as all missing. So does a cell with too few rewards to report:
        its values would reveal how many people it has. Pass `counts`, the number of people per arm, if the report
        states these numbers anyway.
        """
        rewards = map(len, self._kept(book))
        reported = counts or [kept + missing for kept, missing in zip(rewards, book.missing, strict=True)]
        found = []
        for one in self.people.rules.outcomes:
            values = self.people.others(book, one.name)
            lines = zip(values, reported, strict=True)
            shown = [cell if len(cell) == people else [None] * people for cell, people in lines]
            found.append(DrawnOutcome.of(one.name, shown).without_small_cells(self._least).clipped(one.clip))
        return tuple(found)

    @property
    def _least(self) -> int:
        return max(self.people.rules.minimum_cell, self.policy.smallest_cell)

    def _closed(self, book: PhaseBook, write: journal.Write) -> journal.Reported:
        """Close a complete phase and return its totals (idempotent). After this, nothing in the phase changes."""
        if book.reported is None:
            totals = Totals.of(self._kept(book))
            counts = tuple(totals.counts.tolist())
            short = {arm for arm, n, asked in zip(book.plan.arms, counts, book.plan.draws, strict=True) if n != asked}
            # The coordinator accepts fewer draws of a withdrawn arm without a reason. State one anyway: the arm may
            # be open again when the report arrives.
            stopped = "supply" if short and self.people.rules.flexible else ""
            write(
                journal.Reported(
                    phase=book.plan.phase,
                    counts=counts,
                    sums=tuple(totals.sums.tolist()),
                    squares=tuple(totals.require_squares().tolist()),
                    missing=tuple(book.missing),
                    outcomes=tuple(OutcomeTotals.of(one.name, one.totals, one.missing) for one in self._others(book)),
                    reason=stopped if short <= book.closed_arms else book.closed or "missing-outcomes",
                    outside=self._outside(book),
                    left=self._left(book),
                    unmasked=self.newly_unmasked,
                    missing_x=self._missing_x(book),
                    voided=book.voided + book.ahead.voided,
                    ahead=tuple(book.ahead.assigned) if book.ahead.keys else (),
                    between=self._between(book),
                )
            )
            sys.audit("parley.reached", "site-phase-closed")
        assert book.reported is not None
        return book.reported

    def _missing_x(self, book: PhaseBook) -> int:
        """The number of counted people whose covariate is unknown; 0 if the phase is not adjusted."""
        if book.plan.theta is None:
            return 0
        return sum(x is None for part in book.strata for xs in self._kept_pairs(part)[1] for x in xs)

    def _outside(self, book: PhaseBook) -> int:
        """The number of people since the previous report who are outside the study or in the reserve."""
        # `outside` in earlier reports included their reserves, who are in the study: subtract only people outside it.
        earlier = sum(one.reported.outside - one.reserve for one in self.people.phases.values() if one.reported)
        return self._others_here - earlier + book.reserve

    @property
    def _others_here(self) -> int:
        """The number of people outside the study."""
        # A copy of the list, since another thread may add people meanwhile.
        return sum(person.probability is None for person in list(self.people.persons.values()))

    @property
    def newly_unmasked(self) -> int:
        """The number of people unmasked since the last report."""
        earlier = sum(one.reported.unmasked for one in self.people.phases.values() if one.reported)
        return len(self.people.unmasked) - earlier

    def _sends_at(self, book: PhaseBook) -> datetime:
        """When a complete phase is reported: one grace period after its last entry, or at once if it has no people."""
        hours = self.people.rules.grace_hours if book.keys else 0.0
        return (book.changed or self.clock()) + timedelta(hours=hours)

    def send(self, phase: int) -> None:
        """Report a complete phase now, without waiting for the grace period."""
        with self._journal.turn() as write:
            book = self._book()
            if book.plan.phase != phase:
                raise NotNow(Translatable("phase {phase} is not the current phase", phase=phase))
            if not book.over and not self._complete(book):
                raise NotNow(Translatable("phase {phase} is not complete, so its report cannot be sent", phase=phase))
            if not book.over:
                self._closed(book, write)

    def finish(self, reason: str) -> None:
        """Assign no more people in this phase, for one of the `CLOSING_REASONS`.

        This is possible only in a study that accepts counts other than the plan's (`flexible`).
        """
        if reason not in CLOSING_REASONS:
            raise InvalidInput("reason", found=repr(reason)[:60], allowed=", ".join(CLOSING_REASONS))
        with self._journal.turn() as write:
            book = self._book()
            if not self.people.rules.flexible:
                raise NotNow(
                    Translatable("this study accepts only the planned counts, so a phase cannot be closed early")
                )
            if book.over or book.closed:
                raise NotNow(Translatable("phase {phase} is already closed here", phase=book.plan.phase))
            write(journal.PartClosed(phase=book.plan.phase, reason=reason))

    @property
    def sends_at(self) -> datetime | None:
        """When the phase in progress will be reported automatically; None unless a complete phase is in progress."""
        book = self.people.current
        return None if book is None or book.over or not self._complete(book) else self._sends_at(book)

    def _complete(self, book: PhaseBook) -> bool:
        return not book.to_assign(replace_missing=self._replaces) and not self.people.awaited(book)

    @property
    def due(self) -> bool:
        at = self.sends_at
        return at is not None and at <= self.clock()

    def status(self) -> dict[str, Any]:
        """The site's progress, without counts by arm.

        These numbers alone reveal no arm. But somebody who has seen all arms so far could guess the last arms
        (docs/site.md), so the page rounds the number of people asked for.
        """
        with self._journal.turn():
            people, at = self.people, self.sends_at
            # Before the first plan, return the status of an empty phase 0.
            book = people.current or PhaseBook(plan=journal.PhaseBegun(phase=0, plan="", arms=(), draws=()))
            gone, asked = sum(book.missing), zip(book.plan.arms, book.plan.draws, strict=True)
            return {
                "study": self.study,
                "agent": self.agent,
                "stage": people.stage.stage,
                "reason": people.stage.reason,
                "phase": book.plan.phase,
                "asked": sum(book.plan.draws),
                "assigned": len(book.keys),
                "to_assign": book.to_assign(replace_missing=self._replaces),
                "pending": people.awaited(book),
                "ahead": len(book.ahead.keys),
                "takes_ahead": not book.to_assign(replace_missing=self._replaces) and any(book.ahead_shares()),
                "between": 0 if book.between is None else len(book.between.keys),
                "observed": len(book.keys) - book.pending - gone,
                "missing": gone,
                "withdrawn": book.withdrawn,
                "late": book.late,
                "reserve": book.reserve,
                "reported": book.reported is not None,
                "closed": book.closed,
                "closed_arms": [arm for arm, draws in asked if draws and arm in book.closed_arms],
                "outside": self._others_here,
                "voided": book.voided + book.ahead.voided,
                "outcomes": {one.name: len(book.keys) - book.noted[one.name] for one in people.rules.outcomes},
                "sends_at": at and at.isoformat(),
                "unmasked": len(people.unmasked),
                "kits_low": self.rules.kits and self.shelf.low,
            }

    @property
    def contact(self) -> str:
        """Whom people at the site can ask for help: the study's contact, or else its administrator."""
        return self.people.rules.contact or ADMINISTRATOR

    @property
    def _replaces(self) -> bool:
        """Whether a person without an outcome is replaced, because the study accepts only the plan's counts."""
        return not self.people.rules.flexible

    def _book(self) -> PhaseBook:
        book = self.people.current
        if book is None:
            raise NotNow(Translatable("the coordinator has not sent a plan yet, so nobody can be assigned"))
        return book

    def _require_running(self) -> None:
        stage = self.people.stage
        if stage.stage == "paused":
            paused = Translatable("the study is paused: nobody can be assigned for now")
            because = Translatable(
                "the study is paused ({reason}): nobody can be assigned for now", reason=stage.reason
            )
            raise NotNow(because if stage.reason else paused)
        if stage.stage not in ("running", "closing"):
            unknown = Translatable("the study is {stage}: nobody can be assigned for now", stage=stage.stage)
            raise NotNow(NOBODY.get(stage.stage, unknown))

    def _require_pattern(self, key: str) -> None:
        pattern = self.people.rules.key_pattern
        if fits(key, pattern):
            return
        allowed = Translatable("a key like {pattern} (# is a digit, @ a letter)", pattern=pattern)
        likely = as_pattern(key, pattern)
        hint = Translatable("Did you mean {key!r}?", key=likely) if likely else None
        raise InvalidInput("participant", found=repr(key), allowed=allowed, hint=hint)

    def _leading(self, book: PhaseBook) -> int | None:
        """The open arm with the most planned draws, if people outside the study get that arm; otherwise None."""
        lines = zip(book.plan.arms, book.plan.draws, strict=True)
        draws = [0 if arm in book.closed_arms else asked for arm, asked in lines]
        return draws.index(max(draws)) if any(draws) and self.people.rules.between == "leading" else None

    def _rules_of(self, outcome: str) -> journal.RulesSeen | OutcomeRules:
        return outcome_named(self.people.rules.outcomes, outcome) if outcome else self.people.rules

    def _noted(
        self, participant: str, reward: float | None, outcome: str = PRIMARY
    ) -> list[journal.Observed | journal.Missing]:
        """The journal entries that record a person's outcome; empty if the same value is recorded already.

        So repeating an entry is always allowed, even after the report. A `reward` of None means missing.
        """
        key, rules = checked_key(participant), self._rules_of(outcome)
        value = None if reward is None else checked_reward(rules, reward)
        person = self._known(key)
        self._require_valid(person)
        if not person.counted:
            raise NotNow(Translatable("{key!r} is outside the study: no outcome is counted", key=key))
        if person.is_gone(outcome) if value is None else person.value(outcome) == value:
            return []
        book, phase = self.people.book_of(person), self.people.reported_in(person)
        if book.over:
            raise NotNow(
                Translatable(
                    "{key!r} was assigned in phase {phase}, which is already reported. Find {key!r} on the page and "
                    "correct the outcome there; {contact} has to confirm the correction",
                    phase=phase,
                    key=key,
                    contact=self.contact,
                )
                if book.reported
                else Translatable(
                    "{key!r} was assigned in phase {phase}, which was decided without a report from here, so nothing "
                    "can be changed",
                    phase=phase,
                    key=key,
                )
            )
        if self.people.stage.stage in ENDED:
            raise NotNow(OVER)
        if value is None:
            return [journal.Missing(participant=key, outcome=outcome)]
        replaced = self._replaces and not person.ahead and book.drawn > person.marked_at
        if outcome == PRIMARY and person.missing and replaced:
            raise NotNow(
                Translatable(
                    "the outcome of {key!r} was marked as missing, and somebody else has since been assigned as a "
                    "replacement, so this outcome cannot count",
                    key=key,
                )
            )
        return [journal.Observed(participant=key, reward=value, outcome=outcome)]


class Recounted(NamedTuple):
    """The outcomes of a reported phase with all corrections so far, from which a corrected report is made."""

    arms: tuple[str, ...]
    rewards: Sequence[Sequence[float]]
    outcomes: tuple[DrawnOutcome, ...]
    between: BetweenTotals | None
    number: int  # number of corrections


LONGEST_REASON = 500
ADMINISTRATOR = Translatable("the study’s administrator")
ENDED = ("finished", "cancelled")
OVER = Translatable("the study has ended: outcomes no longer count")
# Why nobody is assigned, by stage of the study.
NOBODY = {
    "stalled": Translatable("the study is stalled: nobody can be assigned for now"),
    "frozen": Translatable("the study is frozen here: nobody can be assigned for now"),
    "finished": Translatable("the study is finished: nobody else can be assigned"),
    "cancelled": Translatable("the study is cancelled: nobody else can be assigned"),
}


class Assignment(Model, omit_defaults=True):
    """The answer to a request for a person's arm. The arm's probability stays in the journal."""

    participant: str
    phase: int
    arm: str | None  # None in a study with kits, and for a person outside the study who got no arm
    counted: bool  # whether the person is in the study
    again: bool  # whether the person was assigned before
    stratum: str = ""  # empty if the site has no strata
    kit: str = ""  # the kit's number, in a masked study with kits

    @property
    def shown(self) -> str | None:
        """What enrolling staff see: the kit's number, or else the arm; None if there is neither."""
        return self.kit or self.arm


class Unmasking(Model):
    """The arm of one person in a masked study. The journal records that it was revealed."""

    participant: str
    kit: str
    arm: str
