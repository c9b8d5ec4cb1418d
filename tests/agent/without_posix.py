"""`python -m tests.agent.without_posix agent ...`: `parley` with what Windows lacks taken away, and its rules of files.

Modules that are POSIX's alone cannot be imported, except by the standard library and by filelock: on Windows they have
another way. Names that `os`, `signal` and `socket` lack there are gone (`os.uname` stays: NumPy asks it where it finds
itself on Linux). A path with a character or a name that Windows refuses is refused, and so is the sync of a file that
was opened to read, or of a folder.
"""

import fcntl
import importlib.abc
import importlib.util
import os
import re
import runpy
import signal
import socket
import stat
import sys
import sysconfig

MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop", "_posixshmem"}
NAMES = {
    os: (
        "chown chroot fchdir fchown fork forkpty getegid geteuid getgid getgroups getpgid getpgrp getpriority getsid "
        "getuid initgroups killpg lchown mkfifo mknod nice openpty pathconf posix_spawn pread preadv pwrite pwritev "
        "readv register_at_fork sched_getaffinity sched_yield sendfile setegid seteuid setgid setpgid setpriority "
        "setsid setuid statvfs sync sysconf wait wait3 wait4 waitid writev O_ASYNC O_CLOEXEC O_DIRECTORY O_DSYNC "
        "O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC"
    ),
    signal: (
        "SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGTTIN SIGTTOU "
        "SIGURG SIGUSR1 SIGUSR2 SIGXCPU SIGXFSZ alarm getitimer pause pthread_kill pthread_sigmask setitimer "
        "siginterrupt sigpending sigtimedwait sigwait sigwaitinfo"
    ),
    socket: "SO_REUSEPORT recv_fds send_fds",
}
REFUSED = re.compile(r'[<>:"|?*\\\x00-\x1f]|[ .]$')
DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
LIBRARY = (sysconfig.get_path("stdlib"), "<frozen")
PACKAGES = sysconfig.get_path("purelib")


def own_way(file):
    """Whether code of this file does without POSIX on Windows by itself."""
    inside = file.startswith(os.path.join(PACKAGES, "filelock") + os.sep)
    return inside or (file.startswith(LIBRARY) and not file.startswith(PACKAGES))


class Refusing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        if name.partition(".")[0] in MODULES and not own_way(frame.f_code.co_filename):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def checked(event, values):
    """No file or folder is made under a name that Windows refuses."""
    if event in ("open", "os.mkdir", "os.rename"):
        path, flags = values[1 if event == "os.rename" else 0], values[2] if event == "open" else os.O_CREAT
        made = isinstance(flags, int) and flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
        if not isinstance(path, str) or not made or path.startswith("/dev/"):
            return
        for part in path.split("/"):
            if (REFUSED.search(part) and part not in (".", "..")) or DEVICES.fullmatch(part):
                raise OSError(22, "Windows refuses this name", path)


def checked_sync(file, fsync=os.fsync):
    if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY or stat.S_ISDIR(os.fstat(file).st_mode):
        raise OSError(9, "Windows syncs only what may be written")
    fsync(file)


def take_away():
    for name in ("asyncio", "multiprocessing.util", "subprocess", "tempfile"):  # made for this system, as they are
        importlib.import_module(name)
    for name in MODULES - {"posix"}:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Refusing())
    os.fsync = checked_sync
    for module, names in NAMES.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    sys.addaudithook(checked)


if __name__ == "__main__":
    take_away()
    sys.argv[0] = "parley"
    runpy.run_module("parley", run_name="__main__", alter_sys=False)
