"""Files that must be complete, on disk, or held by one process: only this module syncs, renames and locks.

A file written here appears under its name complete or not at all, and is on disk when the function returns. It is
written under a temporary name, synced and renamed; then its folder is synced, because a rename is on disk only when the
folder is.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from parley.errors import NoRoom, ParleyError

ASIDE = ".partial"  # suffix of temporary files; those that a kill leaves behind may be removed
SECRET = 0o600  # only the owner may read and write
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


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
        # An earlier process with this number may have left it; and a link that somebody put there is not followed.
        aside.unlink(missing_ok=True)
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
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
    aside.replace(path)
    sync_folder(path.parent)


def sync(path: Path) -> None:
    """The content of a file or folder is on disk when this returns."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """The names in a folder are on disk when this returns, unless its file system cannot sync folders."""
    with contextlib.suppress(OSError):
        sync(path)


class Locked(ParleyError):
    """Another process holds the lock; `holder` is what it wrote into the file, if anything."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by another process ({holder or 'unknown'})")
        self.holder = holder


class FileLock:
    """A lock that one process holds at a time. The system releases it when the process dies, however it dies.

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
        """Take the lock, or raise `Locked`. If not `signed`, nothing is written: the file has another purpose."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, SECRET)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() if signed else ""
            os.close(self._file)
            raise Locked(path, holder) from None
        if signed:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"process {os.getpid()}".encode(), 0)

    def release(self) -> None:
        """Release the lock; releasing it twice does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextlib.contextmanager
def lock_file(file: int) -> Iterator[None]:
    """Wait for the lock of an open file, and hold it inside the `with` block."""
    held = os.dup(file)  # the lock belongs to the open file, even if `file` is closed in the block
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(held, fcntl.LOCK_UN)
        os.close(held)
