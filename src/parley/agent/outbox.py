"""The outbox: what an agent drew but has not yet handed over, and the receipts of what it has.

A folder of small files, one agent of one study each. Every file appears whole or not at all (`parley.system.files`), so
a kill at any moment leaves either the state before or the state after.

    draws/<phase>.json      the report, written before it is first sent: after this nothing is drawn again
    receipts/<phase>.json   the receipt, written when the coordinator has acknowledged it
    slopes/<phase>.json     of a study with a covariate: how the phase is adjusted, written before it is drawn
    pairs/<phase>.json      sums of covariates and rewards, from which later phases learn how to adjust
    rows/<phase>.json       which rows of a file it took, if it came from one
    noise/<phase>.json      of a private study: the exact sums, and the same with noise; written before the report
    pinned.json             what the study may learn of people, and the site's policy, as at the first start
    released/<phase>.json   the digest of the report that somebody at the site released, where it must be
    drawing/<phase>         this phase was begun; without a report, a source that cannot repeat itself must not run

Other files there (a copy, a note, what a file manager leaves) are ignored.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from parley.errors import Interrupted, InvalidInput
from parley.protocol import Receipt, Report
from parley.protocol.codec import canonical, read_json
from parley.system.files import ASIDE, SECRET, FileLock, Locked, put_in_place, sync_folder, write_whole
from parley.text.translation import Translatable

KINDS = ("drawing", "draws", "receipts", "rows", "noise", "released", "slopes", "pairs")
DEVICE = re.compile(r"(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(?=\.|$)")  # names that Windows reserves for devices
PINNED = "pinned.json"
KEPT = re.compile(r"[1-9][0-9]{0,15}\.json")


class Outbox:
    """The durable memory of one agent in one study. Only one process at a time may hold it."""

    def __init__(self, folder: str | Path, *, study: str, agent: str) -> None:
        self.folder = agent_folder(folder, study=study, agent=agent)
        self.study, self.agent = study, agent
        for kind in KINDS:
            (self.folder / kind).mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(self.folder)
        try:
            self._lock = FileLock(self.folder / "lock")
        except Locked:
            raise InvalidInput(
                "outbox",
                found=f"{self.folder}, which another process holds",
                allowed="one process per agent and study",
                hint="Stop the other one: two processes would draw twice",
            ) from None
        for leftover in self.folder.glob(f"*/*{ASIDE}"):  # left by a killed process
            leftover.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lock.release()

    def begin(self, phase: int, *, repeatable: bool) -> None:
        """Note that a phase is being drawn; raise if an unrepeatable source has begun it before."""
        mark = self.folder / "drawing" / str(phase)
        if mark.exists() and not repeatable:
            raise Interrupted(
                f"phase {phase} was interrupted, and it is unknown what was drawn. If nothing was, start "
                f"again with `--draw-again {phase}`; if something was, tell the study's administrator"
            )
        write_whole(mark, "", mode=SECRET)

    def abandon(self, phase: int) -> None:
        """Note that a draw failed before it spent anything, so it may be begun again."""
        (self.folder / "drawing" / str(phase)).unlink(missing_ok=True)

    def draw_again(self, phase: int) -> None:
        """Note that an interrupted draw spent nothing, as a person confirms, so it may be started again."""
        if not (self.folder / "drawing" / str(phase)).exists():
            begun = ", ".join(sorted(path.name for path in (self.folder / "drawing").glob("*")))
            raise InvalidInput(
                "--draw-again", found=phase, allowed=f"a phase that was begun and interrupted ({begun or 'none was'})"
            )
        self.abandon(phase)

    def keep_rows(self, phase: int, text: str) -> None:
        """Store which rows of a file a phase uses, before its report is stored."""
        write_whole(self.folder / "rows" / f"{phase}.json", text, mode=SECRET)

    def rows_before(self, phase: int) -> tuple[int, str] | None:
        """The latest earlier phase with a report, and the rows it used; None if its rows are not known."""
        drawn = [known for known in self._phases("draws") if known < phase]
        path = self.folder / "rows" / f"{max(drawn, default=0)}.json"
        return (max(drawn), path.read_text(encoding="utf-8")) if drawn and path.exists() else None

    def fixed_slope(self, phase: int, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """How a phase is adjusted for a covariate: computed once, and stored before the phase is drawn."""
        path = self.folder / "slopes" / f"{phase}.json"
        if not path.exists():
            write_whole(path, canonical(dict(make())), mode=SECRET)
            sys.audit("parley.reached", "slope-fixed")
        found: dict[str, Any] = read_json(path.read_text(encoding="utf-8"), "slope")
        return found

    def keep_pairs(self, phase: int, sums: Mapping[str, Any]) -> None:
        """Store a phase's sums for the covariate's slope, before its report is stored."""
        write_whole(self.folder / "pairs" / f"{phase}.json", canonical(dict(sums)), mode=SECRET)

    def pairs_before(self, phase: int) -> list[dict[str, Any]]:
        """The sums for the covariate's slope from all earlier phases, in order."""
        known = (self.folder / "pairs" / f"{one}.json" for one in self._phases("pairs") if one < phase)
        return [read_json(path.read_text(encoding="utf-8"), "pairs") for path in known]

    def noisy(self, phase: int, exact: Mapping[str, Any], draw: Callable[[int], list[int]]) -> tuple[list[int], int]:
        """The sums with noise, drawn once and stored before they are used; and the number of releases."""
        path = self.folder / "noise" / f"{phase}.json"
        found = read_json(path.read_text(encoding="utf-8"), "noise") if path.exists() else {"releases": []}
        known = found["releases"]
        # Sums that were sent with noise that is no longer here: what is drawn now is another release.
        lost = max(found.get("lost", 0), self._sent_before(phase) - len(known))
        for one in known:
            if one["exact"] == exact:
                return one["noisy"], lost + len(known)
        known.append({"exact": dict(exact), "noisy": draw(lost + len(known) + 1)})
        write_whole(path, canonical({"releases": known} | ({"lost": lost} if lost else {})), mode=SECRET)
        sys.audit("parley.reached", "noise-kept")
        return known[-1]["noisy"], lost + len(known)

    def _sent_before(self, phase: int) -> int:
        """How often sums of a phase left the site, by the stored reports: sent, pending or set aside."""
        paths = (self.folder / "draws" / f"{phase}{kind}" for kind in (".json", ".refused"))
        reports = [Report.read(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
        return max((report.releases or 1 for report in reports if report.private), default=0)

    def lost_noise(self) -> list[int]:
        """Phases whose private report is here, but not its noise."""
        return [
            phase
            for phase in self._phases("draws")
            if self._sent_before(phase) and not (self.folder / "noise" / f"{phase}.json").exists()
        ]

    def pinned(self) -> dict[str, Any] | None:
        """What was pinned at the first start; None before that."""
        path = self.folder / PINNED
        return read_json(path.read_text(encoding="utf-8"), "pinned") if path.exists() else None

    def pin(self, terms: Mapping[str, Any]) -> None:
        """Store the terms for every later start."""
        write_whole(self.folder / PINNED, canonical(dict(terms)), mode=SECRET)

    def keep(self, report: Report) -> None:
        """Store a report before it is sent. The first one of a phase stays, whatever comes later."""
        path = self.folder / "draws" / f"{report.phase}.json"
        if not path.exists():
            write_whole(path, report.text, mode=SECRET)
        self.abandon(report.phase)

    def report(self, phase: int) -> Report | None:
        """The stored report of a phase, if any."""
        path = self.folder / "draws" / f"{phase}.json"
        return Report.read(path.read_text(encoding="utf-8")) if path.exists() else None

    def set_aside(self, phase: int) -> None:
        """Rename a report that will never be accepted, so that it is no longer pending."""
        path = self.folder / "draws" / f"{phase}.json"
        put_in_place(path, path.with_suffix(".refused"))

    def was_aside(self, report: Report) -> bool:
        """Whether this exact report was set aside before."""
        path = self.folder / "draws" / f"{report.phase}.refused"
        return path.exists() and path.read_text(encoding="utf-8") == report.text

    def pending(self) -> Report | None:
        waiting = set(self._phases("draws")) - set(self._phases("receipts"))
        return self.report(min(waiting)) if waiting else None

    def is_released(self, report: Report) -> bool:
        """Whether a person at the site released this exact report."""
        path = self.folder / "released" / f"{report.phase}.json"
        return path.exists() and path.read_text(encoding="utf-8") == report.digest

    def acknowledge(self, receipt: Receipt) -> None:
        write_whole(self.folder / "receipts" / f"{receipt.phase}.json", receipt.text, mode=SECRET)

    def receipts(self) -> list[Receipt]:
        texts = (self.folder / "receipts" / f"{phase}.json" for phase in self._phases("receipts"))
        return [Receipt.read(path.read_text(encoding="utf-8")) for path in texts]

    def last_receipt(self) -> Receipt | None:
        """The latest receipt, which the coordinator's log must still contain."""
        return max(self.receipts(), key=lambda receipt: receipt.sequence, default=None)

    def _phases(self, kind: str) -> list[int]:
        return sorted(int(path.stem) for path in kept_files(self.folder / kind))


def kept_files(folder: Path) -> list[Path]:
    """The files that an outbox wrote there, one per phase.

    >>> kept_files(Path("nowhere"))
    []
    """
    return [path for path in folder.glob("*.json") if KEPT.fullmatch(path.name) and path.is_file()]


def release(folder: str | Path, *, study: str, agent: str, phase: int) -> Report:
    """Release a held report; the process that holds the outbox then sends it. Needs no lock."""
    home = agent_folder(folder, study=study, agent=agent)
    path = home / "draws" / f"{phase}.json"
    if not path.exists():
        waiting = ", ".join(sorted((one.stem for one in kept_files(home / "draws")), key=int))
        known = waiting or Translatable("none is")
        allowed = Translatable("a phase whose report is in the outbox ({waiting})", waiting=known)
        raise InvalidInput("phase", found=phase, allowed=allowed)
    report = Report.read(path.read_text(encoding="utf-8"))
    write_whole(home / "released" / f"{phase}.json", report.digest, mode=SECRET)
    return report


def agent_folder(folder: str | Path, *, study: str, agent: str) -> Path:
    """An agent's own folder: its name, as far as file systems allow, and a hash that no other name has.

    >>> agent_folder("out", study="aux", agent="con.1: Lyon").as_posix()
    'out/aux_/con_.1-Lyon-7f171b616e7b10cf'
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", agent).strip(".-") or "agent"
    known = Path(folder) / study / f"{name}-{hashlib.sha256(agent.encode()).hexdigest()[:16]}"
    if known.is_dir():
        return known
    return Path(folder).joinpath(*(DEVICE.sub(r"\1_", part) for part in (study, known.name)))
