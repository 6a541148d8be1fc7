"""Sealed files: JSON records with hashes of themselves and of the tables they describe.

Ground truth and sets of quantities are stored this way, both the user's own and the shipped ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from lm_eval_epidemia.core import paths

State = Literal["shipped", "built here"]
T = TypeVar("T")


def bases() -> list[tuple[Path, State]]:
    """Return the folders of what the user built and of what ships; the former takes precedence."""
    shipped = paths.shipped_groundtruth()
    built = paths.home() / "groundtruth"
    return [(built, "shipped" if built == shipped else "built here"), (shipped, "shipped")]


def stamp(path: Path) -> tuple[int, int, int]:
    """Return a stamp of a file that changes when the file is replaced, however fast."""
    status = path.stat()
    return status.st_mtime_ns, status.st_ino, status.st_size


def read_once(read: Callable[..., T]) -> Callable[..., T]:
    """Cache what a function reads from a file (its first argument) until the file is replaced."""

    @lru_cache(maxsize=512)
    def kept(_stamp: tuple[int, int, int], path: Path, *more: Any) -> T:
        return read(path, *more)

    @wraps(read)
    def current(path: Path, *more: Any) -> T:
        return kept(stamp(path), path, *more)

    return current


@read_once
def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    return paths.sha256_of(path)


def seal_of(content: Any) -> str:
    """Return the hash of a JSON value, independent of key order and layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def problem(error: Exception) -> str:
    """Say where the first fault of a JSON text is, and what it is."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file in one step.

    Raises
    ------
    EpidemiaError
        If it cannot be written; the old file is then kept.
    """
    text = json.dumps(content, indent=1, ensure_ascii=False)
    with paths.atomic_write(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
