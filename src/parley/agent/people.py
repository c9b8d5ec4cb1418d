"""A site's people, rebuilt in memory from its journal, and the randomization of the next person.

The plan of a phase has one place for each draw of an arm. A person's arm is drawn from these places without
replacement, by a keyed hash of the person's index; docs/site.md says what that promises, and what can be guessed.

Nothing that is entered about a person changes the next arm. So marking a person as missing does not free the place:
otherwise, staff could give that arm to the next person by marking somebody as missing. People who come after all places
are given out get an arm drawn from the whole plan again. If a report must have the plan's counts, people are assigned
until every arm has as many people who are not missing as the plan asks for. In each arm, the people who came first are
counted; people beyond the plan's number are a reserve. A voided assignment does not free its place either: once all
places are given out, the person is replaced like a missing one.

A withdrawn arm is no longer assigned; people who already have it keep it, and their outcomes are awaited and counted.
People who come when a phase is full may be assigned `ahead`, for the next phase: their arms are drawn without
replacement from this phase's plan.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction

from parley.agent import journal
from parley.agent.outcomes import PRIMARY
from parley.errors import WrongPlan


@dataclass(frozen=True, kw_only=True)
class Person:
    """A person who came to the site, with everything that the journal records about the person."""

    key: str  # the participant's key in its stored form (`checked_key`)
    phase: int  # the phase in progress when the person came
    arm: int | None  # None for a person outside the study who got no arm
    probability: Fraction | None  # None outside the study
    reward: float | None = None
    missing: bool = False
    others: Mapping[str, float | None] = field(default_factory=dict)  # further outcomes; None if one will not come
    marked_at: int = 0  # number of arms drawn in the phase when the person was last marked as missing
    at: datetime | None = None  # when the person came
    x: float | None = None  # the covariate, if asked for and known
    voided: journal.Voided | None = None
    voided_at: datetime | None = None
    kit: str = ""  # number of the kit, in a study with kits
    ahead: bool = False  # assigned for the phase after `phase`

    @property
    def counted(self) -> bool:
        return self.probability is not None and self.voided is None

    @property
    def pending(self) -> bool:
        """Whether the person is in the study, has no reward, and is not marked as missing."""
        return self.counted and self.reward is None and not self.missing

    def value(self, outcome: str) -> float | None:
        """The reward, or the value of a further outcome; None if it is unknown or missing."""
        return self.others.get(outcome) if outcome else self.reward

    def is_gone(self, outcome: str) -> bool:
        """Whether the reward, or a further outcome, is marked as missing."""
        return outcome in self.others and self.others[outcome] is None if outcome else self.missing


@dataclass(frozen=True, kw_only=True)
class CorrectionState:
    """The state of a reported phase's corrections. Each corrected report includes all corrections before it."""

    number: int = 0  # number of corrections
    sent: int = 0  # how many of them are in the last corrected report that the coordinator has
    report: str = ""  # digest of that report
    same: bool = False  # that report equals the first report of the phase again
    accepted: bool | None = None  # the administrator's decision about that report; None before it
    kept: frozenset[str] = frozenset()  # digests of corrected reports that the coordinator has and nobody refused
    reason: str = ""  # of the decision

    @property
    def status(self) -> str:
        """The last correction's status: `unsent`, `waiting`, `same` (as first reported), `accepted` or `refused`."""
        if self.sent < self.number:
            return "unsent"
        if self.same or self.accepted is None:
            return "same" if self.same else "waiting"
        return "accepted" if self.accepted else "refused"


@dataclass(kw_only=True)
class PhaseBook:
    """The plan of a phase at this site, and the progress so far; lists of counts are per arm."""

    plan: journal.PhaseBegun
    assigned: list[int] = field(init=False)  # people with a valid assignment
    taken: list[int] = field(init=False)  # places given out; a voided assignment keeps its place
    drawn: int = 0  # number of arms drawn, including voided assignments
    voided: int = 0
    missing: list[int] = field(init=False)  # people marked as missing
    keys: list[str] = field(default_factory=list)  # of people in the study, in the order they came
    pending: int = 0  # rewards still awaited
    noted: Counter[str] = field(default_factory=Counter)  # per further outcome: people with a value or a missing mark
    withdrawn: int = 0  # marks as missing of people whose outcome had been entered
    late: int = 0  # marks as missing after all places of the plan were given out
    closed: str = ""  # why the site closed the phase to new people; empty if it did not
    reported: journal.Reported | None = None
    lost: bool = False  # the study moved on without this site's report
    closed_arms: frozenset[str] = frozenset()  # arms that are not assigned now
    changed: datetime | None = None  # time of the last entry about this phase: the grace period starts then
    between: PhaseBook | None = None  # people who were assigned for this phase in advance
    _ahead: PhaseBook | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.assigned, self.taken, self.missing = ([0] * len(self.plan.arms) for _ in range(3))

    @property
    def ahead(self) -> PhaseBook:
        """The book of the people assigned for the next phase, whose arms are drawn from this phase's plan."""
        if self._ahead is None:
            self._ahead = PhaseBook(plan=self.plan)
        return self._ahead

    @property
    def strata(self) -> list[PhaseBook]:
        """The books that the phase's report covers: the book of people assigned in advance, if any, and this book."""
        return [self] if self.between is None else [self.between, self]

    def ahead_shares(self) -> list[int]:
        """Per arm: its weight when the next person is assigned ahead; all 0 if nobody else may be assigned ahead."""
        if self.over or self.closed or len(self.ahead.keys) >= self.plan.most_ahead:
            return [0] * len(self.plan.arms)
        lines = zip(self.plan.arms, self.ahead._left, strict=True)
        return [0 if arm in self.closed_arms else left for arm, left in lines]

    @property
    def asked(self) -> list[int]:
        """Per arm: how many people the phase asks for in total; for a closed arm, how many people have it already."""
        lines = zip(self.plan.arms, self.plan.draws, self.assigned, strict=True)
        return [given if arm in self.closed_arms else asked for arm, asked, given in lines]

    @property
    def full(self) -> bool:
        return not any(self._left)

    @property
    def _left(self) -> list[int]:
        """Per arm: the number of free places; 0, not negative, if replacements for missing people exceed them."""
        return [max(asked - given, 0) for asked, given in zip(self.asked, self.taken, strict=True)]

    @property
    def shares(self) -> list[int]:
        """Per arm: its weight when the next arm is drawn (free places or, once no arm has any, planned draws)."""
        if not self.full:
            return self._left
        lines = zip(self.plan.arms, self.plan.draws, strict=True)
        return [0 if arm in self.closed_arms else asked for arm, asked in lines]

    @property
    def places(self) -> dict[str, int]:
        """Arm -> the free places that may still be given out; empty once the phase is closed."""
        return {} if self.closed or self.over else dict(zip(self.plan.arms, self._left, strict=True))

    def to_assign(self, *, replace_missing: bool) -> int:
        """The smallest number of people still needed; with `replace_missing`, missing people have to be replaced."""
        if self.closed or self.reported or self.lost:
            return 0
        if not replace_missing:
            return sum(max(asked - given, 0) for asked, given in zip(self.asked, self.assigned, strict=True))
        lines = zip(self.plan.arms, self.plan.draws, self.assigned, self.missing, strict=True)
        return sum(max(asked - given + gone, 0) for arm, asked, given, gone in lines if arm not in self.closed_arms)

    @property
    def reserve(self) -> int:
        """The number of people in the reserve, who are not missing but exceed the plan's number for their arm.

        They are counted only if other people in the same arm are marked as missing later.
        """
        lines = zip(self.plan.draws, self.assigned, self.missing, strict=True)
        return sum(max(given - gone - asked, 0) for asked, given, gone in lines)

    @property
    def over(self) -> bool:
        return self.reported is not None or self.lost


class People:
    """The state of a site after all journal entries so far. Call `take` with each entry once, in order.

    >>> people = People()
    >>> people.take(journal.PhaseBegun(phase=1, plan="ab", arms=("A", "B"), draws=(1, 2)))
    >>> people.take(journal.Assigned(participant="p-1", phase=1, arm=1, probability="2/3"))
    >>> people.phases[1].shares, people["p-1"].pending
    ([1, 1], True)
    """

    def __init__(self) -> None:
        self.opened: journal.Opened | None = None
        self.persons: dict[str, Person] = {}
        self._alike: dict[str, str] = {}  # `folded` key -> key of the first person who has it
        self.phases: dict[int, PhaseBook] = {}
        self.rules = journal.RulesSeen()
        self.stage = journal.StageSeen(stage="running", reason="")
        self.closed_arms: frozenset[str] = frozenset()
        self.kits: dict[str, str] = {}  # number -> arm, of the lists in this journal
        self.kits_given: set[str] = set()
        self.corrections: dict[int, CorrectionState] = {}  # by reported phase
        self.unmasked: dict[str, journal.Unmasked] = {}  # key -> the first unmasking

    def __getitem__(self, key: str) -> Person:
        return self.persons[key]

    @property
    def current(self) -> PhaseBook | None:
        """The book of the latest phase that asked this site for draws; None before the first."""
        return self.phases[max(self.phases)] if self.phases else None

    def is_new(self, plan: journal.PhaseBegun) -> bool:
        """Whether a plan begins a new phase; False if the plan is known already.

        Raises `WrongPlan` if the journal has another plan of this phase, or a later phase but not this one.
        """
        known = self.phases.get(plan.phase)
        if known is None and plan.phase > max(self.phases, default=0):
            return True
        if known is None or known.plan.asks != plan.asks:
            raise WrongPlan(
                f"the plan of phase {plan.phase} is not the one by which people were assigned here (the journal is in "
                f"phase {max(self.phases)}): the coordinator has an old backup, or another study of the same name. "
                "Nothing is reported for it; tell the administrator"
            )
        return False

    def assigned_for(self, plan: journal.PhaseBegun) -> PhaseBook | None:
        """The book of the people who were assigned in advance for a plan's phase; None if the plan mentions none.

        Raises `WrongPlan` if the plan and this site's last report state different numbers of such people.
        """
        last = self.current
        named = () if last is None or last.reported is None else last.reported.ahead
        if not plan.between:
            return None
        if last is None or named != plan.between:
            raise WrongPlan(
                f"the plan of phase {plan.phase} counts on {list(plan.between)} people who were assigned for it, but "
                f"this site reported {list(named)}: the coordinator has an old backup, or somebody amended the report. "
                "Nothing is reported for it; tell the administrator"
            )
        return last.ahead

    def similar(self, key: str) -> str | None:
        """A known key that looks like this one; None if there is none, or if exactly this key is known."""
        return None if key in self.persons else self._alike.get(folded(key))

    def due(self, person: Person, outcome: str = PRIMARY) -> datetime | None:
        """When an outcome of a person is due; None if the study does not say how long outcomes take."""
        own = next((one.delay for one in self.rules.outcomes if one.name == outcome), None)
        days = self.rules.delay if own is None else own
        return person.at + timedelta(days=days) if person.at and days else None

    def awaits(self, person: Person) -> list[str]:
        """The names of a person's outcomes that are still awaited."""
        if not person.counted:
            return []
        others = [one.name for one in self.rules.outcomes if one.name not in person.others]
        return [PRIMARY, *others] if person.pending else others

    def book_of(self, person: Person) -> PhaseBook:
        """The `PhaseBook` that a person is in."""
        book = self.phases[person.phase]
        return book.ahead if person.ahead else book

    def was_counted(self, person: Person) -> bool:
        """Whether a person's phase is over.

        A person assigned ahead has two phases (the one in progress on arrival, and the next): True if either is over.
        """
        return self.book_of(person).over or self.phases[person.phase].over

    def reported_in(self, person: Person) -> int:
        """The phase whose report covers a person.

        For a person assigned ahead, this is the next phase once that has begun, and `person.phase` until then.
        """
        if not person.ahead:
            return person.phase
        mine = self.phases[person.phase].ahead
        return next((phase for phase, book in self.phases.items() if book.between is mine), person.phase)

    @property
    def in_progress(self) -> list[Person]:
        """People whose outcomes can be entered, in the order they came.

        They were assigned for the current phase, in advance or during it, or for the next phase.
        """
        book = self.current
        books = [] if book is None else [book.between, book, book.ahead]
        return [self.persons[key] for one in books if one is not None and not one.over for key in one.keys]

    def rewards(self, phase: int) -> list[list[float]]:
        """Per arm, the rewards of the people counted in a phase, in the order they came."""
        return self.pairs(self.phases[phase])[0]

    def pairs(self, book: PhaseBook) -> tuple[list[list[float]], list[list[float | None]]]:
        """Per arm, the rewards of a phase; and per arm, the clipped covariates of the same people, None if unknown."""
        rule = self.rules.adjustment
        rewards: list[list[float]] = [[] for _ in book.plan.arms]
        xs: list[list[float | None]] = [[] for _ in book.plan.arms]
        for person in self._with_a_place(book):
            if person.reward is not None and person.arm is not None:
                rewards[person.arm].append(person.reward)
                xs[person.arm].append(None if rule is None or person.x is None else rule.clipped(person.x))
        return rewards, xs

    def others(self, book: PhaseBook, outcome: str) -> list[list[float | None]]:
        """Per arm, the values of a further outcome for everybody in the report; None where it is missing.

        People without a reward may still have this outcome: harm is often the reason that they have none.
        """
        found: list[list[float | None]] = [[] for _ in book.plan.arms]
        for person in self._in_report(book):
            if outcome in person.others and person.arm is not None:
                found[person.arm].append(person.others[outcome])
        return found

    def awaited(self, book: PhaseBook) -> int:
        """How many outcomes the report still needs. It does not need outcomes of people in the reserve."""
        early = 0 if book.between is None else self.awaited(book.between)
        if not book.reserve:  # everybody is in the report
            return early + book.pending + sum(len(book.keys) - book.noted[one.name] for one in self.rules.outcomes)
        return early + sum(len(self.awaits(person)) for person in self._in_report(book))

    def _in_report(self, book: PhaseBook) -> list[Person]:
        """The people in a phase's report, in the order they came: those who have a place or are marked as missing."""
        placed = {person.key for person in self._with_a_place(book)}
        return [person for key in book.keys if (person := self.persons[key]).missing or key in placed]

    def _with_a_place(self, book: PhaseBook) -> list[Person]:
        """The people whose rewards count: in each arm, the first who are not missing, up to the plan's number."""
        places, found = list(book.plan.draws), []
        for person in (self.persons[key] for key in book.keys):
            if person.arm is not None and not person.missing and places[person.arm]:
                places[person.arm] -= 1
                found.append(person)
        return found

    def take(self, entry: journal.Entry, at: datetime | None = None) -> None:
        """Apply the next journal entry, which was written at the time `at`."""
        if self.current is not None and self._changes(entry):
            self.current.changed = at
        match entry:
            case journal.Opened():
                self.opened = entry
            case journal.RulesSeen():
                self.rules = entry
            case journal.PhaseBegun():
                self._begin(entry)
            case journal.StageSeen():
                self.stage = entry
            case journal.ArmsClosed(arms=arms):
                self._close_arms(frozenset(arms))
            case journal.Assigned(participant=key, phase=phase, arm=arm):
                share = Fraction(entry.probability)
                person = Person(key=key, phase=phase, arm=arm, probability=share, at=at, x=entry.x, kit=entry.kit)
                self._admit(replace(person, ahead=entry.ahead))
                book = self.book_of(self.persons[key])
                book.keys.append(key)
                book.assigned[arm] += 1
                book.taken[arm] += 1
                book.drawn += 1
                book.pending += 1
            case journal.Outside(participant=key):
                self._admit(Person(key=key, phase=entry.phase, arm=entry.arm, probability=None, at=at))
            case journal.KitsListed() | journal.Unmasked():
                self._mask(entry)
            case journal.Observed() | journal.Missing():
                self._note(entry)
            case journal.Voided():
                self._void(entry, at)
            case _:
                self._report(entry)

    def _report(
        self,
        entry: journal.PartClosed
        | journal.Reported
        | journal.Corrected
        | journal.CorrectionSent
        | journal.CorrectionAnswered,
    ) -> None:
        """Apply an entry that closes, reports or corrects a phase."""
        match entry:
            case journal.PartClosed():
                self.phases[entry.phase].closed = entry.reason
            case journal.Reported():
                for book in self.phases[entry.phase].strata:
                    book.reported = entry
            case _:
                self._correct(entry)

    def _mask(self, entry: journal.KitsListed | journal.Unmasked) -> None:
        if isinstance(entry, journal.Unmasked):
            self.unmasked.setdefault(entry.participant, entry)
        else:  # a new dictionary: another thread may be reading this one
            self.kits = self.kits | dict(entry.kits)

    def _changes(self, entry: journal.Entry) -> bool:
        """Whether an entry restarts the grace period of the phase in progress.

        Entries about people assigned for the next phase do not.
        """
        match entry:
            case journal.Assigned(ahead=ahead):
                return not ahead
            case journal.Observed(participant=key) | journal.Missing(participant=key) | journal.Voided(participant=key):
                assert self.current is not None
                return self.book_of(self.persons[key]) is not self.current.ahead
            case _:
                return isinstance(entry, journal.PartClosed | journal.ArmsClosed)

    def _close_arms(self, arms: frozenset[str]) -> None:
        self.closed_arms = arms
        if self.current is not None and not self.current.over:
            self.current.closed_arms = arms

    def _admit(self, person: Person) -> None:
        self.persons[person.key] = person
        self.kits_given |= {person.kit} - {""}
        self._alike.setdefault(folded(person.key), person.key)

    def _begin(self, entry: journal.PhaseBegun) -> None:
        between = self.assigned_for(entry)
        # The study has moved on: unreported phases are lost, except for people assigned in advance for the new phase.
        for book in self.phases.values():
            book.lost |= book.reported is None
            book.ahead.lost |= book.ahead.reported is None and book.ahead is not between
        self.phases[entry.phase] = PhaseBook(plan=entry, closed_arms=self.closed_arms, between=between)
        self.stage = journal.StageSeen(stage="running", reason="")

    def _note(self, entry: journal.Observed | journal.Missing) -> None:
        """Apply an entry that records an outcome, or marks it as missing."""
        person, name = self.persons[entry.participant], entry.outcome
        book, value = self.book_of(person), entry.reward if isinstance(entry, journal.Observed) else None
        book.withdrawn += value is None and person.value(name) is not None
        if name:
            book.noted[name] += name not in person.others
            self.persons[person.key] = replace(person, others={**person.others, name: value})
        elif value is None:
            book.late += book.full
            self._settle(replace(person, reward=None, missing=True, marked_at=book.drawn))
        else:
            self._settle(replace(person, reward=value, missing=False))

    def _correct(self, entry: journal.Corrected | journal.CorrectionSent | journal.CorrectionAnswered) -> None:
        """Apply an entry about a correction. Only values change: the phase counts the same people as its report."""
        if isinstance(entry, journal.Corrected):
            person, values = self.persons[entry.participant], dict(entry.outcomes)
            reward = values.pop(PRIMARY, person.reward)
            self.persons[person.key] = replace(person, reward=reward, others={**person.others, **values})
            phase = self.reported_in(person)
            before = self.corrections.get(phase, CorrectionState())
            self.corrections[phase] = replace(before, number=before.number + 1)
            return
        before = self.corrections[entry.phase]
        if isinstance(entry, journal.CorrectionSent):
            self.corrections[entry.phase] = replace(
                before,
                sent=entry.number,
                report=entry.report,
                same=entry.same,
                accepted=None,
                reason="",
                kept=before.kept if entry.same else before.kept | {entry.report},
            )
        elif entry.report == before.report:
            kept = before.kept if entry.accepted else before.kept - {entry.report}
            self.corrections[entry.phase] = replace(before, accepted=entry.accepted, reason=entry.reason, kept=kept)

    def _void(self, entry: journal.Voided, at: datetime | None) -> None:
        """Apply the voiding of an assignment, which is possible only while nothing is recorded about the person.

        The arm does not get the place back: otherwise, whoever voids an assignment would make that arm likelier for the
        next person. Once all places are given out, the person is replaced like a missing one.
        """
        person = self.persons[entry.participant]
        book = self.book_of(person)
        assert person.arm is not None
        book.assigned[person.arm] -= 1
        book.pending -= 1
        book.voided += 1
        book.keys.remove(person.key)
        self.persons[person.key] = replace(person, voided=entry, voided_at=at)

    def _settle(self, after: Person) -> None:
        before, book = self.persons[after.key], self.book_of(after)
        self.persons[after.key] = after
        assert after.arm is not None
        book.missing[after.arm] += after.missing - before.missing
        book.pending += after.pending - before.pending


def folded(key: str) -> str:
    """A key reduced to its letters and digits, to compare keys that people typed.

    Case, width, combining accents, spaces, hyphens and all other symbols are ignored.

    >>> folded("BX‑ 001") == folded("bx_001") == folded("ＢＸ.001"), folded("bx-001") == folded("bx-010")
    (True, False)
    """
    # Case folding may decompose a letter, so normalize once more to compose it.
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", key).casefold())
    # A key without letters and digits is compared as it is.
    return "".join(filter(_is_said, plain)) or plain


def _is_said(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LNM"


def fits(key: str, pattern: str) -> bool:
    """Whether a key matches a study's pattern, in which `#` stands for a digit and `@` for a letter.

    >>> fits("BX-001", "BX-###"), fits("bx-001", "BX-###"), fits("BX-01", "BX-###"), fits("anything", "")
    (True, False, False, True)
    """
    return not pattern or (len(key) == len(pattern) and all(map(_may_be, key, pattern)))


def _may_be(letter: str, sign: str) -> bool:
    if sign == "#":
        return letter in "0123456789"
    return letter.isalpha() if sign == "@" else letter == sign


def as_pattern(key: str, pattern: str) -> str | None:
    """Rewrite a key so that it matches the pattern; None if its letters and digits do not allow that.

    >>> as_pattern("bx 001", "BX-###"), as_pattern("bx 01", "BX-###")
    ('BX-001', None)
    """
    said = iter(filter(_is_said, unicodedata.normalize("NFKC", key).upper()))
    fitted = "".join((next(said, "") if sign in "#@" or _is_said(sign) else sign) for sign in pattern)
    alike = folded(fitted) == folded(key) and fits(fitted, pattern)
    return fitted if alike else None


def drawn_arm(key: bytes, phase: int, place: int, left: Sequence[int], *, ahead: bool = False) -> tuple[int, Fraction]:
    """Draw the arm of the person at index `place` in a phase; returns the arm and its probability.

    `left` has the weight of each arm; at least one is above 0. People assigned `ahead` have indices of their own.

    >>> drawn_arm(b"secret", 1, 0, [0, 3])
    (1, Fraction(1, 1))
    >>> drawn_arm(b"secret", 1, 0, [1, 3]) == drawn_arm(b"secret", 1, 0, [1, 3])
    True
    """
    total = sum(left)
    hashed = hmac.new(key, f"{phase}:{'ahead:' * ahead}{place}".encode(), hashlib.sha256).digest()
    ticket = int.from_bytes(hashed, "big") % total  # 256 bits: the remainder is uniform for any number of people
    for arm, count in enumerate(left):
        if ticket < count:
            return arm, Fraction(count, total)
        ticket -= count
    raise AssertionError("a ticket beyond what is left")
