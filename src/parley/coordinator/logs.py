"""One JSON object a line on standard error. Tokens, bodies and query strings never enter a line."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

__all__ = ["configure", "logger", "scrub"]

SECRET = re.compile(r"parley_[0-9a-f]{16}_[A-Za-z0-9_-]{43}|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)")

logger: structlog.stdlib.BoundLogger = structlog.get_logger("parley")


def scrub(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The last line of defence: whatever looks like a token or a database password is blanked.

    >>> scrub(None, "info", {"event": "failed for parley_0123456789abcdef_" + "x" * 43})["event"]
    'failed for [secret]'
    """
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = SECRET.sub("[secret]", value)
    return event


def configure(level: str) -> None:
    """JSON lines at a level and above; the standard library's loggers (uvicorn, SQLAlchemy) go the same way."""
    threshold = getattr(logging, level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        scrub,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(sort_keys=True)],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared[:-1],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                scrub,
                structlog.processors.JSONRenderer(sort_keys=True),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(threshold, logging.WARNING) if level != "debug" else threshold)
