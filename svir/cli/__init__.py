"""`svir` on the command line: each command stands on the public names, as a program of anybody's would.

In:   the arguments of one command, and standard input where a command reads it.
Out:  results on standard output, everything about them on standard error, and an exit code.

`main`, below, finds the command, runs it, and reports in one line what went wrong. Each command has a file of its own
with `add`, which declares it, and `run`, which returns the exit code.

Files, in the order in which to read them:

exits.py      exit codes, once for all commands
terminal.py   lines, notes, complaints and tables; when colours are used, and what foreign text must not do
target.py     which server a command talks to, and with which key
command.py    how a command is declared, and what several take; schemas.py: the form of an answer
chat.py       one question, or a conversation (conversation.py); page.py writes answers, gauge.py draws progress bars
models.py     the models of a server
probe.py      what `svir.probe` finds
batch.py      a file of requests: batch_input.py reads it, batch_output.py and batch_format.py write the results,
              meter.py shows the progress
label.py      the photos of a folder, as such a batch
record.py     answers of a real server into files
replay.py     what svir makes of such files, or a server of them
demo.py       what `svir.demo` runs and measures

Rules: OpenAI's API reference for the batch format, https://no-color.org, and exit codes as shells report them.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator

from .. import SvirError, __version__
from . import exits, terminal

_EXAMPLES = """\
examples:
  svir chat "Why is the sky blue?" --url http://localhost:1234
  git diff | svir chat "Review this."
  svir label photos/ --schema "title, people int" -o labels.jsonl
  svir models --url http://localhost:1234
  svir COMMAND --help                          explains one command
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    Args:
        argv: the arguments after the program's name; by default those of this process.

    Raises:
        SystemExit: after `--help` and `--version`, and with 2 when the arguments are wrong.
    """
    _replace_closed_outputs()
    _write_utf_8()
    try:
        with _quiet_interrupts():
            arguments = _parser().parse_args(argv)
            code: int = arguments.run(arguments)
            sys.stdout.flush()
            return code
    except SvirError as error:
        terminal.complain(str(error))
        return exits.of(error)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal wrote ^C where the prompt would stand
        return exits.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return exits.BROKEN_PIPE
    except UnicodeEncodeError as error:
        _silence_stdout()
        lacking = f"U+{ord(error.object[error.start]):04X}"
        terminal.complain(f"the output is {error.encoding}, which lacks {lacking}")
        return exits.FAILED
    except OSError as error:
        if _reader_left(error):
            _silence_stdout()
            return exits.BROKEN_PIPE
        if error.filename is not None:
            terminal.complain(f"cannot use {error.filename}: {error.strerror}")
            return exits.USAGE
        _silence_stdout()
        terminal.complain(f"cannot write the output: {error.strerror}")
        return exits.FAILED


def _parser() -> argparse.ArgumentParser:
    # Here and not at the top: Ctrl-C while they load ends the command as it does later on.
    from . import batch, chat, demo, label, models, probe, record, replay

    parser = argparse.ArgumentParser(
        prog="svir",
        description="A streaming client for OpenAI-compatible chat completions.",
        epilog=_EXAMPLES + "\n" + exits.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"svir {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (chat, label, batch, models, probe, record, replay, demo):
        command.add(commands)
    return parser


@contextlib.contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Ctrl-C may interrupt the construction of an object, whose destructor then fails: that shows no traceback."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: object) -> None:
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt


def _replace_closed_outputs() -> None:
    """An output that was closed before the start is discarded; its file descriptor must not become a socket's."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as this runs


def _write_utf_8() -> None:
    """What is piped is UTF-8, whatever the code page, and a file's name keeps its bytes.

    What another encoding lacks, asked for with `PYTHONIOENCODING`, is an error. On a terminal and among complaints it
    is an escape: no reason to lose the answer.
    """
    is_asked_for = bool(os.environ.get("PYTHONIOENCODING"))
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty() or (is_asked_for and stream is sys.stderr):
            stream.reconfigure(errors="backslashreplace")
        elif not is_asked_for:
            stream.reconfigure(encoding="utf-8", errors=errors)


def _reader_left(error: OSError) -> bool:
    """On Windows a pipe whose reader has gone is an invalid argument."""
    return sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None


def _silence_stdout() -> None:
    """Discards what the interpreter flushes at its end: it would report the broken pipe again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
