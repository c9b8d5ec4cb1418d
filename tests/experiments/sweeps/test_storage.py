"""Results folders: resumed, damaged, someone else's, full, shared, killed."""

import json
import os
import resource
import signal
import subprocess
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.support import first_quick

from parley.cli.main import main
from parley.errors import OtherResults
from parley.experiments.sweeps.engines import Engine
from parley.experiments.sweeps.runner import run_sweep, workload
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import load_sweep

ALONE = Engine(workers=1)


def _rows(folder):
    return pd.read_parquet(folder / "results.parquet").drop(columns="seconds")


@pytest.fixture
def small(sweep_file):
    return load_sweep(sweep_file('delta = [0.1, 0.05]\npolicy = ["wcpe", "uniform"]'))


def test_a_second_run_does_only_what_is_missing(small, tmp_path):
    folder = Folder(path=tmp_path / "out")
    first = run_sweep(small, folder, ALONE)
    assert (first.cells, first.done) == (4, 4)
    before = {path: path.read_bytes() for path in (tmp_path / "out" / "cells").iterdir()}
    assert len(before) == 4
    assert run_sweep(small, folder, ALONE).done == 0
    victim = sorted(before)[1]
    victim.unlink()
    told = []
    assert run_sweep(small, folder, ALONE, progress=told.append).done == 1
    assert told == [1]
    assert {path for path in before if path.exists()} == set(before)


def test_rows_have_axes_seed_version_and_timing(small, tmp_path):
    run_sweep(small, Folder(path=tmp_path / "out"), ALONE)
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert len(frame) == 4 * 20
    assert list(frame.columns) == [
        *("policy", "delta", "replication", "cost", "rounds", "mistaken", "finished"),
        *("reward_seed", "lower_bound", "version", "seconds", "cell"),
    ]
    assert frame["reward_seed"].eq(3).all()
    assert frame.groupby("cell").size().tolist() == [20] * 4


def test_a_row_can_be_a_cell(sweep_file, tmp_path):
    path = sweep_file("delta = [0.1, 0.05]")
    path.write_text('rows = "cell"\n' + path.read_text())
    run_sweep(load_sweep(path), Folder(path=tmp_path / "out"), ALONE)
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert len(frame) == 2
    assert {"cost", "cost_std", "rounds", "error_rate", "replications"} <= set(frame.columns)


@pytest.mark.parametrize("damage", first_quick("flip", "swap", "cut", "empty", "text", quick=2))
def test_a_damaged_file_is_named_and_made_again(small, tmp_path, damage):
    run_sweep(small, Folder(path=tmp_path / "out"), ALONE)
    whole = _rows(tmp_path / "out")
    files = sorted((tmp_path / "out" / "cells").iterdir())
    victim, content = files[0], files[0].read_bytes()
    damaged = {
        "cut": content[:-20],
        "flip": _flip_a_value(content),
        "empty": b"",
        "text": b"not a Parquet file at all",
        "swap": files[1].read_bytes(),  # whole, and of another cell
    }
    victim.write_bytes(damaged[damage])
    result = CliRunner().invoke(
        main, ["sweep", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]
    )
    assert result.exit_code == 0, result.output
    assert "Damaged" in result.stderr
    assert victim.name in result.stderr.replace("\n", "")
    pd.testing.assert_frame_equal(_rows(tmp_path / "out"), whole)


def _flip_a_value(content):
    """A file that reads well and lies: one cost changed."""
    import io

    table = pq.read_table(io.BytesIO(content))
    costs = table["cost"].to_numpy().copy()
    costs[3] += 1
    place = table.column_names.index("cost")
    changed = table.set_column(place, "cost", [costs])
    buffer = io.BytesIO()
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), buffer)
    return buffer.getvalue()


def test_another_sweep_keeps_its_folder(small, sweep_file, tmp_path):
    folder = Folder(path=tmp_path / "out")
    run_sweep(small, folder, ALONE)
    other = load_sweep(sweep_file("delta = [0.1]", replications=7))
    held = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with pytest.raises(OtherResults, match="differs in replications, axes"):
        run_sweep(other, folder, ALONE)
    assert held == {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


def test_more_values_on_an_axis_extend_a_folder_when_asked(small, sweep_file, tmp_path):
    folder = Folder(path=tmp_path / "out")
    run_sweep(small, folder, ALONE)
    more = load_sweep(sweep_file('delta = [0.1, 0.05, 0.01]\npolicy = ["wcpe", "uniform"]'))
    with pytest.raises(OtherResults, match="--extend"):
        run_sweep(more, folder, ALONE)
    assert run_sweep(more, folder, ALONE, extend=True).done == 2
    assert _rows(folder.path)["cell"].nunique() == 6


def test_a_folder_of_other_things_is_left_alone(small, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(OtherResults, match=r"no sweep\.json"):
        run_sweep(small, Folder(path=tmp_path / "out"), ALONE)
    (tmp_path / "out" / "sweep.json").write_text("{broken")
    with pytest.raises(OtherResults, match="cannot be read"):
        run_sweep(small, Folder(path=tmp_path / "out"), ALONE)


def test_results_of_another_version_are_not_mixed_in(small, tmp_path):
    folder = Folder(path=tmp_path / "out")
    run_sweep(small, folder, ALONE)
    manifest = json.loads((folder.path / "sweep.json").read_text())
    (folder.path / "sweep.json").write_text(json.dumps(manifest | {"parley": "0.0.1"}))
    with pytest.raises(OtherResults, match=r"Parley 0\.0\.1"):
        run_sweep(small, folder, ALONE)


def test_one_run_at_a_time(small, tmp_path):
    folder = Folder(path=tmp_path / "out")
    with folder.locked(), pytest.raises(OtherResults, match="another run"):
        run_sweep(small, folder, ALONE)


def test_a_dry_run_counts_and_writes_nothing(small, tmp_path):
    folder = Folder(path=tmp_path / "out")
    guess = workload(small, folder)
    assert (guess.cells, guess.missing) == (4, 4)
    assert guess.seconds > 0
    assert guess.lasting(2) == guess.seconds / 2
    assert not folder.path.exists()
    run_sweep(small, folder, ALONE)
    assert workload(small, folder).missing == 0


@pytest.mark.engines
def test_no_room_is_said_and_nothing_is_lost(sweep_file, tmp_path):
    """A limit on file sizes stands in for a full disk: a write fails half way."""
    path = sweep_file("delta = [0.1, 0.05]", replications=4000)

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    script = "from parley.cli.main import run; run()"
    command = [sys.executable, "-c", script, "sweep", str(path), "--out", str(tmp_path / "out"), "--workers", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=False)
    assert ended.returncode == 1
    assert "no room to write" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list((tmp_path / "out" / "cells").iterdir()) == []
    assert run_sweep(load_sweep(path), Folder(path=tmp_path / "out"), ALONE).done == 2


@pytest.mark.engines
def test_killed_twice_and_resumed_gives_the_same_rows(parley, sweep_file, tmp_path):
    path = sweep_file(
        'delta = [0.1, 0.05]\npolicy = ["wcpe", "uniform"]\nseed = [0, 1, 2, 3, 4]\nalpha = [0.4, 0.6]',
        replications=2000,
    )
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for workers, count in ((2, 4), (1, 12)):
        run = parley("sweep", path, "--out", killed, "--workers", workers)
        assert count <= run.wait_for_cells(killed, count) < 40
        run.kill()
    again = CliRunner().invoke(main, ["sweep", str(path), "--out", str(killed), "--workers", "1"])
    assert again.exit_code == 0, again.output
    assert "cells are done already" in again.stderr
    run_sweep(load_sweep(path), Folder(path=whole), ALONE)
    assert len(list((killed / "cells").iterdir())) == 40
    pd.testing.assert_frame_equal(_rows(killed), _rows(whole))


@pytest.mark.engines
def test_ctrl_c_keeps_what_is_done(parley, sweep_file, tmp_path):
    path = sweep_file(f"seed = {list(range(40))}", replications=8000)  # long enough to be interrupted on a busy machine
    run = parley("sweep", path, "--out", tmp_path / "out", "--workers", 2)
    run.wait_for_cells(tmp_path / "out", 3)
    os.killpg(run.process.pid, signal.SIGINT)  # what a terminal sends: to everyone in the group
    status, _, err = run.finish()
    assert status == 130
    assert "Run the same command again to go on" in err
    assert "Traceback" not in err
    kept = len(list((tmp_path / "out" / "cells").glob("*.parquet")))
    assert 3 <= kept < 40
    assert run_sweep(load_sweep(path), Folder(path=tmp_path / "out"), ALONE).done == 40 - kept
