"""Optional packages, imported where they are needed; what is missing is told with what to install."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from parley.errors import MissingPackage

__all__ = ["need", "needs"]


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
