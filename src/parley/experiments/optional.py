"""Optional packages, imported where they are needed, with a message that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from parley.errors import MissingPackage

__all__ = ["need"]


def need(module: str, *, extra: str, purpose: str) -> Any:
    """The module, or `MissingPackage`.

    >>> need("json", extra="none", purpose="this example").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        if missing != module.partition(".")[0]:
            raise  # the package is there, and something it needs is broken: that message is better than ours
        raise MissingPackage(missing, extra=extra, purpose=purpose) from None
