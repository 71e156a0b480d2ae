"""How a call is ended from outside: by another thread that holds its token, or by a fork."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import weakref

from ..errors import Cancelled, SvirError


class Cancel:
    """Ends calls from any thread, in whichever phase they are; one token may cover many calls, at once or in turn.

    A call that is ended raises `Cancelled`; events that came in the same block may still be handed out before. A name
    that is being resolved is waited for.
    """

    def __init__(self) -> None:
        # Adding, discarding and copying are one step each: there is no lock that a fork could leave held in the child.
        self._covered: set[Endable] = set()
        self._event = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called; there is no way back."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Ends all calls under this token, and every later one before it begins. Returns at once."""
        self._event.set()
        for call in list(self._covered):
            call.interrupt()

    def wait(self, seconds: float) -> bool:
        """Sleeps so many seconds, but no longer than until `cancel`; returns whether it came."""
        return self._event.wait(seconds)

    def cover(self, call: Endable) -> None:
        """Takes a call under the token; svir does that itself."""
        self._covered.add(call)
        if self.cancelled:
            call.interrupt()

    def leave(self, call: Endable) -> None:
        """Lets a call go that is over; svir does that itself."""
        self._covered.discard(call)


class Endable:
    """What can be ended from outside: it keeps the sockets that its thread may be waiting on."""

    def __init__(self) -> None:
        self.stopped: bool = False
        self.failure: SvirError | None = None
        """What ended this try on the wire: urllib3 wraps what is raised through it, and swallows some."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        _all.add(self)

    def failed(self, error: SvirError) -> SvirError:
        """Remembers what ended this try, to be raised."""
        self.failure = error
        return error

    def check(self) -> None:
        """Raises `Cancelled` once the call was ended from outside."""
        if self.stopped:
            ours = self._process == os.getpid()
            by = "cancelled by the caller" if ours else "a call that belongs to the parent process"
            raise self.failed(Cancelled(f"expected an answer, got {by}"))

    def hold(self, sock: socket.socket) -> None:
        """Keeps a socket for `interrupt`, in time or not at all: one that came before is seen here."""
        with self._lock:
            self._sockets.append(sock)
        self.check()

    def drop(self, sock: socket.socket) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._sockets.remove(sock)

    def let_go(self) -> None:
        """Drops all sockets: the next call on a connection must not be ended in place of this one."""
        with self._lock:
            self._sockets.clear()

    def interrupt(self) -> None:
        """Ends a blocked connect, send or receive at once; `close` would not."""
        self.stopped = True
        self.shut()

    def shut(self) -> None:
        """Ends the connections for the other side too, even if a forked child holds copies of their descriptors. In
        that child it does nothing: they are the parent's."""
        if self._process == os.getpid():
            with self._lock:
                for sock in self._sockets:
                    with contextlib.suppress(OSError):
                        # Below TLS: `SSLSocket.shutdown` first goes back to plain text, and the thread of the call may
                        # be about to send, or to receive what is still there.
                        socket.socket.shutdown(sock, socket.SHUT_RDWR)


_all: weakref.WeakSet[Endable] = weakref.WeakSet()


def _in_child() -> None:
    """After a fork: calls on their way are the parent's, and a child that read on would take bytes away from it."""
    for call in list(_all):
        call.stopped = True
        call._lock = threading.Lock()  # another thread may have held the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
