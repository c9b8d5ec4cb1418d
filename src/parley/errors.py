"""Every exception that Parley raises on purpose.

    ParleyError                     anything below; catch this one to catch them all
    ├── InvalidInput                a value the caller can mend (also a ValueError); the command line exits with 2
    │   ├── InvalidStudy            a study file: which file, which key
    │   ├── OtherResults            a results folder that belongs to another sweep
    │   ├── MissingPackage          an optional package that is not installed; says what to install
    │   ├── NoCluster               a cluster address that does not answer
    │   ├── UnknownName             a name that is not in a registry; lists the names that are
    │   ├── TiedArms                two arms tie at an agent's top-N boundary: the question has no answer
    │   └── ImpossibleReport        counts that are not the plan's, or sums that no rewards can have
    ├── NotConverged                a solver ran out of steps; carries the best certified solution it had
    ├── EngineFailed                workers or a cluster were lost, again and again
    ├── NoRoom                      results could not be written: disk, quota or file size
    ├── IllegalMove                 an event that cannot happen where a live study is; the study is unchanged
    ├── BrokenChain                 a log that was changed after it was written
    ├── DamagedJournal              a site's journal that was changed after it was written
    ├── NotNow                      what a site is asked does not fit where its study is; nothing was written
    ├── SourceFailed                the user's own function or program failed while it drew; theirs to mend
    ├── StorageUnavailable          a coordinator's database did not answer; the same may be tried again
    ├── Interrupted                 an agent's draw was begun and its result is not known
    └── CoordinatorError            what a client hears from a coordinator, or fails to hear
        ├── Unreachable             no answer, or one that says "later": the same request may be sent again
        ├── NotAllowed              the token is unknown, revoked, or not for this
        ├── NotThere                no such study, phase, agent or report
        ├── Conflict                the study is somewhere else: another plan, a taken place, a closed phase
        ├── Rejected                the request itself is wrong; sending it again cannot help
        ├── WrongPlan               a plan for another study or agent than the one that asked: do not draw it
        └── WrongReceipt            a receipt for something else than the report that was sent: do not trust it

An error says what was found, what is allowed and, where it is not obvious, what to do.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

__all__ = [
    "BrokenChain",
    "Conflict",
    "CoordinatorError",
    "DamagedJournal",
    "EngineFailed",
    "IllegalMove",
    "ImpossibleReport",
    "Interrupted",
    "InvalidInput",
    "InvalidStudy",
    "MissingPackage",
    "NoCluster",
    "NoRoom",
    "NotAllowed",
    "NotConverged",
    "NotNow",
    "NotThere",
    "OtherResults",
    "ParleyError",
    "Rejected",
    "SourceFailed",
    "StorageUnavailable",
    "TiedArms",
    "UnknownName",
    "Unreachable",
    "WrongPlan",
    "WrongReceipt",
    "need",
    "needs",
]


class ParleyError(Exception):
    """The root of the tree.

    >>> try:
    ...     raise InvalidInput("delta", found=2.0, allowed="a number strictly between 0 and 1")
    ... except ParleyError as error:
    ...     print(type(error).__name__)
    InvalidInput
    """


class InvalidInput(ParleyError, ValueError):
    """A value that cannot be used, with its key, what was found and what is allowed.

    >>> print(InvalidInput("delta", found=2.0, allowed="a number strictly between 0 and 1"))
    delta: found 2.0; allowed: a number strictly between 0 and 1
    """

    def __init__(self, key: str, *, found: object, allowed: str, hint: str | None = None) -> None:
        self.key, self.found, self.allowed, self.hint = key, found, allowed, hint
        message = f"{key}: found {found}; allowed: {allowed}"
        super().__init__(f"{message}. {hint}" if hint else message)


class InvalidStudy(InvalidInput):
    """An `InvalidInput` met while reading a study file: the message starts with the file's name.

    >>> print(InvalidStudy("mine.toml", InvalidInput("arms", found=1, allowed="at least 2")))
    mine.toml: arms: found 1; allowed: at least 2
    """

    def __init__(self, source: str, cause: InvalidInput) -> None:
        super().__init__(cause.key, found=cause.found, allowed=cause.allowed, hint=cause.hint)
        self.source = source
        self.args = (f"{source}: {cause}",)


class UnknownName(InvalidInput):
    """A name that no registry entry has, and the one that was perhaps meant.

    >>> print(UnknownName("policy", "wcp", ["wcpe", "uniform"]))
    policy: found 'wcp'; allowed: one of uniform, wcpe. Did you mean wcpe?
    """

    def __init__(self, key: str, found: object, names: Iterable[str]) -> None:
        known = sorted(names)
        near = get_close_matches(str(found)[:100], known, n=1, cutoff=0.7)
        hint = f"Did you mean {near[0]}?" if near else None
        super().__init__(key, found=repr(found), allowed="one of " + ", ".join(known), hint=hint)


class TiedArms(InvalidInput):
    """Arms that tie at the boundary between an agent's top N and the rest: every lower bound is infinite.

    >>> print(TiedArms(agent="Lille", arms=["A", "B"], top=1).found)
    a tie at the boundary of the best arm of agent Lille: A, B
    """

    def __init__(self, *, agent: str, arms: Iterable[str], top: int) -> None:
        tied = ", ".join(arms)
        what = "best arm" if top == 1 else f"top {top}"
        super().__init__(
            "means",
            found=f"a tie at the boundary of the {what} of agent {agent}: {tied}",
            allowed="distinct mixed means at the boundary",
            hint="With a tie every lower bound is infinite and no policy can be expected to stop",
        )


class ImpossibleReport(InvalidInput):
    """A report whose counts are not the plan's, or whose sums no rewards can have."""


class IllegalMove(ParleyError):
    """An event that cannot happen where the study is: `reason` in one word, `words` for people, without the rest."""

    def __init__(self, message: str, *, reason: str = "illegal-move", words: str = "") -> None:
        super().__init__(message)
        self.reason, self.words = reason, words or message


class BrokenChain(ParleyError):
    """A record that was changed, dropped, moved or cut off: which one, and how it shows."""


class DamagedJournal(ParleyError):
    """A line of a site's journal that is not what was written: which one. Nothing is assigned on top of it."""


class NotNow(ParleyError):
    """A site cannot do this where its study is: paused, no plan yet, a phase that is reported."""


class SourceFailed(ParleyError):
    """The user's own code failed; the message holds its traceback and says what to do."""


class StorageUnavailable(ParleyError):
    """The database did not answer, or not in time; the same request may be sent again."""


class Interrupted(ParleyError):
    """A draw was begun and its result is not known; drawing again would use other rewards, or spend them twice."""


class CoordinatorError(ParleyError):
    """A coordinator's problem document (RFC 9457), or its absence; `retry` says whether sending again can help."""

    retry = False

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem: Mapping[str, Any] = problem or {}


class Unreachable(CoordinatorError):
    """No answer, or an answer that asks to come back later; nothing is lost by sending the same again."""

    retry = True


class NotAllowed(CoordinatorError):
    """The token is missing, unknown, revoked, or has no right to this."""


class NotThere(CoordinatorError):
    """No such study, phase, agent, report or certificate."""


class Conflict(CoordinatorError):
    """The request does not fit where the study is; `problem["type"]` says how."""


class Rejected(CoordinatorError):
    """The request can never be right as it is."""


class WrongPlan(CoordinatorError):
    """The plan is another study's or agent's, or not the one people were assigned by; nothing is drawn for it."""


class WrongReceipt(CoordinatorError):
    """The coordinator acknowledged another report than the one that was sent; it may have logged that other one."""


class NotConverged(ParleyError):
    """The accuracy that was asked for was not reached; `solution` is the best one, with its proven gap.

    >>> import numpy as np
    >>> from parley import ArmPrograms, NotConverged, solve
    >>> programs = ArmPrograms.of(np.array([[0.49, 0.16], [0.09, 0.36]]), np.array([[0.5, 0.125]]))
    >>> try:
    ...     solve(programs, max_steps=1)
    ... except NotConverged as error:
    ...     print(error.solution.status.name)
    OUT_OF_STEPS
    """

    def __init__(self, message: str, solution: object) -> None:
        super().__init__(message)
        self.solution = solution


class OtherResults(InvalidInput):
    """A results folder that holds something else than the sweep at hand; nothing in it is touched."""


class MissingPackage(InvalidInput):
    """An optional package is not installed.

    >>> print(MissingPackage("ray", extra="ray", purpose="the engine ray"))
    the engine ray: found no package ray; allowed: the package ray, installed by `pip install '.[ray]'` in the clone
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        allowed = f"the package {package}, installed by `pip install '.[{extra}]'` in the clone"
        super().__init__(purpose, found=f"no package {package}", allowed=allowed)


class NoCluster(InvalidInput):
    """Nobody answers at the address of a cluster."""


class EngineFailed(ParleyError):
    """Workers were lost again and again; what was finished before is kept."""


class NoRoom(ParleyError):
    """A result could not be written; what was written before is kept."""


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Say which extra has the package that is missing; import what is optional inside of it.

    >>> with needs("server", "parley serve"):  # doctest: +ELLIPSIS
    ...     import no_such_package
    Traceback (most recent call last):
    parley.errors.MissingPackage: parley serve: found no package no_such_package; ... '.[server]'` in the clone
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "that it needs").partition(".")[0]
        if missing == "parley":
            raise
        raise MissingPackage(missing, extra=extra, purpose=what) from None


def need(module: str, *, extra: str, purpose: str) -> Any:
    """A module of a package that may not be there.

    >>> need("json", extra="none", purpose="this example").dumps([1])
    '[1]'
    """
    with needs(extra, purpose):
        return importlib.import_module(module)
