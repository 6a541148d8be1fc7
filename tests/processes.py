"""Python in a process of its own: what this one has imported, patched or warned of is not there."""

import subprocess
import sys


def python(code, *arguments, **how):
    """Run code to its end; return what it printed."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout
