"""The store: sealed files of the user's own and of the package, and what follows from them.

Ground truth, sets of quantities, survey records and fresh sets lie in it. A file is read once, and
again when it is replaced. What follows from many files, such as which tasks there are, is computed
once from the disk as it was last looked at: `look_at_disk` opens a command, a run of lm-eval and
what Python users call, and follows every write.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from pydantic import ValidationError

from lm_eval_epidemia.core import notices, paths

State = Literal["shipped", "built here"]
P = ParamSpec("P")
T = TypeVar("T")

#: The user's files when the disk was last looked at, and what has followed from them since.
_disk: list[Any] = []
_known: dict[Any, tuple[Any, list[tuple[str, str]]]] = {}


def list_bases() -> list[tuple[Path, State]]:
    """Return the folders of what the user built and of what ships; the former takes precedence."""
    shipped = paths.shipped_groundtruth()
    built = paths.home() / "groundtruth"
    return [(built, "shipped" if built == shipped else "built here"), (shipped, "shipped")]


def stamp(path: Path) -> tuple[int, int, int]:
    """Return a stamp of a file that changes when the file is replaced, however fast."""
    status = path.stat()
    return status.st_mtime_ns, status.st_ino, status.st_size


def look_at_disk() -> None:
    """Look at the user's files: what follows from them is computed anew if any has changed."""
    files = (path for path in users_files() if path.is_file())
    disk = [paths.shipped_groundtruth(), *((path, stamp(path)) for path in files)]
    if disk != _disk:
        _disk[:] = disk
        _known.clear()


def users_files() -> Iterator[Path]:
    """Yield the user's files: records, fresh sets, truths, quantities; not what a build keeps."""
    for place in paths.named_records():
        yield from sorted(place.glob("*.yaml")) if place.is_dir() else [place]
    for name in ("surveys", "fresh", "groundtruth"):
        for folder, folders, files in os.walk(paths.home() / name):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            yield from (Path(folder, file) for file in sorted(files))


def read_disk_once(read: Callable[P, T]) -> Callable[P, T]:
    """Call a function once for the disk as it was last looked at; its warnings come every time."""

    @wraps(read)
    def known(*given: P.args, **options: P.kwargs) -> T:
        if not _disk:
            look_at_disk()
        key = read, given, *options.items()
        if key not in _known:
            with notices.collect_warnings() as warnings:
                _known[key] = read(*given, **options), warnings
        value, warnings = _known[key]
        for warning in warnings:
            notices.warn(*warning)
        return value

    return known


def read_once(read: Callable[..., T]) -> Callable[..., T]:
    """Cache what a function reads from a file (its first argument) until the file is replaced."""

    @lru_cache(maxsize=512)
    def kept(_stamp: tuple[int, int, int], path: Path, *more: Any) -> T:
        return read(path, *more)

    @wraps(read)
    def current(path: Path, *more: Any) -> T:
        return kept(stamp(path), path, *more)

    return current


#: As `paths.sha256_of`, once for every state of a file.
sha256_of = read_once(paths.sha256_of)


def seal_of(content: Any) -> str:
    """Return the hash of a JSON value, independent of key order and layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def describe_problem(error: Exception) -> str:
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
    look_at_disk()
