"""Which server a command talks to, and with which key: the key is passed in an environment variable, never as text."""

from __future__ import annotations

import argparse
import os

from .. import Client, RequestError

URL_HELP = (
    "the base URL of the server; without a path /v1 is meant "
    "(default: $OPENAI_BASE_URL, with $OPENAI_API_KEY; else http://localhost:1234)"
)


def add_options(parser: argparse.ArgumentParser, /) -> None:
    """Declares `--url`, `--key-env` and `--query`."""
    parser.add_argument("--url", help=URL_HELP)
    add_key(parser)


def add_key(parser: argparse.ArgumentParser, /) -> None:
    """Declares `--key-env` and `--query`."""
    parser.add_argument(
        "--query",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="Azure's api-version and the like",
    )
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help="the environment variable that holds the key; needed with --url, where no other key is sent",
    )


def client(arguments: argparse.Namespace, /, *, model: str | None = None, think_tags: bool = True) -> Client:
    """A client of the server that the options name.

    Raises:
        RequestError: the URL is invalid, or the variable is unset or empty.
    """
    return Client(
        arguments.url,
        api_key=_key(arguments.key_env),
        query=dict(arguments.query),
        model=model or os.environ.get("OPENAI_MODEL") or None,
        think_tags=think_tags,
    )


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        # The name is not repeated: it may be the key itself, passed by mistake.
        raise RequestError("the environment variable named by --key-env is unset or empty")
    return key
