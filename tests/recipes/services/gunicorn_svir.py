"""gunicorn: `gunicorn --config gunicorn_svir.py flask_svir:app`

The client is made once, before the fork, and each worker opens connections of its own. A worker that is to stop ends
the answers that it passes on, and does not wait for them until `graceful_timeout`.
"""

import signal
from types import FrameType
from typing import Any

worker_class = "gthread"
workers = 2
threads = 32
preload_app = True


def post_worker_init(worker: Any) -> None:
    from flask_svir import stopping

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.cancel()
        worker.handle_exit(number, frame)

    signal.signal(signal.SIGTERM, stop)
