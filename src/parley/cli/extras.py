"""Say what to install when an optional part is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parley.errors import MissingExtra

__all__ = ["needs"]


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Turn a missing package of ours into a `MissingExtra`; import what is optional inside of it.

    >>> with needs("server", "parley serve"):
    ...     import no_such_package
    Traceback (most recent call last):
    parley.errors.MissingExtra: parley serve needs more than the core: install it with  pip install 'parley[server]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == "parley":
            raise
        raise MissingExtra(what, extra) from None
