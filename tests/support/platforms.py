"""The suite as another system would run it: `SVIR_AS=windows pytest`, `SVIR_AS=darwin pytest`.

svir, and urllib3 below it, see modules that lack what that system lacks, and have what it has in their place. The
tests, pytest and the standard library keep the machine that they run on. What is simulated is which names are there,
and not how another kernel behaves.

Which tests run there: `deselection.py`.
"""

import builtins
import fcntl
import importlib
import os
import socket
import struct
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

_SIMULATED = ("svir", "urllib3")


def _no_dir_fd(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    return os.open(path, flags, mode)


class System(NamedTuple):
    """What a system lacks: modules, and by module the patterns of names; and what it has instead."""

    absent: str
    lacks: Mapping[str, str]
    has: Mapping[str, Mapping[str, Any]]


def _pack(form: str, *values: Any) -> bytes:
    """SO_LINGER in the form of this kernel, which refuses that of Windows."""
    return struct.pack("ii" if form == "hh" else form, *values)


def _locking(file: int, mode: int, size: int) -> None:
    fcntl.flock(file, mode)


# Source: what the documentation of each module says of its availability, and typeshed.
SYSTEMS = {
    "windows": System(
        absent="fcntl resource termios tty pty pwd grp posix readline syslog curses",
        lacks={
            "select": "*poll *POLL* kqueue kevent KQ_* PIPE_BUF",
            "os": "*fork* pread* pwrite* readv writev get[ue]*id get*gid getsid set*id getpg* setpg* getlogin killpg "
            "mkfifo mknod openpty sched_* sysconf* *statvfs wait* W[A-Z]* sendfile memfd_* eventfd* EFD_* posix_* "
            "POSIX_* pipe2 *chown nice getloadavg tc?etpgrp ttyname uname ctermid *xattr* XATTR_* copy_file_range "
            "splice getrandom pidfd_* O_CLOEXEC O_NONBLOCK O_NDELAY O_NOFOLLOW O_DIRECTORY O_NOCTTY O_*SYNC O_PATH "
            "O_DIRECT O_NOATIME O_TMPFILE O_LARGEFILE O_ACCMODE SEEK_DATA SEEK_HOLE RWF_* fwalk",
            "signal": "SIGKILL SIGHUP SIGQUIT SIGUSR? SIGPIPE SIGALRM SIGCHLD SIGCLD SIGCONT SIGSTOP SIGTSTP SIGTT?? "
            "SIGWINCH SIGBUS SIGIO SIGPOLL SIGPROF SIGPWR SIGRT* SIGSTKFLT SIGSYS SIGTRAP SIGURG SIGVTALRM SIGXCPU "
            "SIGXFSZ SIG_BLOCK SIG_UNBLOCK SIG_SETMASK pthread_* *itimer alarm pause sig*wait* sigpending siginterrupt",
            "socket": "AF_UNIX AF_PACKET AF_NETLINK MSG_DONTWAIT MSG_NOSIGNAL MSG_MORE MSG_CMSG_CLOEXEC SOCK_CLOEXEC "
            "SOCK_NONBLOCK SO_REUSEPORT SO_MARK SO_BINDTODEVICE TCP_NOTSENT_LOWAT TCP_USER_TIMEOUT TCP_CORK "
            "TCP_QUICKACK TCP_INFO TCP_DEFER_ACCEPT send_fds recv_fds CMSG_*",
            "time": "clock_* CLOCK_* pthread_* tzset",
        },
        has={
            "sys": {"platform": "win32"},
            "os": {"name": "nt", "O_BINARY": 0, "supports_dir_fd": set(), "open": _no_dir_fd},
            "signal": {"SIGBREAK": 21},
            # A process group of its own is asked for with a flag, which means nothing here.
            "subprocess": {"CREATE_NEW_PROCESS_GROUP": 0},
            "socket": {"errorTab": {}},
            "struct": {"pack": _pack},
            "msvcrt": {"locking": _locking, "LK_NBLCK": fcntl.LOCK_EX | fcntl.LOCK_NB, "LK_UNLCK": fcntl.LOCK_UN},
        },
    ),
    "darwin": System(
        absent="msvcrt spwd ossaudiodev",
        lacks={
            "select": "epoll EPOLL* POLLRDHUP",
            # preadv came with macOS 11, and a Python that is built for older ones has none.
            "os": "preadv pwritev RWF_* sched_[gs]et* memfd_* eventfd* EFD_* pipe2 *resuid *resgid posix_fadvise "
            "posix_fallocate POSIX_FADV_* *xattr* XATTR_* copy_file_range splice getrandom GRND_* pidfd_* P_PIDFD "
            "O_PATH O_DIRECT O_NOATIME O_TMPFILE O_LARGEFILE O_RSYNC fdatasync",
            "signal": "sigtimedwait sigwaitinfo SIGPWR SIGSTKFLT SIGPOLL SIGCLD SIGRT*",
            "socket": "AF_PACKET AF_NETLINK MSG_NOSIGNAL MSG_MORE MSG_CMSG_CLOEXEC SOCK_CLOEXEC SOCK_NONBLOCK SO_MARK "
            "SO_BINDTODEVICE TCP_KEEPIDLE TCP_USER_TIMEOUT TCP_CORK TCP_QUICKACK TCP_INFO TCP_DEFER_ACCEPT",
            "resource": "prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RT* RLIMIT_SIGPENDING RUSAGE_THREAD",
            "time": "CLOCK_BOOTTIME CLOCK_TAI",
        },
        has={"sys": {"platform": "darwin"}, "socket": {"TCP_KEEPALIVE": getattr(socket, "TCP_KEEPIDLE", 0)}},
    ),
}


class _Module(ModuleType):
    """A module as a system has it."""

    def __init__(self, name: str, real: Any, lacks: str, has: Mapping[str, Any]) -> None:
        super().__init__(name)
        vars(self).update(has, _real=real, _lacks=lacks.split(), _own=frozenset(has))

    def __getattr__(self, name: str) -> Any:
        if any(fnmatchcase(name, pattern) for pattern in self._lacks):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} here")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__name__ == "sys" and name not in self._own:
            setattr(self._real, name, value)  # a hook, or an output, that svir sets for the process
        else:
            super().__setattr__(name, value)  # a test's


class _Finder(MetaPathFinder):
    """Finds svir and urllib3, whose import statements then see the modules of a system."""

    def __init__(self, system: System) -> None:
        names = {*system.lacks, *system.has}
        self._absent = system.absent.split()
        self._modules = {
            name: _Module(name, _real(name), system.lacks.get(name, ""), system.has.get(name, {})) for name in names
        }
        self._before = {name: sys.modules.get(name) for name in [*self._absent, *names]}
        self.builtins: dict[str, Any] = _Builtins({"__import__": self._imported})

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _SIMULATED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self.builtins)
        return spec

    def _imported(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        # What a test puts in a module's place is what svir gets.
        if level == 0 and name in self._before and sys.modules.get(name) is self._before[name]:
            if name in self._absent:
                raise ModuleNotFoundError(f"No module named {name!r} here", name=name)
            return self._modules[name]
        return builtins.__import__(name, globals, locals, fromlist, level)


class _Builtins(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        try:
            return getattr(builtins, name)
        except AttributeError:
            raise KeyError(name) from None


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, builtins: dict[str, Any]) -> None:
        super().__init__(name, path)
        self._builtins = builtins

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._builtins
        super().exec_module(module)


def _real(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:  # one that only the other system has
        return SimpleNamespace()


def simulated() -> str:
    """The system that this process plays, "" for its own."""
    return os.environ.get("SVIR_AS", "")


def install() -> None:
    """Takes away what the system of `SVIR_AS` lacks, from what is imported from here on and in child processes."""
    if not (name := simulated()):
        return
    if name not in SYSTEMS:
        raise RuntimeError(f"expected SVIR_AS to be {' or '.join(SYSTEMS)}, got {name!r}")
    if early := {*_SIMULATED} & {*sys.modules}:
        raise RuntimeError(f"expected to be installed first, got {', '.join(early)} imported before")
    sys.meta_path.insert(0, _Finder(SYSTEMS[name]))
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(Path(__file__).parent / "simulated"), *filter(None, before)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
