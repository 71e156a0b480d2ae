"""The pytest fixture `svir_replay`, which pytest finds by itself where svir is installed.

    def test_the_answer_is_shown(svir_replay):
        server = svir_replay(Path("answer.http"))
        my_program(server.url)
        assert len(server.requests) == 1

It is the only file that imports pytest. An installation has it as `svir_pytest`, beside the package and not in it
(see pyproject.toml): pytest loads it at every start, and it must not bring svir along before a test asks for it.
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
    """Starts servers that play answers: takes what `svir.testing.ReplayServer` takes, and returns a started one.

    Each ends with the test, which fails with what failed on the server's side.
    """
    from svir.testing import ReplayServer

    with ExitStack() as servers:

        def replay(*answers: Any, **options: Any) -> ReplayServer:
            return servers.enter_context(ReplayServer(*answers, **options))

        yield replay
