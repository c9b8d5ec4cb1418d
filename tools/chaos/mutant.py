"""What a mutant is, and how the mends of a hostile trial become some: each is undone by a function, and so named."""

from collections.abc import Callable
from dataclasses import dataclass

COORDINATOR = "tests/coordinator/test_"
# What a mend of the hostile trials keeps, by its number there.
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
    """`test` must fail, and say one of `words`; it passes without the mutant. `long` ones wait for `make chaos`.

    Those take their time, or share their test with one that is tried in every run.
    """

    name: str
    breaks: str  # the promise, or what a mend keeps
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
        """The function below undoes a mend; then this test fails, and says one of these."""

        def noted(apply):
            self.mutants.append(Mutant(name=name, breaks=KEPT[point], test=test, words=words, apply=apply, long=long))
            return apply

        return noted
