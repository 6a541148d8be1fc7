"""Optional dependencies: how to install what a part of the package needs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.version import __version__


def install(extra: str) -> str:
    """Return the command that installs an extra; the package is not on PyPI.

    It names the checkout or wheel that this package was installed from, if that still exists.

    Parameters
    ----------
    extra : str
        As pip knows it, for example ``"report"``.
    """
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"
    if (source := _installed_from()) is not None:
        return f"pip install {shlex.quote(f'{source}[{extra}]')}"
    wheel = f"lm_eval_epidemia-{__version__}-py3-none-any.whl"
    return (
        f"pip install '.[{extra}]' in a checkout, or from the wheel: pip install "
        f"'PATH/TO/{wheel}[{extra}]'"
    )


def _installed_from() -> Path | None:
    """Return the folder or wheel that pip recorded (PEP 610), if it still exists."""
    try:
        noted = distribution("lm-eval-epidemia").read_text("direct_url.json")
        url = urlsplit(json.loads(noted or "{}").get("url", ""))
        path = Path(url2pathname(url.path))
    except (PackageNotFoundError, ValueError, AttributeError):
        return None
    usable = path.suffix == ".whl" or (path / "pyproject.toml").is_file()
    return path if url.scheme == "file" and usable and path.exists() else None


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
        raise EpidemiaError(
            f"{what} needs {error.name}, which is not installed. Install it with: {install(extra)}"
        ) from None
