"""Observability for operators: logs as JSON lines, and metrics for Prometheus."""

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from parley.errors import StorageUnavailable

SECRET = re.compile(r"parley_[0-9a-f]{16}_[A-Za-z0-9_-]{43}|whsec_[A-Za-z0-9+/=]{24,}|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)")

logger: structlog.stdlib.BoundLogger = structlog.get_logger("parley")


def scrub(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Remove anything from a log line that looks like a token, a secret or a database password.

    >>> scrub(None, "info", {"event": "failed for parley_0123456789abcdef_" + "x" * 43})["event"]
    'failed for [secret]'
    """
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = SECRET.sub("[secret]", value)
    return event


def configure(level: str) -> None:
    """Log JSON lines at this level and above; libraries log only warnings and errors, unless the level is `debug`."""
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
    # Libraries log every request and statement at lower levels, which only a debugging operator wants to see.
    root.setLevel(max(threshold, logging.WARNING) if level != "debug" else threshold)


async def guarded(work: Callable[[], Awaitable[Any]], words: str) -> None:
    """Run background work once; an error is logged with these words, and not raised."""
    try:
        await work()
    except StorageUnavailable as error:
        logger.warning(words, error=str(error))
    except Exception:
        logger.exception(words)


async def repeat(work: Callable[[], Awaitable[Any]], seconds: float, words: str) -> None:
    """Run background work until cancelled, with a pause of `seconds`; errors are logged with these words."""
    while True:
        await guarded(work, words)
        await asyncio.sleep(seconds)


class Metrics:
    """The metrics of one application. Each application has its own registry, so that tests can create several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "parley_requests_total", "Requests answered.", ["method", "operation", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "parley_request_seconds", "Time to answer.", ["operation"], registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
        )  # fmt: skip
        self.reports = Counter(
            "parley_reports_total", "Reports by outcome: accepted, repeated or refused.", ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        self.phases = Counter("parley_phases_closed_total", "Phases this process closed.", registry=self.registry)
        self.steps = Histogram(
            "parley_step_seconds", "Time of a policy's step outside the transaction.", registry=self.registry,
            buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60),
        )  # fmt: skip
        self.studies = Gauge("parley_studies", "Studies by stage.", ["stage"], registry=self.registry)
        self.oldest_awaited = Gauge(
            "parley_oldest_awaited_report_seconds", "Age of the oldest plan that a running study awaits a report of.",
            registry=self.registry,
        )  # fmt: skip
        self.streams = Gauge("parley_event_streams", "Open event streams.", registry=self.registry)
