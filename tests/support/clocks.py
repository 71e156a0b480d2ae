"""Time as tests tell it."""


class Clock:
    """A clock that is set, or goes on by a step whenever it is looked at."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 100.0
        self._step = step

    def __call__(self) -> float:
        self.now += self._step
        return self.now
