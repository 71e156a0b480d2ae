"""Processes and turns: a server, a worker for each arm, and samples taken round by round."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from . import certificates
from .arms import SAFE_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

ROOT = Path(__file__).parent.parent

Case = tuple[str, ...]
Job = dict[str, Any]


@dataclass
class Row:
    """An arm in a case, and what was measured each time.

    Args:
        case: what was done, from the general to the particular.
        arm: who did it.
        samples: figures by name, in seconds and bytes.
        note: why there are none.
    """

    case: Case
    arm: str
    samples: list[dict[str, float]] = field(default_factory=list)
    note: str = ""

    def all(self, figure: str, /) -> list[float]:
        return [sample[figure] for sample in self.samples]

    def low(self, figure: str, /) -> float:
        return min(self.all(figure))

    def middle(self, figure: str, /) -> float:
        return statistics.median(self.all(figure))

    def high(self, figure: str, /) -> float:
        return max(self.all(figure))


class Worker:
    """A worker process; it is ended, not waited for, when it takes longer than allowed."""

    def __init__(self, benchmark: str, arm: str, url: str) -> None:
        command = [sys.executable, "-m", f"{__package__}.worker", benchmark, arm, url]
        self._process = started(command, stderr=subprocess.DEVNULL)

    def ask(self, job: Job, patience: float) -> dict[str, Any]:
        """What came of a job: figures, or a note."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"note": "its process ended"}
        if not select.select([self._process.stdout], [], [], patience)[0]:
            self._process.kill()
            return {"note": f"not done after {patience:.0f} s"}
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"note": f"its process ended with {self._process.wait()}"}

    def close(self) -> None:
        ended(self._process)


class Lab:
    """The server and the workers of one run; a context manager that ends all of them.

    Args:
        quick: a smoke check, whose figures mean little.
        say: told what is being done.
        minutes: how long to soak.

    Attributes:
        url: where the server is.
        tls: where it speaks TLS, and the file of its certificate; `None` without the openssl command.
    """

    tls: tuple[str, str] | None = None

    def __init__(self, *, quick: bool, say: Callable[[str], object], minutes: float = 2.0) -> None:
        self.quick = quick
        self.minutes = minutes
        self.say = say
        self._workers: dict[tuple[str, str], Worker] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        file = certificates.made(Path(self._folder.name))
        self._server = started([sys.executable, "-m", f"{__package__}.server", *([str(file)] if file else [])])
        assert self._server.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._server.stdout.readline())}"
        if file:
            self.tls = f"https://127.0.0.1:{int(self._server.stdout.readline())}", str(file)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.dismiss()
        ended(self._server)
        self._folder.cleanup()

    def dismiss(self) -> None:
        """Ends the workers."""
        while self._workers:
            self._workers.popitem()[1].close()

    def take_turns(
        self,
        benchmark: str,
        arms: Iterable[str],
        cases: Iterable[Case],
        job_of: Callable[[Case, str], Job | None],
        *,
        rounds: int,
        fresh: bool = False,
        patience: float = 120.0,
    ) -> list[Row]:
        """Samples of every case and arm, one of each in every round: what the machine does besides falls on all.

        Args:
            benchmark: the module whose `prepare` and `job` the workers call.
            arms: what is compared.
            cases: what each of them does.
            job_of: the job of an arm in a case; none leaves it out. One with a `run` is told the number of the round.
            rounds: samples of each arm.
            fresh: whether each sample gets a process of its own.
            patience: seconds that one sample may take.
        """
        pairs = [(Row(case, arm), job_of(case, arm)) for case in cases for arm in arms]
        rows = [(row, job) for row, job in pairs if job is not None]
        for turn in range(rounds):
            for row, job in rows:
                if not row.note:
                    self.say(f"{benchmark}, round {turn + 1} of {rounds}: {', '.join(row.case)}: {row.arm}")
                    self._sample(benchmark, row, job | ({"run": turn} if "run" in job else {}), patience)
                    if fresh:
                        self.dismiss()
        self.dismiss()
        return [row for row, _ in rows]

    def _sample(self, benchmark: str, row: Row, job: Job, patience: float) -> None:
        worker = self._workers.get((benchmark, row.arm))
        answer: dict[str, Any] = {}
        if worker is None:
            worker = self._workers[benchmark, row.arm] = Worker(benchmark, row.arm, self.url)
            answer = worker.ask({}, patience)
        if "note" not in answer:
            answer = worker.ask(job, patience)
        if "note" in answer:
            row.note = answer["note"]
            self._workers.pop((benchmark, row.arm)).close()
        else:
            row.samples.append(answer)


def started(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """A process of ours, whose standard input is its life line."""
    unwanted = ("http_proxy", "https_proxy", "all_proxy", "openai_", "python")
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(unwanted)}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**kept, **SAFE_ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def ended(process: subprocess.Popen[str]) -> None:
    """Ends a process: its standard input is over, and it is killed if that does not do."""
    try:
        process.communicate(timeout=5)
    except (subprocess.TimeoutExpired, ValueError, OSError):
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
