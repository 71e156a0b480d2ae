"""What the exit code of a command says, once for all of them."""

from __future__ import annotations

from .. import ConnectError, RequestError, SourceError, SvirError, TimedOut

ANSWERED = 0
FAILED = 1
USAGE = 2
UNREACHED = 3
INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 and SIGPIPE, as a shell reports a program that the signal ended."""

EPILOG = """\
exit codes:
  0    the answer is complete
  1    the server refused the request, or broke the answer off; or the output could not be written
  2    the command, the request or a file is wrong: nothing was sent
  3    no connection, or a time limit
  130  interrupted (Ctrl-C)
  141  whoever read the output went away
"""


def of(error: SvirError, /) -> int:
    """The exit code for a command that an error ended."""
    if isinstance(error, RequestError | SourceError):
        return USAGE
    if isinstance(error, ConnectError | TimedOut):
        return UNREACHED
    return FAILED
