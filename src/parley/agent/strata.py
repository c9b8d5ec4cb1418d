"""The strata of a site: each is an agent with its own journal, plan and randomization key.

A person stays in one stratum, and a participant's key in one journal. Every enrolment locks all journals of the site,
so that two processes cannot enrol one person in two strata, and then writes one line of one journal. So if a process is
killed, the person is enrolled in at most one stratum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from parley.agent.entries import Entered, checked_key
from parley.agent.journal import RulesSeen, Voided
from parley.agent.kits import Shelf
from parley.agent.outcomes import PRIMARY
from parley.agent.site import Assignment, Site, Unmasking
from parley.errors import InvalidInput, NoRoom, NotNow, SimilarKey
from parley.text.translation import Translatable


class Strata:
    """The strata of a site, possibly just one. Entries about a person go to the journal that has the person's key.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> young, old = (
    ...     Site(folder.name, study="s", agent=f"Leeds, {name}", rules=RulesSeen(place="Leeds", stratum=name))
    ...     for name in ("young", "old")
    ... )
    >>> for site in (young, old):
    ...     site.begin(phase=1, plan="ab", arms=("A", "B"), draws=(0, 1))
    >>> leeds = Strata([young, old])
    >>> leeds.names, leeds.assign("p-001", "old").stratum, leeds.assign("p-001").again
    (('old', 'young'), 'old', True)
    >>> leeds.assign("p-002")
    Traceback (most recent call last):
    parley.errors.InvalidInput: stratum: found nothing; allowed: old or young
    >>> leeds.assign("p-001", "young")
    Traceback (most recent call last):
    parley.errors.NotNow: 'p-001' was assigned in the stratum 'old', and nobody can move to another stratum
    >>> leeds.close(); folder.cleanup()
    """

    def __init__(self, sites: Iterable[Site]) -> None:
        # Every process locks the journals in the same order: otherwise two processes could deadlock.
        self.sites = tuple(sorted(sites, key=lambda site: site.agent))
        if len({site.study for site in self.sites}) != 1 or len({site.rules.place for site in self.sites}) != 1:
            found = ", ".join(f"{site.agent!r} in {site.study!r}" for site in self.sites)
            raise InvalidInput("strata", found=found, allowed="agents of one site in one study")
        if len(set(self.names)) != len(self.sites):
            raise InvalidInput("strata", found=", ".join(self.names), allowed="every stratum once")
        self.shelf = Shelf([site.people for site in self.sites])
        for site in self.sites:
            site.shelf = self.shelf

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the site's strata."""
        return tuple(site.stratum for site in self.sites)

    @property
    def rules(self) -> RulesSeen:
        """The study's rules for its sites; where strata have different rules, the rules of the first stratum."""
        return self.sites[0].rules

    @property
    def place(self) -> str:
        """The name of the site."""
        return self.rules.place or self.sites[0].agent

    def close(self) -> None:
        for site in self.sites:
            site.close()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Lock all journals of the site: nobody else writes to them meanwhile."""
        with ExitStack() as turns:
            for site in self.sites:
                turns.enter_context(site.turn())
            yield

    def named(self, stratum: str) -> Site:
        """The `Site` of a stratum; the name may be empty if there is only one stratum."""
        if not stratum and len(self.sites) == 1:
            return self.sites[0]
        for site in self.sites:
            if stratum == site.stratum:
                return site
        found = repr(stratum)[:60] if stratum else Translatable("nothing")
        allowed = self.names[0]
        if len(self.names) > 1:
            some = ", ".join(self.names[:-1])
            allowed = Translatable("{some} or {last}", some=some, last=self.names[-1])
        raise InvalidInput("stratum", found=found, allowed=allowed)

    def of(self, participant: str) -> Site | None:
        """The `Site` of the stratum that a person is in; None if the person is unknown here."""
        key = checked_key(participant)
        return next((site for site in self.sites if key in site.people.persons), None)

    def knows(self, participant: str) -> bool:
        """Whether a person with exactly this key came to this site."""
        try:
            return self.of(participant) is not None
        except InvalidInput:
            return False

    def known(self, participant: str) -> Site:
        """The `Site` of the stratum that a person is in.

        For an unknown person, return a stratum that has a similar key, so that the error which it raises can suggest
        that key. If there is no similar key, return the first stratum.
        """
        key = checked_key(participant)
        alike = (site for site in self.sites if site.people.similar(key))
        return self.of(key) or next(alike, self.sites[0])

    def assign(self, participant: str, stratum: str = "", *, somebody_else: bool = False, **more: Any) -> Assignment:
        """Call `Site.assign` in a stratum, which must be named for a new person if there are several strata.

        A known person stays in the same stratum: naming another one raises `NotNow`.
        """
        key = checked_key(participant)
        with self.turn():
            site = self.of(key)
            if site is None:
                site = self.named(stratum)
                similar = next(filter(None, (one.people.similar(key) for one in self.sites)), None)
                if similar and not somebody_else:
                    raise SimilarKey(key, similar)
            elif stratum and self.named(stratum) is not site:
                raise NotNow(
                    Translatable(
                        "{key!r} was assigned in the stratum {stratum!r}, and nobody can move to another stratum",
                        key=key,
                        stratum=site.stratum,
                    )
                )
            return site.assign(key, somebody_else=somebody_else, **more)

    def list_kits(self, data: bytes, source: str) -> int:
        """Call `Site.list_kits`. The strata of a site share its kits."""
        with self.turn():
            return self.sites[0].list_kits(data, source)

    def unmask(self, participant: str, *, by: str, reason: str, emergency: bool = False) -> Unmasking:
        """Call `Site.unmask` in the person's stratum."""
        with self.turn():
            return self.known(participant).unmask(participant, by=by, reason=reason, emergency=emergency)

    def outcome(self, participant: str, reward: float, outcome: str = PRIMARY) -> None:
        """Call `Site.outcome` in the person's stratum."""
        with self.turn():
            self.known(participant).outcome(participant, reward, outcome)

    def missing(self, participant: str, outcome: str = PRIMARY) -> None:
        """Call `Site.missing` in the person's stratum."""
        with self.turn():
            self.known(participant).missing(participant, outcome)

    def void(self, participant: str, *, reason: str, who: str) -> Voided:
        """Call `Site.void` in the person's stratum."""
        with self.turn():
            return self.known(participant).void(participant, reason=reason, who=who)

    def record(
        self, rows: Sequence[Entered], *, take: bool = True, partly: bool = False
    ) -> list[InvalidInput | NotNow | None]:
        """Call `Site.record` for rows of all strata.

        Rows of several strata are written to several journals. If the process is killed in between, only the first
        journals have their rows; sending the same rows again adds the missing ones.
        """
        found: list[InvalidInput | NotNow | None] = [None] * len(rows)
        with self.turn():
            parts: dict[Site, list[int]] = {}
            for number, row in enumerate(rows):
                parts.setdefault(self._judge(row), []).append(number)
            # Check the rows of all strata before recording any: unless `partly`, one wrong row must prevent all.
            for judged in (False, True):
                if judged and not (take and (partly or not any(found))):
                    break
                for place, (site, numbers) in enumerate(parts.items()):
                    try:
                        answers = site.record([rows[one] for one in numbers], take=judged, partly=partly)
                    except NoRoom as error:
                        raise _partly_taken(error, list(parts), place) from None
                    for one, answer in zip(numbers, answers, strict=True):
                        found[one] = answer
        return found

    def _judge(self, row: Entered) -> Site:
        try:
            return self.known(row.participant)
        except InvalidInput:  # not a valid key: the check of the row reports that
            return self.sites[0]


def by_site(sites: Iterable[Site]) -> list[list[Site]]:
    """Group journals by site: all strata of one site in one study, or a single agent that has no strata."""
    places: dict[tuple[str, str, str], list[Site]] = {}
    for site in sites:
        alone = "" if site.rules.place else site.agent
        places.setdefault((site.study, site.rules.place, alone), []).append(site)
    return list(places.values())


def _partly_taken(error: NoRoom, sites: Sequence[Site], taken: int) -> NoRoom:
    """The error to raise if the disk is full. It names the strata whose rows were saved, and those not saved."""
    if not taken:
        return error
    words = Translatable(
        "the disk is full: the rows of {taken} were saved, but the rows of {left} were not. Free some space and "
        "send the whole table again",
        taken=", ".join(site.stratum for site in sites[:taken]),
        left=", ".join(site.stratum for site in sites[taken:]),
    )
    return NoRoom(words)
