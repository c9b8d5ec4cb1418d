"""The tables of a study as its log tells them: every row and every column that the coordinator wrote beside a record.

Works on the records as they are stored, so nothing is parsed a second time; what the log proves is `verify_log`'s part.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from parley.protocol import Record
from parley.protocol.canonical import canonical

__all__ = ["Retelling", "sha256"]

Row = dict[str, Any]


def sha256(text: str) -> str:
    """In hexadecimal, of a canonical text: the digest of a message.

    >>> sha256("{}")[:12]
    '44136fa355b3'
    """
    return hashlib.sha256(text.encode()).hexdigest()


class Retelling:
    """What a sound log says should be in the tables."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.tables: dict[str, list[Row]] = defaultdict(list)
        self.states: dict[int, str] = {}  # phase -> digest of the state after it
        self.created_at = self.opened_at = ""
        self.samples = 0
        self.reason: str | None = ""  # None: the coordinator's own words, which no record holds
        self._agents: list[str] = []
        self._phases: dict[int, Row] = {}
        self._standing: dict[tuple[int, str], tuple[int, int]] = {}  # place -> (last revision, its samples)
        for record in records:
            self._take(record)
        self.tables["phases"] = list(self._phases.values())

    def _take(self, record: Record) -> None:
        said = record.payload
        match record.kind:
            case "study-created":
                self._agents, self.created_at = said["study"]["agents"], record.at
                self._open(said["plan"], record.at)
            case "report-accepted" | "report-amended":
                self._report(said["report"], record)
            case "report-quarantined":
                row = _report_row(said["report"], record)
                self.tables["quarantine"].append({**row, "stands": said["stands"]})
            case "phase-closed":
                decision = said["decision"]
                self._phases[decision["phase"]] |= {"decision": canonical(decision), "closed_at": record.at}
                self.states[decision["phase"]] = decision["state"]
                self.reason = ""
                if said["plan"] is not None:
                    self._open(said["plan"], record.at)
            case "agent-frozen":
                row = {"agent": said["agent"], "phase": max(self._phases), "reason": said["reason"], "at": record.at}
                self.tables["frozen"].append(row)
            case "paused" | "cancelled":
                self.reason = said["reason"]
            case "resumed":
                self.reason = ""
            case "disputed" | "step-failed":
                self.reason = None

    def _open(self, plan: Mapping[str, Any], at: str) -> None:
        text, phase = canonical(plan), plan["phase"]
        row = {"phase": phase, "plan": text, "plan_digest": sha256(text), "opened_at": at}
        self._phases[phase] = {**row, "decision": None, "closed_at": None}
        self.opened_at = at
        self.tables["assignments"] += (
            {"phase": phase, "agent": agent, "draws": canonical(list(draws))}
            for agent, draws in zip(self._agents, zip(*plan["quotas"], strict=True), strict=True)
            if any(draws)
        )

    def _report(self, report: Mapping[str, Any], record: Record) -> None:
        place = (report["phase"], report["agent"])
        revision, before = self._standing.get(place, (-1, 0))
        drawn = sum(report["counts"])
        self._standing[place] = (revision + 1, drawn)
        self.samples += drawn - before
        row = _report_row(report, record)
        self.tables["reports"].append({**row, "revision": revision + 1, "head": record.hash})


def _report_row(report: Mapping[str, Any], record: Record) -> Row:
    text = canonical(report)
    place = {"phase": report["phase"], "agent": report["agent"]}
    return {**place, "body": text, "digest": sha256(text), "at": record.at, "sequence": record.sequence}
