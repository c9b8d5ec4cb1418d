"""Mutants of the coordinator; some undo a fix that followed from a hostile trial, each by a function of its own."""

from collections.abc import Callable
from dataclasses import dataclass

COORDINATOR = "tests/coordinator/test_"
# What the fixes after the hostile trials protect, by the number of the finding.
KEPT = {
    1: "logs can be read back",
    2: "hashes and pages reveal nothing",
    3: "no request stops the server",
    4: "storage is what it says",
    5: "impossible reports are refused",
    6: "agents and sites are not fooled",
    7: "audits and sessions are true",
    8: "hashes follow the documented recipe",
}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """With the mutant, `test` must fail with one of `words` in its output; without it, the test passes.

    `long` mutants run only in `make chaos`: they are slow, or share their test with one that is tried in every run.
    """

    name: str
    breaks: str  # the promise, or what a fix protects
    test: str
    words: tuple[str, ...]
    apply: Callable[[], None]
    long: bool = False

    @property
    def place(self):
        """The test's name for pytest; tests of the coordinator are listed without their folder."""
        return self.test if self.test.startswith("tests/") else COORDINATOR + self.test


class Mends:
    """The mutants that undo fixes of one subject."""

    def __init__(self):
        self.mutants = []

    def undone(self, name, *, point, test, words, long=True):
        """Register a function that undoes a fix; this test must then fail with one of these words."""

        def noted(apply):
            self.mutants.append(Mutant(name=name, breaks=KEPT[point], test=test, words=words, apply=apply, long=long))
            return apply

        return noted
