"""The outbox: the reports of an agent, stored before they are sent, and the coordinator's receipts for them.

Each agent of a study has a folder of small files. Every file appears whole or not at all (`parley.system.files`), so if
the process is killed, it leaves either the state before a step or the state after it.

    draws/<phase>.json      the report, written before it is first sent; while it exists, the phase is not drawn again
    draws/<phase>.refused   a report that will never be accepted, set aside
    receipts/<phase>.json   the receipt, written when the coordinator has acknowledged the report
    slopes/<phase>.json     in a study with a covariate: how the phase is adjusted, written before it is drawn
    pairs/<phase>.json      sums of covariates and rewards, from which later phases learn how to adjust
    rows/<phase>.json       which rows of the source's file the phase used, if its source is a file
    noise/<phase>.json      in a private study: the exact sums and the noisy sums, written before the report
    pinned.json             the study's privacy terms as of the first start, and the site's policy
    released/<phase>.json   the digest of the report that somebody at the site released, if the policy requires it
    drawing/<phase>         drawing has begun; if there is no report yet, an unrepeatable source must not draw again

Other files in the folder, such as copies or notes, are ignored.
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
    """The durable memory of one agent in one study. Only one process at a time may open it."""

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
                found=f"{self.folder}, which another process is using",
                allowed="one process per agent and study",
                hint="Stop the other one: two processes would draw twice",
            ) from None
        for leftover in self.folder.glob(f"*/*{ASIDE}"):  # temporary files of a process that was killed
            leftover.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lock.release()

    def begin(self, phase: int, *, repeatable: bool) -> None:
        """Record that a phase is being drawn; raise `Interrupted` if an unrepeatable source had already begun it."""
        mark = self.folder / "drawing" / str(phase)
        if mark.exists() and not repeatable:
            raise Interrupted(
                f"phase {phase} was interrupted, and it is unknown what was drawn. If nothing was drawn, start again "
                f"with `--draw-again {phase}`; otherwise tell the study's administrator"
            )
        write_whole(mark, "", mode=SECRET)

    def abandon(self, phase: int) -> None:
        """Remove the mark that a phase is being drawn, because no draw was spent or the report is stored."""
        (self.folder / "drawing" / str(phase)).unlink(missing_ok=True)

    def draw_again(self, phase: int) -> None:
        """Record a person's confirmation that an interrupted draw spent nothing, so the phase may be drawn again."""
        if not (self.folder / "drawing" / str(phase)).exists():
            begun = ", ".join(sorted(path.name for path in (self.folder / "drawing").glob("*")))
            raise InvalidInput(
                "--draw-again",
                found=phase,
                allowed=f"a phase that was begun and interrupted ({begun or 'none at present'})",
            )
        self.abandon(phase)

    def keep_rows(self, phase: int, text: str) -> None:
        """Store which rows of a file a phase uses, before its report is stored."""
        write_whole(self.folder / "rows" / f"{phase}.json", text, mode=SECRET)

    def rows_before(self, phase: int) -> tuple[int, str] | None:
        """The latest earlier phase with a report, and its rows as `keep_rows` stored them; None if there are none."""
        drawn = [known for known in self._phases("draws") if known < phase]
        path = self.folder / "rows" / f"{max(drawn, default=0)}.json"
        return (max(drawn), path.read_text(encoding="utf-8")) if drawn and path.exists() else None

    def fixed_slope(self, phase: int, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return a phase's adjustment for the covariate. `make` computes it once, before the phase is drawn."""
        path = self.folder / "slopes" / f"{phase}.json"
        if not path.exists():
            write_whole(path, canonical(dict(make())), mode=SECRET)
            sys.audit("parley.reached", "slope-fixed")
        found: dict[str, Any] = read_json(path.read_text(encoding="utf-8"), "slope")
        return found

    def keep_pairs(self, phase: int, sums: Mapping[str, Any]) -> None:
        """Store a phase's sums of covariates and rewards, before its report. Later slopes are estimated from them."""
        write_whole(self.folder / "pairs" / f"{phase}.json", canonical(dict(sums)), mode=SECRET)

    def pairs_before(self, phase: int) -> list[dict[str, Any]]:
        """The sums that `keep_pairs` stored for all phases before this one, in order."""
        known = (self.folder / "pairs" / f"{one}.json" for one in self._phases("pairs") if one < phase)
        return [read_json(path.read_text(encoding="utf-8"), "pairs") for path in known]

    def noisy(self, phase: int, exact: Mapping[str, Any], draw: Callable[[int], list[int]]) -> tuple[list[int], int]:
        """Return the noisy sums for `exact` sums, and the number of releases of the phase's sums so far.

        The same exact sums always get the same noise: `draw(number)` draws the noisy sums of release `number` once, and
        they are stored before they are used.
        """
        path = self.folder / "noise" / f"{phase}.json"
        found = read_json(path.read_text(encoding="utf-8"), "noise") if path.exists() else {"releases": []}
        known = found["releases"]
        # Releases whose noise is gone from this outbox were sent, so they count too: a new release gets a later number.
        lost = max(found.get("lost", 0), self._sent_before(phase) - len(known))
        for one in known:
            if one["exact"] == exact:
                return one["noisy"], lost + len(known)
        known.append({"exact": dict(exact), "noisy": draw(lost + len(known) + 1)})
        write_whole(path, canonical({"releases": known} | ({"lost": lost} if lost else {})), mode=SECRET)
        sys.audit("parley.reached", "noise-kept")
        return known[-1]["noisy"], lost + len(known)

    def _sent_before(self, phase: int) -> int:
        """The number of releases of a phase's sums, according to its stored reports (sent, pending or set aside)."""
        paths = (self.folder / "draws" / f"{phase}{kind}" for kind in (".json", ".refused"))
        reports = [Report.read(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
        return max((report.releases or 1 for report in reports if report.private), default=0)

    def lost_noise(self) -> list[int]:
        """The phases with a private report in this outbox whose noise is no longer stored here."""
        return [
            phase
            for phase in self._phases("draws")
            if self._sent_before(phase) and not (self.folder / "noise" / f"{phase}.json").exists()
        ]

    def pinned(self) -> dict[str, Any] | None:
        """The terms and the policy that `pin` stored; None before the first start."""
        path = self.folder / PINNED
        return read_json(path.read_text(encoding="utf-8"), "pinned") if path.exists() else None

    def pin(self, terms: Mapping[str, Any]) -> None:
        """Store the study's terms and the site's policy for every later start."""
        write_whole(self.folder / PINNED, canonical(dict(terms)), mode=SECRET)

    def keep(self, report: Report) -> None:
        """Store a report before it is sent. The first report of a phase is never overwritten."""
        path = self.folder / "draws" / f"{report.phase}.json"
        if not path.exists():
            write_whole(path, report.text, mode=SECRET)
        # With the report stored, the mark that drawing has begun is no longer needed.
        self.abandon(report.phase)

    def report(self, phase: int) -> Report | None:
        """The stored report of a phase; None if there is none."""
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
        """The latest receipt, whose record the coordinator's log must still contain; None if there is none."""
        return max(self.receipts(), key=lambda receipt: receipt.sequence, default=None)

    def _phases(self, kind: str) -> list[int]:
        return sorted(int(path.stem) for path in kept_files(self.folder / kind))


def kept_files(folder: Path) -> list[Path]:
    """The files that an outbox wrote to one of its folders, one per phase.

    >>> kept_files(Path("nowhere"))
    []
    """
    return [path for path in folder.glob("*.json") if KEPT.fullmatch(path.name) and path.is_file()]


def release(folder: str | Path, *, study: str, agent: str, phase: int) -> Report:
    """Release a held report. The process that has the outbox open then sends it, so this needs no lock."""
    home = agent_folder(folder, study=study, agent=agent)
    path = home / "draws" / f"{phase}.json"
    if not path.exists():
        waiting = ", ".join(sorted((one.stem for one in kept_files(home / "draws")), key=int))
        known = waiting or Translatable("none at present")
        allowed = Translatable("a phase whose report is in the outbox ({waiting})", waiting=known)
        raise InvalidInput("phase", found=phase, allowed=allowed)
    report = Report.read(path.read_text(encoding="utf-8"))
    write_whole(home / "released" / f"{phase}.json", report.digest, mode=SECRET)
    return report


def agent_folder(folder: str | Path, *, study: str, agent: str) -> Path:
    """The folder of an agent, named after the agent (as far as file systems allow) with a hash that makes it unique.

    >>> agent_folder("out", study="aux", agent="con.1: Lyon").as_posix()
    'out/aux_/con_.1-Lyon-7f171b616e7b10cf'
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", agent).strip(".-") or "agent"
    known = Path(folder) / study / f"{name}-{hashlib.sha256(agent.encode()).hexdigest()[:16]}"
    # An outbox that was made before reserved names were escaped keeps its folder.
    if known.is_dir():
        return known
    return Path(folder).joinpath(*(DEVICE.sub(r"\1_", part) for part in (study, known.name)))
