"""The pytest fixture `svir_replay`, which pytest finds where svir is installed.

    def test_the_answer_is_shown(svir_replay):
        server = svir_replay(Path("answer.http"))
        my_program(server.url)
        assert len(server.requests) == 1

It is the only file that imports pytest. It is installed as `svir_pytest`, beside the package and not in it (see
pyproject.toml): pytest loads it at every start, and must not import svir before a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from svir.testing import ReplayServer

Replay: TypeAlias = "Callable[..., ReplayServer]"


@pytest.fixture
def svir_replay() -> Iterator[Replay]:
    """Starts servers that play answers: called like `svir.testing.ReplayServer`, it returns a running server.

    Each is stopped at the end of the test, which fails for an error on the server's side.
    """
    from svir.testing import ReplayServer

    with ExitStack() as servers:

        def replay(*answers: Any, **options: Any) -> ReplayServer:
            return servers.enter_context(ReplayServer(*answers, **options))

        yield replay
