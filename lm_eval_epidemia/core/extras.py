"""Optional dependencies: how to install what a part of the package needs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.version import __version__


def install(extra: str) -> str:
    """Return the command that installs an extra; the package is not on PyPI.

    It names the checkout that runs, if one does.

    Parameters
    ----------
    extra : str
        As pip knows it, for example ``"report"``.
    """
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"
    wheel = f"lm_eval_epidemia-{__version__}-py3-none-any.whl"
    return (
        f"pip install '.[{extra}]' in a checkout, or from the wheel: pip install "
        f"'PATH/TO/{wheel}[{extra}]'"
    )


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Guard the imports in a block: if a package of an extra is missing, say how to install it.

    Parameters
    ----------
    extra : str
        As pip knows it, for example ``"report"``.
    what : str
        What needs it, for example ``"plot"``, for the message.

    Raises
    ------
    EpidemiaError
        Instead of the ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("lm_eval_epidemia"):
            raise
        needed = f"{what} needs {error.name}, which is not installed"
        raise EpidemiaError(f"{needed}: {install(extra)}") from None
