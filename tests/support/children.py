"""What the tests share that need a Python of their own: it ends in time, or fails with what its threads were doing."""

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parent

# What hangs is told with every stack, before the parent would only say that it was late.
_GUARDED = """
import faulthandler, sys
def alive(seconds={seconds}):  # from here on nothing may take longer
    faulthandler.dump_traceback_later(seconds, exit=True)
alive()
"""


def python(program: str, *arguments: object, seconds: float = 60.0) -> str:
    """What a program prints. It may call `alive(seconds)` to be given so much time from then on.

    Args:
        arguments: its `sys.argv[1:]`.
        seconds: after which it hangs.
    """
    command = [sys.executable, "-c", _GUARDED.format(seconds=seconds) + program, *map(str, arguments)]
    own = Path(sys._getframe(1).f_code.co_filename).parent  # a test's program may use the names of its file
    paths = [str(SUPPORT.parent.parent), str(SUPPORT), str(own), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=4 * seconds, env=env)
    assert ran.returncode == 0, f"exit code {ran.returncode}\n{ran.stdout[-2000:]}\n{ran.stderr[-6000:]}"
    return ran.stdout
