"""A recorder of all disk requests of SQLite: a VFS around the default one, in the library that `sqlite3` uses.

The default VFS opens every file as usual; then the methods that write, truncate and sync it are replaced by ones that
record the request and pass it on. Directory syncs are recognised by the default VFS opening the directory, which it
does for nothing else. The -shm file is ignored: SQLite rebuilds it from the log after a crash. The recorder becomes the
default VFS of its process for good, so it needs a process of its own.
"""

import _sqlite3
import ctypes
import os
import threading
from ctypes import CFUNCTYPE, POINTER, Structure, addressof, byref, c_char_p, c_int, c_int64, c_void_p, cast
from dataclasses import dataclass
from pathlib import Path

OK = 0
KEPT = 0x100 | 0x800 | 0x80000  # SQLITE_OPEN_MAIN_DB, _MAIN_JOURNAL, _WAL

Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
Delete = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
Sync = CFUNCTYPE(c_int, c_void_p, c_int)
OpenDirectory = CFUNCTYPE(c_int, c_void_p, c_void_p)
GetCall = CFUNCTYPE(c_void_p, c_void_p, c_char_p)
SetCall = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)


class Methods(Structure):
    """sqlite3_io_methods (version 3); only the fields that are replaced have a type."""

    _fields_ = (("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", Write), ("truncate", Truncate),
                ("sync", Sync), ("rest", c_void_p * 13))  # fmt: skip


class System(Structure):
    """sqlite3_vfs (version 3)."""

    _fields_ = (("version", c_int), ("file_size", c_int), ("longest", c_int), ("next", c_void_p), ("name", c_char_p),
                ("data", c_void_p), ("open", Open), ("delete", Delete), ("rest", c_void_p * 11), ("set_call", SetCall),
                ("get_call", GetCall), ("next_call", c_void_p))  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One request. Files are numbered: a name that is deleted and created again is a new file."""

    kind: str  # create, write, truncate, sync, delete, directory; or a note of the recorded program
    file: int = -1
    name: str = ""
    offset: int = 0
    data: bytes = b""


class Recorder:
    """The journal of requests in one folder at a time; `journal = []` starts a new one."""

    def __init__(self):
        self.journal, self.names, self.handles, self.made = [], {}, {}, 0
        self._lock, self._kept, self._methods = threading.RLock(), [], {}
        library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))  # the library that the extension is linked with
        library.sqlite3_vfs_find.restype = POINTER(System)
        self.below = library.sqlite3_vfs_find(None).contents
        if self.below.version < 3:
            raise RuntimeError(f"the VFS of this SQLite has version {self.below.version}, not 3")
        self._watch_directories()
        self.mine = System.from_buffer_copy(self.below)
        self.mine.name = b"recorder"
        self.mine.open, self.mine.delete = Open(self._open), Delete(self._delete)
        if library.sqlite3_vfs_register(byref(self.mine), 1) != OK:
            raise RuntimeError("SQLite does not take the recorder")

    def note(self, kind, **fields):
        with self._lock:
            self.journal.append(Event(kind, **fields))

    def _watch_directories(self):
        below = OpenDirectory(self.below.get_call(byref(self.below), b"openDirectory"))

        def opened(name, descriptor):
            self.note("directory")
            return below(name, descriptor)

        mine = OpenDirectory(opened)
        self._kept += [below, mine]
        if self.below.set_call(byref(self.below), b"openDirectory", cast(mine, c_void_p)) != OK:
            raise RuntimeError("SQLite does not let its directory syncs be seen")

    def _open(self, system, name, handle, flags, out):
        path = ctypes.string_at(name).decode() if name and flags & KEPT else None
        with self._lock:
            self.handles.pop(handle, None)
            # A file that was created empty for SQLite to fill counts as created here, since nothing synced it earlier.
            new = path is not None and (path not in self.names or not Path(path).exists())
            code = self.below.open(system, name, handle, flags, out)
            if code == OK and path is not None:
                if new:
                    self.made += 1
                    self.names[path] = self.made
                    self.note("create", file=self.made, name=os.path.basename(path))
                self.handles[handle] = self.names[path]
                self._replace(c_void_p.from_address(handle))
            return code

    def _replace(self, slot):
        """Replace the methods of an open file by a copy that records requests."""
        if slot.value not in self._methods:
            below = Methods.from_address(slot.value)
            mine = Methods.from_buffer_copy(below)
            mine.write, mine.truncate, mine.sync = (
                Write(lambda handle, data, size, offset: self._write(below, handle, data, size, offset)),
                Truncate(lambda handle, size: self._truncate(below, handle, size)),
                Sync(lambda handle, flags: self._sync(below, handle, flags)),
            )
            self._methods[slot.value] = mine
        slot.value = addressof(self._methods[slot.value])

    def _write(self, below, handle, data, size, offset):
        self.note("write", file=self.handles[handle], offset=offset, data=ctypes.string_at(data, size))
        return below.write(handle, data, size, offset)

    def _truncate(self, below, handle, size):
        self.note("truncate", file=self.handles[handle], offset=size)
        return below.truncate(handle, size)

    def _sync(self, below, handle, flags):
        code = below.sync(handle, flags)
        if code == OK:
            self.note("sync", file=self.handles[handle])
        return code

    def _delete(self, system, name, durably):
        path = ctypes.string_at(name).decode()
        if Path(path).exists():
            self.note("delete", name=os.path.basename(path))
        return self.below.delete(system, name, durably)
