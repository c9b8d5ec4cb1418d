"""A thread that takes the steps that are due: of large studies, and of those another process left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter

from parley.coordinator.clock import Clock
from parley.coordinator.logs import logger
from parley.coordinator.metrics import Metrics
from parley.coordinator.record import Storage, StorageUnavailable, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies.phases import closing_studies, take_step

__all__ = ["Closer"]

MOMENT = 2.0  # seconds between looks when nobody calls


class Closer:
    """Looks for studies in `closing` when called, and now and then; what is due follows from the database alone."""

    def __init__(self, storage: Storage, clock: Clock, metrics: Metrics, tell: Callable[[StudyRow], None]) -> None:
        self._storage, self._clock, self._metrics, self._tell = storage, clock, metrics, tell
        self._call, self._stopped = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="closer", daemon=True)

    def start(self) -> None:
        """Begin, with whatever was left behind."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the step in progress and end."""
        self._stopped = True
        self._call.set()
        self._thread.join()

    def call(self) -> None:
        """A study may be due: look now."""
        self._call.set()

    def _run(self) -> None:
        while not self._stopped:
            for study in self._due():
                if self._stopped:
                    return
                self._close(study)
            self._call.wait(MOMENT)
            self._call.clear()

    def _due(self) -> list[str]:
        try:
            return self._storage.read(closing_studies)
        except StorageUnavailable as error:
            logger.warning("cannot look for phases to close", error=str(error))
            return []

    def _close(self, study: str) -> None:
        """One study; what goes wrong with it is no reason to let the others wait."""
        begun = perf_counter()
        try:
            if not take_step(self._storage, study, self._clock()):
                return
            row = self._storage.read(lambda connection: studies.get(connection, study))
        except StorageUnavailable as error:
            logger.warning("cannot close a phase", study=study, error=str(error))
            return
        except Exception:
            logger.exception("a phase was not closed", study=study)
            return
        self._metrics.steps.observe(perf_counter() - begun)
        self._metrics.phases.inc()
        if row is not None:
            self._tell(row)
            logger.info("phase closed", study=study, stage=str(row.stage), phase=row.phase)
