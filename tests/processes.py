"""Python in a process of its own: what this one has imported, patched or warned of is not there."""

from conftest import in_a_process


def python(code, *arguments, **how):
    """Run code to its end; return what it printed."""
    done = in_a_process("-c", code, *arguments, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout
