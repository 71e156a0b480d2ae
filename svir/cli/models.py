"""`svir models`: the models of a server, as a table."""

from __future__ import annotations

import argparse

from .. import Model
from . import exits, target, terminal

_HEAD = ("id", "context", "inputs")

_EXAMPLES = """\
examples:
  svir models
  svir models --url https://api.example.com --key-env EXAMPLE_KEY
  svir models --url http://localhost:8000 | awk 'NR > 1 { print $1 }'
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "models",
        help="list a server's models",
        description="Lists the models of a server; a dash is shown for what the server does not report.",
        epilog=_EXAMPLES + "\n" + exits.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    target.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, /) -> int:
    """Requests the list, shows the table, and returns the exit code."""
    with target.client(arguments) as client:
        models = client.models()
    if models:
        terminal.table([_row(model) for model in models], head=_HEAD)
    else:
        terminal.note("the server lists no models")
    return exits.ANSWERED


def _row(model: Model) -> tuple[str, str, str]:
    context = "-" if model.context is None else f"{model.context:,}"
    return model.id, context, ", ".join(model.inputs) or "-"
