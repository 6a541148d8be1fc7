"""Reading and checking the arguments of ``--model choice-api``, which lm-eval may pass as text."""

from __future__ import annotations

import math
import ssl
import threading
from collections.abc import Iterable
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError


def one_of(name: str, given: Any, expected: str, known: Iterable[Any]) -> None:
    """Refuse an argument that is not one of the known values."""
    if repr(given) not in map(repr, known):  # 1 is not True
        raise EpidemiaError(f"choice-api: {name}={given}: expected {expected}")


def number_of(name: str, given: Any, least: float, whole: bool = False) -> Any:
    """Read a numeric argument, which lm-eval may pass as text."""
    try:
        number = int(str(given)) if whole else float(given)
    except (TypeError, ValueError):
        number = math.nan
    # Larger numbers must be typing errors.
    if not least <= number <= threading.TIMEOUT_MAX:
        kind = "a whole number" if whole else "a number"
        raise EpidemiaError(f"choice-api: {name}={given}: expected {kind} of at least {least:g}")
    return number


def certificates(path: str | None) -> bool | ssl.SSLContext:
    """Return the authorities to check certificates against: the usual ones, or those of a file."""
    if path is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(path))
    except OSError as error:  # also an SSLError: not a file of certificates
        raise EpidemiaError(
            f"choice-api: ca_cert_path={path} is not a file of certificates (PEM): {error}"
        ) from None
