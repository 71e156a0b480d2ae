"""Lets the child processes of a simulated system (`SVIR_AS`) play it too."""

import os
import sys

if os.environ.get("SVIR_AS"):
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
    import platforms

    del sys.path[0]
    platforms.install()
