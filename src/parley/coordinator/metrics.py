"""What Prometheus can ask for. No label names a study, an agent or a token: `/metrics` is open."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["Metrics"]


class Outcomes(Counter):
    """Reports by outcome; why one was refused is not told, since viewers may not know that a report is held."""

    def labels(self, outcome: str) -> Counter:  # type: ignore[override]
        return super().labels(outcome if outcome in ("accepted", "repeated") else "refused")


class Metrics:
    """The counters of one application; each has its own registry, so that tests can have many."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "parley_requests_total", "Requests answered.", ["method", "operation", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "parley_request_seconds", "Time to answer.", ["operation"], registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
        )  # fmt: skip
        self.reports = Outcomes(
            "parley_reports_total", "Reports by outcome: accepted, repeated or refused.", ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        self.phases = Counter("parley_phases_closed_total", "Phases this process closed.", registry=self.registry)
        self.steps = Histogram(
            "parley_step_seconds", "Time of a policy's step outside the transaction.", registry=self.registry,
            buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60),
        )  # fmt: skip
        self.studies = Gauge("parley_studies", "Studies by stage.", ["stage"], registry=self.registry)
        self.streams = Gauge("parley_event_streams", "Open event streams.", registry=self.registry)
