"""`parley verify`: check a study's log by replaying all of it, trusting nothing."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from parley.agent.outbox import kept_files
from parley.cli.console import connect, edge_options, json_option, network_options, print_json, say
from parley.errors import BrokenChain, InvalidInput, needs
from parley.hooks import edges as all_edges
from parley.protocol import Proof, Receipt, Stamp, Verification, read_log, verify_log
from parley.protocol.codec import read_json
from parley.protocol.verify import lines_of
from parley.text.formatting import plural

PART = 2**20  # bytes read from a file at a time


@edge_options("verify")
@click.command()
@click.argument("study", metavar="STUDY")
@click.option("--db", envvar="PARLEY_DB", help="Database with the study of this id.")
@click.option("--server", envvar="PARLEY_SERVER", help="Coordinator to fetch the study's log from.")
@click.option("--token-file", type=click.Path(dir_okay=False), envvar="PARLEY_TOKEN_FILE", help="For --server.")
@network_options
@click.option(
    "--receipts",
    type=click.Path(exists=True),
    multiple=True,
    help="An agent's outbox, or a file of receipts (one JSON object per line). The log must contain the reports of "
    "this study that they acknowledge; reports amended since then are listed.",
)
@click.option(
    "--stamp",
    type=click.Path(exists=True, dir_okay=False),
    multiple=True,
    help="A file with time stamps kept elsewhere, such as an earlier export: the log must contain the stamped records.",
)
@json_option
def verify_command(
    study: str,
    db: str | None,
    server: str | None,
    token_file: str | None,
    receipts: tuple[str, ...],
    stamp: tuple[str, ...],
    as_json: bool,
    edges: Mapping[str, Any],
) -> None:
    """Check a study's log: its chain of hashes, every plan, every decision (by recomputing it), and the certificate.

    STUDY is a file exported by a coordinator, or the id of a study in --db or on --server. With --db, the database's
    tables are compared with the log too. The exit status is 1 if anything is wrong.
    """
    name = _study_of(study)
    held: list[Proof] = []
    if name is not None:
        held += [receipt for path in receipts for receipt in _receipts(Path(path), name)]
        held += [one for path in stamp for one in _stamps(Path(path), name)]
    judges = [judge for edge in all_edges() if (judge := edge.judge_of_stamps(edges)) is not None]
    authority = _Authority(judges, {id(one) for one in held})
    result = _verify(study, db, server, token_file, held, authority.believes)
    if problem := authority.problem(result):
        result = replace(result, problem=problem)
    times = [authority.times[id(one)] for one in result.stamps if id(one) in authority.times]
    if as_json:
        document = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "trial"}
        print_json(
            document
            | {"sound": result.sound, "amended": [asdict(one) for one in result.amended]}
            | {"corrected": [asdict(one) for one in result.corrected]}
            | {"signatures": [asdict(one) for one in result.signatures]}
            | {"stamps": [one.to_json() for one in result.stamps], "stamped_at": [time.isoformat() for time in times]}
            | {"doubted": [one.to_json() for one in result.doubted]}
            | {"reads": [asdict(one) for one in result.reads]}
        )
    elif result.sound:
        _line(
            f"Sound. {result.study}: {plural(result.records, 'record')} chained, {plural(result.phases, 'decision')} "
            f"recomputed with the same results, {plural(result.receipts, 'receipt')} found; the study is "
            f"{result.stage}."
        )
        _say_stamped(result, times, asked=bool(judges))
        if not result.exact:
            _line("Numbers differ in the last digits, because another machine rounds differently. No decision differs.")
        for found in result.amended:
            _line(
                f"Amended: the report of {found.agent!r} in phase {found.phase} does not count as it was sent; "
                f"{found.actor} put another in its place (record {found.sequence}): {found.reason}"
            )
        for found in result.corrected:
            _line(
                f"Corrected: the report of {found.agent!r} in phase {found.phase} was decided on as it was sent; "
                f"{found.actor} corrected it since (record {found.sequence}): {found.reason}"
            )
        _say_people(result)
    for warning in () if as_json else result.warnings:
        _line(f"Warning: {warning}.")
    if not result.sound:
        raise BrokenChain(f"{study} is not sound: {result.problem}")


def _line(text: str) -> None:
    """Print text on one line: after a line break in users' text, a forged line could pass for one of ours."""
    say(" ".join(text.split()))


def _say_people(result: Verification) -> None:
    """Print who signed, and who saw results while the study was running."""
    if result.signatures:
        _line(f"{plural(len(result.signatures), 'signature')}, each of all records before its own:")
    for signature in result.signatures:
        _line(
            f"Signed: {signature.principal}, {signature.meaning!r} "
            f"(name as typed: {signature.name}; {signature.at}, record {signature.sequence})"
        )
    for actor in dict.fromkeys(read.actor for read in result.reads):
        mine = (read for read in result.reads if read.actor == actor)
        seen = (f"{read.phase} ({read.operation}, {read.at}, record {read.sequence})" for read in mine)
        _line(f"Read: {actor} saw results while the study went on, in phase {', '.join(seen)}")


class _Authority:
    """Checks time stamps with `judges`, one per trusted authority; without judges, stamps only have to fit the log.

    `given` has the ids (`id()`) of the stamps that the user gave in addition to the log.
    """

    def __init__(self, judges: Sequence[Callable[[Stamp], datetime]], given: Collection[int]) -> None:
        self._judges, self._given = judges, given
        self.times: dict[int, datetime] = {}
        self._flaws: dict[int, str] = {}

    def believes(self, stamp: Stamp) -> bool:
        """Whether every judge accepts a stamp. Stores the stamp's time, or why a judge rejected the stamp."""
        for judge in self._judges:
            try:
                self.times[id(stamp)] = judge(stamp)
            except BrokenChain as error:
                self._flaws[id(stamp)] = str(error)
                return False
        return True

    def problem(self, result: Verification) -> str:
        """Why a stamp that the user gave is invalid, or why no stamp in the log is valid; empty if neither holds."""
        given = [one for one in result.doubted if id(one) in self._given]
        flawed = given or (list(result.doubted) if not result.stamps else [])
        return self._flaws[id(flawed[0])] if flawed else ""


def _verify(
    study: str,
    db: str | None,
    server: str | None,
    token_file: str | None,
    held: list[Proof],
    believed: Callable[[Stamp], bool],
) -> Verification:
    path = Path(study)
    if path.is_file():
        with path.open("rb") as file:
            return verify_log(read_log(_lines(file), held), held, believed=believed)
    if db is not None:
        with needs("server", "parley verify --db"):
            from parley.coordinator.record import open_for_reading
            from parley.coordinator.record.audit import verify_stored
        with closing(open_for_reading(db)) as storage:
            found = verify_stored(storage, study, held, believed)
        if found is None:
            raise InvalidInput("study", found=f"no study {study!r} in the database", allowed="a study's id")
        return found
    if server is not None:
        with connect(server, token_file) as client:
            result = verify_log(read_log(client.export(study), held), held, believed=believed)
        if result.sound and result.study != study:
            return replace(result, problem=f"the coordinator sent the log of {result.study!r}, not that of {study!r}")
        return result
    raise InvalidInput(
        "study", found=f"no file {study}", allowed="an exported log, or a study's id with --db or --server"
    )


def _lines(file: BinaryIO) -> Iterator[bytes]:
    return lines_of(iter(partial(file.read, PART), b""))


def _study_of(study: str) -> str | None:
    """The id of the study that the argument names.

    For a file, this is the id in its first record, or None if no record can be read. Any other argument is the id.
    """
    path = Path(study)
    if not path.is_file():
        return study
    with path.open("rb") as file:
        try:
            first = next(read_log(_lines(file)), None)
        except BrokenChain:  # the verification reports it
            return None
    return None if first is None else first.stream


def _say_stamped(result: Verification, times: list[datetime], *, asked: bool) -> None:
    """Print what the time stamps prove, and what was not checked about them."""
    if result.doubted:
        _line(f"{plural(len(result.doubted), 'time stamp')} of other authorities left out: they prove nothing here.")
    if not result.stamps:
        if asked:
            _line("This log has no time stamp, so there was nothing to check.")
        return
    later = result.records - max(stamp.sequence for stamp in result.stamps)
    after = (
        f"{plural(later, 'record')} came after the last stamped one" if later else "No record came after the last one"
    )
    if asked:
        _line(f"{plural(len(times), 'time stamp')} checked, the last of {max(times):%Y-%m-%d %H:%M:%S} UTC. {after}.")
    else:
        _line(
            f"{plural(len(result.stamps), 'time stamp')} compared with the log. {after}. Who signed, and when, was not "
            f"checked: {_by_whom()}."
        )


def _by_whom() -> str:
    """How the user can have time stamps checked: the options of the edges that can check them."""
    options = [f"{option.opts[0]} FILE" for edge in all_edges() for option in edge.options("verify")]
    if not options:
        return "no edge that does it is installed (parley doctor)"
    return f"give the authority's certificates, {' or '.join(options)}"


def _stamps(path: Path, study: str) -> list[Stamp]:
    """Read the time stamps of a study from a file, which may contain records too."""
    found: list[Proof] = []
    allowed = "a file of time stamps, or an export with some"
    with path.open("rb") as file:
        try:
            deque(read_log(_lines(file), found), maxlen=0)
        except BrokenChain as error:
            raise InvalidInput("--stamp", found=f"{path}: {error}", allowed=allowed) from None
    mine = [one for one in found if isinstance(one, Stamp) and one.study == study]
    if not mine:
        raise InvalidInput("--stamp", found=f"no time stamp of the study {study!r} in {path}", allowed=allowed)
    return mine


def _receipts(path: Path, study: str) -> list[Receipt]:
    """Read the receipts of a study from a file with one receipt per line, or from every outbox below a folder."""
    if path.is_file():
        texts = [line for line in path.read_bytes().splitlines() if line.strip()]
    else:
        folders = [path, *path.rglob("*")]
        files = [file for folder in folders if folder.name == "receipts" for file in kept_files(folder)]
        texts = [file.read_bytes() for file in sorted(files)]
    found = [Receipt.from_json(read_json(text, "receipt")) for text in texts]
    mine = [receipt for receipt in found if receipt.study == study]
    if not mine:
        others = ", ".join(sorted({receipt.study for receipt in found}))
        raise InvalidInput(
            "--receipts",
            found=f"no receipt of the study {study!r} in {path}" + (f", only of {others}" if others else ""),
            allowed="an outbox, or a file, with receipts of the study: without receipts there is nothing to compare",
        )
    return mine
