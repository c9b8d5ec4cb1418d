"""Every exception that Parley raises on purpose; catch `ParleyError` to catch them all.

    ParleyError
    ├── InvalidInput      InvalidStudy, UnknownName, TiedArms, ImpossibleReport, OtherResults, MissingPackage
    ├── CoordinatorError  Unreachable (and Blocked), NotAllowed, NotThere, Conflict, Rejected, WrongPlan, WrongReceipt
    ├── NotNow            SimilarKey
    └── IllegalMove, BrokenChain, DamagedJournal, SourceFailed, StorageUnavailable, Interrupted, NotConverged,
        EngineFailed, NoRoom

An error says what was found, what is allowed and, if it is not obvious, what to do.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


class ParleyError(Exception):
    """Base class of all exceptions that Parley raises on purpose.

    >>> try:
    ...     raise InvalidInput("delta", found=2.0, allowed="a number strictly between 0 and 1")
    ... except ParleyError as error:
    ...     print(type(error).__name__)
    InvalidInput
    """


class InvalidInput(ParleyError, ValueError):
    """A wrong value that the caller can correct, with its key and what is allowed. Commands exit with status 2.

    >>> print(InvalidInput("delta", found=2.0, allowed="a number strictly between 0 and 1"))
    delta: found 2.0; allowed: a number strictly between 0 and 1
    """

    def __init__(self, key: str, *, found: object, allowed: str, hint: str | None = None) -> None:
        self.key, self.found, self.allowed, self.hint = key, found, allowed, hint
        message = f"{key}: found {found}; allowed: {allowed}"
        super().__init__(f"{message}. {hint}" if hint else message)


class InvalidStudy(InvalidInput):
    """An `InvalidInput` in a study file; the message starts with the file's name.

    >>> print(InvalidStudy("mine.toml", InvalidInput("arms", found=1, allowed="at least 2")))
    mine.toml: arms: found 1; allowed: at least 2
    """

    def __init__(self, source: str, cause: InvalidInput) -> None:
        super().__init__(cause.key, found=cause.found, allowed=cause.allowed, hint=cause.hint)
        self.source = source
        self.args = (f"{source}: {cause}",)


class UnknownName(InvalidInput):
    """A name is unknown; the message lists the known names and suggests a similar one, if any.

    >>> print(UnknownName("policy", "wcp", ["wcpe", "uniform"]))
    policy: found 'wcp'; allowed: one of uniform, wcpe. Did you mean wcpe?
    """

    def __init__(self, key: str, found: object, names: Iterable[str], hint: str | None = None) -> None:
        known = sorted(names)
        near = get_close_matches(str(found)[:100], known, n=1, cutoff=0.7)
        hint = hint or (f"Did you mean {near[0]}?" if near else None)
        super().__init__(key, found=repr(found), allowed="one of " + ", ".join(known), hint=hint)


class TiedArms(InvalidInput):
    """Arms tie at the boundary between an agent's top N and the other arms, so every lower bound is infinite.

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
    """A report whose counts differ from the plan's, or whose sums no rewards could produce."""


class IllegalMove(ParleyError):
    """An event that the study's stage does not allow. `reason` is a code, and `words` is the text for users."""

    def __init__(self, message: str, *, reason: str = "illegal-move", words: str = "") -> None:
        super().__init__(message)
        self.reason, self.words = reason, words or message


class BrokenChain(ParleyError):
    """A record of a log was changed, removed, moved or cut off; the message names the record and the evidence."""


class DamagedJournal(ParleyError):
    """A line of a site's journal was altered; the message names the line. The site stops assigning people."""


class NotNow(ParleyError):
    """A site cannot act at the moment: the study is paused, there is no plan yet, or the phase is already reported."""


class SimilarKey(NotNow):
    """A new person's key resembles the key of somebody already assigned, for example if they differ only in case.

    >>> print(SimilarKey("bx-001", "BX-001"))
    'bx-001' looks like 'BX-001', who was assigned here: use that key, or say that this is somebody else
    """

    def __init__(self, key: str, similar: str) -> None:
        super().__init__(
            f"{key!r} looks like {similar!r}, who was assigned here: use that key, or say that this is somebody else"
        )
        self.key, self.similar = key, similar


class SourceFailed(ParleyError):
    """The user's own source of rewards failed; the message holds its traceback and says what to do."""


class StorageUnavailable(ParleyError):
    """The database did not answer, or not in time; the same request may be sent again."""


class Interrupted(ParleyError):
    """A draw was started and its result is unknown. Drawing again would give different rewards, or cost twice."""


class CoordinatorError(ParleyError):
    """The coordinator refused or failed; `problem` is its problem document (RFC 9457).

    `retry` says whether sending the same request again can help.
    """

    retry = False

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem: Mapping[str, Any] = problem or {}


class Unreachable(CoordinatorError):
    """The coordinator did not answer, or asked to try later. Sending the same request again is safe."""

    retry = True


class Blocked(Unreachable):
    """A proxy or a certificate blocks the connection. An agent that is starting exits; a running agent waits."""


class NotAllowed(CoordinatorError):
    """The token is missing, unknown or revoked, or its role does not allow the request."""


class NotThere(CoordinatorError):
    """The requested study, phase, agent, report or certificate does not exist."""


class Conflict(CoordinatorError):
    """The request does not fit the state of the study; `problem["type"]` says why."""


class Rejected(CoordinatorError):
    """The request is invalid, so sending it again cannot help."""


class WrongPlan(CoordinatorError):
    """The plan is for another study or agent, or does not match the assignments so far. Nothing is drawn for it."""


class WrongReceipt(CoordinatorError):
    """The coordinator acknowledged a different report from the one sent, and may have logged the wrong one."""


class NotConverged(ParleyError):
    """The requested accuracy was not reached; `solution` is the best solution found, with its proven gap.

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
    """The results folder belongs to another sweep; nothing in it is changed."""


class MissingPackage(InvalidInput):
    """An optional package is not installed.

    >>> print(MissingPackage("polars", extra="polars", purpose="a polars frame"))
    a polars frame: found no package polars; allowed: the package polars: run `pip install '.[polars]'` in the clone
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        allowed = f"the package {package}: run `pip install '.[{extra}]'` in the clone"
        super().__init__(purpose, found=f"no package {package}", allowed=allowed)


class EngineFailed(ParleyError):
    """A sweep lost its workers repeatedly. The results that were already finished are kept."""


class NoRoom(ParleyError):
    """A file could not be written because the disk is full. Files that were already written are kept."""


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Context manager for importing optional packages; if one is missing, the error names the extra to install.

    >>> with needs("server", "parley serve"):  # doctest: +ELLIPSIS
    ...     import no_such_package
    Traceback (most recent call last):
    parley.errors.MissingPackage: parley serve: found no package no_such_package; ... '.[server]'` in the clone
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "that it needs").partition(".")[0]
        # A missing module of Parley itself is a bug: no extra would install it.
        if missing == "parley":
            raise
        raise MissingPackage(missing, extra=extra, purpose=what) from None


def need(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module of an optional package.

    >>> need("json", extra="none", purpose="this example").dumps([1])
    '[1]'
    """
    with needs(extra, purpose):
        return importlib.import_module(module)
