"""Files are whole or not there, on the disk when they are there, and one process's alone where they must be."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from parley.errors import NoRoom
from parley.system.files import ASIDE, SECRET, FileLock, Locked, lock_file, write_whole

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name == "nt", reason="modes, links, limits and folders as POSIX has them")


@pytest.fixture
def syscalls(monkeypatch):
    """What reached the disk, in order."""
    seen = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda f: (seen.append(("sync", Path(f"/proc/self/fd/{f}").resolve())), fsync(f)))
    monkeypatch.setattr(os, "replace", lambda a, b, **k: (seen.append(("name", Path(b))), replace(a, b, **k)))
    return seen


@posix
def test_synced_then_named_then_the_folder_synced(tmp_path, syscalls):
    path = tmp_path / "file"
    write_whole(path, b"one")
    write_whole(path, "two")
    kinds = [(kind, where == tmp_path) for kind, where in syscalls]
    assert kinds == [("sync", False), ("name", False), ("sync", True)] * 2
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_a_secret_is_the_owners_alone_whatever_was_there(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    write_whole(path, "new", mode=SECRET)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
def test_a_link_stays_a_link_and_a_pipe_is_written_through(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(path)
    write_whole(link, "text")
    assert link.is_symlink()
    assert path.read_text() == "text"
    imports = "from pathlib import Path; from parley.system.files import write_whole; "
    script = f"{imports}write_whole(Path('/dev/stdout'), 'text')"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "text"


@posix
def test_no_room_leaves_what_was_there(tmp_path):
    """A limit on file sizes stands in for a full disk."""
    import resource

    path = tmp_path / "file"
    write_whole(path, "before")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(NoRoom, match="no room to write file"):
            write_whole(path, b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_text() == "before"
    assert not list(tmp_path.glob(f"*{ASIDE}"))


def test_a_lock_names_its_holder_and_dies_with_it(tmp_path):
    path = tmp_path / "lock"
    script = "import sys, time; from pathlib import Path; from parley.system.files import FileLock"
    words = f"{script}; lock = FileLock(Path({str(path)!r})); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Locked, match=f"process {other.pid}"):
            FileLock(path)
        other.kill()
    lock = FileLock(path)
    lock.release()
    lock.release()
    FileLock(path).release()


def test_a_turn_keeps_others_waiting_even_if_the_file_is_closed(tmp_path):
    path = tmp_path / "journal"
    mine, other = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    with lock_file(mine):
        os.close(mine)
        script = f"from parley.system.files import *; FileLock(Path({str(path)!r}), signed=False)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert "parley.system.files.Locked" in done.stderr
    with lock_file(other):
        pass
    os.close(other)


def test_a_name_that_a_reader_keeps_busy_is_tried_again(tmp_path, monkeypatch):
    """As on Windows, where a file that a scanner has open cannot be replaced."""
    replace, tries = Path.replace, []

    def busy(self, target):
        tries.append(target)
        if len(tries) < 3:
            raise PermissionError(13, "in use")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", busy)
    write_whole(tmp_path / "file", "text")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "text"
    assert len(tries) == 3
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "in use")))
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "file", "other")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_no_other_room_syncs_renames_or_locks():
    """One fact in one room: who writes for good does so here; a journal syncs what it appends to its own open file."""
    words = ("fcntl", "filelock", "os.rename", "os.replace", "os.O_DIRECTORY")
    found = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in words)
    }
    assert found == {"parley/system/files.py"}
