"""What a mutant is, and how the mends of a hostile trial become some: each is undone by a function, and so named."""

from collections.abc import Callable
from dataclasses import dataclass

COORDINATOR = "tests/coordinator/test_"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`test` must fail, and say one of `words`; it passes without the mutant. `long` ones wait for `make chaos`.

    Those take their time, or share their test with one that is tried in every run.
    """

    name: str
    breaks: str  # the promise, or the point of the hardening
    test: str
    words: tuple[str, ...]
    apply: Callable[[], None]
    long: bool = False

    @property
    def place(self):
        """The test as pytest names it; a test of the coordinator is written without its folder."""
        return self.test if self.test.startswith("tests/") else COORDINATOR + self.test


class Mends:
    """What undoes the mends of one subject."""

    def __init__(self):
        self.mutants = []

    def undone(self, name, *, point, test, words, long=True):
        """The function below undoes a mend of a point of the hardening; then this test fails, and says one of these."""

        def noted(apply):
            breaks = f"point {point} of the hardening"
            self.mutants.append(Mutant(name=name, breaks=breaks, test=test, words=words, apply=apply, long=long))
            return apply

        return noted
