"""Files that must be complete, on disk, or locked by one process: only this module syncs, renames and locks.

A file written by this module appears under its name complete or not at all, and is on disk when the function returns.
It is written under a temporary name, synced and renamed; then its folder is synced, because a rename is on disk only
when the folder is.
"""

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from parley.errors import NoRoom, ParleyError

ASIDE = ".partial"  # suffix of temporary files; leftovers of a killed process may be deleted
SECRET = 0o600  # only the owner may read and write
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
POLL = 0.002  # seconds between two attempts to take a lock
SIGNED = 1  # offset of the holder's name: on Windows nobody else can read the first byte of a locked file


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file completely or not at all, with `mode` less the umask. Raises `NoRoom` if the disk is full.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "a", "text", mode=SECRET)
    ...     (Path(folder) / "a").read_text(), [file.name for file in Path(folder).iterdir()]
    ('text', ['a'])
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a terminal, a pipe: nothing to rename
        path.write_bytes(data)
        return
    path = path.resolve()
    aside = path.with_name(f"{path.name}.{os.getpid()}{ASIDE}")
    try:
        # A killed process with the same number may have left this file, or somebody may have put a link here, which
        # must not be followed. Either is deleted, and O_EXCL refuses a new one.
        aside.unlink(missing_ok=True)
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        put_in_place(aside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        if error.errno in FULL:
            raise NoRoom(
                f"no room to write {path.name} ({len(data):,} bytes) in {path.parent}: {error.strerror}. "
                "What was written before is kept; make room and run the same command again"
            ) from None
        raise


def put_in_place(aside: Path, path: Path) -> None:
    """Rename a temporary file to its final name, durably."""
    sync(aside)
    for wait in (0.01, 0.1, 0.5, 0.0):
        try:
            aside.replace(path)
            break
        except PermissionError:  # Windows, while a scanner or a reader has the file open
            if not wait:
                raise
            time.sleep(wait)
    sync_folder(path.parent)


def sync(path: Path) -> None:
    """Sync a file's content or a folder's entries to disk."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # Windows syncs only what may be written
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Sync the names in a folder to disk, unless the file system or Windows cannot sync folders."""
    with contextlib.suppress(OSError):
        sync(path)


def open_private(path: Path, flags: int = 0) -> int:
    """Open a file that only its owner may read and write, creating it if needed; child processes do not inherit it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | flags, SECRET)


def read_from(file: int, start: int, size: int) -> bytes:
    """Read at most `size` bytes of an open file, from the offset `start`."""
    os.lseek(file, start, os.SEEK_SET)
    return os.read(file, size)


class Locked(ParleyError):
    """Another process holds the lock; `holder` is the text that it wrote into the file, if any."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is in use by another process ({holder or 'unknown'})")
        self.holder = holder


class FileLock:
    """A lock that only one process can hold at a time. The system releases it when the process dies, even if killed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = FileLock(Path(folder) / "lock")
    ...     try:
    ...         FileLock(Path(folder) / "lock")
    ...     except Locked as error:
    ...         error.holder == f"process {os.getpid()}"
    ...     lock.release()
    True
    """

    def __init__(self, path: Path, *, signed: bool = True) -> None:
        """Take the lock, or raise `Locked`; writes the process number into the file, unless `signed` is False."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_private(path)
        try:
            if not lock_descriptor(self._file, blocking=False):
                holder = read_from(self._file, SIGNED, 32).decode(errors="replace").strip() if signed else ""
                raise Locked(path, holder)
            if signed:
                os.ftruncate(self._file, 0)
                os.write(self._file, f"{' ' * SIGNED}process {os.getpid()}".encode())
        except (Locked, OSError):
            self.release()
            raise

    def release(self) -> None:
        """Release the lock (idempotent)."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextlib.contextmanager
def lock_file(file: int) -> Iterator[None]:
    """Wait for the lock of an open file and hold it for the `with` block."""
    held = os.dup(file)  # the lock belongs to the open file, even if `file` is closed in the block
    try:
        lock_descriptor(held, poll_interval=POLL)
        try:
            yield
        finally:
            unlock_descriptor(held)
    finally:
        os.close(held)
