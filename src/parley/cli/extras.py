"""Say what to install when an optional part is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parley.errors import MissingPackage

__all__ = ["needs"]


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
