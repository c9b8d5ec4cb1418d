"""Numbered kits of a masked study: enrolling staff see only a kit's number, and a list says which arm it contains.

A list of kits is one line of a journal, so it is stored whole or not at all. The line that assigns a person also
records the kit, and every enrolment locks all journals of the site. So no kit is given twice, even if a process is
killed.

A kit is drawn at random from the unused kits of the assigned arm. If kits were given in the order of the list, a
skipped number would reveal that its arm differs from the arm of the kit that was given.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from parley.agent.people import People, folded
from parley.errors import InvalidInput, NotNow
from parley.text.translation import Translatable
from parley.validation.tables import read_table, wrong_cell

LEAST = 5  # kits per arm: with fewer left, more should be listed, whatever the plan asks for
LONGEST_NUMBER = 60
COLUMNS = ("kit", "arm")
NO_KIT = Translatable("no kit is left for the next person: add more kits to the list before you assign anybody")


@dataclass(frozen=True, kw_only=True)
class Stock:
    """How many kits of an arm were listed, were given out, and are still needed by the current plans."""

    arm: str
    listed: int
    given: int  # includes kits of voided assignments
    asked: int  # free places of the arm in the current plans of all strata

    @property
    def left(self) -> int:
        return self.listed - self.given

    @property
    def low(self) -> bool:
        return self.left < max(self.asked, LEAST)


class Shelf:
    """The kits of a site, from the journals of all its strata."""

    def __init__(self, strata: Sequence[People]) -> None:
        self._strata = strata

    @property
    def listed(self) -> dict[str, str]:
        """The arm of every listed kit, by the kit's number."""
        return {number: arm for people in self._strata for number, arm in people.kits.items()}

    @property
    def _given(self) -> frozenset[str]:
        """Numbers of the kits given out, including kits of voided assignments, which are never given again."""
        return frozenset().union(*(people.kits_given for people in self._strata))

    def draw(self, key: bytes, arm: str) -> str:
        """Draw the number of an unused kit for the next person, who was assigned `arm`."""
        given = self._given
        left = [number for number, inside in self.listed.items() if inside == arm and number not in given]
        if not left:
            raise NotNow(NO_KIT)
        # A keyed hash, as for drawing the arm: nobody can predict the kit without the site's secret key.
        hashed = hmac.new(key, f"kit:{len(given)}".encode(), hashlib.sha256).digest()
        return left[int.from_bytes(hashed, "big") % len(left)]

    def stock(self) -> list[Stock]:
        """The stock of every arm, in the study's order of arms."""
        listed, given = self.listed, self._given
        asked = [people.current.places for people in self._strata if people.current]
        return [
            Stock(
                arm=arm,
                listed=sum(inside == arm for inside in listed.values()),
                given=sum(listed.get(number) == arm for number in given),
                asked=sum(places.get(arm, 0) for places in asked),
            )
            for arm in self._strata[0].rules.arms
        ]

    @property
    def low(self) -> bool:
        """Whether any open arm is running low on kits. No arm is named, since the site's page must not reveal arms."""
        closed = frozenset.intersection(*(people.closed_arms for people in self._strata))
        return any(one.low for one in self.stock() if one.arm not in closed)

    def checked(self, data: bytes, source: str) -> dict[str, str]:
        """Parse a table with the columns `kit` and `arm` into number -> arm; raise if two numbers look alike."""
        table = read_table(data, source, needed=COLUMNS)
        table.require(*COLUMNS)
        arms = self._strata[0].rules.arms
        before = {folded(number): number for number in self.listed}
        seen: dict[str, int] = {}
        made: dict[str, str] = {}
        for row in table.rows:
            number, arm = (row.values[name] for name in COLUMNS)
            alike = folded(number)
            if not number or len(number) > LONGEST_NUMBER or not number.isprintable():
                allowed = f"a number of 1 to {LONGEST_NUMBER} printable characters"
                raise wrong_cell(source, row.line, "kit", repr(number)[:80], allowed)
            if alike in seen:
                raise wrong_cell(
                    source,
                    row.line,
                    "kit",
                    f"{number!r} again",
                    f"every number once; it is already in line {seen[alike]}",
                )
            if alike in before:
                found = f"{number!r}, which is listed already"
                raise wrong_cell(source, row.line, "kit", found, "numbers that were never listed here")
            if arm not in arms:
                raise wrong_cell(source, row.line, "arm", repr(arm)[:60], ", ".join(arms))
            seen[alike], made[number] = row.line, arm
        if not made:
            raise InvalidInput(source, found="no kit", allowed="a line for every kit, with the columns kit and arm")
        return made
