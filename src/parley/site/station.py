"""A site at work: its journal, its outbox, and a thread that fetches plans and hands phases over."""

from __future__ import annotations

import threading
from pathlib import Path

from parley.agent.client import Client
from parley.agent.courier import make_worker
from parley.agent.outbox import Outbox
from parley.agent.plans import AgentPlan
from parley.agent.site import Site
from parley.errors import ParleyError
from parley.protocol import Receipt

__all__ = ["Station"]

AGAIN = 15.0  # seconds after the coordinator refused, until it is asked again
PATIENCE = 5.0  # seconds that one wait for a plan may last: as long as stopping may take


class Station:
    """What the service serves. `start` begins to talk to the coordinator; without it the journal works alone."""

    def __init__(self, site: Site, client: Client, folder: str | Path) -> None:
        self.site, self._client = site, client
        self._outbox = Outbox(folder, study=site.study, agent=site.agent)
        self._something = threading.Event()  # something was noted: look at once whether a report is due
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True, name="courier")
        self.words, self._heard = "not connected yet", False
        self._warning = ""  # what somebody must look into, until a report of this site is acknowledged

    def start(self) -> None:
        """Talk to the coordinator from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop talking and let go of the journal and the outbox."""
        self._stop.set()
        self._something.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * PATIENCE)
        self._outbox.close()
        self.site.close()

    def noted(self) -> None:
        """Something changed at the site: if a report is due now, it need not wait for the next look."""
        if self.site.due:
            self._something.set()

    def receipts(self) -> dict[int, Receipt]:
        """What the coordinator acknowledged, by phase."""
        return {receipt.phase: receipt for receipt in self._outbox.receipts()}

    def _work(self) -> None:
        outbox = self._outbox
        worker = make_worker(
            self.site,
            self._client,
            outbox,
            say=self._say,
            warn=self._warn,
            sleep=self._wait,
            patience=PATIENCE,
            heard=self._hear,
        )
        while not self._stop.is_set():
            self._heard = False
            try:
                plan = worker.step()
                if plan is not None and plan.over:
                    self._wait(AGAIN)
            except ParleyError as error:
                self.words = str(error)
                self._wait(AGAIN)

    def _hear(self, plan: AgentPlan) -> None:
        if plan.phase in self.receipts():
            self._warning = ""
        self.words, self._heard = self._warning or "connected", True

    def _warn(self, words: str) -> None:
        self._warning = self.words = words

    def _say(self, words: str) -> None:
        """Words of a round in which a plan came are about the site itself, which the page tells better."""
        if not self._heard:
            self.words = words

    def _wait(self, seconds: float) -> None:
        """Sleep, but not when something was noted."""
        self._something.wait(seconds)
        self._something.clear()
