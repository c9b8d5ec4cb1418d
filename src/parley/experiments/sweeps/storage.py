"""A results folder: a manifest, and one Parquet file per cell, each complete or absent.

    results/
      sweep.json            the whole definition of the sweep, and the command that ran it
      cells/<key>.parquet   the rows of a cell; its specification and a checksum are in the file's metadata
      results.parquet       all rows together, made from the cells when the sweep is complete

Files are written atomically (`parley.system.files`), so that a killed process never leaves a partial file. A cell's
file is used only if its checksum agrees; a damaged file is reported, and its cell runs again.
"""

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parley import __version__
from parley.errors import OtherResults
from parley.experiments.sweeps.sweep import Cell, CellResult, Sweep, canonical, cell_key
from parley.problem import FloatArray, IntArray
from parley.system.files import ASIDE, FileLock, Locked, write_whole

FORMAT = 1
METADATA = b"parley"
LOCK = "sweep.lock"
# Costs that cells have if their study states prices, rates or a horizon; the column "cost" is always samples.
OTHER_COSTS = ("money", "days", "regret")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The content of a cell's file with a valid checksum."""

    key: str
    rows: pa.Table
    specification: dict[str, Any]
    draws: list[list[float]]  # (arm, agent): mean draws
    lower_bound: float | None  # both bounds are those of `CellResult`
    isolated_bound: float | None
    seconds: float  # computing time


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A results folder; call `claim` before writing to it."""

    path: Path

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The content of `sweep.json`; None if the file does not exist."""
        try:
            manifest = json.loads((self.path / "sweep.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._other(f"a sweep.json that cannot be read ({error})") from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise self._other(f"a sweep.json of another format than {FORMAT}")
        return manifest

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other runs; the operating system releases the lock if the process dies."""
        try:
            lock = FileLock(self.path / LOCK)
        except Locked:
            found = "another run at work in it"
            raise OtherResults(str(self.path), found=found, allowed="one run at a time in a folder") from None
        try:
            for leftover in self.path.glob(f"**/*{ASIDE}"):  # temporary files of a run that was killed
                leftover.unlink(missing_ok=True)
            yield
        finally:
            lock.release()

    def claim(self, sweep: Sweep, *, command: str, extend: bool = False) -> None:
        """Claim the folder for a sweep, or raise `OtherResults` without changing any file.

        With `extend`, the folder may belong to a sweep that differs only in the values of its axes.
        """
        manifest = self.manifest
        if manifest is None:
            if self.path.is_dir() and any(path.name != LOCK for path in self.path.iterdir()):
                raise self._other("files, and no sweep.json among them")
        else:
            self._check(manifest, sweep, extend)
            if manifest["sweep"] == _plain(sweep.document):
                return
        document = {"format": FORMAT, "parley": __version__, "command": command, "sweep": _plain(sweep.document)}
        (self.path / "cells").mkdir(parents=True, exist_ok=True)
        write_whole(self.path / "sweep.json", json.dumps(document, indent=2, ensure_ascii=False).encode())

    def _check(self, manifest: dict[str, Any], sweep: Sweep, extend: bool) -> None:
        if manifest["parley"] != __version__:
            raise self._other(f"results of Parley {manifest['parley']}, and this is {__version__}")
        held, wanted = manifest["sweep"], _plain(sweep.document)
        differ = [key for key in wanted if held.get(key) != wanted[key]]
        if not differ or (differ == ["axes"] and extend and set(held["axes"]) == set(wanted["axes"])):
            return
        name = held.get("name")
        hint = "With --extend the new cells are added to this folder" if differ == ["axes"] else None
        raise self._other(f"results of another sweep, {name!r}, which differs in {', '.join(differ)}", hint)

    def _other(self, found: str, hint: str | None = None) -> OtherResults:
        return OtherResults(str(self.path), found=found, allowed="a new folder, or one of this very sweep", hint=hint)

    def survey(self, cells: tuple[Cell, ...]) -> tuple[list[Cell], list[Path]]:
        """The cells that have no valid file, and the damaged files of these cells."""
        missing, damaged = [], []
        for cell in cells:
            if self.read(cell.key) is None:
                missing.append(cell)
                damaged += [path for path in (self._file(cell.key),) if path.exists()]
        return missing, damaged

    def write(self, cell: Cell, result: CellResult, *, rows: str) -> None:
        """Write the result of a cell to its file, durably; `rows` is "replication" or "cell"."""
        table = _table(cell, result, rows)
        described = {
            "specification": cell.specification(),
            "draws": result.draws.tolist(),
            "lower_bound": result.lower_bound,
            "isolated_bound": result.isolated_bound,
            "seconds": result.seconds,
        }
        # The specification is in the same file as the rows, so that a cell is never stored in part.
        metadata = {METADATA: canonical(described | {"checksum": _checksum(table, described)}).encode()}
        _write(self._file(cell.key), table.replace_schema_metadata(metadata))

    def read(self, key: str) -> Stored | None:
        """Read a cell's file; None if it is missing or damaged."""
        try:
            table = pq.read_table(io.BytesIO(self._file(key).read_bytes()))
            described = json.loads(table.schema.metadata[METADATA])
            checksum = described.pop("checksum")
            whole = checksum == _checksum(table, described) and key == cell_key(described["specification"])
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
            return None
        return Stored(key=key, rows=table.replace_schema_metadata(None), **described) if whole else None

    def write_together(self, cells: tuple[Cell, ...]) -> Path:
        """Write the rows of all cells to `results.parquet`, in the order of the cells; returns its path."""
        tables = [stored.rows for cell in cells if (stored := self.read(cell.key)) is not None]
        _write(path := self.path / "results.parquet", pa.concat_tables(tables, promote_options="permissive"))
        return path

    def _file(self, key: str) -> Path:
        return self.path / "cells" / f"{key}.parquet"


def _write(path: Path, table: pa.Table) -> None:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_whole(path, buffer.getvalue())


def _plain(document: Any) -> Any:
    """Convert a document to what JSON would read back, for comparison with a manifest; keeps the order of keys."""
    return json.loads(json.dumps(document))


def _checksum(table: pa.Table, described: dict[str, Any]) -> str:
    """A checksum of all values of a table and of its description, to detect damage."""
    digest = hashlib.sha256(canonical(described).encode())
    for name in table.column_names:
        values = table[name].to_numpy(zero_copy_only=False)
        digest.update(name.encode())
        digest.update(canonical(values.tolist()).encode() if values.dtype == object else values.tobytes())
    return digest.hexdigest()


def _table(cell: Cell, result: CellResult, rows: str) -> pa.Table:
    """The rows of a cell: one per replication or, if `rows` is "cell", a single row of means and deviations."""
    costs = {name: values for name, values in result.costs.parts.items() if name in OTHER_COSTS}
    if rows == "replication":
        measured: dict[str, Any] = {
            "replication": np.arange(cell.replications),
            "cost": result.costs.samples,
            "rounds": result.rounds,
            "mistaken": result.mistaken,
            "finished": result.finished,
            **costs,
        }
    else:
        measured = {
            "replications": [cell.replications],
            **_mean_and_deviation("cost", result.costs.samples),
            **_mean_and_deviation("rounds", result.rounds),
            "error_rate": [float(result.mistaken.mean())],
            "finished": [float(result.finished.mean())],
        }
        for name, values in costs.items():
            low, high = np.quantile(values, (0.1, 0.9))
            measured |= _mean_and_deviation(name, values) | {f"{name}_p10": [float(low)], f"{name}_p90": [float(high)]}
    before = {"policy": cell.policy} | dict(cell.axes)
    after = {
        "reward_seed": cell.seed,
        "lower_bound": result.lower_bound,
        "version": cell.version,
        "seconds": result.seconds,
        "cell": cell.key,
    }
    count = len(measured["cost"])
    constant = {name: pa.array([value] * count) for name, value in (before | after).items()}
    constant["lower_bound"] = pa.array([result.lower_bound] * count, type=pa.float64())  # also if all are None
    arrays = constant | {name: pa.array(values) for name, values in measured.items()}
    return pa.table({name: arrays[name] for name in (*before, *measured, *after)})


def _mean_and_deviation(name: str, values: FloatArray | IntArray) -> dict[str, list[float]]:
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {name: [float(values.mean())], f"{name}_std": [deviation]}
