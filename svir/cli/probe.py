"""`svir probe`: what a server and a model really do, as a table that grows with each answer."""

from __future__ import annotations

import argparse
import sys

from .. import probe
from . import command, exits, target, terminal

_NAME, _VALUE = 14, 17

_EXAMPLES = """\
examples:
  svir probe http://localhost:1234
  svir probe http://localhost:8000/v1 --model qwen3 --json > qwen3.jsonl
  svir probe https://api.example.com --key-env MY_KEY --model m
"""


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    parser = command.declared(
        commands,
        "probe",
        run,
        help="find out what a server really does",
        about="Sends about 20 small requests, one after the other, and prints what the server and the model "
        "do with them. A request that fails is a finding, and does not fail the command.",
        epilog=_EXAMPLES + "\n" + exits.EPILOG,
    )
    parser.add_argument("url", nargs="?", metavar="URL", help=target.URL_HELP)
    target.add_key(parser)
    parser.add_argument("--model", help="the model (default: the first chat model that the server lists)")
    parser.add_argument("--json", action="store_true", help="print a JSON object a line: name, value, evidence")
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=256,
        metavar="N",
        help="of each answer (default: 256; more for long reasoning)",
    )


def run(arguments: argparse.Namespace, /) -> int:
    """Runs the probe, prints each finding at once, and returns the exit code."""
    with target.client(arguments, model=arguments.model) as client:
        for finding in probe.run(client, max_tokens=arguments.max_tokens):
            if arguments.json:
                sys.stdout.buffer.write(terminal.json_line(finding))
                sys.stdout.buffer.flush()
            else:
                print(_row(finding), flush=True)
    return exits.ANSWERED


def _row(finding: probe.Finding) -> str:
    cells = f"{finding.name:{_NAME}}  {finding.value:{_VALUE}}  {finding.evidence}"
    return " ".join(terminal.visible(cells).rstrip().splitlines())
