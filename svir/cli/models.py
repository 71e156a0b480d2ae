"""`svir models`: the models of a server, as a table."""

from __future__ import annotations

import argparse
import sys

from .. import Model
from . import command, exits, target, terminal

_HEAD = ("id", "context", "inputs")

_EXAMPLES = """\
examples:
  svir models
  svir models --url https://api.example.com --key-env EXAMPLE_KEY
  svir models --url http://localhost:8000 | awk 'NR > 1 { print $1 }'
"""


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    parser = command.declared(
        commands,
        "models",
        run,
        help="list a server's models",
        about="Lists the models of a server; a dash is shown for what the server does not report.",
        epilog=_EXAMPLES + "\n" + exits.EPILOG,
    )
    target.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each model")


def run(arguments: argparse.Namespace, /) -> int:
    """Requests the list, shows the table, and returns the exit code."""
    with target.client(arguments) as client:
        models = client.models()
    if arguments.json:
        sys.stdout.buffer.write(b"".join(map(terminal.json_line, models)))
    elif models:
        terminal.table([_row(model) for model in models], head=_HEAD)
    else:
        terminal.note("the server lists no models")
    return exits.ANSWERED


def _row(model: Model) -> tuple[str, str, str]:
    context = "-" if model.context is None else f"{model.context:,}"
    return model.id, context, ", ".join(model.inputs) or "-"
