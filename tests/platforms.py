"""The suite as another system would run it: `SVIR_AS=windows pytest`, `SVIR_AS=darwin pytest`.

svir, and urllib3 below it, see modules that lack what that system lacks, and have what it has in their place. The
tests, pytest and the standard library keep the machine that they run on. What is simulated is which names are there,
and not how another kernel behaves.

Tests that are by nature Unix carry the marker `unix`, those that need Linux `linux`, each with the reason. They are
deselected where they cannot hold, and so are the files whose subject knows no system; the summary says what and why.
"""

import fcntl
import importlib
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pytest

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

# Whose subject is bytes and values alone: no socket, no file, no process, and minutes of cuts.
ALIKE = [
    *("test_answer_bounds.py", "test_any_body.py", "test_body.py", "test_carriers.py", "test_framing.py"),
    *("test_odd_values.py", "test_overflow.py", "test_parse.py", "test_pydantic_types.py", "test_reader.py"),
    *("test_schema.py", "test_sse.py", "test_streams.py", "test_template.py", "test_turn.py"),
]


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
        if name in self._own or any(fnmatchcase(name, pattern) for pattern in self._lacks):
            vars(self)[name] = value
        else:
            setattr(self._real, name, value)

    def __delattr__(self, name: str) -> None:
        if name in vars(self):
            del vars(self)[name]
        else:
            delattr(self._real, name)


class _Finder(MetaPathFinder):
    """Finds svir and urllib3, whose import statements then see the modules of a system."""

    def __init__(self, system: System) -> None:
        names = {*system.lacks, *system.has}
        self._absent = system.absent.split()
        self._modules = {
            name: _Module(name, _real(name), system.lacks.get(name, ""), system.has.get(name, {})) for name in names
        }
        self._import = __import__
        self.builtins: dict[str, Any] = _Builtins({"__import__": self._imported})

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _SIMULATED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self.builtins)
        return spec

    def _imported(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and name in self._modules:
            return self._modules[name]
        if level == 0 and name in self._absent:
            raise ModuleNotFoundError(f"No module named {name!r} here", name=name)
        return self._import(name, globals, locals, fromlist, level)


class _Builtins(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        try:
            return getattr(importlib.import_module("builtins"), name)
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


class Deselection:
    """The part of pytest's plugin that leaves out what cannot hold on the simulated system."""

    def __init__(self) -> None:
        self._why: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, config: "pytest.Config", items: "list[pytest.Item]") -> None:
        why = [next(_reasons(item), None) for item in items]
        out = [item for item, reason in zip(items, why, strict=True) if reason is not None]
        if out:
            self._why.update(filter(None, why))
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item, reason in zip(items, why, strict=True) if reason is None]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for reason, count in sorted(self._why.items()):
            terminalreporter.write_line(f"as {simulated()}: {count} left out: {reason}")


def _reasons(item: "pytest.Item") -> Iterator[str]:
    """Why a test is not run on the simulated system."""
    if item.path.name in ALIKE:
        yield "bytes and values, which know no system"
    for marker in ("linux", "unix") if simulated() == "windows" else ("linux",):
        if found := item.get_closest_marker(marker):
            yield f"{marker}: {found.args[0]}"
