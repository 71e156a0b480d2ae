"""The exit codes of all commands, and which error ends in which."""

from __future__ import annotations

from .. import ConnectError, RequestError, SourceError, SvirError, TimedOut

ANSWERED = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
CUT = 4
INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 and SIGPIPE, as a shell reports a program that the signal ended."""

EPILOG = """\
exit codes:
  0    the answer is complete
  1    the server refused the request or the answer broke off, or the output could not be written
  2    the command, the request or a file is wrong: nothing was sent
  3    no connection, or a time limit passed
  4    the answer was cut at the token limit
  130  interrupted (Ctrl-C)
  141  the output was closed by its reader
"""


def of(error: SvirError, /) -> int:
    """The exit code of a command that ends with an error."""
    if isinstance(error, RequestError | SourceError):
        return USAGE
    if isinstance(error, ConnectError | TimedOut):
        return UNREACHABLE
    return FAILED
